"""Semantic Kernel."""

import asyncio
import base64
from pathlib import Path
from typing import Any

from contract import AsyncContract, Received, Run, Turn, example, own_command, weather
from semantic_kernel.agents import ChatCompletionAgent
from semantic_kernel.connectors.mcp import MCPStdioPlugin
from semantic_kernel.contents import FunctionResultContent, ImageContent

from jackstay import Server
from jackstay.agents import semantic_kernel_plugin

semantic_kernel_agent = example("semantic_kernel_agent")


async def run_agent(plugin: Any, turns: tuple[Turn, ...]) -> tuple[str, Any, list[Any]]:
    model = semantic_kernel_agent.ScriptedModel(list(turns))
    agent = ChatCompletionAgent(service=model, name="Worker", plugins=[plugin])
    answer = str(await agent.get_response("Work."))
    items = [item for message in model.received for item in message.items]
    return answer, model, [item.result for item in items if isinstance(item, FunctionResultContent)]


def received(result: Any) -> Received:
    if not isinstance(result, list):
        return Received(str(result))
    images = [item.data for item in result if isinstance(item, ImageContent)]
    return Received("", [base64.b64decode(image) if isinstance(image, str) else image for image in images])


class TestContract(AsyncContract):
    function = staticmethod(semantic_kernel_plugin)
    has_events = False
    logs_progress = True
    has_structured = False

    async def arun(self, source: Any, *turns: Turn, **options: Any) -> Run:
        async with self.adapt(source, **options) as plugin:
            answer, model, results = await run_agent(plugin, turns)
        return Run(
            answer=answer,
            results=[received(result) for result in results],
            tools=[tool.name for tool in model.tools],
            schemas={
                tool.name: {"properties": {each.name: each.schema_data for each in tool.parameters}}
                for tool in model.tools
            },
        )


def test_arguments_may_have_names_that_the_framework_uses() -> None:
    server = Server("names")

    @server.tool
    def echo(kernel: str, arguments: str = "") -> str:
        """Echo."""
        return f"{kernel} {arguments}"

    async def scenario() -> list[Any]:
        async with semantic_kernel_plugin(server) as plugin:
            _, _, results = await run_agent(plugin, (("echo", {"kernel": "a", "arguments": "b"}), "Done."))
            return results

    assert asyncio.run(scenario()) == ["a b"]


def test_example() -> None:
    assert asyncio.run(semantic_kernel_agent.main(weather())) == "Bring a coat: 10 degrees."


def test_own_adapter_when_the_server_dies(tmp_path: Path) -> None:
    crash = ("crash", {"ledger": str(tmp_path / "ledger")})

    async def scenario() -> Any:
        async with MCPStdioPlugin(name="workshop", **own_command()) as plugin:
            return (await run_agent(plugin, (crash, ("add", {"a": 2, "b": 3}), "Done.")))[2]

    lost, sum_ = map(str, asyncio.run(scenario()))
    # It does not reconnect, and the model is not informed that the call may have run.
    assert lost == "An error occurred while invoking the function workshop-crash: Connection closed"
    assert sum_ == "An error occurred while invoking the function workshop-add: Failed to call tool 'add'."
    assert (tmp_path / "ledger").read_text() == "ran\n"
