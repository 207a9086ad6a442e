"""Results of `tools/list` and `tools/call`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar

import msgspec

from jackstay.errors import ProtocolError, ToolCallError
from jackstay.types._body import Maybe, MaybeJson
from jackstay.types._content import Block, TextContent, joined_text
from jackstay.types._messages import PaginatedResult, Result
from jackstay.types._tools import Tool

if TYPE_CHECKING:
    from jackstay.types._data import OutputReader

T = TypeVar("T")

# How much of a result a notebook shows.
MAX_SHOWN = 10_000


class ListToolsResult(PaginatedResult, frozen=True):
    """The result of `tools/list`."""

    tools: Sequence[Tool]


class CallToolResult(Result, frozen=True, dict=True):
    """The result of `tools/call`. If the tool failed, `is_error` is True; that is not a protocol error.

    `text`, `data` and `data_as()` are for the output of a tool that succeeded: they raise ToolCallError if it failed.
    `error_text` is its reason then.
    """

    content: Sequence[Block]
    # Since 2025-06-18. An object until 2025-11-25, any JSON since 2026-07-28, where `has("structuredContent")`
    # distinguishes null from absent.
    structured_content: MaybeJson = None
    is_error: Maybe[bool] = None

    @property
    def text(self) -> str:
        """The text of all text blocks, joined by newlines. Raises: ToolCallError if the tool failed."""
        if self.is_error:
            raise ToolCallError.of("", self)
        content = self.content
        if len(content) == 1 and type(content[0]) is TextContent:
            return content[0].text  # almost every result
        return joined_text(content)

    @property
    def error_text(self) -> str:
        """The text of a tool that failed, which is its reason; empty if it succeeded."""
        return joined_text(self.content) if self.is_error else ""

    def _repr_html_(self) -> str:
        """Return the structured output or the text, for notebooks."""
        shown = joined_text(self.content)
        if self.structured_content is not None:
            shown = msgspec.json.format(msgspec.json.encode(self.structured_content)).decode()
        shown = shown[:MAX_SHOWN].replace("&", "&amp;").replace("<", "&lt;")
        return f"<pre>{'The tool failed: ' if self.is_error else ''}{shown}</pre>"

    @property
    def data(self) -> Any:
        """The structured output, as objects of the output schema: see `OutputReader`.

        Without an output schema it is plain JSON, as `structured_content`. Raises: ToolCallError if the tool failed.
        """
        if self.is_error:
            raise ToolCallError.of("", self)
        kept = self.__dict__
        if "data" not in kept:
            reader: OutputReader | None = kept.get("reader")
            kept["data"] = self.structured_content if reader is None else reader.read(self.structured_content)
        return kept["data"]

    def with_reader(self, reader: OutputReader | None) -> Self:
        """Read `data` with this reader. Returns the same object. Called by clients."""
        self.__dict__["reader"] = reader
        return self

    def data_as(self, wanted: type[T]) -> T:
        """Return the structured output as this type: a dataclass, a TypedDict, a list of them and so on.

        `{"result": value}`, the usual form of a value that is not an object, is also accepted as the value.

        Raises: ToolCallError if the tool failed; ProtocolError if the output does not match, `path` is the place.
        """
        if self.is_error:
            raise ToolCallError.of("", self)
        data = self.structured_content
        candidates = [data]
        if isinstance(data, dict) and data.keys() == {"result"}:
            candidates.append(data["result"])
        problem: msgspec.ValidationError | None = None
        for candidate in candidates:
            try:
                return msgspec.convert(candidate, wanted)
            except msgspec.ValidationError as error:
                problem = error
        raise ProtocolError(f"the structured output does not match {wanted}: {problem}", sent=True) from problem
