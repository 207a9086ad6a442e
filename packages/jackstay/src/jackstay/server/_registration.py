"""Creates catalogue entries from what an application registers.

The modules for each kind of entry are imported inside these functions, so that `import jackstay` is fast and a server
with only tools never loads the code for prompts.
"""
# ruff: noqa: PLC0415  # imports inside functions are the purpose of this module

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, TypeVar

    import msgspec

    from jackstay.errors import Json
    from jackstay.server._completions import CompletionEntry
    from jackstay.server._keywords import AddedToolKeywords, PromptKeywords, ResourceKeywords, ToolKeywords
    from jackstay.server._prompts import PromptEntry
    from jackstay.server._resources import ResourceEntry
    from jackstay.server._tools import ToolEntry
    from jackstay.types import PromptReference, ResourceTemplateReference

    S = TypeVar("S", bound=msgspec.Struct)


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
