"""What a transport tells becomes an event of the core, with the epoch it belongs to."""

from typing import Any

from jackstay.client._owner import Owner
from jackstay.errors import TransportError
from jackstay.protocol.client import events as e
from jackstay.protocol.http import ParamHeader
from jackstay.transport import ExchangeOwner


class Heard:
    """As much of a connection as an owner tells."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.marked_arguments = {"query": (ParamHeader(("a",), "A", "string"),)}

    def step(self, event: e.Event) -> None:
        self.events.append(event)

    def pull(self, transport: object, epoch: int) -> None:
        self.events.append((transport, epoch))

    def tell_exit(self, code: int | None) -> None:
        self.events.append(code)


def test_everything_that_is_told_carries_the_epoch() -> None:
    """Row 26: old epochs are dropped, and this is where an event gets its own."""
    heard = Heard()
    owner = Owner(heard, 7)  # type: ignore[arg-type]  # as much of one as is asked
    assert isinstance(owner, ExchangeOwner)
    owner.frames_arrived()
    assert heard.events == [], "there is no transport yet to pull from"
    transport: Any = object()
    owner.transport = transport
    error = TransportError("x")
    owner.frames_arrived()
    owner.wrote(3)
    owner.room_made()
    owner.exchange_lost(5, error, True)
    owner.queued(8)
    owner.started(8)
    owner.session_lost(6)
    owner.went_down(error, -9, True)
    assert heard.events == [
        (transport, 7),
        e.Wrote(7, 3),
        e.RoomMade(7),
        e.ExchangeLost(7, 5, error, True),
        e.PostQueued(7, 8),
        e.PostStarted(7, 8),
        e.SessionLost(7, 6),
        -9,
        e.WentDown(7, error, -9, True),
    ]


def test_marked_arguments_are_those_of_the_list_fetched_last() -> None:
    owner = Owner(Heard(), 1)  # type: ignore[arg-type]  # as above
    assert [row.header for row in owner.marked_arguments("query")] == ["Mcp-Param-A"]
    assert owner.marked_arguments("other") == ()
