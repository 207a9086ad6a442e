"""Toolbox: definitions and calls, with real servers in memory and scripted ones."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from jackstay.client import Client, Fleet, connect
from jackstay.errors import (
    CapabilityError,
    OutcomeUnknownError,
    StateError,
    TimeoutError,
    UsageError,
)
from jackstay.models import SHAPES, ModelCall, Outcome, Toolbox
from jackstay.models._names import model_name
from jackstay.server import Server, ToolError
from jackstay.testing import ScriptedPeer, on_fake_clock
from jackstay.transport import memory_pair
from jackstay.types import ElicitResult, Tool
from peers.in_memory_server import InMemoryServer, with_tools


def listing(*tools: dict[str, Any], name: str = "odd") -> InMemoryServer:
    """Return a server that lists these tools and returns the arguments of a call."""

    def answer(method: str, params: dict[str, Any]) -> Any:
        if method == "tools/list":
            return {"tools": [{"inputSchema": {"type": "object"}, **tool} for tool in tools]}
        return {"content": [{"type": "text", "text": f"{params['name']}({params['arguments']})"}]}

    return InMemoryServer(name, answer)


def use(name: str, input: object, id: str = "1") -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": input}


async def results(toolbox: Toolbox, *blocks: dict[str, Any], **options: Any) -> list[str]:
    """Return the text of each result for an Anthropic response."""
    (message,) = await toolbox.answer(list(blocks), **options)
    return [block["content"][0]["text"] for block in message["content"]]


# --- definitions and calls --------------------------------------------------------------------------------------------

calculator = Server("calculator", version="1")


@calculator.tool(name="math.divide")
def divide(a: float, b: float) -> float:
    """Divide.

    Args:
        a: the dividend
        b: the divisor
    """
    if b == 0:
        raise ToolError("nothing can be divided by zero")
    return a / b


@asynccontextmanager
async def calculator_client() -> AsyncIterator[Client]:
    pair = memory_pair("calculator")
    serving = asyncio.ensure_future(calculator.serve(pair.server))
    async with connect(pair.client) as client:
        yield client
    await serving


def response_with_call(shape: str, name: str, arguments: str) -> Any:
    """Return the complete response of a model with one call."""
    if shape == "openai":
        call = {"id": "1", "type": "function", "function": {"name": name, "arguments": arguments}}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        return {"choices": [{"index": 0, "finish_reason": "tool_calls", "message": message}]}
    if shape == "openai-responses":
        return {"output": [{"type": "function_call", "call_id": "1", "name": name, "arguments": arguments}]}
    if shape == "gemini":
        call = {"name": name, "args": json.loads(arguments)}
        return {
            "candidates": [{"finishReason": "STOP", "content": {"role": "model", "parts": [{"functionCall": call}]}}]
        }
    return {"role": "assistant", "stop_reason": "tool_use", "content": [use(name, arguments)]}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("strict", [False, True])
async def test_a_tool_is_defined_and_called(shape: str, strict: bool) -> None:
    """For each API: the name is mapped both ways, and an error of the tool reaches the model."""
    async with calculator_client() as client:
        toolbox = Toolbox(client, shape, strict=strict)
        assert repr(toolbox) == f"<Toolbox {shape}, not listed, of <Client calculator ready>>"
        (defined,) = await toolbox.definitions()
        if shape == "gemini":
            (defined,) = defined["functionDeclarations"]
        defined = defined.get("function", defined)
        name = defined["name"]
        assert toolbox.tools[name].name == "math.divide"
        assert toolbox.names == {name: "math.divide"}
        assert name.startswith("math_divide_")
        assert defined["description"] == "Divide."
        schema = defined[{"anthropic": "input_schema", "gemini": "parametersJsonSchema"}.get(shape, "parameters")]
        assert schema["properties"]["a"]["description"] == "the dividend"
        assert schema["required"] == ["a", "b"]
        assert defined.get("strict", False) is (strict and shape != "gemini")
        for arguments, expected in (('{"a": 3, "b": 2}', "1.5"), ('{"a": 3, "b": 0}', "divided by zero")):
            assert expected in str(await toolbox.answer(response_with_call(shape, name, arguments)))
        assert repr(toolbox) == f"<Toolbox {shape}, 1 tools, of <Client calculator ready>>"


async def test_a_response_without_calls_sends_nothing() -> None:
    target = with_tools("one", "t")
    async with connect(target) as client:
        assert await Toolbox(client, "anthropic").answer({"content": "Done."}) == []
    assert target.methods() == []


async def test_a_toolbox_that_was_never_listed_lists_once() -> None:
    """A worker can continue a conversation, because the names are stable."""
    target = with_tools("one", "t", "u")
    async with connect(target) as client:
        toolbox = Toolbox(client, "anthropic")
        assert await results(toolbox, use("t", {}), use("u", {}, "2")) == ["one.t({})", "one.u({})"]
        assert target.methods().count("tools/list") == 1
        outcome = await Toolbox(client, "anthropic").run(ModelCall("1", "t", {}))
        assert outcome.text == "one.t({})"


async def test_a_fleet_is_one_toolbox() -> None:
    targets = {"git": with_tools("git", "status"), "my files": with_tools("files", "read")}
    async with Fleet(targets) as fleet:
        toolbox = Toolbox(fleet, "anthropic")
        first, second = [tool["name"] for tool in await toolbox.definitions()]
        assert first == "git__status"
        assert toolbox.names == {first: "git__status", second: "my files__read"}
        assert await results(toolbox, use(first, {"a": 1}), use(second, {}, "2")) == [
            'git.status({"a": 1})',
            "files.read({})",
        ]


@on_fake_clock
async def test_calls_run_at_the_same_time_and_are_answered_in_order() -> None:
    async with ScriptedPeer() as peer, connect(peer.target) as client:
        peer.on["tools/list"] = {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}
        toolbox = Toolbox(client, "anthropic")
        answering = asyncio.ensure_future(results(toolbox, use("t", {"n": 1}), use("t", {"n": 2}, "2")))
        first, second = await peer.expect("tools/call"), await peer.expect("tools/call")
        second.respond({"content": [{"type": "text", "text": "second"}]})
        first.respond({"content": [{"type": "text", "text": "first"}]})
        assert await answering == ["first", "second"]


# --- what may be called -----------------------------------------------------------------------------------------------


async def test_an_excluded_tool_cannot_be_called() -> None:
    def is_read_only(tool: Tool) -> object:
        return tool.annotations is not None and tool.annotations.read_only_hint

    target = listing({"name": "read", "annotations": {"readOnlyHint": True}}, {"name": "delete"})
    async with connect(target) as client:
        toolbox = Toolbox(client, "anthropic", only=is_read_only)
        assert [tool["name"] for tool in await toolbox.definitions()] == ["read"]
        (text,) = await results(toolbox, use("delete", {}))
        assert text == "This call did not run: unknown tool 'delete'; available tools: read."
    assert "tools/call" not in target.methods()


async def test_a_removed_tool_is_not_called() -> None:
    tools = [{"name": "t", "inputSchema": {"type": "object"}}]
    async with connect(InMemoryServer("one", lambda method, params: {"tools": list(tools)})) as client:
        toolbox = Toolbox(client, "anthropic")
        assert len(await toolbox.definitions()) == 1
        tools.clear()
        assert await toolbox.definitions() == []
        assert "available tools: none" in (await results(toolbox, use("t", {})))[0]


async def test_a_long_list_of_names_is_truncated_for_the_model() -> None:
    async with connect(with_tools("many", *(f"t{n:03}" for n in range(200)))) as client:
        (text,) = await results(Toolbox(client, "anthropic"), use("x", {}))
        assert text.endswith("t018, t019, and more.")


async def test_invalid_arguments_are_reported_and_nothing_runs() -> None:
    target = with_tools("one", "t")
    async with connect(target) as client:
        toolbox = Toolbox(client, "anthropic")
        assert "the arguments are not valid JSON" in (await results(toolbox, use("t", "{")))[0]
        assert "must be a JSON object, not an array" in (await results(toolbox, use("t", [1])))[0]
    assert "tools/call" not in target.methods()


async def test_a_truncated_call_does_not_run() -> None:
    target = with_tools("one", "t")
    async with connect(target) as client:
        answer = {"content": [use("t", {"half": 1})], "stop_reason": "max_tokens"}
        (message,) = await Toolbox(client, "anthropic").answer(answer)
        assert "truncated" in str(message)
    assert "tools/call" not in target.methods()


# --- unusual tools ----------------------------------------------------------------------------------------------------


async def test_an_invalid_schema_does_not_affect_the_other_tools(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "jackstay.models"):
        target = listing(
            {"name": "good"},
            {"name": "bad", "inputSchema": {"$ref": "#/$defs/Gone"}},
            {"name": "worse", "inputSchema": {"type": "object", "properties": [1]}},
            {"name": "good", "description": "again"},
        )
        async with connect(target) as client:
            toolbox = Toolbox(client, "openai", strict=True)
            assert [tool["function"]["name"] for tool in await toolbox.definitions()] == ["good"]
            assert list(toolbox.names) == ["good"]
    assert "tool 'bad' is omitted: KeyError" in caplog.text
    assert "tool 'worse' is omitted: AttributeError" in caplog.text
    assert "tool 'good' is listed twice" in caplog.text


async def test_two_tools_with_one_name_are_both_omitted(caplog: pytest.LogCaptureFixture) -> None:
    """Otherwise a server could receive the calls of another tool by using its name."""
    other = model_name("files.read")
    async with connect(listing({"name": "files.read"}, {"name": other}, {"name": "add"})) as client:
        toolbox = Toolbox(client, "openai")
        assert [tool["function"]["name"] for tool in await toolbox.definitions()] == ["add"]
        assert dict(toolbox.names) == {"add": "add"}
        assert f"'files.read' and '{other}'; both are omitted" in caplog.text
        chosen = Toolbox(client, "openai", only=lambda tool: tool.name != other)
        assert len(await chosen.definitions()) == 2


async def test_a_tool_without_a_description_is_described_by_its_title() -> None:
    async with connect(listing({"name": "a", "title": "A tool"}, {"name": "b"})) as client:
        defined = await Toolbox(client, "anthropic").definitions()
        assert [tool["description"] for tool in defined] == ["A tool", ""]


async def test_strict_mode_warns_about_closed_objects_and_removes_its_nulls(
    caplog: pytest.LogCaptureFixture,
) -> None:
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city"],
        "additionalProperties": True,
    }

    with caplog.at_level(logging.WARNING, "jackstay.models"):
        async with connect(listing({"name": "forecast", "inputSchema": schema})) as client:
            toolbox = Toolbox(client, "anthropic", strict=True)
            (defined,) = await toolbox.definitions()
            assert defined["input_schema"]["required"] == ["city", "days"]
            arguments = {"city": "Bergen", "days": None}
            assert await results(toolbox, use("forecast", arguments)) == ["forecast({'city': 'Bergen'})"]
            assert arguments == {"city": "Bergen", "days": None}, "the response of the model is not changed"
    assert "strict mode removes additional properties from an object of tool 'forecast'" in caplog.text


# --- errors -----------------------------------------------------------------------------------------------------------


@on_fake_clock
async def test_a_server_crash_during_a_call_is_reported_as_unknown() -> None:
    async with ScriptedPeer() as peer, connect(peer.target) as client:
        peer.on["tools/list"] = {"tools": [{"name": "pay", "inputSchema": {"type": "object"}}]}
        toolbox = Toolbox(client, "anthropic")
        running = asyncio.ensure_future(toolbox.run(ModelCall("1", "pay", {"order": 7})))
        await peer.expect("tools/call")
        peer.crash()
        outcome = await running
        assert isinstance(outcome.error, OutcomeUnknownError)
        assert "It is unknown whether this call ran" in outcome.text
        assert len(peer.got("tools/call")) == 1, "it is never replayed"


@on_fake_clock
async def test_a_timeout_of_a_call_is_reported_as_unknown() -> None:
    async with ScriptedPeer() as peer, connect(peer.target) as client:
        peer.on["tools/list"] = {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}
        outcome = await Toolbox(client, "openai").run(ModelCall("1", "t", "{}"), timeout=5)
        assert isinstance(outcome.error, TimeoutError)
        assert outcome.error.may_have_run
        await peer.expect("notifications/cancelled")


@on_fake_clock
async def test_cancelling_answer_cancels_every_call() -> None:
    async with ScriptedPeer() as peer, connect(peer.target) as client:
        peer.on["tools/list"] = {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}
        toolbox = Toolbox(client, "anthropic")
        answering = asyncio.ensure_future(toolbox.answer([use("t", {}), use("t", {}, "2")]))
        await peer.expect("tools/call")
        await peer.expect("tools/call")
        answering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await answering
        await peer.expect("notifications/cancelled")
        await peer.expect("notifications/cancelled")


@on_fake_clock
async def test_an_exception_of_a_handler_propagates_and_cancels_the_other_calls() -> None:
    async with ScriptedPeer("2026-07-28") as peer:
        client = connect(peer.target)

        @client.elicitation.handle
        def elicit(params: object) -> ElicitResult:
            raise ZeroDivisionError

        async with client:
            peer.on["tools/list"] = {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}
            answering = asyncio.ensure_future(Toolbox(client, "anthropic").answer([use("t", {}), use("t", {}, "2")]))
            await peer.expect("tools/call")
            second = await peer.expect("tools/call")
            elicitation = {
                "method": "elicitation/create",
                "params": {"message": "?", "requestedSchema": {"type": "object", "properties": {}}},
            }
            second.respond({"resultType": "input_required", "inputRequests": {"q": elicitation}, "requestState": "1"})
            with pytest.raises(ZeroDivisionError):
                await answering
            await peer.expect("notifications/cancelled")


async def test_a_call_that_failed_is_logged_for_the_program(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "jackstay.models"):
        async with connect(with_tools("one", "t")) as client:
            toolbox = Toolbox(client, "anthropic")
            await toolbox.definitions()
        assert "the client was stopped" in (await results(toolbox, use("t", {})))[0]
    assert "the model's call of 't' failed" in caplog.text


async def test_a_bad_option_is_raised() -> None:
    target = with_tools("one", "t")
    cases: list[dict[str, Any]] = [{"timout": 5}, {"timeout": -1}, {"on_progress": 5}]
    async with connect(target) as client:
        for options in cases:
            with pytest.raises(UsageError, match=next(iter(options))):
                await results(Toolbox(client, "anthropic"), use("t", {}), **options)
    assert "tools/call" not in target.methods()


async def test_arguments_that_are_not_json_are_reported_to_the_model() -> None:
    values: list[Any] = [float("nan"), "\ud800", object()]
    async with connect(with_tools("one", "t")) as client:
        for value in values:
            (text,) = await results(Toolbox(client, "anthropic"), use("t", {"a": value}))
            assert "This call did not run" in text


async def test_a_removed_tool_is_reported_to_the_model() -> None:
    tools = [{"name": "t", "inputSchema": {"type": "object"}}]
    async with Fleet({"one": InMemoryServer("one", lambda method, params: {"tools": list(tools)})}) as fleet:
        toolbox = Toolbox(fleet, "anthropic")
        await toolbox.definitions()
        tools.clear()
        await fleet.tools()
        assert "unknown tool 'one__t'" in (await results(toolbox, use("one__t", {})))[0]


async def test_a_program_can_refuse_a_call() -> None:
    target = with_tools("one", "t")
    async with connect(target) as client:
        toolbox = Toolbox(client, "anthropic")
        outcomes = [Outcome(call, error=UsageError("the user declined")) for call in toolbox.calls([use("t", {})])]
        (message,) = toolbox.messages(outcomes)
        assert message["content"][0]["content"][0]["text"] == "This call did not run: the user declined."
    assert target.methods() == []


async def test_an_error_of_listing_the_tools_is_raised() -> None:
    async with connect(InMemoryServer("bare", lambda method, params: {}, capabilities={})) as client:
        toolbox = Toolbox(client, "openai")
        with pytest.raises(CapabilityError):
            await toolbox.definitions()
        with pytest.raises(CapabilityError):
            await toolbox.run(ModelCall("1", "t", "{}"))
    with pytest.raises(StateError):
        await Toolbox(connect(with_tools("one", "t")), "openai").definitions()


def test_an_invalid_source_or_shape_is_refused() -> None:
    with pytest.raises(
        UsageError, match=r"expected a Client or a Fleet, got builtins\.str; .* jackstay\.sync\.Toolbox"
    ):
        Toolbox("git", "openai")  # type: ignore[arg-type]  # the mistake that is tested
    with pytest.raises(UsageError, match="shape must be one of"):
        Toolbox(connect(with_tools("one")), "soap")


def test_an_invalid_only_is_refused() -> None:
    """A coroutine is truthy, so an async function would select every tool."""

    async def select(tool: Tool) -> bool:
        return False

    values: list[Any] = [["pay"], "pay", select]
    for only in values:
        with pytest.raises(UsageError, match="only must be a plain function"):
            Toolbox(connect(with_tools("one")), "openai", only=only)


@pytest.mark.parametrize("shape", SHAPES)
async def test_run_and_messages_check_their_arguments(shape: str) -> None:
    toolbox = Toolbox(connect(with_tools("one")), shape)
    call = ModelCall("1", "one", "{}")
    with pytest.raises(UsageError, match=r"expected a ModelCall of calls\(\), got str"):
        await toolbox.run("one")  # type: ignore[arg-type]  # the mistake that is tested
    for wrong in ([call], "x", Outcome(call, error=UsageError("no"))):
        with pytest.raises(UsageError, match=r"expected a list of the outcomes that run\(\) returned"):
            toolbox.messages(wrong)  # type: ignore[arg-type]  # as above
