"""Google's Agent Development Kit."""

import asyncio
from pathlib import Path
from typing import Any

from contract import GUARD, AsyncContract, Received, Run, Turn, example, own_command, weather
from google.adk.agents import LlmAgent
from google.adk.runners import InMemoryRunner
from google.adk.tools.mcp_tool import McpToolset, StdioConnectionParams
from mcp import StdioServerParameters
from workshop import Workshop

from jackstay.agents import adk_toolset

adk_agent = example("adk_agent")


def responses(contents: list[Any]) -> list[Any]:
    parts = [part for content in contents for part in content.parts]
    return [part.function_response for part in parts if part.function_response]


def received(response: Any) -> Received:
    images = [part.inline_data.data for part in response.parts or ()]
    return Received(str(response.response), images)


class TestContract(AsyncContract):
    function = staticmethod(adk_toolset)
    has_events = False
    runs_without_server = True

    async def arun(self, source: Any, *turns: Turn, **options: Any) -> Run:
        model = adk_agent.ScriptedModel(turns=list(turns))
        agent = LlmAgent(name="worker", model=model, tools=[self.adapt(source, **options)])
        async with InMemoryRunner(agent) as runner:
            events = await runner.run_debug("Work.", quiet=True)
        found = responses(model.received)
        return Run(
            answer=events[-1].content.parts[0].text,
            results=[received(response) for response in found],
            tools=[tool.name for tool in model.tools],
            schemas={tool.name: tool.parameters_json_schema for tool in model.tools},
            structured=[response.response for response in found],
        )


def test_one_toolset_serves_several_event_loops() -> None:
    toolset = adk_toolset(Workshop().server)

    async def scenario() -> list[str]:
        return [tool.name for tool in await toolset.get_tools()]

    assert asyncio.run(scenario()) == asyncio.run(scenario())
    asyncio.run(toolset.close())


def test_progress_reaches_the_callback_of_the_toolset() -> None:
    reports = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        reports.append((progress, total, message))

    run = TestContract().run(Workshop().server, ("work", {}), "Done.", progress_callback=on_progress)
    assert run.answer == "Done."
    assert reports == [(1, 2, "half")]


def test_example() -> None:
    assert asyncio.run(adk_agent.main(weather())) == "Bring a coat: 10 degrees."


def test_own_adapter_when_the_server_dies(tmp_path: Path) -> None:
    crash = ("crash", {"ledger": str(tmp_path / "ledger")})
    model = adk_agent.ScriptedModel(turns=[crash, ("add", {"a": 2, "b": 3}), "Done."])
    parameters = StdioConnectionParams(server_params=StdioServerParameters(**own_command()), timeout=GUARD)
    agent = LlmAgent(name="worker", model=model, tools=[McpToolset(connection_params=parameters)])

    async def scenario() -> Any:
        async with InMemoryRunner(agent) as runner:
            return await runner.run_debug("Work.", quiet=True)

    asyncio.run(scenario())
    lost, sum_ = (response.response for response in responses(model.received))
    # It reconnects, but the model is not informed that the call may have run.
    assert lost == {"error": "MCP tool execution failed: Connection closed"}
    assert sum_["structuredContent"] == {"sum": 5}
    assert (tmp_path / "ledger").read_text() == "ran\n"
