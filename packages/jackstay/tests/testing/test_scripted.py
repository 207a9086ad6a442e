"""The scripted peer, used as somebody would who tests code of his own with it."""

import asyncio
import re
from typing import Any

import pytest

from jackstay.client import connect
from jackstay.errors import FrameTooLargeError, JsonRpcError, OutcomeUnknownError, TransportError, UsageError
from jackstay.protocol import VERSIONS
from jackstay.testing import Heard, Refusal, ScriptedPeer, on_fake_clock
from jackstay.types import CreateMessageResult, TextContent
from scripted.places import ROOT

TEXT = {"content": [{"type": "text", "text": "done"}]}


@on_fake_clock
async def test_a_request_is_expected_reported_on_and_answered() -> None:
    """Expect this, answer so."""
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
        request.answer(TEXT)
        assert (await calling).text == "done"
        assert reports == [1.0]
        (initialized,) = peer.got("notifications/initialized")
        assert (initialized.id, initialized.params) == (None, {})
    assert repr(peer).startswith("<ScriptedPeer scripted 2025-11-25 closed")


@on_fake_clock
async def test_progress_that_nobody_asked_for_is_refused() -> None:
    async with ScriptedPeer() as peer, connect(peer.target) as client:
        call = client.submit("tools/call", {"name": "x"})
        request = await peer.expect("tools/call")
        with pytest.raises(UsageError, match="on_progress"):
            request.progress(1)
        request.answer(TEXT)
        await call


@on_fake_clock
async def test_each_message_is_expected_once_and_any_can_be_had_by_its_number() -> None:
    async with ScriptedPeer() as peer, connect(peer.target) as client:
        calls = [client.submit("tools/call", {"name": name}) for name in "abc"]
        names = [(await peer.expect("tools/call")).params["name"] for _ in range(2)]
        assert names == ["a", "b"]
        assert (await peer.expect("tools/call", count=1)).params["name"] == "a"
        assert (await peer.expect("tools/call")).params["name"] == "b", "from there on"
        for request in peer.got("tools/call"):
            request.refuse(-32602, "no such tool", {"known": []})
        for call in calls:
            with pytest.raises(JsonRpcError) as caught:
                await call
            assert (caught.value.code, caught.value.data) == (-32602, {"known": []})


@on_fake_clock
async def test_standing_answers_are_values_functions_or_refusals() -> None:
    async with ScriptedPeer() as peer, connect(peer.target) as client:
        peer.on["tools/call"] = lambda params: {"content": [{"type": "text", "text": params["name"].upper()}]}
        assert (await client.tools.call("shout")).text == "SHOUT"

        def refuse(params: dict[str, Any]) -> None:
            raise Refusal(-32000, "closed on Sundays")

        peer.on["tools/call"] = refuse
        with pytest.raises(JsonRpcError, match="closed on Sundays"):
            await client.tools.call("shout")
        peer.on["ping"] = None
        pinging = asyncio.ensure_future(client.ping(timeout=5))
        (await peer.expect("ping")).answer()
        await pinging


@on_fake_clock
async def test_it_asks_and_notifies() -> None:
    """Send that."""
    notes: list[str] = []
    async with ScriptedPeer() as peer:
        client = connect(peer.target)

        @client.sampling.handle
        async def sample(params: Any) -> CreateMessageResult:
            return CreateMessageResult(role="assistant", content=TextContent(text="4"), model="mine")

        client.on_notification(lambda note: notes.append(note.method))
        async with client:
            peer.notify("notifications/tools/list_changed")
            peer.ask("q", "sampling/createMessage", {"messages": [], "maxTokens": 1})
            answer = await peer.answer_to("q")
            assert isinstance(answer, Heard)
            assert answer["result"]["model"] == "mine"
            peer.send(b"Starting server...")
            await client.ping()
            assert notes == ["notifications/tools/list_changed"]


@on_fake_clock
async def test_it_dies_in_the_middle_of_a_call_and_comes_back() -> None:
    """Die here. G1 and G5 as a user of the client would test them in his own code."""
    async with ScriptedPeer() as peer, connect(peer.target) as client:
        calling = asyncio.ensure_future(client.tools.call("pay"))
        await peer.expect("tools/call")
        peer.die(TransportError("it exploded", exit_code=1))
        with pytest.raises(OutcomeUnknownError, match="it exploded"):
            await calling
        await client.ready()
        assert peer.connections == 2
        peer.on["tools/call"] = TEXT
        assert (await client.tools.call("pay")).text == "done"
        peer.returns = False
        peer.die()
        await peer.until(lambda: repr(peer).count("closed"))
        with pytest.raises(AssertionError, match="nobody is connected"):
            peer.notify("x")


@pytest.mark.parametrize("version", VERSIONS)
def test_it_speaks_every_revision(version: str) -> None:
    @on_fake_clock
    async def test() -> None:
        async with ScriptedPeer(version, {"tools": {}}, name="it") as peer, connect(peer.target) as client:
            assert client.protocol_version == version
            assert client.server_info is not None
            assert client.server_info.name == "it"
            assert client.server_capabilities.resources is None

    test()


def test_a_revision_that_does_not_exist_is_refused() -> None:
    with pytest.raises(UsageError, match="2025-11-25, 2026-07-28, not '1999-01-01'"):
        ScriptedPeer("1999-01-01")


@on_fake_clock
async def test_a_frame_that_is_too_large_for_it_fails_the_test_that_sent_it() -> None:
    peer = ScriptedPeer()
    await peer.open()

    class Large:
        def next_frame(self) -> Any:
            return FrameTooLargeError(2, 1)

    transport, peer._transport = peer._transport, Large()  # type: ignore[assignment]  # more than a test can send
    with pytest.raises(FrameTooLargeError):
        peer.frames_arrived()
    peer._transport = transport
    await peer.close()


def test_the_example_of_the_page_is_a_test_that_passes_and_can_fail() -> None:
    """docs/client.md, "Testing your own code"."""
    page = (ROOT / "docs" / "client.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"## Testing your own code.*?```python(?: test)?\n(.*?)```", page, re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(code, "docs/client.md", "exec"), names)
    tests = [value for name, value in names.items() if name.startswith("test_")]
    crashing, hanging = tests
    crashing()
    hanging()

    async def careless(client: Any, order: int) -> str:
        return str(await client.tools.call("pay", {"order": order}, timeout=31))

    names["pay"] = careless
    with pytest.raises(AssertionError):
        hanging()
