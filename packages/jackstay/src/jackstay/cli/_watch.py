"""`jackstay watch`: print notifications of a server and states of the connection, a line each, until Ctrl-C.

The client reconnects to a lost server. The command ends only when the client has closed for good.
"""

import asyncio
import json
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeAlias

from jackstay.cli import _target
from jackstay.cli._exits import DONE
from jackstay.cli._running import with_client
from jackstay.client import Client
from jackstay.errors import ClosedError, TransportError
from jackstay.shell import BOLD, DIM, GREEN, YELLOW, Screen, StatusLine, escape_controls

COLOURS = {"ready": GREEN, "backoff": YELLOW, "closed": YELLOW}


# One line of output, as with `--json`: `time`, `event` (its kind) and the fields of this kind.
WatchEvent: TypeAlias = dict[str, Any]


def make_event(kind: str, **fields: object) -> WatchEvent:
    """Return an event of now."""
    return {"time": datetime.now(UTC).astimezone(), "event": kind, **fields}


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of this command."""
    _target.add_arguments(
        parser,
        "[URI ...]",
        "https://example.org/mcp note://today",
        "--config mcp.json git",
        "--json note://today -- ./server.py",
        more="\nWith URIs, subscribe to these resources.",
    )


def run(arguments: Namespace) -> int:
    """Print until a signal arrives: 130 after SIGINT, 0 after SIGTERM."""
    selected, uris = _target.select_server(arguments)
    events: asyncio.Queue[WatchEvent] = asyncio.Queue()
    screen = Screen()

    def prepare(client: Client) -> None:
        client.on_event(partial(_queue_event, events))
        client.on_notification(
            lambda got: events.put_nowait(make_event("notification", method=got.method, params=got.params))
        )

    async def work(client: Client) -> int:
        for uri in uris:
            with StatusLine(f"subscribing to {uri}"):
                await client.resources.subscribe(uri)
        # Printed here and not in the callbacks, so that a closed pipe ends the command.
        while True:
            event = await events.get()
            _show(screen, event, as_json=arguments.json)
            if event["event"] == "state" and event["to"] == "closed":
                raise ClosedError(event["reason"] or TransportError("the client stopped reconnecting"))

    return with_client(arguments, selected, work, when_terminated=DONE, prepare=prepare)


def _queue_event(events: "asyncio.Queue[WatchEvent]", name: str, fields: Mapping[str, object]) -> None:
    if name == "jackstay.connection.transition" and fields["from"] != fields["to"]:
        events.put_nowait(make_event("state", **{key: fields[key] or "" for key in ("from", "to", "reason")}))
    elif name == "jackstay.protocol.violation":
        events.put_nowait(make_event("violation", reason=fields["reason"]))


def _show(screen: Screen, event: WatchEvent, *, as_json: bool) -> None:
    if as_json:
        screen.print_line(json.dumps({**event, "time": event["time"].isoformat()}, default=str))
        return
    time = screen.paint(f"{event['time']:%H:%M:%S}", DIM)
    screen.print_line(f"{time}  {_describe(screen, event)}".rstrip())


def _describe(screen: Screen, event: WatchEvent) -> str:
    if event["event"] == "violation":
        return screen.paint(f"protocol violation: {escape_controls(event['reason'])}", YELLOW)
    if event["event"] == "state":
        reason = f"  ({escape_controls(str(event['reason']))})" if event["reason"] else ""
        return f"{event['from']} -> {screen.paint(event['to'], COLOURS.get(event['to'], BOLD))}{reason}"
    method, params = event["method"], event["params"]
    text = json.dumps(params, ensure_ascii=False) if params else ""
    if method == "notifications/message" and params:
        data = params.get("data")
        content = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
        text = " ".join(str(part) for part in (params.get("level"), params.get("logger"), content) if part)
    name = screen.paint(escape_controls(method.removeprefix("notifications/")), BOLD)
    return f"{name}  {escape_controls(text)}"
