"""Arbitrary events in any order: a client's connection against a hostile transport and peer, with a fake clock.

The environment keeps its own ledger and checks: one outcome per call for the right caller, empty tables at rest, at
most one cancellation per id, no frame after close, and that `may_have_run` of every error is correct.
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
from jackstay.protocol.client._transport import TransportStatus
from model.harness import BOTH, HANDSHAKE, STATELESS, Harness, S, discovered, initialized

# The search covers nothing that other tests do not, and coverage makes it five times slower.
pytestmark = [pytest.mark.no_cover, pytest.mark.long]


class Ledger:
    """What the environment observed; outcomes are compared with it."""

    def __init__(self) -> None:
        self.made = 0
        self.outcomes = {}
        self.cancelled = set()
        self.ids = {}  # id -> caller, for every id a caller ever had
        self.current = {}  # caller -> id
        self.reached = set()  # ids of which the peer received a byte
        self.cancels = {}
        self.used_ids = set()


class HostileEnvironment(RuleBasedStateMachine):
    """One connection. Effects are performed immediately, as a driver would."""

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
        self.harness = Harness(
            is_http=is_http,
            max_queued=4,
            max_attempts=10,
            tombstone_sweep=20.0,
            max_frame_bytes=4096,
            **options,
        )
        self.is_http = is_http
        self.replays = replays
        self.is_quick = is_quick  # the transport writes immediately
        self.seen = 0
        self.ledger = Ledger()
        self.alive = "none"
        self.is_up = False
        self.frames = []  # (number, id) accepted by the transport and not yet written
        self.requests = {}  # id -> method of requests that the peer can respond to
        self.sent_by_peer = []  # for duplicates
        self.live_epoch = 0
        self.subscribed = False
        self.harness.start()
        self.perform()

    # --- effects ------------------------------------------------------------------------------------------------------

    def perform(self):
        effects = self.harness.history[self.seen :]
        self.seen = len(self.harness.history)
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
            self.requests = {}

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
            assert id in self.ledger.reached, "cancelled a request that the peer never received"
        if effect.id is not None:
            assert message["id"] == effect.id
            self.frames = [frame for frame in self.frames if frame[1] != effect.id]
            self.requests[effect.id] = message["method"]
        if self.is_http:
            self.write(effect.number, effect.id)
        else:
            self.frames.append((effect.number, effect.id))

    def on_closeresponse(self, effect):
        self.ledger.cancels[effect.id] = self.ledger.cancels.get(effect.id, 0) + 1

    def on_withdraw(self, effect):
        assert effect.id not in self.ledger.reached, "withdrew a request that the peer already received"
        self.frames = [frame for frame in self.frames if frame[1] != effect.id]
        self.requests.pop(effect.id, None)

    def on_accept(self, effect):
        assert effect.id not in self.ledger.used_ids, "an id was used twice"
        assert effect.id > max(self.ledger.used_ids, default=0)
        self.ledger.used_ids.add(effect.id)
        self.ledger.ids[effect.id] = effect.caller
        self.ledger.current[effect.caller] = effect.id

    def on_complete(self, effect):
        result = json.loads(bytes(effect.result))
        assert result == {"for": effect.caller}, f"{effect.caller} got the result {result}"
        self.end(effect.caller)

    def on_fail(self, effect):
        self.end(effect.caller)
        had = any(caller == effect.caller and id in self.ledger.reached for id, caller in self.ledger.ids.items())
        if effect.error.may_have_run is False:
            assert not had, f"{effect.error!r} reports that it did not run, but the peer received it"
        if effect.error.retryable:
            assert effect.error.may_have_run is False

    def end(self, caller):
        self.ledger.outcomes[caller] = self.ledger.outcomes.get(caller, 0) + 1
        assert self.ledger.outcomes[caller] == 1, f"call {caller} ended twice"
        assert caller not in self.ledger.cancelled, f"call {caller} was cancelled and then completed"

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
            self.harness.step(
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
            self.perform()
        return multiple(*(caller for caller in callers if caller not in self.ledger.outcomes))

    @precondition(lambda self: self.ledger.made % 5 == 1)
    @rule()
    def call_with_too_much(self):
        self.ledger.made += 1
        params = b'{"x":"%b"}' % (b"y" * self.harness.core.settings.max_frame_bytes)
        self.harness.step(e.Called(caller=self.ledger.made, method="tools/call", params=params, wait_for_ready=True))
        self.perform()

    @rule(caller=calls)
    def cancel(self, caller):
        if caller in self.ledger.outcomes or caller in self.ledger.cancelled:
            return
        self.ledger.cancelled.add(caller)
        self.harness.step(e.CallCancelled(self.ledger.current[caller]))
        self.perform()

    @precondition(lambda self: self.ledger.cancelled)
    @rule(caller=calls)
    def cancel_again(self, caller):
        if caller in self.ledger.cancelled or caller in self.ledger.outcomes:
            self.harness.step(e.CallCancelled(self.ledger.current[caller]))
            self.perform()

    @precondition(lambda self: not self.subscribed)
    @rule()
    def subscribe(self):
        self.subscribed = True
        self.harness.step(e.Subscribed("k", ("resources/subscribe", b'{"uri":"x:y"}'), ("subscriptions/listen", b"{}")))
        self.perform()

    @precondition(lambda self: self.ledger.made > 30)
    @rule()
    def stop(self):
        self.harness.stop()
        self.perform()

    # --- the clock ----------------------------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0.0, 0.006, 0.02, 0.1, 0.5, 1.0, 3.1, 10.0, 40.0]))
    def time(self, seconds):
        end = self.harness.now + seconds
        while (at := self.harness.core.wake_at) is not None and at <= end:
            self.harness.now = max(self.harness.now, at)
            for event in self.harness.core.due(self.harness.now):
                self.harness.step(event)
                self.perform()
        self.harness.now = end

    # --- the transport ------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.alive == "spawning")
    @rule(outcome=st.sampled_from(["ok"] * 12 + ["failed"] * 3 + ["refused"]))
    def spawn(self, outcome):
        epoch = self.live_epoch
        if outcome == "ok":
            self.alive, self.is_up = "live", True
            self.harness.step(e.Spawned(epoch))
            self.perform()
        else:
            self.alive = "none"
            kind = e.SpawnFailed if outcome == "failed" else e.SpawnRefused
            self.harness.step(kind(epoch, TransportError("no")))
        self.perform()

    @precondition(lambda self: self.alive == "live" and self.frames)
    @rule(count=st.integers(1, 5))
    def write_some(self, count):
        through = 0
        for number, id in self.frames[:count]:
            self.write(number, id)
            through = number
        self.frames = self.frames[count:]
        self.harness.core.wrote(self.live_epoch, through)

    @precondition(lambda self: self.alive == "live" and self.frames)
    @rule()
    def busy(self):
        """Refuse the newest frames."""
        refused = []
        while self.frames and self.frames[-1][1] is not None:
            refused.append(self.frames.pop()[1])
        for id in reversed(refused):
            self.requests.pop(id, None)
            self.harness.step(e.Refused(self.live_epoch, id))
            self.perform()

    @precondition(lambda self: self.alive == "live")
    @rule()
    def room(self):
        self.harness.step(e.BecameWritable(self.live_epoch))
        self.perform()

    @precondition(lambda self: self.alive == "live")
    @rule(
        how=st.sampled_from(["down", "down", "oversize", "notifications/reset", "initialize", "garbage"]),
        code=st.sampled_from([None, 0, 1, -9]),
        was_silent=st.booleans(),
    )
    def disconnect(self, how, code, was_silent):
        """End the connection in one of the ways in which it can fail."""
        if how == "down":
            self.down(code, was_silent)
        elif how == "oversize" and not self.is_http:
            self.oversize()
        elif how == "garbage":
            self.noise(b"Listening...", 20)
        elif self.can_send():
            self.misbehave(how)

    def down(self, code, was_silent):
        self.alive, self.is_up = "dead", False
        self.harness.step(e.WentDown(self.live_epoch, TransportError("down", exit_code=code), code, was_silent))
        self.perform()

    def oversize(self):
        self.harness.step(e.OversizeReceived(self.live_epoch, FrameTooLargeError(2**25, 2**24)))
        self.perform()

    @precondition(lambda self: self.alive in ("closing", "dead"))
    @rule()
    def reap(self):
        self.alive = "none"
        self.harness.step(e.Reaped(self.live_epoch))
        self.perform()

    @precondition(lambda self: self.live_epoch > 1)
    @rule(kind=st.sampled_from([e.Reaped, e.BecameWritable]))
    def stale(self, kind):
        before = self.harness.state
        self.harness.step(kind(self.live_epoch - 1))
        assert self.harness.out == []
        self.harness.step(e.WentDown(self.live_epoch - 1, TransportError("old")))
        assert self.harness.out == []
        assert self.harness.state is before

    @precondition(lambda self: self.is_http and self.alive == "live" and self.requests)
    @rule(data=st.data(), was_declined=st.booleans(), was_sent=st.booleans())
    def lose_one(self, data, was_declined, was_sent):
        id = data.draw(st.sampled_from(sorted(self.requests)))
        del self.requests[id]
        error = OutcomeUnknownError("the response ended") if was_sent else TransportError("connection refused")
        if not was_sent:
            self.ledger.reached.discard(id)
        self.harness.step(e.ExchangeLost(self.live_epoch, id, error, was_declined))
        self.perform()

    @precondition(lambda self: self.is_http and self.alive == "live" and self.requests)
    @rule(data=st.data(), is_late=st.booleans())
    def lose_session(self, data, is_late):
        id = data.draw(st.sampled_from(sorted(self.requests)))
        if self.harness.core.server is None or self.harness.core.server.era.value == "stateless":
            return
        del self.requests[id]
        self.ledger.reached.discard(id)  # refused before dispatch
        epoch = self.live_epoch - 1 if is_late and self.live_epoch > 1 else self.live_epoch
        self.harness.step(e.SessionLost(epoch, id))
        self.perform()

    @precondition(lambda self: self.harness.state in (S.STARTING, S.INITIALIZING, S.BACKOFF))
    @rule()
    def heal(self):
        """Behave well until the connection is ready, because most failures begin there."""
        for _ in range(8):
            if self.alive in ("closing", "dead"):
                self.reap()
            if self.harness.state is S.BACKOFF:
                self.time(max(0.0, (self.harness.core.wake_at or self.harness.now) - self.harness.now))
            if self.alive == "spawning" and self.harness.state is S.STARTING:
                self.spawn("ok")
            if self.alive == "live" and self.frames and self.harness.state is S.INITIALIZING:
                self.write_some(100)
            for id in self.written():
                method = self.requests[id]
                if method in ("initialize", "server/discover") and self.harness.state is S.INITIALIZING:
                    del self.requests[id]
                    self.send_from_peer({"id": id, "result": initialized() if method == "initialize" else discovered()})

    # --- the peer -----------------------------------------------------------------------------------------------------

    def can_send(self):
        return self.alive == "live" and self.is_up

    def send_from_peer(self, message):
        frame = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.sent_by_peer.append(frame)
        self.harness.receive(frame)
        self.perform()

    @precondition(lambda self: self.can_send() and self.written())
    @rule(data=st.data(), is_error=st.sampled_from([False, False, False, True]))
    def respond(self, data, is_error):
        """Respond to any of the requests that the peer received, in any order."""
        ids = data.draw(st.permutations(self.written()))
        for id in ids[: data.draw(st.integers(1, len(ids)))]:
            if self.can_send():
                self.respond_to(id, is_error)

    def respond_to(self, id, is_error):
        method = self.requests.pop(id)
        if is_error:
            self.send_from_peer({"id": id, "error": {"code": -32601, "message": "no"}})
        elif method == "server/discover":
            self.send_from_peer({"id": id, "result": discovered()})
        elif method == "initialize":
            self.send_from_peer({"id": id, "result": initialized()})
        else:
            self.send_from_peer({"id": id, "result": {"for": self.ledger.ids.get(id)}})

    def written(self):
        return sorted(id for id in self.requests if id in self.ledger.reached)

    @precondition(lambda self: self.can_send() and self.sent_by_peer)
    @rule(data=st.data())
    def duplicate(self, data):
        """Repeat any earlier frame: after the response, after a loss, after a reconnect."""
        frame = data.draw(st.sampled_from(self.sent_by_peer))
        ended = dict(self.ledger.outcomes)
        self.harness.receive(frame)
        self.perform()
        message = json.loads(frame)
        if message.get("id") in self.ledger.ids:
            caller = self.ledger.ids[message["id"]]
            assert self.ledger.outcomes.get(caller, 0) == max(ended.get(caller, 0), self.ledger.outcomes.get(caller, 0))

    @precondition(lambda self: self.can_send())
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
            if self.can_send():
                self.harness.receive(frame)
                self.perform()

    @precondition(lambda self: self.can_send() and self.written())
    @rule(data=st.data())
    def progress(self, data):
        id = data.draw(st.sampled_from(self.written()))
        self.harness.receive_json(method="notifications/progress", params={"progressToken": id, "progress": 1})
        self.perform()

    def misbehave(self, method):
        self.harness.receive_json(method=method, **({"id": 1} if method == "initialize" else {}))
        self.perform()

    # --- invariants ---------------------------------------------------------------------------------------------------

    @invariant()
    def every_call_is_open_ended_or_cancelled(self):
        if not hasattr(self, "harness"):
            return
        pending = {x.caller for x in self.harness.core.calls.pending.values() if isinstance(x.caller, int)}
        for caller in range(1, self.ledger.made + 1):
            is_over = caller in self.ledger.outcomes or caller in self.ledger.cancelled
            assert is_over is (caller not in pending), f"call {caller}: over {is_over}, open {caller in pending}"

    @invariant()
    def no_call_is_cancelled_twice(self):
        if hasattr(self, "harness"):
            assert max(self.ledger.cancels.values(), default=0) <= 1

    @invariant()
    def tables_are_empty_at_rest(self):
        if not hasattr(self, "harness"):
            return
        core, calls = self.harness.core, self.harness.core.calls
        if core.state in (S.CLOSING, S.CLOSED):
            assert not calls.pending
            assert not calls.queue
            assert not core.peer_requests.serving
            assert not core.waiters.callers
        if core.state is S.CLOSED:
            assert self.alive == "none"
            assert core.transport.status is TransportStatus.NONE
            assert len(calls.timers) == len(calls.tombstones) == 0
        if core.state is S.BACKOFF:
            # After a second loss of a session, open requests of the HTTP client that is kept may still be answered.
            is_kept = core.transport.status is TransportStatus.KEPT
            assert is_kept or all(id in calls.queue for id in calls.pending)
            assert {e.BackoffElapsed, e.CloseExpired} & set(calls.timers.armed)
        if core.state in (S.STARTING, S.INITIALIZING):
            assert e.ConnectExpired in calls.timers

    def teardown(self):
        """Stop the connection and check that nothing is left."""
        if not hasattr(self, "harness"):
            return
        self.harness.stop()
        self.perform()
        if self.alive != "none":
            self.alive = "none"
            self.harness.step(e.Reaped(self.live_epoch))
            self.perform()
        assert self.harness.state is S.CLOSED
        self.tables_are_empty_at_rest()
        self.every_call_is_open_ended_or_cancelled()
        before = len(self.harness.effects(e.Send, self.harness.history))
        for caller in range(1, self.ledger.made + 1):
            if caller in self.ledger.current:
                self.harness.step(e.CallCancelled(self.ledger.current[caller]))
        for frame in self.sent_by_peer[-5:]:
            self.harness.receive(frame)
        assert len(self.harness.effects(e.Send, self.harness.history)) == before, "wrote after close"


TestHostileEnvironment = HostileEnvironment.TestCase
