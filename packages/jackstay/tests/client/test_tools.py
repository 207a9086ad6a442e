"""`client.tools`: listed whole, called and checked."""

import asyncio
import inspect
import logging
import sys
from types import MappingProxyType
from typing import Any

import pytest

from jackstay.client._tools import ToolOptions, Tools
from jackstay.errors import (
    CapabilityError,
    JsonRpcError,
    OutcomeUnknownError,
    ProtocolError,
    TimeoutError,
    ToolCallError,
    UsageError,
)
from jackstay.testing import ScriptedError, on_fake_clock
from jackstay.types import CallToolResult, Tool
from scripted.peer import ERAS, opened, text_result, tool

NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.mark.parametrize("version", ERAS)
@on_fake_clock
async def test_a_tool_is_called_with_its_arguments_and_its_result_is_typed(version: str) -> None:
    async with opened(version) as (client, peer):
        peer.on["tools/call"] = text_result("sunny", structuredContent={"sky": "blue"})
        result = await client.tools.call("forecast", {"city": "Bern"})
        assert isinstance(result, CallToolResult)
        assert result.text == "sunny"
        assert result.structured_content == {"sky": "blue"}
        params = peer.got("tools/call")[0]["params"]
        assert (params["name"], params["arguments"]) == ("forecast", {"city": "Bern"})
        await client.tools.call("forecast")
        assert peer.got("tools/call")[1]["params"]["arguments"] == {}


@on_fake_clock
async def test_arguments_must_be_a_mapping_and_nothing_is_sent() -> None:
    async with opened() as (client, peer):
        peer.on["tools/call"] = text_result("sunny")
        for wrong in ("Bern", ["Bern"], ("Bern",), 3, {"Bern"}):
            with pytest.raises(UsageError, match=r"arguments must be a mapping such as \{'city': 'Rome'\}, not "):
                await client.tools.call("forecast", wrong)  # type: ignore[arg-type]  # the mistake that is tested
        assert peer.got("tools/call") == []
        await client.tools.call("forecast", MappingProxyType({"city": "Bern"}))
        assert peer.got("tools/call")[0]["params"]["arguments"] == {"city": "Bern"}


@pytest.mark.parametrize("version", ERAS)
@on_fake_clock
async def test_header_mismatch_outside_stateless_http_does_not_repeat_the_call(version: str) -> None:
    """docs/guarantees.md G3. -32020 means "not dispatched" over stateless HTTP only."""

    def refuse(params: Any) -> None:
        raise ScriptedError(-32020, "out of stock")

    async with opened(version) as (client, peer):
        peer.on["tools/call"] = refuse
        with pytest.raises(JsonRpcError, match="out of stock"):
            await client.tools.call("pay")
        assert len(peer.got("tools/call")) == 1


@on_fake_clock
async def test_a_tool_that_failed_is_a_result_and_a_refusal_is_an_error() -> None:
    async with opened() as (client, peer):
        peer.on["tools/call"] = text_result("no such city", isError=True)
        with pytest.raises(ToolCallError, match="the tool 'forecast' failed: no such city") as failed:
            await client.tools.call("forecast")
        assert (failed.value.tool, failed.value.result.error_text) == ("forecast", "no such city")
        assert (failed.value.may_have_run, failed.value.retryable) == (True, False)
        assert (await client.tools.call("forecast", raise_on_error=False)).is_error
        with pytest.raises(UsageError, match="raise_on_error must be a bool, got 5"):
            await client.tools.call("forecast", raise_on_error=5)

        def refuse(params: Any) -> None:
            raise ScriptedError(-32602, "unknown tool", {"tool": "x"})

        peer.on["tools/call"] = refuse
        with pytest.raises(JsonRpcError) as caught:
            await client.tools.call("x")
        assert (caught.value.code, caught.value.data) == (-32602, {"tool": "x"})
        assert caught.value.may_have_run is None


@on_fake_clock
async def test_tools_require_the_capability() -> None:
    async with opened(server_capabilities={}) as (client, peer):
        with pytest.raises(CapabilityError) as caught:
            await client.tools.call("forecast")
        assert caught.value.required == "tools"
        assert caught.value.may_have_run is False
        with pytest.raises(CapabilityError):
            await client.tools.list()
        assert peer.got("tools/call") == peer.got("tools/list") == []


@on_fake_clock
async def test_an_invalid_result_is_a_protocol_error_that_may_have_run() -> None:
    async with opened() as (client, peer):
        peer.on["tools/call"] = {"content": "text"}
        with pytest.raises(ProtocolError) as caught:
            await client.tools.call("forecast")
        assert caught.value.may_have_run is True
        assert caught.value.path == "$.content"


@on_fake_clock
async def test_every_page_is_fetched_and_determines_the_session_mode() -> None:
    async with opened() as (client, peer):
        pages = {
            None: {"tools": [tool("a", mode="stateless")], "nextCursor": ""},
            "": {"tools": [tool("b", _meta={"mode": "stateless"})], "nextCursor": "2"},
            "2": {"tools": [tool("c", mode="stateless")]},
        }
        peer.on["tools/list"] = lambda params: pages[params.get("cursor")]
        tools = await client.tools.list()
        assert [listed.name for listed in tools] == ["a", "b", "c"]
        assert isinstance(tools[0], Tool)
        assert client.tools.session_mode() == "optional"
        pages["2"] = {"tools": [tool("c")]}
        await client.tools.list()
        assert client.tools.session_mode() == "required"


# --- output -----------------------------------------------------------------------------------------------------------


@on_fake_clock
async def test_output_that_violates_its_schema_is_logged_or_raised(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with opened() as (client, peer):
        peer.on["tools/list"] = {"tools": [tool("count", outputSchema=NUMBER), tool("free")]}
        peer.on["tools/call"] = text_result("one", structuredContent={"n": "one"})
        await client.tools.call("count")
        assert caplog.records == [], "its schema is not known"
        with pytest.raises(ProtocolError, match="violates its output schema") as caught:
            await client.tools.call("count", check_output=True, timeout=5)
        assert caught.value.may_have_run is True
        assert len(peer.got("tools/list")) == 2, "for the data of the first result, and for the check"
        with caplog.at_level(logging.WARNING, "jackstay.client"):
            assert (await client.tools.call("count")).text == "one"
            assert "violates its output schema" in caplog.text
            caplog.clear()
            await client.tools.call("count", check_output=False)
            await client.tools.call("free", check_output=True)
            await client.tools.call("unlisted", check_output=True)
            assert caplog.records == []


@pytest.mark.parametrize(
    ("schema", "output"),
    [
        ({"properties": {"n": {"multipleOf": 0.1}}}, {"n": 10**400}),
        ({"$ref": "#/x", "x": "str"}, {}),
        ({"$id": "http://[::1", "$ref": "x"}, {}),
    ],
)
@on_fake_clock
async def test_an_impossible_check_does_not_fail_a_call_unless_check_output_is_true(
    schema: dict[str, Any], output: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    async with opened() as (client, peer):
        peer.on["tools/list"] = {"tools": [tool("count", outputSchema={"type": "object", **schema})]}
        peer.on["tools/call"] = text_result("one", structuredContent=output)
        await client.tools.list()
        with caplog.at_level(logging.WARNING, "jackstay.client"):
            assert (await client.tools.call("count")).text == "one"
        assert "the schema cannot be used" in caplog.text
        with pytest.raises(ProtocolError, match="the schema cannot be used") as caught:
            await client.tools.call("count", check_output=True)
        assert caught.value.may_have_run is True


@on_fake_clock
async def test_the_time_of_a_check_is_a_setting() -> None:
    async with opened(check_output_timeout=0.001) as (client, peer):
        schema = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(3000)}}
        peer.on["tools/list"] = {"tools": [tool("count", outputSchema=schema)]}
        peer.on["tools/call"] = text_result("one", structuredContent={})
        with pytest.raises(ProtocolError, match=r"checking the schema took longer than 0\.001 s"):
            await client.tools.call("count", check_output=True)


@on_fake_clock
async def test_valid_output_and_failed_tools_pass_the_check() -> None:
    async with opened() as (client, peer):
        peer.on["tools/list"] = {"tools": [tool("count", outputSchema=NUMBER)]}
        peer.on["tools/call"] = text_result("1", structuredContent={"n": 1})
        assert (await client.tools.call("count", check_output=True)).text == "1"
        peer.on["tools/call"] = text_result("no", isError=True)
        assert (await client.tools.call("count", check_output=True, raise_on_error=False)).is_error
        peer.on["tools/call"] = text_result("1")
        with pytest.raises(ProtocolError, match="no structuredContent"):
            await client.tools.call("count", check_output=True)


@on_fake_clock
async def test_null_is_a_valid_output() -> None:
    async with opened() as (client, peer):
        peer.on["tools/list"] = {"tools": [tool("nothing", outputSchema={"type": "null"})]}
        peer.on["tools/call"] = text_result("-", structuredContent=None)
        assert (await client.tools.call("nothing", check_output=True)).text == "-"


@on_fake_clock
async def test_without_the_extra_output_is_not_checked_and_check_output_raises(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "jackstay.client._output", None)
    async with opened() as (client, peer):
        peer.on["tools/list"] = {"tools": [tool("count", outputSchema=NUMBER)]}
        peer.on["tools/call"] = text_result("one", structuredContent={"n": "one"})
        await client.tools.list()
        assert (await client.tools.call("count")).text == "one"
        with pytest.raises(UsageError, match=r"jackstay\[schema\]") as caught:
            await client.tools.call("count", check_output=True)
        assert caught.value.may_have_run is False
        assert len(peer.got("tools/call")) == 1, "it was raised before anything ran"


# --- replay -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hint", ["readOnlyHint", "idempotentHint"])
@on_fake_clock
async def test_a_tool_annotated_as_safe_is_replayed_with_replay_safe(hint: str) -> None:
    async with opened(replay="safe") as (client, peer):
        peer.on["tools/list"] = {"tools": [tool("look", annotations={hint: True}), tool("shoot")]}
        await client.tools.list()
        looking = client.tools.call("look")
        shooting = client.tools.call("shoot")
        tasks = [asyncio.ensure_future(looking), asyncio.ensure_future(shooting)]
        await peer.expect("tools/call", 2)
        peer.on["tools/call"] = text_result("seen")
        peer.crash()
        with pytest.raises(OutcomeUnknownError):
            await tasks[1]
        assert (await tasks[0]).text == "seen"
        names = [message["params"]["name"] for message in peer.got("tools/call")]
        assert names == ["look", "shoot", "look"]
        ids = [message["id"] for message in peer.got("tools/call")]
        assert len(set(ids)) == 3


async def call_and_crash(client: Any, peer: Any, name: str, **options: Any) -> Any:
    """Call this tool, and crash the server when it has received the call."""
    before = len(peer.got("tools/call"))
    task = asyncio.ensure_future(client.tools.call(name, **options))
    await peer.expect("tools/call", before + 1)
    peer.on["tools/call"] = text_result("seen")
    peer.crash()
    return await task


@pytest.mark.parametrize("version", ERAS)
@on_fake_clock
async def test_the_list_is_fetched_for_the_decision_and_once_for_all_calls(version: str) -> None:
    async with opened(version, replay="safe") as (client, peer):
        peer.on["tools/list"] = {"tools": [tool("look", annotations={"readOnlyHint": True}), tool("shoot")]}
        assert (await call_and_crash(client, peer, "look")).text == "seen"
        assert len(peer.got("tools/list")) == 1
        results = await asyncio.gather(*(client.tools.call(name) for name in ("look", "shoot", "look")))
        assert [result.text for result in results] == ["seen"] * 3
        assert len(peer.got("tools/list")) == 1


@on_fake_clock
async def test_calls_made_together_fetch_one_list() -> None:
    async with opened(replay="safe") as (client, peer):
        peer.on["tools/list"] = {"tools": [tool("look")]}
        peer.on["tools/call"] = text_result("seen")
        await asyncio.gather(*(client.tools.call("look") for _ in range(5)))
        assert len(peer.got("tools/list")) == 1


@on_fake_clock
async def test_the_error_of_a_lost_call_explains_why_it_was_not_replayed() -> None:
    async with opened(replay="safe") as (client, peer):
        peer.on["tools/list"] = {"tools": [tool("shoot")]}
        with pytest.raises(OutcomeUnknownError, match="because 'shoot' is annotated neither as read-only nor") as lost:
            await call_and_crash(client, peer, "shoot")
        assert lost.value.may_have_run
        del peer.on["tools/call"]
        with pytest.raises(OutcomeUnknownError, match="the server did not list 'unlisted'"):
            await call_and_crash(client, peer, "unlisted")


@on_fake_clock
async def test_without_replay_nothing_is_listed() -> None:
    async with opened() as (client, peer):
        with pytest.raises(OutcomeUnknownError) as lost:
            await call_and_crash(client, peer, "look")
        assert "not replayed" not in str(lost.value)
        assert peer.got("tools/list") == []


@on_fake_clock
async def test_a_list_that_fails_does_not_fail_the_call(caplog: pytest.LogCaptureFixture) -> None:
    async with opened(replay="safe") as (client, peer):
        peer.on["tools/list"] = {"tools": "none"}
        peer.on["tools/call"] = text_result("seen")
        assert (await client.tools.call("look")).text == "seen"
        assert "listing the tools failed, so 'look' is not replayed after a reconnect" in caplog.text


@on_fake_clock
async def test_a_list_that_takes_too_long_ends_the_call_unsent() -> None:
    async with opened(replay="safe", hang_timeout=None) as (client, peer):
        with pytest.raises(TimeoutError) as late:
            await client.tools.call("look", timeout=2)
        assert (late.value.may_have_run, late.value.timeout) == (False, 2)
        assert peer.got("tools/call") == []


@on_fake_clock
async def test_an_invalid_check_output_is_refused() -> None:
    unclear: Any = "no"
    async with opened() as (client, peer):
        with pytest.raises(UsageError, match="check_output must be a bool, got 'no'"):
            await client.tools.call("count", check_output=unclear)
        assert peer.got("tools/call") == []


def test_help_shows_every_option_of_call() -> None:
    assert set(inspect.signature(Tools.call).parameters) == {"self", "name", "arguments", *ToolOptions.__annotations__}
    assert {"timeout", "raise_on_error"} <= ToolOptions.__annotations__.keys()
