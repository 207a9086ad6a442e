"""A workbench for AutoGen."""

import asyncio
from collections.abc import Mapping
from typing import Any

from autogen_core import Image
from autogen_core.tools import ImageResultContent, TextResultContent, ToolResult, Workbench

from jackstay.agents._source import ToolSource


class AutogenWorkbench(Workbench):
    """The tools of a server as a workbench."""

    def __init__(self, source: ToolSource) -> None:
        self._source = source

    async def start(self) -> None:
        """Open the connection."""
        await self._source.open()

    async def stop(self) -> None:
        """Close the connection."""
        await self._source.close()

    async def reset(self) -> None:
        """Do nothing: the state is the server's."""

    async def save_state(self) -> Mapping[str, Any]:
        """Return nothing: the state is the server's."""
        return {}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Do nothing: the state is the server's."""

    async def list_tools(self) -> list[Any]:
        """Return the tools; the first call opens the connection."""
        await self._source.open()
        return [
            {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
            for tool in await self._source.list_tools()
        ]

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        cancellation_token: Any = None,
        call_id: str | None = None,  # noqa: ARG002
    ) -> Any:
        """Call a tool; the result of a failed call has `is_error` and the error as text."""
        call = asyncio.ensure_future(self._source.call(name, dict(arguments or {})))
        if cancellation_token is not None:
            cancellation_token.link_future(call)
        outcome = await call
        content = [
            TextResultContent(content=part)
            if isinstance(part, str)
            else ImageResultContent(content=Image.from_base64(part.data))
            for part in outcome.parts
        ]
        return ToolResult(name=name, result=content, is_error=outcome.is_error)
