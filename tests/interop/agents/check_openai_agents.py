"""The OpenAI Agents SDK."""

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, RunConfig, Runner
from agents.mcp import MCPServerStdio
from contract import AsyncContract, Received, Run, Turn, example, own_command, weather
from workshop import Workshop

from jackstay import Fleet, Server, UsageError
from jackstay.agents import openai_agents_server

openai_agents_agent = example("openai_agents_agent")
CONFIG = RunConfig(tracing_disabled=True)


def received(output: Any) -> Received:
    if isinstance(output, str):
        return Received(output)
    texts = [item["text"] for item in output if item["type"] == "input_text"]
    images = [item["image_url"].partition(",")[2] for item in output if item["type"] == "input_image"]
    return Received("\n".join(texts), [base64.b64decode(image) for image in images])


class TestContract(AsyncContract):
    function = staticmethod(openai_agents_server)
    has_structured = False  # the SDK has either structured output or texts and images
    has_events = False
    logs_progress = True

    async def arun(self, source: Any, *turns: Turn, **options: Any) -> Run:
        model = openai_agents_agent.ScriptedModel(list(turns))
        async with self.adapt(source, **options) as server:
            agent = Agent("Worker", mcp_servers=[server], model=model)
            result = await Runner.run(agent, "Work.", run_config=CONFIG)
        outputs = [item["output"] for item in model.received if item.get("type") == "function_call_output"]
        return Run(
            answer=result.final_output,
            results=[received(output) for output in outputs],
            tools=[tool.name for tool in model.tools],
            schemas={tool.name: tool.params_json_schema for tool in model.tools},
        )


def test_prompts_and_resources() -> None:
    server = Server("library")

    @server.prompt
    def greet(name: str) -> str:
        """Greet."""
        return f"Hello {name}"

    @server.resource("book://one")
    def book() -> str:
        """A book."""
        return "text"

    @server.resource("book://{number}")
    def any_book(number: str) -> str:
        """Any book."""
        return number

    async def scenario() -> None:
        async with openai_agents_server(server) as library:
            assert library.name == "library"
            assert [prompt.name for prompt in (await library.list_prompts()).prompts] == ["greet"]
            prompt = await library.get_prompt("greet", {"name": "Ada"})
            assert prompt.messages[0].content.text == "Hello Ada"
            assert [str(resource.uri) for resource in (await library.list_resources()).resources] == ["book://one"]
            templates = (await library.list_resource_templates()).model_dump(by_alias=True)["resourceTemplates"]
            assert [template["uriTemplate"] for template in templates] == ["book://{number}"]
            assert (await library.read_resource("book://one")).contents[0].text == "text"

    asyncio.run(scenario())


def test_a_fleet_has_tools_and_no_prompts() -> None:
    async def scenario() -> None:
        async with openai_agents_server(Fleet({"one": Workshop().server, "two": Workshop().server})) as both:
            assert "two__add" in [tool.name for tool in await both.list_tools()]
            result = await both.call_tool("two__add", {"a": 1, "b": 2})
            assert result.model_dump(by_alias=True)["structuredContent"] == {"sum": 3}
            with pytest.raises(UsageError, match="prompts/list needs one server"):
                await both.list_prompts()

    asyncio.run(scenario())


def test_example() -> None:
    assert asyncio.run(openai_agents_agent.main(weather())) == "Bring a coat: 10 degrees."


@pytest.mark.parametrize("is_cached", [False, True], ids=["listing", "cached list"])
def test_own_adapter_when_the_server_dies(is_cached: bool, tmp_path: Path) -> None:
    crash = ("crash", {"ledger": str(tmp_path / "ledger")})
    model = openai_agents_agent.ScriptedModel([crash, ("add", {"a": 2, "b": 3}), "Done."])

    async def scenario() -> Any:
        async with MCPServerStdio(own_command(), cache_tools_list=is_cached) as server:
            agent = Agent("Worker", mcp_servers=[server], model=model)
            await Runner.run(agent, "Work.", run_config=CONFIG)

    if not is_cached:  # the next turn lists the tools again, which ends the run
        with pytest.raises(Exception, match="Connection closed"):
            asyncio.run(scenario())
        return
    asyncio.run(scenario())
    # It does not reconnect, and suggests to repeat a call that has run.
    outputs = [item["output"] for item in model.received if item.get("type") == "function_call_output"]
    assert outputs == ["An error occurred while running the tool. Please try again."] * 2
