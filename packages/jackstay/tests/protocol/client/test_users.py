"""What a user can do with a connection, row by row: calls, giving up, subscriptions, server facts.

What waits for room is in `test_users_busy`.
"""

import json

import pytest

from jackstay.errors import (
    BackpressureError,
    FrameTooLargeError,
    McpError,
    ShutdownError,
    StateError,
    TimeoutError,
    TransportError,
)
from jackstay.protocol.client import events as e
from jackstay.protocol.client._exchange import Role
from model.rig import HANDSHAKE, STATELESS, Rig, S, rig_in

# --- calls ------------------------------------------------------------------------------------------------------------


def test_a_call_stays_pending_until_its_one_outcome():
    """Row 1: one awaitable per call; the id is told first."""
    rig = rig_in(S.READY)
    id = rig.written_call("me")
    assert rig.outcomes_of("me") == 0
    rig.answer(id, {"content": []})
    assert rig.only(e.Complete).caller == "me"
    rig.answer(id, {"content": []})
    rig.step(e.GaveUp(id))
    rig.step(e.Expired(id))
    assert rig.outcomes_of("me") == 1


WAITS = [
    (False, None, False),
    (True, None, True),
    (False, True, True),
    (True, False, False),
]


@pytest.mark.parametrize("state", [S.STARTING, S.INITIALIZING, S.BACKOFF])
@pytest.mark.parametrize(("setting", "per_call", "is_queued"), WAITS)
def test_a_call_waits_for_ready_per_client_or_per_call(state, setting, per_call, is_queued):
    """Row 15."""
    rig = rig_in(state, wait_for_ready=setting)
    id = rig.call("me", wait_for_ready=per_call)
    if is_queued:
        assert list(rig.core.calls.queue) == [id]
        assert rig.core.calls.timers.at(id) == rig.now + 30.0
    else:
        assert isinstance(rig.error_of("me"), StateError)
        assert rig.core.calls.pending.keys() <= {1}  # the handshake's own


def test_waiting_calls_are_flushed_in_order_after_subscriptions():
    """Row 15: flushed in ready after subscriptions were re-sent."""
    rig = Rig(wait_for_ready=True)
    rig.start()
    rig.step(e.Subscribed("k", ("resources/subscribe", b'{"uri":"x:y"}'), None))
    for method in ("tools/list", "prompts/list", "tools/call"):
        rig.call(method=method)
    rig.spawned()
    rig.up()
    rig.wrote()
    assert rig.methods(rig.history) == ["initialize"]
    rig.agree()
    assert rig.methods() == [
        "notifications/initialized",
        "resources/subscribe",
        "tools/list",
        "prompts/list",
        "tools/call",
    ]


def test_a_waiting_call_keeps_its_deadline():
    """Row 2: both deadlines cover queueing. Table: deadline in starting, sent=False."""
    rig = Rig(wait_for_ready=True)
    rig.start()
    rig.call("me", timeout=4.0)
    rig.wait(3.9)
    assert rig.outcomes_of("me") == 0
    rig.wait(0.2)
    error = rig.error_of("me")
    assert isinstance(error, TimeoutError)
    assert (error.sent, error.may_have_run, error.retryable) == (False, False, True)
    assert rig.core.calls.queue == {}


def test_a_waiting_call_survives_failures_of_the_connection():
    """G5: with wait_for_ready the first call after a crash succeeds within its deadline."""
    rig = rig_in(S.READY)
    rig.down()
    id = rig.call("me", wait_for_ready=True)
    rig.reconnect()
    rig.down()
    rig.reconnect().agree()
    assert rig.methods()[-1] == "tools/call"
    rig.answer(id)
    assert rig.outcomes_of("me") == 1
    assert rig.only(e.Complete).caller == "me"


def test_too_many_waiting_calls_are_refused():
    rig = Rig(wait_for_ready=True, max_queued=2)
    rig.start()
    rig.call("a")
    rig.call("b")
    rig.call("c")
    assert isinstance(rig.error_of("c"), BackpressureError)
    assert "max_queued is 2" in str(rig.error_of("c"))


def test_an_oversized_call_fails_only_itself():
    """Row 17: both directions."""
    rig = rig_in(S.READY, max_frame_bytes=1024)
    rig.written_call("other")
    rig.call("big", params=b'{"x":"%b"}' % (b"y" * 2000))
    assert isinstance(rig.error_of("big"), FrameTooLargeError)
    assert rig.error_of("big").may_have_run is False
    assert rig.state is S.READY
    assert rig.outcomes_of("other") == 0


def test_a_call_of_the_stateless_era_carries_the_envelope():
    rig = Rig(versions=STATELESS, capabilities={"roots": {}}).ready()
    rig.call(params=b'{"name":"x"}', meta=b'"io.modelcontextprotocol/logLevel":"debug"', wants_progress=True)
    (frame,) = rig.frames()
    assert frame["params"]["name"] == "x"
    assert frame["params"]["_meta"] == {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"roots": {}},
        "io.modelcontextprotocol/clientInfo": rig.core.settings.client_info,
        "progressToken": frame["id"],
        "io.modelcontextprotocol/logLevel": "debug",
    }


def test_a_call_of_the_handshake_era_carries_none():
    rig = rig_in(S.READY)
    rig.call(params=b'{"name":"x"}')
    assert rig.frames()[0]["params"] == {"name": "x"}


# --- giving up and running out of time --------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [e.GaveUp, e.Expired])
def test_a_written_call_is_cancelled_once_and_becomes_a_tombstone(how):
    """G11, table: caller gives up; soft or hard deadline."""
    rig = rig_in(S.READY)
    id = rig.written_call("me")
    for _ in range(10):
        rig.step(how(id))
        rig.step(e.GaveUp(id))
    cancels = [frame for frame in rig.frames(rig.history) if frame.get("method") == "notifications/cancelled"]
    assert cancels == [{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}]
    assert rig.outcomes_of("me") == (1 if how is e.Expired else 0)
    assert rig.core.calls.tombstones.holds(id, rig.now)


@pytest.mark.parametrize("how", [e.GaveUp, e.Expired])
def test_a_call_still_in_our_queue_is_taken_back_and_surely_not_sent(how):
    """Row 14, G11: never for a call still in our queue."""
    rig = rig_in(S.READY, hang_timeout=None)
    id = rig.call("me")
    rig.step(how(id))
    assert rig.only(e.Withdraw).id == id
    assert rig.methods() == []
    assert not rig.core.calls.tombstones.holds(id, rig.now)
    if how is e.Expired:
        assert rig.error_of("me").sent is False


def test_written_means_that_its_own_frame_was_written():
    rig = rig_in(S.READY)
    first, second = rig.call("first"), rig.call("second")
    rig.wrote(rig.core.calls.pending[first].number)
    rig.step(e.Expired(first))
    rig.step(e.Expired(second))
    assert rig.error_of("first").sent is True
    assert rig.error_of("second").sent is False


def test_what_was_written_is_never_unwritten():
    rig = rig_in(S.READY)
    id = rig.written_call("me")
    rig.wrote(0)
    rig.step(e.Expired(id))
    assert rig.error_of("me").sent is True


def test_deadlines_run_by_themselves():
    """Row 2: soft 30 s, cancelled on the wire."""
    rig = rig_in(S.READY)
    rig.written_call("me")
    rig.wait(30.1)
    error = rig.error_of("me")
    assert (error.timeout, error.sent) == (30.0, True)
    assert rig.methods() == ["ping", "notifications/cancelled"]


def test_the_hard_deadline_cannot_be_moved():
    rig = rig_in(S.READY)
    id = rig.written_call("me", timeout=10.0, max_timeout=25.0, wants_progress=True)
    for _ in range(4):
        rig.wait(6.0)
        rig.say(method="notifications/progress", params={"progressToken": id, "progress": 1})
    assert rig.outcomes_of("me") == 0
    rig.wait(1.01)
    assert isinstance(rig.error_of("me"), TimeoutError)


def test_a_call_without_deadlines_waits():
    rig = rig_in(S.READY)
    rig.written_call("me", timeout=None, max_timeout=None)
    rig.wait(100_000.0)
    assert rig.outcomes_of("me") == 0


@pytest.mark.parametrize("state", [S.STARTING, S.INITIALIZING, S.BACKOFF])
def test_a_waiting_call_that_is_given_up_is_dropped(state):
    rig = rig_in(state)
    id = rig.call("me", wait_for_ready=True)
    rig.step(e.GaveUp(id))
    assert rig.out == []
    assert id not in rig.core.calls.pending
    assert rig.core.calls.queue == {}
    assert id not in rig.core.calls.timers


def test_giving_up_what_is_not_open_is_harmless():
    rig = rig_in(S.READY)
    for id in (0, 1, 999, -1):
        assert rig.step(e.GaveUp(id)) == []
        assert rig.step(e.Expired(id)) == []
        assert rig.step(e.RetryDue(id)) == []


def test_on_stateless_http_giving_up_is_hanging_up():
    """Row 6, G11: closing the response is the cancel."""
    rig = Rig(versions=STATELESS, is_http=True).ready()
    id = rig.call("me")
    rig.step(e.GaveUp(id))
    assert rig.out == [e.HangUp(id)]


def test_on_stateless_stdio_and_on_handshake_http_it_is_a_notification():
    for rig in (Rig(versions=STATELESS).ready(), Rig(is_http=True).ready()):
        id = rig.written_call("me")
        rig.step(e.GaveUp(id))
        assert rig.methods() == ["notifications/cancelled"]


# --- notifications and answers ----------------------------------------------------------------------------------------


def test_a_notification_is_written_and_its_caller_released():
    rig = rig_in(S.READY)
    rig.step(e.Notified(caller="me", method="notifications/progress", params=b'{"progress":1}'))
    assert rig.frames() == [{"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 1}}]
    assert rig.only(e.Release) == e.Release("me", None)
    assert rig.only(e.Send).id is None


def test_an_oversized_notification_is_refused():
    """Row 17: 16 MiB, both directions."""
    rig = rig_in(S.READY, max_frame_bytes=1024)
    rig.step(e.Notified(caller="me", method="notifications/progress", params=b'{"x":"%b"}' % (b"y" * 2000)))
    assert rig.effects(e.Send) == []
    assert isinstance(rig.error_of("me"), FrameTooLargeError)


@pytest.mark.parametrize("field", ["result", "error"])
def test_an_oversized_answer_is_replaced_by_an_error(field):
    """Row 17, and the server must not wait for ever."""
    rig = rig_in(S.READY, max_frame_bytes=1024)
    rig.say(id="q", method="sampling/createMessage")
    rig.step(e.Replied("q", **{field: b'{"x":"%b"}' % (b"y" * 2000)}))
    (effect,) = rig.effects(e.Send)
    assert len(effect.frame) <= 1024
    assert json.loads(effect.frame)["error"]["code"] == -32603


IDS = ["q", 7, 0, -1, 2**53 + 1, 2**70, "ü", ""]


@pytest.mark.parametrize("id", IDS)
def test_a_handlers_answer_goes_out_with_the_id_it_was_asked_with(id):
    rig = rig_in(S.READY)
    rig.say(id=id, method="roots/list")
    assert rig.only(e.Serve).id == id
    rig.step(e.Replied(id, b'{"roots":[]}'))
    assert rig.frames() == [{"jsonrpc": "2.0", "id": id, "result": {"roots": []}}]
    rig.say(id=id, method="roots/list")
    rig.step(e.Replied(id, error=b'{"code":-32601,"message":"no"}'))
    assert rig.frames() == [{"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no"}}]


def test_an_answer_nobody_asked_for_is_never_written():
    rig = rig_in(S.READY)
    rig.step(e.Replied("q"))
    assert rig.out == []
    assert rig.core.counts["ignored Replied"] == 1


def test_an_answer_to_a_server_that_is_gone_is_never_written():
    rig = rig_in(S.READY)
    rig.say(id="q", method="roots/list")
    rig.down()
    assert rig.only(e.StopServing).id == "q"
    rig.reconnect().agree()
    rig.step(e.Replied("q"))
    assert rig.out == []


# --- subscriptions ----------------------------------------------------------------------------------------------------

SUBSCRIPTION = e.Subscribed(
    "k", ("resources/subscribe", b'{"uri":"x:y"}'), ("subscriptions/listen", b'{"notifications":{}}')
)


def test_a_subscription_is_opened_in_the_form_of_its_era():
    rig = rig_in(S.READY)
    rig.step(SUBSCRIPTION)
    assert rig.frames()[0]["method"] == "resources/subscribe"
    rig = Rig(versions=STATELESS).ready()
    rig.step(SUBSCRIPTION)
    assert rig.frames()[0]["method"] == "subscriptions/listen"
    assert "_meta" in rig.frames()[0]["params"]


def test_a_subscription_that_its_era_has_no_form_for_is_only_remembered():
    rig = rig_in(S.READY)
    rig.step(e.Subscribed("k", None, ("subscriptions/listen", b"{}")))
    assert rig.out == []


def test_a_subscription_that_a_call_has_opened_is_only_remembered():
    rig = rig_in(S.READY)
    rig.step(e.Subscribed("k", ("resources/subscribe", b'{"uri":"x:y"}'), None, True))
    assert rig.out == []
    rig.down()
    rig.reconnect().agree()
    assert "resources/subscribe" in rig.methods()


@pytest.mark.parametrize("versions", [HANDSHAKE, STATELESS])
def test_subscriptions_are_always_opened_again(versions):
    """Row 25: subscriptions are always re-opened."""
    rig = Rig(versions=versions).ready()
    rig.step(SUBSCRIPTION)
    rig.wrote()
    rig.down()
    assert rig.outcomes_of("k") == 0
    rig.reconnect().agree(versions[0])
    opened = [frame["method"] for frame in rig.frames() if "id" in frame]
    assert opened in (["resources/subscribe"], ["subscriptions/listen"])


def test_a_subscription_no_longer_wanted_is_cancelled_and_forgotten():
    rig = Rig(versions=STATELESS).ready()
    rig.step(SUBSCRIPTION)
    rig.wrote()
    id = next(x.id for x in rig.core.calls.pending.values() if x.role is Role.STANDING)
    rig.step(e.Unsubscribed("k"))
    assert rig.frames()[0]["params"] == {"requestId": id}
    rig.step(e.Unsubscribed("k"))
    assert rig.out == []
    rig.down()
    rig.reconnect().agree("2026-07-28")
    assert rig.methods() == []


def test_waiting_for_ready_and_unsubscribing_are_two_things():
    rig = rig_in(S.STARTING)
    rig.step(e.ReadyAsked("waiter"))
    rig.step(SUBSCRIPTION)
    rig.step(e.Unsubscribed("k"))
    rig.spawned()
    rig.up()
    rig.wrote()
    rig.agree()
    assert rig.only(e.Release) == e.Release("waiter", None)
    assert rig.methods() == ["notifications/initialized"]


@pytest.mark.parametrize("how", ["busy", "too large"])
def test_a_subscription_that_cannot_be_opened_is_not_lost_in_silence(how):
    """Row 25: subscriptions are always re-opened; whoever listens must learn it when that fails."""
    rig = Rig(versions=STATELESS, retry_attempts=1, max_frame_bytes=1024).ready()
    padding = b"y" * (2000 if how == "too large" else 1)
    rig.step(e.Subscribed("k", None, ("subscriptions/listen", b'{"x":"%b"}' % padding)))
    if how == "busy":
        rig.refuse(rig.only(e.Send).id)
    ended = rig.effects(e.EndSubscription, rig.history)
    assert [effect.key for effect in ended] == ["k"]
    assert isinstance(ended[0].error, McpError)


# --- ready, and who the server is -------------------------------------------------------------------------------------


def test_whoever_waits_for_ready_is_released_once():
    """Table: ready(t)."""
    rig = rig_in(S.STARTING)
    rig.step(e.ReadyAsked("a"))
    rig.step(e.ReadyAsked("b"))
    rig.step(e.WaitGivenUp("b"))
    rig.step(e.WaitGivenUp("b"))
    rig.spawned()
    rig.up()
    rig.wrote()
    rig.agree()
    assert rig.effects(e.Release) == [e.Release("a", None)]
    rig.step(e.ReadyAsked("c"))
    assert rig.out == [e.Release("c", None)]


def test_whoever_waits_for_ready_when_it_ends_is_told_why():
    rig = rig_in(S.BACKOFF)
    rig.step(e.ReadyAsked("a"))
    rig.stop()
    assert isinstance(rig.only(e.Release).error, ShutdownError)


def test_the_servers_facts_are_the_last_known_and_marked_stale():
    """Table: server info, capabilities."""
    rig = rig_in(S.INITIALIZING)
    rig.step(e.ServerAsked("me"))
    told = rig.only(e.Tell)
    assert (told.server, told.is_stale) == (None, True)
    assert isinstance(told.error, StateError)
    rig.agree()
    rig.step(e.ServerAsked("me"))
    told = rig.only(e.Tell)
    assert (told.server.version, told.is_stale, told.error) == ("2025-11-25", False, None)
    for event in (e.WentDown(1, TransportError("x")), e.StopAsked(), e.Reaped(1)):
        rig.step(event)
        rig.step(e.ServerAsked("me"))
        told = rig.only(e.Tell)
        assert (told.server.version, told.is_stale, told.error) == ("2025-11-25", True, None)


@pytest.mark.parametrize("state", [S.CLOSING, S.CLOSED])
@pytest.mark.parametrize(
    "event",
    [
        e.Called(caller="me", method="ping"),
        e.Notified(caller="me", method="notifications/x"),
        e.ReadyAsked("me"),
    ],
)
def test_an_ended_connection_refuses_everything_with_its_reason(state, event):
    """Table: call, notify and ready in closing and closed."""
    rig = rig_in(state)
    rig.step(event)
    (effect,) = rig.out
    assert effect.caller == "me"
    assert effect.error.type == "shutdown"
    assert type(effect.error).__name__ == ("ShutdownError" if state is S.CLOSING else "ClosedError")
