"""How what an author registers becomes an entry. What a kind of entry needs is loaded with the first of that kind.

Reading signatures, writing schemas and encoding what functions return is half of this room, and all of it is for functions
that are there. So the makers are imported here, inside these functions and nowhere above: to name `Server` costs none of
them, and a server of tools never loads what prompts need.

Must never know the catalogue or a connection. Above: `_server`. Below: `_tools`, `_resources`, `_prompts`, `_completions`,
and `_context`, for the class that marks a parameter.
"""
# ruff: noqa: PLC0415 (imports inside functions are what this file is for)

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, TypedDict, TypeVar

    import msgspec

    from jackstay.errors import Json
    from jackstay.server._completions import CompletionEntry
    from jackstay.server._entries import IconLike
    from jackstay.server._prompts import PromptEntry
    from jackstay.server._resources import ResourceEntry
    from jackstay.server._tools import ToolEntry
    from jackstay.types import Annotations, PromptReference, ResourceTemplateReference

    S = TypeVar("S", bound=msgspec.Struct)

    # For type checkers alone: to build these is to compile every line of them, which takes longer than all else here.

    class AddedToolKeywords(TypedDict, total=False):
        """What may be said of a tool with a ready schema."""

        title: str
        description: str
        read_only: bool
        destructive: bool
        idempotent: bool
        open_world: bool
        icons: Sequence[IconLike]
        meta: Mapping[str, Json]
        blocking: bool
        scopes: Sequence[str]

    class ToolKeywords(AddedToolKeywords, total=False):
        """What may be said of a tool; see `ToolOptions`."""

        name: str
        structured: bool

    class ResourceKeywords(TypedDict, total=False):
        """What may be said of a resource; see `ResourceOptions`."""

        name: str
        title: str
        description: str
        mime_type: str
        size: int
        annotations: Annotations
        icons: Sequence[IconLike]
        meta: Mapping[str, Json]
        ttl_ms: int
        cache_scope: str
        blocking: bool
        allow_traversal: bool

    class PromptKeywords(TypedDict, total=False):
        """What may be said of a prompt; see `PromptOptions`."""

        name: str
        title: str
        description: str
        icons: Sequence[IconLike]
        meta: Mapping[str, Json]
        blocking: bool


def _known(kind: type[S], options: Mapping[str, Any]) -> S:
    """The options. Raises: UsageError for a name that is none of them."""
    from jackstay.errors import UsageError

    known = kind.__struct_fields__
    for name in options:
        if name not in known:
            raise UsageError(f"there is no option {name!r} here; there are {', '.join(known)}", path=name)
    return kind(**options)


def make_tool(call: Callable[..., object], options: ToolKeywords) -> ToolEntry:
    """A function as a tool. Raises: UsageError, naming the function, the parameter and the reason."""
    from jackstay.server._tools import ToolOptions, tool_from_function

    return tool_from_function(call, _context_type(), _known(ToolOptions, options))


def make_ready_tool(
    handler: Callable[..., object],
    name: str,
    schemas: tuple[Mapping[str, Json], Mapping[str, Json] | None],
    options: AddedToolKeywords,
    *,
    validate: bool,
) -> ToolEntry:
    """A handler with ready schemas, of its input and of its output if it has one, as a tool. Raises: UsageError."""
    from jackstay.server._tools import ReadySchema, ToolOptions, tool_from_schema

    ready = ReadySchema(input_schema=schemas[0], output_schema=schemas[1], validate=validate)
    return tool_from_schema(handler, ready, _known(ToolOptions, {"name": name, **options}))


def make_resource(uri: str, call: Callable[..., object], options: ResourceKeywords) -> ResourceEntry:
    """What a function returns as a resource. Raises: UsageError, where variables and parameters do not match."""
    from jackstay.server._resources import ResourceOptions, resource_from_function

    return resource_from_function(uri, call, _context_type(), _known(ResourceOptions, options))


def make_prompt(call: Callable[..., object], options: PromptKeywords) -> PromptEntry:
    """What a function returns as a prompt. Raises: UsageError for a parameter that a string cannot say."""
    from jackstay.server._prompts import PromptOptions, prompt_from_function

    return prompt_from_function(call, _context_type(), _known(PromptOptions, options))


def make_completion(
    of: str | PromptReference | ResourceTemplateReference,
    argument: str,
    call: Callable[..., object],
    blocking: bool | None,
) -> CompletionEntry:
    """A function that completes an argument of a prompt, or a variable of a template. Raises: UsageError."""
    from jackstay.server._completions import completion_from_function
    from jackstay.types import PromptReference, ResourceTemplateReference

    reference = of
    if isinstance(reference, str):
        is_template = "{" in reference or "://" in reference
        reference = (
            ResourceTemplateReference(uri=reference) if is_template else PromptReference(name=reference)
        )
    return completion_from_function(reference, argument, call, _context_type(), blocking)


def _context_type() -> type:
    """The class that marks a parameter as the request's context."""
    from jackstay.server._context import Context

    return Context
