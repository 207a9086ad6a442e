"""One command about one server, from its first byte to its last: open a client, do the work, leave nothing behind.

Ctrl-C, SIGTERM and SIGHUP end the work in order: the call is cancelled on the wire and the server is closed; a second one
ends at once. A command asks once: a server that cannot be started is told at once, and not tried again.

Servers may ask back (sampling, elicitation, roots); a command answers none of it and says so when it opens, so that a
server which can do without does.

Above: the commands. Below: `mooring.client`, asyncio.
"""

import asyncio
import signal
import sys
import threading
import time
from argparse import Namespace
from collections.abc import Callable, Coroutine
from typing import Any

from mooring.cli._exits import TERMINATED
from mooring.cli._logs import Logs
from mooring.cli._screen import DIM, Screen, clean
from mooring.cli._target import Chosen
from mooring.client import Client, connect
from mooring.protocol.client import Settings

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
    with Logs(arguments.log_level, arguments.log_format):
        return asyncio.run(_run(arguments, chosen, client, work, when_terminated))


def _settings(arguments: Namespace, chosen: Chosen) -> dict[str, Any]:
    settings: dict[str, Any] = {"max_attempts": 1}
    if arguments.timeout is not None:
        settings["open_timeout"] = settings["request_timeout"] = arguments.timeout
        usual = chosen.target.init_timeout or Settings().init_timeout
        settings["init_timeout"] = max(arguments.timeout, usual)
    return settings


async def _run(arguments: Namespace, chosen: Chosen, client: Client, work: Work, when_terminated: int) -> int:
    note = Screen(sys.stderr)
    if arguments.verbose:
        doing = "connecting to" if chosen.target.is_http else "starting"
        note.say(note.paint(f"{doing}: {clean(chosen.shown)}", DIM))
    was_terminated = _watch_signals()
    begun = time.monotonic()
    try:
        if chosen.sign_in is not None:
            await chosen.sign_in()
        async with client:
            if arguments.verbose:
                took = time.monotonic() - begun
                note.say(note.paint(f"connected: {who(client)} after {took:.2f} s", DIM))
            return await work(client)
    except asyncio.CancelledError:
        if was_terminated:
            return when_terminated
        raise  # Ctrl-C: asyncio makes a KeyboardInterrupt of it


def who(client: Client) -> str:
    """What the server calls itself, and the revision spoken: for people."""
    info = client.server_info
    name = "a server without a name" if info is None else clean(f"{info.name} {info.version}").strip()
    return f"{name}, protocol {client.protocol_version}"


def _watch_signals() -> list[int]:
    """Let the first SIGTERM or SIGHUP end this task in order, and the second the process. The list says which came."""
    came: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        return came
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None  # asyncio.run() made it
    # One that is ignored stays ignored: that is what nohup is for.
    signals = [one for one in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(one) is not signal.SIG_IGN]

    def end(number: int) -> None:
        came.append(number)
        for one in signals:
            loop.remove_signal_handler(one)
        task.cancel()

    for one in signals:
        loop.add_signal_handler(one, end, one)
    return came
