"""What a server's connection remembers, and how it walks its table.

`ServerCore` holds the data and the two verbs of every machine here: fire an event, enter a state. What the names in the
table mean stands in the classes that build on it, one a subject: what comes in (`_intake`), requests
(`_requests`), and what handlers and the driver do (`_connection`, which joins them).

Above: those three. Below: `_table` (when), `_exchanges` (requests in flight), `_asks` (requests of
ours), `_offer` (the answers that are the same for everybody).
"""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import ClassVar, Self

from jackstay.errors import InvalidEventError, RequestId, UsageError
from jackstay.protocol._machine import words
from jackstay.protocol._methods import Method
from jackstay.protocol._versions import REVISIONS, Era
from jackstay.protocol.server import events as e
from jackstay.protocol.server._asks import Ask, Asks
from jackstay.protocol.server._exchanges import Exchanges
from jackstay.protocol.server._offer import ServerOffer, served_methods
from jackstay.protocol.server._table import CELLS, ENTRIES, ServerState

_NO_ROWS: dict[str, Method] = {}

S = ServerState


class ServerCore:
    """The data of a server's connection, and the walk over its table."""

    # What the table's names do and ask. The methods take the event of their row: the table guarantees it, and a type
    # checker cannot see it.
    DO: ClassVar[dict[Enum, Callable[..., None]]] = {}
    WHEN: ClassVar[dict[Enum, Callable[..., bool]]] = {}

    __slots__ = (
        "_asks",
        "_drain_at",
        "_exchanges",
        "_in_flight",
        "_is_dual",
        "_is_post",
        "_max_concurrent",
        "_needs_meta",
        "_now",
        "_offer",
        "_out",
        "_rows",
        "_version",
        "client",
        "is_strict",
        "state",
    )

    def __init__(
        self,
        offer: ServerOffer,
        *,
        version: str | None = None,
        is_post: bool = False,
        client: e.ClientFacts | None = None,
        is_strict: bool = False,
    ) -> None:
        if version is not None and version not in offer.supported:
            raise UsageError(f"{version!r} is not one of {', '.join(offer.supported)}", path="version")
        options = offer.options
        self._offer = offer
        self._is_post = is_post
        self._is_dual = bool(offer.stateless)
        self.is_strict = is_strict
        self._max_concurrent = options.max_concurrent
        self._out: list[e.Effect] = []
        self._exchanges = Exchanges(self._out, options.max_frame_bytes)
        self._in_flight = self._exchanges.in_flight
        self._asks = Asks(self._out, options.max_frame_bytes)
        self._drain_at: float | None = None
        self._now = 0.0
        self._version = version
        self.client = client
        self.state = S.FRESH
        if version is not None:
            self.state = S.STATELESS if REVISIONS[version].era is Era.STATELESS else S.OPERATING
        self._look_up_rows()

    # --- what a driver looks at -----------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        version = "" if self._version is None else f" {self._version}"
        return f"<ServerConnection {self.state.value}{version}, {len(self._in_flight)} in flight>"

    @property
    def version(self) -> str | None:
        """The revision agreed on, or that the first stateless request named; None while `fresh`."""
        return self._version

    @property
    def in_flight(self) -> Mapping[RequestId, int]:
        """The serials of the requests that a handler still owes an answer for, by id."""
        return self._in_flight

    @property
    def asked(self) -> Mapping[int, Ask]:
        """What was asked of the client and not answered yet (key, method, about), by our id."""
        return self._asks.open

    @property
    def counts(self) -> Mapping[str, int]:
        """How often something was dropped or went wrong without anybody being told."""
        return self._exchanges.counts

    @property
    def wake_at(self) -> float | None:
        """When to ask for what is `due`; None: not before something else happens."""
        return self._drain_at

    def copy(self) -> Self:
        """An independent copy, for searching its states."""
        twin = self.__class__.__new__(self.__class__)
        twin._offer = self._offer
        twin._is_post = self._is_post
        twin._is_dual = self._is_dual
        twin._needs_meta = self._needs_meta
        twin.is_strict = self.is_strict
        twin._max_concurrent = self._max_concurrent
        twin._out = []
        twin._exchanges = self._exchanges.copy(twin._out)
        twin._in_flight = twin._exchanges.in_flight
        twin._asks = self._asks.copy(twin._out)
        twin._drain_at = self._drain_at
        twin._now = self._now
        twin._version = self._version
        twin.client = self.client
        twin.state = self.state
        twin._rows = self._rows
        return twin

    def snapshot(self) -> tuple[object, ...]:
        """Everything that decides what it does next, hashable."""
        return (
            self.state,
            self._version,
            self.client,
            self._exchanges.snapshot(),
            self._asks.snapshot(),
            self._drain_at,
        )

    # --- walking the table --------------------------------------------------------------------------------------------

    def _fire(self, event: e.Event) -> None:
        cells = CELLS.get(type(event))
        if cells is None:
            raise UsageError(f"{type(event).__name__} is not an event of a server's connection", path="event")
        cell = cells[self.state]
        while cell.when is not None and not self.WHEN[cell.when](self, event):
            assert cell.otherwise is not None  # a question has two answers: tests walk every cell
            cell = cell.otherwise
        if cell.is_impossible:
            self._exchanges.count(f"impossible {type(event).__name__}")
            if self.is_strict:
                raise InvalidEventError(type(event).__name__, self.state.value)
            return
        for name in cell.do:
            self.DO[name](self, event)
        if cell.to is not None:
            self._enter(S(cell.to), event)
        elif not cell.do:
            self._exchanges.count(f"ignored {type(event).__name__}")

    def _enter(self, target: ServerState, event: e.Event) -> None:
        self._out.append(e.Transition(self.state.value, target.value, words(type(event).__name__)))
        self.state = target
        self._look_up_rows()
        for name in ENTRIES.get(target, ()):
            self.DO[name](self, event)

    def _look_up_rows(self) -> None:
        """What the hot path serves: nothing, in a state that does not serve or has to look at every request."""
        self._needs_meta = self.state is S.STATELESS
        is_serving = self.state in (S.OPERATING, S.STATELESS) or (
            self.state is S.HANDSHAKE and not self._offer.options.strict
        )
        self._rows = _NO_ROWS
        if is_serving and self._version is not None:
            self._rows = served_methods(self._version)

    def _report_violation(self, reason: str, size: int) -> None:
        self._out.append(e.Violation(reason, size, self._exchanges.count("violation")))
