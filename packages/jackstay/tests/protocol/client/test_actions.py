"""What a user does with a connection: calls, cancellation, notifications, subscriptions, server info."""

import json

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
from model.harness import HANDSHAKE, STATELESS, Harness, S, harness_in

# --- calls ------------------------------------------------------------------------------------------------------------


def test_a_call_stays_pending_until_its_one_outcome():
    harness = harness_in(S.READY)
    id = harness.written_call("me")
    assert harness.outcomes_of("me") == 0
    harness.respond(id, {"content": []})
    assert harness.only(e.Complete).caller == "me"
    harness.respond(id, {"content": []})
    harness.step(e.CallCancelled(id))
    harness.step(e.Expired(id))
    assert harness.outcomes_of("me") == 1


WAITS = [
    (False, None, False),
    (True, None, True),
    (False, True, True),
    (True, False, False),
]


def test_a_call_waits_for_ready_per_client_or_per_call(subtests):
    for setting, per_call, is_queued in WAITS:
        for state in (S.STARTING, S.INITIALIZING, S.BACKOFF):
            with subtests.test(setting=setting, per_call=per_call, is_queued=is_queued, state=state):
                harness = harness_in(state, wait_for_ready=setting)
                id = harness.call("me", wait_for_ready=per_call)
                if is_queued:
                    assert list(harness.core.calls.queue) == [id]
                    assert harness.core.calls.timers.at(id) == harness.now + 30.0
                else:
                    assert isinstance(harness.error_of("me"), StateError)
                    assert harness.core.calls.pending.keys() <= {1}  # the handshake


def test_queued_calls_are_sent_in_order_after_subscriptions():
    harness = Harness(wait_for_ready=True)
    harness.start()
    harness.step(e.Subscribed("k", ("resources/subscribe", b'{"uri":"x:y"}'), None))
    for method in ("tools/list", "prompts/list", "tools/call"):
        harness.call(method=method)
    harness.spawned()
    harness.wrote()
    assert harness.methods(harness.history) == ["initialize"]
    harness.agree()
    assert harness.methods() == [
        "notifications/initialized",
        "resources/subscribe",
        "tools/list",
        "prompts/list",
        "tools/call",
    ]


def test_a_queued_call_keeps_its_deadline():
    harness = Harness(wait_for_ready=True)
    harness.start()
    harness.call("me", timeout=4.0)
    harness.wait(3.9)
    assert harness.outcomes_of("me") == 0
    harness.wait(0.2)
    error = harness.error_of("me")
    assert isinstance(error, TimeoutError)
    assert (error.sent, error.may_have_run, error.retryable) == (False, False, True)
    assert harness.core.calls.queue == {}


def test_a_queued_call_survives_failures_of_the_connection():
    harness = harness_in(S.READY)
    harness.down()
    id = harness.call("me", wait_for_ready=True)
    harness.reconnect()
    harness.down()
    harness.reconnect().agree()
    assert harness.methods()[-1] == "tools/call"
    harness.respond(id)
    assert harness.outcomes_of("me") == 1
    assert harness.only(e.Complete).caller == "me"


def test_too_many_queued_calls_are_refused():
    harness = Harness(wait_for_ready=True, max_queued=2)
    harness.start()
    harness.call("a")
    harness.call("b")
    harness.call("c")
    assert isinstance(harness.error_of("c"), BackpressureError)
    assert "max_queued is 2" in str(harness.error_of("c"))


def test_an_oversized_call_fails_only_itself():
    harness = harness_in(S.READY, max_frame_bytes=1024)
    harness.written_call("other")
    harness.call("big", params=b'{"x":"%b"}' % (b"y" * 2000))
    assert isinstance(harness.error_of("big"), FrameTooLargeError)
    assert harness.error_of("big").may_have_run is False
    assert harness.state is S.READY
    assert harness.outcomes_of("other") == 0


def test_a_call_of_the_stateless_era_has_the_request_meta():
    harness = Harness(versions=STATELESS, capabilities={"roots": {}}).ready()
    harness.call(params=b'{"name":"x"}', meta=b'"io.modelcontextprotocol/logLevel":"debug"', wants_progress=True)
    (frame,) = harness.frames()
    assert frame["params"]["name"] == "x"
    assert frame["params"]["_meta"] == {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"roots": {}},
        "io.modelcontextprotocol/clientInfo": harness.core.settings.client_info,
        "progressToken": frame["id"],
        "io.modelcontextprotocol/logLevel": "debug",
    }


def test_a_call_of_the_handshake_era_has_no_meta():
    harness = harness_in(S.READY)
    harness.call(params=b'{"name":"x"}')
    assert harness.frames()[0]["params"] == {"name": "x"}


# --- cancellation and timeouts ----------------------------------------------------------------------------------------


def test_a_written_call_is_cancelled_once_and_becomes_a_tombstone(subtests):
    for how in (e.CallCancelled, e.Expired):
        with subtests.test(how=how):
            harness = harness_in(S.READY)
            id = harness.written_call("me")
            for _ in range(10):
                harness.step(how(id))
                harness.step(e.CallCancelled(id))
            cancels = [
                frame for frame in harness.frames(harness.history) if frame.get("method") == "notifications/cancelled"
            ]
            assert cancels == [{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}]
            assert harness.outcomes_of("me") == (1 if how is e.Expired else 0)
            assert harness.core.calls.tombstones.get(id, -1.0) >= harness.now


def test_a_call_that_is_not_written_is_withdrawn_and_did_not_run(subtests):
    for how in (e.CallCancelled, e.Expired):
        with subtests.test(how=how):
            harness = harness_in(S.READY, hang_timeout=None)
            id = harness.call("me")
            harness.step(how(id))
            assert harness.only(e.Withdraw).id == id
            assert harness.methods() == []
            assert harness.core.calls.tombstones.get(id, -1.0) < harness.now
            if how is e.Expired:
                assert harness.error_of("me").sent is False


def test_a_call_is_written_when_its_own_frame_is():
    harness = harness_in(S.READY)
    first, second = harness.call("first"), harness.call("second")
    harness.wrote(harness.core.calls.pending[first].number)
    harness.step(e.Expired(first))
    harness.step(e.Expired(second))
    assert harness.error_of("first").sent is True
    assert harness.error_of("second").sent is False


def test_a_written_call_stays_written():
    harness = harness_in(S.READY)
    id = harness.written_call("me")
    harness.wrote(0)
    harness.step(e.Expired(id))
    assert harness.error_of("me").sent is True


def test_a_call_times_out_after_30_seconds_and_is_cancelled():
    harness = harness_in(S.READY)
    harness.written_call("me")
    harness.wait(30.1)
    error = harness.error_of("me")
    assert (error.timeout, error.sent) == (30.0, True)
    assert harness.methods() == ["ping", "notifications/cancelled"]


def test_progress_does_not_extend_the_hard_deadline():
    harness = harness_in(S.READY)
    id = harness.written_call("me", timeout=10.0, max_timeout=25.0, wants_progress=True)
    for _ in range(4):
        harness.wait(6.0)
        harness.receive_json(method="notifications/progress", params={"progressToken": id, "progress": 1})
    assert harness.outcomes_of("me") == 0
    harness.wait(1.01)
    assert isinstance(harness.error_of("me"), TimeoutError)


def test_a_call_without_deadlines_waits():
    harness = harness_in(S.READY)
    harness.written_call("me", timeout=None, max_timeout=None)
    harness.wait(100_000.0)
    assert harness.outcomes_of("me") == 0


def test_a_queued_call_that_is_cancelled_is_dropped(subtests):
    for state in (S.STARTING, S.INITIALIZING, S.BACKOFF):
        with subtests.test(state=state):
            harness = harness_in(state)
            id = harness.call("me", wait_for_ready=True)
            harness.step(e.CallCancelled(id))
            assert harness.out == []
            assert id not in harness.core.calls.pending
            assert harness.core.calls.queue == {}
            assert id not in harness.core.calls.timers


def test_cancelling_an_unknown_id_is_ignored():
    harness = harness_in(S.READY)
    for id in (0, 1, 999, -1):
        assert harness.step(e.CallCancelled(id)) == []
        assert harness.step(e.Expired(id)) == []
        assert harness.step(e.RetryDue(id)) == []


def test_over_stateless_http_a_cancellation_closes_the_response():
    harness = Harness(versions=STATELESS, is_http=True).ready()
    id = harness.call("me")
    harness.step(e.CallCancelled(id))
    assert harness.out == [e.CloseResponse(id)]


def test_over_stateless_stdio_and_handshake_http_a_cancellation_is_a_notification():
    for harness in (Harness(versions=STATELESS).ready(), Harness(is_http=True).ready()):
        id = harness.written_call("me")
        harness.step(e.CallCancelled(id))
        assert harness.methods() == ["notifications/cancelled"]


# --- notifications and responses --------------------------------------------------------------------------------------


def test_a_notification_is_written():
    harness = harness_in(S.READY)
    harness.step(e.Notified(caller="me", method="notifications/progress", params=b'{"progress":1}'))
    assert harness.frames() == [{"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 1}}]
    assert harness.only(e.Send).id is None


def test_an_oversized_notification_is_refused():
    harness = harness_in(S.READY, max_frame_bytes=1024)
    harness.step(e.Notified(caller="me", method="notifications/progress", params=b'{"x":"%b"}' % (b"y" * 2000)))
    assert harness.effects(e.Send) == []
    assert isinstance(harness.error_of("me"), FrameTooLargeError)


def test_an_oversized_response_is_replaced_by_an_error(subtests):
    for field in ("result", "error"):
        with subtests.test(field=field):
            harness = harness_in(S.READY, max_frame_bytes=1024)
            harness.receive_json(id="q", method="sampling/createMessage")
            harness.step(e.Finished("q", **{field: b'{"x":"%b"}' % (b"y" * 2000)}))
            (effect,) = harness.effects(e.Send)
            assert len(effect.frame) <= 1024
            assert json.loads(effect.frame)["error"]["code"] == -32603


IDS = ["q", 7, 0, -1, 2**53 + 1, 2**70, "ü", ""]


def test_a_response_has_the_id_of_its_request(subtests):
    for id in IDS:
        with subtests.test(id=id):
            harness = harness_in(S.READY)
            harness.receive_json(id=id, method="roots/list")
            assert harness.only(e.Serve).id == id
            harness.step(e.Finished(id, b'{"roots":[]}'))
            assert harness.frames() == [{"jsonrpc": "2.0", "id": id, "result": {"roots": []}}]
            harness.receive_json(id=id, method="roots/list")
            harness.step(e.Finished(id, error=b'{"code":-32601,"message":"no"}'))
            assert harness.frames() == [{"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no"}}]


def test_a_response_without_a_request_is_never_sent():
    harness = harness_in(S.READY)
    harness.step(e.Finished("q"))
    assert harness.out == []
    assert harness.core.counts["ignored Finished"] == 1


def test_a_response_to_an_earlier_transport_is_never_sent():
    harness = harness_in(S.READY)
    harness.receive_json(id="q", method="roots/list")
    harness.down()
    assert harness.only(e.StopServing).id == "q"
    harness.reconnect().agree()
    harness.step(e.Finished("q"))
    assert harness.out == []


# --- draining ---------------------------------------------------------------------------------------------------------


def test_while_draining_new_calls_are_refused_and_everything_else_is_sent():
    harness = harness_in(S.READY)
    harness.wait(1.0)
    harness.step(e.DrainRequested())
    harness.wait(1.0)
    harness.step(e.DrainRequested())
    for began_at, is_accepted in ((None, False), (2.0, False), (1.0, False), (0.5, True)):
        harness.step(e.Called(caller=("me", began_at), method="tools/list", began_at=began_at))
        assert harness.methods() == (["tools/list"] if is_accepted else []), began_at
    harness.step(e.Notified(caller=None, method="notifications/roots/list_changed"))
    assert harness.methods() == ["notifications/roots/list_changed"]
    harness.down()
    harness.reconnect().agree()
    harness.step(e.Called(caller="again", method="tools/list"))
    assert isinstance(harness.only(e.Fail).error, ShutdownError)
    harness.step(e.DrainCancelled())
    harness.step(e.Called(caller="accepted", method="tools/list"))
    assert harness.methods() == ["tools/list"]


# --- subscriptions ----------------------------------------------------------------------------------------------------

SUBSCRIPTION = e.Subscribed(
    "k", ("resources/subscribe", b'{"uri":"x:y"}'), ("subscriptions/listen", b'{"notifications":{}}')
)


def test_a_subscription_is_opened_with_the_request_of_its_era():
    harness = harness_in(S.READY)
    harness.step(SUBSCRIPTION)
    assert harness.frames()[0]["method"] == "resources/subscribe"
    harness = Harness(versions=STATELESS).ready()
    harness.step(SUBSCRIPTION)
    assert harness.frames()[0]["method"] == "subscriptions/listen"
    assert "_meta" in harness.frames()[0]["params"]


def test_a_subscription_without_a_request_in_its_era_is_only_stored():
    harness = harness_in(S.READY)
    harness.step(e.Subscribed("k", None, ("subscriptions/listen", b"{}")))
    assert harness.out == []


def test_a_subscription_that_a_call_has_opened_is_only_stored():
    harness = harness_in(S.READY)
    harness.step(e.Subscribed("k", ("resources/subscribe", b'{"uri":"x:y"}'), None, True))
    assert harness.out == []
    harness.down()
    harness.reconnect().agree()
    assert "resources/subscribe" in harness.methods()


def test_subscriptions_are_always_opened_again(subtests):
    for versions in (HANDSHAKE, STATELESS):
        with subtests.test(versions=versions):
            harness = Harness(versions=versions).ready()
            harness.step(SUBSCRIPTION)
            harness.wrote()
            harness.down()
            assert harness.outcomes_of("k") == 0
            harness.reconnect().agree(versions[0])
            opened = [frame["method"] for frame in harness.frames() if "id" in frame]
            assert opened in (["resources/subscribe"], ["subscriptions/listen"])


def test_an_ended_subscription_is_cancelled_and_removed():
    harness = Harness(versions=STATELESS).ready()
    harness.step(SUBSCRIPTION)
    harness.wrote()
    id = next(x.id for x in harness.core.calls.pending.values() if x.role is Role.SUBSCRIPTION)
    harness.step(e.Unsubscribed("k"))
    assert harness.frames()[0]["params"] == {"requestId": id}
    harness.step(e.Unsubscribed("k"))
    assert harness.out == []
    harness.down()
    harness.reconnect().agree("2026-07-28")
    assert harness.methods() == []


def test_each_subscription_has_its_own_request():
    harness = harness_in(S.READY)
    other = e.Subscribed("other", ("resources/subscribe", b'{"uri":"x:z"}'), None)
    harness.step(SUBSCRIPTION)
    harness.step(other)
    harness.wrote()
    harness.step(e.Unsubscribed("absent"))
    harness.step(e.Unsubscribed("k"))
    (frame,) = harness.frames()
    assert frame["method"] == "notifications/cancelled"
    pending = harness.core.calls.pending.values()
    assert [exchange.caller for exchange in pending if exchange.role is Role.SUBSCRIPTION] == ["other"]
    assert harness.core.subscriptions.kept == {"other": other}


def test_unsubscribing_does_not_affect_waiters():
    harness = harness_in(S.STARTING)
    harness.step(e.ReadyRequested("waiter"))
    harness.step(SUBSCRIPTION)
    harness.step(e.Unsubscribed("k"))
    harness.spawned()
    harness.wrote()
    harness.agree()
    assert harness.only(e.Release) == e.Release("waiter", None)
    assert harness.methods() == ["notifications/initialized"]


def test_a_subscription_that_cannot_be_opened_ends_with_an_error(subtests):
    for how in ("busy", "too large"):
        with subtests.test(how=how):
            harness = Harness(versions=STATELESS, retry_attempts=1, max_frame_bytes=1024).ready()
            padding = b"y" * (2000 if how == "too large" else 1)
            harness.step(e.Subscribed("k", None, ("subscriptions/listen", b'{"x":"%b"}' % padding)))
            if how == "busy":
                harness.refuse(harness.only(e.Send).id)
            ended = harness.effects(e.EndSubscription, harness.history)
            assert [effect.key for effect in ended] == ["k"]
            assert isinstance(ended[0].error, McpError)


# --- waiting for ready, and server facts ------------------------------------------------------------------------------


def test_each_waiter_for_ready_is_released_once():
    harness = harness_in(S.STARTING)
    harness.step(e.ReadyRequested("a"))
    harness.step(e.ReadyRequested("b"))
    harness.step(e.WaitCancelled("b"))
    harness.step(e.WaitCancelled("b"))
    harness.spawned()
    harness.wrote()
    harness.agree()
    assert harness.effects(e.Release) == [e.Release("a", None)]
    harness.step(e.ReadyRequested("c"))
    assert harness.out == [e.Release("c", None)]


def test_waiters_get_the_reason_when_the_connection_ends():
    harness = harness_in(S.BACKOFF)
    harness.step(e.ReadyRequested("a"))
    harness.stop()
    assert isinstance(harness.only(e.Release).error, ShutdownError)


def test_the_server_facts_are_the_last_known_and_marked_stale():
    harness = harness_in(S.INITIALIZING)
    assert (harness.core.server, harness.core.is_stale) == (None, True)
    harness.agree()
    assert (harness.core.server.version, harness.core.is_stale) == ("2025-11-25", False)
    for event in (e.WentDown(1, TransportError("x")), e.StopRequested(), e.Reaped(1)):
        harness.step(event)
        assert (harness.core.server.version, harness.core.is_stale) == ("2025-11-25", True)


def test_a_closed_connection_refuses_everything_with_its_reason(subtests):
    event_cases = [
        e.Called(caller="me", method="ping"),
        e.Notified(caller="me", method="notifications/x"),
        e.ReadyRequested("me"),
    ]
    for event in event_cases:
        for state in (S.CLOSING, S.CLOSED):
            with subtests.test(event=event, state=state):
                harness = harness_in(state)
                harness.step(event)
                (effect,) = harness.out
                assert effect.caller == "me"
                assert effect.error.type == "shutdown"
                assert type(effect.error).__name__ == ("ShutdownError" if state is S.CLOSING else "ClosedError")
