"""Callbacks of a transport become events of the core with the epoch of the transport."""

import sys
from typing import Any

from jackstay.client._epoch_handler import EpochHandler
from jackstay.errors import TransportError
from jackstay.protocol.client import events as e
from jackstay.protocol.http import ParamHeader
from jackstay.transport import ExchangeHandler


class FakeConnection:
    """The part of a connection that an `EpochHandler` uses."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.header_params = {"query": (ParamHeader(("a",), "A", "string"),)}

    @property
    def core(self) -> "FakeConnection":
        return self

    @property
    def telemetry(self) -> "FakeConnection":
        return self

    def wrote(self, epoch: int, through: int) -> None:
        self.events.append(("wrote", epoch, through))

    def step(self, event: e.Event) -> None:
        self.events.append(event)

    def pull(self, transport: object, epoch: int, max_frames: int = 0) -> None:
        self.events.append((transport, epoch, max_frames))

    def emit_exit(self, code: int | None) -> None:
        self.events.append(code)


def test_every_event_carries_the_epoch() -> None:
    connection = FakeConnection()
    handler = EpochHandler(connection, 7)  # type: ignore[arg-type]  # the part that is used
    assert isinstance(handler, ExchangeHandler)
    handler.frames_arrived()
    assert connection.events == [], "there is no transport yet to pull from"
    transport: Any = object()
    handler.transport = transport
    error = TransportError("x")
    handler.frames_arrived()
    handler.wrote(3)
    handler.room_made()
    handler.exchange_lost(5, error, True)
    handler.queued(8)
    handler.started(8)
    handler.session_lost(6)
    handler.went_down(error, -9, True)
    assert connection.events == [
        (transport, 7, 0),
        ("wrote", 7, 3),
        e.BecameWritable(7),
        e.ExchangeLost(7, 5, error, True),
        e.PostQueued(7, 8),
        e.PostStarted(7, 8),
        e.SessionLost(7, 6),
        (transport, 7, sys.maxsize),
        -9,
        e.WentDown(7, error, -9, True),
    ]


def test_header_params_are_those_of_the_last_list() -> None:
    handler = EpochHandler(FakeConnection(), 1)  # type: ignore[arg-type]  # as above
    assert [row.header for row in handler.header_params("query")] == ["Mcp-Param-A"]
    assert handler.header_params("other") == ()
