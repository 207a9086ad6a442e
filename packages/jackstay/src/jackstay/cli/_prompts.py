"""`jackstay prompts`: list the prompts of a server, or get one with its arguments."""

from argparse import ArgumentParser, Namespace
from functools import partial

from jackstay.cli import _target
from jackstay.cli._output import print_json, print_text, text_of
from jackstay.cli._running import with_client
from jackstay.cli._user_input import is_interactive, read_argument
from jackstay.cli._values import pairs
from jackstay.client import Client
from jackstay.errors import Json, JsonRpcError, UsageError, did_you_mean
from jackstay.shell import BOLD, Screen, StatusLine, first_line
from jackstay.types import Prompt


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of this command."""
    _target.add_arguments(
        parser,
        "[get NAME KEY=VALUE]",
        "https://example.org/mcp",
        "--config mcp.json notes get review code=x",
        "get review code=x -- ./server.py",
    )


def run(arguments: Namespace) -> int:
    """Print the prompts."""
    selected, words = _target.select_server(arguments)
    if words[:1] == ["get"]:
        name = _target.pop_word(words[1:], "NAME")
        return with_client(arguments, selected, partial(_get, arguments, name, pairs(words[2:])))
    _target.expect_no_more(words)

    async def work(client: Client) -> None:
        with StatusLine("listing prompts"):
            prompts = await client.prompts.list()
        screen = Screen()
        if arguments.json:
            print_json({"prompts": [prompt.raw for prompt in prompts]})
        elif not prompts:
            screen.print_line("no prompts")
        else:
            rows = [(each.name, _signature(each), first_line(each.description or each.title)) for each in prompts]
            screen.table(("NAME", "ARGUMENTS", "DESCRIPTION"), rows)

    return with_client(arguments, selected, work)


async def _get(arguments: Namespace, name: str, values: dict[str, str], client: Client) -> None:
    if is_interactive(arguments):
        with StatusLine("listing prompts"):
            prompts = await client.prompts.list()
        for argument in next((prompt.arguments or () for prompt in prompts if prompt.name == name), ()):
            if argument.required and argument.name not in values:
                schema: Json = {"type": "string", "description": argument.description or ""}
                values[argument.name] = str(await read_argument(argument.name, schema))
    with StatusLine(f"getting {name}"):
        try:
            result = await client.prompts.get(name, values)
        except JsonRpcError:
            names = [prompt.name for prompt in await client.prompts.list()]
            if name in names:
                raise
            raise UsageError(f"unknown prompt {name!r}{did_you_mean(name, names)}") from None
    if arguments.json:
        print_json(result.raw)
        return
    screen = Screen()
    for message in result.messages:
        screen.print_line(screen.paint(f"{message.role}:", BOLD))
        print_text(screen, text_of(message.content))


def _signature(prompt: Prompt) -> str:
    return " ".join(argument.name if argument.required else f"[{argument.name}]" for argument in prompt.arguments or ())
