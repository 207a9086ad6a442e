"""Starting and closing a transport, and negotiating era and version."""

import pytest

from jackstay.errors import ClosedError, JsonRpcError, ProtocolError, ShutdownError, TransportError
from jackstay.protocol._versions import Era
from jackstay.protocol.client import events as e
from jackstay.protocol.client._exchange import Role
from jackstay.protocol.client._transport import TransportLink, TransportStatus
from model.harness import BOTH, HANDSHAKE, STATELESS, Harness, S, discovered, harness_in, initialized
from scripted.calls import CallsHarness

UNKNOWN = {"code": -32601, "message": "what?"}


def both(**options):
    return Harness(versions=BOTH, **options)


# --- spawning and closing ---------------------------------------------------------------------------------------------


def test_the_negotiation_begins_when_the_transport_is_open():
    harness = Harness()
    harness.start()
    assert harness.methods(harness.history) == []
    harness.spawned()
    assert harness.state is S.INITIALIZING
    assert harness.methods() == ["initialize"]
    assert harness.core.transport.status is TransportStatus.OPEN


def link(**options):
    """Return the component alone, under a fake clock, with a transport of epoch 1."""
    harness = CallsHarness(**options)
    transport = TransportLink(harness.turn(), status=TransportStatus.OPEN)
    return harness, transport


def test_a_transport_is_closed_once_and_its_end_disarms_the_deadline():
    harness, transport = link(close_step=2.0)
    harness.turn()
    transport.close(1)
    transport.close(1)
    assert harness.out == [e.Close(1)]
    assert harness.calls.timers.armed == {e.CloseExpired: 8.0}
    transport.ended()
    assert (transport.status, harness.calls.timers.armed) == (TransportStatus.NONE, {})
    transport.close(1)
    assert harness.out == [e.Close(1)]


def test_a_kept_transport_can_be_closed():
    harness, transport = link()
    transport.status = TransportStatus.KEPT
    harness.turn()
    transport.close(1)
    assert (harness.out, transport.status) == ([e.Close(1)], TransportStatus.CLOSING)


def test_a_message_resets_the_invalid_frames():
    _, transport = link()
    transport.invalid_frame_received(ProtocolError("no", quote="hello"), is_first_start=True)
    assert "'hello'" in transport.non_mcp_output
    transport.message_received()
    assert (transport.invalid_frames, transport.has_received_message, transport.non_mcp_output) == (0, True, "")


def test_a_new_transport_begins_without_the_frames_of_the_old_one():
    harness = harness_in(S.READY)
    harness.receive(b"hello")
    assert (harness.core.transport.has_received_message, harness.core.transport.last_line) == (True, "hello")
    harness.down()
    harness.reconnect()
    assert (harness.core.transport.has_received_message, harness.core.transport.last_line) == (False, "")


def test_other_output_shortens_the_connect_deadline_until_the_first_message():
    harness, transport = link(init_timeout=10.0)
    harness.calls.timers.arm(e.ConnectExpired, 10.0)
    hint = transport.invalid_frame_received(ProtocolError("no", quote="hello"), is_first_start=True)
    assert "standard output" in hint
    assert harness.calls.timers.at(e.ConnectExpired) == 1.5
    transport.message_received()
    assert harness.calls.timers.at(e.ConnectExpired) == 10.0


def test_one_deadline_covers_spawn_to_ready(subtests):
    for state in (S.STARTING, S.INITIALIZING):
        with subtests.test(state=state):
            harness = harness_in(state)
            harness.wait(9.9)
            assert harness.state is state
            harness.wait(0.2)
            assert harness.state is S.BACKOFF
            assert harness.effects(e.Close) == [e.Close(1)]
            assert str(harness.core.cause) == "not ready within 10 s: nothing was received from the server"


def starts(harness, count):
    """Return the time limits of the next starts, all of which time out."""
    limits = []
    for _ in range(count):
        assert harness.state is S.STARTING
        limits.append(harness.core.calls.timers.at(e.ConnectExpired) - harness.core.calls.now)
        harness.wait(limits[-1])
        assert harness.state is S.BACKOFF
        harness.reaped()
        harness.wait(harness.core.calls.timers.at(e.BackoffElapsed) - harness.core.calls.now)
    return limits


def test_a_start_that_timed_out_has_a_longer_limit_the_next_time(subtests):
    cases = [
        ({}, [10, 20, 40, 60, 60, 60]),
        ({"init_timeout": 3.0}, [3, 6, 12, 24, 48, 60]),
        ({"init_timeout": 90.0}, [90, 90, 90]),
        ({"open_timeout": None}, [10, 20, 40, 80, 160, 160]),
        ({"open_timeout": 5.0}, [10, 10]),
    ]
    for options, limits in cases:
        with subtests.test(options=options, limits=limits):
            harness = Harness(max_attempts=100, **options)
            harness.start()
            assert starts(harness, len(limits)) == [pytest.approx(seconds) for seconds in limits]
            assert str(harness.core.cause) == f"not ready within {limits[-1]} s: nothing was received from the server"


def test_the_limit_is_reset_when_ready_and_kept_after_another_failure():
    harness = Harness(max_attempts=100)
    harness.start()
    assert starts(harness, 2) == [pytest.approx(10), pytest.approx(20)]
    harness.step(e.SpawnFailed(harness.core.epoch, TransportError("no")))
    harness.wait(harness.core.calls.timers.at(e.BackoffElapsed) - harness.core.calls.now)
    assert harness.core.calls.timers.at(e.ConnectExpired) - harness.core.calls.now == pytest.approx(40)
    harness.spawned()
    harness.agree()
    assert harness.state is S.READY
    harness.down()
    harness.reaped()
    harness.wait(harness.core.calls.timers.at(e.BackoffElapsed) - harness.core.calls.now)
    assert starts(harness, 1) == [pytest.approx(10)]


def test_the_deadline_is_disarmed_in_ready():
    harness = harness_in(S.READY)
    assert e.ConnectExpired not in harness.core.calls.timers
    assert e.ProbeExpired not in harness.core.calls.timers


def test_stop_while_starting_waits_for_the_spawn_and_closes_it():
    harness = harness_in(S.STARTING)
    harness.stop()
    assert harness.state is S.CLOSING
    assert harness.effects(e.Close) == [e.Close(1)]
    harness.spawned()
    assert harness.out == [e.Close(1)]
    harness.reaped()
    assert harness.state is S.CLOSED


def test_a_spawn_that_succeeds_after_its_deadline_is_closed():
    harness = harness_in(S.STARTING)
    harness.wait(10.1)
    assert harness.state is S.BACKOFF
    harness.spawned()
    assert harness.out == [e.Close(1)]
    assert harness.state is S.BACKOFF


def test_a_spawn_that_fails_after_its_deadline_leaves_nothing_to_reap(subtests):
    for kind in (e.SpawnFailed, e.SpawnRefused):
        with subtests.test(kind=kind):
            harness = harness_in(S.STARTING)
            harness.wait(10.1)
            harness.step(kind(1, TransportError("no")))
            assert harness.core.transport.status is TransportStatus.NONE
            assert harness.state is S.BACKOFF
            harness.wait(1.0)
            assert harness.state is S.STARTING


def test_a_spawn_that_fails_after_the_backoff_starts_the_next(subtests):
    for kind in (e.SpawnFailed, e.SpawnRefused):
        with subtests.test(kind=kind):
            harness = harness_in(S.STARTING)
            harness.wait(12.0)
            assert harness.state is S.BACKOFF
            harness.step(kind(1, TransportError("no")))
            assert harness.state is S.STARTING
            assert harness.only(e.Spawn).epoch == 2


def test_closing_has_a_deadline():
    harness = harness_in(S.READY)
    harness.stop()
    assert harness.core.calls.timers.armed == {e.CloseExpired: 8.0}
    harness.wait(8.1)
    assert harness.kinds() == "Leak Transition"
    assert harness.only(e.Leak).epoch == 1
    assert harness.state is S.CLOSED
    assert harness.core.transport.status is TransportStatus.NONE


def test_a_transport_is_closed_once():
    harness = harness_in(S.READY)
    harness.down()
    harness.stop()
    harness.stop()
    assert harness.effects(e.Close, harness.history) == [e.Close(1)]


# --- the first request ------------------------------------------------------------------------------------------------


def test_the_probe_is_server_discover_with_the_request_meta():
    harness = both(capabilities={"roots": {}}).connect()
    (frame,) = harness.frames(harness.history)
    assert frame["method"] == "server/discover"
    assert frame["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
    assert frame["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] == {"roots": {}}


def test_initialize_names_the_newest_handshake_revision():
    harness = Harness(versions=("2024-11-05", "2025-06-18")).connect()
    (frame,) = harness.frames(harness.history)
    assert frame["method"] == "initialize"
    assert frame["params"]["protocolVersion"] == "2025-06-18"
    assert "_meta" not in frame["params"]


OPENINGS = [
    (BOTH, None, "server/discover", True),
    (BOTH, Era.STATELESS, "server/discover", False),
    (BOTH, Era.HANDSHAKE, "initialize", False),
    (STATELESS, None, "server/discover", False),
    (STATELESS, Era.HANDSHAKE, "server/discover", False),
    (HANDSHAKE, None, "initialize", False),
    (HANDSHAKE, Era.STATELESS, "initialize", False),
]


def test_the_known_era_and_the_versions_decide_what_is_sent_first(subtests):
    for is_http in (True, False):
        for versions, known_era, method, is_armed in OPENINGS:
            with subtests.test(
                is_http=is_http, versions=versions, known_era=known_era, method=method, is_armed=is_armed
            ):
                harness = Harness(versions=versions, known_era=known_era, is_http=is_http).connect()
                assert harness.methods(harness.history) == [method]
                assert (e.ProbeExpired in harness.core.calls.timers) is (is_armed and not is_http)


# --- negotiation ------------------------------------------------------------------------------------------------------


def test_a_discover_result_decides_for_the_stateless_era():
    harness = both().connect()
    harness.receive_json(id=1, result=discovered())
    assert harness.state is S.READY
    assert harness.methods() == []  # this era has no notifications/initialized
    assert (harness.core.server.era, harness.core.negotiation.known_era) == (Era.STATELESS, Era.STATELESS)


def test_an_error_to_the_probe_leads_to_initialize():
    harness = both().connect()
    harness.receive_json(id=1, error=UNKNOWN)
    assert harness.methods() == ["initialize"]
    harness.receive_json(id=2, result=initialized())
    assert harness.state is S.READY
    assert harness.methods() == ["notifications/initialized"]
    assert (harness.core.server.era, harness.core.negotiation.known_era) == (Era.HANDSHAKE, Era.HANDSHAKE)


def test_a_malformed_response_to_the_probe_leads_to_initialize():
    harness = both().connect()
    harness.receive_json(id=1, result={}, error=UNKNOWN)
    assert harness.methods() == ["initialize"]


def test_initialize_is_sent_beside_a_silent_probe():
    harness = both().connect()
    harness.wait(2.9)
    assert harness.methods() == []
    harness.wait(0.2)
    assert harness.methods() == ["initialize"]
    assert {x.role for x in harness.core.calls.pending.values()} == {Role.PROBE, Role.HANDSHAKE}


def test_an_initialize_result_decides_and_a_later_discover_result_is_counted():
    harness = both().connect()
    harness.wait(3.1)
    harness.wrote()
    harness.receive_json(id=2, result=initialized())
    assert harness.state is S.READY
    assert harness.core.negotiation.known_era is Era.HANDSHAKE
    assert harness.core.calls.pending == {}
    harness.receive_json(id=1, result=discovered())
    assert harness.only(e.Stray).kind == "late"
    assert harness.state is S.READY


def test_a_discover_result_waits_for_the_response_to_an_open_initialize(subtests):
    """A server of both eras treats `initialize` as the choice of the client."""
    cases = [
        ({"result": initialized()}, Era.HANDSHAKE),
        ({"error": {"code": -32601, "message": "no"}}, Era.STATELESS),
        ({"error": {"code": -32022, "message": "no", "data": {"supported": ["2026-07-28"]}}}, Era.STATELESS),
    ]
    for response, era in cases:
        with subtests.test(response=response, era=era):
            harness = both().connect()
            harness.wait(3.1)
            harness.receive_json(id=1, result=discovered())
            assert harness.state is S.INITIALIZING
            harness.receive_json(id=2, **response)
            assert harness.state is S.READY
            assert harness.core.negotiation.known_era is era


def test_a_discover_result_without_a_response_to_initialize_sets_the_known_era():
    harness = both().connect()
    harness.wait(3.1)
    harness.receive_json(id=1, result=discovered())
    harness.wait(10.1)
    assert harness.state is S.BACKOFF
    assert harness.core.negotiation.known_era is Era.STATELESS


def test_an_unusable_response_waits_for_the_other():
    harness = both().connect()
    harness.wait(3.1)
    harness.receive_json(id=2, error={"code": -32601, "message": "removed"})
    assert harness.state is S.INITIALIZING
    harness.receive_json(id=1, result=discovered())
    assert harness.state is S.READY


def test_a_stateless_error_decides_even_beside_an_open_initialize(subtests):
    for code in (-32020, -32021, -32022):
        with subtests.test(code=code):
            harness = both().connect()
            harness.wait(3.1)
            harness.receive_json(id=1, error={"code": code, "message": "no", "data": {"supported": ["2099-01-01"]}})
            assert harness.state is S.CLOSING


def test_a_stateless_error_is_permanent():
    harness = both().connect()
    harness.step(e.ReadyRequested("me"))
    harness.receive_json(id=1, error={"code": -32021, "message": "missing capability"})
    assert harness.state is S.CLOSING
    assert harness.effects(e.Close) == [e.Close(1)]
    error = harness.only(e.Release).error
    assert isinstance(error, ClosedError)
    assert isinstance(error.reason, JsonRpcError)
    harness.reaped()
    assert harness.state is S.CLOSED


def test_a_mismatch_closes_for_good_and_fails_all_waiters():
    harness = Harness(wait_for_ready=True).connect()
    harness.call("me")
    harness.step(e.ReadyRequested("you"))
    harness.receive_json(id=1, result=initialized("1999-01-01"))
    assert harness.state is S.CLOSING
    assert "1999-01-01" in str(harness.error_of("me"))
    assert isinstance(harness.only(e.Release).error.reason, ProtocolError)


def test_a_transient_refusal_of_initialize_backs_off_and_resets_the_known_era():
    harness = both(known_era=Era.HANDSHAKE).connect()
    harness.receive_json(id=1, error={"code": -32603, "message": "starting up"})
    assert harness.state is S.BACKOFF
    assert harness.core.negotiation.known_era is None
    assert harness.core.recovery.failures == 1
    harness.reconnect()
    assert harness.methods(harness.history)[-1] == "server/discover"


def test_the_known_era_survives_restarts():
    harness = both().connect()
    harness.receive_json(id=1, error=UNKNOWN)
    harness.receive_json(id=2, result=initialized())
    harness.down()
    harness.reconnect()
    assert harness.methods(harness.history)[-1] == "initialize"
    assert harness.core.negotiation.known_era is Era.HANDSHAKE


def test_the_known_era_is_reset_after_a_timeout():
    harness = both(known_era=Era.STATELESS).connect()
    harness.wait(10.1)
    assert harness.core.negotiation.known_era is None
    harness.reconnect()
    assert e.ProbeExpired in harness.core.calls.timers


def test_the_known_era_is_reset_after_a_permanent_refusal():
    harness = both(known_era=Era.HANDSHAKE).connect()
    harness.receive_json(id=1, result=initialized("1999-01-01"))
    assert harness.state is S.CLOSING
    assert harness.core.negotiation.known_era is None


def test_another_version_is_tried_on_the_same_connection():
    harness = Harness(versions=("2024-11-05", "2025-11-25")).connect()
    harness.receive_json(id=1, error={"code": -32602, "message": "no", "data": {"supported": ["2024-11-05"]}})
    (frame,) = harness.frames()
    assert frame["params"]["protocolVersion"] == "2024-11-05"
    harness.receive_json(id=2, result=initialized("2024-11-05"))
    assert harness.state is S.READY


def test_a_server_that_refuses_the_version_it_lists_is_a_permanent_failure():
    harness = Harness(versions=("2024-11-05", "2025-11-25")).connect()
    for id in (1, 2):
        harness.receive_json(id=id, error={"code": -32602, "message": "no", "data": {"supported": ["2024-11-05"]}})
    assert harness.state is S.CLOSING


def test_initialize_refused_with_stateless_versions_leads_to_the_probe():
    harness = both(known_era=Era.HANDSHAKE).connect()
    harness.receive_json(id=1, error={"code": -32022, "message": "no", "data": {"supported": ["2026-07-28"]}})
    assert harness.methods() == ["server/discover"]
    harness.receive_json(id=2, result=discovered())
    assert harness.state is S.READY
    assert harness.core.negotiation.known_era is Era.STATELESS


def test_there_are_at_most_three_steps():
    harness = both().connect()
    id, methods = 1, ["server/discover"]
    while harness.state is S.INITIALIZING:
        if methods[-1] == "server/discover":
            harness.receive_json(id=id, error=UNKNOWN)
        else:
            harness.receive_json(id=id, error={"code": -32022, "message": "no", "data": {"supported": ["2026-07-28"]}})
        if harness.frames():
            methods.append(harness.frames()[0]["method"])
            id = harness.frames()[0]["id"]
    assert methods == ["server/discover", "initialize", "server/discover", "initialize"]
    assert harness.state is S.BACKOFF
    assert str(harness.core.cause) == "no agreement on a protocol version after 3 steps"


def test_a_batch_is_not_a_response_to_the_handshake():
    harness = harness_in(S.INITIALIZING)
    harness.receive(b'[{"jsonrpc":"2.0","id":1,"result":{}}]')
    assert harness.state is S.INITIALIZING
    assert harness.kinds() == "Violation"


# --- servers that exit on the probe -----------------------------------------------------------------------------------


def test_a_server_that_exits_on_the_probe_is_restarted_immediately_with_initialize():
    harness = both().connect()
    harness.down()
    assert harness.state is S.BACKOFF
    assert harness.core.recovery.failures == 0
    assert e.BackoffElapsed not in harness.core.calls.timers
    harness.reaped()
    assert harness.state is S.STARTING
    harness.spawned()
    assert harness.methods() == ["initialize"]
    assert e.ProbeExpired not in harness.core.calls.timers


def test_a_server_that_exits_twice_on_the_probe_is_a_failure():
    harness = both().connect()
    harness.down()
    harness.reconnect()
    harness.down()
    assert harness.core.recovery.failures == 1
    assert e.BackoffElapsed in harness.core.calls.timers


def test_a_slow_server_that_exits_on_the_probe_gets_only_initialize_next_time():
    """It reads the probe before `initialize`, which was sent too."""
    harness = both().connect()
    harness.wait(3.1)
    harness.down()
    assert harness.core.recovery.failures == 0
    sent = len(harness.history)
    harness.reconnect()
    assert harness.methods(harness.history[sent:]) == ["initialize"]


def test_with_only_the_stateless_era_going_down_is_counted():
    harness = Harness(versions=STATELESS).connect()
    harness.down()
    assert harness.core.recovery.failures == 1
    assert e.BackoffElapsed in harness.core.calls.timers


def test_a_stateless_server_that_crashed_once_is_probed_again(subtests):
    for how in ("error", "silence", "down"):
        with subtests.test(how=how):
            harness = both(max_attempts=100).connect()
            harness.down()
            for _ in range(4):
                harness.reconnect()
                if harness.methods(harness.history)[-1] == "server/discover":
                    break
                if how == "error":
                    harness.receive_json(id=max(harness.core.calls.pending), error=UNKNOWN)
                elif how == "silence":
                    harness.wait(10.1)
                else:
                    harness.down()
                assert harness.state is S.BACKOFF
            assert harness.methods(harness.history)[-1] == "server/discover"


def test_a_fatal_probe_is_forgotten_after_a_stateless_agreement():
    harness = both().connect()
    harness.down()
    harness.reconnect()
    harness.receive_json(
        id=max(harness.core.calls.pending),
        error={"code": -32022, "message": "no", "data": {"supported": ["2026-07-28"]}},
    )
    harness.agree("2026-07-28")
    harness.down()
    harness.reconnect()
    assert harness.methods(harness.history)[-1] == "server/discover"


# --- HTTP -------------------------------------------------------------------------------------------------------------


def test_a_negotiation_whose_request_is_lost_backs_off_immediately(subtests):
    for versions in (HANDSHAKE, STATELESS, BOTH):
        with subtests.test(versions=versions):
            harness = Harness(versions=versions, is_http=True).connect()
            harness.lost(1, TransportError("connection refused"))
            assert harness.state is S.BACKOFF
            assert harness.core.recovery.failures == 1
            assert str(harness.core.cause) == "connection refused"


def test_refused_credentials_are_permanent(subtests):
    for versions in (HANDSHAKE, STATELESS, BOTH):
        with subtests.test(versions=versions):
            harness = Harness(versions=versions, is_http=True).connect()
            harness.step(e.ReadyRequested("me"))
            harness.lost(1, refusal := TransportError("401 after authorizing", permanent=True), was_declined=True)
            assert harness.state in (S.CLOSING, S.CLOSED)
            assert harness.only(e.Release).error.reason is refusal


def test_404_or_405_before_ready_continues_the_negotiation():
    harness = Harness(versions=BOTH, is_http=True).connect()
    harness.lost(1, TransportError("405"), was_declined=True)
    assert harness.methods() == ["initialize"]
    harness.lost(2, TransportError("405"), was_declined=True)
    assert harness.state is S.BACKOFF


def test_a_json_rpc_error_is_the_response_whatever_the_status():
    harness = Harness(versions=BOTH, is_http=True).connect()
    harness.receive_json(id=1, error=UNKNOWN)
    assert harness.methods() == ["initialize"]


def test_a_session_lost_in_the_handshake_restarts_it():
    harness = Harness(is_http=True).connect()
    harness.step(e.SessionLost(1, 1))
    assert harness.state is S.INITIALIZING
    assert [frame["id"] for frame in harness.frames()] == [2]
    harness.agree()
    assert harness.core.calls.pending == {}


def test_a_server_that_loses_every_session_in_the_handshake_is_a_failure():
    harness = Harness(is_http=True).connect()
    for id in (1, 2, 3, 4):
        assert harness.state is S.INITIALIZING
        harness.step(e.SessionLost(1, id))
    assert harness.state is S.BACKOFF


def test_an_oversized_handshake_fails_with_the_limit():
    harness = Harness(max_frame_bytes=1024, client_info={"name": "x" * 2000, "version": "1"})
    harness.start()
    harness.spawned()
    harness.wait(10.1)
    assert harness.effects(e.Send, harness.history) == []
    assert harness.state in (S.BACKOFF, S.CLOSING, S.CLOSED)
    assert "1024" in str(harness.core.cause)


def test_stop_during_the_handshake_sends_no_cancellation():
    harness = both().connect()
    harness.wait(3.1)
    harness.wrote()
    harness.stop()
    assert harness.methods() == []
    assert isinstance(harness.core.cause, ShutdownError)


def test_no_request_of_the_negotiation_is_open_twice():
    harness = both().connect()
    harness.receive_json(id=1, error=UNKNOWN)
    assert harness.methods() == ["initialize"]
    harness.wait(3.1)
    assert harness.methods() == []
    harness = both().connect()
    harness.wait(3.1)
    harness.receive_json(id=2, error={"code": -32022, "message": "no", "data": {"supported": ["2026-07-28"]}})
    assert harness.methods() == []
    assert harness.state is S.INITIALIZING


def test_an_error_to_initialize_after_a_discover_result_selects_the_stateless_era():
    harness = both().connect()
    harness.wait(3.1)
    harness.wrote()
    harness.receive_json(id=1, result=discovered())
    harness.receive_json(id=2, error=UNKNOWN)
    assert harness.state is S.READY
    assert harness.core.negotiation.known_era is Era.STATELESS


def test_the_negotiation_of_a_new_session_keeps_open_posts():
    harness = Harness(is_http=True).ready()
    lost, open_post = harness.call("lost"), harness.call("open")
    harness.step(e.SessionLost(1, lost))
    harness.spawned()
    harness.agree()
    harness.respond(open_post)
    assert harness.only(e.Complete).caller == "open"


def test_a_request_during_the_probe_gets_a_response_and_begins_the_handshake(subtests):
    """A stateless server sends no requests, so this one belongs to the handshake era."""
    for method in ("ping", "roots/list"):
        with subtests.test(method=method):
            harness = both().connect()
            harness.receive_json(id="p", method=method)
            frames = harness.frames()
            assert [frame.get("method") for frame in frames] == ["initialize", None]
            assert ("result" in frames[1]) is (method == "ping")
            assert frames[1]["id"] == "p"
            assert e.ProbeExpired not in harness.core.calls.timers
            harness.wrote()
            harness.agree()


def test_with_only_the_stateless_era_a_request_is_a_violation():
    harness = Harness(versions=STATELESS).connect()
    harness.receive_json(id="p", method="ping")
    assert harness.frames() == []
    assert "not allowed in the stateless era" in harness.only(e.Violation).reason
