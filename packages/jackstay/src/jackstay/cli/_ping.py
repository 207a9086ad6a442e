"""`jackstay ping`: ask for a sign of life with what keepalive would send, say what that was, and how long it took.

Above: `_main`. Below: `_running`.
"""

import time
from argparse import ArgumentParser, Namespace

from jackstay.cli import _target
from jackstay.cli._exits import DONE
from jackstay.cli._output import print_json
from jackstay.cli._running import who, with_client
from jackstay.cli._screen import Screen
from jackstay.client import Client


def add_arguments(parser: ArgumentParser) -> None:
    """Which server."""
    _target.add_arguments(
        parser, "", "https://example.org/mcp", "--config mcp.json git", "-- uvx mcp-server-git"
    )


def run(arguments: Namespace) -> int:
    """Ping it."""
    chosen, words = _target.choose(arguments)
    _target.take_no_more(words)

    async def work(client: Client) -> int:
        begun = time.perf_counter()
        method = await client.ping()
        milliseconds = (time.perf_counter() - begun) * 1000
        if arguments.json:
            info = client.server_info
            print_json(
                {
                    "method": method,
                    "milliseconds": round(milliseconds, 3),
                    "protocolVersion": client.protocol_version,
                    "server": None if info is None else info.raw,
                }
            )
        else:
            Screen().say(f"{method} answered in {milliseconds:.1f} ms ({who(client)})")
        return DONE

    return with_client(arguments, chosen, work)
