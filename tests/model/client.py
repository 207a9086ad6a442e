"""The search behind tests/mooring/protocol/client/test_model.py: every state a client's connection can reach, on the real object.

The connection is copied at each step, never re-modelled. Around it stands the least environment that can still lie: a
transport that starts, fails, takes frames, is busy, writes, dies and is reaped, and a peer that answers anything it
was ever sent, twice, late, or not at all. Time stands still and any armed timer may fire, which allows every order a
real clock allows and more. Epochs and ids are compared and never counted, so numbers that only grow do not make new
states and the search covers any number of reconnects.
"""

from __future__ import annotations

import copy
import json
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from mooring.errors import TransportError
from mooring.protocol.client import events as e
from mooring.protocol.client._calls import Retry
from mooring.protocol.client._connection import ClientConnection
from mooring.protocol.client._core import Wire
from mooring.protocol.client._exchange import ExchangeState, Role
from mooring.protocol.client._settings import Settings
from mooring.protocol.client._table import ClientState, Timer


class Violation(AssertionError):
    """Something that must never happen, and how it came about."""


@dataclass(frozen=True)
class Scene:
    """What the environment may do in one search."""

    settings: Settings
    calls: tuple[dict[str, Any], ...]
    is_http: bool = False
    peer: frozenset[str] = frozenset()
    transport: frozenset[str] = frozenset({"fail", "down"})
    limit: int = 200_000


@dataclass
class World:
    core: ClientConnection
    made: int = 0
    outcomes: tuple[int, ...] = ()
    # Frames of this epoch that carry a call: id -> (caller, method); the peer may answer any of them at any time.
    known: dict[int, tuple[object, str]] = field(default_factory=dict)
    # Ids of frames taken by the transport and not yet written, in order.
    unwritten: tuple[tuple[int, int | None], ...] = ()
    written_ids: frozenset[int] = frozenset()
    cancelled: frozenset[int] = frozenset()
    # Per call: whether the peer ever had a byte of it.
    reached: frozenset[object] = frozenset()
    alive: str = "none"
    is_up: bool = False
    was_stopped: bool = False
    # Transports started since the last wait or the last good answer.
    spins: int = 0
    lost_sessions: int = 0

    def copy(self) -> World:
        twin = copy.copy(self)
        twin.core = self.core.copy()
        twin.known = self.known.copy()
        return twin


LEGACY = b'{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}'
MODERN = b'{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{}}'


def key(world: World) -> object:
    """Everything that decides what can happen next. Left out is what only counts or names: numbers of epochs and ids
    (their order stays), and tombstones, which only tell late answers from unknown ones."""
    core = world.core
    calls = core.calls
    rank = {id: index for index, id in enumerate(sorted({*calls.pending, *world.known}))}
    exchanges = tuple(
        (
            rank[x.id], x.caller, x.role, x.state, calls.is_written(x), x.attempts,
            x.waits_for_ready, x.may_replay, x.was_sent, x.was_turned_away,
        )
        for x in calls.pending.values()
    )  # fmt: skip
    timers = frozenset(
        name
        if isinstance(name, Timer)
        else ("retry", rank[name.id])
        if isinstance(name, Retry)
        else rank[name]
        for name in calls.timers.armed
    )
    talk = core._negotiation
    return (
        core.state, core.wire, core._is_up, core.verdict, exchanges, tuple(rank[id] for id in calls.queue),
        timers, calls.is_full, calls.envelope != b"",
        None if talk.probe_id is None else rank.get(talk.probe_id), talk.steps, talk.has_opened, talk.held is not None,
        None if talk.handshake_id is None else rank.get(talk.handshake_id),
        min(core._failures, core.settings.max_attempts), core._strikes, core._heard, core._unheard, core._last_exit,
        core._was_ready, core._was_probe_fatal, core._skips_probe, core._was_sane, core._session_lost_at, tuple(core._standing), tuple(core._serving),
        tuple(core._waiters), type(core._reason),
        world.made, world.outcomes, frozenset((rank[id], known) for id, known in world.known.items()),
        tuple(id if id is None else rank.get(id, -1) for _, id in world.unwritten),
        frozenset(rank[id] for id in world.written_ids if id in rank),
        frozenset(rank[id] for id in world.cancelled if id in rank), world.reached, world.alive, world.is_up,
        world.was_stopped, min(world.lost_sessions, 2), world.spins,
    )  # fmt: skip


class Search:
    """Breadth first, from `start()`, until nothing new is found."""

    def __init__(self, scene: Scene, kind: type[ClientConnection] = ClientConnection) -> None:
        self.scene = scene
        self.kind = kind
        self.states = 0
        self.transitions = 0
        self.visited: set[ClientState] = set()

    def prove(self) -> None:
        """Safety in every reachable state, then liveness from each of them. Raises: Violation."""
        self.run()
        for world in self.worlds:
            self.settle(world)
            self.stop(world)

    def run(self) -> None:
        """Visit every reachable state and check each. Raises: Violation, with the way there."""
        world = World(self.kind(self.scene.settings, is_http=self.scene.is_http, is_strict=True))
        world.outcomes = (0,) * len(self.scene.calls)
        self._apply(world, world.core.start(0.0), ("start",))
        seen = {key(world)}
        paths: dict[object, tuple[object, object]] = {}
        queue = deque([world])
        self.worlds = [world]
        while queue:
            world = queue.popleft()
            self.states += 1
            self.visited.add(world.core.state)
            here = key(world)
            for move in self._moves(world):
                self.transitions += 1
                after = world.copy()
                try:
                    self._make(after, move)
                    self._check(after)
                except Exception as error:
                    trail = [move]
                    while here in paths:
                        here, step = paths[here]
                        trail.append(step)
                    steps = "\n  ".join(str(step) for step in reversed(trail))
                    raise Violation(
                        f"{type(error).__name__}: {error}\nafter:\n  {steps}\nin {after.core!r}"
                    ) from error
                self._forget_old(after)
                there = key(after)
                if there not in seen:
                    seen.add(there)
                    paths[there] = (here, move)
                    queue.append(after)
                    self.worlds.append(after)
                    assert len(seen) <= self.scene.limit, f"more than {self.scene.limit} states"

    def _forget_old(self, world: World) -> None:
        """The peer remembers two requests that nobody waits for any more: enough for any late or repeated answer."""
        old = sorted(id for id in world.known if id not in world.core.calls.pending)
        for id in old[:-2]:
            del world.known[id]

    # --- what may happen ----------------------------------------------------------------------------------------------

    def _moves(self, world: World) -> Iterator[tuple[Any, ...]]:
        core, scene = world.core, self.scene
        if world.made < len(scene.calls):
            yield ("call", world.made)
        for id, exchange in core.calls.pending.items():
            if exchange.role is Role.CALL:
                yield ("give up", id)
        if not world.was_stopped:
            yield ("stop",)
        for name in core.calls.timers.armed:
            yield ("timer", name)
        yield from self._transport_moves(world)
        # A peer that asks without reading is bounded by the transport; three frames unread are enough of it here.
        if world.alive == "live" and world.is_up and len(world.unwritten) < 4:
            yield from self._peer_moves(world)

    def _transport_moves(self, world: World) -> Iterator[tuple[Any, ...]]:
        allowed = self.scene.transport
        if world.alive in ("spawning", "spawning, to close"):
            yield ("spawned",)
            if "fail" in allowed:
                yield ("spawn failed",)
            if "refuse" in allowed:
                yield ("spawn refused",)
        if world.alive == "live":
            if not world.is_up:
                yield ("up",)
            if "down" in allowed:
                yield ("down",)
        if world.alive == "closing":
            yield ("reaped",)
        if world.unwritten and world.alive == "live":
            yield ("write",)
            number, id = world.unwritten[-1]
            if "busy" in allowed and id is not None and number == world.core.calls.number:
                yield ("refuse frame", id)
        if "room" in allowed and world.core.calls.is_full:
            yield ("room",)
        if "stale" in allowed:
            yield ("stale down",)
            yield ("stale reaped",)

    def _peer_moves(self, world: World) -> Iterator[tuple[Any, ...]]:
        for id, (_, method) in world.known.items():
            if id in world.written_ids:
                if method == "server/discover":
                    yield from (("discovered", id), ("declined", id), ("refused", id))
                elif method == "initialize":
                    yield from (("initialized", id), ("mismatched", id))
                else:
                    yield ("answer", id)
                    if (
                        "session" in self.scene.peer
                        and id in world.core.calls.pending
                        and world.lost_sessions < 3
                    ):
                        yield ("session lost", id)
        for name in self.scene.peer - {"session"}:
            yield ("peer", name)

    # --- making it happen ---------------------------------------------------------------------------------------------

    def _make(self, world: World, move: tuple[Any, ...]) -> None:
        core = world.core
        event = self._user_event(world, move) or self._transport_event(world, move)
        if event is None:
            effects = core.receive(self._frame(world, move), core.epoch, 0.0)
        else:
            effects = core.step(event, 0.0)
        self._apply(world, effects, move)

    def _user_event(self, world: World, move: tuple[Any, ...]) -> e.Event | None:
        core = world.core
        match move:
            case ("call", number):
                world.made += 1
                return e.Called(caller=number, method=f"call/{number}", **self.scene.calls[number])
            case ("give up", id):
                world.outcomes = _add(world.outcomes, core.calls.pending[id].caller)
                return e.GaveUp(id)
            case ("stop",):
                world.was_stopped = True
                return e.StopAsked()
            case ("timer", name):
                core.calls.timers.disarm(name)
                world.spins = 0 if name in (Timer.BACKOFF, Timer.CLOSE) else world.spins
                return core._timer_event(name)
        return None

    def _transport_event(self, world: World, move: tuple[Any, ...]) -> e.Event | None:
        core, epoch, lost = world.core, world.core.epoch, TransportError("lost")
        match move:
            case ("spawned",):
                world.alive = "live" if world.alive == "spawning" else "live, to close"
                return e.Spawned(epoch)
            case ("spawn failed",):
                world.alive = "none"
                return e.SpawnFailed(epoch, lost)
            case ("spawn refused",):
                world.alive = "none"
                return e.SpawnRefused(epoch, TransportError("no such file", permanent=True))
            case ("up",):
                world.is_up = True
                return e.CameUp(epoch)
            case ("down",):
                world.alive = "dead"
                return e.WentDown(epoch, lost, 1, True)
            case ("reaped",):
                world.alive = "none"
                return e.Reaped(epoch)
            case ("write",):
                (number, id), *rest = world.unwritten
                world.unwritten = tuple(rest)
                self._arrive(world, id)
                return e.Wrote(epoch, number)
            case ("refuse frame", id):
                world.unwritten = world.unwritten[:-1]
                del world.known[id]
                return e.Refused(epoch, id)
            case ("room",):
                return e.RoomMade(epoch)
            case ("stale down",):
                return e.WentDown(epoch - 1, lost)
            case ("stale reaped",):
                return e.Reaped(epoch - 1)
            case ("session lost", id):
                world.lost_sessions += 1
                world.reached = world.reached - {core.calls.pending[id].caller}
                return e.SessionLost(epoch, id)
        return None

    def _arrive(self, world: World, id: int | None) -> None:
        if id is not None:
            world.written_ids |= {id}
            if id in world.known:
                world.reached |= {world.known[id][0]}

    def _frame(self, world: World, move: tuple[Any, ...]) -> bytes:
        head = b'{"jsonrpc":"2.0",'
        match move:
            case ("answer", id):
                return head + b'"id":%d,"result":%s}' % (id, json.dumps(world.known[id][0]).encode())
            case ("discovered", id):
                return head + b'"id":%d,"result":%s}' % (id, MODERN)
            case ("initialized", id):
                return head + b'"id":%d,"result":%s}' % (id, LEGACY)
            case ("mismatched", id):
                return head + b'"id":%d,"result":%s}' % (id, LEGACY.replace(b"2025-11-25", b"1999-01-01"))
            case ("declined", id):
                return head + b'"id":%d,"error":{"code":-32601,"message":"what?"}}' % id
            case ("refused", id):
                return (
                    head
                    + b'"id":%d,"error":{"code":-32022,"message":"no","data":{"supported":["2099-01-01"]}}}'
                    % id
                )
            case ("peer", "garbage"):
                return b"Listening on stdio..."
            case ("peer", "unknown"):
                return head + b'"id":999999,"result":{}}'
            case ("peer", "reset"):
                return head + b'"method":"notifications/reset"}'
            case ("peer", "initialize"):
                return head + b'"id":1,"method":"initialize","params":{}}'
            case ("peer", "ask"):
                return head + b'"id":"q","method":"sampling/createMessage","params":{}}'
            case ("peer", "cancel"):
                return head + b'"method":"notifications/cancelled","params":{"requestId":"q"}}'
            case ("peer", "progress"):
                token = max(world.known, default=0)
                return (
                    head
                    + b'"method":"notifications/progress","params":{"progressToken":%d,"progress":1}}' % token
                )
        raise AssertionError(move)

    # --- what comes of it ---------------------------------------------------------------------------------------------

    def _apply(self, world: World, effects: list[e.Effect], move: tuple[Any, ...]) -> None:
        for effect in effects:
            match effect:
                case e.Spawn():
                    renews = self.scene.is_http and world.alive == "live"
                    if world.alive != "none" and not renews:
                        raise Violation(f"spawned over a transport that is {world.alive}")
                    world.alive, world.is_up = "spawning", False
                    world.spins += 1
                    if world.spins > 3:  # the first, one after a fatal probe, one after a session loss
                        raise Violation("starts again and again without waiting")
                    world.unwritten = ()
                    if not renews:
                        world.known, world.written_ids = {}, frozenset()
                case e.Close():
                    self._close(world)
                case e.Leak():
                    world.alive = "none"  # the ladder ended with SIGKILL: as gone as it can be made
                case e.Send():
                    self._send(world, effect)
                case e.Withdraw():
                    world.unwritten = tuple(frame for frame in world.unwritten if frame[1] != effect.id)
                    world.known = {id: what for id, what in world.known.items() if id != effect.id}
                    if effect.id in world.written_ids:
                        raise Violation("withdrew a frame that was written")
                case e.Complete():
                    if json.loads(bytes(effect.result)) != effect.caller:
                        raise Violation(f"caller {effect.caller} got the answer of {bytes(effect.result)!r}")
                    world.outcomes = _add(world.outcomes, effect.caller)
                    world.spins = 0
                case e.Fail():
                    world.outcomes = _add(world.outcomes, effect.caller)
                    self._check_error(world, effect)

    def _close(self, world: World) -> None:
        world.alive = {
            "spawning": "spawning, to close",
            "spawning, to close": "spawning, to close",
            "live": "closing",
            "live, to close": "closing",
            "dead": "closing",
        }.get(world.alive, world.alive)

    def _send(self, world: World, effect: e.Send) -> None:
        if world.alive != "live" or not world.is_up:
            raise Violation(f"wrote to a transport that is {world.alive}")
        message = msgspec.json.decode(effect.frame)
        if message.get("method") == "notifications/cancelled":
            id = message["params"]["requestId"]
            if id in world.cancelled:
                raise Violation("cancelled twice")
            if id not in world.written_ids:
                raise Violation("cancelled what was never written")
            world.cancelled |= {id}
        if effect.id is not None:
            if effect.id in world.known:
                raise Violation("an id was used twice")
            exchange = world.core.calls.pending.get(effect.id)
            caller = exchange.caller if exchange is not None and exchange.role is Role.CALL else None
            world.known[effect.id] = (caller, message["method"])
        if self.scene.is_http:
            self._arrive(world, effect.id)
        else:
            world.unwritten = (*world.unwritten, (effect.number, effect.id))

    def _check_error(self, world: World, effect: e.Fail) -> None:
        if effect.error.may_have_run is False and effect.caller in world.reached:
            raise Violation(f"{effect.error!r} says it did not run, but the peer had it")

    def _check(self, world: World) -> None:
        core = world.core
        if max(world.outcomes, default=0) > 1:
            raise Violation(f"more than one outcome: {world.outcomes}")
        is_over = core.state in (ClientState.CLOSING, ClientState.CLOSED)
        for exchange in core.calls.pending.values():
            if is_over:
                raise Violation(f"a call is left in {core.state}")
            if core.state is ClientState.BACKOFF and exchange.state is not ExchangeState.WAITING:
                raise Violation("a call that was handed over is left in backoff")
            if exchange.role is Role.CALL and exchange.id not in core.calls.timers:
                raise Violation("a call without a deadline")
            if (exchange.state is ExchangeState.WAITING) != (exchange.id in core.calls.queue):
                raise Violation("the queue and the states disagree")
        for name in core.calls.timers.armed:
            retried = core.calls.pending.get(name.id) if isinstance(name, Retry) else None
            if isinstance(name, Retry) and (retried is None or retried.state is not ExchangeState.BUSY):
                raise Violation("a retry is armed for a call that is not busy")
            if isinstance(name, int) and name not in core.calls.pending:
                raise Violation("a deadline is armed for a call that is not open")
        if core.state is ClientState.CLOSED:
            if world.alive not in ("none",) or core.wire is not Wire.NONE:
                raise Violation(f"closed over a transport that is {world.alive}")
            if len(core.calls.timers) or len(core.calls.tombstones) or core._serving or core._waiters:
                raise Violation("closed, and something is left")
        open_calls = {x.caller for x in core.calls.pending.values() if x.role is Role.CALL}
        for caller in range(world.made):
            if (world.outcomes[caller] == 0) != (caller in open_calls):
                raise Violation(
                    f"call {caller} has {world.outcomes[caller]} outcomes and is open: {caller in open_calls}"
                )
        waits_for_peer = {
            ClientState.STARTING: Timer.CONNECT,
            ClientState.INITIALIZING: Timer.CONNECT,
            ClientState.CLOSING: Timer.CLOSE,
        }.get(core.state)
        if waits_for_peer is not None and waits_for_peer not in core.calls.timers:
            raise Violation(f"nothing bounds the wait in {core.state}")
        if (
            core.state is ClientState.READY
            and core.settings.keepalive
            and Timer.KEEPALIVE not in core.calls.timers
        ):
            raise Violation("nothing bounds the silence of the server")
        if core.state is ClientState.BACKOFF and not {Timer.BACKOFF, Timer.CLOSE} & set(
            core.calls.timers.armed
        ):
            raise Violation("nothing bounds the wait in backoff")

    # --- liveness -----------------------------------------------------------------------------------------------------

    def settle(self, world: World, rounds: int = 60) -> None:
        """With a peer that says nothing, timers and the transport's own duties alone must end every call."""
        world = world.copy()
        for _ in range(rounds):
            if sum(world.outcomes[: world.made]) == world.made:
                return
            armed = world.core.calls.timers.armed
            calls = [name for name in armed if isinstance(name, int)]
            if not calls:
                raise Violation("a call is open and no deadline is armed")
            self._make(world, ("timer", min(calls, key=lambda name: armed[name])))
            self._check(world)
        raise Violation("calls do not end")

    def stop(self, world: World, rounds: int = 10) -> None:
        """After stop, with a transport that only does its duty, the connection must be closed."""
        world = world.copy()
        if not world.was_stopped:
            self._make(world, ("stop",))
        for _ in range(rounds):
            if world.core.state is ClientState.CLOSED:
                return
            if Timer.CLOSE in world.core.calls.timers:
                self._make(world, ("timer", Timer.CLOSE))
                # The ladder's last step has killed it, whatever it was doing.
            self._check(world)
        raise Violation(f"stop was asked, and it is still {world.core.state}")


def _add(outcomes: tuple[int, ...], caller: Any) -> tuple[int, ...]:
    return tuple(count + (index == caller) for index, count in enumerate(outcomes))
