"""Completion of prompt arguments and of template variables, by registered functions.

A function is called with the value typed so far and, if it has a second parameter, with the arguments that are already
resolved (since 2025-06-18).
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from jackstay.errors import UsageError
from jackstay.server._entries import runs_blocking
from jackstay.server._functions import Call, Function
from jackstay.types import CompleteResult, Completion, PromptReference, ResourceTemplateReference, encode_json

# 2025-11-25 server/utilities/completion: at most this many values in a result.
MAX_VALUES = 100

# The type of the reference, the prompt's name or the URI template, and the argument's name.
CompletionKey = tuple[str, str, str]


class CompletionEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A completion function. `is_async` and `is_blocking`: see `Entry`."""

    key: CompletionKey
    call: Callable[..., object]
    is_async: bool
    is_blocking: bool
    function: Function

    def bind(self, value: str, arguments: Mapping[str, str] | None, context: object) -> Call:
        """Return the arguments to call the function with."""
        values: tuple[object, ...] = (value, dict(arguments or {}))
        return self.function.arrange(values[: len(self.function.parameters)], context)

    def encode_result(self, value: object, _: str) -> bytes:
        """Encode what the function returned: strings, a `Completion`, a `CompleteResult`, or None.

        Values beyond `MAX_VALUES` are dropped, and `hasMore` is set.

        Raises:
            UsageError: for anything else.
        """
        if isinstance(value, CompleteResult):
            value = value.completion
        if not isinstance(value, Completion):
            value = Completion(values=_strings(value))
        if len(value.values) > MAX_VALUES:
            total = len(value.values) if value.total is None else value.total
            value = Completion(values=value.values[:MAX_VALUES], total=total, has_more=True)
        return encode_json(CompleteResult(completion=value))


def _strings(value: object) -> list[str]:
    if value is None:
        return []
    values: list[Any] = list(value) if isinstance(value, Iterable) and not isinstance(value, str) else [value]
    for item in values:
        if not isinstance(item, str):
            raise UsageError(f"completion values must be str, not {type(item).__name__}", path="values")
    return values


def completion_key(reference: PromptReference | ResourceTemplateReference, argument: str) -> CompletionKey:
    """Return the key of a completion."""
    name = reference.name if isinstance(reference, PromptReference) else reference.uri
    return reference.type, name, argument


def completion_from_function(
    of: str | PromptReference | ResourceTemplateReference,
    argument: str,
    call: Callable[..., object],
    blocking: bool | None = None,
) -> CompletionEntry:
    """Create a completion from a function of `(value)` or `(value, arguments)`, and optionally a `Context`.

    It is for a prompt argument or a template variable: `of` is a reference, the prompt's name or the URI template.

    Raises:
        UsageError: for a function with other parameters.
    """
    reference = of
    if isinstance(reference, str):
        is_template = "{" in reference or "://" in reference
        reference = ResourceTemplateReference(uri=reference) if is_template else PromptReference(name=reference)
    function = Function(call)
    if not 1 <= len(function.parameters) <= 2:
        raise UsageError(f"{function.name} must accept (value) or (value, arguments)", path=function.name)
    return CompletionEntry(
        key=completion_key(reference, argument),
        call=function.call,
        is_async=function.is_async,
        is_blocking=runs_blocking(function, blocking),
        function=function,
    )
