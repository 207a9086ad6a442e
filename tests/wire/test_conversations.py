"""Guarantees of the client, checked in the frames that a scripted server receives.

Each test cites its guarantee (`requirements.py`).
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from jackstay.client import Client, connect
from jackstay.errors import JsonRpcError, McpError, OutcomeUnknownError, TimeoutError
from jackstay.testing import ReceivedMessage, ScriptedPeer, on_fake_clock
from jackstay.transport import MAX_QUEUED_FRAMES
from scripted.peer import ERAS, opened, text_result, tool

# Every request of the client API by method, with a result.
METHODS: dict[str, tuple[Callable[[Client, dict[str, Any]], Awaitable[Any]], dict[str, Any]]] = {
    "tools/list": (lambda c, options: c.tools.list(**options), {"tools": [tool("x")]}),
    "tools/call": (lambda c, options: c.tools.call("x", **options), text_result("hi")),
    "resources/list": (lambda c, options: c.resources.list(**options), {"resources": []}),
    "resources/templates/list": (lambda c, options: c.resources.templates(**options), {"resourceTemplates": []}),
    "resources/read": (lambda c, options: c.resources.read("x:y", **options), {"contents": []}),
    "prompts/list": (lambda c, options: c.prompts.list(**options), {"prompts": []}),
    "prompts/get": (lambda c, options: c.prompts.get("p", **options), {"messages": []}),
    "completion/complete": (
        lambda c, options: c.completion.complete({"type": "ref/prompt", "name": "p"}, "a", "", **options),
        {"completion": {"values": []}},
    ),
}
SAFE = set(METHODS) - {"tools/call"}


def methods(messages: list[ReceivedMessage]) -> list[str]:
    return [message.get("method", "response") for message in messages]


# --- isolation --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ERAS)
@on_fake_clock
async def test_a_request_that_fails_does_not_affect_others(version: str) -> None:
    """docs/guarantees.md G3: an error, an invalid result and an invalid response fail only their own call."""
    async with opened(version) as (client, peer):
        calls = [asyncio.ensure_future(client.tools.call(name)) for name in ("a", "b", "c", "d")]
        requests = [await peer.expect("tools/call") for _ in calls]
        requests[0].respond_error(-32000, "no")
        requests[1].respond({"content": "not a list"})
        peer.send(
            {
                "jsonrpc": "2.0",
                "id": requests[2].id,
                "result": {},
                "error": {"code": 1, "message": "both"},
            }
        )
        requests[3].respond(text_result("fine"))
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert isinstance(results[0], JsonRpcError)
        assert all(isinstance(result, McpError) for result in results[1:3])
        assert [result.may_have_run for result in results[1:3]] == [True, True]  # type: ignore[union-attr]
        assert results[3].text == "fine"  # type: ignore[union-attr]  # checked above
        assert (client.state, peer.connections) == ("ready", 1)


# --- recovery ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("version", ERAS)
@on_fake_clock
async def test_every_method_recovers_in_the_same_way(version: str, method: str) -> None:
    """docs/guarantees.md G5, G6, G7: a lost request is not sent again; the next one succeeds on the new server."""
    make, result = METHODS[method]
    async with opened(version) as (client, peer):
        peer.on[method] = None
        calling = asyncio.ensure_future(make(client, {}))
        await peer.expect(method)
        peer.crash()
        with pytest.raises(OutcomeUnknownError) as caught:
            await calling
        assert (caught.value.method, caught.value.may_have_run) == (method, True)
        assert client.state == "backoff"
        peer.on[method] = result
        await make(client, {"wait_for_ready": True})
        assert len(peer.got(method)) == 2, "the lost request was not sent again"
        assert peer.connections == 2


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("version", ERAS)
def test_safe_requests_are_replayed_once_on_request(version: str, method: str) -> None:
    """docs/guarantees.md G7: `replay="safe"` repeats read-only requests once, with a new id."""
    make, _ = METHODS[method]

    @on_fake_clock
    async def test() -> None:
        async with opened(version, replay="safe") as (client, peer):
            peer.on.setdefault("tools/list", {"tools": []})  # fetched first, for the annotations
            peer.on[method] = None
            calling = asyncio.ensure_future(make(client, {"timeout": 100}))
            await peer.expect(method)
            peer.crash()
            if method not in SAFE:
                with pytest.raises(OutcomeUnknownError):
                    await calling
                return
            again = await peer.expect(method)
            assert again.id != peer.got(method)[0].id
            peer.crash()
            with pytest.raises(OutcomeUnknownError):
                await calling
            await client.ready()
            assert len(peer.got(method)) == 2

    test()


@on_fake_clock
async def test_a_client_can_be_opened_and_closed_in_different_tasks() -> None:
    """docs/guarantees.md G8: `open()`, a call and `stop()` run in three tasks."""
    async with ScriptedPeer() as peer:
        client = connect(peer.target)
        await asyncio.ensure_future(client.open())
        peer.on["tools/call"] = text_result("hi")
        assert (await asyncio.ensure_future(client.tools.call("x"))).text == "hi"
        await asyncio.ensure_future(client.stop())
        assert methods(peer.received) == [
            "server/discover",
            "initialize",
            "notifications/initialized",
            "tools/call",
        ]


# --- cancelling -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ERAS)
@pytest.mark.parametrize("how", ["timeout", "task"])
@on_fake_clock
async def test_a_written_call_is_cancelled_once(version: str, how: str) -> None:
    """docs/guarantees.md G11: its deadline or its task cancels the call; a late response is ignored."""
    async with opened(version) as (client, peer):
        ignored: list[str] = []
        client.on_event(lambda name, _: ignored.append(name) if "response" in name else None)
        calling = asyncio.ensure_future(client.tools.call("x", timeout=5))
        request = await peer.expect("tools/call")
        if how == "task":
            calling.cancel()
        with pytest.raises((TimeoutError, asyncio.CancelledError)):
            await calling
        cancel = await peer.expect("notifications/cancelled")
        assert cancel.params["requestId"] == request.id
        request.respond(text_result("late"))
        await client.ping()
        await asyncio.sleep(100)
        assert len(peer.got("notifications/cancelled")) == 1
        assert ignored == ["jackstay.response.late"]


@on_fake_clock
async def test_a_call_that_was_never_written_is_never_cancelled() -> None:
    """docs/guarantees.md G11: a queued call is removed, and the server receives nothing."""
    async with opened(max_pending=5_000) as (client, peer):
        peer.pair.client.stall()
        calls = [client.submit("tools/call", {"name": str(number)}) for number in range(MAX_QUEUED_FRAMES)]
        calls[7].cancel()
        with pytest.raises(TimeoutError) as caught:
            await client.submit("tools/call", {"name": "busy"}, busy="wait", timeout=1)
        assert caught.value.may_have_run is False
        peer.on["tools/call"] = text_result("hi")
        peer.pair.client.resume()
        await asyncio.gather(*(call for call in calls if call is not calls[7]))
        names = [request.params["name"] for request in peer.got("tools/call")]
        assert names == [str(number) for number in range(MAX_QUEUED_FRAMES) if number != 7]
        assert peer.got("notifications/cancelled") == []


@pytest.mark.parametrize("silent", ["server/discover", "initialize"])
@on_fake_clock
async def test_neither_the_probe_nor_the_handshake_is_ever_cancelled(silent: str) -> None:
    """docs/guarantees.md G11: no `notifications/cancelled` for `initialize` or the probe."""
    async with ScriptedPeer() as peer:
        peer.on[silent] = lambda params: None
        client = connect(peer.target, init_timeout=10, open_timeout=25)
        try:
            await client.open()
        except McpError:
            assert silent == "initialize"
        await client.stop()
        assert peer.got(silent) != []
        assert peer.got("notifications/cancelled") == []


# --- deadlines --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ERAS)
@on_fake_clock
async def test_progress_extends_the_soft_deadline_but_not_the_hard_one(version: str) -> None:
    """docs/guarantees.md G17: 10 s after the last report, and 60 s after the call in any case."""
    async with opened(version) as (client, peer):
        loop = asyncio.get_running_loop()
        calling = asyncio.ensure_future(
            client.tools.call("x", timeout=10, max_timeout=60, on_progress=lambda report: None)
        )
        request = await peer.expect("tools/call")
        began = loop.time()
        for step in range(3):
            await asyncio.sleep(9)
            request.progress(step)
        with pytest.raises(TimeoutError):
            await calling
        assert loop.time() - began == pytest.approx(27 + 10)
        calling = asyncio.ensure_future(
            client.tools.call("x", timeout=10, max_timeout=60, on_progress=lambda report: None)
        )
        request = await peer.expect("tools/call")
        began, step = loop.time(), 0
        while not calling.done():
            request.progress(step := step + 1)
            await asyncio.sleep(5)
        with pytest.raises(TimeoutError):
            await calling
        assert loop.time() - began == pytest.approx(60, abs=5)
        assert len(peer.got("notifications/cancelled")) == 2
