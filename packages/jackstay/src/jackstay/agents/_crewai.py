"""Tools for CrewAI.

Progress and log messages of the server are events of the bus: `McpProgressEvent` and `McpLogEvent`.
"""

from typing import Any

from crewai.events import crewai_event_bus
from crewai.events.base_events import BaseEvent
from crewai.tools import BaseTool
from crewai.tools.tool_failure import ToolFailure, ToolFailureReason
from pydantic import PrivateAttr

from jackstay.agents._schema_model import schema_model
from jackstay.agents._source import AgentTool, CallEvent, ToolSource
from jackstay.models import Outcome


class McpProgressEvent(BaseEvent):
    """Progress of a call; `params` of the notification."""

    type: str = "mcp_progress"
    params: dict[str, Any]


class McpLogEvent(BaseEvent):
    """A log message of the server during a call; `params` of the notification."""

    type: str = "mcp_log"
    params: dict[str, Any]


class CrewAITool(BaseTool):
    """A tool of an MCP server."""

    _source: ToolSource = PrivateAttr()
    _tool: AgentTool = PrivateAttr()

    def __init__(self, source: ToolSource, tool: AgentTool) -> None:
        super().__init__(
            name=tool.name, description=tool.description, args_schema=schema_model(tool.name, tool.parameters)
        )
        self._source = source
        self._tool = tool

    def _run(self, /, **arguments: Any) -> Any:
        return _value(self._source.wait_call(self._tool.name, arguments, self._emit))

    async def _arun(self, /, **arguments: Any) -> Any:
        async def on_event(event: CallEvent) -> None:
            self._emit(event)

        return _value(await self._source.call(self._tool.name, arguments, on_event))

    def _emit(self, event: CallEvent) -> None:
        kind = McpProgressEvent if event.kind == "progress" else McpLogEvent
        crewai_event_bus.emit(self, kind(params=event.data))


def _value(outcome: Outcome) -> Any:
    if outcome.is_error:
        return ToolFailure(message=outcome.described_text, reason=ToolFailureReason.MCP_ERROR)
    return outcome.described_text
