"""A tool provider for Strands Agents.

Progress and log messages of the server are events of the agent's stream.
"""

import asyncio
from base64 import b64decode
from collections.abc import AsyncIterator
from typing import Any

from strands.tools.tool_provider import ToolProvider
from strands.types._events import ToolResultEvent, ToolStreamEvent
from strands.types.tools import AgentTool as StrandsBaseTool

from jackstay.agents._source import AgentTool, CallEvent, ToolSource
from jackstay.models import Outcome


class StrandsTools(ToolProvider):
    """The tools of a server, which is open while an agent uses it."""

    def __init__(self, source: ToolSource) -> None:
        self._source = source
        self._consumers: set[Any] = set()

    async def load_tools(self, **options: Any) -> list[Any]:  # noqa: ARG002
        """Open the connection and return the tools."""
        await self._source.open()
        return [StrandsTool(self._source, tool) for tool in await self._source.list_tools()]

    def add_consumer(self, consumer_id: Any, **options: Any) -> None:  # noqa: ARG002
        """Keep the connection open for this agent."""
        self._consumers.add(consumer_id)

    def remove_consumer(self, consumer_id: Any, **options: Any) -> None:  # noqa: ARG002
        """Close the connection after its last agent."""
        if consumer_id in self._consumers:
            self._consumers.remove(consumer_id)
            if not self._consumers:
                self._source.wait_close()


class StrandsTool(StrandsBaseTool):
    """A tool of an MCP server."""

    def __init__(self, source: ToolSource, tool: AgentTool) -> None:
        super().__init__()
        self._source = source
        self._tool = tool

    @property
    def tool_name(self) -> str:
        """The name for the model."""
        return self._tool.name

    @property
    def tool_spec(self) -> dict[str, Any]:
        """Name, description and schemas."""
        spec: dict[str, Any] = {
            "name": self._tool.name,
            "description": self._tool.description or self._tool.name,
            "inputSchema": {"json": self._tool.parameters},
        }
        if self._tool.tool.output_schema is not None:
            spec["outputSchema"] = {"json": dict(self._tool.tool.output_schema)}
        return spec

    @property
    def tool_type(self) -> str:
        """The type, for display."""
        return "mcp"

    async def stream(self, tool_use: Any, invocation_state: Any, **options: Any) -> AsyncIterator[Any]:  # noqa: ARG002
        """Call the tool: its events, then its result."""
        events: asyncio.Queue[CallEvent | None] = asyncio.Queue()

        async def call() -> Outcome:
            try:
                return await self._source.call(self._tool.name, tool_use["input"], events.put)
            finally:
                events.put_nowait(None)

        running = asyncio.create_task(call())
        try:
            while (event := await events.get()) is not None:
                yield ToolStreamEvent(tool_use, {f"mcp_{event.kind}": event.data})
            yield ToolResultEvent(_result(tool_use["toolUseId"], await running))
        finally:
            running.cancel()


def _result(id: str, outcome: Outcome) -> dict[str, Any]:
    content: list[dict[str, Any]] = [
        {"text": part}
        if isinstance(part, str)
        else {"image": {"format": part.mime_type.partition("/")[2], "source": {"bytes": b64decode(part.data)}}}
        for part in outcome.parts
    ]
    result: dict[str, Any] = {
        "toolUseId": id,
        "status": "error" if outcome.is_error else "success",
        "content": content,
    }
    if outcome.result is not None and outcome.result.structured_content is not None:
        result["structuredContent"] = outcome.result.structured_content
    return result
