"""The driver: effects of the core are performed in order, whatever peers and handlers do meanwhile.

See also `test_driver_telemetry` and `test_driver_transports`.
"""

import asyncio
import itertools
import logging
import threading
from typing import Any

import pytest

from jackstay.client._driver import _PERFORM, Driver
from jackstay.client._epoch_handler import MAX_FRAMES_AT_ONCE
from jackstay.client._telemetry import Telemetry
from jackstay.errors import (
    FrameTooLargeError,
    JsonRpcError,
    McpError,
    OutcomeUnknownError,
    ProtocolError,
    ResetError,
    StateError,
    TransportError,
    UsageError,
)
from jackstay.protocol.client import Settings
from jackstay.protocol.client import events as e
from jackstay.testing import ScriptedPeer, on_fake_clock
from jackstay.transport import memory_pair
from scripted.odd_transport import odd
from scripted.peer import ERAS, HANDSHAKE, STATELESS, listen, now, opened, peered, text_result

LOG_MESSAGE = b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}'
FORM = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}


# --- effects ----------------------------------------------------------------------------------------------------------


def test_every_effect_of_the_core_is_performed() -> None:
    effects = {cls for cls in vars(e).values() if isinstance(cls, type) and issubclass(cls, e.Effect)}
    assert set(_PERFORM) == effects - {e.Effect}


@on_fake_clock
async def test_a_connection_that_was_just_started_can_be_stopped_twice() -> None:
    connection = Driver(memory_pair().client, Settings(), Telemetry("c"))
    connection.start()
    assert repr(connection).startswith("<Driver <ClientConnection client starting")
    await connection.stop()
    await connection.stop()


@on_fake_clock
async def test_a_client_belongs_to_its_loop() -> None:
    async with opened() as (client, peer):
        refused: list[str] = []

        async def elsewhere() -> None:
            for use in (
                lambda: client.tools.call("x"),
                lambda: client.ready(),
                lambda: client.ping(),
                lambda: client.resources.subscribe("file:///a"),
                lambda: client.resources.unsubscribe("file:///a"),
                lambda: client.stop(),
            ):
                try:
                    await use()
                except UsageError as error:
                    refused.append(str(error))

        thread = threading.Thread(target=lambda: asyncio.run(elsewhere()))
        thread.start()
        thread.join(120)
        assert refused == ["the client was opened on another event loop; create one client per event loop"] * 6
        assert peer.got("tools/call") == peer.got("ping") == peer.got("resources/subscribe") == []
        assert client.state == "ready"


@on_fake_clock
async def test_without_callbacks_notifications_are_dropped_and_requests_refused() -> None:
    peer = ScriptedPeer()
    await peer.open()
    connection = Driver(peer.pair.client, Settings(), Telemetry("bare"))
    connection.start()
    await connection.ready(5)
    peer.notify("notifications/message", level="info", data="x")
    peer.request(1, "elicitation/create", FORM)
    assert (await peer.response_to(1))["error"]["code"] == -32601
    connection.step(e.Subscribed("k", ("vendor/subscribe", b"{}"), None))
    message = await peer.expect("vendor/subscribe")
    peer.respond_error(message["id"], -1)
    call = connection.submit("ping", b"{}", bytes)
    await call
    connection.cancel_call(call)
    await connection.stop()
    connection.cancel_call(call)
    await peer.close()


# --- peers that misbehave ---------------------------------------------------------------------------------------------


@on_fake_clock
async def test_invalid_lines_are_skipped_up_to_twenty_in_a_row(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """docs/guarantees.md G15: each is quoted in a warning."""
    caplog.set_level(logging.WARNING, "jackstay.client")
    async with opened() as (client, peer):
        events = listen(client)
        for _ in range(19):
            peer.send(b"Listening on stdio...")
        await client.ping()
        for _ in range(19):
            peer.send(b"still printing")
        await client.ping()
        call = client.submit("tools/call", {"name": "x"})
        await peer.expect("tools/call")
        for _ in range(20):
            peer.send(b"and on and on")
        with pytest.raises(ProtocolError, match="20 invalid frames in a row") as caught:
            await call
        assert caught.value.quote == "and on and on"
        assert caught.value.may_have_run is True
        violations = [fields for name, fields in events if name == "jackstay.protocol.violation"]
        assert len(violations) == 58
        assert violations[0]["frame_size"] == len("Listening on stdio...")
        warnings = [record.getMessage() for record in caplog.records if "so far" in record.getMessage()]
        assert len(warnings) == 8 + len((16, 32)), "each of the first ones, and then ever fewer"
        assert "'Listening on stdio...'" in warnings[0]
        assert warnings[-1].endswith("(frame of 14 bytes; 32 so far)")
        await client.ready(60)


@on_fake_clock
async def test_a_server_that_sends_without_pause_does_not_delay_the_others() -> None:
    peer, frames, handlers = ScriptedPeer(), list[bytes](), list[Any]()
    async with await odd(peer, faults=frames, sends=lambda handler, _: handlers.append(handler)) as client:
        frames += [LOG_MESSAGE] * 1_000
        left = [len(frames)]
        handlers[0].frames_arrived()
        while frames:
            left.append(len(frames))
            await asyncio.sleep(0)
        assert max(before - after for before, after in itertools.pairwise(left)) == MAX_FRAMES_AT_ONCE
        await client.ping()
    await peer.close()


@on_fake_clock
async def test_the_callers_of_some_responses_continue_before_the_others_are_completed() -> None:
    """Their next requests leave in a write of their own, and the server works while the other calls are completed."""
    peer, frames, handlers = ScriptedPeer(), list[bytes](), list[Any]()
    async with await odd(peer, faults=frames, sends=lambda handler, _: handlers.append(handler)) as client:
        calls = [asyncio.ensure_future(client.tools.call("many")) for _ in range(2 * MAX_FRAMES_AT_ONCE)]
        ids = [(await peer.expect("tools/call"))["id"] for _ in calls]
        left: list[int] = []

        async def count_open(first: "asyncio.Future[Any]") -> None:
            await first
            left.append(sum(not call.done() for call in calls))

        followers = [asyncio.ensure_future(count_open(call)) for call in calls]
        await asyncio.sleep(0)
        frames += [b'{"jsonrpc":"2.0","id":%d,"result":{"content":[]}}' % id for id in ids]
        handlers[0].frames_arrived()
        await asyncio.gather(*followers)
        assert left == [MAX_FRAMES_AT_ONCE] * MAX_FRAMES_AT_ONCE + [0] * MAX_FRAMES_AT_ONCE
    await peer.close()


@on_fake_clock
async def test_a_response_that_was_received_before_the_deadline_is_in_time() -> None:
    peer, frames = ScriptedPeer(), list[bytes]()
    async with await odd(peer, faults=frames) as client:
        call = asyncio.ensure_future(client.tools.call("slow", timeout=5))
        id = (await peer.expect("tools/call"))["id"]
        # The transport has it, but callers of other responses keep the event loop busy until after the deadline.
        frames += [b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"done"}]}}' % id]
        assert (await call).text == "done"
    await peer.close()


@on_fake_clock
async def test_a_response_behind_many_messages_is_not_lost_with_the_server() -> None:
    peer, frames, handlers = ScriptedPeer(), list[bytes](), list[Any]()
    async with await odd(peer, faults=frames, sends=lambda handler, _: handlers.append(handler)) as client:
        call = asyncio.ensure_future(client.tools.call("last"))
        message = await peer.expect("tools/call")
        frames += [b'{"jsonrpc":"2.0","id":%d,"result":{"content":[]}}' % message["id"], *[LOG_MESSAGE] * 1_000]
        handlers[0].frames_arrived()
        handlers[0].went_down(TransportError("exited"), 0, False)
        assert (await call).content == []
    await peer.close()


@on_fake_clock
async def test_a_message_over_the_limit_closes_the_connection() -> None:
    async with opened() as (client, peer):
        call = client.submit("tools/call", {"name": "x"})
        await peer.expect("tools/call")
        peer.send(b'"' + b"x" * (17 * 1024 * 1024) + b'"')
        with pytest.raises(FrameTooLargeError) as caught:
            await call
        assert caught.value.may_have_run is True
        await client.ready(60)
        with pytest.raises(FrameTooLargeError) as refused:
            await client.tools.call("x", {"text": "x" * (17 * 1024 * 1024)})
        assert refused.value.may_have_run is False
        await client.ping()


@pytest.mark.parametrize("version", ERAS)
@on_fake_clock
async def test_a_silent_server_is_disconnected(version: str) -> None:
    async with opened(version, keepalive=5) as (client, peer):
        method = "ping" if version == HANDSHAKE else "server/discover"
        before = len(peer.got(method))
        await asyncio.sleep(6)
        assert len(peer.got(method)) == before, "the negotiation counts as activity"
        await asyncio.sleep(5)
        assert len(peer.got(method)) == before + 1
        peer.on[method] = lambda params: None
        await peer.until(lambda: len(peer.got(method)) >= before + 3)
        call = client.submit("tools/call", {"name": "x"})
        with pytest.raises(OutcomeUnknownError, match="no response to 2 keepalives"):
            await call


@on_fake_clock
async def test_a_reset_fails_pending_calls_and_reconnects_soon() -> None:
    async with opened() as (client, peer):
        call = client.submit("tools/call", {"name": "x"})
        await peer.expect("tools/call")
        peer.send({"jsonrpc": "2.0", "method": "$/reset"})
        with pytest.raises(ResetError):
            await call
        start = now()
        await client.ready(60)
        assert now() - start <= 1.01


@on_fake_clock
async def test_a_server_that_sends_initialize_is_disconnected() -> None:
    async with opened() as (client, peer):
        peer.request(1, "initialize")
        await peer.until(lambda: peer.connections == 2)
        await client.ready(60)
        assert peer.responses(1) == []


# --- handlers of requests ---------------------------------------------------------------------------------------------


@on_fake_clock
async def test_pings_are_answered_while_a_handler_works_and_a_cancelled_handler_answers_nothing() -> None:
    async with opened() as (client, peer):
        started, cancelled = asyncio.Event(), asyncio.Event()

        async def elicit(params: Any) -> Any:
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()

        client.elicitation.handle(elicit)
        peer.request("slow", "elicitation/create", FORM)
        await started.wait()
        peer.request("p", "ping")
        assert (await peer.response_to("p"))["result"] == {}
        peer.notify("notifications/cancelled", requestId="slow")
        await cancelled.wait()
        await client.ping()
        assert peer.responses("slow") == []


@on_fake_clock
async def test_a_handler_that_ignores_cancellation_does_not_answer_a_newer_request() -> None:
    async with opened() as (client, peer):
        from jackstay.types import ElicitResult

        started, order = asyncio.Event(), []

        async def elicit(params: Any) -> ElicitResult:
            number = len(order)
            order.append(number)
            started.set()
            try:
                await asyncio.sleep(5)
            except asyncio.CancelledError:
                await asyncio.sleep(1)
                return ElicitResult(action="accept")
            return ElicitResult(action="decline")

        client.elicitation.handle(elicit)
        peer.request(1, "elicitation/create", FORM)
        await started.wait()
        peer.notify("notifications/cancelled", requestId=1)
        peer.request(1, "elicitation/create", FORM)
        answer = await peer.response_to(1)
        assert answer["result"]["action"] == "decline"
        assert len(peer.responses(1)) == 1


@on_fake_clock
async def test_a_handler_that_cancels_itself_causes_an_error_response() -> None:
    async with opened() as (client, peer):

        async def elicit(params: Any) -> Any:
            raise asyncio.CancelledError

        client.elicitation.handle(elicit)
        peer.request(1, "elicitation/create", FORM)
        assert (await peer.response_to(1))["error"]["message"] == "the handler was cancelled"


@on_fake_clock
async def test_exceptions_of_a_handler_become_error_responses() -> None:
    cases: list[tuple[Exception, int, Any]] = [
        (JsonRpcError(-1, "no", {"why": 1}), -1, {"why": 1}),
        (JsonRpcError(-1, "no", float("nan")), -1, None),
        (JsonRpcError(0, "no", {"why": 1}), 0, {"why": 1}),
        (ProtocolError("no", code=0), 0, None),
        (UsageError("no"), -32603, None),
        (ProtocolError("no", code=-32602), -32602, None),
        (ZeroDivisionError("a secret"), -32603, None),
    ]
    async with opened() as (client, peer):
        for id, (error, code, data) in enumerate(cases):

            async def elicit(params: Any, error: Exception = error) -> Any:
                raise error

            client.elicitation.handle(elicit)
            peer.request(id, "elicitation/create", FORM)
            response = (await peer.response_to(id))["error"]
            assert (response["code"], response.get("data")) == (code, data), error
            assert "secret" not in response["message"]


@on_fake_clock
async def test_progress_waits_in_order_and_belongs_to_its_call() -> None:
    async with opened() as (client, peer):
        events = listen(client)
        received_messages: list[Any] = []
        call = client.submit("tools/call", {"name": "x"}, on_progress=received_messages.append)
        await peer.expect("tools/call")
        peer.notify("notifications/progress", progressToken=call.id, progress=1)
        await client.ping()
        assert len(received_messages) == 1
        assert client._requests.connection.pop_reported_call("theirs") is None
        received = [fields["method"] for name, fields in events if name == "jackstay.notification.received"]
        assert received == ["notifications/progress"]
        await client.stop(drain=1)
        with pytest.raises(McpError):
            await call


@on_fake_clock
async def test_server_information_and_subscription_keys_are_available() -> None:
    async with peered(STATELESS) as (client, peer):
        await client.open(wait=False)
        connection = client._requests.connection
        with pytest.raises(StateError):
            connection.server()
        assert connection.core.is_stale
        await client.ready(5)
        assert not connection.core.is_stale
        connection.step(e.Subscribed("k", None, ("subscriptions/listen", b"{}")))
        id = (await peer.expect("subscriptions/listen"))["id"]
        assert connection.subscription_key(id) == "k"
        assert (
            connection.subscription_key(id + 1)
            is connection.subscription_key("k")
            is connection.subscription_key(None)
            is None
        )
        peer.respond_error(id, -1)
        await client.ping()
        assert connection.subscription_key(id) is None


@on_fake_clock
async def test_handlers_that_hang_are_cancelled_when_it_stops() -> None:
    async with opened() as (client, peer):
        started = asyncio.Event()

        async def hang(notification: Any) -> None:
            started.set()
            await asyncio.Event().wait()

        client.on_notification(hang)
        peer.notify("notifications/message", level="info", data="x")
        await started.wait()
        await client.stop()
        assert now() < 0.1


@on_fake_clock
async def test_withdrawing_a_waiting_call_or_one_of_a_lost_transport_does_nothing() -> None:
    async with opened(wait_for_ready=True) as (client, peer):
        peer.crash()
        await peer.until(lambda: client.state == "backoff")
        waiting = client.submit("tools/call", {"name": "x"})
        waiting.cancel()
        await client.ready(60)
        await client.ping()
        assert peer.got("tools/call") == []
        client._requests.connection._withdraw(e.Withdraw(1, 99))
        client._requests.connection._transport = None
        client._requests.connection._withdraw(e.Withdraw(1, 99))


@on_fake_clock
async def test_a_permanent_failure_to_open_closes_it() -> None:
    async def fail(handler: Any) -> None:
        raise TransportError("no such command", permanent=True)

    peer = ScriptedPeer()
    client = await odd(peer, opens=fail)
    with pytest.raises(TransportError, match="no such command"):
        await client.open()
    await peer.close()


@on_fake_clock
async def test_a_start_that_ends_after_the_next_has_begun_is_closed() -> None:
    peer, starts, closes = ScriptedPeer(), [], []

    async def first_is_slow(handler: Any) -> None:
        starts.append(1)
        if len(starts) == 1:
            for _ in range(3):
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    pass

    async def note() -> None:
        closes.append(1)

    client = await odd(peer, {"init_timeout": 1, "close_step": 0.5}, opens=first_is_slow, closes=note)
    await client.open()
    assert len(starts) == 2
    await asyncio.sleep(200)
    assert closes == [1], "the first one, when it opened at last"
    assert client.state == "ready"
    await client.stop()
    await peer.close()


@on_fake_clock
async def test_a_loss_cancels_the_handlers_of_the_old_connection() -> None:
    async with opened() as (client, peer):
        ended = asyncio.Event()

        async def elicit(params: Any) -> Any:
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        client.elicitation.handle(elicit)
        peer.request(1, "elicitation/create", FORM)
        await client.ping()
        peer.crash()
        await ended.wait()
        await client.ready(60)
        assert peer.responses(1) == []


@on_fake_clock
async def test_a_notification_that_cannot_be_handled_does_not_stop_the_next(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with opened() as (client, peer):
        received_messages: list[str] = []
        connection = client._requests.connection

        async def on_notice(notice: Any) -> None:
            received_messages.append(notice.method)
            if len(received_messages) == 1:
                raise ZeroDivisionError("a defect")
            if len(received_messages) == 2:
                raise asyncio.CancelledError

        connection.on_notice = on_notice
        with caplog.at_level(logging.ERROR, "jackstay.client"):
            for name in "abc":
                peer.notify(f"notifications/{name}")
            await client.ping()
            for _ in range(5):
                await asyncio.sleep(0)
        assert received_messages == ["notifications/a", "notifications/b", "notifications/c"]
        assert "handling a notification failed" in caplog.text


@on_fake_clock
async def test_an_early_timer_is_kept_and_rearmed() -> None:
    async with opened(STATELESS, request_timeout=5) as (client, peer):
        first = client.submit("tools/call", {"name": "a"}, timeout=1)
        await peer.expect("tools/call")
        peer.respond(first.id, text_result("a"))
        await first
        with pytest.raises(McpError):
            await client.tools.call("b", timeout=3)
        assert now() == pytest.approx(3, abs=0.1)
