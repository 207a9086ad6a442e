"""LangChain and LangGraph."""

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest
from contract import AsyncContract, Contract, Received, Run, Turn, check_reverse, example, own_command, weather
from langchain.agents import create_agent
from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.messages import ToolMessage
from langchain_core.tools import tool as langchain_tool
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.tools import load_mcp_tools
from workshop import Workshop

from jackstay.agents import langchain_tools

langchain_agent = example("langchain_agent")


class Events(AsyncCallbackHandler):
    """Keeps custom events."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []

    async def on_custom_event(self, name: str, data: Any, **more: Any) -> None:
        self.events.append((name.removeprefix("mcp_"), data))


def received(message: ToolMessage) -> Received:
    if isinstance(message.content, str):
        return Received(message.content)
    texts = [block["text"] for block in message.content if block["type"] == "text"]
    images = [base64.b64decode(block["base64"]) for block in message.content if block["type"] == "image"]
    return Received("\n".join(texts), images)


def as_run(model: Any, result: Any, events: Events) -> Run:
    messages = [message for message in result["messages"] if isinstance(message, ToolMessage)]
    return Run(
        answer=result["messages"][-1].content,
        results=[received(message) for message in messages],
        tools=[tool.name for tool in model.tools],
        schemas={tool.name: tool.args_schema for tool in model.tools},
        structured=[message.artifact["structured_content"] for message in messages if message.artifact],
        events=events.events,
    )


QUESTION = {"messages": [("user", "Work.")]}


class TestAsync(AsyncContract):
    function = staticmethod(langchain_tools)

    async def arun(self, source: Any, *turns: Turn, **options: Any) -> Run:
        model, events = langchain_agent.ScriptedModel(turns=list(turns)), Events()
        async with self.adapt(source, **options) as tools:
            agent = create_agent(model, tools)
            result = await agent.ainvoke(QUESTION, config={"callbacks": [events]})
        return as_run(model, result, events)


class TestBlocking(Contract):
    function = staticmethod(langchain_tools)

    def run(self, source: Any, *turns: Turn, **options: Any) -> Run:
        model, events = langchain_agent.ScriptedModel(turns=list(turns)), Events()
        with self.adapt(source, **options) as tools:
            result = create_agent(model, tools).invoke(QUESTION, config={"callbacks": [events]})
        return as_run(model, result, events)


def test_a_failed_call_has_the_status_error() -> None:
    async def scenario() -> ToolMessage:
        async with langchain_tools(Workshop().server) as tools:
            fail = next(tool for tool in tools if tool.name == "fail")
            return await fail.ainvoke({"type": "tool_call", "name": "fail", "args": {}, "id": "1"})

    assert asyncio.run(scenario()).status == "error"


def test_a_tool_of_the_framework_as_an_mcp_tool() -> None:
    @langchain_tool
    def double(number: int) -> int:
        """Double."""
        return 2 * number

    schema, handler = double.get_input_jsonschema(), lambda arguments: double.ainvoke(arguments)
    check_reverse(double.name, double.description, schema, handler)


def test_example() -> None:
    assert asyncio.run(langchain_agent.main(weather())) == "Bring a coat: 10 degrees."


@pytest.mark.parametrize("is_session", [True, False], ids=["session", "call"])
def test_own_adapter_when_the_server_dies(is_session: bool, tmp_path: Path) -> None:
    """The run ends with an exception; without a session, each call starts a process of its own."""
    ledger = tmp_path / "ledger"
    turns = [("crash", {"ledger": str(ledger)}), ("add", {"a": 2, "b": 3}), "Done."]
    model = langchain_agent.ScriptedModel(turns=turns)

    async def scenario() -> None:
        client = MultiServerMCPClient({"workshop": {"transport": "stdio", **own_command()}})
        if is_session:
            async with client.session("workshop") as session:
                await create_agent(model, await load_mcp_tools(session)).ainvoke(QUESTION)
        else:
            await create_agent(model, await client.get_tools()).ainvoke(QUESTION)

    with pytest.raises(Exception) as raised:
        asyncio.run(scenario())
    error: BaseException = raised.value
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert str(error) == "Connection closed"
    assert ledger.read_text() == "ran\n"
