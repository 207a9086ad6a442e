"""AutoGen."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from anyio import ClosedResourceError
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.messages import ToolCallExecutionEvent
from autogen_core import CancellationToken
from autogen_ext.tools.mcp import McpWorkbench, StdioServerParams
from contract import GUARD, AsyncContract, Received, Run, Turn, example, own_command, weather
from workshop import Workshop

from jackstay.agents import autogen_workbench

autogen_agent = example("autogen_agent")


async def run_agent(workbench: Any, turns: tuple[Turn, ...]) -> tuple[str, list[Any], Any]:
    model = autogen_agent.scripted_model(list(turns))
    agent = AssistantAgent("worker", model, workbench=workbench, max_tool_iterations=9)
    result = await agent.run(task="Work.")
    executed = [message for message in result.messages if isinstance(message, ToolCallExecutionEvent)]
    return result.messages[-1].content, [each for message in executed for each in message.content], result.messages


class TestContract(AsyncContract):
    function = staticmethod(autogen_workbench)
    has_structured = False

    async def arun(self, source: Any, *turns: Turn, **options: Any) -> Run:
        async with self.adapt(source, **options) as workbench:
            answer, results, messages = await run_agent(workbench, turns)
            tools = await workbench.list_tools()
            await workbench.reset()
            await workbench.load_state(await workbench.save_state())
        return Run(
            answer=answer,
            results=[Received(result.content) for result in results],
            tools=[tool["name"] for tool in tools],
            schemas={tool["name"]: tool["parameters"] for tool in tools},
            events=[
                ("progress" if message.to_text() == "work: 1 of 2 half" else "log", message.model_dump())
                for message in messages
                if message.type.startswith("Mcp")
            ],
        )

    def test_an_image_reaches_the_model(self) -> None:
        """An assistant turns images into text, so this uses the workbench."""

        async def scenario() -> None:
            async with autogen_workbench(Workshop().server) as workbench:
                (content,) = (await workbench.call_tool("draw")).result
                assert content.content.image.getpixel((0, 0)) == (255, 0, 0)

        asyncio.run(scenario())


def test_a_workbench_is_no_component() -> None:
    with pytest.raises(NotImplementedError, match="cannot be saved"):
        autogen_workbench(Workshop().server).dump_component()


def test_a_cancellation_token_cancels_the_call() -> None:
    workshop = Workshop()

    async def scenario() -> None:
        token = CancellationToken()
        async with autogen_workbench(workshop.server) as workbench:
            call = asyncio.create_task(workbench.call_tool("wait", {}, token))
            assert await asyncio.to_thread(workshop.started.wait, GUARD)
            token.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert await asyncio.to_thread(workshop.cancelled.wait, GUARD)

    asyncio.run(scenario())


def test_example() -> None:
    assert asyncio.run(autogen_agent.main(weather())) == "Bring a coat: 10 degrees."


def test_own_adapter_when_the_server_dies(tmp_path: Path) -> None:
    crash = ("crash", {"ledger": str(tmp_path / "ledger")})

    async def scenario() -> Any:
        async with McpWorkbench(StdioServerParams(**own_command("add", "crash"), read_timeout_seconds=60)) as workbench:
            return await run_agent(workbench, (crash, ("add", {"a": 2, "b": 3}), "Done."))

    # The next turn lists the tools again, which ends the run.
    with pytest.raises(ClosedResourceError):
        asyncio.run(scenario())
    assert (tmp_path / "ledger").read_text() == "ran\n"
