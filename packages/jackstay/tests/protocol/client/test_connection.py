"""A client's connection: every event in every state, arbitrary sequences of events, and the entry points."""

from itertools import product

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackstay.errors import (
    ClosedError,
    FrameTooLargeError,
    InvalidEventError,
    JsonRpcError,
    McpError,
    ProtocolError,
    ShutdownError,
    StateError,
    TransportError,
)
from jackstay.protocol._versions import Era
from jackstay.protocol.client import events as e
from jackstay.protocol.client._connection import ClientConnection
from jackstay.protocol.client._exchange import Role
from jackstay.protocol.client._settings import Settings
from jackstay.protocol.client._states import ClientState
from jackstay.protocol.client._table import CELLS
from jackstay.protocol.client._transport import TransportStatus
from model.copies import copied
from model.harness import Harness, S, harness_in

LOST = TransportError("lost")
FACTS = e.ServerFacts("2025-11-25", Era.HANDSHAKE)


def an_id(harness, role):
    return next((x.id for x in harness.core.calls.pending.values() if x.role is role), 0)


# How to create each event in any state.
MAKE = {
    e.Called: lambda r: e.Called(caller="new", method="tools/list"),
    e.Notified: lambda r: e.Notified(caller="new", method="notifications/roots/list_changed"),
    e.Finished: lambda r: e.Finished("q"),
    e.Subscribed: lambda r: e.Subscribed("new", ("resources/subscribe", b'{"uri":"x:y"}'), None),
    e.Unsubscribed: lambda r: e.Unsubscribed("k"),
    e.ReadyRequested: lambda r: e.ReadyRequested("waiter"),
    e.WaitCancelled: lambda r: e.WaitCancelled("waiter"),
    e.CallCancelled: lambda r: e.CallCancelled(an_id(r, Role.CALL)),
    e.Expired: lambda r: e.Expired(an_id(r, Role.CALL)),
    e.RetryDue: lambda r: e.RetryDue(an_id(r, Role.CALL)),
    e.Refused: lambda r: e.Refused(r.epoch, an_id(r, Role.CALL)),
    e.FrameRefused: lambda r: e.FrameRefused(r.epoch, b"{}"),
    e.BecameWritable: lambda r: e.BecameWritable(r.epoch),
    e.Resumed: lambda r: e.Resumed(),
    e.PostQueued: lambda r: e.PostQueued(r.epoch, an_id(r, Role.CALL)),
    e.PostStarted: lambda r: e.PostStarted(r.epoch, an_id(r, Role.CALL)),
    e.Spawned: lambda r: e.Spawned(r.epoch),
    e.SpawnFailed: lambda r: e.SpawnFailed(r.epoch, LOST),
    e.SpawnRefused: lambda r: e.SpawnRefused(r.epoch, TransportError("no such file", permanent=True)),
    e.ProbeExpired: lambda r: e.ProbeExpired(),
    e.Negotiated: lambda r: e.Negotiated(FACTS),
    e.VersionProposed: lambda r: e.VersionProposed(Era.HANDSHAKE, "2025-11-25"),
    e.NegotiationFailed: lambda r: e.NegotiationFailed(JsonRpcError(-32603, "no")),
    e.NegotiationRefused: lambda r: e.NegotiationRefused(ProtocolError("no common protocol revision")),
    e.ConnectExpired: lambda r: e.ConnectExpired(),
    e.MessageReceived: lambda r: e.MessageReceived(),
    e.BatchReceived: lambda r: e.BatchReceived((), 2),
    e.ResponseReceived: lambda r: e.ResponseReceived(
        an_id(r, Role.HANDSHAKE) or an_id(r, Role.CALL), msgspec.Raw(b"{}")
    ),
    e.StrayReceived: lambda r: e.StrayReceived(999),
    e.CancelReceived: lambda r: e.CancelReceived("q"),
    e.NotificationReceived: lambda r: e.NotificationReceived("notifications/message", None),
    e.RequestReceived: lambda r: e.RequestReceived("q2", "sampling/createMessage", None),
    e.InitializeReceived: lambda r: e.InitializeReceived(),
    e.ResetReceived: lambda r: e.ResetReceived(),
    e.InvalidFrameReceived: lambda r: e.InvalidFrameReceived(ProtocolError("not JSON", quote="hello"), 5),
    e.TooManyInvalidFrames: lambda r: e.TooManyInvalidFrames(ProtocolError("20 invalid frames in a row")),
    e.OversizeReceived: lambda r: oversize(r),
    e.WentDown: lambda r: e.WentDown(r.epoch, LOST),
    e.StaleEventReceived: lambda r: e.StaleEventReceived(r.epoch),
    e.SpawnedLate: lambda r: e.SpawnedLate(r.epoch),
    e.OldSessionLost: lambda r: e.OldSessionLost(r.epoch, an_id(r, Role.CALL)),
    e.ExchangeLost: lambda r: e.ExchangeLost(
        r.epoch, an_id(r, Role.HANDSHAKE) or an_id(r, Role.CALL), TransportError("refused"), True
    ),
    e.SessionLost: lambda r: e.SessionLost(r.epoch, an_id(r, Role.CALL)),
    e.KeepaliveDue: lambda r: e.KeepaliveDue(),
    e.CheckExpired: lambda r: e.CheckExpired(),
    e.KeepaliveMissed: lambda r: e.KeepaliveMissed(),
    e.BecameStable: lambda r: e.BecameStable(),
    e.BackoffElapsed: lambda r: e.BackoffElapsed(),
    e.AttemptsExhausted: lambda r: e.AttemptsExhausted(),
    e.SweepDue: lambda r: e.SweepDue(),
    e.DrainRequested: lambda r: e.DrainRequested(),
    e.DrainCancelled: lambda r: e.DrainCancelled(),
    e.StopRequested: lambda r: e.StopRequested(),
    e.Reaped: lambda r: e.Reaped(r.epoch),
    e.CloseExpired: lambda r: e.CloseExpired(),
}


def oversize(harness, epoch=None):
    return e.OversizeReceived(harness.epoch if epoch is None else epoch, FrameTooLargeError(2048, 1024))


def populated(state, **options):
    """Return a harness in that state with an open call (written in ready, else queued), a request of the server and a
    subscription in ready, and a waiter in the states that have waiters.
    """
    options.setdefault("keepalive", 5.0)
    harness = harness_in(state, **options)
    if state is S.READY:
        harness.written_call("open", timeout=60)
        harness.receive_json(id="q", method="sampling/createMessage")
        harness.step(e.Subscribed("k", ("resources/subscribe", b'{"uri":"x:y"}'), None))
        harness.wrote()
    elif state not in (S.CLOSING, S.CLOSED):
        harness.call("open", wait_for_ready=True, timeout=60)
    if state in (S.STARTING, S.INITIALIZING, S.BACKOFF):
        harness.step(e.ReadyRequested("waiter"))
    harness.out = []
    return harness


# (event, starting, initializing, ready, backoff, closing, closed): the effects in order, then the next state.
# "-": ignored and counted. "!": raises in tests. "Fail:X" has the class of the error; "Send:x" the method or "result".
# Each in the situation of `populated`; in backoff the old transport is not reaped and the delay not over.
START_BACKOFF = "Transition Close"
CELLS_OUT = [
    (e.Called, "Fail:StateError", "Fail:StateError", "Accept Send:tools/list", "Fail:StateError",
     "Fail:ShutdownError", "Fail:ClosedError"),
    (e.Notified, "Fail:StateError", "Fail:StateError", "Send:notifications/roots/list_changed",
     "Fail:StateError", "Fail:ShutdownError", "Fail:ClosedError"),
    (e.Finished, "-", "-", "Send:result", "-", "-", "-"),
    (e.Subscribed, "", "", "Send:resources/subscribe", "", "-", "-"),
    (e.Unsubscribed, "", "", "Send:notifications/cancelled", "", "", "-"),
    (e.ReadyRequested, "", "", "Release", "", "Release:ShutdownError", "Release:ClosedError"),
    (e.WaitCancelled, "", "", "-", "", "-", "-"),
    (e.CallCancelled, "", "", "Send:notifications/cancelled", "", "-", "-"),
    (e.Expired, "Fail:TimeoutError", "Fail:TimeoutError", "Fail:TimeoutError Send:notifications/cancelled",
     "Fail:TimeoutError", "-", "-"),
    (e.RetryDue, "-", "", "", "-", "-", "-"),
    (e.Refused, "-", "", "", "-", "-", "-"),
    (e.FrameRefused, "-", "", "", "-", "-", "-"),
    (e.BecameWritable, "-", "", "", "-", "-", "-"),
    (e.Resumed, "-", "-", "", "-", "-", "-"),
    (e.PostQueued, "-", "-", "", "-", "-", "-"),
    (e.PostStarted, "", "", "", "", "-", "-"),
    (e.Spawned, "Transition Send:initialize > initializing", "!", "!", "Close", "Close", "Close"),
    (e.SpawnFailed, "Transition > backoff", "!", "!", "", "Transition > closed", "-"),
    (e.SpawnRefused, "Transition Fail:ClosedError Release:ClosedError > closed", "!", "!", "",
     "Transition > closed", "-"),
    (e.ProbeExpired, "!", "", "-", "-", "-", "-"),
    (e.Negotiated, "!", "Send:notifications/initialized Transition Release Send:tools/call > ready",
     "-", "-", "-", "-"),
    (e.VersionProposed, "!", "", "!", "-", "-", "-"),
    (e.NegotiationFailed, "!", f"{START_BACKOFF} > backoff", "!", "-", "-", "-"),
    (e.NegotiationRefused, "!", "Transition Fail:ClosedError Release:ClosedError Close > closing", "!", "-", "-", "-"),
    (e.ConnectExpired, f"{START_BACKOFF} > backoff", f"{START_BACKOFF} > backoff", "!", "-", "-", "-"),
    (e.MessageReceived, "", "", "", "", "-", "-"),
    (e.BatchReceived, "Violation", "Violation", "Violation", "-", "-", "-"),
    # starting: no call can have been sent; tested with HTTP elsewhere.
    (e.ResponseReceived, None, f"{START_BACKOFF} > backoff", "Complete", "-", "-", "-"),
    (e.StrayReceived, "-", "Stray", "Stray", "-", "-", "-"),
    (e.CancelReceived, "-", "-", "StopServing", "-", "-", "-"),
    (e.NotificationReceived, "-", "Deliver", "Deliver", "-", "-", "-"),
    (e.RequestReceived, "-", "Send:error", "Serve", "-", "-", "-"),
    (e.InitializeReceived, "-", f"Violation {START_BACKOFF} > backoff",
     f"Violation {START_BACKOFF} StopServing Fail:ProtocolError > backoff", "-", "-", "-"),
    (e.ResetReceived, "-", f"{START_BACKOFF} > backoff", f"Fail:ResetError {START_BACKOFF} StopServing > backoff",
     "-", "-", "-"),
    (e.InvalidFrameReceived, "Violation", "Violation", "Violation", "-", "-", "-"),
    (e.TooManyInvalidFrames, f"{START_BACKOFF} > backoff", f"{START_BACKOFF} > backoff",
     f"{START_BACKOFF} StopServing Fail:ProtocolError > backoff", "-", "-", "-"),
    (e.OversizeReceived, f"Violation {START_BACKOFF} > backoff", f"Violation {START_BACKOFF} > backoff",
     f"Violation {START_BACKOFF} StopServing Fail:FrameTooLargeError > backoff", "-", "-", "-"),
    (e.WentDown, f"{START_BACKOFF} > backoff", f"{START_BACKOFF} > backoff",
     f"{START_BACKOFF} StopServing Fail:OutcomeUnknownError > backoff", "-", "-", "-"),
    (e.StaleEventReceived, "", "", "", "", "", ""),
    (e.SpawnedLate, "Close", "Close", "Close", "Close", "Close", "Close"),
    (e.OldSessionLost, "", "", "Accept Send:tools/call", "", "", ""),
    (e.ExchangeLost, "", f"{START_BACKOFF} > backoff", "Fail:TransportError", "-", "-", "-"),
    (e.SessionLost, "", "", "Accept StopServing Transition Spawn > starting", "-", "-", "-"),
    (e.KeepaliveDue, "-", "-", "", "-", "-", "-"),
    (e.CheckExpired, "-", "-", "", "-", "-", "-"),  # without a health check; the rest in test_recovery_hang.py
    (e.KeepaliveMissed, "-", "-", f"{START_BACKOFF} StopServing Fail:OutcomeUnknownError > backoff", "-", "-", "-"),
    (e.BecameStable, "-", "-", "", "-", "-", "-"),
    (e.BackoffElapsed, "-", "-", "-", "-", "-", "-"),
    (e.AttemptsExhausted, "-", "-", "-", "Transition Fail:ClosedError Release:ClosedError > closing", "-", "-"),
    (e.SweepDue, "", "", "", "", "-", "-"),
    (e.DrainRequested, "", "", "", "", "-", "-"),
    (e.DrainCancelled, "", "", "", "", "-", "-"),
    (e.StopRequested, "Transition Fail:ShutdownError Release:ShutdownError Close > closing",
     "Transition Fail:ShutdownError Release:ShutdownError Close > closing",
     "Transition StopServing Fail:ShutdownError Close > closing",
     "Transition Fail:ShutdownError Release:ShutdownError > closing", "-", "-"),
    (e.Reaped, "-", "-", "-", "", "Transition > closed", "-"),
    (e.CloseExpired, "-", "-", "-", "Leak", "Leak Transition > closed", "-"),
]  # fmt: skip


def summary(harness, before):
    """Return the effects of a turn and the change of state, in the notation of the table above."""
    words = []
    for effect in harness.out:
        word = type(effect).__name__
        error = getattr(effect, "error", None)
        if isinstance(effect, e.Send):
            (frame,) = harness.frames([effect])
            word += ":" + (frame.get("method") or ("error" if "error" in frame else "result"))
        elif isinstance(error, McpError):
            word += f":{type(error).__name__}"
        words.append(word)
    if harness.state is not before:
        words += [">", harness.state.value]
    return " ".join(words)


@pytest.mark.parametrize(("event", "cells"), [(event, cells) for event, *cells in CELLS_OUT], ids=lambda value: (
    getattr(value, "__name__", "")
))  # fmt: skip
def test_each_event_in_every_state(event, cells):
    for state, expected in zip(ClientState, cells, strict=True):
        if expected is None:
            continue
        harness = populated(state)
        stepped = MAKE[event](harness)
        if expected == "!":
            with pytest.raises(InvalidEventError) as caught:
                harness.step(stepped)
            assert (caught.value.event, caught.value.state) == (event.__name__, state.value)
            assert harness.state is state
            assert harness.core.counts[f"impossible {event.__name__}"] == 1
            continue
        counted = harness.core.counts.get(f"ignored {event.__name__}", 0)
        harness.step(stepped)
        if expected == "-":
            assert (harness.out, harness.state) == ([], state)
            assert harness.core.counts[f"ignored {event.__name__}"] == counted + 1, state
        else:
            assert summary(harness, state) == expected, state


def test_every_event_is_in_the_table():
    assert {row[0] for row in CELLS_OUT} == set(CELLS) == set(MAKE)


# --- arbitrary events -------------------------------------------------------------------------------------------------


def check(harness):
    """Check the invariants of every state."""
    core, calls = harness.core, harness.core.calls
    if core.state in (S.CLOSING, S.CLOSED):
        assert not calls.pending
        assert not calls.queue
    if core.state is S.CLOSED:
        assert len(calls.timers) == 0
        assert len(calls.tombstones) == 0
        assert core.transport.status is TransportStatus.NONE
    for name in calls.timers.armed:
        if isinstance(name, int):
            assert name in calls.pending
        if isinstance(name, e.RetryDue):
            assert name.id in calls.pending
    assert set(calls.queue) <= set(calls.pending)
    callers = [effect.caller for effect in harness.history if isinstance(effect, e.Fail | e.Complete)]
    assert len(callers) == len(set(callers))


@pytest.mark.parametrize("state", ClientState)
def test_every_event_leads_to_a_valid_state_or_an_invalid_event_error(state):
    for event, is_strict, is_http in product(MAKE, (True, False), (True, False)):
        harness = populated(state, is_strict=is_strict, is_http=is_http)
        stepped = MAKE[event](harness)
        if event in (e.ResponseReceived, e.Expired, e.CallCancelled) and not getattr(stepped, "id", 0):
            continue  # the core creates these itself, only for ids that are open
        try:
            harness.step(stepped)
        except InvalidEventError:
            assert is_strict, event
            assert any(branch.is_impossible for branch in CELLS[event][state].branches()), event
        assert isinstance(harness.state, ClientState)
        check(harness)


EVENTS = st.sampled_from(
    [
        event
        for event in MAKE
        if event not in (e.ResponseReceived, e.Negotiated, e.TooManyInvalidFrames, e.KeepaliveMissed)
    ]
)


@given(st.lists(st.tuples(EVENTS, st.floats(0, 20)), max_size=40), st.booleans())
def test_any_sequence_of_events_keeps_the_invariants(steps, is_http):
    harness = Harness(is_http=is_http, is_strict=False, keepalive=5.0)
    harness.start()
    made = 0
    for event, seconds in steps:
        harness.wait(seconds)
        stepped = MAKE[event](harness)
        if isinstance(stepped, e.Called):
            made += 1
            stepped = msgspec.structs.replace(stepped, caller=("call", made), wait_for_ready=made % 2 == 0)
        if isinstance(stepped, e.Notified):
            made += 1
            stepped = msgspec.structs.replace(stepped, caller=("notice", made))
        harness.step(stepped)
        check(harness)


# --- entry points and timers ------------------------------------------------------------------------------------------


def test_start_arms_the_connect_deadline_and_spawns():
    harness = Harness()
    harness.start()
    assert harness.kinds() == "Transition Spawn"
    assert harness.only(e.Spawn).epoch == 1
    assert harness.core.calls.timers.armed == {e.SweepDue: 60.0, e.ConnectExpired: 10.0}
    assert harness.core.transport.status is TransportStatus.OPEN


def test_a_result_in_ready_takes_the_fast_path_with_the_same_effects():
    harness = populated(S.READY)
    harness.core.recovery.failures = harness.core.transport.invalid_frames = 3
    id = an_id(harness, Role.CALL)
    clone = copied(harness.core)
    harness.receive(b'{"jsonrpc":"2.0","id":%d,"result":{"a":1}}' % id)
    (effect,) = harness.out
    assert (effect.caller, effect.id, bytes(effect.result)) == ("open", id, b'{"a":1}')
    effects = clone.step(e.ResponseReceived(id, msgspec.Raw(b'{"a":1}')), harness.now)
    assert [(type(x), x.caller, x.id, bytes(x.result)) for x in effects] == [(e.Complete, "open", id, b'{"a":1}')]
    for name in ("pending", "queue", "late", "unknown"):
        assert getattr(clone.calls, name) == getattr(harness.core.calls, name)
    assert clone.calls.timers.armed == harness.core.calls.timers.armed
    assert (harness.core.recovery.failures, harness.core.transport.invalid_frames, clone.recovery.failures) == (0, 0, 0)


def test_a_response_with_another_id_completes_no_call():
    for id in (b'"2"', b"2.0", b"true", b"null", b"-2", b"0", b"9" * 40, b'""', b"[2]"):
        harness = harness_in(S.READY)
        call = harness.written_call("me")
        assert call == 2
        harness.receive(b'{"jsonrpc":"2.0","id":%b,"result":{}}' % id)
        assert harness.outcomes_of("me") == 0, id
        assert call in harness.core.calls.pending, id


def test_a_frame_of_an_old_epoch_is_dropped_and_counted():
    harness = harness_in(S.READY)
    harness.down()
    harness.reconnect().agree()
    call = harness.written_call("me")
    harness.receive(b'{"jsonrpc":"2.0","id":%d,"result":{}}' % call, epoch=1)
    assert harness.out == []
    assert harness.core.counts["stale"] == 1
    assert call in harness.core.calls.pending


def test_a_stale_event_changes_nothing_in_any_state():
    """An error of an old transport cannot end the new connection (docs/guarantees.md G10)."""
    events = (e.WentDown, e.Reaped, e.BecameWritable, e.SpawnFailed)
    for event, state in product(events, ClientState):
        harness = populated(state)
        before = copied(harness.core)
        harness.step(msgspec.structs.replace(MAKE[event](harness), epoch=harness.epoch - 1))
        assert harness.out == [], (event, state)
        assert harness.core.counts["stale"] == 1
        core = harness.core
        assert (core.state, core.transport.status, core.calls.pending) == (
            before.state,
            before.transport.status,
            before.calls.pending,
        )
        assert core.calls.timers.armed == before.calls.timers.armed
        assert core.calls.written == before.calls.written


def test_written_frames_of_an_old_transport_do_not_count_in_any_state():
    for state in ClientState:
        core = populated(state).core
        before = core.calls.written
        core.wrote(core.epoch - 1, before + 1)
        assert (core.calls.written, core.counts["stale"]) == (before, 1)
        core.wrote(core.epoch, before + 1)
        core.wrote(core.epoch, before)
        assert (core.calls.written, core.state) == (before + 1, state)


def test_a_late_spawn_of_an_old_epoch_is_closed_in_every_state():
    for state in ClientState:
        harness = populated(state)
        before = (harness.state, harness.core.transport.status, harness.epoch)
        harness.step(e.Spawned(harness.epoch - 1))
        assert harness.out == [e.Close(harness.epoch - 1)], state
        assert (harness.state, harness.core.transport.status, harness.epoch) == before


def test_wake_at_is_the_earliest_timer():
    harness = Harness()
    harness.start()
    assert harness.core.wake_at == 10.0
    assert harness.core.due(9.999) == []
    assert harness.core.due(10.0) == [e.ConnectExpired()]
    assert harness.core.wake_at == 60.0


def test_each_timer_becomes_its_event():
    harness = harness_in(S.READY, keepalive=7.0)
    call = harness.call(timeout=5.0)
    harness.refuse(call)
    assert harness.core.due(1.0) == [e.RetryDue(call)]
    assert harness.core.due(100.0) == [e.Expired(call), e.KeepaliveDue(), e.BecameStable(), e.SweepDue()]
    assert harness.core.wake_at is None


def test_a_closed_connection_has_no_timers():
    assert harness_in(S.CLOSED).core.wake_at is None


# --- attributes -------------------------------------------------------------------------------------------------------


def test_repr_shows_the_state():
    harness = harness_in(S.READY, name="git")
    harness.call()
    assert repr(harness.core) == "<ClientConnection git ready epoch=1 transport=open pending=1 queued=0 failures=0>"
    assert repr(Harness().core).startswith("<ClientConnection client starting epoch=0 transport=none")


def test_a_copy_is_independent():
    harness = populated(S.READY)
    clone = copied(harness.core)
    clone.step(e.StopRequested(), 1.0)
    assert clone.state is S.CLOSING
    assert harness.state is S.READY
    assert harness.core.peer_requests.serving
    assert harness.core.calls.pending
    assert type(clone) is ClientConnection


def test_the_cause_is_the_newest_failure_and_then_the_reason():
    harness = harness_in(S.READY)
    assert harness.core.cause is None
    harness.down(error := TransportError("first"))
    assert harness.core.cause is error
    harness.stop()
    assert isinstance(harness.core.cause, ShutdownError)


def test_each_change_of_state_has_a_transition():
    harness = harness_in(S.READY)
    harness.down()
    harness.stop()
    harness.reaped()
    transitions = [
        (x.source, x.target, type(x.reason).__name__, x.attempt) for x in harness.effects(e.Transition, harness.history)
    ]
    assert transitions == [
        ("new", "starting", "NoneType", 0),
        ("starting", "initializing", "NoneType", 0),
        ("initializing", "ready", "NoneType", 0),
        ("ready", "backoff", "TransportError", 1),
        ("backoff", "closing", "ShutdownError", 1),
        ("closing", "closed", "ShutdownError", 1),
    ]


def test_a_transition_has_the_epoch_it_leads_to():
    harness = harness_in(S.READY)
    harness.down()
    harness.reconnect()
    transitions = {(x.source, x.target): x.epoch for x in harness.effects(e.Transition, harness.history)}
    assert transitions["ready", "backoff"] == 1
    assert transitions["backoff", "starting"] == 2


def test_impossible_pairs_are_counted_in_production():
    harness = harness_in(S.READY, is_strict=False)
    harness.step(e.ConnectExpired())
    harness.step(e.ConnectExpired())
    assert harness.out == []
    assert harness.state is S.READY
    assert harness.core.counts["impossible ConnectExpired"] == 2


ENDED = [(S.CLOSING, ShutdownError), (S.CLOSED, ClosedError)]


def test_a_call_after_the_end_gets_the_reason():
    for state, kind in ENDED:
        harness = harness_in(state)
        harness.call("late")
        error = harness.error_of("late")
        assert type(error) is kind
        assert error.type == "shutdown"
        assert (error.may_have_run, error.method) == (False, "tools/call")


def test_a_call_after_a_permanent_failure_gets_the_failure():
    harness = Harness()
    harness.start()
    harness.step(e.SpawnRefused(1, refusal := TransportError("no such file", permanent=True)))
    harness.call("late")
    assert harness.error_of("late").reason is refusal
    assert harness.error_of("late").type == "transport"


def test_a_call_outside_ready_gets_the_state():
    for state in (S.STARTING, S.INITIALIZING, S.BACKOFF):
        harness = harness_in(state)
        harness.wait(0.25)
        harness.call("me")
        error = harness.error_of("me")
        assert isinstance(error, StateError)
        assert error.state == state.value
        assert error.retry_in == (0.75 if state is S.BACKOFF else None)
        assert error.retryable


def test_settings_are_kept():
    settings = Settings(name="x")
    assert ClientConnection(settings).settings is settings
