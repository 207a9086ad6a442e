"""A toolset for Google's Agent Development Kit."""

from base64 import b64decode
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from google.adk.tools.base_tool import BaseTool
from google.adk.tools.base_toolset import BaseToolset
from google.genai import types

from jackstay.agents._source import AgentTool, CallEvent, ToolSource

# As the kit's own toolset has it: called with the progress, the total and the message.
ProgressCallback: TypeAlias = Callable[[float, float | None, str | None], Awaitable[object]]
OnEvent: TypeAlias = Callable[[CallEvent], Awaitable[object]]


class AdkToolset(BaseToolset):
    """The tools of a server as a toolset, which is open from its first use until `close()`."""

    def __init__(self, source: ToolSource, progress_callback: ProgressCallback | None) -> None:
        super().__init__()
        self._source = source
        self._on_event = None if progress_callback is None else _on_progress(progress_callback)

    async def get_tools(self, readonly_context: Any = None) -> list[Any]:  # noqa: ARG002
        """Return the tools; the first call opens the connection."""
        await self._source.open()
        return [AdkTool(self._source, tool, self._on_event) for tool in await self._source.list_tools()]

    async def close(self) -> None:
        """Close the connection. The runner calls this when it is closed."""
        await self._source.close()


class AdkTool(BaseTool):
    """A tool of an MCP server."""

    def __init__(self, source: ToolSource, tool: AgentTool, on_event: OnEvent | None) -> None:
        super().__init__(name=tool.name, description=tool.description)
        self._source = source
        self._tool = tool
        self._on_event = on_event

    def _get_declaration(self) -> Any:
        return types.FunctionDeclaration(
            name=self.name, description=self.description, parameters_json_schema=self._tool.parameters
        )

    async def run_async(self, *, args: dict[str, Any], tool_context: Any) -> Any:  # noqa: ARG002
        """Call the tool. The result has `output`, the structured output, or `error`."""
        # The name for the server: the framework may have added a prefix to `self.name`.
        outcome = await self._source.call(self._tool.name, args, self._on_event)
        if outcome.is_error or outcome.result is None:
            return {"error": outcome.text}
        images = [
            types.Part.from_bytes(data=b64decode(part.data), mime_type=part.mime_type)
            for part in outcome.parts
            if not isinstance(part, str)
        ]
        structured = outcome.result.structured_content
        if isinstance(structured, dict) and not images:
            return structured
        return {"output": outcome.text, "images": images} if images else {"output": outcome.text}


def _on_progress(callback: ProgressCallback) -> OnEvent:
    async def on_event(event: CallEvent) -> None:
        if event.kind == "progress":
            await callback(event.data["progress"], event.data.get("total"), event.data.get("message"))

    return on_event
