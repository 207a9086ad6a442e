"""Results that can be read in two ways: as objects of `jackstay.types`, and as the dicts and tuples of apcore-mcp."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

from jackstay.types import CallToolResult, TextContent, Tool, ToolAnnotations

# The content as dicts, whether it is an error, and the trace id.
CallTuple: TypeAlias = tuple[list[dict[str, Any]], bool, str | None]

_HINTS: Final = {
    "readOnlyHint": "read_only_hint",
    "destructiveHint": "destructive_hint",
    "idempotentHint": "idempotent_hint",
    "openWorldHint": "open_world_hint",
    "title": "title",
}


class DirectResult(CallToolResult, frozen=True):
    """The result of `ExecutionRouter.handle_call`, which can be unpacked: `content, is_error, trace_id = result`.

    The tuple has the texts of apcore-mcp for errors.
    """

    @classmethod
    def of(cls, result: CallToolResult) -> "DirectResult":
        """Return a result in this form."""
        made = cls(result.content, result.structured_content, result.is_error, meta=result.meta)
        made.__dict__["direct_text"] = result.__dict__.get("direct_text")
        return made

    def __iter__(self) -> Iterator[Any]:
        return iter(self.as_tuple())

    def __getitem__(self, at: int) -> Any:
        return self.as_tuple()[at]

    def __len__(self) -> int:
        return 3

    def as_tuple(self) -> CallTuple:
        """Return the content as dicts, whether it is an error, and the trace id."""
        parent = (self.meta or {}).get("traceparent")
        content: list[dict[str, Any]] = [
            {"type": "text", "text": block.text} for block in self.content if isinstance(block, TextContent)
        ]
        if self.is_error and content and content[0]["text"].startswith("Input validation failed:"):
            content[0] = {"type": "text", "text": content[0]["text"].replace("Input v", "V", 1)}
        if self.__dict__.get("direct_text"):
            content = [{"type": "text", "text": self.__dict__["direct_text"]}]
        if content and parent is not None:
            content[0] = {**content[0], "_meta": {"traceparent": parent}}
        return content, bool(self.is_error), None if parent is None else str(parent).split("-")[1]


class ErrorResult(CallToolResult, frozen=True):
    """The result of `ErrorMapper.to_mcp_error`, which can be read as a dict with `errorType` and so on."""

    def as_dict(self) -> dict[str, Any]:
        """Return the dict of the error."""
        from apcore_mcp.compat.errors import MCPErrorFormatter  # noqa: PLC0415  # few programs need it

        found: dict[str, Any] = MCPErrorFormatter().format(self.__dict__["error"])
        return found

    def __getitem__(self, key: str) -> Any:
        return self.as_dict()[key]

    def __contains__(self, key: object) -> bool:
        return key in self.as_dict()

    def __iter__(self) -> Iterator[str]:
        return iter(self.as_dict())

    def get(self, key: str, default: Any = None) -> Any:
        """Return a value of the dict."""
        return self.as_dict().get(key, default)

    def keys(self) -> Any:
        """Return the keys of the dict."""
        return self.as_dict().keys()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Mapping):
            return self.as_dict() == other
        return isinstance(other, CallToolResult) and _fields(self) == _fields(other)

    __hash__ = None  # type: ignore[assignment]  # its content is a list


class Hints(ToolAnnotations, frozen=True):
    """Annotations of a tool that can be read as a dict with `readOnlyHint` and so on."""

    def __getitem__(self, key: str) -> Any:
        return getattr(self, _HINTS[key])

    def __contains__(self, key: object) -> bool:
        return key in _HINTS

    def __iter__(self) -> Iterator[str]:
        return iter(_HINTS)

    def get(self, key: str, default: Any = None) -> Any:
        """Return a hint."""
        return getattr(self, _HINTS[key]) if key in _HINTS else default

    def keys(self) -> Any:
        """Return the names of the hints."""
        return _HINTS.keys()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Mapping):
            return dict(self) == other
        return isinstance(other, ToolAnnotations) and _fields(self) == _fields(other)

    __hash__ = ToolAnnotations.__hash__

    def __getattr__(self, name: str) -> Any:
        if name not in _HINTS:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        return self[name]


class FactoryTool(Tool, frozen=True):
    """A tool of `MCPServerFactory`, also with the names of the official SDK."""

    @property
    def inputSchema(self) -> Mapping[str, Any]:  # noqa: N802  # the SDK's
        """The input schema."""
        return self.input_schema

    @property
    def outputSchema(self) -> Mapping[str, Any] | None:  # noqa: N802  # the SDK's
        """The output schema."""
        return self.output_schema


def to_factory_tool(tool: Any) -> Tool:
    """Return a tool, also one of the official SDK."""
    if isinstance(tool, Tool):
        return tool
    hints = None if tool.annotations is None else tool.annotations.model_dump(exclude_none=True)
    return FactoryTool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.inputSchema,
        output_schema=tool.outputSchema,
        annotations=None if hints is None else Hints(**{_HINTS[key]: hints[key] for key in hints if key in _HINTS}),
        meta=tool.meta,
    )


def _fields(struct: Any) -> list[Any]:
    return [getattr(struct, name) for name in struct.__struct_fields__]


__all__ = ["CallTuple", "DirectResult", "ErrorResult", "FactoryTool", "Hints", "to_factory_tool"]
