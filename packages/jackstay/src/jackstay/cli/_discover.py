"""`jackstay discover`: list the servers in the configurations of the hosts on this machine, and check each."""

import asyncio
import shlex
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from jackstay.cli._commands import add_help
from jackstay.cli._exits import DONE, FAILED
from jackstay.cli._logs import log_to_stderr
from jackstay.cli._output import print_json
from jackstay.cli._running import describe_server, run_until_signal
from jackstay.client import connect
from jackstay.errors import McpError, UsageError
from jackstay.protocol.client import interactive_timeouts
from jackstay.shell import HOSTS, Host, HostedServer, Screen, StatusLine, first_line, from_entry, servers_in
from jackstay.transport import StdioTarget, stdio

if TYPE_CHECKING:
    from jackstay.transport.http import HttpTarget

# Servers that are checked at the same time. Most of them are processes that start an interpreter.
PARALLEL = 4
SECONDS = 30.0


class Found(NamedTuple):
    """A server in the file of a host. `problem`: why it cannot be checked."""

    host: Host
    name: str
    path: Path
    server: HostedServer | None
    problem: str = ""


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of this command."""
    parser.description = "List the servers of the hosts here and of this project, and connect to each."
    add_help(parser, examples=("--no-check",))
    parser.add_argument("--no-check", action="store_true", help="list them without starting or connecting to them")
    parser.add_argument(
        "--timeout", type=float, default=SECONDS, metavar="SECONDS", help="for each check (default: 30)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(log_level="warning", log_format="text")


def run(arguments: Namespace) -> int:
    """Print the servers. The exit code is 1 if one of them fails."""
    # The status of a server is in the table, so its transitions are not logged as well.
    with log_to_stderr(arguments, hides_transitions=True):
        return run_until_signal(_report(_find(), arguments))


def _find() -> list[Found]:
    found: list[Found] = []
    for host in HOSTS:
        paths = [host.path(), *([host.path(in_project=True)] if host.project else [])]
        for path in dict.fromkeys(paths):
            if not path.is_file():
                continue
            try:
                entries = servers_in(host, path)
            except UsageError as error:
                found.append(Found(host, "", path, None, error.message))
                continue
            for name, entry in entries.items():
                server = from_entry(entry)
                found.append(Found(host, name, path, server, "" if server else "off, or not a server"))
    return found


async def _report(found: list[Found], arguments: Namespace) -> int:
    limit = asyncio.Semaphore(PARALLEL)

    async def check(one: Found) -> tuple[bool, str]:
        if one.server is None:
            return bool(one.name), one.problem
        if arguments.no_check:
            return True, "not checked"
        async with limit:
            return await _check(one.server, arguments.timeout)

    with StatusLine(f"checking {len(found)} servers"):
        results = await asyncio.gather(*(check(one) for one in found))
    if arguments.json:
        print_json(
            {
                "servers": [
                    {"host": one.host.name, "name": one.name, "file": str(one.path), "ok": ok, "status": status}
                    for one, (ok, status) in zip(found, results, strict=True)
                ]
            }
        )
    elif not found:
        Screen().print_line(f"no servers in the files of {', '.join(host.title for host in HOSTS)}")
    else:
        rows = [
            (one.host.name, first_line(one.name) or "-", first_line(f"{_verdict(one, ok)}{status}; {_where(one)}"))
            for one, (ok, status) in zip(found, results, strict=True)
        ]
        Screen().table(("HOST", "NAME", "STATUS"), rows)
    return DONE if all(ok for ok, _ in results) else FAILED


def _verdict(found: Found, ok: bool) -> str:
    return "FAILED: " if not ok else "ok: " if found.server is not None else ""


def _where(found: Found) -> str:
    server = found.server
    if server is None:
        return str(found.path)
    return server.url.partition("?")[0] or shlex.join(server.command[:3])


def _ignore(line: str) -> None:
    """The output of a server on standard error is not shown."""


async def _check(server: HostedServer, seconds: float) -> tuple[bool, str]:
    """Connect and list the tools."""
    try:
        if server.url:
            from jackstay.transport.http import http  # noqa: PLC0415  # only for HTTP

            target: StdioTarget | HttpTarget = http(server.url, headers=server.headers)
        else:
            target = stdio(*server.command, env=server.environment, stderr=_ignore)
        async with connect(target, max_attempts=1, open_timeout=seconds, **interactive_timeouts(seconds)) as client:
            count = len(await client.tools.list()) if client.server_capabilities.tools is not None else 0
            return True, f"{describe_server(client)}, {count} tool{'s' if count != 1 else ''}"
    except McpError as error:
        return False, first_line(str(error))
