"""LlamaIndex."""

import asyncio
import base64
from pathlib import Path
from typing import Any

from contract import AsyncContract, Received, Run, Turn, check_reverse, example, own_command, weather
from llama_index.core.agent.workflow import FunctionAgent, ToolCallResult
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.tools import FunctionTool
from llama_index.core.tools.calling import call_tool
from llama_index.tools.mcp import BasicMCPClient, McpToolSpec
from pydantic import Field
from workshop import Workshop

from jackstay.agents import llama_index_tools

llama_index_agent = example("llama_index_agent")


class Events(BaseEventHandler):
    """Keeps the events of servers."""

    events: list[Any] = Field(default_factory=list)

    def handle(self, event: Any, **more: Any) -> None:
        name = type(event).__name__
        if name.startswith("Mcp"):
            self.events.append(({"McpProgressEvent": "progress", "McpLogEvent": "log"}[name], event.params))


def received(output: Any) -> Received:
    images = [base64.b64decode(block.image) for block in output.blocks if block.block_type == "image"]
    return Received(output.content, images)


async def run_agent(tools: list[Any], turns: tuple[Turn, ...]) -> tuple[str, list[Any]]:
    handler = FunctionAgent(tools=tools, llm=llama_index_agent.scripted_model(list(turns))).run("Work.")
    try:
        results = [event async for event in handler.stream_events() if isinstance(event, ToolCallResult)]
        return str(await handler), [result.tool_output for result in results]
    except asyncio.CancelledError:
        await handler.cancel_run()
        raise


class TestContract(AsyncContract):
    function = staticmethod(llama_index_tools)

    async def arun(self, source: Any, *turns: Turn, **options: Any) -> Run:
        events = Events()
        dispatcher = get_dispatcher("jackstay.agents")
        dispatcher.add_event_handler(events)
        try:
            async with self.adapt(source, **options) as tools:
                answer, outputs = await run_agent(tools, turns)
        finally:
            dispatcher.event_handlers.remove(events)
        return Run(
            answer=answer,
            results=[received(output) for output in outputs],
            tools=[tool.metadata.name for tool in tools],
            schemas={tool.metadata.name: tool.metadata.get_parameters_dict() for tool in tools},
            structured=[output.raw_output for output in outputs],
            events=list(events.events),
        )


def test_tools_can_be_called_without_an_event_loop() -> None:
    with llama_index_tools(Workshop().server) as tools:
        by_name = {tool.metadata.name: tool for tool in tools}
        assert by_name["add"](a=2, b=3).raw_output == {"sum": 5}
        assert call_tool(by_name["fail"], {}).is_error
        lost = call_tool(by_name["crash"], {"ledger": 5})  # one argument, which some callers pass by position
        assert "ledger" in lost.content


def test_a_tool_of_the_framework_as_an_mcp_tool() -> None:
    def double(number: int) -> int:
        """Double."""
        return 2 * number

    tool = FunctionTool.from_defaults(double)
    schema, handler = tool.metadata.get_parameters_dict(), lambda arguments: tool.call(**arguments).content
    check_reverse(tool.metadata.name, tool.metadata.description, schema, handler)


def test_example() -> None:
    assert asyncio.run(llama_index_agent.main(weather())) == "Bring a coat: 10 degrees."


def test_own_adapter_when_the_server_dies(tmp_path: Path) -> None:
    async def scenario() -> tuple[str, list[Any]]:
        command = own_command()
        client = BasicMCPClient(command["command"], args=command["args"], env=command["env"])
        tools = await McpToolSpec(client).to_tool_list_async()
        crash = ("crash", {"ledger": str(tmp_path / "ledger")})
        return await run_agent(tools, (crash, ("add", {"a": 2, "b": 3}), "Done."))

    _, (lost, sum_) = asyncio.run(scenario())
    # It starts a process for each call; the text about a lost one does not name the reason.
    assert lost.content == "unhandled errors in a TaskGroup (1 sub-exception)"
    assert "5" in sum_.content
    assert (tmp_path / "ledger").read_text() == "ran\n"
