"""A workbench for AutoGen."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Literal

from autogen_agentchat.messages import BaseAgentEvent
from autogen_core import Image
from autogen_core.tools import ImageResultContent, StaticStreamWorkbench, TextResultContent, ToolResult

from jackstay.agents._source import CallEvent, ToolSource
from jackstay.models import Outcome


class McpProgressEvent(BaseAgentEvent):
    """Progress of a call, as the server sent it."""

    type: Literal["McpProgressEvent"] = "McpProgressEvent"
    tool: str
    progress: float
    total: float | None = None
    message: str | None = None

    def to_text(self) -> str:
        """Return the progress as text."""
        share = f"{self.progress:g}" + (f" of {self.total:g}" if self.total else "")
        return f"{self.tool}: {share} {self.message or ''}".rstrip()


class McpLogEvent(BaseAgentEvent):
    """A log message of the server during a call."""

    type: Literal["McpLogEvent"] = "McpLogEvent"
    level: str
    data: Any
    logger: str | None = None

    def to_text(self) -> str:
        """Return the message as text."""
        return f"{self.level}: {self.data}"


class AutogenWorkbench(StaticStreamWorkbench):
    """The tools of a server as a workbench.

    `AssistantAgent` shows events of a call only if the workbench is a `StaticStreamWorkbench`. This one has no tools of
    its own; every method is replaced.
    """

    def __init__(self, source: ToolSource) -> None:
        super().__init__([])
        self._source = source

    def _to_config(self) -> Any:
        raise NotImplementedError("a workbench of jackstay cannot be saved as a component")

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
        return _result(name, await call)

    async def call_tool_stream(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        cancellation_token: Any = None,
        call_id: str | None = None,  # noqa: ARG002
    ) -> AsyncGenerator[Any, None]:
        """Call a tool: progress and log messages of the call as they arrive, and then its result."""
        events: asyncio.Queue[CallEvent | None] = asyncio.Queue()
        call = asyncio.ensure_future(self._source.call(name, dict(arguments or {}), events.put))
        call.add_done_callback(lambda _: events.put_nowait(None))
        if cancellation_token is not None:
            cancellation_token.link_future(call)
        try:
            while (event := await events.get()) is not None:
                if event.kind == "progress":
                    yield McpProgressEvent(source=self._source.name, tool=name, **event.data)
                else:
                    known = {key: event.data.get(key) for key in ("level", "data", "logger")}
                    yield McpLogEvent(source=self._source.name, **known)
            yield _result(name, await call)
        finally:
            call.cancel()


def _result(name: str, outcome: Outcome) -> ToolResult:
    content = [
        TextResultContent(content=part)
        if isinstance(part, str)
        else ImageResultContent(content=Image.from_base64(part.data))
        for part in outcome.parts
    ]
    return ToolResult(name=name, result=content, is_error=outcome.is_error)
