"""The data of a server's connection, and the code that runs its table.

`ServerCore` processes events and enters states. Its subclasses implement the actions and guards: incoming messages
(`_message_classifier`), requests (`_requests`), and handlers and the driver (`_connection`).
"""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import ClassVar, Self

from jackstay.errors import InvalidEventError, RequestId, UsageError
from jackstay.protocol._machine import readable_name
from jackstay.protocol._methods import Method
from jackstay.protocol._versions import REVISIONS, Era
from jackstay.protocol.server import events as e
from jackstay.protocol.server._config import ServerConfig, served_methods
from jackstay.protocol.server._exchanges import Exchanges
from jackstay.protocol.server._outgoing_requests import OutgoingRequest, OutgoingRequests
from jackstay.protocol.server._table import CELLS, ENTRIES, ServerState

_NO_ROWS: dict[str, Method] = {}

S = ServerState


class ServerCore:
    """The data of a server's connection. Runs the table of `_table`."""

    # The implementations of the actions and guards. Each gets the event of its row; the table guarantees its type, but
    # a type checker cannot see that.
    ACTIONS: ClassVar[dict[Enum, Callable[..., None]]] = {}
    GUARDS: ClassVar[dict[Enum, Callable[..., bool]]] = {}

    __slots__ = (
        "_config",
        "_exchanges",
        "_in_flight",
        "_is_dual",
        "_is_post",
        "_max_concurrent",
        "_needs_meta",
        "_now",
        "_out",
        "_outgoing",
        "_rows",
        "_version",
        "client",
        "is_strict",
        "state",
        "wake_at",
    )

    def __init__(
        self,
        config: ServerConfig,
        *,
        version: str | None = None,
        is_post: bool = False,
        client: e.ClientParams | None = None,
        is_strict: bool = False,
    ) -> None:
        if version is not None and version not in config.supported:
            raise UsageError(
                f"unsupported version {version!r}; supported: {', '.join(config.supported)}", path="version"
            )
        options = config.options
        self._config = config
        self._is_post = is_post
        self._is_dual = bool(config.stateless)
        self.is_strict = is_strict
        self._max_concurrent = options.max_concurrent
        self._out: list[e.Effect] = []
        self._exchanges = Exchanges(self._out, options.max_frame_bytes)
        self._in_flight = self._exchanges.in_flight
        self._outgoing = OutgoingRequests(self._out, options.max_frame_bytes)
        # When the next timer is `due`; None if there is none. For drivers to read.
        self.wake_at: float | None = None
        self._now = 0.0
        self._version = version
        self.client = client
        self.state = S.FRESH
        if version is not None:
            self.state = S.STATELESS if REVISIONS[version].era is Era.STATELESS else S.OPERATING
        self._update_rows()

    # --- for drivers ---

    def __repr__(self) -> str:
        version = "" if self._version is None else f" {self._version}"
        return f"<ServerConnection {self.state.value}{version}, {len(self._in_flight)} in flight>"

    @property
    def version(self) -> str | None:
        """The negotiated revision, or that of the first stateless request; None while `fresh`."""
        return self._version

    @property
    def in_flight(self) -> Mapping[RequestId, int]:
        """The serial numbers of the requests in flight, by id."""
        return self._in_flight

    @property
    def outgoing_requests(self) -> Mapping[int, OutgoingRequest]:
        """The pending requests to the client (key, method, related request id), by id."""
        return self._outgoing.open

    @property
    def counts(self) -> Mapping[str, int]:
        """How often something was dropped or failed without an error being raised."""
        return self._exchanges.counts

    def copy(self) -> Self:
        """Return an independent copy, for model checking."""
        clone = self.__class__.__new__(self.__class__)
        clone._config = self._config
        clone._is_post = self._is_post
        clone._is_dual = self._is_dual
        clone._needs_meta = self._needs_meta
        clone.is_strict = self.is_strict
        clone._max_concurrent = self._max_concurrent
        clone._out = []
        clone._exchanges = self._exchanges.copy(clone._out)
        clone._in_flight = clone._exchanges.in_flight
        clone._outgoing = self._outgoing.copy(clone._out)
        clone.wake_at = self.wake_at
        clone._now = self._now
        clone._version = self._version
        clone.client = self.client
        clone.state = self.state
        clone._rows = self._rows
        return clone

    def snapshot(self) -> tuple[object, ...]:
        """Return everything that determines later behaviour, hashable."""
        return (
            self.state,
            self._version,
            self.client,
            self._exchanges.snapshot(),
            self._outgoing.snapshot(),
            self.wake_at,
        )

    # --- running the table ---

    def _fire(self, event: e.Event) -> None:
        cells = CELLS.get(type(event))
        if cells is None:
            raise UsageError(f"not an event of ServerConnection: {type(event).__name__}", path="event")
        cell = cells[self.state]
        while cell.guard is not None and not self.GUARDS[cell.guard](self, event):
            assert cell.otherwise is not None  # every guard has an alternative: tests check every cell
            cell = cell.otherwise
        if cell.is_impossible:
            self._exchanges.count(f"impossible {type(event).__name__}")
            if self.is_strict:
                raise InvalidEventError(type(event).__name__, self.state.value)
            return
        for name in cell.actions:
            self.ACTIONS[name](self, event)
        if cell.to is not None:
            self._enter(S(cell.to), event)
        elif not cell.actions:
            self._exchanges.count(f"ignored {type(event).__name__}")

    def _enter(self, target: ServerState, event: e.Event) -> None:
        self._out.append(e.Transition(self.state.value, target.value, readable_name(type(event).__name__)))
        self.state = target
        self._update_rows()
        for name in ENTRIES.get(target, ()):
            self.ACTIONS[name](self, event)

    def _update_rows(self) -> None:
        """Set the methods that the fast path serves: none unless the state serves every known request."""
        self._needs_meta = self.state is S.STATELESS
        is_serving = self.state in (S.OPERATING, S.STATELESS) or (
            self.state is S.HANDSHAKE and not self._config.options.strict
        )
        self._rows = _NO_ROWS
        if is_serving and self._version is not None:
            self._rows = served_methods(self._version)

    def _report_violation(self, reason: str, size: int) -> None:
        self._out.append(e.Violation(reason, size, self._exchanges.count("violation")))
