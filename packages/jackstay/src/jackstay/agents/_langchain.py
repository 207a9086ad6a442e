"""Tools for LangChain and LangGraph.

Progress and log messages of the server are custom events (`mcp_progress`, `mcp_log`) of the callbacks.
"""

from contextvars import copy_context
from typing import Any

from langchain_core.callbacks import adispatch_custom_event, dispatch_custom_event
from langchain_core.tools import BaseTool, ToolException
from pydantic import PrivateAttr

from jackstay.agents._source import AgentTool, CallEvent, ToolSource
from jackstay.models import Outcome


class LangChainTool(BaseTool):
    """A tool of an MCP server."""

    response_format: str = "content_and_artifact"
    handle_tool_error: bool = True
    _source: ToolSource = PrivateAttr()

    def __init__(self, source: ToolSource, tool: AgentTool) -> None:
        super().__init__(
            name=tool.name,
            description=tool.description,
            args_schema=tool.parameters,
            metadata=tool.annotations,
        )
        self._source = source

    # The arguments are those of the tool, which may have any names.
    async def _arun(self, /, **arguments: Any) -> tuple[Any, Any]:
        async def on_event(event: CallEvent) -> None:
            await adispatch_custom_event(f"mcp_{event.kind}", event.data)

        return _content(await self._source.call(self.name, arguments, on_event))

    def _run(self, /, **arguments: Any) -> tuple[Any, Any]:
        context = copy_context()  # has the callbacks

        def on_event(event: CallEvent) -> None:
            context.run(dispatch_custom_event, f"mcp_{event.kind}", event.data)

        return _content(self._source.wait_call(self.name, arguments, on_event))


def _content(outcome: Outcome) -> tuple[Any, Any]:
    """Return content and artifact. Raises: ToolException, which `handle_tool_error` turns into a message."""
    if outcome.is_error or outcome.result is None:
        raise ToolException(outcome.text)
    content: Any = outcome.text
    if not all(isinstance(part, str) for part in outcome.parts):
        content = [
            {"type": "text", "text": part}
            if isinstance(part, str)
            else {"type": "image", "base64": part.data, "mime_type": part.mime_type}
            for part in outcome.parts
        ]
    structured = outcome.result.structured_content
    return content, None if structured is None else {"structured_content": structured}
