"""smolagents."""

import base64
from pathlib import Path
from typing import Any

from contract import Contract, Received, Run, Turn, check_reverse, example, own_command, weather
from mcp import StdioServerParameters
from PIL import Image
from smolagents import ActionStep, MCPClient, ToolCallingAgent
from smolagents import tool as smolagents_tool
from smolagents.models import get_tool_json_schema
from workshop import PNG, Workshop

from jackstay import Server
from jackstay.agents import smolagents_tools
from jackstay.types import ImageContent, TextContent

smolagents_agent = example("smolagents_agent")


def run_agent(tools: list[Any], turns: tuple[Turn, ...]) -> tuple[Any, Any]:
    model = smolagents_agent.ScriptedModel(list(turns))
    agent = ToolCallingAgent(tools=tools, model=model, verbosity_level=0)
    return agent, agent.run("Work.")


class TestContract(Contract):
    function = staticmethod(smolagents_tools)
    has_events = False
    logs_progress = True
    has_structured = False  # the model receives it as text; code receives a dict: see below

    def run(self, source: Any, *turns: Turn, **options: Any) -> Run:
        with self.adapt(source, **options) as tools:
            agent, answer = run_agent(tools, turns)
        steps = [step for step in agent.memory.steps if isinstance(step, ActionStep)][:-1]
        self.state = agent.state
        return Run(
            answer=answer,
            results=[Received(str(step.observations if step.error is None else step.error)) for step in steps],
            tools=[tool.name for tool in tools],
            schemas={tool.name: get_tool_json_schema(tool)["function"]["parameters"] for tool in tools},
        )

    def test_an_image_reaches_the_model(self) -> None:
        self.run(Workshop().server, ("draw", {}), "Nice.")
        image = self.state["image.png"].to_raw()
        assert (image.size, image.format) == ((1, 1), "PNG")


def test_values_of_tools() -> None:
    server = Server("values")

    @server.tool(name="is")
    def keyword_(limit: int | None = None, kind: dict[str, int] | str = "") -> str:
        """A keyword."""
        return f"{limit} {kind}"

    @server.tool
    def both() -> list[TextContent | ImageContent]:
        """A text and an image."""
        return [TextContent(text="text"), ImageContent(data=base64.b64encode(PNG).decode(), mime_type="image/png")]

    with smolagents_tools(Workshop().server) as tools:
        by_name = {tool.name: tool for tool in tools}
        assert by_name["add"](a=2, b=3) == {"sum": 5}
        assert by_name["fail"]() == "Error: the shelf is empty"
    with smolagents_tools(server) as tools:
        by_original = {tool.name.split("_")[0]: tool for tool in tools}
        renamed, pair = by_original["tool"], by_original["both"]
        assert renamed.name.startswith("tool_is_")
        assert renamed(limit=None) == "None "
        assert renamed.inputs["kind"]["type"] == "any"
        text, image = pair()
        assert text == "text"
        assert isinstance(image, Image.Image)


def test_a_tool_of_the_framework_as_an_mcp_tool() -> None:
    @smolagents_tool
    def double(number: int) -> int:
        """Double.

        Args:
            number: what to double
        """
        return 2 * number

    schema = get_tool_json_schema(double)["function"]["parameters"]
    check_reverse(double.name, double.description, schema, lambda arguments: double(**arguments))


def test_example() -> None:
    assert smolagents_agent.main(weather()) == "Bring a coat: 10 degrees."


def test_own_adapter_when_the_server_dies(tmp_path: Path) -> None:
    crash = ("crash", {"ledger": str(tmp_path / "ledger")})
    with MCPClient(StdioServerParameters(**own_command("add", "crash")), structured_output=True) as tools:
        agent, answer = run_agent(tools, (crash, ("add", {"a": 2, "b": 3}), "Done."))
        lost, sum_, _ = (str(step.error) for step in agent.memory.steps if isinstance(step, ActionStep))
    # It does not reconnect, and requests that the model tries again, although the call ran.
    assert lost.endswith("McpError: Connection closed\nPlease try again or use another tool")
    assert sum_.endswith("ClosedResourceError: \nPlease try again or use another tool")
    assert answer == "Done."
    assert (tmp_path / "ledger").read_text() == "ran\n"


def test_own_adapter_with_a_tool_without_parameters() -> None:
    """The adapter requires `properties` in every input schema."""
    with MCPClient(StdioServerParameters(**own_command("fail")), structured_output=True) as tools:
        assert [tool.name for tool in tools] == ["fail"]
