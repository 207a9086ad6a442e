"""`jackstay prompts`: list the prompts of a server."""

from argparse import ArgumentParser, Namespace

from jackstay.cli import _target
from jackstay.cli._exits import DONE
from jackstay.cli._output import print_json
from jackstay.cli._running import with_client
from jackstay.cli._screen import Screen, escape_controls, first_line
from jackstay.client import Client
from jackstay.types import Prompt


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of this command."""
    _target.add_arguments(parser, "", "https://example.org/mcp", "--config mcp.json notes", "-- ./server.py")


def run(arguments: Namespace) -> int:
    """Print the prompts."""
    selected, words = _target.select_server(arguments)
    _target.expect_no_more(words)

    async def work(client: Client) -> int:
        prompts = await client.prompts.list()
        screen = Screen()
        if arguments.json:
            print_json({"prompts": [prompt.raw for prompt in prompts]})
        elif not prompts:
            screen.print_line("no prompts")
        else:
            rows = [
                (escape_controls(prompt.name), _signature(prompt), first_line(prompt.description or prompt.title))
                for prompt in prompts
            ]
            screen.table(("NAME", "ARGUMENTS", "DESCRIPTION"), rows)
        return DONE

    return with_client(arguments, selected, work)


def _signature(prompt: Prompt) -> str:
    return escape_controls(
        " ".join(argument.name if argument.required else f"[{argument.name}]" for argument in prompt.arguments or ())
    )
