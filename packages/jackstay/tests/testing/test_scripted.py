"""The scripted peer, used as in tests of user code."""

import asyncio
import re
from typing import Any

import pytest

from jackstay.client import connect
from jackstay.errors import FrameTooLargeError, JsonRpcError, OutcomeUnknownError, TransportError, UsageError
from jackstay.protocol import VERSIONS
from jackstay.testing import ReceivedMessage, ScriptedError, ScriptedPeer, on_fake_clock
from jackstay.types import CreateMessageResult, TextContent
from scripted.places import ROOT

TEXT = {"content": [{"type": "text", "text": "done"}]}


@on_fake_clock
async def test_a_request_is_expected_and_gets_progress_and_a_response() -> None:
    reports: list[float] = []
    async with ScriptedPeer() as peer, connect(peer.target) as client:
        calling = asyncio.ensure_future(
            client.tools.call("pay", {"order": 7}, on_progress=lambda report: reports.append(report.progress))
        )
        request = await peer.expect("tools/call")
        assert request.params["arguments"] == {"order": 7}
        assert request == peer.got("tools/call")[0]
        request.progress(1, total=2, message="half")
        await asyncio.sleep(1)
        request.respond(TEXT)
        assert (await calling).text == "done"
        assert reports == [1.0]
        (initialized,) = peer.got("notifications/initialized")
        assert (initialized.id, initialized.params) == (None, {})
    assert repr(peer).startswith("<ScriptedPeer scripted 2025-11-25 closed")


@on_fake_clock
async def test_progress_without_a_token_is_rejected() -> None:
    async with ScriptedPeer() as peer, connect(peer.target) as client:
        call = client.submit("tools/call", {"name": "x"})
        request = await peer.expect("tools/call")
        with pytest.raises(UsageError, match="on_progress"):
            request.progress(1)
        request.respond(TEXT)
        await call


@on_fake_clock
async def test_each_message_is_expected_once_or_by_its_number() -> None:
    async with ScriptedPeer() as peer, connect(peer.target) as client:
        calls = [client.submit("tools/call", {"name": name}) for name in "abc"]
        names = [(await peer.expect("tools/call")).params["name"] for _ in range(2)]
        assert names == ["a", "b"]
        assert (await peer.expect("tools/call", count=1)).params["name"] == "a"
        assert (await peer.expect("tools/call")).params["name"] == "b", "from there on"
        for request in peer.got("tools/call"):
            request.respond_error(-32602, "no such tool", {"known": []})
        for call in calls:
            with pytest.raises(JsonRpcError) as caught:
                await call
            assert (caught.value.code, caught.value.data) == (-32602, {"known": []})


@on_fake_clock
async def test_automatic_responses_are_values_functions_or_errors() -> None:
    async with ScriptedPeer() as peer, connect(peer.target) as client:
        peer.on["tools/call"] = lambda params: {"content": [{"type": "text", "text": params["name"].upper()}]}
        assert (await client.tools.call("upper")).text == "UPPER"

        def fail(params: dict[str, Any]) -> None:
            raise ScriptedError(-32000, "not available", {"until": "noon"})

        peer.on["tools/call"] = fail
        with pytest.raises(JsonRpcError, match="not available") as failed:
            await client.tools.call("upper")
        assert failed.value.data == {"until": "noon"}
        peer.on["ping"] = None
        pinging = asyncio.ensure_future(client.ping(timeout=5))
        (await peer.expect("ping")).respond()
        await pinging


@on_fake_clock
async def test_the_peer_sends_requests_and_notifications() -> None:
    notes: list[str] = []
    async with ScriptedPeer() as peer:
        client = connect(peer.target)

        @client.sampling.handle
        async def sample(params: Any) -> CreateMessageResult:
            return CreateMessageResult(role="assistant", content=TextContent(text="4"), model="test")

        client.on_notification(lambda note: notes.append(note.method))
        async with client:
            peer.notify("notifications/tools/list_changed")
            peer.request("q", "sampling/createMessage", {"messages": [], "maxTokens": 1})
            answer = await peer.response_to("q")
            assert isinstance(answer, ReceivedMessage)
            assert answer["result"]["model"] == "test"
            peer.send(b"Starting server...")
            await client.ping()
            assert notes == ["notifications/tools/list_changed"]


@on_fake_clock
async def test_the_peer_crashes_during_a_call_and_accepts_the_next_connection() -> None:
    """docs/guarantees.md G1 and G5, as tested in user code."""
    async with ScriptedPeer() as peer, connect(peer.target) as client:
        calling = asyncio.ensure_future(client.tools.call("pay"))
        await peer.expect("tools/call")
        peer.crash(TransportError("crashed", exit_code=1))
        with pytest.raises(OutcomeUnknownError, match="crashed"):
            await calling
        await client.ready()
        assert peer.connections == 2
        peer.on["tools/call"] = TEXT
        assert (await client.tools.call("pay")).text == "done"
        peer.reopens = False
        peer.crash()
        await peer.until(lambda: repr(peer).count("closed"))
        with pytest.raises(AssertionError, match="no client is connected"):
            peer.notify("x")


@pytest.mark.parametrize("version", VERSIONS)
@on_fake_clock
async def test_the_peer_supports_every_revision(version: str) -> None:
    async with ScriptedPeer(version, {"tools": {}}, name="scripted server") as peer, connect(peer.target) as client:
        assert client.protocol_version == version
        assert client.server_info is not None
        assert client.server_info.name == "scripted server"
        assert client.server_capabilities.resources is None


def test_an_unknown_revision_is_rejected() -> None:
    with pytest.raises(UsageError, match="2025-11-25, 2026-07-28, not '1999-01-01'"):
        ScriptedPeer("1999-01-01")


@on_fake_clock
async def test_a_frame_over_the_limit_fails_the_test() -> None:
    peer = ScriptedPeer()
    await peer.open()

    class Large:
        def next_frame(self) -> Any:
            return FrameTooLargeError(2, 1)

    transport, peer._transport = peer._transport, Large()  # type: ignore[assignment]  # larger than a test can send
    with pytest.raises(FrameTooLargeError):
        peer.frames_arrived()
    peer._transport = transport
    await peer.close()


def test_the_example_in_the_docs_passes_and_can_fail() -> None:
    """docs/client.md, "Testing your own code"."""
    page = (ROOT / "docs" / "client.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"## Testing your own code.*?```python(?: test)?\n(.*?)```", page, re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(code, "docs/client.md", "exec"), names)
    tests = [value for name, value in names.items() if name.startswith("test_")]
    crashing, hanging = tests
    crashing()
    hanging()

    async def pay_too_late(client: Any, order: int) -> str:
        return str(await client.tools.call("pay", {"order": order}, timeout=31))

    names["pay"] = pay_too_late
    with pytest.raises(AssertionError):
        hanging()
