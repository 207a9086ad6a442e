"""The calls that a model asks for, read from its answer: the API's JSON as dicts, or the objects of its library.

One function knows where in each API's answer they stand. What is not a call of a function (text, thoughts, searches that
the API itself runs) is passed over, also kinds that do not exist yet. An answer of another API is refused, and never
read as one that asks for nothing. What the model wrote as arguments is not read here but when the call is run: it may
be wrong, and then it is the model that must hear of it.

Pure. Must never know a server. Above: `_toolbox`. Below: `jackstay.errors`.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from jackstay.errors import Json, UsageError
from jackstay.models._shapes import check_shape


class ModelCall(msgspec.Struct, frozen=True):
    """One call that a model asks for: `name` is the name before the model, `arguments` what it wrote, text or an object.

    `is_whole` is False where the answer was cut off inside it.
    """

    id: str
    name: str
    arguments: object
    is_whole: bool = True


# What each API calls the kind of a function's call; one of another API shows that the shape is wrong.
_KINDS: Final = {"openai": "function", "openai-responses": "function_call", "anthropic": "tool_use"}

# What to hand over for each, in words.
_WANTED: Final = {
    "openai": "a chat completion, its message, or the list of its tool calls",
    "openai-responses": "a response, or the list of its output",
    "anthropic": "a message, or the list of its content",
}

# Anthropic's reasons to stop in the middle of a block.
_CUT_OFF: Final = ("max_tokens", "model_context_window_exceeded")


def read_calls(shape: str, answer: object) -> list[ModelCall]:
    """The calls in a model's answer, in order; empty if it asks for none.

    Raises: UsageError for what is not an answer of this API.
    """
    check_shape(shape)
    if shape == "openai":
        return list(_of_chat(answer))
    if shape == "openai-responses":
        return list(_of_response(answer))
    return list(_of_message(answer))


def read_arguments(call: ModelCall) -> dict[str, Json]:
    """The arguments as an object. Nothing at all is an empty one: so models call what takes no arguments.

    Raises: UsageError that says to the model what is wrong.
    """
    arguments = call.arguments
    if isinstance(arguments, str):
        try:
            arguments = msgspec.json.decode(arguments) if arguments.strip() else {}
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise UsageError(f"the arguments are not JSON ({error})", path="arguments") from error
    if arguments is None:
        return {}
    if not isinstance(arguments, Mapping):
        raise UsageError(f"the arguments must be a JSON object, not {_kind_of(arguments)}", path="arguments")
    return dict(arguments)


def _of_chat(answer: object) -> Iterator[ModelCall]:
    choices = _member(answer, "choices")
    reason: object = None
    if isinstance(choices, list):
        if len(choices) != 1:
            raise UsageError(
                f"this completion has {len(choices)} choices: hand over the message of the one you take"
            )
        reason = _member(choices[0], "finish_reason")
        answer = _member(choices[0], "message")
    calls: object
    if isinstance(answer, list):
        calls = answer
    elif _member(answer, "role") == "assistant" and _member(answer, "type") is None:
        calls = _member(answer, "tool_calls") or []
    else:
        raise _not_an_answer("openai", answer)
    asked = _of_kind("openai", calls)
    for number, call in enumerate(asked, 1):
        function = _member(call, "function")
        yield ModelCall(
            id=_text(call, "id"),
            name=_text(function, "name"),
            arguments=_member(function, "arguments"),
            is_whole=reason != "length" or number < len(asked),
        )


def _of_response(answer: object) -> Iterator[ModelCall]:
    items = answer if isinstance(answer, list) else _member(answer, "output")
    if not isinstance(items, list):
        raise _not_an_answer("openai-responses", answer)
    for item in _of_kind("openai-responses", items):
        yield ModelCall(
            id=_text(item, "call_id"),
            name=_text(item, "name"),
            arguments=_member(item, "arguments"),
            is_whole=_member(item, "status") in (None, "completed"),
        )


def _of_message(answer: object) -> Iterator[ModelCall]:
    blocks = answer if isinstance(answer, list) else _member(answer, "content")
    was_cut = _member(answer, "stop_reason") in _CUT_OFF
    if isinstance(blocks, str) and _member(answer, "tool_calls") is None:
        blocks = []  # a message may be nothing but text
    if not isinstance(blocks, list):
        raise _not_an_answer("anthropic", answer)
    last = blocks[-1] if blocks else None
    for block in _of_kind("anthropic", blocks):
        yield ModelCall(
            id=_text(block, "id"),
            name=_text(block, "name"),
            arguments=_member(block, "input"),
            is_whole=not (was_cut and block is last),
        )


def _of_kind(shape: str, items: object) -> list[object]:
    """Those that are calls of functions. Raises: UsageError for one that says no kind, or that of another API."""
    if not isinstance(items, list):
        raise _not_an_answer(shape, items)
    found = []
    for item in items:
        kind = _member(item, "type")
        if kind == _KINDS[shape]:
            found.append(item)
        elif not isinstance(kind, str) or kind in _KINDS.values():
            raise _not_an_answer(shape, item)
    return found


def _member(thing: object, name: str) -> object:
    """A member of an answer: of a dict, or of an object of the API's library."""
    if isinstance(thing, Mapping):
        found: object = thing.get(name)
        return found
    return getattr(thing, name, None)


def _text(thing: object, name: str) -> str:
    found = _member(thing, name)
    if not isinstance(found, str) or not found:
        raise UsageError(f"a call in the model's answer has no {name}", path=name)
    return found


def _not_an_answer(shape: str, thing: object) -> UsageError:
    kind = _member(thing, "type") or _member(thing, "object")
    shown = f"{type(thing).__name__} of the type {kind!r}" if isinstance(kind, str) else type(thing).__name__
    return UsageError(
        f"{shown} is no answer in the shape {shape}: hand over {_WANTED[shape]}, or choose another shape"
    )


def _kind_of(value: object) -> str:
    return {list: "a list", bool: "true or false", int: "a number", float: "a number"}.get(
        type(value), "a text" if isinstance(value, str) else type(value).__name__
    )
