"""`jackstay ping`: send the request that keepalive uses, and print its method and the response time."""

import time
from argparse import ArgumentParser, Namespace

from jackstay.cli import _target
from jackstay.cli._output import print_json
from jackstay.cli._running import describe_server, with_client
from jackstay.client import Client
from jackstay.shell import Screen, StatusLine


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of this command."""
    _target.add_arguments(parser, "", "https://example.org/mcp", "--config mcp.json git", "-- uvx mcp-server-git")


def run(arguments: Namespace) -> int:
    """Send the request and print the response time."""
    selected = _target.select_only_server(arguments)

    async def work(client: Client) -> None:
        started_at = time.perf_counter()
        with StatusLine("waiting for the response"):
            method = await client.ping()
        milliseconds = (time.perf_counter() - started_at) * 1000
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
            Screen().print_line(f"{method}: response in {milliseconds:.1f} ms ({describe_server(client)})")

    return with_client(arguments, selected, work)
