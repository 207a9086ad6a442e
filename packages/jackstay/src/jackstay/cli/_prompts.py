"""`jackstay prompts`: the prompts of a server.

Above: `_main`. Below: `_running`.
"""

from argparse import ArgumentParser, Namespace

from jackstay.cli import _target
from jackstay.cli._exits import DONE
from jackstay.cli._output import print_json
from jackstay.cli._running import with_client
from jackstay.cli._screen import Screen, clean, first_line
from jackstay.client import Client
from jackstay.types import Prompt


def add_arguments(parser: ArgumentParser) -> None:
    """Which server."""
    _target.add_arguments(parser, "", "https://example.org/mcp", "--config mcp.json notes", "-- ./server.py")


def run(arguments: Namespace) -> int:
    """List them."""
    chosen, words = _target.choose(arguments)
    _target.take_no_more(words)

    async def work(client: Client) -> int:
        prompts = await client.prompts.list()
        screen = Screen()
        if arguments.json:
            print_json({"prompts": [prompt.raw for prompt in prompts]})
        elif not prompts:
            screen.say("no prompts")
        else:
            rows = [
                (clean(prompt.name), _signature(prompt), first_line(prompt.description or prompt.title))
                for prompt in prompts
            ]
            screen.table(("NAME", "ARGUMENTS", "DESCRIPTION"), rows)
        return DONE

    return with_client(arguments, chosen, work)


def _signature(prompt: Prompt) -> str:
    return clean(" ".join(one.name if one.required else f"[{one.name}]" for one in prompt.arguments or ()))
