"""The state of one point in a search: the connection, its environment, and which such worlds are equivalent.

`key` maps equivalent worlds to the same value. The smaller it is, the more requests a search can follow; if it is too
small, the search misses states. So every merge has its reason in a comment, and two methods test them: `Search.compare`
compares merged worlds, and `Search.walk` checks worlds that were never merged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from jackstay.protocol.client import events as e
from jackstay.protocol.client._connection import ClientConnection
from jackstay.protocol.client._exchange import Exchange, ExchangeState, Role
from jackstay.protocol.client._negotiation import supports_both_eras
from jackstay.protocol.client._settings import SESSION_LOSS_WINDOW, Settings
from jackstay.protocol.client._states import ClientState
from model.copies import copied

_OVER = (ClientState.CLOSING, ClientState.CLOSED)


@dataclass(frozen=True)
class Scenario:
    """What the environment may do in one search."""

    settings: Settings
    calls: tuple[dict[str, Any], ...]
    is_http: bool = False
    peer: frozenset[str] = frozenset()
    transport: frozenset[str] = frozenset({"fail", "down"})
    # What the user does besides calls.
    user: frozenset[str] = frozenset()
    # None: epochs are compared and never counted, so the search covers any number of them. A number: each epoch is
    # a state of its own, up to that many, and the search goes no further.
    epochs: int | None = None
    limit: int = 200_000

    @property
    def is_unordered(self) -> bool:
        """True if order does not matter: POSTs are independent, and all that waits is sent in one turn.

        That is true for as many requests as are sent at once (`FLUSH_BATCH_SIZE`), which is more than a search has.
        """
        return self.is_http and "busy" not in self.transport


@dataclass(frozen=True, slots=True)
class SentRequest:
    """A request that the peer was sent, or will be when the transport has written it."""

    caller: object
    method: str
    epoch: int

    @property
    def subject(self) -> str:
        return self.method.partition("/")[0] if self.caller is not None else self.method


@dataclass(slots=True)
class World:
    """A connection and its environment."""

    core: ClientConnection
    made: int = 0
    outcomes: tuple[int, ...] = ()
    # Requests the peer has or will have, by id; it may respond to any of them at any time, repeatedly.
    known: dict[int, SentRequest] = field(default_factory=dict)
    # The frames that the transport accepted and has not written, in order.
    unwritten: tuple[e.Send, ...] = ()
    # The number of the first frame of the last turn, which a busy transport may refuse; None: all are accepted.
    refusable_from: int | None = None
    # The core emitted `Resume`, and `Resumed` has not been stepped yet.
    owes_resume: bool = False
    written_ids: frozenset[int] = frozenset()
    cancelled: frozenset[int] = frozenset()
    # Caller and id of each request of which the peer got a byte, unless it reported that the request did not run.
    reached: frozenset[tuple[object, int]] = frozenset()
    # How many times the server refused the request of each caller because it did not know the session.
    refusals: tuple[int, ...] = ()
    # HTTP: requests that the transport accepted and has not begun to send, in order.
    queued: tuple[int, ...] = ()
    # Callers whose error reported that the call did not run: no byte of it may be written from then on.
    denied: frozenset[object] = frozenset()
    alive: str = "none"
    was_stopped: bool = False
    is_draining: bool = False
    # Transports started since the last delay or the last result.
    spins: int = 0
    clock: float = 0.0

    def copy(self) -> World:
        return World(
            copied(self.core), self.made, self.outcomes, self.known.copy(), self.unwritten, self.refusable_from,
            self.owes_resume, self.written_ids, self.cancelled, self.reached, self.refusals, self.queued, self.denied,
            self.alive, self.was_stopped, self.is_draining, self.spins, self.clock,
        )  # fmt: skip

    @property
    def can_talk(self) -> bool:
        """True while frames may be written and received, now or when the transport is up."""
        return self.alive in ("live", "spawning")

    def has_just_lost_session(self) -> bool:
        """True while another loss delays the next session."""
        last = self.core.recovery.session_renewed_at
        return last is not None and self.clock - last <= SESSION_LOSS_WINDOW

    def old_kinds(self) -> dict[tuple[str, object, bool], int]:
        """Return requests that are no longer open but that the peer may still respond to: the newest of each kind.

        One is enough of each kind: its response belongs to no call, however often it is received. The core keeps the
        id at most as a tombstone, which only decides which counter is increased. The kinds separate requests that a
        bug could treat differently.
        """
        pending = self.core.calls.pending
        if self.known.keys() <= pending.keys():  # the usual case, and this runs in every state
            return {}
        waiting = {exchange.caller for exchange in pending.values()}
        return {self._kind(id, waiting): id for id in self.known if id not in pending and id in self.written_ids}

    def _kind(self, id: int, waiting: set[object]) -> tuple[str, object, bool]:
        """Return its subject, its caller if that waits again under another id, and whether its session is current."""
        request = self.known[id]
        caller = request.caller if request.caller in waiting else None
        return request.subject, caller, request.epoch == self.core.epoch

    def next_frames(self) -> Iterator[tuple[e.Send, object]]:
        """Yield the frames not yet written, each with what writing it will change (None: nothing).

        Writing an open request makes a response possible, and changes whether it may have run. Writing one that is no
        longer open (a keepalive that a newer one replaced) makes a late response possible; only the first of a kind
        matters. Writing a frame that must arrive ends the time in which it can be refused. Writing anything else (a
        cancellation) changes nothing: no exchange has its number, and the core compares only numbers of exchanges.
        """
        if not self.unwritten:
            return
        pending = self.core.calls.pending
        answerable = set(self.old_kinds())
        waiting = {exchange.caller for exchange in pending.values()}
        refusable = self.refusable()
        for frame in self.unwritten:
            id = frame.id
            if id is None:
                yield (
                    frame,
                    ("must arrive", frame.response_to) if frame.must_arrive and frame in refusable else None,
                )
            elif id not in self.known:
                yield frame, None
            elif id in pending:
                yield frame, id
            else:
                kind = self._kind(id, waiting)
                yield frame, None if kind in answerable else kind
                answerable.add(kind)

    def unwanted(self) -> tuple[object, ...]:
        """Return queued frames that must not be written any more: none, unless the core or the driver is wrong.

        While the transport is being closed that is all of them; before, the frames of callers in `denied`.
        """
        if not self.unwritten:
            return ()
        callers = [None if frame.id is None else self._caller(frame.id) for frame in self.unwritten]
        if self.alive == "closing":
            return tuple(callers)
        return tuple(caller for caller in callers if caller in self.denied)

    def _caller(self, id: int) -> object:
        request = self.known.get(id)
        return None if request is None else request.caller

    def refusable(self) -> tuple[e.Send, ...]:
        """Return the frames that a busy transport may still refuse: those of the last turn."""
        first = self.refusable_from
        if first is None:
            return ()
        return tuple(frame for frame in self.unwritten if frame.number >= first)


def request_key(
    world: World,
    exchange: Exchange,
    places: dict[object, int],
    refusable: frozenset[int | None],
    old: Collection[tuple[str, object, bool]],
    *,
    is_unordered: bool,
) -> Any:
    """Return everything that can still matter of one open request; the first item is True if its order does not.

    Ids and callers are names: the core uses them for lookups and never compares two, so requests may be renamed. They
    are listed in the order they were made, which is the only order the core sorts by.
    """
    core, calls, id = world.core, world.core.calls, exchange.id
    # A new transport has refused nothing.
    returned = [other for other in calls.returned if other in calls.pending] if world.can_talk else []
    # A frame that was refused keeps its number until it is sent again, and it does not matter whether it was written.
    is_written = exchange.state is ExchangeState.SENT and calls.is_written(exchange)
    request = world.known.get(id)
    facts = (
        id in world.written_ids,
        (exchange.caller, id) in world.reached,
        sum(caller == exchange.caller and other != id for caller, other in world.reached),
        world.queued.index(id) if id in world.queued else None,
        exchange.is_unsent,
        id in world.cancelled,
        id in calls.timers,
        e.RetryDue(id) in calls.timers,
        exchange.was_sent,
        exchange.refusals,
        # Whether it leads to a health check when its timer expires, and whether that is its deadline.
        core.settings.hang_timeout is not None and core.health.is_unanswered(exchange),
        exchange.due_at is not None,
        # The epoch a request was sent in decides what a lost session means for it.
        calls.is_http and request is not None and request.epoch == world.core.epoch,
        # Late responses to its earlier ids: its own for as long as it waits, then anybody's.
        frozenset(kind[2] for kind in old if kind[1] is not None and kind[1] == exchange.caller),
    )
    # Written: it fails with the connection, or gets a new id and then waits for ready in any case.
    has_left = is_written and id not in refusable
    # Written and never sent again: it only waits for its end. Its order, whether it waits if the transport is busy, and
    # its attempts no longer matter.
    may_return = exchange.may_replay or (calls.is_http and exchange.refusals + 1 < calls.settings.session_attempts)
    if exchange.role is Role.CALL and has_left and not may_return:
        return True, facts
    return (
        is_unordered, facts, exchange.role, exchange.state, is_written,
        exchange.waits_for_ready and not has_left, exchange.waits_if_busy, exchange.may_replay,
        # Attempts are counted while the transport may still refuse; queueing resets the count.
        exchange.attempts if id in refusable or exchange.state is ExchangeState.BUSY else 0,
        id in refusable,
        places.get(id),
        None if is_unordered or id not in calls.queue else tuple(calls.queue).index(id),
        # Refused calls go to the front again, in the order of refusal.
        tuple(place for place, other in enumerate(returned) if other == id),
    )  # fmt: skip


def key(world: World, scenario: Scenario) -> object:
    """Return everything that decides what can happen next, and nothing else.

    Omitted, besides what `request_key`, `next_frames` and `old_kinds` omit:
    - epoch numbers, unless the scenario counts them, and times: only order and windows matter, and any timer may fire;
    - outcomes: after `_check`, a call that was made has one exactly if it is not open;
    - failures and the last exit code after the first ready: the core uses them only before it. The timer that resets
      failures then changes nothing, and is omitted too;
    - what was received and missed, except while keepalives are sent: each ready begins anew, with something received;
    - the era of the last agreement, if the client has only one;
    - whether a message was received, unless the peer sends garbage: it decides what garbage means;
    - what the negotiation tried, except while it lasts: each spawn begins a new one;
    - what the peer knows and what is unwritten once the transport is to be closed: nothing is received from it again.
    """
    core, calls = world.core, world.core.calls
    can_talk = world.can_talk
    frames = [what for _, what in world.next_frames() if what is not None] if can_talk else []
    places: dict[object, int] = {what: place for place, what in enumerate(frames)}
    refusable = frozenset(frame.id for frame in world.refusable()) if can_talk else frozenset()
    old = world.old_kinds() if can_talk else {}
    is_unordered = scenario.is_unordered
    requests = [
        request_key(world, exchange, places, refusable, old, is_unordered=is_unordered)
        for exchange in sorted(calls.pending.values(), key=_by_order)
    ]
    negotiation = core.negotiation
    is_new = core.server is None
    has_keepalive = core.settings.keepalive is not None and core.state is ClientState.READY
    return (
        core.state, core.transport.status, calls.is_full, world.clock >= core.drain_at,
        negotiation.known_era if supports_both_eras(core.settings) else None,
        frozenset(Counter(request for request in requests if request[0]).items()),
        tuple(request for request in requests if not request[0]),
        frozenset(name for name in calls.timers.armed if isinstance(name, type) and name is not e.BecameStable),
        (_is_open(core, negotiation.probe_id), _is_open(core, negotiation.handshake_id), negotiation.steps,
         negotiation.deferred is not None)
        if core.state is ClientState.INITIALIZING
        else None,
        is_new, min(core.recovery.failures, core.settings.max_attempts) if is_new else 0,
        core.recovery.last_exit if is_new else None,
        core.transport.invalid_frames, negotiation.probe_history,
        core.transport.has_received_message if "garbage" in scenario.peer else None,
        # What was missed counts only if nothing was received since.
        core.health.missed if has_keepalive and not core.health.received_after else None,
        (core.health.check > 0, core.health.is_checking) if core.settings.hang_timeout is not None else None,
        world.has_just_lost_session(), tuple(core.subscriptions.kept),
        tuple(response_to for response_to, _ in core.peer_requests.unsent), tuple(core.peer_requests.serving),
        tuple(core.waiters.callers), type(core.recovery.cause) if core.state in _OVER else None,
        world.made, world.alive, world.was_stopped, world.is_draining, world.spins, world.owes_resume,
        (frozenset(kind for kind in old if kind[1] is None),
         tuple(what if isinstance(what, tuple) else None for what in frames))
        if can_talk
        else None,
        None if scenario.epochs is None else core.epoch,
        world.unwanted(),
    )  # fmt: skip


def _by_order(exchange: Exchange) -> tuple[bool, int]:
    # Internal requests are never queued: their order does not matter, and there are two at most.
    return exchange.role is not Role.CALL, exchange.order


def _is_open(core: ClientConnection, id: int | None) -> bool | None:
    """Return None if it was not sent, True if it is open, False if it has ended."""
    return None if id is None else id in core.calls.pending


# The fields of the core that `key` omits, each with the reason; a test compares this with the core's fields.
OMITTED = {
    "calls": "compared field by field",
    "counts": "counts",
    "ids": "whether the newest request of a subscription is open, which `request_key` has",
    "epoch": "included if the scenario counts epochs; else only comparisons matter",
    "is_http": "never changes",
    "offered": "never changes",
    "is_strict": "never changes",
    "settings": "never changes",
    "defaults": "never changes",
    "has_warned": "only logged",
    "last_line": "text",
    "slow_starts": "only makes the connect deadline longer, and times are not compared",
    "check_method": "follows from the era",
    "request_meta": "follows from `known_era` and the state",
    "version_meta": "as `request_meta`",
    "closes_response_to_cancel": "follows from `known_era` and `status`",
    "last_id": "a name is new, whatever its number",
    "late": "counts",
    "unknown": "counts",
    "jitter": "an argument",
    "now": "an argument",
    "number": "compared with the numbers of exchanges, by `is_written` and `refusable`",
    "written": "as `number`",
    "out": "empty between turns",
    "internal": "the number of pending requests with another role than CALL",
    "refusal": "used only in the turn that set it",
    "tombstones": "distinguish late from unknown responses, for the counters",
    "is_open": "follows from the state",
    "method": "text; `SentRequest` has it",
    "params": "never changes",
    "meta": "never changes",
    "on_behalf_of": "never changes",
    "timeout": "never changes",
    "max_timeout": "a time",
    "made_at": "a time",
    "began_at": "a time",
    "moved_at": "a time",
    "cancelled_from": "as `number`; it belongs to `cancelled_since`",
    "cancelled_since": "a time",
    "connect_deadline": "a time, and None if `max_attempts` is set, as in every scenario",
    "wants_progress": "never changes, and the same for all here",
    "requested": "the one revision of the era that these scenarios try first",
    "proposed": "as `requested`",
}
