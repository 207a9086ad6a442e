"""Starting and closing a transport, and agreeing on era and revision over it."""

import pytest

from jackstay.errors import ClosedError, JsonRpcError, ProtocolError, ShutdownError, TransportError
from jackstay.protocol._versions import Era
from jackstay.protocol.client import events as e
from jackstay.protocol.client._core import Wire
from jackstay.protocol.client._exchange import Role
from jackstay.protocol.client._table import Timer
from model.rig import BOTH, HANDSHAKE, STATELESS, Rig, S, discovered, initialized, rig_in

UNKNOWN = {"code": -32601, "message": "what?"}


def both(**options):
    return Rig(versions=BOTH, **options)


# --- spawning and closing ---------------------------------------------------------------------------------------------


def test_nothing_is_said_before_the_transport_is_up():
    rig = Rig()
    rig.start()
    rig.spawned()
    assert rig.methods(rig.history) == []
    assert rig.core.wire is Wire.LIVE
    rig.up()
    assert rig.methods() == ["initialize"]
    rig.up()
    assert rig.methods() == []


def test_up_before_spawned_is_both():
    """Table: up in starting, as spawn ok + up."""
    rig = Rig()
    rig.start()
    rig.up()
    assert rig.state is S.INITIALIZING
    assert rig.methods() == ["initialize"]


@pytest.mark.parametrize("state", [S.STARTING, S.INITIALIZING])
def test_one_deadline_runs_from_spawn_to_ready(state):
    """Row 12: the seed hangs if `up` never comes."""
    rig = rig_in(state)
    rig.wait(9.9)
    assert rig.state is state
    rig.wait(0.2)
    assert rig.state is S.BACKOFF
    assert rig.effects(e.Close) == [e.Close(1)]
    assert str(rig.core.cause) == "not ready within 10 s: nothing was received from the server"


def starts(rig, count):
    """How long each of the next starts was given, all of which run out of time."""
    given = []
    for _ in range(count):
        assert rig.state is S.STARTING
        given.append(rig.core.calls.timers.at(Timer.CONNECT) - rig.core.calls.now)
        rig.wait(given[-1])
        assert rig.state is S.BACKOFF
        rig.reaped()
        rig.wait(rig.core.calls.timers.at(Timer.BACKOFF) - rig.core.calls.now)
    return given


@pytest.mark.parametrize(
    ("options", "given"),
    [
        ({}, [10, 20, 40, 60, 60, 60]),
        ({"init_timeout": 3.0}, [3, 6, 12, 24, 48, 60]),
        ({"init_timeout": 90.0}, [90, 90, 90]),
        ({"open_timeout": None}, [10, 20, 40, 80, 160, 160]),
        ({"open_timeout": 5.0}, [10, 10]),
    ],
)
def test_a_start_that_only_ran_out_of_time_gets_longer_the_next_time(options, given):
    rig = Rig(max_attempts=100, **options)
    rig.start()
    assert starts(rig, len(given)) == [pytest.approx(seconds) for seconds in given]
    assert str(rig.core.cause) == f"not ready within {given[-1]} s: nothing was received from the server"


def test_once_ready_or_for_another_failure_a_start_gets_what_it_got_before():
    rig = Rig(max_attempts=100)
    rig.start()
    assert starts(rig, 2) == [pytest.approx(10), pytest.approx(20)]
    rig.step(e.SpawnFailed(rig.core.epoch, TransportError("no")))
    rig.wait(rig.core.calls.timers.at(Timer.BACKOFF) - rig.core.calls.now)
    assert rig.core.calls.timers.at(Timer.CONNECT) - rig.core.calls.now == pytest.approx(40)
    rig.spawned()
    rig.up()
    rig.agree()
    assert rig.state is S.READY
    rig.down()
    rig.reaped()
    rig.wait(rig.core.calls.timers.at(Timer.BACKOFF) - rig.core.calls.now)
    assert starts(rig, 1) == [pytest.approx(10)]


def test_the_deadline_is_disarmed_in_ready():
    rig = rig_in(S.READY)
    assert Timer.CONNECT not in rig.core.calls.timers
    assert Timer.PROBE not in rig.core.calls.timers


def test_stop_while_starting_waits_for_the_spawn_and_closes_it():
    """Row 13: otherwise processes leak."""
    rig = rig_in(S.STARTING)
    rig.stop()
    assert rig.state is S.CLOSING
    assert rig.effects(e.Close) == [e.Close(1)]
    rig.spawned()
    assert rig.out == [e.Close(1)]
    rig.reaped()
    assert rig.state is S.CLOSED


def test_a_spawn_that_succeeds_after_we_gave_it_up_is_closed_not_adopted():
    rig = rig_in(S.STARTING)
    rig.wait(10.1)
    assert rig.state is S.BACKOFF
    rig.spawned()
    assert rig.out == [e.Close(1)]
    assert rig.state is S.BACKOFF
    rig.up()
    assert rig.out == []


@pytest.mark.parametrize("kind", [e.SpawnFailed, e.SpawnRefused])
def test_a_spawn_that_fails_after_we_gave_it_up_leaves_nothing_to_reap(kind):
    rig = rig_in(S.STARTING)
    rig.wait(10.1)
    rig.step(kind(1, TransportError("no")))
    assert rig.core.wire is Wire.NONE
    assert rig.state is S.BACKOFF
    rig.wait(1.0)
    assert rig.state is S.STARTING


@pytest.mark.parametrize("kind", [e.SpawnFailed, e.SpawnRefused])
def test_a_spawn_that_fails_after_the_wait_was_over_starts_the_next(kind):
    rig = rig_in(S.STARTING)
    rig.wait(12.0)
    assert rig.state is S.BACKOFF
    rig.step(kind(1, TransportError("no")))
    assert rig.state is S.STARTING
    assert rig.only(e.Spawn).epoch == 2


def test_closing_is_bounded():
    """Row 22: each step bounded. Table: close deadline."""
    rig = rig_in(S.READY)
    rig.stop()
    assert rig.core.calls.timers.armed == {Timer.CLOSE: 8.0}
    rig.wait(8.1)
    assert rig.kinds() == "Leak Transition"
    assert rig.only(e.Leak).epoch == 1
    assert rig.state is S.CLOSED
    assert rig.core.wire is Wire.NONE


def test_a_transport_is_closed_once():
    rig = rig_in(S.READY)
    rig.down()
    rig.stop()
    rig.stop()
    assert rig.effects(e.Close, rig.history) == [e.Close(1)]


# --- what is opened with ----------------------------------------------------------------------------------------------


def test_the_probe_is_server_discover_with_the_envelope():
    """Choosing the era: the probe is always `server/discover`, never a call with effects."""
    rig = both(capabilities={"roots": {}}).connect()
    (frame,) = rig.frames(rig.history)
    assert frame["method"] == "server/discover"
    assert frame["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
    assert frame["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] == {"roots": {}}


def test_initialize_names_the_newest_handshake_revision():
    rig = Rig(versions=("2024-11-05", "2025-06-18")).connect()
    (frame,) = rig.frames(rig.history)
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


@pytest.mark.parametrize(("versions", "verdict", "method", "is_armed"), OPENINGS)
@pytest.mark.parametrize("is_http", [True, False])
def test_the_verdict_and_the_versions_decide_what_is_asked_first(
    versions, verdict, method, is_armed, is_http
):
    """Of one era only, the other is not probed; the probe's time-out is stdio's alone."""
    rig = Rig(versions=versions, verdict=verdict, is_http=is_http).connect()
    assert rig.methods(rig.history) == [method]
    assert (Timer.PROBE in rig.core.calls.timers) is (is_armed and not is_http)


# --- choosing the era -------------------------------------------------------------------------------------------------


def test_a_discover_result_decides_for_the_stateless_era():
    rig = both().connect()
    rig.say(id=1, result=discovered())
    assert rig.state is S.READY
    assert rig.methods() == []  # nothing like notifications/initialized in this era
    assert (rig.core.server.era, rig.core.verdict) == (Era.STATELESS, Era.STATELESS)


def test_an_error_to_the_probe_leads_to_initialize():
    rig = both().connect()
    rig.say(id=1, error=UNKNOWN)
    assert rig.methods() == ["initialize"]
    rig.say(id=2, result=initialized())
    assert rig.state is S.READY
    assert rig.methods() == ["notifications/initialized"]
    assert (rig.core.server.era, rig.core.verdict) == (Era.HANDSHAKE, Era.HANDSHAKE)


def test_a_malformed_answer_to_the_probe_leads_to_initialize():
    rig = both().connect()
    rig.say(id=1, result={}, error=UNKNOWN)
    assert rig.methods() == ["initialize"]


def test_a_silent_probe_gets_initialize_beside_it_and_the_probe_stays_open():
    """Table: probe timeout (stdio)."""
    rig = both().connect()
    rig.wait(2.9)
    assert rig.methods() == []
    rig.wait(0.2)
    assert rig.methods() == ["initialize"]
    assert {x.role for x in rig.core.calls.pending.values()} == {Role.PROBE, Role.HANDSHAKE}


def test_an_initialize_result_decides_and_the_probe_is_counted():
    """Choosing the era: the other is counted, never an error; it becomes a tombstone."""
    rig = both().connect()
    rig.wait(3.1)
    rig.wrote()
    rig.say(id=2, result=initialized())
    assert rig.state is S.READY
    assert rig.core.verdict is Era.HANDSHAKE
    assert rig.core.calls.pending == {}
    rig.say(id=1, result=discovered())
    assert rig.only(e.Stray).kind == "late"
    assert rig.state is S.READY


@pytest.mark.parametrize(
    ("answer", "era"),
    [
        ({"result": initialized()}, Era.HANDSHAKE),
        ({"error": {"code": -32601, "message": "no"}}, Era.STATELESS),
        ({"error": {"code": -32022, "message": "no", "data": {"supported": ["2026-07-28"]}}}, Era.STATELESS),
    ],
)
def test_a_discover_result_beside_an_open_initialize_waits_for_its_answer(answer, era):
    """docs/design/departures.md: a server of both eras takes `initialize` for our choice."""
    rig = both().connect()
    rig.wait(3.1)
    rig.say(id=1, result=discovered())
    assert rig.state is S.INITIALIZING
    rig.say(id=2, **answer)
    assert rig.state is S.READY
    assert rig.core.verdict is era


def test_a_discover_result_whose_initialize_is_never_answered_is_remembered():
    rig = both().connect()
    rig.wait(3.1)
    rig.say(id=1, result=discovered())
    rig.wait(10.1)
    assert rig.state is S.BACKOFF
    assert rig.core.verdict is Era.STATELESS


def test_an_unusable_answer_to_one_question_waits_for_the_other():
    rig = both().connect()
    rig.wait(3.1)
    rig.say(id=2, error={"code": -32601, "message": "removed"})
    assert rig.state is S.INITIALIZING
    rig.say(id=1, result=discovered())
    assert rig.state is S.READY


@pytest.mark.parametrize("code", [-32020, -32021, -32022])
def test_a_recognised_modern_error_decides_even_beside_an_open_initialize(code):
    """Choosing the era: "DiscoverResult or a recognised modern error: stateless"; never `initialize` after it."""
    rig = both().connect()
    rig.wait(3.1)
    rig.say(id=1, error={"code": code, "message": "no", "data": {"supported": ["2099-01-01"]}})
    assert rig.state is S.CLOSING


def test_a_modern_error_alone_is_permanent():
    """Row 5, table: negotiation failed, permanent."""
    rig = both().connect()
    rig.step(e.ReadyAsked("me"))
    rig.say(id=1, error={"code": -32021, "message": "missing capability"})
    assert rig.state is S.CLOSING
    assert rig.effects(e.Close) == [e.Close(1)]
    error = rig.only(e.Release).error
    assert isinstance(error, ClosedError)
    assert isinstance(error.reason, JsonRpcError)
    rig.reaped()
    assert rig.state is S.CLOSED


def test_a_mismatch_closes_for_good_and_tells_everyone_waiting():
    """Row 5."""
    rig = Rig(wait_for_ready=True).connect()
    rig.call("me")
    rig.step(e.ReadyAsked("you"))
    rig.say(id=1, result=initialized("1999-01-01"))
    assert rig.state is S.CLOSING
    assert "1999-01-01" in str(rig.error_of("me"))
    assert isinstance(rig.only(e.Release).error.reason, ProtocolError)


def test_a_transient_refusal_of_initialize_backs_off_and_forgets_the_verdict():
    """Table: negotiation failed, transient: CLOSE; BACK."""
    rig = both(verdict=Era.HANDSHAKE).connect()
    rig.say(id=1, error={"code": -32603, "message": "starting up"})
    assert rig.state is S.BACKOFF
    assert rig.core.verdict is None
    assert rig.core.failures == 1
    rig.reconnect()
    assert rig.methods(rig.history)[-1] == "server/discover"


def test_the_verdict_survives_restarts():
    """Choosing the era: the verdict belongs to the client's configuration, survives restarts."""
    rig = both().connect()
    rig.say(id=1, error=UNKNOWN)
    rig.say(id=2, result=initialized())
    rig.down()
    rig.reconnect()
    assert rig.methods(rig.history)[-1] == "initialize"
    assert rig.core.verdict is Era.HANDSHAKE


def test_a_verdict_whose_deadline_ran_out_is_forgotten():
    rig = both(verdict=Era.STATELESS).connect()
    rig.wait(10.1)
    assert rig.core.verdict is None
    rig.reconnect()
    assert Timer.PROBE in rig.core.calls.timers


def test_a_verdict_that_is_refused_for_good_is_forgotten():
    """Choosing the era: the verdict is forgotten when it fails; the next connection must not begin with it."""
    rig = both(verdict=Era.HANDSHAKE).connect()
    rig.say(id=1, result=initialized("1999-01-01"))
    assert rig.state is S.CLOSING
    assert rig.core.verdict is None


def test_another_version_is_asked_for_on_the_same_connection():
    """Table: other era or version offered: next step."""
    rig = Rig(versions=("2024-11-05", "2025-11-25")).connect()
    rig.say(id=1, error={"code": -32602, "message": "no", "data": {"supported": ["2024-11-05"]}})
    (frame,) = rig.frames()
    assert frame["params"]["protocolVersion"] == "2024-11-05"
    rig.say(id=2, result=initialized("2024-11-05"))
    assert rig.state is S.READY


def test_a_server_that_refuses_what_it_offers_is_refused_for_good():
    """Row 5: a mismatch is permanent, retrying cannot help."""
    rig = Rig(versions=("2024-11-05", "2025-11-25")).connect()
    for id in (1, 2):
        rig.say(id=id, error={"code": -32602, "message": "no", "data": {"supported": ["2024-11-05"]}})
    assert rig.state is S.CLOSING


def test_initialize_refused_with_stateless_versions_leads_to_the_probe():
    rig = both(verdict=Era.HANDSHAKE).connect()
    rig.say(id=1, error={"code": -32022, "message": "no", "data": {"supported": ["2026-07-28"]}})
    assert rig.methods() == ["server/discover"]
    rig.say(id=2, result=discovered())
    assert rig.state is S.READY
    assert rig.core.verdict is Era.STATELESS


def test_there_are_at_most_three_steps():
    """Table: at most 3."""
    rig = both().connect()
    id, asked = 1, ["server/discover"]
    while rig.state is S.INITIALIZING:
        if asked[-1] == "server/discover":
            rig.say(id=id, error=UNKNOWN)
        else:
            rig.say(id=id, error={"code": -32022, "message": "no", "data": {"supported": ["2026-07-28"]}})
        if rig.frames():
            asked.append(rig.frames()[0]["method"])
            id = rig.frames()[0]["id"]
    assert asked == ["server/discover", "initialize", "server/discover", "initialize"]
    assert rig.state is S.BACKOFF
    assert str(rig.core.cause) == "no agreement after 3 steps"


def test_a_batch_is_no_answer_to_the_handshake():
    rig = rig_in(S.INITIALIZING)
    rig.receive(b'[{"jsonrpc":"2.0","id":1,"result":{}}]')
    assert rig.state is S.INITIALIZING
    assert rig.kinds() == "Violation"


# --- down with only the probe sent ------------------------------------------------------------------------------------


def test_a_server_that_dies_of_the_probe_is_started_again_at_once_and_gets_initialize():
    """Table: down in initializing, once: backoff with no delay and not counted, then `initialize` directly."""
    rig = both().connect()
    rig.down()
    assert rig.state is S.BACKOFF
    assert rig.core.failures == 0
    assert Timer.BACKOFF not in rig.core.calls.timers
    rig.reaped()
    assert rig.state is S.STARTING
    rig.spawned()
    rig.up()
    assert rig.methods() == ["initialize"]
    assert Timer.PROBE not in rig.core.calls.timers


def test_only_once():
    rig = both().connect()
    rig.down()
    rig.reconnect()
    rig.down()
    assert rig.core.failures == 1
    assert Timer.BACKOFF in rig.core.calls.timers


def test_with_initialize_sent_too_going_down_is_counted():
    rig = both().connect()
    rig.wait(3.1)
    rig.down()
    assert rig.core.failures == 1


def test_with_the_stateless_era_alone_going_down_is_counted():
    """There is no `initialize` to send directly, so it is an ordinary failure: BACK."""
    rig = Rig(versions=STATELESS).connect()
    rig.down()
    assert rig.core.failures == 1
    assert Timer.BACKOFF in rig.core.calls.timers


@pytest.mark.parametrize("how", ["error", "silence", "down"])
def test_a_stateless_server_that_crashed_once_is_still_reached(how):
    """Choosing the era: what was learnt from a fatal probe is a verdict too, and is forgotten when it fails."""
    rig = both(max_attempts=100).connect()
    rig.down()
    for _ in range(4):
        rig.reconnect()
        if rig.methods(rig.history)[-1] == "server/discover":
            break
        if how == "error":
            rig.say(id=max(rig.core.calls.pending), error=UNKNOWN)
        elif how == "silence":
            rig.wait(10.1)
        else:
            rig.down()
        assert rig.state is S.BACKOFF
    assert rig.methods(rig.history)[-1] == "server/discover"


def test_a_fatal_probe_is_forgotten_once_the_server_speaks_the_stateless_era():
    rig = both().connect()
    rig.down()
    rig.reconnect()
    rig.say(
        id=max(rig.core.calls.pending),
        error={"code": -32022, "message": "no", "data": {"supported": ["2026-07-28"]}},
    )
    rig.agree("2026-07-28")
    rig.down()
    rig.reconnect()
    assert rig.methods(rig.history)[-1] == "server/discover"


# --- HTTP -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("versions", [HANDSHAKE, STATELESS, BOTH])
def test_a_negotiation_whose_request_is_lost_backs_off_at_once(versions):
    """Table: negotiation failed, transient: CLOSE; BACK, and not only when the connect deadline runs out."""
    rig = Rig(versions=versions, is_http=True).connect()
    rig.lost(1, TransportError("connection refused"))
    assert rig.state is S.BACKOFF
    assert rig.core.failures == 1
    assert str(rig.core.cause) == "connection refused"


@pytest.mark.parametrize("versions", [HANDSHAKE, STATELESS, BOTH])
def test_a_refused_credential_is_permanent(versions):
    """Row 5: a refused credential is permanent: `closed(reason)` at once, the reason raised to everyone waiting."""
    rig = Rig(versions=versions, is_http=True).connect()
    rig.step(e.ReadyAsked("me"))
    rig.lost(1, refusal := TransportError("401 after authorizing", permanent=True), was_declined=True)
    assert rig.state in (S.CLOSING, S.CLOSED)
    assert rig.only(e.Release).error.reason is refusal


def test_404_or_405_before_ready_is_negotiation():
    """Over HTTP: 404 or 405 before `ready` is negotiation."""
    rig = Rig(versions=BOTH, is_http=True).connect()
    rig.lost(1, TransportError("405"), was_declined=True)
    assert rig.methods() == ["initialize"]
    rig.lost(2, TransportError("405"), was_declined=True)
    assert rig.state is S.BACKOFF


def test_a_json_rpc_error_is_the_answer_whatever_the_status():
    rig = Rig(versions=BOTH, is_http=True).connect()
    rig.say(id=1, error=UNKNOWN)
    assert rig.methods() == ["initialize"]


def test_a_session_lost_in_the_handshake_restarts_it():
    """Table: session lost in initializing: restart handshake without id."""
    rig = Rig(is_http=True).connect()
    rig.step(e.SessionLost(1, 1))
    assert rig.state is S.INITIALIZING
    assert [frame["id"] for frame in rig.frames()] == [2]
    rig.agree()
    assert rig.core.calls.pending == {}


def test_a_server_that_loses_every_session_in_the_handshake_is_left():
    rig = Rig(is_http=True).connect()
    for id in (1, 2, 3, 4):
        assert rig.state is S.INITIALIZING
        rig.step(e.SessionLost(1, id))
    assert rig.state is S.BACKOFF


def test_an_oversized_handshake_says_why_it_cannot_be_sent():
    """Row 17; an error names what was wrong."""
    rig = Rig(max_frame_bytes=1024, client_info={"name": "x" * 2000, "version": "1"})
    rig.start()
    rig.spawned()
    rig.up()
    rig.wait(10.1)
    assert rig.effects(e.Send, rig.history) == []
    assert rig.state in (S.BACKOFF, S.CLOSING, S.CLOSED)
    assert "1024" in str(rig.core.cause)


def test_stop_during_the_handshake_sends_no_cancel():
    """G11: never for `initialize` or the probe."""
    rig = both().connect()
    rig.wait(3.1)
    rig.wrote()
    rig.stop()
    assert rig.methods() == []
    assert isinstance(rig.core.cause, ShutdownError)


def test_no_question_is_asked_twice_at_a_time():
    rig = both().connect()
    rig.say(id=1, error=UNKNOWN)
    assert rig.methods() == ["initialize"]
    rig.wait(3.1)
    assert rig.methods() == []
    rig = both().connect()
    rig.wait(3.1)
    rig.say(id=2, error={"code": -32022, "message": "no", "data": {"supported": ["2026-07-28"]}})
    assert rig.methods() == []
    assert rig.state is S.INITIALIZING


def test_a_stateless_server_that_refuses_the_initialize_beside_its_answer_is_stateless():
    rig = both().connect()
    rig.wait(3.1)
    rig.wrote()
    rig.say(id=1, result=discovered())
    rig.say(id=2, error=UNKNOWN)
    assert rig.state is S.READY
    assert rig.core.verdict is Era.STATELESS


def test_agreeing_leaves_open_posts_alone():
    """Over HTTP: after a session loss they end on their own."""
    rig = Rig(is_http=True).ready()
    lost, open_post = rig.call("lost"), rig.call("open")
    rig.step(e.SessionLost(1, lost))
    rig.spawned()
    rig.up()
    rig.agree()
    rig.answer(open_post)
    assert rig.only(e.Complete).caller == "open"


@pytest.mark.parametrize("method", ["ping", "roots/list"])
def test_a_request_while_only_the_probe_is_out_is_answered_and_the_handshake_begun(method):
    """A stateless server sends no requests, so it is proof of the other era; one that waits for its pong must get it."""
    rig = both().connect()
    rig.say(id="p", method=method)
    frames = rig.frames()
    assert [frame.get("method") for frame in frames] == ["initialize", None]
    assert ("result" in frames[1]) is (method == "ping")
    assert frames[1]["id"] == "p"
    assert Timer.PROBE not in rig.core.calls.timers
    rig.wrote()
    rig.agree()


def test_where_only_the_stateless_era_may_be_used_a_request_is_a_violation():
    rig = Rig(versions=STATELESS).connect()
    rig.say(id="p", method="ping")
    assert rig.frames() == []
    assert "before the handshake" in rig.only(e.Violation).reason
