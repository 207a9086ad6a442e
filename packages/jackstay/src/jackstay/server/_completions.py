"""Completions: functions that say how what a user is typing may go on.

A completer belongs to one argument of one prompt, or to one variable of one template. It takes what was typed so far,
and the arguments that are already settled if it has a second parameter (2025-06-18).

Must never know a connection. Above: `_catalogue`, the dispatch. Below: `_functions`.
"""

from collections.abc import Callable, Iterable, Mapping

import msgspec

from jackstay.errors import UsageError
from jackstay.server._entries import runs_blocking
from jackstay.server._functions import Call, Function
from jackstay.types import CompleteResult, Completion, PromptReference, ResourceTemplateReference, encode_json

# 2025-11-25 server/utilities/completion: at most this many values in an answer.
MOST_VALUES = 100

# What is completed: the kind of reference, the prompt's name or the template's text, the argument.
CompletionKey = tuple[str, str, str]


class CompletionEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A completer, run as `is_async` and `is_blocking` say (see `Entry`)."""

    key: CompletionKey
    call: Callable[..., object]
    is_async: bool
    is_blocking: bool
    function: Function

    def bind(self, typed: str, settled: Mapping[str, str] | None, context: object) -> Call:
        """What to call it with."""
        values: tuple[object, ...] = (typed, dict(settled or {}))
        return self.function.place(values[: len(self.function.parameters)], context)

    def answer(self, value: object) -> bytes:
        """The encoded result: of strings, a `Completion`, a result, or nothing. What is too many is cut, and said so.

        Raises:
            UsageError: for anything else.
        """
        if isinstance(value, CompleteResult):
            value = value.completion
        if not isinstance(value, Completion):
            value = Completion(values=_texts(value))
        if len(value.values) > MOST_VALUES:
            total = len(value.values) if value.total is None else value.total
            value = Completion(values=value.values[:MOST_VALUES], total=total, has_more=True)
        return encode_json(CompleteResult(completion=value))


def _texts(value: object) -> list[str]:
    if value is None:
        return []
    values: list[str] = []
    for item in value if isinstance(value, Iterable) and not isinstance(value, str) else [value]:
        if not isinstance(item, str):
            raise UsageError(f"a completion must be strings, not {type(item).__name__}", path="values")
        values.append(item)
    return values


def completion_key(reference: PromptReference | ResourceTemplateReference, argument: str) -> CompletionKey:
    """What a request asks to complete."""
    name = reference.name if isinstance(reference, PromptReference) else reference.uri
    return reference.type, name, argument


def completion_from_function(
    reference: PromptReference | ResourceTemplateReference,
    argument: str,
    call: Callable[..., object],
    context_type: type | None = None,
    blocking: bool | None = None,
) -> CompletionEntry:
    """A completer. `call` takes `(typed)` or `(typed, settled)`, and the context by its annotation.

    Raises:
        UsageError: for a function that takes anything else.
    """
    function = Function(call, context_type)
    if not 1 <= len(function.parameters) <= 2:
        raise UsageError(f"{function.name} must take (typed) or (typed, settled)", path=function.name)
    return CompletionEntry(
        key=completion_key(reference, argument),
        call=call,
        is_async=function.is_async,
        is_blocking=runs_blocking(function, blocking),
        function=function,
    )
