"""Tools: what a server lists, and what calling one gives. The params of a call are in `_rounds`.

Above: clients and servers. Below: `_content`, `_messages`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from jackstay.types._body import Body, BodyWithMeta, JsonObject, Maybe, MaybeJson
from jackstay.types._content import Block, joined_text
from jackstay.types._display import Icon
from jackstay.types._messages import PaginatedResult, Result


class ToolAnnotations(Body, frozen=True, kw_only=True):
    """Hints about a tool (2025-03-26), from its server: never a reason to trust it."""

    title: Maybe[str] = None
    read_only_hint: Maybe[bool] = None
    destructive_hint: Maybe[bool] = None
    idempotent_hint: Maybe[bool] = None
    open_world_hint: Maybe[bool] = None


class ToolExecution(Body, frozen=True):
    """How a tool may be run (2025-11-25 only)."""

    # "forbidden", "optional" or "required"; open, because one odd tool must not lose a whole list. Absent: forbidden.
    task_support: Maybe[str] = None


class Tool(BodyWithMeta, frozen=True):
    """A tool. The schemas are JSON Schema objects, unread and unchecked here."""

    name: str
    input_schema: JsonObject
    # Since 2025-06-18, as is `meta`.
    title: Maybe[str] = None
    description: Maybe[str] = None
    # Since 2025-06-18. Of an object until 2025-11-25, of any JSON since 2026-07-28.
    output_schema: Maybe[JsonObject] = None
    # Since 2025-03-26.
    annotations: Maybe[ToolAnnotations] = None
    # Since 2025-11-25.
    icons: Maybe[Sequence[Icon]] = None
    # 2025-11-25 only.
    execution: Maybe[ToolExecution] = None

    @property
    def mode(self) -> Literal["stateful", "stateless"]:
        """Whether calls depend on each other: the member `mode`, else `_meta["mode"]`; "stateful" if it says nothing known.

        MCP has no such member; servers that say it must be believed, and the rest are assumed to remember.
        """
        said = None
        if self.kept is not None:
            said = self.kept.members.get("mode")
        if said is None and self.meta is not None:
            said = self.meta.get("mode")
        return "stateless" if said == "stateless" else "stateful"


class ListToolsResult(PaginatedResult, frozen=True):
    """The answer to `tools/list`."""

    tools: Sequence[Tool]


class CallToolResult(Result, frozen=True):
    """The answer to `tools/call`. A tool that failed says so with `is_error`; that is no protocol error."""

    content: Sequence[Block]
    # Since 2025-06-18. An object until 2025-11-25, any JSON since 2026-07-28, where `has("structuredContent")` tells a
    # null from nothing.
    structured_content: MaybeJson = None
    is_error: Maybe[bool] = None

    @property
    def text(self) -> str:
        """The text of all text blocks, each beginning on a line of its own."""
        return joined_text(self.content)
