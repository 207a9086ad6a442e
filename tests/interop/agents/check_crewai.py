"""CrewAI."""

import asyncio
import os
from pathlib import Path
from typing import Any

# Before the import: nothing is sent to the network.
os.environ |= {"CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true", "CREWAI_TRACING_ENABLED": "false"}


import pytest
from contract import AsyncContract, Contract, Received, Run, Turn, check_reverse, example, own_command, weather
from crewai import Agent
from crewai.events import crewai_event_bus
from crewai.mcp import MCPServerStdio
from crewai.mcp.client import MCPClient
from crewai.tools import tool as crewai_tool
from crewai.tools.tool_failure import ToolFailure, ToolFailureReason
from workshop import REASON, Workshop

from jackstay.agents import crewai_tools
from jackstay.agents._crewai import McpLogEvent, McpProgressEvent

crewai_agent = example("crewai_agent")


def make_agent(model: Any, **more: Any) -> Agent:
    return Agent(role="worker", goal="Work.", backstory="You work.", llm=model, max_iter=9, **more)


def observations(messages: list[Any]) -> list[str]:
    texts = [str(message["content"]) for message in messages if message["role"] != "system"]
    return [text.rpartition("Observation:")[2].strip() for text in texts if "Observation:" in text]


def as_run(model: Any, tools: list[Any], answer: Any) -> Run:
    return Run(
        answer=str(answer),
        results=[Received(text) for text in observations(model.received)],
        tools=[tool.name for tool in tools],
        schemas={tool.name: tool.args_schema.model_json_schema() for tool in tools},
    )


class TestBlocking(Contract):
    function = staticmethod(crewai_tools)
    has_images = False
    has_structured = False

    def run(self, source: Any, *turns: Turn, **options: Any) -> Run:
        model = crewai_agent.ScriptedModel(list(turns))
        events: list[tuple[str, Any]] = []
        with crewai_event_bus.scoped_handlers():

            @crewai_event_bus.on(McpProgressEvent)
            def on_progress(source: Any, event: Any) -> None:
                events.append(("progress", event.params))

            @crewai_event_bus.on(McpLogEvent)
            def on_log(source: Any, event: Any) -> None:
                events.append(("log", event.params))

            with self.adapt(source, **options) as tools:
                answer = make_agent(model, tools=tools).kickoff("Work.")
            crewai_event_bus.flush()
        run = as_run(model, tools, answer)
        run.events = events
        return run


class TestAsync(AsyncContract):
    function = staticmethod(crewai_tools)
    has_images = False
    has_structured = False
    has_events = False

    async def arun(self, source: Any, *turns: Turn, **options: Any) -> Run:
        model = crewai_agent.ScriptedModel(list(turns))
        async with self.adapt(source, **options) as tools:
            answer = await make_agent(model, tools=tools).kickoff_async("Work.")
        return as_run(model, tools, answer)


def test_tools_can_be_awaited() -> None:
    async def scenario() -> tuple[Any, Any]:
        async with crewai_tools(Workshop().server) as tools:
            by_name = {tool.name: tool for tool in tools}
            return await by_name["work"].arun(), await by_name["fail"].arun()

    worked, failed = asyncio.run(scenario())
    assert worked == "worked"
    assert failed == ToolFailure(message=REASON, reason=ToolFailureReason.MCP_ERROR)


def test_a_tool_of_the_framework_as_an_mcp_tool() -> None:
    @crewai_tool("double")
    def double(number: int) -> int:
        """Double."""
        return 2 * number

    schema, handler = double.args_schema.model_json_schema(), lambda arguments: double.run(**arguments)
    check_reverse(double.name, double.description, schema, handler)


def test_example() -> None:
    assert crewai_agent.main(weather()) == "Bring a coat: 10 degrees."


def test_own_adapter_when_the_server_dies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # By default the adapter tries three times on the lost session, with pauses; the result is the same.
    made = MCPClient.__init__
    monkeypatch.setattr(MCPClient, "__init__", lambda self, *args, **more: made(self, *args, **more, max_retries=1))
    ledger = tmp_path / "ledger"
    agent = make_agent(crewai_agent.ScriptedModel(["Done."]), mcps=[MCPServerStdio(**own_command())])
    names = {tool.original_tool_name: tool.name for tool in agent.get_mcp_tools(agent.mcps)}
    turns = [(names["crash"], {"ledger": str(ledger)}), (names["add"], {"a": 2, "b": 3}), "Done."]
    model = crewai_agent.ScriptedModel(turns)
    make_agent(model, mcps=[MCPServerStdio(**own_command())]).kickoff("Work.")
    lost, sum_ = observations(model.received)
    assert "Error executing MCP tool crash: Operation failed after 1 attempts" in lost
    assert sum_ == '{"sum":5}'
    # The framework repeats a tool that raises, whatever it did.
    assert ledger.read_text() == "ran\n" * 6
