"""Explore every state that a client's connection can reach, on the real object, and check its invariants.

The connection is copied at each step. Around it is a minimal hostile environment: a transport that starts, fails, is
busy, writes, dies and is reaped, and a peer that responds to any request it ever received, twice, late or never, and
forgets sessions. Time does not advance, and any armed timer may fire; where a window decides, the clock may jump.
"""

from __future__ import annotations

import json
import random
from collections import deque
from collections.abc import Iterator
from typing import Any

import msgspec

from jackstay.errors import OutcomeUnknownError, ShutdownError, TransportError
from jackstay.protocol.client import events as e
from jackstay.protocol.client._connection import ClientConnection
from jackstay.protocol.client._exchange import Exchange, ExchangeState, Role
from jackstay.protocol.client._settings import SESSION_LOSS_WINDOW
from jackstay.protocol.client._states import ClientState
from jackstay.protocol.client._transport import TransportStatus
from model.client_world import Scenario, SentRequest, World, key, request_key
from model.harness import compare_plain_call, receive, receive_compared


class Violation(AssertionError):
    """A violated invariant, with the moves that led to it."""


LEGACY = b'{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}'
MODERN = b'{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{}}'


SUBSCRIBED = e.Subscribed("k", ("resources/subscribe", b'{"uri":"x:y"}'), ("subscriptions/listen", b"{}"))
_OVER = (ClientState.CLOSING, ClientState.CLOSED)
# Timers that detect a hung server: the connection is lost, with every open request.
_HANGS = (("timer", e.KeepaliveDue), ("timer", e.CheckExpired))


class Search:
    """Breadth first, from `start()`, until nothing new is found."""

    def __init__(self, scenario: Scenario, kind: type[ClientConnection] = ClientConnection) -> None:
        self.scenario = scenario
        self.kind = kind
        self.transitions = 0
        self.visited: set[ClientState] = set()
        self.epochs = 0
        # One world of each key, in the order found; and the last of those that were merged into it.
        self.worlds: dict[object, World] = {}
        self.merged: dict[object, World] = {}
        # The keys of the successors of each world.
        self.successors: dict[object, set[object]] = {}

    @property
    def states(self) -> int:
        return len(self.worlds)

    def key(self, world: World) -> object:
        return key(world, self.scenario)

    def verify(self) -> None:
        """Check safety in every reachable state, then liveness from each of them. Raises: Violation."""
        self.run()
        for world in self.worlds.values():
            self.settle(world)
            self.stop(world)

    def start(self) -> World:
        """Return the world in which every search and every walk begins."""
        world = World(self.kind(self.scenario.settings, is_http=self.scenario.is_http, is_strict=True))
        world.outcomes = world.refusals = (0,) * len(self.scenario.calls)
        self._apply(world, world.core.start(world.clock))
        return world

    def run(self) -> None:
        """Visit every reachable state and check each. Raises: Violation, with the moves that led there."""
        world = self.start()
        here = self.key(world)
        worlds = self.worlds = {here: world}
        paths: dict[object, tuple[object, object]] = {}
        queue = deque([(here, world)])
        while queue:
            here, world = queue.popleft()
            self.visited.add(world.core.state)
            self.epochs = max(self.epochs, world.core.epoch)
            successors = self.successors[here] = set()
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
                    raise Violation(f"{type(error).__name__}: {error}\nafter:\n  {steps}\nin {after.core!r}") from error
                there = self.key(after)
                successors.add(there)
                if there in worlds:
                    self.merged[there] = after
                else:
                    worlds[there] = after
                    paths[there] = (here, move)
                    queue.append((there, after))
                    assert len(worlds) <= self.scenario.limit, f"more than {self.scenario.limit} states"

    def compare(self, limit: int, rng: random.Random) -> int:
        """Check that worlds which `run()` merged have the same successors. Returns how many were compared.

        Raises: Violation.
        """
        keys = list(self.merged)
        for here in rng.sample(keys, min(limit, len(keys))):
            self._check_same(here, self.merged[here])
        return min(limit, len(keys))

    def walk(self, walks: int, steps: int, rng: random.Random) -> int:
        """Make random walks without merging worlds: `run()` must have found each of them. Returns how many there were.

        Raises: Violation.
        """
        count = 0
        for _ in range(walks):
            world = self.start()
            for _ in range(steps):
                self.epochs = max(self.epochs, world.core.epoch)
                here = self.key(world)
                if here not in self.worlds:
                    raise Violation(f"the search did not find {world}")
                count += 1
                after = self._check_same(here, world)
                if not after:
                    break
                # Nothing more happens after closing, so most walks avoid it.
                going = [other for other in after if other.core.state not in _OVER]
                world = rng.choice(going if going and rng.random() < 0.99 else after)
        return count

    def _check_same(self, here: object, world: World) -> list[World]:
        """Return the successors of `world`, which must be those that `run()` found for its key."""
        worlds = []
        for move in self._moves(world):
            after = world.copy()
            self._make(after, move)
            worlds.append(after)
        # A move that changes nothing does not count: a frame whose writing has no effect may be there or not.
        if ({self.key(after) for after in worlds} ^ self.successors[here]) - {here}:
            raise Violation(f"merged, but not equivalent:\n  {world}\n  {self.worlds[here]}")
        return worlds

    # --- possible moves -----------------------------------------------------------------------------------------------

    def _moves(self, world: World) -> Iterator[tuple[Any, ...]]:
        core, scenario = world.core, self.scenario
        if scenario.epochs is not None and core.epoch > scenario.epochs:
            return
        if world.made < len(scenario.calls):
            yield ("call", world.made)
        duplicates = self._duplicates(world)
        for id, exchange in core.calls.pending.items():
            if exchange.role is Role.CALL and id not in duplicates:
                yield ("cancel call", id)
        if not world.was_stopped:
            yield ("stop",)
        for action in scenario.user:
            yield (action,)
        for name in core.calls.timers.armed:
            if name not in duplicates:
                yield ("timer", name)
        yield from self._transport_moves(world)
        if world.alive == "live":
            yield from self._peer_moves(world, duplicates)
        if core.peer_requests.serving:
            yield ("reply",)
        if world.owes_resume:
            yield ("resume",)

    def _duplicates(self, world: World) -> set[object]:
        """Return open requests that are equivalent to an earlier one: its moves cover theirs."""
        seen: set[object] = set()
        duplicates: set[object] = set()
        if len(world.core.calls.pending) > 1:
            refusable, old = frozenset(frame.id for frame in world.refusable()), world.old_kinds()
            for id, exchange in world.core.calls.pending.items():
                facts = request_key(world, exchange, {}, refusable, old, is_unordered=self.scenario.is_unordered)
                if facts[0] and facts in seen:
                    duplicates.add(id)
                seen.add(facts)
        return duplicates

    def _transport_moves(self, world: World) -> Iterator[tuple[Any, ...]]:
        allowed = self.scenario.transport
        if world.alive in ("spawning", "spawning, to close"):
            yield ("spawned",)
            if "fail" in allowed:
                yield ("spawn failed",)
            if "refuse" in allowed:
                yield ("spawn refused",)
        if world.alive == "live" and "down" in allowed:
            yield ("down",)
        if world.alive == "closing":
            yield ("reaped",)
        if world.unwritten and world.alive in ("live", "closing"):
            # In "closing" too: a queue is flushed in a later turn of the loop, unless the driver has stopped writing.
            yield ("write",)
        if world.alive == "live":
            for frame in world.refusable():
                yield ("refuse from", frame.number)
        if world.queued and world.alive in ("live", "closing"):
            yield ("start", world.queued[0])
        if "room" in allowed and world.core.calls.is_full:
            yield ("room",)
        if "stale" in allowed:
            yield ("stale down",)
            yield ("stale reaped",)

    def _peer_moves(self, world: World, duplicates: set[object]) -> Iterator[tuple[Any, ...]]:
        pending, peer = world.core.calls.pending, self.scenario.peer
        open_ids = [id for id in pending if id in world.written_ids and id in world.known and id not in duplicates]
        for id in (*open_ids, *world.old_kinds().values()):
            method = world.known[id].method
            if method == "server/discover":
                yield from (("discovered", id), ("declined", id), ("refused", id))
            elif method == "initialize":
                yield from (("initialized", id), ("mismatched", id))
            else:
                yield ("answer", id)
            if "session" in peer:
                yield ("session lost", id)
                if world.has_just_lost_session() and world.known[id].epoch == world.core.epoch:
                    yield ("session lost later", id)
            if "alone" in peer and id in pending:
                yield ("lost alone", id)
        for name in peer - {"session", "alone"}:
            yield ("peer", name)

    # --- making a move ------------------------------------------------------------------------------------------------

    def _make(self, world: World, move: tuple[Any, ...]) -> None:
        core = world.core
        if move[0] == "refuse from":
            self._refuse(world, move[1])
            return
        world.refusable_from = None  # a transport refuses a frame when it is sent, before anything else happens
        refused = None
        if move[0] in ("session lost", "session lost later"):
            refused = core.calls.pending.get(move[1])
        before, outcomes, posts = core.epoch, world.outcomes, self._open_posts(world)
        was_ready = core.state is ClientState.READY
        event = self._user_event(world, move) or self._transport_event(world, move)
        if move[0] == "write":
            core.wrote(core.epoch, self._write(world))
            effects: list[e.Effect] = []
        elif event is None:
            receives = receive_compared if move[0] == "answer" else receive
            effects = receives(core, self._frame(world, move), core.epoch, world.clock)
        else:
            if isinstance(event, e.Called):
                compare_plain_call(core, event, world.clock)
            effects = core.step(event, world.clock)
        self._apply(world, effects)
        if isinstance(event, e.Called):
            self._check_drain(world, event, effects)
        if core.state is ClientState.READY and not was_ready:
            self._check_reopened(world)
        has_own_end = move[0] in (
            "answer",
            "lost alone",
            "session lost",
            "session lost later",
            "cancel call",
            "timer",
        )
        if posts and move[0] != "down" and core.state not in _OVER:
            own = move[1] if has_own_end else None
            ended = [id for id, caller in posts.items() if id != own and world.outcomes[caller] != outcomes[caller]]
            if ended and move not in _HANGS:
                raise Violation(f"{ended} ended without their own response")
        if isinstance(event, e.SessionLost):
            if before not in (event.epoch, core.epoch):
                raise Violation("the end of an old session ended the new one")
            self._check_refusal(world, refused, outcomes)

    def _refuse(self, world: World, number: int) -> None:
        """The transport is full: it refuses every frame from this one on, in order."""
        core = world.core
        refused = [frame for frame in world.unwritten if frame.number >= number]
        world.unwritten = tuple(frame for frame in world.unwritten if frame.number < number)
        world.refusable_from = None
        for frame in refused:
            if frame.id is not None:
                del world.known[frame.id]
                self._apply(world, core.step(e.Refused(core.epoch, frame.id), world.clock))
            elif frame.must_arrive:
                event = e.FrameRefused(core.epoch, frame.frame, frame.response_to)
                self._apply(world, core.step(event, world.clock))

    def _user_event(self, world: World, move: tuple[Any, ...]) -> e.Event | None:
        core = world.core
        match move:
            case ("call", number):
                world.made += 1
                return e.Called(caller=number, method=f"call/{number}", **self.scenario.calls[number])
            case ("cancel call", id):
                world.outcomes = _add(world.outcomes, core.calls.pending[id].caller)
                return e.CallCancelled(id)
            case ("stop",):
                world.was_stopped = True
                return e.StopRequested()
            case ("drain",):
                world.is_draining = True
                return e.DrainRequested()
            case ("cancel drain",):
                world.is_draining = False
                return e.DrainCancelled()
            case ("subscribe",):
                return SUBSCRIBED
            case ("unsubscribe",):
                return e.Unsubscribed(SUBSCRIBED.key)
            case ("timer", name):
                core.calls.timers.disarm(name)
                world.spins = 0 if name in (e.BackoffElapsed, e.CloseExpired) else world.spins
                return core.timer_event(name)
            case ("resume",):
                world.owes_resume = False
                return e.Resumed()
            case ("reply",):
                return e.Finished(next(iter(core.peer_requests.serving)))
        return None

    def _transport_event(self, world: World, move: tuple[Any, ...]) -> e.Event | None:
        epoch, lost = world.core.epoch, TransportError("lost")
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
            case ("down",):
                world.alive = "dead"
                return e.WentDown(epoch, lost, 1, True)
            case ("reaped",):
                world.alive = "none"
                return e.Reaped(epoch)
            case ("start", id):
                world.queued = world.queued[1:]
                self._arrive(world, id)
                return e.PostStarted(epoch, id)
            case ("room",):
                return e.BecameWritable(epoch)
            case ("stale down",):
                return e.WentDown(epoch - 1, lost)
            case ("stale reaped",):
                return e.Reaped(epoch - 1)
            case ("session lost" | "session lost later" as kind, id):
                request = world.known[id]
                world.reached -= {(request.caller, id)}
                if kind == "session lost later":
                    world.clock += 2 * SESSION_LOSS_WINDOW
                    world.spins = 0
                # A POST belongs to the session it was sent in, however late its response is received.
                return e.SessionLost(request.epoch, id)
            case ("lost alone", id):
                return e.ExchangeLost(world.known[id].epoch, id, OutcomeUnknownError("the response ended"))
        return None

    def _write(self, world: World) -> int:
        """Write up to the next frame whose writing has an effect. Returns its number."""
        through = 0
        for frame, what in list(world.next_frames()):
            through = frame.number
            world.unwritten = world.unwritten[1:]
            self._arrive(world, frame.id)
            if what is not None:
                break
        return through

    def _arrive(self, world: World, id: int | None) -> None:
        if id is not None:
            world.written_ids |= {id}
            request = world.known.get(id)
            if request is not None and request.caller is not None:
                world.reached |= {(request.caller, id)}
                if request.caller in world.denied:
                    raise Violation(f"call {request.caller} was written after an error reported that it was not")

    def _frame(self, world: World, move: tuple[Any, ...]) -> bytes:
        head = b'{"jsonrpc":"2.0",'
        match move:
            case ("answer", id):
                return head + b'"id":%d,"result":%s}' % (id, json.dumps(world.known[id].caller).encode())
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
                    head + b'"id":%d,"error":{"code":-32022,"message":"no","data":{"supported":["2099-01-01"]}}}' % id
                )
            case ("peer", "garbage"):
                return b"Listening on stdio..."
            case ("peer", "unknown"):
                return head + b'"id":999999,"result":{}}'
            case ("peer", "reset"):
                return head + b'"method":"notifications/reset"}'
            case ("peer", "initialize"):
                return head + b'"id":1,"method":"initialize","params":{}}'
            case ("peer", "request"):
                return head + b'"id":"q","method":"sampling/createMessage","params":{}}'
            case ("peer", "cancel"):
                return head + b'"method":"notifications/cancelled","params":{"requestId":"q"}}'
            case ("peer", "progress"):
                token = max(world.known, default=0)
                return head + b'"method":"notifications/progress","params":{"progressToken":%d,"progress":1}}' % token
        raise AssertionError(move)

    # --- effects ------------------------------------------------------------------------------------------------------

    def _apply(self, world: World, effects: list[e.Effect]) -> None:
        queued = world.queued
        self._perform(world, effects)
        if self.scenario.is_http and world.alive == "renewed":  # the driver does it while it performs `Spawn`
            world.alive = "live"
            self._apply(world, world.core.step(e.Spawned(world.core.epoch), world.clock))
        for id in world.queued:
            if id not in queued:  # a transport reports it when it accepts the frame, before anything else happens
                self._apply(world, world.core.step(e.PostQueued(world.core.epoch, id), world.clock))

    def _perform(self, world: World, effects: list[e.Effect]) -> None:
        first = next((effect.number for effect in effects if isinstance(effect, e.Send)), None)
        if first is not None and "busy" in self.scenario.transport:
            world.refusable_from = first
        for effect in effects:
            match effect:
                case e.Resume():
                    world.owes_resume = True
                case e.Spawn():
                    renews = self.scenario.is_http and world.alive == "live"
                    if world.alive != "none" and not renews:
                        raise Violation(f"spawned over a transport that is {world.alive}")
                    world.alive = "renewed" if renews else "spawning"
                    world.spins += 1
                    if world.spins > 3:  # the first, one after a fatal probe, one after a session loss
                        raise Violation("restarts repeatedly without a delay")
                    world.unwritten = ()
                    if not renews:
                        world.known, world.written_ids = {}, frozenset()
                case e.Close():
                    self._close(world)
                case e.Leak():
                    world.alive = "none"  # the last step of closing was SIGKILL
                case e.Send():
                    self._send(world, effect)
                case e.CloseResponse():
                    if effect.id not in world.written_ids:
                        raise Violation("closed the response of a request that was never sent")
                case e.Withdraw():
                    world.queued = tuple(id for id in world.queued if id != effect.id)
                    world.unwritten = tuple(frame for frame in world.unwritten if frame.id != effect.id)
                    world.known = {id: what for id, what in world.known.items() if id != effect.id}
                    if effect.id in world.written_ids:
                        raise Violation("withdrew a frame that was written")
                case e.Complete():
                    if json.loads(bytes(effect.result)) != effect.caller:
                        raise Violation(f"caller {effect.caller} got the result of {bytes(effect.result)!r}")
                    world.outcomes = _add(world.outcomes, effect.caller)
                    world.spins = 0
                case e.Fail():
                    world.outcomes = _add(world.outcomes, effect.caller)
                    self._check_error(world, effect)

    def stop_writing(self, world: World) -> None:
        """The part of closing that the driver does immediately; the rest ends with "reaped"."""
        world.unwritten = ()
        world.queued = ()

    def _close(self, world: World) -> None:
        self.stop_writing(world)
        world.alive = {
            "spawning": "spawning, to close",
            "spawning, to close": "spawning, to close",
            "live": "closing",
            "live, to close": "closing",
            "dead": "closing",
        }.get(world.alive, world.alive)

    def _send(self, world: World, effect: e.Send) -> None:
        if world.alive != "live":
            raise Violation(f"wrote to a transport that is {world.alive}")
        message = msgspec.json.decode(effect.frame)
        if message.get("method") == "notifications/cancelled":
            id = message["params"]["requestId"]
            if world.core.state is not ClientState.READY:
                raise Violation(f"a cancellation was sent while {world.core.state.value}")
            if id in world.cancelled:
                raise Violation("cancelled twice")
            if id not in world.written_ids:
                raise Violation("cancelled a request that was never written")
            world.cancelled |= {id}
        if effect.id is not None:
            if effect.id in world.known:
                raise Violation("an id was used twice")
            exchange = world.core.calls.pending.get(effect.id)
            caller = exchange.caller if exchange is not None and exchange.role is Role.CALL else None
            if caller is not None and world.core.state is not ClientState.READY:
                raise Violation(f"a call was sent while {world.core.state.value}")
            world.known[effect.id] = SentRequest(caller, message["method"], world.core.epoch)
            self._check_repeat(world, caller)
        is_call = effect.id is not None and world.known[effect.id].caller is not None
        if self.scenario.is_http and is_call and "queue" in self.scenario.transport and self._is_occupied(world):
            world.queued = (*world.queued, effect.id)
        elif self.scenario.is_http:
            self._arrive(world, effect.id)
        else:
            world.unwritten = (*world.unwritten, effect)

    def _open_posts(self, world: World) -> dict[int, Any]:
        """HTTP: the caller of every request that the peer may still respond to, by id."""
        pending = world.core.calls.pending.values() if self.scenario.is_http else ()
        return {x.id: x.caller for x in pending if x.role is Role.CALL and x.state is ExchangeState.SENT}

    def _is_occupied(self, world: World) -> bool:
        """HTTP: whether the one connection for calls is in use, or others wait for it."""
        return bool(world.queued) or any(id in world.written_ids for id in self._open_posts(world))

    def _check_repeat(self, world: World, caller: object) -> None:
        """A request that the peer had is sent again once if that is safe, else never."""
        times = sum(caller == other for other, _ in world.reached) if isinstance(caller, int) else 0
        if isinstance(caller, int) and times > bool(self.scenario.calls[caller].get("may_replay")):
            raise Violation(f"call {caller} was sent again, and may have run {times} times")

    def _check_refusal(self, world: World, refused: Exchange | None, outcomes: tuple[int, ...]) -> None:
        """A 404 affects only its own request, which is queued again until its attempts are used up."""
        if refused is not None and refused.role is Role.HANDSHAKE:
            return  # a server that refuses `initialize` itself has no session to lose: that is a failed negotiation
        caller = None if refused is None else refused.caller
        if not isinstance(caller, int):
            caller = None
        if any(now != then for i, (now, then) in enumerate(zip(world.outcomes, outcomes, strict=True)) if i != caller):
            raise Violation("a lost session ended the call of another")
        if world.alive not in ("live", "spawning"):
            raise Violation("a lost session closed the HTTP client")
        if caller is not None and refused is not None and not outcomes[caller]:
            world.refusals = _add(world.refusals, caller)
            is_last = world.refusals[caller] >= self.scenario.settings.session_attempts
            if bool(world.outcomes[caller]) is not is_last:
                raise Violation(f"call {caller} was refused {world.refusals[caller]} times; it ended: {not is_last}")

    def _check_error(self, world: World, effect: e.Fail) -> None:
        has_reached = any(caller == effect.caller for caller, _ in world.reached)
        if effect.error.may_have_run is False and has_reached:
            raise Violation(f"{effect.error!r} reports that it did not run, but the peer had it")
        if effect.error.may_have_run is True and not has_reached:
            raise Violation(f"{effect.error!r} reports that it may have run, but the peer never had it")
        if effect.error.may_have_run is False:
            world.denied |= {effect.caller}

    def _check_drain(self, world: World, event: e.Called, effects: list[e.Effect]) -> None:
        """While the client drains, only further requests of earlier calls are accepted; otherwise every call is."""
        refused = [x for x in effects if isinstance(x, e.Fail) and isinstance(x.error, ShutdownError)]
        is_new = event.began_at is None
        if world.core.state not in _OVER and bool(refused) is not (world.is_draining and is_new):
            raise Violation(f"draining: {world.is_draining}, and {event} was refused: {bool(refused)}")

    def _check_reopened(self, world: World) -> None:
        """When the connection becomes ready, every subscription is requested again."""
        requested = [x.caller for x in world.core.calls.pending.values() if x.role is Role.SUBSCRIPTION]
        if requested != list(world.core.subscriptions.kept):
            raise Violation(f"ready, but of {list(world.core.subscriptions.kept)} only {requested} are requested")

    def _check(self, world: World) -> None:
        core = world.core
        if max(world.outcomes, default=0) > 1:
            raise Violation(f"more than one outcome: {world.outcomes}")
        is_over = core.state in _OVER
        for exchange in core.calls.pending.values():
            if is_over:
                raise Violation(f"a call is left in {core.state}")
            is_kept = core.transport.status is TransportStatus.KEPT and world.alive == "live"
            if core.state is ClientState.BACKOFF and exchange.state is not ExchangeState.WAITING and not is_kept:
                raise Violation("a call that was sent is left in backoff")
            if exchange.role is Role.CALL and exchange.id not in core.calls.timers:
                raise Violation("a call without a deadline")
            if (exchange.state is ExchangeState.WAITING) != (exchange.id in core.calls.queue):
                raise Violation("the queue and the states disagree")
        for name in core.calls.timers.armed:
            retried = core.calls.pending.get(name.id) if isinstance(name, e.RetryDue) else None
            if isinstance(name, e.RetryDue) and (retried is None or retried.state is not ExchangeState.BUSY):
                raise Violation("a retry is armed for a call that is not busy")
            if isinstance(name, int) and name not in core.calls.pending:
                raise Violation("a deadline is armed for a call that is not open")
        if core.state is ClientState.CLOSED:
            if world.alive not in ("none",) or core.transport.status is not TransportStatus.NONE:
                raise Violation(f"closed over a transport that is {world.alive}")
            if (
                len(core.calls.timers)
                or len(core.calls.tombstones)
                or core.peer_requests.serving
                or core.waiters.callers
            ):
                raise Violation("closed, but something is left")
        requested = [x.caller for x in core.calls.pending.values() if x.role is Role.SUBSCRIPTION]
        if len(set(requested)) < len(requested) or not core.subscriptions.kept.keys() >= set(requested):
            raise Violation(f"{requested} are requested, but {list(core.subscriptions.kept)} are kept")
        open_calls = {x.caller for x in core.calls.pending.values() if x.role is Role.CALL}
        for caller in range(world.made):
            if (world.outcomes[caller] == 0) != (caller in open_calls):
                raise Violation(
                    f"call {caller} has {world.outcomes[caller]} outcomes and is open: {caller in open_calls}"
                )
        waits_for_peer = {
            ClientState.STARTING: e.ConnectExpired,
            ClientState.INITIALIZING: e.ConnectExpired,
            ClientState.CLOSING: e.CloseExpired,
        }.get(core.state)
        if waits_for_peer is not None and waits_for_peer not in core.calls.timers:
            raise Violation(f"nothing bounds the wait in {core.state}")
        if core.state is ClientState.READY and core.settings.keepalive and e.KeepaliveDue not in core.calls.timers:
            raise Violation("nothing bounds the wait for a silent server")
        if core.state is ClientState.READY and core.health.is_checking and e.CheckExpired not in core.calls.timers:
            raise Violation("nothing bounds the health check")
        if core.state is ClientState.BACKOFF and not {e.BackoffElapsed, e.CloseExpired} & set(core.calls.timers.armed):
            raise Violation("nothing bounds the wait in backoff")

    # --- liveness -----------------------------------------------------------------------------------------------------

    def settle(self, world: World, rounds: int = 60) -> None:
        """With a silent peer, timers alone must end every call."""
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
        """After a stop, timers and the transport alone must close the connection."""
        world = world.copy()
        if not world.was_stopped:
            self._make(world, ("stop",))
        for _ in range(rounds):
            if world.core.state is ClientState.CLOSED:
                return
            if e.CloseExpired in world.core.calls.timers:
                self._make(world, ("timer", e.CloseExpired))
            self._check(world)
        raise Violation(f"stopped, but still {world.core.state}")


def _add(outcomes: tuple[int, ...], caller: Any) -> tuple[int, ...]:
    return tuple(count + (index == caller) for index, count in enumerate(outcomes))
