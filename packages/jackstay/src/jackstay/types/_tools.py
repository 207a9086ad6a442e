"""Tools, as `tools/list` describes them. The params of `tools/call` are in `_input_required`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from jackstay.types._body import Body, BodyWithMeta, JsonObject, Maybe
from jackstay.types._display import Icon


class ToolAnnotations(Body, frozen=True, kw_only=True):
    """Hints about a tool (2025-03-26). They come from the server and must not be trusted."""

    title: Maybe[str] = None
    read_only_hint: Maybe[bool] = None
    destructive_hint: Maybe[bool] = None
    idempotent_hint: Maybe[bool] = None
    open_world_hint: Maybe[bool] = None


class ToolExecution(Body, frozen=True):
    """How a tool may be run (2025-11-25 only)."""

    # "forbidden", "optional" or "required"; open, because one odd tool must not fail a whole list. Absent: forbidden.
    task_support: Maybe[str] = None


class Tool(BodyWithMeta, frozen=True):
    """A tool. The schemas are JSON Schema objects, which are not interpreted here."""

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
        """Whether calls depend on each other: the member `mode`, else `_meta["mode"]`; "stateful" by default.

        MCP does not define this member. It is trusted if a server sends it; otherwise state is assumed.
        """
        mode = None
        if self.extra is not None:
            mode = self.extra.members.get("mode")
        if mode is None and self.meta is not None:
            mode = self.meta.get("mode")
        return "stateless" if mode == "stateless" else "stateful"
