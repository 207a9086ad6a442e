"""The calls under way at one server, and whose they are.

A server of the handshake era asks and logs over the connection, not in a call: it does not say for whom. With several clients on
one connection only the calls under way can tell. If all of them are one client's, what the server says is for that client. If
they are several clients', nobody knows, and nobody may be told. A call that has ended still counts for a while, whether it was
answered or given up: servers log and go on working after an answer. Outside any call it counts whom the server has served at all.

Must never know a transport or what a message means. Above: `_back`, `_asking`, `_news`. Below: `_failures`.
"""

import asyncio
from collections.abc import Callable
from enum import Enum

import msgspec

from jackstay.errors import JsonRpcError, RequestId
from jackstay.protocol.server import events as e
from jackstay.protocol.server import progress_token
from jackstay.protocol.wire import ErrorCode
from jackstay.server import Driver

# How long a server may go on with a call that was answered or cancelled, as far as the proxy assumes.
LINGER = 10.0

_SEVERAL = 2


class Asked(msgspec.Struct, eq=False):
    """A question of the server's that waits for its client to be asked in a result."""

    method: str
    params: bytes
    answer: "asyncio.Future[bytes]"


class Flight:
    """One call on its way through, and the client it is for, as far as its request says.

    `connection`, `id`, `serial` and `token` change when a client of the stateless era comes back with answers.
    """

    __slots__ = (
        *("capabilities", "connection", "has_ended", "id", "info", "is_asked", "is_stateless", "level"),
        *("method", "questions", "serial", "token"),
    )

    def __init__(self, connection: Driver, request: e.Serve) -> None:
        self.connection = connection
        self.id: RequestId = request.id
        self.serial = request.serial
        self.method = request.method
        # Under which its client wants to hear of progress, if it does.
        self.token = progress_token(request.params)
        self.has_ended = False
        # Copies: what a request says is a view of its frame.
        meta, client = request.meta, connection.core.client
        self.is_stateless = meta is not None
        self.capabilities = b"{}"
        self.info = b""
        self.level: str | None = None
        if meta is not None:
            self.capabilities = bytes(meta.capabilities)
            self.info = bytes(meta.client_info) if isinstance(meta.client_info, msgspec.Raw) else b""
            self.level = meta.log_level
        elif client is not None:
            self.capabilities, self.info = client.capabilities, client.info
        # What the server asked meanwhile of a client that can only be asked in a result; `is_asked` wakes who waits.
        self.questions: dict[str, Asked] = {}
        self.is_asked: asyncio.Future[None] | None = None

    def __repr__(self) -> str:
        return f"<Flight {self.method.name} of connection {self.connection.number}>"

    @property
    def is_awaited(self) -> bool:
        """True while the client waits for its answer, so that something can be said about it."""
        return not self.has_ended and self.connection.core.in_flight.get(self.id) == self.serial

    def go_on_for(self, other: "Flight") -> None:
        """Its client came back, with this request of another connection."""
        self.connection, self.id = other.connection, other.id
        self.serial, self.token = other.serial, other.token

    def ask(self, key: str, question: Asked) -> None:
        """Leave a question for the client, and wake who waits for the answer."""
        self.questions[key] = question
        if self.is_asked is not None and not self.is_asked.done():
            self.is_asked.set_result(None)

    def refuse_questions(self, why: str) -> None:
        """Nobody will answer what the server asked."""
        for asked in self.questions.values():
            if not asked.answer.done():
                asked.answer.set_exception(JsonRpcError(ErrorCode.INTERNAL_ERROR, why))


class Whose(Enum):
    """What is known about for whom a server speaks, where that is no one client."""

    NOBODYS = "no call is under way"
    SEVERAL = "calls of several clients are under way, or were a moment ago"


class Flights:
    """The calls under way at one server. `clock` gives the time, in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._open: dict[Flight, None] = {}
        # Until when each client may be the one that the server still works for, by the number of its connection; the
        # first to expire is the first in the order.
        self._lingering: dict[int, float] = {}
        # The clients that the server has served since it was started: at most two are kept, because two are several.
        self._served: set[int] = set()

    def __len__(self) -> int:
        return len(self._open)

    def __repr__(self) -> str:
        return f"<Flights {len(self._open)} open, {len(self._lingering)} lingering>"

    def begin(self, flight: Flight) -> None:
        """A call is on its way."""
        self._open[flight] = None
        self.serve(flight.connection.number)

    def serve(self, number: int) -> None:
        """The server learned something of the client of this connection."""
        if len(self._served) < _SEVERAL:
            self._served.add(number)

    def end(self, flight: Flight) -> None:
        """It was answered, or nobody waits for it any more; the server may go on with it for a while."""
        flight.has_ended = True
        flight.refuse_questions("the call that this is about has ended")
        if flight in self._open:
            del self._open[flight]
            self._sweep()
            number = flight.connection.number
            self._lingering.pop(number, None)
            self._lingering[number] = self._clock() + LINGER

    def start_over(self) -> None:
        """It is another server now: what the last one was at work on is over."""
        self._lingering.clear()
        self._served = {flight.connection.number for flight in self._open}

    def whose(self) -> Flight | Whose:
        """The newest call of the only client that the server can be at work for; else why there is none."""
        if len(self._parties()) > 1:
            return Whose.SEVERAL
        newest = next(reversed(self._open), None)
        return Whose.NOBODYS if newest is None else newest

    def has_served_only(self, number: int) -> bool:
        """True if the server has served nobody but the client of this connection since it was started."""
        return self._served <= {number}

    def _parties(self) -> set[int]:
        self._sweep()
        return {flight.connection.number for flight in self._open} | self._lingering.keys()

    def _sweep(self) -> None:
        if self._lingering:
            now = self._clock()
            while self._lingering and self._lingering[next(iter(self._lingering))] <= now:
                del self._lingering[next(iter(self._lingering))]
