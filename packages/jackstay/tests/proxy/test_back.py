"""A server behind that dies, hangs, comes back, or comes back as another: what its callers are told, and when."""

import asyncio
import logging
from contextlib import AsyncExitStack
from typing import Any

import pytest

from jackstay.errors import JsonRpcError, TransportError
from jackstay.proxy import Proxy, ProxyOptions, _back
from jackstay.testing import Refusal, ScriptedPeer, on_fake_clock
from jackstay.transport import Target
from scripted.between import ERAS, FAST, HANDSHAKE, PAIRS, STATELESS, Between, between


async def refusal(call: Any) -> JsonRpcError:
    """What a call ended with."""
    with pytest.raises(JsonRpcError) as told:
        await call
    return told.value


async def gone(made: Between) -> None:
    """The server is gone, and everybody has noticed."""
    made.peer.die()
    await asyncio.sleep(0.01)


@pytest.mark.parametrize(("front", "back"), PAIRS)
@on_fake_clock
async def test_a_call_that_was_lost_with_its_server_is_told_that_it_may_have_run(
    front: str, back: str
) -> None:
    """Never run twice: what was sent is not sent again, and the answer says so to programs and people."""
    async with between(back) as made:
        client = await made.join(front)
        call = client.submit("tools/call", {"name": "t", "arguments": {}})
        await made.peer.expect("tools/call")
        made.peer.die()
        told = await refusal(call)
        assert told.code == -32603
        assert told.data == {"reason": "lost", "mayHaveRun": True, "retryable": False}
        assert "may have run" in told.message
        assert client.state == "ready", "the front stays"
        made.peer.on["tools/call"] = {"content": []}
        await client.tools.call("t")
        assert made.peer.connections == 2
        assert len(made.peer.got("tools/call")) == 2


@pytest.mark.parametrize("front", ERAS)
@on_fake_clock
async def test_a_call_made_while_the_server_is_away_waits_for_it(front: str) -> None:
    async with between() as made:
        client = await made.join(front)
        made.peer.on["tools/call"] = {"content": []}
        await gone(made)
        await client.tools.call("t")
        assert len(made.peer.got("tools/call")) == 1


@on_fake_clock
async def test_a_call_does_not_wait_for_ever_and_is_told_that_it_did_not_run() -> None:
    async with between(wait=5) as made:
        client = await made.join()
        made.peer.returns = False
        await gone(made)
        begun = asyncio.get_running_loop().time()
        told = await refusal(client.submit("tools/call", {"name": "t", "arguments": {}}))
        assert asyncio.get_running_loop().time() - begun == pytest.approx(5, abs=0.1)
        assert told.data == {"reason": "down", "mayHaveRun": False, "retryable": True}
        assert "did not run" in told.message


@on_fake_clock
async def test_without_waiting_a_call_fails_at_once() -> None:
    async with between(wait=0) as made:
        client = await made.join()
        await gone(made)
        assert (await refusal(client.submit("tools/call", {"name": "t"}))).data["retryable"] is True  # type: ignore[index,call-overload]


@on_fake_clock
async def test_a_call_that_is_cancelled_while_it_waits_never_reaches_the_server() -> None:
    async with between() as made:
        client = await made.join()
        await gone(made)
        call = client.submit("tools/call", {"name": "t", "arguments": {}})
        await asyncio.sleep(0.1)
        call.cancel()
        await asyncio.sleep(5)
        assert made.peer.connections == 2
        assert made.peer.got("tools/call") == []


@on_fake_clock
async def test_too_many_calls_are_refused_as_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits here is bounded; what is refused surely did not run."""
    monkeypatch.setattr(_back, "MOST_CALLS", 2)
    async with between() as made:
        client = await made.join()
        await gone(made)
        waiting = [client.submit("tools/call", {"name": "t"}) for _ in range(2)]
        await asyncio.sleep(0.01)
        told = await refusal(client.submit("tools/call", {"name": "t"}))
        assert told.data == {"reason": "busy", "mayHaveRun": False, "retryable": True}
        heard = [await made.peer.expect("tools/call") for _ in waiting]
        assert (await refusal(client.submit("tools/call", {"name": "t"}))).data["reason"] == "busy"  # type: ignore[index,call-overload]
        for each in heard:
            each.answer({"content": []})
        await asyncio.gather(*waiting)
        made.peer.on["tools/call"] = {"content": []}
        await client.tools.call("t")


@on_fake_clock
async def test_a_server_that_does_not_answer_in_time_is_cancelled_where_that_was_asked_for() -> None:
    async with between(timeout=3) as made:
        client = await made.join()
        call = client.submit("tools/call", {"name": "t"}, timeout=100)
        await made.peer.expect("tools/call")
        told = await refusal(call)
        assert told.data == {"reason": "timeout", "mayHaveRun": True, "retryable": False}
        await made.peer.expect("notifications/cancelled")


@on_fake_clock
async def test_a_server_may_take_longer_than_our_own_clients_would_wait() -> None:
    """How long is too long only the client knows."""
    async with between() as made:
        client = await made.join()
        call = client.submit("tools/call", {"name": "t"}, timeout=2000, max_timeout=2000)
        heard = await made.peer.expect("tools/call")
        await asyncio.sleep(1000)
        heard.answer({"content": [], "late": True})
        assert (await call)["late"] is True


@pytest.mark.parametrize("result", [b"5", b"[]", b'"text"', b"null"])
@on_fake_clock
async def test_a_result_that_is_none_is_told_as_such(result: bytes) -> None:
    async with between() as made:
        client = await made.join()
        call = client.submit("tools/call", {"name": "t"})
        heard = await made.peer.expect("tools/call")
        made.peer.send(b'{"jsonrpc":"2.0","id":%d,"result":%b}' % (heard.id, result))
        told = await refusal(call)
        assert told.data == {"reason": "broken answer", "mayHaveRun": True, "retryable": False}


@on_fake_clock
async def test_one_that_never_starts_is_told_at_once_and_leaves_nothing() -> None:
    async with ScriptedPeer() as peer:

        def refuse(_: object) -> None:
            raise Refusal(-32000, "out of order")

        peer.on["initialize"] = refuse
        proxy = Proxy(peer.target, settings=FAST)
        with pytest.raises(JsonRpcError, match="out of order"):
            await proxy.open()
        await proxy.shutdown()
        assert len(peer.got("initialize")) == 1, "a command asks once"


class Fickle:
    """A target that cannot be opened for a while, for good as it says: a command that is being installed anew."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.name, self.is_http, self.init_timeout = "fickle", False, None
        self.is_gone = False
        self.attempts = 0

    async def open(self, *args: Any) -> Any:
        self.attempts += 1
        if self.is_gone:
            raise TransportError("there is no such command", permanent=True)
        return await self.target.open(*args)


@pytest.mark.parametrize("back", ERAS)
@on_fake_clock
async def test_after_a_first_success_it_is_tried_for_ever(
    back: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Also where a client gives up for good; what was wanted of the first server is wanted of the last."""
    async with ScriptedPeer(back) as peer:
        target = Fickle(peer.target)
        proxy = Proxy(target, ProxyOptions(wait=1000), settings=FAST)
        await proxy.open()
        made = Between(peer, proxy, stack := AsyncExitStack())
        async with stack:
            client = await made.join()
            peer.on |= {"resources/subscribe": {}, "logging/setLevel": {}, "tools/call": {"content": []}}

            def listen(params: Any) -> None:
                mark = {"io.modelcontextprotocol/subscriptionId": peer.heard[-1].id}
                told = params["notifications"]
                peer.notify("notifications/subscriptions/acknowledged", notifications=told, _meta=mark)

            peer.on["subscriptions/listen"] = listen
            await client.resources.subscribe("a:b")
            await client.logging.set_level("error")
            before = len(peer.heard)
            target.is_gone = True
            with caplog.at_level(logging.WARNING, "jackstay.proxy"):
                peer.die()
                await asyncio.sleep(20)
            assert "there is no such command" in caplog.text
            assert target.attempts > 5
            target.is_gone = False
            await client.tools.call("t", timeout=60)
            await asyncio.sleep(1)
            again = [one["method"] for one in peer.heard[before:] if "method" in one]
            if back == HANDSHAKE:
                assert {"resources/subscribe", "logging/setLevel"} <= set(again)
            else:
                wished = [
                    one.params["notifications"]
                    for one in peer.heard[before:]
                    if "notifications" in one.params
                ]
                assert {"resourceSubscriptions": ["a:b"]} in wished
        await proxy.shutdown()


@on_fake_clock
async def test_a_proxy_that_ends_while_its_server_is_away_tries_no_more() -> None:
    async with ScriptedPeer() as peer:
        target = Fickle(peer.target)
        proxy = Proxy(target, settings=FAST)
        await proxy.open()
        target.is_gone = True
        peer.die()
        await asyncio.sleep(0.1)
        await proxy.shutdown()
        attempts = target.attempts
        await asyncio.sleep(100)
        assert target.attempts == attempts
        assert "Back" in repr(proxy)


@pytest.mark.parametrize(("front", "back"), PAIRS)
@on_fake_clock
async def test_a_server_that_comes_back_with_other_tools_is_told_of(front: str, back: str) -> None:
    """And one that comes back as it was is not: a client would fetch all its lists again for nothing."""
    async with between(back) as made:
        client = await made.join(front)
        told: list[str] = []
        client.on_notification(lambda one: told.append(one.method))
        made.peer.on |= {
            "tools/list": {"tools": [{"name": "a", "inputSchema": {"type": "object"}}]},
            "prompts/list": {"prompts": []},
        }
        await client.tools.list()
        await client.prompts.list()
        await gone(made)
        await asyncio.sleep(3)
        assert made.peer.connections == 2
        assert told == []
        made.peer.on["tools/list"] = {"tools": []}
        await gone(made)
        await asyncio.sleep(3)
        assert told == ["notifications/tools/list_changed"]
        assert await client.tools.list() == []


@on_fake_clock
async def test_new_clients_are_told_what_the_server_is_now() -> None:
    async with between() as made:
        await made.join()
        made.peer.capabilities = {"prompts": {}}
        made.peer.name = "reborn"
        await gone(made)
        await asyncio.sleep(3)
        client = await made.join()
        assert client.server_info is not None
        assert client.server_info.name == "reborn"
        assert set(client.server_capabilities.raw) == {"prompts"}


@on_fake_clock
async def test_what_cannot_be_said_to_a_server_that_is_away_is_dropped() -> None:
    async with between() as made:
        client = made.make()
        client.roots.set([])
        await client.open()
        await gone(made)
        client.roots.set([])
        await asyncio.sleep(3)
        assert made.peer.got("notifications/roots/list_changed") == []


@on_fake_clock
async def test_a_lost_subscription_to_a_server_that_is_away_is_given_back() -> None:
    async with between(wait=2) as made:
        made.peer.on["resources/subscribe"] = {}
        client = await made.join()
        made.peer.returns = False
        await gone(made)
        assert (await refusal(client.resources.subscribe("a:b"))).data["retryable"] is True  # type: ignore[index,call-overload]
        await client.resources.unsubscribe("a:b")


class Deaf:
    """An owner that is not told what was written, and so takes everything for unsent."""

    def __init__(self, owner: Any) -> None:
        self.frames_arrived, self.room_made = owner.frames_arrived, owner.room_made
        self.went_down = owner.went_down

    def wrote(self, through: int) -> None:
        """Not told."""


class Unsent:
    """A target whose transports never say that a frame was written."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.name, self.is_http, self.init_timeout = "unsent", False, None

    async def open(self, owner: Any, *args: Any) -> Any:
        return await self.target.open(Deaf(owner), *args)


@pytest.mark.parametrize(("wait", "is_told"), [(30, False), (0, True)])
@on_fake_clock
async def test_a_call_that_surely_was_not_sent_is_sent_again_while_there_is_patience(
    wait: float, is_told: bool
) -> None:
    async with ScriptedPeer() as peer:
        proxy = Proxy(Unsent(peer.target), ProxyOptions(wait=wait), settings=FAST)
        await proxy.open()
        async with AsyncExitStack() as stack:
            client = await Between(peer, proxy, stack).join()
            call = client.submit("tools/call", {"name": "t"})
            await peer.expect("tools/call")
            peer.die()
            if is_told:
                assert (await refusal(call)).data == {
                    "reason": "down",
                    "mayHaveRun": False,
                    "retryable": True,
                }
            else:
                (await peer.expect("tools/call")).answer({"content": []})
                await call
        await proxy.shutdown()


@on_fake_clock
async def test_a_call_made_in_the_very_moment_of_the_loss_waits_too() -> None:
    """Its client knows before we are told; it was not sent."""
    async with between() as made:
        client = await made.join()
        back = made.proxy._eras.first
        assert back is not None
        await gone(made)
        back._is_ready.set()
        made.peer.on["tools/call"] = {"content": []}
        await client.tools.call("t")
        assert len(made.peer.got("tools/call")) == 1


@on_fake_clock
async def test_a_proxy_that_ends_gives_up_what_it_asked_for_itself() -> None:
    async with between() as made:
        client = await made.join()
        made.peer.on["tools/list"] = {"tools": []}
        await client.tools.list()
        made.peer.on["tools/list"] = None
        await gone(made)
        await made.peer.expect("tools/list", 2)
        await made.proxy.shutdown()


@on_fake_clock
async def test_what_a_server_says_after_a_timeout_is_still_for_whom_it_worked() -> None:
    """It may go on with a call that was given up for it, as with one that was cancelled."""
    async with between(timeout=3) as made:
        one, two = await made.join(), await made.join()
        told: list[Any] = []
        one.on_notification(lambda _: told.append("one"))
        two.on_notification(lambda _: told.append("two"))
        await refusal(one.submit("tools/call", {"name": "t"}, timeout=100))
        made.peer.notify("notifications/message", level="info", data="of the first")
        await asyncio.sleep(1)
        assert told == ["one"]
        await asyncio.sleep(20)
        made.peer.notify("notifications/message", level="info", data="of nobody")
        await asyncio.sleep(1)
        assert told == ["one", "one"], "the server has served nobody else"


@on_fake_clock
async def test_subscriptions_outlast_an_absence_that_is_longer_than_calls_wait() -> None:
    """And one that the server refuses now does not take the others along."""
    async with ScriptedPeer() as peer:
        target = Fickle(peer.target)
        proxy = Proxy(target, ProxyOptions(wait=1), settings=FAST)
        await proxy.open()
        made = Between(peer, proxy, stack := AsyncExitStack())
        async with stack:
            client = await made.join()
            told: list[str] = []
            peer.on["resources/subscribe"] = {}
            for uri in ("a:1", "a:2", "a:3"):
                await client.resources.subscribe(uri, told.append)
            target.is_gone = True
            peer.die()
            await asyncio.sleep(20)

            def subscribe(params: Any) -> Any:
                if params["uri"] == "a:1":
                    raise Refusal(-32002, "it is no more")
                return {}

            peer.on["resources/subscribe"] = subscribe
            target.is_gone = False
            await asyncio.sleep(20)
            again = [one.params["uri"] for one in peer.got("resources/subscribe")[3:]]
            assert again == ["a:1", "a:2", "a:3"]
            peer.notify("notifications/resources/updated", uri="a:3")
            await asyncio.sleep(1)
            assert told == ["a:3"]
        await proxy.shutdown()


@on_fake_clock
async def test_who_gives_up_subscribing_does_not_take_along_who_waits_for_the_same() -> None:
    async with between() as made:
        one, two = await made.join(), await made.join()
        first = one.submit("resources/subscribe", {"uri": "a:b"})
        await made.peer.expect("resources/subscribe")
        second = two.submit("resources/subscribe", {"uri": "a:b"})
        await asyncio.sleep(0.1)
        made.peer.on["resources/subscribe"] = {}
        first.cancel()
        assert await second == {}
        assert len(made.peer.got("resources/subscribe")) == 2


@on_fake_clock
async def test_a_server_that_falls_over_while_its_lists_are_compared_changes_nothing() -> None:
    async with between() as made:
        made.peer.on["tools/list"] = {"tools": []}
        client = await made.join()
        told: list[str] = []
        client.on_notification(lambda one: told.append(one.method))
        await client.tools.list()
        del made.peer.on["tools/list"]
        await gone(made)
        await made.peer.expect("tools/list", 2)
        await gone(made)
        made.peer.on["tools/list"] = {"tools": []}
        await asyncio.sleep(10)
        assert len(made.peer.got("tools/list")) == 3
        assert told == []


@on_fake_clock
async def test_a_call_of_a_stateless_client_is_sent_again_too_where_it_surely_was_not_sent() -> None:
    """To a server with a handshake that is away, and of which only the failing calls tell, as over HTTP."""
    async with ScriptedPeer() as peer:
        proxy = Proxy(Unsent(peer.target), ProxyOptions(), settings=FAST)
        await proxy.open()
        async with AsyncExitStack() as stack:
            client = await Between(peer, proxy, stack).join(STATELESS)
            call = client.submit("tools/call", {"name": "t"})
            await peer.expect("tools/call")
            peer.die()
            (await peer.expect("tools/call")).answer({"content": []})
            await call
        await proxy.shutdown()
