"""Anything in any order: a client's connection against a transport and a peer that do their worst, on a fake clock.

One outcome per call, the right caller, empty tables at rest, at most one cancel per id, no write after close; and what
every error says about having run is checked against what the peer was really given. The environment keeps a ledger of
its own and never looks into the core to know what happened.

Above: nothing. Below: `ClientConnection`.
"""

import json

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
)

from jackstay.errors import FrameTooLargeError, OutcomeUnknownError, TransportError
from jackstay.protocol.client import events as e
from jackstay.protocol.client._core import Wire
from jackstay.protocol.client._table import Timer
from model.rig import BOTH, HANDSHAKE, STATELESS, Rig, S, discovered, initialized

# A search measures nothing that other tests do not, and being measured makes it five times as long.
pytestmark = [pytest.mark.no_cover, pytest.mark.long]


class Ledger:
    """What the environment saw: the truth that outcomes are held against."""

    def __init__(self) -> None:
        self.made = 0
        self.outcomes = {}
        self.given_up = set()
        self.ids = {}  # id -> caller, for every id a caller ever had
        self.current = {}  # caller -> id
        self.reached = set()  # ids of which the peer had a byte
        self.cancels = {}
        self.used_ids = set()


class ClientAgainstTheWorld(RuleBasedStateMachine):
    """One connection. Effects are carried out at once, as a driver would."""

    calls = Bundle("calls")

    @initialize(
        is_http=st.booleans(),
        replays=st.booleans(),
        is_quick=st.booleans(),
        options=st.fixed_dictionaries(
            {
                "versions": st.sampled_from([HANDSHAKE, STATELESS, BOTH]),
                "busy": st.sampled_from(["retry", "wait"]),
                "max_pending": st.sampled_from([2, 1024]),
                "keepalive": st.sampled_from([None, 5.0]),
                "retry_attempts": st.sampled_from([1, 3]),
            }
        ),
    )
    def begin(self, is_http, replays, is_quick, options):
        self.rig = Rig(
            is_http=is_http,
            max_queued=4,
            max_attempts=10,
            tombstone_sweep=20.0,
            max_frame_bytes=4096,
            **options,
        )
        self.is_http = is_http
        self.replays = replays
        self.is_quick = is_quick  # writes at once what it is given, as a pipe with room does
        self.seen = 0
        self.ledger = Ledger()
        self.alive = "none"
        self.is_up = False
        self.frames = []  # (number, id, method) with the transport and not yet written
        self.asked = {}  # id -> method the peer can answer
        self.answers = []  # frames once sent by the peer, for duplicates
        self.live_epoch = 0
        self.subscribed = False
        self.rig.start()
        self.carry_out()

    # --- carrying out effects -----------------------------------------------------------------------------------------

    def carry_out(self):
        effects = self.rig.history[self.seen :]
        self.seen = len(self.rig.history)
        for effect in effects:
            name = f"on_{type(effect).__name__.lower()}"
            getattr(self, name, lambda effect: None)(effect)
        if self.is_quick and self.alive == "live" and self.frames:
            self.write_some(len(self.frames))

    def on_spawn(self, effect):
        renews = self.is_http and self.alive == "live"
        assert self.alive == "none" or renews, f"spawned over a transport that is {self.alive}"
        assert effect.epoch == self.live_epoch + 1
        self.live_epoch = effect.epoch
        self.alive, self.is_up, self.frames = "spawning", False, []
        if not renews:
            self.asked = {}

    def on_close(self, effect):
        if effect.epoch == self.live_epoch and self.alive != "none":
            self.alive = "closing"
            self.is_up = False

    def on_leak(self, effect):
        self.alive = "none"

    def on_send(self, effect):
        assert self.alive == "live", f"wrote to a transport that is {self.alive}"
        assert self.is_up
        message = json.loads(effect.frame)
        if message.get("method") == "notifications/cancelled":
            id = message["params"]["requestId"]
            self.ledger.cancels[id] = self.ledger.cancels.get(id, 0) + 1
            assert id in self.ledger.reached, "cancelled what the peer never had"
        if effect.id is not None:
            assert message["id"] == effect.id
            self.frames = [frame for frame in self.frames if frame[1] != effect.id]
            self.asked[effect.id] = message["method"]
        if self.is_http:
            self.write(effect.number, effect.id)
        else:
            self.frames.append((effect.number, effect.id))

    def on_hangup(self, effect):
        self.ledger.cancels[effect.id] = self.ledger.cancels.get(effect.id, 0) + 1

    def on_withdraw(self, effect):
        assert effect.id not in self.ledger.reached, "withdrew what the peer already had"
        self.frames = [frame for frame in self.frames if frame[1] != effect.id]
        self.asked.pop(effect.id, None)

    def on_accept(self, effect):
        assert effect.id not in self.ledger.used_ids, "an id was used twice"
        assert effect.id > max(self.ledger.used_ids, default=0)
        self.ledger.used_ids.add(effect.id)
        self.ledger.ids[effect.id] = effect.caller
        self.ledger.current[effect.caller] = effect.id

    def on_complete(self, effect):
        said = json.loads(bytes(effect.result))
        assert said == {"for": effect.caller}, f"{effect.caller} got the answer of {said}"
        self.end(effect.caller)

    def on_fail(self, effect):
        self.end(effect.caller)
        had = any(
            caller == effect.caller and id in self.ledger.reached for id, caller in self.ledger.ids.items()
        )
        if effect.error.may_have_run is False:
            assert not had, f"{effect.error!r} says that it did not run, but the peer had it"
        if effect.error.retryable:
            assert effect.error.may_have_run is False

    def end(self, caller):
        self.ledger.outcomes[caller] = self.ledger.outcomes.get(caller, 0) + 1
        assert self.ledger.outcomes[caller] == 1, f"call {caller} ended twice"
        assert caller not in self.ledger.given_up, f"call {caller} was given up and then told"

    def write(self, number, id):
        if id is not None:
            self.ledger.reached.add(id)

    # --- the user -----------------------------------------------------------------------------------------------------

    @rule(
        target=calls,
        count=st.integers(1, 4),
        wait=st.booleans(),
        timeout=st.sampled_from([0.5, 5.0, 60.0]),
        busy=st.sampled_from([None, "retry", "wait"]),
        progress=st.booleans(),
    )
    def call(self, count, wait, timeout, busy, progress):
        callers = []
        for _ in range(count):
            self.ledger.made += 1
            callers.append(self.ledger.made)
            self.rig.step(
                e.Called(
                    caller=self.ledger.made,
                    method="tools/call",
                    timeout=timeout,
                    wait_for_ready=wait,
                    may_replay=self.replays,
                    busy=busy,
                    wants_progress=progress,
                )
            )
            self.carry_out()
        return multiple(*(caller for caller in callers if caller not in self.ledger.outcomes))

    @precondition(lambda self: self.ledger.made % 5 == 1)
    @rule()
    def call_with_too_much(self):
        self.ledger.made += 1
        params = b'{"x":"%b"}' % (b"y" * self.rig.core.settings.max_frame_bytes)
        self.rig.step(
            e.Called(caller=self.ledger.made, method="tools/call", params=params, wait_for_ready=True)
        )
        self.carry_out()

    @rule(caller=calls)
    def cancel(self, caller):
        if caller in self.ledger.outcomes or caller in self.ledger.given_up:
            return
        self.ledger.given_up.add(caller)
        self.rig.step(e.GaveUp(self.ledger.current[caller]))
        self.carry_out()

    @precondition(lambda self: self.ledger.given_up)
    @rule(caller=calls)
    def cancel_again(self, caller):
        if caller in self.ledger.given_up or caller in self.ledger.outcomes:
            self.rig.step(e.GaveUp(self.ledger.current[caller]))
            self.carry_out()

    @precondition(lambda self: not self.subscribed)
    @rule()
    def subscribe(self):
        self.subscribed = True
        self.rig.step(
            e.Subscribed("k", ("resources/subscribe", b'{"uri":"x:y"}'), ("subscriptions/listen", b"{}"))
        )
        self.carry_out()

    @precondition(lambda self: self.ledger.made > 30)
    @rule()
    def stop(self):
        self.rig.stop()
        self.carry_out()

    # --- the clock ----------------------------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0.0, 0.006, 0.02, 0.1, 0.5, 1.0, 3.1, 10.0, 40.0]))
    def time(self, seconds):
        end = self.rig.now + seconds
        while (at := self.rig.core.wake_at) is not None and at <= end:
            self.rig.now = max(self.rig.now, at)
            for event in self.rig.core.due(self.rig.now):
                self.rig.step(event)
                self.carry_out()
        self.rig.now = end

    # --- the transport ------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.alive == "spawning")
    @rule(fate=st.sampled_from(["ok"] * 12 + ["failed"] * 3 + ["refused"]))
    def spawn(self, fate):
        epoch = self.live_epoch
        if fate == "ok":
            self.alive, self.is_up = "live", True
            self.rig.step(e.Spawned(epoch))
            self.carry_out()
            self.rig.step(e.CameUp(epoch))
        else:
            self.alive = "none"
            kind = e.SpawnFailed if fate == "failed" else e.SpawnRefused
            self.rig.step(kind(epoch, TransportError("no")))
        self.carry_out()

    @precondition(lambda self: self.alive == "live" and self.frames)
    @rule(count=st.integers(1, 5))
    def write_some(self, count):
        through = 0
        for number, id in self.frames[:count]:
            self.write(number, id)
            through = number
        self.frames = self.frames[count:]
        self.rig.step(e.Wrote(self.live_epoch, through))
        self.carry_out()

    @precondition(lambda self: self.alive == "live" and self.frames)
    @rule()
    def busy(self):
        """The newest frames were not taken after all, as if the queue had been full when they were offered."""
        refused = []
        while self.frames and self.frames[-1][1] is not None:
            refused.append(self.frames.pop()[1])
        for id in reversed(refused):
            self.asked.pop(id, None)
            self.rig.step(e.Refused(self.live_epoch, id))
            self.carry_out()

    @precondition(lambda self: self.alive == "live")
    @rule()
    def room(self):
        self.rig.step(e.RoomMade(self.live_epoch))
        self.carry_out()

    @precondition(lambda self: self.alive == "live")
    @rule(
        how=st.sampled_from(["down", "down", "oversize", "notifications/reset", "initialize", "garbage"]),
        code=st.sampled_from([None, 0, 1, -9]),
        was_silent=st.booleans(),
    )
    def break_off(self, how, code, was_silent):
        """Everything that ends a connection which was not asked to end."""
        if how == "down":
            self.down(code, was_silent)
        elif how == "oversize" and not self.is_http:
            self.oversize()
        elif how == "garbage":
            self.noise(b"Listening...", 20)
        elif self.can_speak():
            self.misbehave(how)

    def down(self, code, was_silent):
        self.alive, self.is_up = "dead", False
        self.rig.step(e.WentDown(self.live_epoch, TransportError("down", exit_code=code), code, was_silent))
        self.carry_out()

    def oversize(self):
        values = {"epoch": self.live_epoch, "error": FrameTooLargeError(2**25, 2**24)}
        names = e.OversizeReceived.__struct_fields__
        self.rig.step(e.OversizeReceived(**{name: values[name] for name in names}))
        self.carry_out()

    @precondition(lambda self: self.alive in ("closing", "dead"))
    @rule()
    def reap(self):
        self.alive = "none"
        self.rig.step(e.Reaped(self.live_epoch))
        self.carry_out()

    @precondition(lambda self: self.live_epoch > 1)
    @rule(kind=st.sampled_from([e.CameUp, e.Reaped, e.RoomMade]))
    def stale(self, kind):
        before = self.rig.state
        self.rig.step(kind(self.live_epoch - 1))
        assert self.rig.out == []
        self.rig.step(e.WentDown(self.live_epoch - 1, TransportError("old")))
        assert self.rig.out == []
        assert self.rig.state is before

    @precondition(lambda self: self.is_http and self.alive == "live" and self.asked)
    @rule(data=st.data(), was_declined=st.booleans(), was_sent=st.booleans())
    def lose_one(self, data, was_declined, was_sent):
        id = data.draw(st.sampled_from(sorted(self.asked)))
        del self.asked[id]
        error = (
            OutcomeUnknownError("the response ended") if was_sent else TransportError("connection refused")
        )
        if not was_sent:
            self.ledger.reached.discard(id)
        self.rig.step(e.ExchangeLost(self.live_epoch, id, error, was_declined))
        self.carry_out()

    @precondition(lambda self: self.is_http and self.alive == "live" and self.asked)
    @rule(data=st.data(), is_late=st.booleans())
    def lose_session(self, data, is_late):
        id = data.draw(st.sampled_from(sorted(self.asked)))
        if self.rig.core.server is None or self.rig.core.server.era.value == "stateless":
            return
        del self.asked[id]
        self.ledger.reached.discard(id)  # refused before dispatch
        epoch = self.live_epoch - 1 if is_late and self.live_epoch > 1 else self.live_epoch
        self.rig.step(e.SessionLost(epoch, id))
        self.carry_out()

    @precondition(lambda self: self.rig.state in (S.STARTING, S.INITIALIZING, S.BACKOFF))
    @rule()
    def heal(self):
        """Everybody does his duty until it is ready: most of what can go wrong begins there."""
        for _ in range(8):
            if self.alive in ("closing", "dead"):
                self.reap()
            if self.rig.state is S.BACKOFF:
                self.time(max(0.0, (self.rig.core.wake_at or self.rig.now) - self.rig.now))
            if self.alive == "spawning" and self.rig.state is S.STARTING:
                self.spawn("ok")
            if self.alive == "live" and self.frames and self.rig.state is S.INITIALIZING:
                self.write_some(100)
            for id in self.written():
                method = self.asked[id]
                if method in ("initialize", "server/discover") and self.rig.state is S.INITIALIZING:
                    del self.asked[id]
                    self.say({"id": id, "result": initialized() if method == "initialize" else discovered()})

    # --- the peer -----------------------------------------------------------------------------------------------------

    def can_speak(self):
        return self.alive == "live" and self.is_up

    def say(self, message):
        frame = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.answers.append(frame)
        self.rig.receive(frame)
        self.carry_out()

    @precondition(lambda self: self.can_speak() and self.written())
    @rule(data=st.data(), is_error=st.sampled_from([False, False, False, True]))
    def answer(self, data, is_error):
        """Any of the requests that the peer has, in any order."""
        ids = data.draw(st.permutations(self.written()))
        for id in ids[: data.draw(st.integers(1, len(ids)))]:
            if self.can_speak():
                self.answer_one(id, is_error)

    def answer_one(self, id, is_error):
        method = self.asked.pop(id)
        if is_error:
            self.say({"id": id, "error": {"code": -32601, "message": "no"}})
        elif method == "server/discover":
            self.say({"id": id, "result": discovered()})
        elif method == "initialize":
            self.say({"id": id, "result": initialized()})
        else:
            self.say({"id": id, "result": {"for": self.ledger.ids.get(id)}})

    def written(self):
        return sorted(id for id in self.asked if id in self.ledger.reached)

    @precondition(lambda self: self.can_speak() and self.answers)
    @rule(data=st.data())
    def duplicate(self, data):
        """Anything it ever said, again: after the answer, after the loss, after the next connection."""
        frame = data.draw(st.sampled_from(self.answers))
        ended = dict(self.ledger.outcomes)
        self.rig.receive(frame)
        self.carry_out()
        message = json.loads(frame)
        if message.get("id") in self.ledger.ids:
            caller = self.ledger.ids[message["id"]]
            assert self.ledger.outcomes.get(caller, 0) == max(
                ended.get(caller, 0), self.ledger.outcomes.get(caller, 0)
            )

    @precondition(lambda self: self.can_speak())
    @rule(
        frame=st.sampled_from(
            [
                b"Listening...",
                b'{"jsonrpc":"2.0","id":99999,"result":{}}',
                b'{"jsonrpc":"2.0","id":"x","result":{}}',
                b"[]",
                b'{"jsonrpc":"2.0","id":"q","method":"roots/list"}',
                b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"q"}}',
                b'{"jsonrpc":"2.0","method":"notifications/message"}',
            ]
        ),
    )
    def garbage(self, frame):
        self.noise(frame, 1)

    def noise(self, frame, times):
        for _ in range(times):
            if self.can_speak():
                self.rig.receive(frame)
                self.carry_out()

    @precondition(lambda self: self.can_speak() and self.written())
    @rule(data=st.data())
    def progress(self, data):
        id = data.draw(st.sampled_from(self.written()))
        self.rig.say(method="notifications/progress", params={"progressToken": id, "progress": 1})
        self.carry_out()

    def misbehave(self, method):
        self.rig.say(method=method, **({"id": 1} if method == "initialize" else {}))
        self.carry_out()

    # --- what always holds --------------------------------------------------------------------------------------------

    @invariant()
    def every_call_is_open_ended_or_given_up(self):
        if not hasattr(self, "rig"):
            return
        pending = {x.caller for x in self.rig.core.calls.pending.values() if isinstance(x.caller, int)}
        for caller in range(1, self.ledger.made + 1):
            is_over = caller in self.ledger.outcomes or caller in self.ledger.given_up
            assert is_over is (caller not in pending), (
                f"call {caller}: over {is_over}, open {caller in pending}"
            )

    @invariant()
    def nobody_is_cancelled_twice(self):
        if hasattr(self, "rig"):
            assert max(self.ledger.cancels.values(), default=0) <= 1

    @invariant()
    def rest_is_empty(self):
        if not hasattr(self, "rig"):
            return
        core, calls = self.rig.core, self.rig.core.calls
        if core.state in (S.CLOSING, S.CLOSED):
            assert not calls.pending
            assert not calls.queue
            assert not core._serving
            assert not core._waiters
        if core.state is S.CLOSED:
            assert self.alive == "none"
            assert core.wire is Wire.NONE
            assert len(calls.timers) == len(calls.tombstones) == 0
        if core.state is S.BACKOFF:
            assert all(id in calls.queue for id in calls.pending)
            assert {Timer.BACKOFF, Timer.CLOSE} & set(calls.timers.armed)
        if core.state in (S.STARTING, S.INITIALIZING):
            assert Timer.CONNECT in calls.timers

    def teardown(self):
        """Stop it: with a transport that only does its duty, nothing is left."""
        if not hasattr(self, "rig"):
            return
        self.rig.stop()
        self.carry_out()
        if self.alive != "none":
            self.alive = "none"
            self.rig.step(e.Reaped(self.live_epoch))
            self.carry_out()
        assert self.rig.state is S.CLOSED
        self.rest_is_empty()
        self.every_call_is_open_ended_or_given_up()
        before = len(self.rig.effects(e.Send, self.rig.history))
        for caller in range(1, self.ledger.made + 1):
            if caller in self.ledger.current:
                self.rig.step(e.GaveUp(self.ledger.current[caller]))
        for frame in self.answers[-5:]:
            self.rig.receive(frame)
        assert len(self.rig.effects(e.Send, self.rig.history)) == before, "wrote after close"


TestClientAgainstTheWorld = ClientAgainstTheWorld.TestCase
