"""A toolbox: definitions out, calls back, against real servers in memory and one that misbehaves."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
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
from peers.answering import Answering, with_tools


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def guarded() -> None:
        async with asyncio.timeout(20):
            await work()

    asyncio.run(guarded())


def listing(*tools: dict[str, Any], name: str = "odd") -> Answering:
    """A server that lists these tools as they are, and answers with the arguments."""

    def answer(method: str, params: dict[str, Any]) -> Any:
        if method == "tools/list":
            return {"tools": [{"inputSchema": {"type": "object"}, **tool} for tool in tools]}
        return {"content": [{"type": "text", "text": f"{params['name']}({params['arguments']})"}]}

    return Answering(name, answer)


def use(name: str, input: object, id: str = "1") -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": input}


async def said(toolbox: Toolbox, *blocks: dict[str, Any], **options: Any) -> list[str]:
    """The text of each result, for an answer of Anthropic's."""
    (message,) = await toolbox.answer(list(blocks), **options)
    return [block["content"][0]["text"] for block in message["content"]]


# --- out and back -----------------------------------------------------------------------------------------------------

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


async def with_calculator(work: Callable[[Client], Awaitable[None]]) -> None:
    pair = memory_pair("calculator")
    serving = asyncio.ensure_future(calculator.serve(pair.server))
    async with connect(pair.client) as client:
        await work(client)
    await serving


def asked(shape: str, name: str, arguments: str) -> Any:
    """The whole answer of a model that asks for one call, as the API gives it."""
    if shape == "openai":
        call = {"id": "1", "type": "function", "function": {"name": name, "arguments": arguments}}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        return {"choices": [{"index": 0, "finish_reason": "tool_calls", "message": message}]}
    if shape == "openai-responses":
        return {"output": [{"type": "function_call", "call_id": "1", "name": name, "arguments": arguments}]}
    return {"role": "assistant", "stop_reason": "tool_use", "content": [use(name, arguments)]}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("strict", [False, True])
def test_a_tool_goes_out_and_its_call_comes_back(shape: str, strict: bool) -> None:
    """The whole way, for each API: the name is mapped both ways, a tool's error is the model's to read."""

    async def work(client: Client) -> None:
        toolbox = Toolbox(client, shape, strict=strict)
        assert repr(toolbox) == f"<Toolbox {shape}, not listed, of <Client calculator ready>>"
        (defined,) = await toolbox.definitions()
        defined = defined.get("function", defined)
        name = defined["name"]
        assert toolbox.names == {name: "math.divide"}
        assert name.startswith("math_divide_")
        assert defined["description"] == "Divide."
        schema = defined["input_schema" if shape == "anthropic" else "parameters"]
        assert schema["properties"]["a"]["description"] == "the dividend"
        assert schema["required"] == ["a", "b"]
        assert defined.get("strict", False) is strict
        for arguments, expected in (('{"a": 3, "b": 2}', "1.5"), ('{"a": 3, "b": 0}', "divided by zero")):
            assert expected in str(await toolbox.answer(asked(shape, name, arguments)))
        assert repr(toolbox) == f"<Toolbox {shape}, 1 tools, of <Client calculator ready>>"

    run(lambda: with_calculator(work))


def test_an_answer_that_asks_for_nothing_needs_nothing() -> None:
    async def work() -> None:
        target = with_tools("one", "t")
        async with connect(target) as client:
            assert await Toolbox(client, "anthropic").answer({"content": "Done."}) == []
        assert target.methods() == []

    run(work)


def test_a_toolbox_that_was_never_listed_lists_once() -> None:
    """A worker that takes up a conversation in the middle: the names are the same, so the calls are."""

    async def work() -> None:
        target = with_tools("one", "t", "u")
        async with connect(target) as client:
            toolbox = Toolbox(client, "anthropic")
            assert await said(toolbox, use("t", {}), use("u", {}, "2")) == ["one.t({})", "one.u({})"]
            assert target.methods().count("tools/list") == 1
            outcome = await Toolbox(client, "anthropic").run(ModelCall("1", "t", {}))
            assert outcome.text == "one.t({})"

    run(work)


def test_a_fleet_is_one_toolbox() -> None:
    async def work() -> None:
        targets = {"git": with_tools("git", "status"), "my files": with_tools("files", "read")}
        async with Fleet(targets) as fleet:
            toolbox = Toolbox(fleet, "anthropic")
            first, second = [tool["name"] for tool in await toolbox.definitions()]
            assert first == "git__status"
            assert toolbox.names == {first: "git__status", second: "my files__read"}
            assert await said(toolbox, use(first, {"a": 1}), use(second, {}, "2")) == [
                'git.status({"a": 1})',
                "files.read({})",
            ]

    run(work)


@on_fake_clock
async def test_calls_run_at_the_same_time_and_are_answered_in_order() -> None:
    async with ScriptedPeer() as peer, connect(peer.target) as client:
        peer.on["tools/list"] = {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}
        toolbox = Toolbox(client, "anthropic")
        answering = asyncio.ensure_future(said(toolbox, use("t", {"n": 1}), use("t", {"n": 2}, "2")))
        first, second = await peer.expect("tools/call"), await peer.expect("tools/call")
        second.answer({"content": [{"type": "text", "text": "second"}]})
        first.answer({"content": [{"type": "text", "text": "first"}]})
        assert await answering == ["first", "second"]


# --- what may be called -----------------------------------------------------------------------------------------------


def test_what_is_left_out_cannot_be_reached_by_guessing() -> None:
    def is_read_only(tool: Tool) -> object:
        return tool.annotations is not None and tool.annotations.read_only_hint

    async def work() -> None:
        target = listing({"name": "read", "annotations": {"readOnlyHint": True}}, {"name": "delete"})
        async with connect(target) as client:
            toolbox = Toolbox(client, "anthropic", only=is_read_only)
            assert [tool["name"] for tool in await toolbox.definitions()] == ["read"]
            (words,) = await said(toolbox, use("delete", {}))
            assert words == "This call was not run: there is no tool 'delete'; there are: read."
        assert "tools/call" not in target.methods()

    run(work)


def test_a_tool_that_is_gone_is_not_called_any_more() -> None:
    async def work() -> None:
        tools = [{"name": "t", "inputSchema": {"type": "object"}}]
        async with connect(Answering("one", lambda method, params: {"tools": list(tools)})) as client:
            toolbox = Toolbox(client, "anthropic")
            assert len(await toolbox.definitions()) == 1
            tools.clear()
            assert await toolbox.definitions() == []
            assert "there are: none" in (await said(toolbox, use("t", {})))[0]

    run(work)


def test_a_long_list_is_not_repeated_to_the_model_whole() -> None:
    async def work() -> None:
        async with connect(with_tools("many", *(f"t{n:03}" for n in range(200)))) as client:
            (words,) = await said(Toolbox(client, "anthropic"), use("x", {}))
            assert words.endswith("t018, t019, and others.")

    run(work)


@pytest.mark.parametrize(
    ("input", "words"),
    [("{", "the arguments are not JSON"), ([1], "must be a JSON object, not a list")],
)
def test_arguments_that_cannot_be_read_are_told_and_nothing_runs(input: object, words: str) -> None:
    async def work() -> None:
        target = with_tools("one", "t")
        async with connect(target) as client:
            assert words in (await said(Toolbox(client, "anthropic"), use("t", input)))[0]
        assert "tools/call" not in target.methods()

    run(work)


def test_a_call_that_was_cut_off_does_not_run() -> None:
    async def work() -> None:
        target = with_tools("one", "t")
        async with connect(target) as client:
            answer = {"content": [use("t", {"half": 1})], "stop_reason": "max_tokens"}
            (message,) = await Toolbox(client, "anthropic").answer(answer)
            assert "cut off" in str(message)
        assert "tools/call" not in target.methods()

    run(work)


# --- odd tools --------------------------------------------------------------------------------------------------------


def test_one_odd_schema_does_not_lose_the_others(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
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

    with caplog.at_level(logging.WARNING, "jackstay.models"):
        run(work)
    assert "the tool bad is left out: KeyError" in caplog.text
    assert "the tool worse is left out: AttributeError" in caplog.text
    assert "good is listed twice" in caplog.text


def test_two_tools_with_one_name_are_both_left_out(caplog: pytest.LogCaptureFixture) -> None:
    """A server that takes the name which another tool has before the model would get its calls."""

    async def work() -> None:
        other = model_name("files.read")
        async with connect(listing({"name": "files.read"}, {"name": other}, {"name": "add"})) as client:
            toolbox = Toolbox(client, "openai")
            assert [tool["function"]["name"] for tool in await toolbox.definitions()] == ["add"]
            assert dict(toolbox.names) == {"add": "add"}
            assert f"'files.read' and '{other}'; both are left out" in caplog.text
            chosen = Toolbox(client, "openai", only=lambda tool: tool.name != other)
            assert len(await chosen.definitions()) == 2

    run(work)


def test_a_tool_without_a_description_is_described_by_its_title() -> None:
    async def work() -> None:
        async with connect(listing({"name": "a", "title": "A tool"}, {"name": "b"})) as client:
            defined = await Toolbox(client, "anthropic").definitions()
            assert [tool["description"] for tool in defined] == ["A tool", ""]

    run(work)


def test_strict_mode_warns_of_what_it_closes_and_takes_its_nulls_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city"],
        "additionalProperties": True,
    }

    async def work() -> None:
        async with connect(listing({"name": "forecast", "inputSchema": schema})) as client:
            toolbox = Toolbox(client, "anthropic", strict=True)
            (defined,) = await toolbox.definitions()
            assert defined["input_schema"]["required"] == ["city", "days"]
            wrote = {"city": "Bergen", "days": None}
            assert await said(toolbox, use("forecast", wrote)) == ["forecast({'city': 'Bergen'})"]
            assert wrote == {"city": "Bergen", "days": None}, "the model's answer is not changed"

    with caplog.at_level(logging.WARNING, "jackstay.models"):
        run(work)
    assert "strict mode closes an object of forecast" in caplog.text


# --- what goes wrong ----------------------------------------------------------------------------------------------------


@on_fake_clock
async def test_a_server_that_dies_in_a_call_is_told_as_unknown() -> None:
    """Guarantee: written, then lost. The model must not think that it failed, nor that it worked."""
    async with ScriptedPeer() as peer, connect(peer.target) as client:
        peer.on["tools/list"] = {"tools": [{"name": "pay", "inputSchema": {"type": "object"}}]}
        toolbox = Toolbox(client, "anthropic")
        running = asyncio.ensure_future(toolbox.run(ModelCall("1", "pay", {"order": 7})))
        await peer.expect("tools/call")
        peer.die()
        outcome = await running
        assert isinstance(outcome.error, OutcomeUnknownError)
        assert "Nobody knows whether this call ran" in outcome.text
        assert len(peer.got("tools/call")) == 1, "and it is never sent again"


@on_fake_clock
async def test_a_server_that_never_answers_costs_the_deadline_and_is_told_as_unknown() -> None:
    async with ScriptedPeer() as peer, connect(peer.target) as client:
        peer.on["tools/list"] = {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}
        outcome = await Toolbox(client, "openai").run(ModelCall("1", "t", "{}"), timeout=5)
        assert isinstance(outcome.error, TimeoutError)
        assert outcome.error.may_have_run
        await peer.expect("notifications/cancelled")


@on_fake_clock
async def test_giving_up_gives_up_every_call() -> None:
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
async def test_a_handler_that_raises_ends_the_answer_and_gives_up_the_other_calls() -> None:
    """The program's own mistake is no word for the model."""
    async with ScriptedPeer("2026-07-28") as peer:
        client = connect(peer.target)

        @client.elicitation.handle
        def ask(params: object) -> ElicitResult:
            raise ZeroDivisionError

        async with client:
            peer.on["tools/list"] = {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}
            answering = asyncio.ensure_future(
                Toolbox(client, "anthropic").answer([use("t", {}), use("t", {}, "2")])
            )
            await peer.expect("tools/call")
            second = await peer.expect("tools/call")
            question = {
                "method": "elicitation/create",
                "params": {"message": "?", "requestedSchema": {"type": "object", "properties": {}}},
            }
            second.answer(
                {"resultType": "input_required", "inputRequests": {"q": question}, "requestState": "1"}
            )
            with pytest.raises(ZeroDivisionError):
                await answering
            await peer.expect("notifications/cancelled")


def test_a_call_that_failed_is_logged_for_the_program(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        async with connect(with_tools("one", "t")) as client:
            toolbox = Toolbox(client, "anthropic")
            await toolbox.definitions()
        assert "the client was stopped" in (await said(toolbox, use("t", {})))[0]

    with caplog.at_level(logging.WARNING, "jackstay.models"):
        run(work)
    assert "the model's call of t failed" in caplog.text


@pytest.mark.parametrize("options", [{"timout": 5}, {"timeout": -1}, {"on_progress": 5}])
def test_an_option_that_cannot_be_used_is_the_programs_to_hear_of(options: dict[str, Any]) -> None:
    async def work() -> None:
        target = with_tools("one", "t")
        async with connect(target) as client:
            with pytest.raises(UsageError, match=next(iter(options))):
                await said(Toolbox(client, "anthropic"), use("t", {}), **options)
        assert "tools/call" not in target.methods()

    run(work)


@pytest.mark.parametrize("input", [{"a": float("nan")}, {"a": "\ud800"}, {"a": object()}])
def test_arguments_that_are_no_json_are_the_models_to_hear_of(input: dict[str, Any]) -> None:
    async def work() -> None:
        async with connect(with_tools("one", "t")) as client:
            assert "This call was not run" in (await said(Toolbox(client, "anthropic"), use("t", input)))[0]

    run(work)


def test_a_tool_that_left_the_fleet_is_the_models_to_hear_of() -> None:
    async def work() -> None:
        tools = [{"name": "t", "inputSchema": {"type": "object"}}]
        async with Fleet({"one": Answering("one", lambda method, params: {"tools": list(tools)})}) as fleet:
            toolbox = Toolbox(fleet, "anthropic")
            await toolbox.definitions()
            tools.clear()
            await fleet.tools()
            assert "no server of this fleet has a tool" in (await said(toolbox, use("one__t", {})))[0]

    run(work)


def test_a_person_may_stand_between() -> None:
    async def work() -> None:
        target = with_tools("one", "t")
        async with connect(target) as client:
            toolbox = Toolbox(client, "anthropic")
            outcomes = [
                Outcome(call, error=UsageError("the user said no")) for call in toolbox.calls([use("t", {})])
            ]
            (message,) = toolbox.messages(outcomes)
            assert message["content"][0]["content"][0]["text"] == "This call was not run: the user said no."
        assert target.methods() == []

    run(work)


def test_a_server_that_cannot_be_listed_is_the_programs_to_hear_of() -> None:
    async def work() -> None:
        async with connect(Answering("bare", lambda method, params: {}, capabilities={})) as client:
            toolbox = Toolbox(client, "openai")
            with pytest.raises(CapabilityError):
                await toolbox.definitions()
            with pytest.raises(CapabilityError):
                await toolbox.run(ModelCall("1", "t", "{}"))
        with pytest.raises(StateError):
            await Toolbox(connect(with_tools("one", "t")), "openai").definitions()

    run(work)


def test_what_is_no_source_or_shape_is_refused() -> None:
    with pytest.raises(
        UsageError, match=r"needs a Client or a Fleet, not builtins\.str; .* jackstay\.sync\.Toolbox"
    ):
        Toolbox("git", "openai")  # type: ignore[arg-type]  # the mistake that is tested
    with pytest.raises(UsageError, match="shape must be one of"):
        Toolbox(connect(with_tools("one")), "soap")


async def _asked_a_person(tool: Tool) -> bool:
    return False


@pytest.mark.parametrize("only", [["pay"], "pay", _asked_a_person])
def test_what_cannot_say_which_tools_is_refused(only: Any) -> None:
    """What an async function returns is true: it would let every tool pass."""
    with pytest.raises(UsageError, match="only takes a plain function of a Tool"):
        Toolbox(connect(with_tools("one")), "openai", only=only)


@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_no_call_and_no_outcome_is_refused(shape: str) -> None:
    async def work() -> None:
        toolbox = Toolbox(connect(with_tools("one")), shape)
        call = ModelCall("1", "one", "{}")
        with pytest.raises(UsageError, match=r"takes a call that calls\(\) has read, not str"):
            await toolbox.run("one")  # type: ignore[arg-type]  # the mistake that is tested
        for wrong in ([call], "x", Outcome(call, error=UsageError("no"))):
            with pytest.raises(UsageError, match=r"takes a list of the outcomes that run\(\) returned"):
                toolbox.messages(wrong)  # type: ignore[arg-type]  # as above

    run(work)
