"""Creates catalogue entries from what an application registers.

The modules for each kind of entry are imported inside these functions, so that `import jackstay` is fast and a server
with only tools never loads the code for prompts.
"""
# ruff: noqa: PLC0415  # imports inside functions are the purpose of this module

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any, Literal, TypedDict, TypeVar

    import msgspec

    from jackstay.apps import App
    from jackstay.errors import Json
    from jackstay.server._completions import CompletionEntry
    from jackstay.server._entries import IconLike
    from jackstay.server._prompts import PromptEntry
    from jackstay.server._resources import ResourceEntry
    from jackstay.server._tools import ToolEntry
    from jackstay.types import Annotations, PromptReference, ResourceTemplateReference, ToolAnnotations

    S = TypeVar("S", bound=msgspec.Struct)

    # Only for type checkers: creating TypedDicts at run time is slow.

    class AddedToolKeywords(TypedDict, total=False):
        """The options of a tool with a JSON Schema."""

        title: str
        description: str
        read_only: bool
        destructive: bool
        idempotent: bool
        open_world: bool
        icons: Sequence[IconLike]
        meta: Mapping[str, Json]
        blocking: bool
        scopes: Iterable[str]
        tags: Iterable[str]
        timeout: float
        annotations: ToolAnnotations | Mapping[str, Json]
        enabled: bool
        task: bool | Literal["optional", "required", "deferred"]
        app: App
        app_only: bool

    class ToolKeywords(AddedToolKeywords, total=False):
        """The options of a tool; see `ToolOptions`."""

        name: str
        structured: bool
        output_schema: Mapping[str, Json]

    class ResourceKeywords(TypedDict, total=False):
        """The options of a resource; see `ResourceOptions`."""

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
        tags: Iterable[str]
        enabled: bool

    class PromptKeywords(TypedDict, total=False):
        """The options of a prompt; see `PromptOptions`."""

        name: str
        title: str
        description: str
        icons: Sequence[IconLike]
        meta: Mapping[str, Json]
        blocking: bool
        tags: Iterable[str]
        enabled: bool


def _make_options(where: str, cls: type[S], options: Mapping[str, Any]) -> S:
    """Create the options. Raises: UnexpectedOptionError for an unknown one."""
    known = cls.__struct_fields__
    for name in options:
        if name not in known:
            from jackstay.errors import UnexpectedOptionError

            raise UnexpectedOptionError(where, name, known)
    return cls(**options)


def make_tool(call: Callable[..., object], options: ToolKeywords) -> ToolEntry:
    """Create a tool from a function. Raises: UsageError, which names the function, the parameter and the reason."""
    from jackstay.server._tools import ToolOptions, tool_from_function

    return tool_from_function(call, _context_type(), _make_options("tool()", ToolOptions, options))


def make_tool_from_schema(
    handler: Callable[..., object],
    name: str,
    schemas: tuple[Mapping[str, Json], Mapping[str, Json] | None],
    options: AddedToolKeywords,
    *,
    validate: bool,
) -> ToolEntry:
    """Create a tool from a handler and its input and output schemas. Raises: UsageError."""
    from jackstay.server._tools import ToolOptions, ToolSchemas, tool_from_schema

    made = ToolSchemas(input_schema=schemas[0], output_schema=schemas[1], validate=validate)
    return tool_from_schema(handler, made, _make_options("add_tool()", ToolOptions, {"name": name, **options}))


def make_resource(
    uri: str, call: Callable[..., object], options: ResourceKeywords, more: ResourceKeywords | None = None
) -> ResourceEntry:
    """Create a resource from a function. `more` options override the others.

    Raises: UsageError, if variables and parameters do not match.
    """
    from jackstay.server._resources import ResourceOptions, resource_from_function

    given = {**options, **(more or {})}
    return resource_from_function(uri, call, _context_type(), _make_options("resource()", ResourceOptions, given))


def make_prompt(call: Callable[..., object], options: PromptKeywords) -> PromptEntry:
    """Create a prompt from a function. Raises: UsageError for a parameter whose type cannot be read from a string."""
    from jackstay.server._prompts import PromptOptions, prompt_from_function

    return prompt_from_function(call, _context_type(), _make_options("prompt()", PromptOptions, options))


def make_completion(
    of: str | PromptReference | ResourceTemplateReference,
    argument: str,
    call: Callable[..., object],
    blocking: bool | None,
) -> CompletionEntry:
    """Create a completion of a prompt argument or a template variable from a function. Raises: UsageError."""
    from jackstay.server._completions import completion_from_function
    from jackstay.types import PromptReference, ResourceTemplateReference

    reference = of
    if isinstance(reference, str):
        is_template = "{" in reference or "://" in reference
        reference = ResourceTemplateReference(uri=reference) if is_template else PromptReference(name=reference)
    return completion_from_function(reference, argument, call, _context_type(), blocking)


def _context_type() -> type:
    """Return the class whose parameters receive the context of the request."""
    from jackstay.server._context import Context

    return Context
