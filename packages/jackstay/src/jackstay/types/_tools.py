"""Tools: listing and results. The params of `tools/call` are in `_input_required`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeVar

import msgspec

from jackstay.errors import ProtocolError
from jackstay.types._body import Body, BodyWithMeta, JsonObject, Maybe, MaybeJson
from jackstay.types._content import Block, joined_text
from jackstay.types._display import Icon
from jackstay.types._messages import PaginatedResult, Result

T = TypeVar("T")


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


class ListToolsResult(PaginatedResult, frozen=True):
    """The result of `tools/list`."""

    tools: Sequence[Tool]


class CallToolResult(Result, frozen=True):
    """The result of `tools/call`. If the tool failed, `is_error` is True; that is not a protocol error."""

    content: Sequence[Block]
    # Since 2025-06-18. An object until 2025-11-25, any JSON since 2026-07-28, where `has("structuredContent")`
    # distinguishes null from absent.
    structured_content: MaybeJson = None
    is_error: Maybe[bool] = None

    @property
    def text(self) -> str:
        """The text of all text blocks, joined by newlines."""
        return joined_text(self.content)

    @property
    def data(self) -> Any:
        """The structured output. `{"result": value}`, the usual form of a value that is no object, is unwrapped."""
        data = self.structured_content
        return data["result"] if isinstance(data, dict) and data.keys() == {"result"} else data

    def data_as(self, wanted: type[T]) -> T:
        """Return the structured output as this type: a dataclass, a TypedDict, a list of them and so on.

        Raises: ProtocolError if it does not match; `path` is the place.
        """
        try:
            return msgspec.convert(self.data, wanted)
        except msgspec.ValidationError as error:
            raise ProtocolError(f"the structured output does not match {wanted}: {error}", sent=True) from error
