"""Tool calls of the page, as a stream of JSON lines.

The lines are `began`, any number of `progress`, and finally `result`, `failed` or `cancelled`. A page that disconnects
cancels its calls.
"""

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator
from typing import Any, Final

import msgspec

from jackstay.client import Client
from jackstay.errors import McpError
from jackstay.inspector._events import describe_failure
from jackstay.protocol import REVISIONS, Era
from jackstay.types import META_LOG_LEVEL, CallToolResult, ProgressNotificationParams, TextContent

# Seconds without a line after which an empty line is sent.
KEEPALIVE: Final = 15.0

# Queued progress lines for a slow page; further ones are dropped.
MAX_QUEUED_PROGRESS: Final = 1000


class ToolCall:
    """One call. `cancel()` ends it."""

    def __init__(
        self, client: Client, tool: str, arguments: dict[str, Any], timeout: float | None, log_level: str
    ) -> None:
        self.id = secrets.token_urlsafe(16)
        self._client = client
        self._tool = tool
        self._arguments = arguments
        self._timeout = timeout
        self._log_level = log_level
        self._lines: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<ToolCall {self._tool}>"

    def cancel(self) -> None:
        """Cancel the call; the server is notified."""
        if self._task is not None:
            self._task.cancel()

    async def lines(self) -> AsyncGenerator[bytes, None]:
        """Run the call and yield its lines. Closing the generator cancels the call."""
        yield _line({"type": "began", "call": self.id})
        self._task = asyncio.ensure_future(self._run())
        try:
            while True:
                try:
                    async with asyncio.timeout(KEEPALIVE):
                        line = await self._lines.get()
                except TimeoutError:
                    yield b"\n"
                    continue
                if line is None:
                    return
                yield _line(line)
        finally:
            self.cancel()

    async def _run(self) -> None:
        began = time.perf_counter()
        line: dict[str, Any] = {"type": "cancelled"}
        try:
            result = await self._client.tools.call(
                self._tool,
                self._arguments,
                timeout=self._timeout,
                max_timeout=None,
                on_progress=self._progress,
                raise_on_error=False,
                meta=self._meta(),
            )
            line = describe_result(result)
        except asyncio.CancelledError:
            pass  # the task of this call ends here
        except McpError as error:
            line = {"type": "failed", **describe_failure(error)}
        line["seconds"] = round(time.perf_counter() - began, 6)
        self._lines.put_nowait(line)
        self._lines.put_nowait(None)

    def _meta(self) -> dict[str, Any] | None:
        """Return the log level for a stateless server, which has none per connection (2026-07-28 server/utilities)."""
        client = self._client
        if not self._log_level or client.state != "ready":
            return None
        is_stateless = REVISIONS[client.protocol_version].era is Era.STATELESS
        return {META_LOG_LEVEL: self._log_level} if is_stateless else None

    def _progress(self, progress: ProgressNotificationParams) -> None:
        if self._lines.qsize() < MAX_QUEUED_PROGRESS:
            shown = {"progress": progress.progress, "total": progress.total, "message": progress.message or ""}
            self._lines.put_nowait({"type": "progress", **shown})


def describe_result(result: CallToolResult) -> dict[str, Any]:
    """Return a result as the page shows it: `texts` for reading, `content` and `raw` complete."""
    raw = result.raw
    line: dict[str, Any] = {
        "type": "result",
        "is_error": bool(result.is_error),
        "texts": [block.text for block in result.content if isinstance(block, TextContent)],
        "content": raw.get("content", []),
        "problems": [],
        "raw": raw,
    }
    if result.structured_content is not None:
        line["structured"] = result.structured_content
    return line


def _line(value: dict[str, Any]) -> bytes:
    return msgspec.json.encode(value, enc_hook=str) + b"\n"
