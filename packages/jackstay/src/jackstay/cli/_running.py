"""One command about one server, from its first byte to its last: open a client, do the work, leave nothing behind.

Ctrl-C, SIGTERM and SIGHUP end the work in order: the call is cancelled on the wire and the server is closed; a second one
ends both at once. A command asks once: a server that cannot be started is told at once, and not tried again.

Servers may ask back (sampling, elicitation, roots); a command answers none of it and says so when it opens, so that a
server which can do without does.

Above: the commands. Below: `jackstay.client`, asyncio.
"""

import asyncio
import signal
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Coroutine
from typing import Any

from jackstay.cli._exits import TERMINATED
from jackstay.cli._logs import Logs
from jackstay.cli._screen import DIM, Screen, clean
from jackstay.cli._target import Chosen
from jackstay.client import Client, connect
from jackstay.protocol.client import Settings
from jackstay.shell import ending_in_order
from jackstay.transport import kill_children

Work = Callable[[Client], Coroutine[Any, Any, int]]


def with_client(
    arguments: Namespace,
    chosen: Chosen,
    work: Work,
    *,
    when_terminated: int = TERMINATED,
    prepare: Callable[[Client], None] | None = None,
) -> int:
    """Do `work(client)` with an open client and return its exit code; `prepare(client)` comes before it is opened.

    Raises: McpError, KeyboardInterrupt.
    """
    client = connect(chosen.target, **_settings(arguments, chosen))
    if prepare is not None:
        prepare(client)
    # The command reports itself why a call failed: at the usual level a lost server is not logged beside it.
    with Logs(arguments.log_level, arguments.log_format, hides_transitions=arguments.log_level == "warning"):
        code = asyncio.run(_run(arguments, chosen, client, work, when_terminated))
    if code is None:  # raised here: inside the task, asyncio would tell of it as well
        raise KeyboardInterrupt
    return code


def _settings(arguments: Namespace, chosen: Chosen) -> dict[str, Any]:
    settings: dict[str, Any] = {"max_attempts": 1}
    if arguments.timeout is not None:
        settings["open_timeout"] = settings["request_timeout"] = arguments.timeout
        usual = chosen.target.init_timeout or Settings().init_timeout
        settings["init_timeout"] = max(arguments.timeout, usual)
    return settings


async def _run(
    arguments: Namespace, chosen: Chosen, client: Client, work: Work, when_terminated: int
) -> int | None:
    """The exit code; None after Ctrl-C."""
    note = Screen(sys.stderr)
    if arguments.verbose:
        doing = "connecting to" if chosen.target.is_http else "starting"
        note.say(note.paint(f"{doing}: {clean(chosen.shown)}", DIM))
    begun = time.monotonic()
    with ending_in_order(kill_children) as came:
        try:
            if chosen.sign_in is not None:
                await chosen.sign_in()
            async with client:
                if arguments.verbose:
                    took = time.monotonic() - begun
                    note.say(note.paint(f"connected: {who(client)} after {took:.2f} s", DIM))
                return await work(client)
        except asyncio.CancelledError:
            if not came:
                raise  # somebody else's doing
            return None if came[0] == signal.SIGINT else when_terminated


def who(client: Client) -> str:
    """What the server calls itself, and the revision spoken: for people."""
    info = client.server_info
    name = "a server without a name" if info is None else clean(f"{info.name} {info.version}").strip()
    return f"{name}, protocol {client.protocol_version}"
