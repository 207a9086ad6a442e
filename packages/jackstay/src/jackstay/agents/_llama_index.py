"""Tools for LlamaIndex.

Progress and log messages of the server are events of the instrumentation: `McpProgressEvent` and `McpLogEvent`.
"""

from base64 import b64decode
from typing import Any

from llama_index.core.base.llms.types import ImageBlock, TextBlock
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.events import BaseEvent
from llama_index.core.tools import AsyncBaseTool, ToolMetadata, ToolOutput

from jackstay.agents._schema_model import schema_model
from jackstay.agents._source import AgentTool, CallEvent, ToolSource
from jackstay.models import Outcome

_dispatcher = get_dispatcher("jackstay.agents")


class McpProgressEvent(BaseEvent):
    """Progress of a call; `params` of the notification."""

    params: dict[str, Any]


class McpLogEvent(BaseEvent):
    """A log message of the server during a call; `params` of the notification."""

    params: dict[str, Any]


class LlamaIndexTool(AsyncBaseTool):
    """A tool of an MCP server."""

    def __init__(self, source: ToolSource, tool: AgentTool) -> None:
        self._source = source
        self._tool = tool
        self._metadata = ToolMetadata(
            name=tool.name, description=tool.description, fn_schema=schema_model(tool.name, tool.parameters)
        )

    @property
    def metadata(self) -> ToolMetadata:
        """Name, description and schema."""
        return self._metadata

    def call(self, /, **arguments: Any) -> ToolOutput:
        """Call the tool and wait for its result."""
        return self._output(arguments, self._source.wait_call(self._tool.name, arguments, _emit))

    async def acall(self, /, **arguments: Any) -> ToolOutput:
        """Call the tool."""

        async def on_event(event: CallEvent) -> None:
            _emit(event)

        return self._output(arguments, await self._source.call(self._tool.name, arguments, on_event))

    def _output(self, arguments: dict[str, Any], outcome: Outcome) -> ToolOutput:
        structured = None if outcome.result is None else outcome.result.structured_content
        return ToolOutput(
            tool_name=self._tool.name,
            blocks=[
                TextBlock(text=part)
                if isinstance(part, str)
                else ImageBlock(image=b64decode(part.data), image_mimetype=part.mime_type)
                for part in outcome.parts
            ],
            raw_input=arguments,
            raw_output=outcome.text if structured is None else structured,
            is_error=outcome.is_error,
        )


def _emit(event: CallEvent) -> None:
    kind = McpProgressEvent if event.kind == "progress" else McpLogEvent
    _dispatcher.event(kind(params=event.data))
