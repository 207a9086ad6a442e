"""Run a command until it ends or a signal arrives: as a server, or with a connected client.

SIGINT, SIGTERM and SIGHUP cancel it, and servers that it has started are closed; a second signal terminates all at
once. A failed start is not retried. At a terminal the user answers elicitations; `--roots` declares roots.
"""

import asyncio
import signal
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jackstay.cli._exits import DONE, INTERRUPTED, TERMINATED
from jackstay.cli._logs import log_to_stderr
from jackstay.cli._target import SelectedServer
from jackstay.client import connect
from jackstay.shell import DIM, Screen, StatusLine, cancel_on_signal, escape_controls
from jackstay.transport import kill_children

if TYPE_CHECKING:
    from jackstay.client import Client

# Returns the exit code; None: success.
Work = Callable[["Client"], Coroutine[Any, Any, int | None]]


def run_until_signal(work: Coroutine[Any, Any, int], when_terminated: int = DONE) -> int:
    """Run a command and return its exit code.

    The default codes are those of `jackstay serve`: 0 after SIGTERM and SIGHUP, 130 after SIGINT.
    """

    async def until_signal() -> int:
        with cancel_on_signal(kill_children) as received:
            try:
                return await work
            except asyncio.CancelledError:
                if not received:
                    raise  # not cancelled by a signal
                return INTERRUPTED if received[0] == signal.SIGINT else when_terminated

    return asyncio.run(until_signal())


def with_client(
    arguments: Namespace,
    selected: SelectedServer,
    work: Work,
    *,
    when_terminated: int = TERMINATED,
    prepare: "Callable[[Client], None] | None" = None,
) -> int:
    """Run `work(client)` with a connected client and return its exit code.

    `prepare(client)` is called before the client is opened. `when_terminated` is the exit code after SIGTERM or SIGHUP.
    Raises: McpError.
    """
    from jackstay.cli._user_input import answer_elicitation, is_interactive  # noqa: PLC0415  # not for --help

    client = connect(selected.target, **_settings(arguments, selected))
    if is_interactive(arguments):
        client.elicitation.handle(answer_elicitation)
    if arguments.roots:
        client.roots.set([Path(root).absolute().as_uri() if "://" not in root else root for root in arguments.roots])
    if prepare is not None:
        prepare(client)
    # The command itself reports why a call failed, so at the default level a lost server is not logged as well.
    with log_to_stderr(arguments, hides_transitions=arguments.log_level == "warning"):
        return run_until_signal(_run(arguments, selected, client, work), when_terminated)


def _settings(arguments: Namespace, selected: SelectedServer) -> dict[str, Any]:
    from jackstay.protocol.client import interactive_timeouts  # noqa: PLC0415  # not for --help

    settings: dict[str, Any] = {"max_attempts": 1, **interactive_timeouts(selected.target.init_timeout)}
    if arguments.protocol is not None:
        settings["versions"] = (arguments.protocol,)
    if arguments.keepalive is not None:
        settings["keepalive"] = arguments.keepalive
    if arguments.timeout is not None:
        settings["open_timeout"] = settings["request_timeout"] = arguments.timeout
        settings["init_timeout"] = max(arguments.timeout, settings["init_timeout"])
    return settings


async def _run(arguments: Namespace, selected: SelectedServer, client: "Client", work: Work) -> int:
    started_at = time.monotonic()
    await prepare_server(arguments, selected)
    with StatusLine(
        f"{selected.action} {selected.display}", hint="no MCP message received yet; is this an MCP server?"
    ):
        await client.open()
    try:
        if arguments.verbose:
            took = time.monotonic() - started_at
            _print_note(f"connected: {describe_server(client)} after {took:.2f} s")
        return await work(client) or DONE
    finally:
        with StatusLine("closing the connection"):
            await client.stop()


async def prepare_server(arguments: Namespace, selected: SelectedServer) -> None:
    """Print, with `--verbose`, which server is started or connected to, and let the user sign in."""
    if arguments.verbose:
        _print_note(f"{selected.action}: {escape_controls(selected.display)}")
    if selected.sign_in is not None:
        await selected.sign_in()


def _print_note(text: str) -> None:
    note = Screen(sys.stderr)
    note.print_line(note.paint(text, DIM))


def describe_server(client: "Client") -> str:
    """Return the name and version of the server and the protocol revision, for display."""
    info = client.server_info
    name = "unnamed server" if info is None else escape_controls(f"{info.name} {info.version}").strip()
    return f"{name}, protocol {client.protocol_version}"
