"""The data of a client's connection, and the code that runs its table.

The actions and guards that the table names are methods of the classes that extend `ClientCore`, one per subject:
`_users`, `_transport` (with the negotiation), `_recovery` and `_frames`. `_connection` combines them.
"""

from collections.abc import Callable
from enum import Enum
from typing import ClassVar, Self

import msgspec

from jackstay.errors import (
    ClosedError,
    InvalidEventError,
    McpError,
    ProtocolError,
    ResetError,
    SessionLostError,
    ShutdownError,
    TransportError,
)
from jackstay.protocol._versions import Era
from jackstay.protocol.client import events as e
from jackstay.protocol.client._calls import Calls
from jackstay.protocol.client._exchange import Caller, Exchange, ExchangeState
from jackstay.protocol.client._negotiation import Negotiation
from jackstay.protocol.client._settings import KEEPALIVE_MISSES, Settings
from jackstay.protocol.client._table import CELLS, ENTRIES, TIMERS, Action, ClientState, Timer


class TransportStatus(Enum):
    """The status of the transport of this epoch. It changes independently of the state in `backoff` and `closing`."""

    NONE = "none"
    SPAWNING = "spawning"
    LIVE = "live"
    # HTTP: the session is lost, the HTTP client and its open requests are kept.
    KEPT = "kept"
    CLOSING = "closing"


_ENTERED = e.Event()
# Events about one request, which may be older than the session: they are valid in any epoch.
_OF_ANY_EPOCH = frozenset({e.ExchangeLost, e.PostStarted})


class ClientCore:
    """The data of a client's connection; `_fire` and `_enter` run the table."""

    # The methods for the actions and guards of the table. Each accepts the event type of its rows, which the table
    # guarantees and a type checker cannot verify.
    ACTIONS: ClassVar[dict[Enum, Callable[..., None]]] = {}
    GUARDS: ClassVar[dict[Enum, Callable[..., bool]]] = {}

    __slots__ = (
        "_cause",
        "_connect_deadline",
        "_failures",
        "_has_received_message",
        "_has_warned",
        "_invalid_frames",
        "_is_up",
        "_last_exit",
        "_last_line",
        "_missed_keepalives",
        "_negotiation",
        "_reason",
        "_serving",
        "_session_renewed_at",
        "_skips_probe",
        "_slow_starts",
        "_subscriptions",
        "_unsent",
        "_waiters",
        "_was_probe_fatal",
        "calls",
        "counts",
        "epoch",
        "is_http",
        "is_strict",
        "known_era",
        "server",
        "settings",
        "state",
        "transport_status",
    )

    def __init__(
        self,
        settings: Settings,
        *,
        is_http: bool = False,
        known_era: Era | None = None,
        is_strict: bool = False,
    ) -> None:
        self.settings = settings
        self.is_http = is_http
        self.is_strict = is_strict
        self.known_era = known_era
        self.state = ClientState.STARTING
        self.epoch = 0
        self.transport_status = TransportStatus.NONE
        # What the server declared, also while it is lost; None before the first ready.
        self.server: e.ServerFacts | None = None
        self.calls = Calls(settings, is_http=is_http, is_strict=is_strict)
        # Events that changed nothing, by name: "ignored X", "impossible X", "stale".
        self.counts: dict[str, int] = {}
        self._negotiation = Negotiation()
        self._subscriptions: dict[str, e.Subscribed] = {}
        self._serving: dict[int | str, None] = {}
        # Responses and notifications that a busy transport refused, in order, each with the request it responds to.
        self._unsent: list[tuple[int | str | None, bytes]] = []
        self._waiters: dict[Caller, None] = {}
        self._cause: McpError | None = None
        self._reason: McpError | None = None
        self._failures = 0
        self._invalid_frames = 0
        self._last_line = ""
        # The connect deadline of this start, while an earlier one is armed because the server prints other output.
        self._connect_deadline: float | None = None
        self._last_exit: int | None = None
        # When the newest session was created with an HTTP client that was kept.
        self._session_renewed_at: float | None = None
        self._has_warned = False
        self._missed_keepalives = 0
        self._is_up = False
        # A server exited on the probe once, and was restarted for it; and the next start begins with `initialize`.
        self._was_probe_fatal = False
        self._skips_probe = False
        # Starts since the last ready that timed out.
        self._slow_starts = 0
        # A valid message was received from this transport.
        self._has_received_message = False

    def __repr__(self) -> str:
        name = self.settings.name or "client"
        calls = self.calls
        return (
            f"<ClientConnection {name} {self.state.value} epoch={self.epoch} transport={self.transport_status.value}"
            f" pending={len(calls.pending)} queued={len(calls.queue)} failures={self._failures}>"
        )

    def copy(self) -> Self:
        """Return an independent copy, used by the model checker."""
        clone = self.__class__.__new__(self.__class__)
        for name in ClientCore.__slots__:
            setattr(clone, name, getattr(self, name))
        clone.calls = self.calls.copy()
        clone.counts = self.counts.copy()
        clone._negotiation = msgspec.structs.replace(self._negotiation)
        clone._subscriptions = self._subscriptions.copy()
        clone._serving = self._serving.copy()
        clone._unsent = self._unsent.copy()
        clone._waiters = self._waiters.copy()
        return clone

    @property
    def cause(self) -> McpError | None:
        """The newest failure, or the reason why the connection closed."""
        return self._cause if self._reason is None else self._reason

    @property
    def failures(self) -> int:
        """The number of consecutive failures."""
        return self._failures

    # --- running the table --------------------------------------------------------------------------------------------

    def _fire(self, event: e.Event) -> None:
        kind = type(event)
        if isinstance(event, e.TransportEvent) and event.epoch != self.epoch and kind not in _OF_ANY_EPOCH:
            if isinstance(event, e.SessionLost):
                # A late 404 does not affect the new session, but the request that got it did not run.
                self.ACTIONS[Action.REQUEUE](self, event)
            elif isinstance(event, e.Spawned):
                # It was abandoned, and another was started since: close it.
                self.ACTIONS[Action.CLOSE_LATE](self, event)
            event = e.StaleEventReceived(event.epoch)
            kind = e.StaleEventReceived
        cell = CELLS[kind][self.state]
        while cell.guard is not None and not self.GUARDS[cell.guard](self, event):
            assert cell.otherwise is not None  # tests check that every guarded cell has one
            cell = cell.otherwise
        if cell.is_impossible:
            self._count(f"impossible {kind.__name__}")
            if self.is_strict:
                raise InvalidEventError(kind.__name__, self.state.value)
            return
        if not cell.actions and cell.to is None:
            self._count(f"ignored {kind.__name__}")
        for action in cell.actions:
            self.ACTIONS[action](self, event)
        if cell.to is not None:
            self._enter(ClientState(cell.to))

    def _enter(self, state: ClientState, *, is_first: bool = False) -> None:
        source = "new" if is_first else self.state.value
        self.state = state
        self.calls.can_send = state is ClientState.READY
        for timer, states in TIMERS.items():
            if state not in states:
                self.calls.timers.disarm(timer)
        if state in (ClientState.CLOSING, ClientState.CLOSED) and self._reason is None:
            self._reason = self._cause or ShutdownError()
        reason = None if state in (ClientState.INITIALIZING, ClientState.READY) else self.cause
        epoch = self.epoch + (state is ClientState.STARTING)  # `starting` begins the next epoch
        self._do(e.Transition(source, state.value, reason, epoch, self._failures))
        for action in ENTRIES[state]:
            self.ACTIONS[action](self, _ENTERED)

    def _do(self, effect: e.Effect) -> None:
        self.calls.out.append(effect)

    def _count(self, name: str) -> None:
        self.counts[name] = self.counts.get(name, 0) + 1

    # --- used by several subclasses -----------------------------------------------------------------------------------

    def _open_exchange(self, id: object) -> Exchange | None:
        """Return the exchange with this id if it was sent and is open, else None."""
        exchange = self.calls.pending.get(id) if isinstance(id, int) else None
        return exchange if exchange is not None and exchange.state is ExchangeState.SENT else None

    def _ended(self) -> McpError:
        reason = self._reason or ShutdownError()
        if self.state is ClientState.CLOSING and isinstance(reason, ShutdownError):
            return ShutdownError()
        return ClosedError(reason)

    def _flush_if_ready(self) -> None:
        if self.state is ClientState.READY:
            self.calls.flush()

    def _ended_without_message(self, event: e.WentDown) -> bool:
        """Return True if the program ended without an MCP message; other output counts only if attempts are limited."""
        return event.was_silent or (not self._has_received_message and self.settings.max_attempts is None)

    def _check_method(self) -> str:
        """Return the method of a request that every server of the agreed era supports."""
        assert self.server is not None  # only while ready
        return "server/discover" if self.server.era is Era.STATELESS else "ping"

    def _end_check(self, _: object) -> None:
        """End the health check, because something was received, and send the queued calls."""
        self.calls.check = 0
        self.calls.timers.disarm(Timer.CHECK)
        self._flush_if_ready()

    def _stop_all_serving(self) -> None:
        serving, self._serving = self._serving, {}
        for id in serving:
            self._do(e.StopServing(id))
        self._unsent = []

    def _send_message(self, frame: bytes, response_to: int | str | None = None) -> None:
        """Send a response or notification; queue it if earlier ones still wait for the transport."""
        if self._unsent:
            self._unsent.append((response_to, frame))
        else:
            self.calls.send_message(frame, response_to)

    def _is_unsent(self, id: int | str | None) -> bool:
        """Return True while the response to that request of the server waits for the transport."""
        return any(response_to == id for response_to, _ in self._unsent if response_to is not None)

    def _cause_of(self, event: e.Event) -> McpError:
        error = getattr(event, "error", None)
        if isinstance(event, e.WentDown) and isinstance(error, TransportError) and self._non_mcp_output:
            return TransportError(
                f"{error.message}; {self._non_mcp_output}", exit_code=error.exit_code, stderr_tail=error.stderr_tail
            )
        if isinstance(error, McpError):
            return error
        match event:
            case e.StopRequested():
                return ShutdownError()
            case e.ResetReceived():
                return ResetError()
            case e.SessionLost():
                return SessionLostError("the server does not keep sessions")
            case e.InitializeReceived():
                return ProtocolError("the server sent initialize, which only a client may send")
            case e.KeepaliveMissed():
                return TransportError(f"no response to {KEEPALIVE_MISSES} keepalives")
            case e.CheckExpired():
                return TransportError(f"the server hangs: it responded neither to a call nor to {self._check_method()}")
            case _:
                if self._non_mcp_output:
                    return ProtocolError(self._non_mcp_output)
                silence = "" if self._has_received_message else ": nothing was received from the server"
                limit = self.settings.start_timeout(self._slow_starts)
                return TransportError(f"not ready within {limit:g} s{silence}")

    @property
    def _non_mcp_output(self) -> str:
        """An error message if the server sent other output but no MCP message, else an empty string."""
        if self._has_received_message or not self._invalid_frames:
            return ""
        if self.is_http:
            return f"the server sent {self._last_line!r} and no MCP message; is this an MCP server?"
        return (
            f"the program printed {self._last_line!r} to its standard output and sent no MCP message;"
            " is this an MCP server?"
        )
