"""Strands Agents."""

import asyncio
from pathlib import Path
from typing import Any

from contract import AsyncContract, Contract, Received, Run, Turn, example, own_command, weather
from mcp import StdioServerParameters, stdio_client
from strands import Agent
from strands.tools.mcp import MCPClient

from jackstay.agents import strands_tools

strands_agent = example("strands_agent")


def results_of(messages: list[Any]) -> list[Any]:
    return [block["toolResult"] for message in messages for block in message["content"] if "toolResult" in block]


def received(result: Any) -> Received:
    texts = [block["text"] for block in result["content"] if "text" in block]
    images = [block["image"]["source"]["bytes"] for block in result["content"] if "image" in block]
    return Received("\n".join(texts), images)


def as_run(model: Any, answer: Any, events: list[Any]) -> Run:
    results = results_of(model.received)
    return Run(
        answer=str(answer).strip(),
        results=[received(result) for result in results],
        tools=[tool["name"] for tool in model.tools],
        schemas={tool["name"]: tool["inputSchema"]["json"] for tool in model.tools},
        structured=[result["structuredContent"] for result in results if "structuredContent" in result],
        events=events,
    )


class TestBlocking(Contract):
    function = staticmethod(strands_tools)
    has_events = False

    def run(self, source: Any, *turns: Turn, **options: Any) -> Run:
        model = strands_agent.ScriptedModel(list(turns))
        agent = Agent(model=model, tools=[self.adapt(source, **options)], callback_handler=None)
        try:
            return as_run(model, agent("Work."), [])
        finally:
            agent.cleanup()


class TestAsync(AsyncContract):
    function = staticmethod(strands_tools)

    async def arun(self, source: Any, *turns: Turn, **options: Any) -> Run:
        model, events = strands_agent.ScriptedModel(list(turns)), []
        tools = self.adapt(source, **options)
        agent = await asyncio.to_thread(lambda: Agent(model=model, tools=[tools], callback_handler=None))
        answer = None
        try:
            async for event in agent.stream_async("Work."):
                if "tool_stream_event" in event:
                    ((kind, data),) = event["tool_stream_event"]["data"].items()
                    events.append((kind.removeprefix("mcp_"), data))
                answer = event.get("result", answer)
        finally:
            await asyncio.to_thread(agent.cleanup)
        return as_run(model, answer, events)


def test_example() -> None:
    assert strands_agent.main(weather()) == "Bring a coat: 10 degrees."


def test_own_adapter_when_the_server_dies(tmp_path: Path) -> None:
    crash = ("crash", {"ledger": str(tmp_path / "ledger")})
    model = strands_agent.ScriptedModel([crash, ("add", {"a": 2, "b": 3}), "Done."])
    client = MCPClient(lambda: stdio_client(StdioServerParameters(**own_command())))
    agent = Agent(model=model, tools=[client], callback_handler=None)
    try:
        agent("Work.")
    finally:
        agent.cleanup()
    # It does not reconnect, and the model is not informed that the call may have run.
    texts = [received(result).text for result in results_of(model.received)]
    assert texts == ["Tool execution failed: Connection closed", "Tool execution failed: "]
    assert (tmp_path / "ledger").read_text() == "ran\n"
