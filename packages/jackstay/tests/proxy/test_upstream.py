"""A server that crashes, hangs or restarts: what callers receive, and when."""

import asyncio
import logging
from contextlib import AsyncExitStack
from typing import Any

import pytest

from jackstay.errors import JsonRpcError, TransportError
from jackstay.proxy import Proxy, ProxyOptions, _upstream
from jackstay.testing import ScriptedError, ScriptedPeer, on_fake_clock
from jackstay.transport import Target
from scripted.between import ERAS, FAST, HANDSHAKE, PAIRS, STATELESS, Between, between


async def refusal(call: Any) -> JsonRpcError:
    """Return the error of a call."""
    with pytest.raises(JsonRpcError) as caught:
        await call
    return caught.value


async def crash(harness: Between) -> None:
    """Crash the server, and wait until the proxy has noticed."""
    harness.peer.crash()
    await asyncio.sleep(0.01)


@pytest.mark.parametrize(("client_version", "server_version"), PAIRS)
@on_fake_clock
async def test_a_call_lost_with_its_server_may_have_run(client_version: str, server_version: str) -> None:
    """A call that was sent is not sent again; the error contains that it may have run."""
    async with between(server_version) as harness:
        client = await harness.join(client_version)
        call = client.submit("tools/call", {"name": "t", "arguments": {}})
        await harness.peer.expect("tools/call")
        harness.peer.crash()
        error = await refusal(call)
        assert error.code == -32603
        assert error.data == {"reason": "lost", "mayHaveRun": True, "retryable": False}
        assert "may have run" in error.message
        assert client.state == "ready", "the proxy stays connected"
        harness.peer.on["tools/call"] = {"content": []}
        await client.tools.call("t")
        assert harness.peer.connections == 2
        assert len(harness.peer.got("tools/call")) == 2


@pytest.mark.parametrize("client_version", ERAS)
@on_fake_clock
async def test_a_call_waits_for_a_server_that_is_down(client_version: str) -> None:
    async with between() as harness:
        client = await harness.join(client_version)
        harness.peer.on["tools/call"] = {"content": []}
        await crash(harness)
        await client.tools.call("t")
        assert len(harness.peer.got("tools/call")) == 1


@on_fake_clock
async def test_a_call_fails_after_wait_and_did_not_run() -> None:
    async with between(wait=5) as harness:
        client = await harness.join()
        harness.peer.reopens = False
        await crash(harness)
        started_at = asyncio.get_running_loop().time()
        error = await refusal(client.submit("tools/call", {"name": "t", "arguments": {}}))
        assert asyncio.get_running_loop().time() - started_at == pytest.approx(5, abs=0.1)
        assert error.data == {"reason": "down", "mayHaveRun": False, "retryable": True}
        assert "did not run" in error.message


@on_fake_clock
async def test_a_call_fails_at_once_if_wait_is_zero() -> None:
    async with between(wait=0) as harness:
        client = await harness.join()
        await crash(harness)
        assert (await refusal(client.submit("tools/call", {"name": "t"}))).data["retryable"] is True  # type: ignore[index,call-overload]


@on_fake_clock
async def test_a_waiting_call_can_be_cancelled() -> None:
    async with between() as harness:
        client = await harness.join()
        await crash(harness)
        call = client.submit("tools/call", {"name": "t", "arguments": {}})
        await asyncio.sleep(0.1)
        call.cancel()
        await asyncio.sleep(5)
        assert harness.peer.connections == 2
        assert harness.peer.got("tools/call") == []


@on_fake_clock
async def test_too_many_calls_are_rejected_as_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of waiting calls is limited; a rejected call did not run."""
    monkeypatch.setattr(_upstream, "MAX_CALLS", 2)
    async with between() as harness:
        client = await harness.join()
        await crash(harness)
        waiting = [client.submit("tools/call", {"name": "t"}) for _ in range(2)]
        await asyncio.sleep(0.01)
        error = await refusal(client.submit("tools/call", {"name": "t"}))
        assert error.data == {"reason": "busy", "mayHaveRun": False, "retryable": True}
        received = [await harness.peer.expect("tools/call") for _ in waiting]
        assert (await refusal(client.submit("tools/call", {"name": "t"}))).data["reason"] == "busy"  # type: ignore[index,call-overload]
        for each in received:
            each.respond({"content": []})
        await asyncio.gather(*waiting)
        harness.peer.on["tools/call"] = {"content": []}
        await client.tools.call("t")


@on_fake_clock
async def test_timeout_cancels_the_call() -> None:
    async with between(timeout=3) as harness:
        client = await harness.join()
        call = client.submit("tools/call", {"name": "t"}, timeout=100)
        await harness.peer.expect("tools/call")
        error = await refusal(call)
        assert error.data == {"reason": "timeout", "mayHaveRun": True, "retryable": False}
        await harness.peer.expect("notifications/cancelled")


@pytest.mark.parametrize(("client_version", "server_version"), PAIRS)
@on_fake_clock
async def test_nothing_is_kept_of_a_cancelled_call(client_version: str, server_version: str) -> None:
    """Also if a stateless-era client waits for a handshake-era server, where the result is not awaited directly."""
    async with between(server_version) as harness:
        client = await harness.join(client_version)
        call = asyncio.ensure_future(client.tools.call("t"))
        await harness.peer.expect("tools/call")
        call.cancel()
        await harness.peer.expect("notifications/cancelled")
        await asyncio.sleep(0.01)
        (upstream,) = harness.proxy._eras.all
        assert (upstream._by_id, len(upstream.in_flight)) == ({}, 0)


@on_fake_clock
async def test_by_default_a_call_has_no_timeout() -> None:
    """The client decides, by cancelling."""
    async with between() as harness:
        client = await harness.join()
        call = client.submit("tools/call", {"name": "t"}, timeout=2000, max_timeout=2000)
        received = await harness.peer.expect("tools/call")
        await asyncio.sleep(1000)
        received.respond({"content": [], "late": True})
        assert (await call)["late"] is True


@pytest.mark.parametrize("result", [b"5", b"[]", b'"text"', b"null"])
@on_fake_clock
async def test_an_invalid_result_is_an_error(result: bytes) -> None:
    async with between() as harness:
        client = await harness.join()
        call = client.submit("tools/call", {"name": "t"})
        received = await harness.peer.expect("tools/call")
        harness.peer.send(b'{"jsonrpc":"2.0","id":%d,"result":%b}' % (received.id, result))
        error = await refusal(call)
        assert error.data == {"reason": "invalid response", "mayHaveRun": True, "retryable": False}


@on_fake_clock
async def test_open_fails_after_one_failed_start() -> None:
    async with ScriptedPeer() as peer:

        def respond_error(_: object) -> None:
            raise ScriptedError(-32000, "out of order")

        peer.on["initialize"] = respond_error
        proxy = Proxy(peer.target, settings=FAST)
        with pytest.raises(JsonRpcError, match="out of order"):
            await proxy.open()
        await proxy.shutdown()
        assert len(peer.got("initialize")) == 1, "one attempt only"


class Unreliable:
    """A target that cannot be opened for a while, with a permanent error: a command that is being reinstalled."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.name, self.is_http, self.init_timeout = "fickle", False, None
        self.is_gone = False
        self.attempts = 0

    async def open(self, *args: Any) -> Any:
        self.attempts += 1
        if self.is_gone:
            raise TransportError("command not found", permanent=True)
        return await self.target.open(*args)


@pytest.mark.parametrize("server_version", ERAS)
@on_fake_clock
async def test_after_the_first_start_restarts_are_unlimited(
    server_version: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Also after the client has closed for good. Subscriptions and the log level are restored."""
    async with ScriptedPeer(server_version) as peer:
        target = Unreliable(peer.target)
        proxy = Proxy(target, ProxyOptions(wait=1000), settings=FAST)
        await proxy.open()
        harness = Between(peer, proxy, stack := AsyncExitStack())
        async with stack:
            client = await harness.join()
            peer.on |= {"resources/subscribe": {}, "logging/setLevel": {}, "tools/call": {"content": []}}

            def listen(params: Any) -> None:
                mark = {"io.modelcontextprotocol/subscriptionId": peer.received[-1].id}
                wanted = params["notifications"]
                peer.notify("notifications/subscriptions/acknowledged", notifications=wanted, _meta=mark)

            peer.on["subscriptions/listen"] = listen
            await client.resources.subscribe("a:b")
            await client.logging.set_level("error")
            before = len(peer.received)
            target.is_gone = True
            with caplog.at_level(logging.WARNING, "jackstay.proxy"):
                peer.crash()
                await asyncio.sleep(20)
            assert "command not found" in caplog.text
            assert target.attempts > 5
            target.is_gone = False
            await client.tools.call("t", timeout=60)
            await asyncio.sleep(1)
            again = [message["method"] for message in peer.received[before:] if "method" in message]
            if server_version == HANDSHAKE:
                assert {"resources/subscribe", "logging/setLevel"} <= set(again)
            else:
                wished = [
                    message.params["notifications"]
                    for message in peer.received[before:]
                    if "notifications" in message.params
                ]
                assert {"resourceSubscriptions": ["a:b"]} in wished
        await proxy.shutdown()


@on_fake_clock
async def test_shutdown_stops_restarts() -> None:
    async with ScriptedPeer() as peer:
        target = Unreliable(peer.target)
        proxy = Proxy(target, settings=FAST)
        await proxy.open()
        target.is_gone = True
        peer.crash()
        await asyncio.sleep(0.1)
        await proxy.shutdown()
        attempts = target.attempts
        await asyncio.sleep(100)
        assert target.attempts == attempts
        assert "Upstream" in repr(proxy)


@pytest.mark.parametrize(("client_version", "server_version"), PAIRS)
@on_fake_clock
async def test_a_restart_with_other_tools_sends_list_changed(client_version: str, server_version: str) -> None:
    """A restart with the same lists sends nothing."""
    async with between(server_version) as harness:
        client = await harness.join(client_version)
        notified: list[str] = []
        client.on_notification(lambda message: notified.append(message.method))
        harness.peer.on |= {
            "tools/list": {"tools": [{"name": "a", "inputSchema": {"type": "object"}}]},
            "prompts/list": {"prompts": []},
        }
        await client.tools.list()
        await client.prompts.list()
        await crash(harness)
        await asyncio.sleep(3)
        assert harness.peer.connections == 2
        assert notified == []
        harness.peer.on["tools/list"] = {"tools": []}
        await crash(harness)
        await asyncio.sleep(3)
        assert notified == ["notifications/tools/list_changed"]
        assert await client.tools.list() == []


@on_fake_clock
async def test_new_clients_get_the_current_declarations() -> None:
    async with between() as harness:
        await harness.join()
        harness.peer.capabilities = {"prompts": {}}
        harness.peer.name = "reborn"
        await crash(harness)
        await asyncio.sleep(3)
        client = await harness.join()
        assert client.server_info is not None
        assert client.server_info.name == "reborn"
        assert set(client.server_capabilities.raw) == {"prompts"}


@on_fake_clock
async def test_notifications_to_a_server_that_is_down_are_dropped() -> None:
    async with between() as harness:
        client = harness.make()
        client.roots.set([])
        await client.open()
        await crash(harness)
        client.roots.set([])
        await asyncio.sleep(3)
        assert harness.peer.got("notifications/roots/list_changed") == []


@on_fake_clock
async def test_a_subscription_at_a_server_that_is_down_fails() -> None:
    async with between(wait=2) as harness:
        harness.peer.on["resources/subscribe"] = {}
        client = await harness.join()
        harness.peer.reopens = False
        await crash(harness)
        assert (await refusal(client.resources.subscribe("a:b"))).data["retryable"] is True  # type: ignore[index,call-overload]
        await client.resources.unsubscribe("a:b")


class IgnoresWrites:
    """A transport handler that ignores written frames, and so takes every frame for unsent."""

    def __init__(self, handler: Any) -> None:
        self.frames_arrived, self.room_made = handler.frames_arrived, handler.room_made
        self.went_down = handler.went_down

    def wrote(self, through: int) -> None:
        """Ignored."""


class Unsent:
    """A target whose transports never report a written frame."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.name, self.is_http, self.init_timeout = "unsent", False, None

    async def open(self, handler: Any, *args: Any) -> Any:
        return await self.target.open(IgnoresWrites(handler), *args)


@pytest.mark.parametrize(("wait", "is_error"), [(30, False), (0, True)])
@on_fake_clock
async def test_an_unsent_call_is_retried_until_the_deadline(wait: float, is_error: bool) -> None:
    async with ScriptedPeer() as peer:
        proxy = Proxy(Unsent(peer.target), ProxyOptions(wait=wait), settings=FAST)
        await proxy.open()
        async with AsyncExitStack() as stack:
            client = await Between(peer, proxy, stack).join()
            call = client.submit("tools/call", {"name": "t"})
            await peer.expect("tools/call")
            peer.crash()
            if is_error:
                assert (await refusal(call)).data == {
                    "reason": "down",
                    "mayHaveRun": False,
                    "retryable": True,
                }
            else:
                (await peer.expect("tools/call")).respond({"content": []})
                await call
        await proxy.shutdown()


@on_fake_clock
async def test_a_call_during_the_loss_waits() -> None:
    """The client knows of the loss before the proxy does; the call was not sent."""
    async with between() as harness:
        client = await harness.join()
        upstream = harness.proxy._eras.first
        assert upstream is not None
        await crash(harness)
        upstream._is_ready.set()
        harness.peer.on["tools/call"] = {"content": []}
        await client.tools.call("t")
        assert len(harness.peer.got("tools/call")) == 1


@on_fake_clock
async def test_shutdown_cancels_requests_of_the_proxy() -> None:
    async with between() as harness:
        client = await harness.join()
        harness.peer.on["tools/list"] = {"tools": []}
        await client.tools.list()
        harness.peer.on["tools/list"] = None
        await crash(harness)
        await harness.peer.expect("tools/list", 2)
        await harness.proxy.shutdown()


@on_fake_clock
async def test_messages_after_a_timeout_still_belong_to_the_client() -> None:
    """The server may still work on the call, as after a cancellation."""
    async with between(timeout=3) as harness:
        one, two = await harness.join(), await harness.join()
        notified: list[Any] = []
        one.on_notification(lambda _: notified.append("one"))
        two.on_notification(lambda _: notified.append("two"))
        await refusal(one.submit("tools/call", {"name": "t"}, timeout=100))
        harness.peer.notify("notifications/message", level="info", data="of the first")
        await asyncio.sleep(1)
        assert notified == ["one"]
        await asyncio.sleep(20)
        harness.peer.notify("notifications/message", level="info", data="outside")
        await asyncio.sleep(1)
        assert notified == ["one", "one"], "the server has served no other client"


@on_fake_clock
async def test_subscriptions_are_restored_after_a_long_outage() -> None:
    """One that the server now rejects does not affect the others."""
    async with ScriptedPeer() as peer:
        target = Unreliable(peer.target)
        proxy = Proxy(target, ProxyOptions(wait=1), settings=FAST)
        await proxy.open()
        harness = Between(peer, proxy, stack := AsyncExitStack())
        async with stack:
            client = await harness.join()
            notified: list[str] = []
            peer.on["resources/subscribe"] = {}
            for uri in ("a:1", "a:2", "a:3"):
                await client.resources.subscribe(uri, notified.append)
            target.is_gone = True
            peer.crash()
            await asyncio.sleep(20)

            def subscribe(params: Any) -> Any:
                if params["uri"] == "a:1":
                    raise ScriptedError(-32002, "it no longer exists")
                return {}

            peer.on["resources/subscribe"] = subscribe
            target.is_gone = False
            await asyncio.sleep(20)
            again = [message.params["uri"] for message in peer.got("resources/subscribe")[3:]]
            assert again == ["a:1", "a:2", "a:3"]
            peer.notify("notifications/resources/updated", uri="a:3")
            await asyncio.sleep(1)
            assert notified == ["a:3"]
        await proxy.shutdown()


@on_fake_clock
async def test_cancelling_one_subscribe_does_not_cancel_another() -> None:
    async with between() as harness:
        one, two = await harness.join(), await harness.join()
        first = one.submit("resources/subscribe", {"uri": "a:b"})
        await harness.peer.expect("resources/subscribe")
        second = two.submit("resources/subscribe", {"uri": "a:b"})
        await asyncio.sleep(0.1)
        harness.peer.on["resources/subscribe"] = {}
        first.cancel()
        assert await second == {}
        assert len(harness.peer.got("resources/subscribe")) == 2


@on_fake_clock
async def test_a_server_lost_while_lists_are_compared_sends_nothing() -> None:
    async with between() as harness:
        harness.peer.on["tools/list"] = {"tools": []}
        client = await harness.join()
        notified: list[str] = []
        client.on_notification(lambda message: notified.append(message.method))
        await client.tools.list()
        del harness.peer.on["tools/list"]
        await crash(harness)
        await harness.peer.expect("tools/list", 2)
        await crash(harness)
        harness.peer.on["tools/list"] = {"tools": []}
        await asyncio.sleep(10)
        assert len(harness.peer.got("tools/list")) == 3
        assert notified == []


@on_fake_clock
async def test_an_unsent_call_of_a_stateless_client_is_retried() -> None:
    """At a handshake server, if only the failing calls show that it is down, as over HTTP."""
    async with ScriptedPeer() as peer:
        proxy = Proxy(Unsent(peer.target), ProxyOptions(), settings=FAST)
        await proxy.open()
        async with AsyncExitStack() as stack:
            client = await Between(peer, proxy, stack).join(STATELESS)
            call = client.submit("tools/call", {"name": "t"})
            await peer.expect("tools/call")
            peer.crash()
            (await peer.expect("tools/call")).respond({"content": []})
            await call
        await proxy.shutdown()
