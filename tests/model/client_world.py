"""The world of a client's connection in a search: the connection, what surrounds it, and when two worlds are the same.

Around the real connection stands the least that can still go wrong: a transport with the frames it has taken, and a
peer that knows what it was sent. `key` names the classes of worlds between which nothing that happens later can
tell. The smaller it is, the more requests a search can follow; if it is too small, the search overlooks states.
So every merge below has its reason beside it, and two methods try them. `Search.compare` takes worlds that a search
dropped as the same as one it kept, and asks that both lead to the same; `Search.walk` wanders through worlds that were
never merged and asks that the search knows each.

Must never know which moves a search makes. Above: `client`. Below: the real `ClientConnection`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from jackstay.protocol.client import events as e
from jackstay.protocol.client._calls import Retry
from jackstay.protocol.client._connection import ClientConnection
from jackstay.protocol.client._exchange import Exchange, ExchangeState, Role
from jackstay.protocol.client._settings import SESSION_LOSS_WINDOW, Settings
from jackstay.protocol.client._table import ClientState, Timer


@dataclass(frozen=True)
class Scene:
    """What the environment may do in one search."""

    settings: Settings
    calls: tuple[dict[str, Any], ...]
    is_http: bool = False
    peer: frozenset[str] = frozenset()
    transport: frozenset[str] = frozenset({"fail", "down"})
    # None: epochs are compared and never counted, so the search covers any number of them. A number: each epoch is
    # a state of its own, up to that many, and the search goes no further.
    epochs: int | None = None
    limit: int = 200_000

    @property
    def is_unordered(self) -> bool:
        """Each POST travels alone; with a transport that is never busy, all that waits is sent in one turn.

        That holds for as many requests as the core offers at once (`BITE`), which is more than a search has.
        """
        return self.is_http and "busy" not in self.transport


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that the peer was sent, or will be when the transport has written it."""

    caller: object
    method: str
    epoch: int

    @property
    def subject(self) -> str:
        return self.method.partition("/")[0] if self.caller is not None else self.method


@dataclass(slots=True)
class World:
    """A connection and what surrounds it."""

    core: ClientConnection
    made: int = 0
    outcomes: tuple[int, ...] = ()
    # Requests the peer has or will have, by id; it may answer any of them at any time, as often as it likes.
    known: dict[int, Asked] = field(default_factory=dict)
    # The frames taken by the transport and not yet written, in order.
    unwritten: tuple[e.Send, ...] = ()
    # The number of the first frame of the turn just made, which a busy transport may refuse; None: all are taken.
    offered: int | None = None
    # The core asked to be told when the frames of its turn are settled.
    owes_resume: bool = False
    written_ids: frozenset[int] = frozenset()
    cancelled: frozenset[int] = frozenset()
    # Caller and id of each request of which the peer ever had a byte, unless it said that it did not run it.
    reached: frozenset[tuple[object, int]] = frozenset()
    # How often the server refused the request of each caller because it forgot the session.
    refusals: tuple[int, ...] = ()
    # HTTP: requests that the transport has taken and not begun to send, in order.
    queued: tuple[int, ...] = ()
    # Callers that were told that their call did not run: no byte of it may be written from then on.
    denied: frozenset[object] = frozenset()
    alive: str = "none"
    is_up: bool = False
    was_stopped: bool = False
    # Transports started since the last wait or the last good answer.
    spins: int = 0
    clock: float = 0.0

    def copy(self) -> World:
        return World(
            self.core.copy(), self.made, self.outcomes, self.known.copy(), self.unwritten, self.offered, self.owes_resume, self.written_ids,
            self.cancelled, self.reached, self.refusals, self.queued, self.denied, self.alive, self.is_up, self.was_stopped, self.spins,
            self.clock,
        )  # fmt: skip

    @property
    def can_talk(self) -> bool:
        """True while frames may be written and heard, now or when the transport is up."""
        return self.alive in ("live", "spawning")

    def has_just_lost_session(self) -> bool:
        """True while another loss delays the next session."""
        last = self.core._renewed_at
        return last is not None and self.clock - last <= SESSION_LOSS_WINDOW

    def old_kinds(self) -> dict[tuple[str, object, bool], int]:
        """What nobody waits for any more and the peer may still answer: the newest of each kind, by kind.

        One is as good as two of the same kind: its answer, however often it comes, is an answer to nobody. The core
        has forgotten the id, except as a tombstone, which decides between two counters and nothing else. The kinds
        keep apart what a mistake could.
        """
        pending = self.core.calls.pending
        if self.known.keys() <= pending.keys():  # the usual case, and this is asked for in every state
            return {}
        waiting = {exchange.caller for exchange in pending.values()}
        return {
            self._kind(id, waiting): id for id in self.known if id not in pending and id in self.written_ids
        }

    def _kind(self, id: int, waiting: set[object]) -> tuple[str, object, bool]:
        """What it was, who of those that wait again under another id asked it, and whether its session is the last."""
        asked = self.known[id]
        caller = asked.caller if asked.caller in waiting else None
        return asked.subject, caller, asked.epoch == self.core.epoch

    def next_frames(self) -> Iterator[tuple[e.Send, object]]:
        """The frames not yet written, each with what writing it will change (None: nothing).

        Writing a request that is open makes it answerable, and changes whether it may have run. Writing one that
        nobody waits for (a keepalive that a newer one replaced) gives the peer something to answer late: the first of
        a kind does, any further one adds nothing. Writing what must arrive ends the time in which it can be refused.
        Writing anything else (a cancel) changes nothing: no exchange has its number, and the core only compares
        numbers with those of exchanges.
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
                    ("must arrive", frame.answers) if frame.must_arrive and frame in refusable else None,
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
        """What is queued and must not be written any more: there is none, unless the core or the driver is wrong.

        Once the transport is being closed that is everything; before, the frames of callers that were told "not sent".
        """
        if not self.unwritten:
            return ()
        callers = [None if frame.id is None else self._caller(frame.id) for frame in self.unwritten]
        if self.alive == "closing":
            return tuple(callers)
        return tuple(caller for caller in callers if caller in self.denied)

    def _caller(self, id: int) -> object:
        asked = self.known.get(id)
        return None if asked is None else asked.caller

    def refusable(self) -> tuple[e.Send, ...]:
        """The frames that a busy transport may still refuse: those of the turn just made, from any of them on."""
        offered = self.offered
        if offered is None:
            return ()
        return tuple(frame for frame in self.unwritten if frame.number >= offered)


def request_key(
    world: World,
    exchange: Exchange,
    places: dict[object, int],
    refusable: frozenset[int | None],
    old: Collection[tuple[str, object, bool]],
    *,
    is_unordered: bool,
) -> Any:
    """All that can still matter of one open request, and True first if its place among the others cannot.

    Ids and callers are names: the core finds things by them and never compares two, so requests may be renamed.
    They are listed in the order they were made, which is the one order the core sorts by.
    """
    core, calls, id = world.core, world.core.calls, exchange.id
    # A new transport has refused nobody.
    returned = [other for other in calls.returned if other in calls.pending] if world.can_talk else []
    # A frame that was refused keeps its number until it is offered again, and nobody asks whether it was written.
    is_written = exchange.state is ExchangeState.SENT and calls.is_written(exchange)
    asked = world.known.get(id)
    facts = (
        id in world.written_ids,
        (exchange.caller, id) in world.reached,
        sum(caller == exchange.caller and other != id for caller, other in world.reached),
        world.queued.index(id) if id in world.queued else None,
        exchange.is_unsent,
        id in world.cancelled,
        id in calls.timers,
        Retry(id) in calls.timers,
        exchange.was_sent,
        exchange.refusals,
        # Whether it leads to a check of the server when its time runs out, and whether that is its deadline.
        core.settings.hang_timeout is not None and calls.is_unanswered(exchange),
        exchange.due_at is not None,
        # The epoch a request was sent in decides what a lost session means for it.
        calls.is_http and asked is not None and asked.epoch == world.core.epoch,
        # Late answers to what it asked before: its own for as long as it waits, then anybody's.
        frozenset(kind[2] for kind in old if kind[1] is not None and kind[1] == exchange.caller),
    )
    # Written: it fails with the connection, or it is made anew, and then it waits for ready whatever it did before.
    has_left = is_written and id not in refusable
    # Written and not to be sent again, whatever happens: it waits for its end. Whether it came before another, how it
    # would have waited for room and how often it was offered is of no more use.
    may_return = exchange.may_replay or (
        calls.is_http and exchange.refusals + 1 < calls.settings.session_attempts
    )
    if exchange.role is Role.CALL and has_left and not may_return:
        return True, facts
    return (
        is_unordered, facts, exchange.role, exchange.state, is_written,
        exchange.waits_for_ready and not has_left, exchange.waits_for_room, exchange.may_replay,
        # Attempts are counted while the transport may still refuse; to be queued begins a new count.
        exchange.attempts if id in refusable or exchange.state is ExchangeState.BUSY else 0,
        id in refusable,
        places.get(id),
        None if is_unordered or id not in calls.queue else tuple(calls.queue).index(id),
        # Who was refused goes to the front again, in the order of refusal.
        tuple(place for place, other in enumerate(returned) if other == id),
    )  # fmt: skip


def key(world: World, scene: Scene) -> object:
    """Everything that decides what can happen next, and nothing else.

    Left out besides what `request_key`, `next_frames` and `old_kinds` leave out:
    - numbers of epochs, unless the scene counts them, and times: only order and windows matter, and any timer may fire;
    - outcomes: after `_check`, a call that was made has one exactly if it is not open;
    - failures and the last exit code after the first ready: the core reads them to give up before it. Then the timer
      that forgets failures changes nothing, and is left out too;
    - what was heard, where there is no keepalive to ask for it;
    - what the negotiation tried, except while it lasts: each spawn begins a new one;
    - what the peer knows and what is unwritten once the transport is to be closed: nothing is heard from it again.
    """
    core, calls = world.core, world.core.calls
    can_talk = world.can_talk
    frames = [what for _, what in world.next_frames() if what is not None] if can_talk else []
    places: dict[object, int] = {what: place for place, what in enumerate(frames)}
    refusable = frozenset(frame.id for frame in world.refusable()) if can_talk else frozenset()
    old = world.old_kinds() if can_talk else {}
    is_unordered = scene.is_unordered
    requests = [
        request_key(world, exchange, places, refusable, old, is_unordered=is_unordered)
        for exchange in sorted(calls.pending.values(), key=_by_order)
    ]
    talk = core._negotiation
    is_new = not core._was_ready
    has_keepalive = core.settings.keepalive is not None
    return (
        core.state, core.wire, core._is_up, core.verdict, calls.is_full,
        frozenset(Counter(request for request in requests if request[0]).items()),
        tuple(request for request in requests if not request[0]),
        frozenset(name for name in calls.timers.armed if isinstance(name, Timer) and name is not Timer.SETTLED),
        (_question(core, talk.probe_id), _question(core, talk.handshake_id), talk.steps, talk.has_opened,
         talk.held is not None)
        if core.state is ClientState.INITIALIZING
        else None,
        is_new, min(core._failures, core.settings.max_attempts) if is_new else 0, core._last_exit if is_new else None,
        core._strikes, core._was_sane, core._was_probe_fatal, core._skips_probe,
        (bool(calls.received_after), core._unheard) if has_keepalive else None,
        (calls.check > 0, calls.is_checking) if core.settings.hang_timeout is not None else None,
        world.has_just_lost_session(), tuple(core._standing), tuple(answers for answers, _ in core._unsent), tuple(core._serving), tuple(core._waiters),
        type(core._reason),
        world.made, world.alive, world.is_up, world.was_stopped, world.spins, world.owes_resume,
        (frozenset(kind for kind in old if kind[1] is None), tuple(what if isinstance(what, tuple) else None for what in frames))
        if can_talk
        else None,
        None if scene.epochs is None else core.epoch,
        world.unwanted(),
    )  # fmt: skip


def _by_order(exchange: Exchange) -> tuple[bool, int]:
    # Requests of the connection's own are never queued: their order does not matter, and there are two at most.
    return exchange.role is not Role.CALL, exchange.order


def _question(core: ClientConnection, id: int | None) -> bool | None:
    """None: not asked; True: open; False: asked and gone."""
    return None if id is None else id in core.calls.pending


# What the core remembers and `key` does not look at, each with the reason; a test holds this to the core's fields.
LEFT_OUT = {
    "calls": "looked at field by field",
    "counts": "counts",
    "drain_at": "set by `stop(drain=)`, which no scene has; calls are refused before they are made",
    "epoch": "counted only where a scene asks for it; else it is compared",
    "is_http": "never changes",
    "is_strict": "never changes",
    "settings": "never changes",
    "server": "the same facts from every server here; the era is the verdict's",
    "_has_warned": "a line in the log",
    "_cause": "words, and an error class that `_check_error` has looked at when somebody is told",
    "_last_line": "words",
    "_slow_starts": "only makes the connect deadline longer, and times are not compared",
    "can_send": "follows from the state",
    "envelope": "follows from the verdict and the state",
    "head": "as `envelope`",
    "hangs_up": "follows from the verdict",
    "last_id": "a name is new, whatever its number",
    "late": "counts",
    "unknown": "counts",
    "luck": "an argument",
    "now": "an argument",
    "number": "compared with the numbers of exchanges, by `is_written` and `refusable`",
    "written": "as `number`",
    "out": "empty between turns",
    "own": "how many of the pending have another role than a call's",
    "refusal": "read in the turn that set it",
    "tombstones": "tell a late answer from an unknown one, for the counters",
    "method": "words; `Asked` has it",
    "params": "never changes",
    "meta": "never changes",
    "speaker": "never changes",
    "timeout": "never changes",
    "hard_at": "a time",
    "soft_at": "a time",
    "max_timeout": "a time",
    "made_at": "a time",
    "_connect_by": "a time, and None where attempts are numbered, as in every scene",
    "wants_progress": "never changes, and the same for all here",
    "requested": "the one revision of the era that these scenes speak first",
    "proposed": "as `requested`",
}
