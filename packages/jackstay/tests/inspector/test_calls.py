"""Tool calls of the page: their lines, failures and cancellation."""

import asyncio

import pytest

from jackstay.inspector import _calls
from jackstay.inspector._calls import ToolCall
from scripted.inspected import Inspected, with_inspected


@with_inspected
async def test_a_result(inspected: Inspected) -> None:
    began, end = await inspected.call("add", a=1)
    assert began["type"] == "began"
    assert (end["type"], end["is_error"], end["structured"], end["texts"]) == ("result", False, {"result": 3}, ["3"])
    assert end["raw"]["structuredContent"] == {"result": 3}
    assert end["seconds"] > 0


@with_inspected
async def test_progress(inspected: Inspected) -> None:
    lines = await inspected.call("count")
    assert [line["type"] for line in lines] == ["began", "progress", "result"]
    assert (lines[1]["progress"], lines[1]["total"], lines[1]["message"]) == (1, 2, "one")


@with_inspected
async def test_an_error_of_the_tool(inspected: Inspected) -> None:
    end = (await inspected.call("broken"))[-1]
    assert (end["type"], end["is_error"]) == ("result", True)


@with_inspected
async def test_a_failure_states_whether_the_tool_may_have_run(inspected: Inspected) -> None:
    assert inspected.inspection.faults is not None
    inspected.inspection.faults.arm("cut")
    end = (await inspected.call("add", a=1))[-1]
    assert (end["type"], end["error"], end["may_have_run"]) == ("failed", "OutcomeUnknownError", True)
    await inspected.inspection.client.stop()
    end = (await inspected.call("add", a=1))[-1]
    assert (end["type"], end["may_have_run"]) == ("failed", False)


@with_inspected
async def test_cancel(inspected: Inspected) -> None:
    calling = asyncio.ensure_future(inspected.call("survey"))
    async for event in inspected.inspection.events.follow():
        if b"event: question\n" in event:
            break
    (id,) = inspected.api._calls
    assert (await inspected.request("DELETE", f"/api/call/{id}")).json == {"cancelled": True}
    assert (await calling)[-1]["type"] == "cancelled"
    assert (await inspected.request("DELETE", f"/api/call/{id}")).json == {"cancelled": False}


@with_inspected
async def test_a_page_that_disconnects_cancels_its_call(inspected: Inspected) -> None:
    call = ToolCall(inspected.inspection.client, "survey", {}, None, "")
    lines = call.lines()
    await anext(lines)
    waiting = asyncio.ensure_future(anext(lines))
    async for event in inspected.inspection.events.follow():
        if b"event: question\n" in event:
            break
    waiting.cancel()
    await asyncio.wait((waiting,))
    await lines.aclose()
    async for event in inspected.inspection.events.follow():
        if b"event: answered\n" in event:
            break
    assert repr(call) == "<ToolCall survey>"


@with_inspected
async def test_a_slow_call_is_kept_alive(inspected: Inspected, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_calls, "KEEPALIVE", 0.001)
    lines = ToolCall(inspected.inspection.client, "survey", {}, None, "").lines()
    await anext(lines)
    assert await anext(lines) == b"\n"
    await lines.aclose()


@with_inspected
async def test_the_log_level_of_a_stateless_server_is_sent_with_each_call(inspected: Inspected) -> None:
    await inspected.post("log-level", level="debug")
    await inspected.call("add", a=1)
    sent = [event["message"] for event in inspected.events("message") if event.get("method") == "tools/call"]
    assert sent[0]["params"]["_meta"]["io.modelcontextprotocol/logLevel"] == "debug"


@with_inspected
async def test_bodies_that_are_not_calls(inspected: Inspected) -> None:
    assert "the body must be" in (await inspected.post("call", 400, tool="add", arguments=[]))["error"]
    assert "the body must be" in (await inspected.post("call", 400, tool="add", timeout="x"))["error"]
    assert await inspected.post("call", 400, tool=1) == {"error": "tool must be a string"}
