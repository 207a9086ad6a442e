"""`jackstay complete`: complete an argument of a prompt or of a resource template."""

from argparse import ArgumentParser, Namespace

from jackstay.cli import _target
from jackstay.cli._output import print_json
from jackstay.cli._running import with_client
from jackstay.cli._values import pairs
from jackstay.client import Client
from jackstay.shell import Screen, StatusLine, escape_controls
from jackstay.types import PromptReference, ResourceTemplateReference


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of this command."""
    _target.add_arguments(
        parser,
        "NAME KEY=START ...",
        "https://example.org/mcp review language=py",
        "--config mcp.json notes 'note://{id}' id=1",
        "review language=py -- ./server.py",
        more="\nNAME is a prompt or a URI template; the other pairs are known arguments.",
    )


def run(arguments: Namespace) -> int:
    """Print the completions, a line each."""
    selected, words = _target.select_server(arguments)
    name = _target.pop_word(words, "NAME")
    _target.pop_word(words[:1], "ARGUMENT=START")
    given = pairs(words)
    argument = next(iter(given))
    start = given.pop(argument)
    reference = ResourceTemplateReference(uri=name) if "://" in name else PromptReference(name=name)

    async def work(client: Client) -> None:
        with StatusLine("completing"):
            completion = await client.completion.complete(reference, argument, start, given or None)
        if arguments.json:
            print_json(completion.raw)
            return
        screen = Screen()
        for value in completion.values:
            screen.print_line(escape_controls(value))

    return with_client(arguments, selected, work)
