"""Failures and reconnecting: causes, backoff, attempts, keepalive, tombstones. HTTP is in `test_recovery_http`."""

from jackstay.errors import (
    ClosedError,
    FrameTooLargeError,
    OutcomeUnknownError,
    ProtocolError,
    ResetError,
    ShutdownError,
    TransportError,
)
from jackstay.protocol._versions import Era
from jackstay.protocol.client import _actions as a
from jackstay.protocol.client import events as e
from jackstay.protocol.client._exchange import Role
from jackstay.protocol.client._recovery import Recovery
from jackstay.protocol.client._transport import TransportLink, TransportStatus
from model.harness import BOTH, STATELESS, Harness, S, harness_in
from scripted.calls import CallsHarness

# --- losing a ready connection ----------------------------------------------------------------------------------------

LOSSES = [
    (
        "down",
        lambda r: r.down(TransportError("exited", exit_code=3, stderr_tail="oops")),
        OutcomeUnknownError,
    ),
    ("reset", lambda r: r.receive_json(method="notifications/reset"), ResetError),
    ("old reset", lambda r: r.receive_json(method="$/reset"), ResetError),
    ("initialize", lambda r: r.receive_json(id=5, method="initialize", params={}), ProtocolError),
    ("oversize", lambda r: r.step(e.OversizeReceived(r.epoch, FrameTooLargeError(2048, 1024))), FrameTooLargeError),
    ("invalid frames", lambda r: [r.receive(b"Listening...") for _ in range(20)], ProtocolError),
    ("keepalive", lambda r: r.step(e.KeepaliveMissed()), OutcomeUnknownError),
]


def test_a_loss_fails_written_calls_and_starts_the_backoff(subtests):
    for name, lose, kind in LOSSES:
        with subtests.test(name=name, lose=lose, kind=kind):
            harness = harness_in(S.READY)
            harness.written_call("written")
            harness.call("sent")
            harness.call("kept", wait_for_ready=True)
            lose(harness)
            assert harness.state is S.BACKOFF
            assert harness.effects(e.Close, harness.history) == [e.Close(1)]
            assert harness.core.recovery.failures == 1
            assert type(harness.error_of("written")) is kind
            assert harness.error_of("written").may_have_run is True
            assert harness.error_of("written").retryable is False
            assert harness.error_of("sent").may_have_run is False
            assert type(harness.error_of("sent")) is (TransportError if kind is OutcomeUnknownError else kind)
            assert harness.outcomes_of("kept") == (1 if kind is ResetError else 0)
            assert harness.core.calls.timers.at(e.BackoffElapsed) == harness.now + 1.0


def test_the_exit_code_and_the_stderr_tail_reach_the_caller():
    """docs/guarantees.md G1."""
    harness = harness_in(S.READY)
    harness.written_call("me")
    harness.down(TransportError("the server exited", exit_code=3, stderr_tail="Traceback\nKeyError: 'x'\n"))
    assert str(harness.error_of("me")) == (
        "tools/call (request 2): the server exited; it may have run: check before sending it again"
        " [exit code 3] [stderr: KeyError: 'x']"
    )


def test_initialize_from_the_server_is_reported():
    harness = harness_in(S.READY)
    harness.receive_json(id=5, method="initialize", params={})
    assert harness.only(e.Violation).reason == "the server sent initialize, which only a client may send"


def test_no_call_is_replayed_by_default():
    """docs/guarantees.md G7."""
    harness = harness_in(S.READY)
    harness.written_call("me")
    harness.down()
    harness.reconnect().agree()
    assert harness.methods() == ["notifications/initialized"]


def test_a_safe_call_is_replayed_once_with_a_new_id_and_the_same_deadline():
    harness = harness_in(S.READY)
    id = harness.written_call("me", may_replay=True, timeout=20.0)
    harness.wait(5.0)
    harness.down()
    (accept,) = harness.effects(e.Accept)
    assert accept.id > id
    harness.reconnect().agree()
    assert harness.frames()[-1]["id"] == accept.id
    assert harness.core.calls.timers.at(accept.id) == 20.0
    harness.respond(id)
    assert harness.only(e.Stray).kind == "late"
    harness.wrote()
    harness.down()
    assert isinstance(harness.error_of("me"), OutcomeUnknownError)
    assert harness.outcomes_of("me") == 1


def test_a_replayed_call_can_succeed():
    harness = harness_in(S.READY)
    harness.written_call("me", may_replay=True)
    harness.down()
    id = harness.only(e.Accept).id
    harness.reconnect().agree()
    harness.wrote()
    harness.respond(id, {"tools": []})
    assert harness.only(e.Complete).caller == "me"


REPLAY_ENDS = [
    ("busy", lambda r, call: [r.refuse(call) or r.wait(0.05) for _ in range(3)]),
    ("refused connection", lambda r, call: r.lost(call, TransportError("connection refused"))),
    ("429", lambda r, call: r.lost(call, TransportError("too many requests", retry_in=2.0))),
    ("stop", lambda r, call: r.stop()),
    ("deadline", lambda r, call: r.wait(31.0)),
]


def test_the_error_of_a_replayed_call_reports_that_it_may_have_run(subtests):
    for name, end in REPLAY_ENDS:
        with subtests.test(name=name, end=end):
            harness = Harness(is_http=name in ("refused connection", "429")).ready()
            harness.written_call("me", may_replay=True)
            harness.down()
            id = harness.only(e.Accept).id
            harness.reconnect().agree()
            end(harness, id)
            assert harness.error_of("me").may_have_run is True


# --- backoff and reconnecting -----------------------------------------------------------------------------------------


def test_the_old_process_is_reaped_before_the_new_one_starts():
    harness = harness_in(S.BACKOFF)
    harness.wait(1.1)
    assert harness.state is S.BACKOFF
    assert harness.effects(e.Spawn) == []
    harness.reaped()
    assert harness.state is S.STARTING
    assert harness.only(e.Spawn).epoch == 2


def test_after_reaping_the_backoff_still_applies():
    harness = harness_in(S.BACKOFF)
    harness.reaped()
    assert harness.state is S.BACKOFF
    assert harness.core.transport.status is TransportStatus.NONE
    harness.wait(0.99)
    assert harness.state is S.BACKOFF
    harness.wait(0.02)
    assert harness.state is S.STARTING


def test_a_transport_that_is_never_reaped_is_reported_as_a_leak():
    harness = harness_in(S.BACKOFF)
    harness.wait(8.1)
    assert harness.only(e.Leak).epoch == 1
    assert harness.state is S.STARTING


def test_the_backoff_doubles_with_the_jitter_of_the_driver():
    harness = harness_in(S.READY)
    waits = []
    for jitter in (0.5, 0.5, 0.5, 0.0, 0.999, 0.5, 0.5):
        harness.jitter = jitter
        harness.down()
        waits.append(round(harness.core.calls.timers.at(e.BackoffElapsed) - harness.now, 1))
        harness.reconnect()
    assert waits == [1.0, 2.0, 4.0, 6.4, 19.2, 30.0, 30.0]


def test_retry_after_makes_the_backoff_longer_up_to_its_maximum():
    waits = []
    for retry_in in (0.1, 5.0, 86_400.0):
        harness = harness_in(S.READY)
        harness.down(TransportError("HTTP 429: too many requests", retry_in=retry_in))
        waits.append(round(harness.core.calls.timers.at(e.BackoffElapsed) - harness.now, 1))
    assert waits == [1.0, 5.0, 30.0]


def test_a_reset_reconnects_with_the_shortest_delay():
    harness = harness_in(S.READY)
    for _ in range(3):
        harness.down()
        harness.reconnect().agree()
    harness.jitter = 0.999
    harness.receive_json(method="notifications/reset")
    assert harness.core.calls.timers.at(e.BackoffElapsed) == harness.now + 1.0
    assert harness.core.recovery.failures == 4


def test_a_reset_while_initializing_is_a_failure():
    harness = harness_in(S.INITIALIZING)
    harness.receive_json(method="notifications/reset")
    assert harness.state is S.BACKOFF
    assert isinstance(harness.core.cause, ResetError)
    assert harness.core.recovery.failures == 1


def test_failures_are_reset_after_ten_seconds_in_ready():
    harness = harness_in(S.READY)
    harness.down()
    harness.reconnect().agree()
    harness.wait(9.9)
    assert harness.core.recovery.failures == 1
    harness.wait(0.2)
    assert harness.core.recovery.failures == 0


def test_failures_are_reset_by_the_first_result_of_a_call():
    harness = harness_in(S.READY)
    harness.step(e.Subscribed("k", ("resources/subscribe", b'{"uri":"x:y"}'), None))
    harness.down()
    harness.reconnect().agree()
    harness.respond(next(x.id for x in harness.core.calls.pending.values() if x.role is Role.SUBSCRIPTION))
    assert harness.core.recovery.failures == 1
    harness.receive_json(id=harness.written_call(), error={"code": -1, "message": "no"})
    assert harness.core.recovery.failures == 1
    harness.respond(harness.written_call())
    assert harness.core.recovery.failures == 0


def test_a_server_that_crashes_after_the_handshake_is_counted():
    harness = harness_in(S.READY)
    for number in range(1, 6):
        harness.down()
        assert harness.core.recovery.failures == number
        harness.reconnect().agree()


# --- permanent failures -----------------------------------------------------------------------------------------------


def test_before_the_first_ready_five_failures_close_the_connection():
    harness = Harness(wait_for_ready=True)
    harness.start()
    harness.step(e.ReadyRequested("waiter"))
    harness.call("me", timeout=1000.0)
    for number in range(1, 6):
        assert harness.state is S.STARTING
        harness.step(e.SpawnFailed(harness.epoch, TransportError(f"failure {number}", exit_code=number)))
        if number < 5:
            harness.wait(harness.core.calls.timers.at(e.BackoffElapsed) - harness.now)
    assert harness.state is S.CLOSED
    error = harness.only(e.Release).error
    assert isinstance(error, ClosedError)
    assert (error.reason.exit_code, error.details["attempts"]) == (5, 5)  # the newest cause
    assert harness.error_of("me").reason is error.reason
    assert len(harness.core.calls.timers) == 0


def test_after_the_first_ready_there_is_no_limit():
    harness = harness_in(S.READY, max_attempts=1)
    for _ in range(20):
        harness.down()
        assert harness.state is S.BACKOFF
        harness.reconnect()


def test_exhausted_with_a_live_transport_closes_it_first():
    harness = Harness(max_attempts=1).connect()
    harness.down()
    assert harness.state is S.CLOSING
    assert harness.effects(e.Close) == [e.Close(1)]
    harness.reaped()
    assert harness.state is S.CLOSED


def test_a_missing_executable_is_permanent():
    harness = Harness()
    harness.start()
    harness.step(e.ReadyRequested("me"))
    harness.step(e.SpawnRefused(1, refusal := TransportError("no such file", permanent=True)))
    assert harness.state is S.CLOSED
    assert harness.only(e.Release).error.reason is refusal
    assert harness.core.recovery.failures == 0


def die(harness, code=1, *, was_silent=True):
    harness.down(TransportError("exited", exit_code=code), code, was_silent=was_silent)


def test_the_same_silent_exit_twice_in_a_row_before_the_first_ready_is_permanent():
    harness = Harness(max_attempts=None).connect()
    die(harness)
    assert harness.state is S.BACKOFF
    harness.reconnect()
    die(harness)
    assert harness.state is S.CLOSING
    assert harness.core.cause.exit_code == 1


def test_the_same_silent_exit_twice_counts_an_exit_on_the_probe():
    harness = Harness(versions=("2025-11-25", "2026-07-28"), max_attempts=None).connect()
    die(harness)
    harness.reconnect()
    die(harness)
    assert harness.state is S.CLOSING


# A number of attempts applies to every kind of failure: such a program may start to work later.
NOT_PERMANENT = [
    ("another code", None, (1, True), (2, True)),
    ("a signal", None, (-9, True), (-9, True)),
    ("no code", None, (None, True), (None, True)),
    ("a number of attempts", 3, (1, True), (1, True)),
    ("a number of attempts, with output", 3, (1, False), (1, False)),
]


def test_other_pairs_of_exits_are_not_permanent(subtests):
    for name, attempts, first, second in NOT_PERMANENT:
        with subtests.test(name=name, first=first, second=second):
            harness = Harness(max_attempts=attempts).connect()
            die(harness, first[0], was_silent=first[1])
            harness.reconnect()
            die(harness, second[0], was_silent=second[1])
            assert harness.state is S.BACKOFF


def test_two_equal_exits_with_another_failure_between_are_not_in_a_row(subtests):
    for between in ("deadline", "spawn failed", "garbage"):
        with subtests.test(between=between):
            harness = Harness().connect()
            die(harness)
            harness.reaped()
            harness.wait(1.1)
            if between == "spawn failed":
                harness.step(e.SpawnFailed(harness.epoch, TransportError("no memory")))
                harness.wait(2.1)
            else:
                harness.spawned()
                if between == "garbage":
                    for _ in range(20):
                        harness.receive(b"hello")
                else:
                    harness.wait(10.1)
                harness.reaped()
                harness.wait(2.1)
            assert harness.state is S.STARTING
            harness.spawned()
            die(harness)
            assert harness.state is S.BACKOFF


def test_after_the_first_ready_equal_exits_are_not_permanent():
    harness = Harness().ready()
    die(harness)
    harness.reconnect()
    die(harness)
    assert harness.state is S.BACKOFF


# --- stop -------------------------------------------------------------------------------------------------------------


def test_stop_fails_calls_immediately_and_then_closes():
    harness = harness_in(S.READY)
    harness.written_call("written")
    harness.call("sent")
    harness.stop()
    assert harness.kinds() == "Transition Fail Fail Close"
    assert type(harness.error_of("written")) is ShutdownError
    assert (harness.error_of("written").may_have_run, harness.error_of("sent").may_have_run) == (True, False)
    harness.stop()
    assert harness.out == []
    harness.reaped()
    harness.stop()
    assert harness.out == []
    assert harness.state is S.CLOSED


def test_stop_in_backoff_without_a_transport_closes_immediately():
    harness = harness_in(S.BACKOFF)
    harness.reaped()
    harness.stop()
    assert harness.state is S.CLOSED


def test_a_closed_connection_has_no_calls_timers_or_subscriptions():
    harness = harness_in(S.READY, keepalive=5.0)
    harness.step(e.Subscribed("k", ("resources/subscribe", b'{"uri":"x:y"}'), None))
    id = harness.written_call()
    harness.step(e.CallCancelled(id))
    harness.stop()
    harness.reaped()
    calls = harness.core.calls
    assert (calls.pending, calls.queue, len(calls.timers), len(calls.tombstones)) == ({}, {}, 0, 0)
    assert (harness.core.subscriptions.kept, harness.core.subscriptions.ids) == ({}, {})


# --- keepalive --------------------------------------------------------------------------------------------------------


def keepalives(harness):
    return [method for method in harness.methods() if method in ("ping", "server/discover")]


def test_without_the_setting_no_keepalive_is_sent():
    harness = harness_in(S.READY)
    harness.wait(1000.0)
    assert keepalives(harness) == []
    assert harness.state is S.READY


def test_two_keepalives_without_a_response_lose_the_connection(subtests):
    for versions, method in ((("2025-11-25",), "ping"), (STATELESS, "server/discover")):
        with subtests.test(versions=versions, method=method):
            harness = Harness(versions=versions, keepalive=5.0).ready()
            harness.written_call("me", timeout=1000.0, max_timeout=None)
            harness.wait(5.0 * 3)
            assert keepalives(harness) == [method] * 2
            assert harness.state is S.READY
            harness.wait(5.1)
            assert harness.state is S.BACKOFF
            assert isinstance(harness.error_of("me"), OutcomeUnknownError)
            assert str(harness.core.cause) == "no response to 2 keepalives"


def test_any_message_replaces_a_keepalive():
    harness = harness_in(S.READY, keepalive=5.0)
    for _ in range(10):
        harness.wait(4.9)
        assert keepalives(harness) == []
        harness.receive_json(method="notifications/message", params={})


def test_a_result_replaces_a_keepalive():
    harness = harness_in(S.READY, keepalive=5.0)
    harness.wait(5.0)  # from here on only results are received
    for _ in range(10):
        id = harness.written_call()
        harness.wait(4.9)
        assert keepalives(harness) == []
        harness.respond(id)
        assert harness.effects(e.Complete) != []
        harness.wait(0.1)


def test_a_response_to_a_keepalive_keeps_the_connection():
    harness = harness_in(S.READY, keepalive=5.0)
    for _ in range(20):
        harness.wait(5.0)
        for id, exchange in list(harness.core.calls.pending.items()):
            assert exchange.role is Role.KEEPALIVE
            harness.respond(id)
    assert harness.state is S.READY
    assert harness.effects(e.Complete, harness.history) == []


def test_only_one_keepalive_is_open_at_a_time():
    harness = harness_in(S.READY, keepalive=5.0)
    harness.wait(15.0)
    assert [x.role for x in harness.core.calls.pending.values()] == [Role.KEEPALIVE]


def test_a_new_connection_resets_the_missed_keepalives():
    harness = harness_in(S.READY, keepalive=5.0)
    harness.wait(15.1)
    harness.down()
    harness.reconnect().agree()
    harness.wait(10.1)
    assert harness.state is S.READY


# --- tombstones -------------------------------------------------------------------------------------------------------


def test_tombstones_are_swept_every_minute():
    harness = harness_in(S.READY)
    id = harness.written_call()
    harness.step(e.CallCancelled(id))
    harness.wait(60.1)
    assert len(harness.core.calls.tombstones) > 0
    harness.wait(60.0)
    assert len(harness.core.calls.tombstones) == 0
    assert harness.core.calls.timers.at(e.SweepDue) == 180.0


def test_tombstones_are_swept_in_backoff_but_not_after_the_end():
    harness = harness_in(S.BACKOFF)
    assert e.SweepDue in harness.core.calls.timers
    harness.stop()
    assert e.SweepDue not in harness.core.calls.timers


def test_at_most_4096_abandoned_ids_are_kept():
    harness = harness_in(S.READY, max_pending=1_000_000)
    ids = [harness.call() for _ in range(4200)]
    harness.wrote()
    for id in ids:
        harness.step(e.CallCancelled(id))
    assert len(harness.core.calls.tombstones) == 4096
    harness.respond(ids[0])
    assert harness.only(e.Stray).kind == "unknown"
    harness.respond(ids[-1])
    assert harness.only(e.Stray).kind == "late"


def test_the_negotiation_after_a_stateless_server_has_no_stateless_meta():
    """A server of both eras would treat `initialize` with stateless `_meta` as a stateless request."""
    harness = Harness(versions=BOTH).connect().agree("2026-07-28")
    harness.written_call()
    assert "io.modelcontextprotocol/protocolVersion" in harness.frames(harness.history)[-1]["params"]["_meta"]
    harness.down()
    sent = len(harness.effects(e.Send, harness.history))
    harness.reconnect()
    # The server was replaced by one of the handshake era only: `initialize` follows.
    harness.receive_json(id=harness.core.negotiation.probe_id, error={"code": -32601, "message": "unknown"})
    probe, initialize = harness.frames(harness.history)[sent:]
    assert (probe["method"], initialize["method"]) == ("server/discover", "initialize")
    assert "_meta" not in initialize["params"]
    members = [
        effect.frame.count(b"io.modelcontextprotocol/protocolVersion")
        for effect in harness.effects(e.Send, harness.history)[sent:]
    ]
    assert members == [1, 0]


# --- the component alone ----------------------------------------------------------------------------------------------


def recovery(**options):
    harness = CallsHarness(**options)
    component = Recovery(harness.turn())
    return harness, component, TransportLink(harness.calls)


def test_failures_are_counted_and_delay_the_next_attempt():
    harness, component, _ = recovery(backoff_min=1.0, backoff_max=30.0)
    for failures, delay in ((1, 1.0), (2, 2.0), (3, 4.0)):
        component.start_backoff()
        assert (component.failures, harness.calls.timers.at(e.BackoffElapsed)) == (failures, delay)
    component.start_backoff(is_reset=True)
    assert (component.failures, harness.calls.timers.at(e.BackoffElapsed)) == (4, 1.0)


def test_only_the_error_of_a_lost_transport_mentions_other_output():
    _, component, transport = recovery()
    transport.invalid_frame_received(ProtocolError("not JSON", quote="Listening"), is_first_start=False)
    error = TransportError("the connection is gone")
    lost = component.cause_of(e.WentDown(1, error), transport, "ping")
    assert lost.message.startswith("the connection is gone; the program printed 'Listening'")
    assert component.cause_of(e.NegotiationFailed(error), transport, "ping") is error


def test_attempts_are_limited_and_fewer_if_there_is_no_server():
    for options, cause, limit in (
        ({"max_attempts": 3}, TransportError("x"), 3),
        ({}, TransportError("x"), 5),
        ({}, ProtocolError("x"), 1),
    ):
        _, component, _ = recovery(**options)
        component.cause = cause
        component.failures = limit - 1
        assert not component.is_exhausted()
        component.failures = limit
        assert component.is_exhausted()
        assert cause.details["attempts"] == limit


def test_a_start_that_times_out_extends_the_next_deadline_until_ready():
    core = Harness(init_timeout=10.0, open_timeout=60.0).core
    for deadline in (10.0, 20.0, 40.0):
        a.arm_connect(core, e.Event())
        assert core.calls.timers.at(e.ConnectExpired) == deadline
        core.recovery.record(e.ConnectExpired(), core.transport, "ping")
    core.server = e.ServerFacts("2025-11-25", Era.HANDSHAKE)
    a.arm_ready_timers(core, e.Event())
    a.arm_connect(core, e.Event())
    assert core.calls.timers.at(e.ConnectExpired) == 10.0


def test_an_exit_code_is_kept_only_if_no_message_was_received():
    _, component, transport = recovery()
    for code, was_silent, has_received, expected in (
        (1, True, False, 1),
        (0, False, False, 0),
        (1, False, True, None),
        (-9, True, False, None),
        (None, True, False, None),
    ):
        transport.has_received_message = has_received
        component.record(e.WentDown(1, TransportError("x"), code, was_silent), transport, "ping")
        assert component.last_exit == expected, (code, was_silent, has_received)


def test_calls_after_the_end_fail_with_its_cause():
    _, component, transport = recovery()
    error = TransportError("first")
    component.record(e.WentDown(1, error), transport, "ping")
    ended = component.ended_error(is_closing=True)
    assert (type(ended), ended.reason) == (ClosedError, error)
    component.record(e.StopRequested(), transport, "ping")
    assert type(component.ended_error(is_closing=True)) is ShutdownError
    assert type(component.ended_error(is_closing=False)) is ClosedError


def test_a_session_is_new_for_a_while_and_the_warning_is_given_once():
    core = Harness().core
    assert not a.is_session_too_new(core, e.Event())
    core.recovery.session_renewed_at = 0.0
    out = core.calls.begin(10.0, 0.5)
    assert a.is_session_too_new(core, e.Event())
    a.warn_about_sessions(core, e.Event())
    a.warn_about_sessions(core, e.Event())
    assert len(out) == 1
    core.calls.begin(10.1, 0.5)
    assert not a.is_session_too_new(core, e.Event())
