"""Failing and coming back: causes, waits, attempts, keepalive, sweeping. What is HTTP's own is in `test_recovery_http`."""

import pytest

from jackstay.errors import (
    ClosedError,
    FrameTooLargeError,
    OutcomeUnknownError,
    ProtocolError,
    ResetError,
    ShutdownError,
    TransportError,
)
from jackstay.protocol.client import events as e
from jackstay.protocol.client._core import Wire
from jackstay.protocol.client._exchange import Role
from jackstay.protocol.client._table import Timer
from model.rig import BOTH, STATELESS, Rig, S, rig_in


def lost_oversize(rig):
    values = {"epoch": rig.epoch, "error": FrameTooLargeError(2048, 1024)}
    return e.OversizeReceived(**{name: values[name] for name in e.OversizeReceived.__struct_fields__})


# --- losing a ready connection ----------------------------------------------------------------------------------------

LOSSES = [
    (
        "down",
        lambda r: r.down(TransportError("exited", exit_code=3, stderr_tail="oops")),
        OutcomeUnknownError,
    ),
    ("reset", lambda r: r.say(method="notifications/reset"), ResetError),
    ("old reset", lambda r: r.say(method="$/reset"), ResetError),
    ("initialize", lambda r: r.say(id=5, method="initialize", params={}), ProtocolError),
    ("oversize", lambda r: r.step(lost_oversize(r)), FrameTooLargeError),
    ("strikes", lambda r: [r.receive(b"Listening...") for _ in range(20)], ProtocolError),
    ("keepalive", lambda r: r.step(e.KeepaliveMissed()), OutcomeUnknownError),
]


@pytest.mark.parametrize(("name", "lose", "kind"), LOSSES, ids=[row[0] for row in LOSSES])
def test_what_was_written_fails_with_the_truth_and_a_new_transport_waits(name, lose, kind):
    """Table: the failures of ready; rows 7, 8, 17, 24, 25."""
    rig = rig_in(S.READY)
    rig.written_call("written")
    rig.call("handed")
    rig.call("kept", wait_for_ready=True)
    lose(rig)
    assert rig.state is S.BACKOFF
    assert rig.effects(e.Close, rig.history) == [e.Close(1)]
    assert rig.core.failures == 1
    assert type(rig.error_of("written")) is kind
    assert rig.error_of("written").may_have_run is True
    assert rig.error_of("written").retryable is False
    assert rig.error_of("handed").may_have_run is False
    assert type(rig.error_of("handed")) is (TransportError if kind is OutcomeUnknownError else kind)
    assert rig.outcomes_of("kept") == (1 if kind is ResetError else 0)
    assert rig.core.calls.timers.at(Timer.BACKOFF) == rig.now + 1.0


def test_the_exit_code_and_the_last_words_reach_the_caller():
    """Section 3 and G1."""
    rig = rig_in(S.READY)
    rig.written_call("me")
    rig.down(TransportError("the server exited", exit_code=3, stderr_tail="Traceback\nKeyError: 'x'\n"))
    assert str(rig.error_of("me")) == (
        "tools/call (request 2): the server exited; it may have run: check before sending it again"
        " [exit code 3] [stderr: KeyError: 'x']"
    )


def test_a_violation_is_warned_about():
    """Row 8: a second `initialize` from the server: warning, close, backoff."""
    rig = rig_in(S.READY)
    rig.say(id=5, method="initialize", params={})
    assert rig.only(e.Violation).reason == "the server sent initialize, which only a client may"


def test_nothing_is_sent_again_by_default():
    """Row 25, G7."""
    rig = rig_in(S.READY)
    rig.written_call("me")
    rig.down()
    rig.reconnect().agree()
    assert rig.methods() == ["notifications/initialized"]


def test_a_safe_call_is_sent_again_once_with_a_new_id_and_what_is_left_of_its_deadline():
    """Row 25."""
    rig = rig_in(S.READY)
    id = rig.written_call("me", may_replay=True, timeout=20.0)
    rig.wait(5.0)
    rig.down()
    (accept,) = rig.effects(e.Accept)
    assert accept.id > id
    rig.reconnect().agree()
    assert rig.frames()[-1]["id"] == accept.id
    assert rig.core.calls.timers.at(accept.id) == 20.0
    rig.answer(id)
    assert rig.only(e.Stray).kind == "late"
    rig.wrote()
    rig.down()
    assert isinstance(rig.error_of("me"), OutcomeUnknownError)
    assert rig.outcomes_of("me") == 1


def test_a_safe_call_that_succeeds_the_second_time_completes_its_caller():
    rig = rig_in(S.READY)
    rig.written_call("me", may_replay=True)
    rig.down()
    id = rig.only(e.Accept).id
    rig.reconnect().agree()
    rig.wrote()
    rig.answer(id, {"tools": []})
    assert rig.only(e.Complete).caller == "me"


REPLAY_ENDS = [
    ("busy", lambda r, call: [r.refuse(call) or r.wait(0.05) for _ in range(3)]),
    ("refused connection", lambda r, call: r.lost(call, TransportError("connection refused"))),
    ("429", lambda r, call: r.lost(call, TransportError("too many requests", retry_in=2.0))),
    ("stop", lambda r, call: r.stop()),
    ("deadline", lambda r, call: r.wait(31.0)),
]


@pytest.mark.parametrize(("name", "end"), REPLAY_ENDS, ids=[row[0] for row in REPLAY_ENDS])
def test_a_replayed_call_may_have_run_whatever_ends_it(name, end):
    """Row 25 and section 3: written under an earlier id, so no error may say that it surely did not run."""
    rig = Rig(is_http=name in ("refused connection", "429")).ready()
    rig.written_call("me", may_replay=True)
    rig.down()
    id = rig.only(e.Accept).id
    rig.reconnect().agree()
    end(rig, id)
    assert rig.error_of("me").may_have_run is True


# --- waiting and coming back ------------------------------------------------------------------------------------------


def test_the_old_process_is_reaped_before_the_new_one_starts():
    """Row 9. Table: backoff timer: old transport reaped: -> starting, else wait (bounded)."""
    rig = rig_in(S.BACKOFF)
    rig.wait(1.1)
    assert rig.state is S.BACKOFF
    assert rig.effects(e.Spawn) == []
    rig.reaped()
    assert rig.state is S.STARTING
    assert rig.only(e.Spawn).epoch == 2


def test_a_reaped_transport_waits_for_its_time():
    rig = rig_in(S.BACKOFF)
    rig.reaped()
    assert rig.state is S.BACKOFF
    assert rig.core.wire is Wire.NONE
    rig.wait(0.99)
    assert rig.state is S.BACKOFF
    rig.wait(0.02)
    assert rig.state is S.STARTING


def test_a_transport_that_is_never_reaped_is_reported_and_left():
    rig = rig_in(S.BACKOFF)
    rig.wait(8.1)
    assert rig.only(e.Leak).epoch == 1
    assert rig.state is S.STARTING


def test_the_wait_doubles_and_the_luck_is_the_drivers():
    """Row 11."""
    rig = rig_in(S.READY)
    waits = []
    for luck in (0.5, 0.5, 0.5, 0.0, 0.999, 0.5, 0.5):
        rig.luck = luck
        rig.down()
        waits.append(round(rig.core.calls.timers.at(Timer.BACKOFF) - rig.now, 1))
        rig.reconnect()
    assert waits == [1.0, 2.0, 4.0, 6.4, 19.2, 30.0, 30.0]


def test_a_reset_reconnects_with_the_least_delay():
    """Row 7."""
    rig = rig_in(S.READY)
    for _ in range(3):
        rig.down()
        rig.reconnect().agree()
    rig.luck = 0.999
    rig.say(method="notifications/reset")
    assert rig.core.calls.timers.at(Timer.BACKOFF) == rig.now + 1.0
    assert rig.core.failures == 4


def test_a_reset_while_initializing_is_a_failure_with_the_least_delay():
    rig = rig_in(S.INITIALIZING)
    rig.say(method="notifications/reset")
    assert rig.state is S.BACKOFF
    assert isinstance(rig.core.cause, ResetError)
    assert rig.core.failures == 1


def test_failures_are_forgotten_after_ten_seconds_in_ready():
    """Row 11."""
    rig = rig_in(S.READY)
    rig.down()
    rig.reconnect().agree()
    rig.wait(9.9)
    assert rig.core.failures == 1
    rig.wait(0.2)
    assert rig.core.failures == 0


def test_failures_are_forgotten_with_the_first_good_answer_of_the_users():
    """Row 11: the first successful answer to a call of the user's; what we re-open by ourselves proves nothing."""
    rig = rig_in(S.READY)
    rig.step(e.Subscribed("k", ("resources/subscribe", b'{"uri":"x:y"}'), None))
    rig.down()
    rig.reconnect().agree()
    rig.answer(next(x.id for x in rig.core.calls.pending.values() if x.role is Role.STANDING))
    assert rig.core.failures == 1
    rig.say(id=rig.written_call(), error={"code": -1, "message": "no"})
    assert rig.core.failures == 1
    rig.answer(rig.written_call())
    assert rig.core.failures == 0


def test_a_server_that_handshakes_and_crashes_does_not_spin():
    """Row 11."""
    rig = rig_in(S.READY)
    for number in range(1, 6):
        rig.down()
        assert rig.core.failures == number
        rig.reconnect().agree()


# --- giving up for good -----------------------------------------------------------------------------------------------


def test_before_the_first_ready_five_failures_are_the_end():
    """Section 4: max_attempts 5. Table: attempts exhausted."""
    rig = Rig(wait_for_ready=True)
    rig.start()
    rig.step(e.ReadyAsked("waiter"))
    rig.call("me", timeout=1000.0)
    for number in range(1, 6):
        assert rig.state is S.STARTING
        rig.step(e.SpawnFailed(rig.epoch, TransportError(f"failure {number}", exit_code=number)))
        if number < 5:
            rig.wait(rig.core.calls.timers.at(Timer.BACKOFF) - rig.now)
    assert rig.state is S.CLOSED
    error = rig.only(e.Release).error
    assert isinstance(error, ClosedError)
    assert (error.reason.exit_code, error.details["attempts"]) == (5, 5)  # row 15: the newest cause
    assert rig.error_of("me").reason is error.reason
    assert len(rig.core.calls.timers) == 0


def test_after_the_first_ready_there_is_no_limit():
    rig = rig_in(S.READY, max_attempts=1)
    for _ in range(20):
        rig.down()
        assert rig.state is S.BACKOFF
        rig.reconnect()


def test_exhausted_with_a_live_transport_closes_it_first():
    rig = Rig(max_attempts=1).connect()
    rig.down()
    assert rig.state is S.CLOSING
    assert rig.effects(e.Close) == [e.Close(1)]
    rig.reaped()
    assert rig.state is S.CLOSED


def test_a_missing_executable_is_permanent():
    """Row 5."""
    rig = Rig()
    rig.start()
    rig.step(e.ReadyAsked("me"))
    rig.step(e.SpawnRefused(1, refusal := TransportError("no such file", permanent=True)))
    assert rig.state is S.CLOSED
    assert rig.only(e.Release).error.reason is refusal
    assert rig.core.failures == 0


def die(rig, code=1, *, was_silent=True):
    rig.down(TransportError("exited", exit_code=code), code, was_silent=was_silent)


def test_the_same_silent_exit_twice_in_a_row_before_the_first_ready_is_permanent():
    """Row 15."""
    rig = Rig().connect()
    die(rig)
    assert rig.state is S.BACKOFF
    rig.reconnect()
    die(rig)
    assert rig.state is S.CLOSING
    assert rig.core.cause.exit_code == 1


def test_also_when_the_first_died_of_the_probe():
    rig = Rig(versions=("2025-11-25", "2026-07-28")).connect()
    die(rig)
    rig.reconnect()
    die(rig)
    assert rig.state is S.CLOSING


NOT_HOPELESS = [
    ("another code", (1, True), (2, True)),
    ("a signal", (-9, True), (-9, True)),
    ("the first spoke", (1, False), (1, True)),
    ("the second spoke", (1, True), (1, False)),
    ("no code", (None, True), (None, True)),
]


@pytest.mark.parametrize(("name", "first", "second"), NOT_HOPELESS, ids=[row[0] for row in NOT_HOPELESS])
def test_two_exits_that_differ_speak_or_are_signals_are_not_permanent(name, first, second):
    rig = Rig().connect()
    die(rig, first[0], was_silent=first[1])
    rig.reconnect()
    die(rig, second[0], was_silent=second[1])
    assert rig.state is S.BACKOFF


@pytest.mark.parametrize("between", ["deadline", "spawn failed", "garbage"])
def test_two_equal_exits_with_another_failure_between_are_not_in_a_row(between):
    """Row 15: twice in a row."""
    rig = Rig().connect()
    die(rig)
    rig.reaped()
    rig.wait(1.1)
    if between == "spawn failed":
        rig.step(e.SpawnFailed(rig.epoch, TransportError("no memory")))
        rig.wait(2.1)
    else:
        rig.spawned()
        rig.up()
        if between == "garbage":
            for _ in range(20):
                rig.receive(b"hello")
        else:
            rig.wait(10.1)
        rig.reaped()
        rig.wait(2.1)
    assert rig.state is S.STARTING
    rig.spawned()
    rig.up()
    die(rig)
    assert rig.state is S.BACKOFF


def test_after_the_first_ready_equal_exits_are_not_permanent():
    rig = Rig().ready()
    die(rig)
    rig.reconnect()
    die(rig)
    assert rig.state is S.BACKOFF


# --- stop -------------------------------------------------------------------------------------------------------------


def test_stop_releases_callers_at_once_and_then_closes():
    """Row 22."""
    rig = rig_in(S.READY)
    rig.written_call("written")
    rig.call("handed")
    rig.stop()
    assert rig.kinds() == "Transition Fail Fail Close"
    assert type(rig.error_of("written")) is ShutdownError
    assert (rig.error_of("written").may_have_run, rig.error_of("handed").may_have_run) == (True, False)
    rig.stop()
    assert rig.out == []
    rig.reaped()
    rig.stop()
    assert rig.out == []
    assert rig.state is S.CLOSED


def test_stop_in_backoff_with_nothing_left_is_the_end():
    rig = rig_in(S.BACKOFF)
    rig.reaped()
    rig.stop()
    assert rig.state is S.CLOSED


def test_closed_leaves_nothing():
    rig = rig_in(S.READY, keepalive=5.0)
    rig.step(e.Subscribed("k", ("resources/subscribe", b'{"uri":"x:y"}'), None))
    id = rig.written_call()
    rig.step(e.GaveUp(id))
    rig.stop()
    rig.reaped()
    calls = rig.core.calls
    assert (calls.pending, calls.queue, len(calls.timers), len(calls.tombstones)) == ({}, {}, 0, 0)
    assert rig.core._standing == {}


# --- keepalive --------------------------------------------------------------------------------------------------------


def asked(rig):
    return [method for method in rig.methods() if method in ("ping", "server/discover")]


def test_without_the_setting_nothing_is_asked():
    rig = rig_in(S.READY)
    rig.wait(1000.0)
    assert asked(rig) == []
    assert rig.state is S.READY


@pytest.mark.parametrize(("versions", "method"), [(("2025-11-25",), "ping"), (STATELESS, "server/discover")])
def test_a_silent_server_is_asked_for_a_sign_of_life_and_two_misses_are_down(versions, method):
    """Section 4: keepalive; table: keepalive missed twice, as down."""
    rig = Rig(versions=versions, keepalive=5.0).ready()
    rig.written_call("me", timeout=1000.0, max_timeout=None)
    rig.wait(5.0 * 3)
    assert asked(rig) == [method] * 2
    assert rig.state is S.READY
    rig.wait(5.1)
    assert rig.state is S.BACKOFF
    assert isinstance(rig.error_of("me"), OutcomeUnknownError)
    assert str(rig.core.cause) == "no sign of life after 2 keepalives"


def test_anything_heard_is_a_sign_of_life():
    """Only when nothing was received for that long."""
    rig = rig_in(S.READY, keepalive=5.0)
    for _ in range(10):
        rig.wait(4.9)
        assert asked(rig) == []
        rig.say(method="notifications/message", params={})


def test_an_answer_to_a_call_is_a_sign_of_life():
    """The answer takes a shorter way through the core than any other message."""
    rig = rig_in(S.READY, keepalive=5.0)
    rig.wait(5.0)  # the handshake was heard before: from here on only the answers are
    for _ in range(10):
        id = rig.written_call()
        rig.wait(4.9)
        assert asked(rig) == []
        rig.answer(id)
        assert rig.effects(e.Complete) != []
        rig.wait(0.1)


def test_the_answer_to_a_keepalive_is_one():
    rig = rig_in(S.READY, keepalive=5.0)
    for _ in range(20):
        rig.wait(5.0)
        for id, exchange in list(rig.core.calls.pending.items()):
            assert exchange.role is Role.KEEPALIVE
            rig.answer(id)
    assert rig.state is S.READY
    assert rig.effects(e.Complete, rig.history) == []


def test_only_one_keepalive_is_open_at_a_time():
    rig = rig_in(S.READY, keepalive=5.0)
    rig.wait(15.0)
    assert [x.role for x in rig.core.calls.pending.values()] == [Role.KEEPALIVE]


def test_a_new_connection_starts_counting_anew():
    rig = rig_in(S.READY, keepalive=5.0)
    rig.wait(15.1)
    rig.down()
    rig.reconnect().agree()
    rig.wait(10.1)
    assert rig.state is S.READY


# --- sweeping ---------------------------------------------------------------------------------------------------------


def test_tombstones_are_swept_every_minute():
    """Row 18: 75 s by formula, swept every 60 s."""
    rig = rig_in(S.READY)
    id = rig.written_call()
    rig.step(e.GaveUp(id))
    rig.wait(60.1)
    assert len(rig.core.calls.tombstones) > 0
    rig.wait(60.0)
    assert len(rig.core.calls.tombstones) == 0
    assert rig.core.calls.timers.at(Timer.SWEEP) == 180.0


def test_the_sweep_goes_on_in_backoff_and_ends_with_the_connection():
    rig = rig_in(S.BACKOFF)
    assert Timer.SWEEP in rig.core.calls.timers
    rig.stop()
    assert Timer.SWEEP not in rig.core.calls.timers


def test_at_most_4096_abandoned_ids_are_remembered():
    """Row 18."""
    rig = rig_in(S.READY, max_pending=1_000_000)
    ids = [rig.call() for _ in range(4200)]
    rig.wrote()
    for id in ids:
        rig.step(e.GaveUp(id))
    assert len(rig.core.calls.tombstones) == 4096
    rig.answer(ids[0])
    assert rig.only(e.Stray).kind == "unknown"
    rig.answer(ids[-1])
    assert rig.only(e.Stray).kind == "late"


def test_after_a_stateless_server_the_next_negotiation_carries_nothing_of_the_old_one():
    """A server that speaks both eras takes `initialize` with the members of the stateless era for a stateless request."""
    rig = Rig(versions=BOTH).connect().agree("2026-07-28")
    rig.written_call()
    assert "io.modelcontextprotocol/protocolVersion" in rig.frames(rig.history)[-1]["params"]["_meta"]
    rig.down()
    sent = len(rig.effects(e.Send, rig.history))
    rig.reconnect()
    # The server was replaced by one that knows the handshake only: `initialize` follows.
    rig.say(id=rig.core._negotiation.probe_id, error={"code": -32601, "message": "unknown"})
    probe, initialize = rig.frames(rig.history)[sent:]
    assert (probe["method"], initialize["method"]) == ("server/discover", "initialize")
    assert "_meta" not in initialize["params"]
    members = [
        effect.frame.count(b"io.modelcontextprotocol/protocolVersion")
        for effect in rig.effects(e.Send, rig.history)[sent:]
    ]
    assert members == [1, 0]
