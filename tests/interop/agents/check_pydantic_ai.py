"""PydanticAI."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from contract import AsyncContract, Received, Run, Turn, example, own_command, weather
from fastmcp.client.transports import StdioTransport
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import BinaryContent, ToolReturnPart
from pydantic_ai.models.function import DeltaToolCall
from workshop import Workshop

from jackstay import TransportError, stdio
from jackstay.agents import pydantic_ai_toolset

pydantic_ai_agent = example("pydantic_ai_agent")


def returns(messages: list[Any]) -> list[ToolReturnPart]:
    return [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]


def received(part: ToolReturnPart) -> Received:
    images = [item.data for item in part.files if isinstance(item, BinaryContent)]
    return Received(part.model_response_str(), images)


class StreamingModel(pydantic_ai_agent.ScriptedModel):
    """The same model for runs whose events are received."""

    def __init__(self, turns: list[Any]) -> None:
        super().__init__(turns)
        self.stream_function = self._stream

    async def _stream(self, messages: list[Any], info: Any) -> Any:
        (part,) = (await self._respond(messages, info)).parts
        if part.part_kind == "text":
            yield part.content
        else:
            yield {0: DeltaToolCall(part.tool_name, json.dumps(part.args), tool_call_id=part.tool_call_id)}


class TestContract(AsyncContract):
    function = staticmethod(pydantic_ai_toolset)

    async def arun(self, source: Any, *turns: Turn, **options: Any) -> Run:
        model = StreamingModel(list(turns))
        events: list[tuple[str, Any]] = []

        async def keep_events(ctx: Any, stream: Any) -> None:
            custom = [event async for event in stream if event.event_kind == "custom"]
            events.extend((event.name.removeprefix("mcp_"), event.params) for event in custom)

        agent = Agent(model, toolsets=[self.adapt(source, **options)])
        result = await agent.run("Work.", event_stream_handler=keep_events)
        parts = returns(result.all_messages())
        return Run(
            answer=result.output,
            results=[received(part) for part in parts],
            tools=[tool.name for tool in model.tools],
            schemas={tool.name: tool.parameters_json_schema for tool in model.tools},
            structured=[part.content for part in parts],
            events=events,
        )


def test_runs_share_the_connection_of_the_agent_or_have_their_own() -> None:
    workshop = Workshop()
    turns = [("add", {"a": 1, "b": 2}), "Done."]

    async def scenario() -> None:
        agent = Agent(pydantic_ai_agent.ScriptedModel(turns), toolsets=[pydantic_ai_toolset(workshop.server)])
        for _ in range(2):
            assert (await agent.run("Work.")).output == "Done."
        async with agent:
            runs = await asyncio.gather(agent.run("Work."), agent.run("Work."))
        assert [run.output for run in runs] == ["Done.", "Done."]

    asyncio.run(scenario())
    agent = Agent(pydantic_ai_agent.ScriptedModel(turns), toolsets=[pydantic_ai_toolset(workshop.server)])
    assert agent.run_sync("Work.").output == "Done."


def test_a_server_that_cannot_be_started_ends_the_run() -> None:
    toolset = pydantic_ai_toolset(stdio("/nonexistent/program"))
    with pytest.raises(TransportError):
        Agent(pydantic_ai_agent.ScriptedModel(["Done."]), toolsets=[toolset]).run_sync("Work.")


def test_example() -> None:
    assert asyncio.run(pydantic_ai_agent.main(weather())) == "Bring a coat: 10 degrees."


def test_own_adapter_when_the_server_dies(tmp_path: Path) -> None:
    crash = ("crash", {"ledger": str(tmp_path / "ledger")})
    model = pydantic_ai_agent.ScriptedModel([crash, ("add", {"a": 2, "b": 3}), "Done."])
    toolset = MCPToolset(StdioTransport(**own_command()))

    async def scenario() -> Any:
        return await Agent(model, toolsets=[toolset]).run("Work.")

    parts = returns(asyncio.run(scenario()).all_messages())
    # It does not reconnect, and requests that the model tries again.
    assert [(part.content, part.outcome) for part in parts] == [("Connection closed", "retried")] * 2
