"""`jackstay watch`: what a server says unasked, and how the connection fares, a line each, until Ctrl-C.

A server that goes away is connected to again, as always; the command ends by itself only when that is given up for good.

Above: `_main`. Below: `_running`.
"""

import asyncio
import json
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from datetime import UTC, datetime

from jackstay.cli import _target
from jackstay.cli._exits import DONE
from jackstay.cli._running import with_client
from jackstay.cli._screen import BOLD, DIM, GREEN, YELLOW, Screen, clean
from jackstay.client import Client, Notification
from jackstay.errors import ClosedError, Json, McpError, TransportError

COLOURS = {"ready": GREEN, "backoff": YELLOW, "closed": YELLOW}


class Happening:
    """One line to be: when, what, and its fields."""

    def __init__(self, kind: str, **fields: Json) -> None:
        self.at = datetime.now(UTC).astimezone()
        self.kind = kind
        self.fields = fields
        self.error: McpError | None = None


def add_arguments(parser: ArgumentParser) -> None:
    """Which server, and which resources to hear of."""
    _target.add_arguments(
        parser,
        "[URI ...]",
        "https://example.org/mcp note://today",
        "--config mcp.json git",
        "--json note://today -- ./server.py",
        more="With URIs, also updates of these resources.",
    )


def run(arguments: Namespace) -> int:
    """Print until told to stop: 130 after Ctrl-C, 0 after SIGTERM."""
    chosen, uris = _target.choose(arguments)
    happened: asyncio.Queue[Happening] = asyncio.Queue()
    screen = Screen()

    def prepare(client: Client) -> None:
        client.on_event(lambda name, fields: _note(happened, name, fields))
        client.on_notification(lambda notification: happened.put_nowait(_told(notification)))

    async def work(client: Client) -> int:
        for uri in uris:
            await client.resources.subscribe(uri)
        # Printed here and not where it happens, so that a reader who left ends the command.
        while True:
            happening = await happened.get()
            _show(screen, happening, as_json=arguments.json)
            if happening.kind == "state" and happening.fields["to"] == "closed":
                raise ClosedError(happening.error or TransportError("the connection was given up"))

    return with_client(arguments, chosen, work, when_terminated=DONE, prepare=prepare)


def _note(happened: "asyncio.Queue[Happening]", name: str, fields: Mapping[str, object]) -> None:
    if name == "jackstay.connection.transition" and fields["from"] != fields["to"]:
        reason = fields["reason"]
        happening = Happening(
            "state", **{"from": str(fields["from"]), "to": str(fields["to"]), "reason": str(reason or "")}
        )
        happening.error = reason if isinstance(reason, McpError) else None
        happened.put_nowait(happening)
    elif name == "jackstay.protocol.violation":
        happened.put_nowait(Happening("violation", reason=str(fields["reason"])))


def _told(notification: Notification) -> Happening:
    return Happening("notification", method=notification.method, params=notification.params)


def _show(screen: Screen, happening: Happening, *, as_json: bool) -> None:
    if as_json:
        line = {"time": happening.at.isoformat(), "event": happening.kind, **happening.fields}
        screen.say(json.dumps(line))
        return
    time = screen.paint(f"{happening.at:%H:%M:%S}", DIM)
    screen.say(f"{time}  {_LINES[happening.kind](screen, happening.fields)}".rstrip())


def _state_line(screen: Screen, fields: Mapping[str, Json]) -> str:
    to = str(fields["to"])
    reason = f"  ({clean(str(fields['reason']))})" if fields["reason"] else ""
    return f"{fields['from']} -> {screen.paint(to, COLOURS.get(to, BOLD))}{reason}"


def _notification_line(screen: Screen, fields: Mapping[str, Json]) -> str:
    method, params = str(fields["method"]), fields["params"]
    said = json.dumps(params, ensure_ascii=False) if params else ""
    if method == "notifications/message" and isinstance(params, dict):
        data = params.get("data")
        words = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
        said = " ".join(str(part) for part in (params.get("level"), params.get("logger"), words) if part)
    return f"{screen.paint(clean(method.removeprefix('notifications/')), BOLD)}  {clean(said)}".rstrip()


def _violation_line(screen: Screen, fields: Mapping[str, Json]) -> str:
    return screen.paint(f"the server broke a rule: {clean(str(fields['reason']))}", YELLOW)


_LINES = {"state": _state_line, "notification": _notification_line, "violation": _violation_line}
