"""What a client's connection remembers, and how it walks its table.

`ClientCore` holds the data and the two verbs of every machine here: fire an event, enter a state. What the names in
the table mean stands in the classes that build on it, one a subject: users (`_users`), the wire and the
negotiation (`_wire`), failing and coming back (`_recovery`), frames (`_frames`). `_connection` joins
them. Nothing here knows what any name does.

Above: those four, and `_connection`. Below: `_table` (when), `_calls` (requests).
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
from jackstay.protocol.client._table import CELLS, ENTRIES, TIMERS, ClientState, Do, Timer


class Wire(Enum):
    """What is known of the transport of this epoch. Not a state: it changes while `backoff` and `closing` last."""

    NONE = "none"
    SPAWNING = "spawning"
    LIVE = "live"
    # HTTP: the session is gone, the client and what is open over it stay.
    KEPT = "kept"
    CLOSING = "closing"


_ENTERED = e.Event()
# About one request, which may be older than the session: what happens to it is true of it in any session.
_OF_ANY_EPOCH = frozenset({e.ExchangeLost, e.PostStarted})


class ClientCore:
    """The data of a client's connection, and the walk over its table."""

    # What the table's names do and ask. The methods take the event of their row: the table guarantees it, and a type
    # checker cannot see it.
    DO: ClassVar[dict[Enum, Callable[..., None]]] = {}
    WHEN: ClassVar[dict[Enum, Callable[..., bool]]] = {}

    __slots__ = (
        "_cause",
        "_connect_by",
        "_failures",
        "_has_warned",
        "_is_up",
        "_last_exit",
        "_last_line",
        "_negotiation",
        "_reason",
        "_renewed_at",
        "_serving",
        "_skips_probe",
        "_slow_starts",
        "_standing",
        "_strikes",
        "_unheard",
        "_unsent",
        "_waiters",
        "_was_probe_fatal",
        "_was_ready",
        "_was_sane",
        "calls",
        "counts",
        "epoch",
        "is_http",
        "is_strict",
        "server",
        "settings",
        "state",
        "verdict",
        "wire",
    )

    def __init__(
        self,
        settings: Settings,
        *,
        is_http: bool = False,
        verdict: Era | None = None,
        is_strict: bool = False,
    ) -> None:
        self.settings = settings
        self.is_http = is_http
        self.is_strict = is_strict
        self.verdict = verdict
        self.state = ClientState.STARTING
        self.epoch = 0
        self.wire = Wire.NONE
        self.server: e.ServerFacts | None = None
        self.calls = Calls(settings, is_http=is_http, is_strict=is_strict)
        # Events that changed nothing, by name: "ignored X", "impossible X", "stale".
        self.counts: dict[str, int] = {}
        self._negotiation = Negotiation()
        self._standing: dict[str, e.Subscribed] = {}
        self._serving: dict[int | str, None] = {}
        # Answers and notifications that the transport had no room for, in order, each with the request it answers.
        self._unsent: list[tuple[int | str | None, bytes]] = []
        self._waiters: dict[Caller, None] = {}
        self._cause: McpError | None = None
        self._reason: McpError | None = None
        self._failures = 0
        self._strikes = 0
        self._last_line = ""
        # The connect deadline of this start, while a nearer one is armed because the program prints something else.
        self._connect_by: float | None = None
        self._last_exit: int | None = None
        # When the newest session was begun over an HTTP client that was kept.
        self._renewed_at: float | None = None
        self._has_warned = False
        self._unheard = 0
        self._is_up = False
        # The probe ended a server once, which gave it a start for nothing; and the next start begins with `initialize`.
        self._was_probe_fatal = False
        self._skips_probe = False
        self._was_ready = False
        # Starts since the last ready that only ran out of time.
        self._slow_starts = 0
        # This transport has sent something that is a message.
        self._was_sane = False

    def __repr__(self) -> str:
        name = self.settings.name or "client"
        calls = self.calls
        return (
            f"<ClientConnection {name} {self.state.value} epoch={self.epoch} wire={self.wire.value}"
            f" pending={len(calls.pending)} queued={len(calls.queue)} failures={self._failures}>"
        )

    def copy(self) -> Self:
        """An independent copy, for searching the states that can be reached."""
        twin = self.__class__.__new__(self.__class__)
        for name in ClientCore.__slots__:
            setattr(twin, name, getattr(self, name))
        twin.calls = self.calls.copy()
        twin.counts = self.counts.copy()
        twin._negotiation = msgspec.structs.replace(self._negotiation)
        twin._standing = self._standing.copy()
        twin._serving = self._serving.copy()
        twin._unsent = self._unsent.copy()
        twin._waiters = self._waiters.copy()
        return twin

    @property
    def cause(self) -> McpError | None:
        """The newest failure, or why the connection closed."""
        return self._cause if self._reason is None else self._reason

    @property
    def failures(self) -> int:
        """Failures in a row."""
        return self._failures

    # --- walking the table --------------------------------------------------------------------------------------------

    def _fire(self, event: e.Event) -> None:
        kind = type(event)
        if isinstance(event, e.TransportEvent) and event.epoch != self.epoch and kind not in _OF_ANY_EPOCH:
            if isinstance(event, e.SessionLost):
                # A late 404 cannot clear the new session, but the request that got it still did not run.
                self.DO[Do.TURN_AWAY](self, event)
            elif isinstance(event, e.Spawned):
                # Given up so long ago that another was started since: it is closed, not adopted.
                self.DO[Do.CLOSE_LATE](self, event)
            event = e.StaleHappened(event.epoch)
            kind = e.StaleHappened
        cell = CELLS[kind][self.state]
        while cell.when is not None and not self.WHEN[cell.when](self, event):
            assert cell.otherwise is not None  # a question has two answers: tests walk every cell
            cell = cell.otherwise
        if cell.is_impossible:
            self._count(f"impossible {kind.__name__}")
            if self.is_strict:
                raise InvalidEventError(kind.__name__, self.state.value)
            return
        if not cell.do and cell.to is None:
            self._count(f"ignored {kind.__name__}")
        for do in cell.do:
            self.DO[do](self, event)
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
        epoch = self.epoch + (state is ClientState.STARTING)  # the epoch that it leads to
        self._do(e.Transition(source, state.value, reason, epoch, self._failures))
        for do in ENTRIES[state]:
            self.DO[do](self, _ENTERED)

    def _do(self, effect: e.Effect) -> None:
        self.calls.out.append(effect)

    def _count(self, name: str) -> None:
        self.counts[name] = self.counts.get(name, 0) + 1

    # --- what more than one subject asks ------------------------------------------------------------------------------

    def _open_exchange(self, id: object) -> Exchange | None:
        """The exchange with this id that an answer can end: one that was handed over."""
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

    def _said_nothing(self, event: e.WentDown) -> bool:
        """True if the program ended without a message of MCP; whatever else it printed counts only if attempts are limited."""
        return event.was_silent or (not self._was_sane and self.settings.max_attempts is None)

    def _check_method(self) -> str:
        """The request that every server of the agreed era answers."""
        assert self.server is not None  # only while ready
        return "server/discover" if self.server.era is Era.STATELESS else "ping"

    def _end_check(self, _: object) -> None:
        """Something was received: the server answers, and what was kept back is sent."""
        self.calls.check = 0
        self.calls.timers.disarm(Timer.CHECK)
        self._flush_if_ready()

    def _stop_all_serving(self) -> None:
        serving, self._serving = self._serving, {}
        for id in serving:
            self._do(e.StopServing(id))
        self._unsent = []

    def _say(self, frame: bytes, answers: int | str | None = None) -> None:
        """Send what must arrive; behind what waits for room, where anything does."""
        if self._unsent:
            self._unsent.append((answers, frame))
        else:
            self.calls.say(frame, answers)

    def _is_unsent(self, id: int | str | None) -> bool:
        """True while our answer to that request of the server's waits for room."""
        return any(answers == id for answers, _ in self._unsent if answers is not None)

    def _cause_of(self, event: e.Event) -> McpError:
        error = getattr(event, "error", None)
        if isinstance(event, e.WentDown) and isinstance(error, TransportError) and self._printed:
            return TransportError(
                f"{error.message}; {self._printed}", exit_code=error.exit_code, stderr_tail=error.stderr_tail
            )
        if isinstance(error, McpError):
            return error
        match event:
            case e.StopAsked():
                return ShutdownError()
            case e.ResetReceived():
                return ResetError()
            case e.SessionLost():
                return SessionLostError("the server forgets sessions")
            case e.InitializeReceived():
                return ProtocolError("the server sent initialize, which only a client may")
            case e.KeepaliveMissed():
                return TransportError(f"no sign of life after {KEEPALIVE_MISSES} keepalives")
            case e.CheckExpired():
                return TransportError(
                    f"the server hangs: it answered neither a call nor {self._check_method()}"
                )
            case _:
                if self._printed:
                    return ProtocolError(self._printed)
                silence = "" if self._was_sane else ": nothing was received from the server"
                limit = self.settings.start_timeout(self._slow_starts)
                return TransportError(f"not ready within {limit:g} s{silence}")

    @property
    def _printed(self) -> str:
        """What is wrong with a program that has sent no message of MCP, and something else; else empty."""
        if self._was_sane or not self._strikes:
            return ""
        if self.is_http:
            return f"the server sent {self._last_line!r} and no MCP message; is this an MCP server?"
        return f"the program printed {self._last_line!r} to its standard output and sent no MCP message; is this an MCP server?"
