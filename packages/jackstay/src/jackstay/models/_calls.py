"""Reads tool calls from the response of a model: JSON as dicts, or objects of the API's client library.

Items other than function calls are ignored, including unknown types; a response of another API is an error. Arguments
are decoded when the call is run, so that the model gets an error for invalid ones.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from jackstay.errors import Json, UsageError
from jackstay.types import DECODE_ERRORS


class ModelCall(msgspec.Struct, frozen=True):
    """One tool call of a model: `name` is the name that the model uses, `arguments` a JSON string or an object.

    `id` is empty if the model did not number the call, which Gemini allows.
    `is_complete` is False if the response was truncated inside the call.
    """

    id: str
    name: str
    arguments: object
    is_complete: bool = True


# The type of a function call in each API; one of another API shows that the shape is wrong.
# The parts of a response of Gemini have no type.
_KINDS: Final = {"openai": "function", "openai-responses": "function_call", "anthropic": "tool_use"}

# What to pass for each API, for error messages.
_EXPECTED: Final = {
    "openai": "a chat completion, its message, or the list of its tool calls",
    "openai-responses": "a response, or the list of its output",
    "anthropic": "a message, or the list of its content",
    "gemini": "a response with one candidate, or its content",
}

# Anthropic's stop reasons that may truncate a block.
_TRUNCATED: Final = ("max_tokens", "model_context_window_exceeded")


def read_arguments(call: ModelCall) -> dict[str, Json]:
    """Return the arguments as a dict; empty if there are none, as models write for a tool without parameters.

    Raises: UsageError with a message for the model.
    """
    arguments = call.arguments
    if isinstance(arguments, str):
        try:
            arguments = msgspec.json.decode(arguments) if arguments.strip() else {}
        except (UnicodeError, *DECODE_ERRORS) as error:
            raise UsageError(f"the arguments are not valid JSON ({error})", path="arguments") from error
    if arguments is None:
        return {}
    if not isinstance(arguments, Mapping):
        raise UsageError(f"the arguments must be a JSON object, not {_json_type(arguments)}", path="arguments")
    return dict(arguments)


def _chat_calls(response: object) -> Iterator[ModelCall]:
    choice = _only_one(response, "choices", "this completion has {} choices; pass the message of one of them")
    message = response if choice is None else _member(choice, "message")
    is_truncated = _member(choice, "finish_reason") == "length"
    calls = message
    if _member(message, "role") == "assistant" and _member(message, "type") is None:
        calls = _member(message, "tool_calls") or []
    function_calls = _function_calls("openai", calls, message)
    for call in function_calls:
        is_complete = not (is_truncated and call is function_calls[-1])
        function = _member(call, "function")
        yield _model_call(_required_string(call, "id"), function, "arguments", is_complete=is_complete)


def _response_calls(response: object) -> Iterator[ModelCall]:
    items = response if isinstance(response, list) else _member(response, "output")
    for item in _function_calls("openai-responses", items, response):
        is_complete = _member(item, "status") in (None, "completed")
        yield _model_call(_required_string(item, "call_id"), item, "arguments", is_complete=is_complete)


def _message_calls(response: object) -> Iterator[ModelCall]:
    blocks = response if isinstance(response, list) else _member(response, "content")
    is_truncated = _member(response, "stop_reason") in _TRUNCATED
    if isinstance(blocks, str) and _member(response, "tool_calls") is None:
        blocks = []  # the content of a message may be plain text
    if not isinstance(blocks, list):
        raise _not_a_response("anthropic", response)
    for block in _function_calls("anthropic", blocks, response):
        is_complete = not (is_truncated and block is blocks[-1])
        yield _model_call(_required_string(block, "id"), block, "input", is_complete=is_complete)


def _content_calls(response: object) -> Iterator[ModelCall]:
    candidate = _only_one(response, "candidates", "this response has {} candidates; pass the content of one of them")
    content = response if candidate is None else _member(candidate, "content")
    reason = _member(candidate, "finishReason") or _member(candidate, "finish_reason")
    if candidate is not None and content is None:
        return  # blocked, or nothing but a reason
    parts = _member(content, "parts")
    if not isinstance(parts, list) or _member(content, "role") not in (None, "model"):
        raise _not_a_response("gemini", content)
    is_truncated = str(_member(reason, "value") or reason) == "MAX_TOKENS"
    for part in parts:
        call = _member(part, "functionCall") or _member(part, "function_call")
        if call is not None:
            is_complete = not (is_truncated and part is parts[-1])
            yield _model_call(str(_member(call, "id") or ""), call, "args", is_complete=is_complete)


# Each yields the tool calls in a response of its API, in order. Raises: UsageError for another object.
READERS: Final = {
    "openai": _chat_calls,
    "openai-responses": _response_calls,
    "anthropic": _message_calls,
    "gemini": _content_calls,
}


def _model_call(id: str, function: object, arguments: str, *, is_complete: bool) -> ModelCall:
    """Return a call of `function`; `arguments` is the member that has them."""
    return ModelCall(id, _required_string(function, "name"), _member(function, arguments), is_complete)


def _only_one(response: object, name: str, problem: str) -> object:
    """Return the only alternative of a response, or None if it has no list of them. Raises: UsageError for several."""
    found = _member(response, name)
    if not isinstance(found, list):
        return None
    if len(found) != 1:
        raise UsageError(problem.format(len(found)))
    return found[0]


def _function_calls(shape: str, items: object, response: object) -> list[object]:
    """Return the items that are function calls. Raises: UsageError for an item without a type or of another API."""
    if not isinstance(items, list):
        raise _not_a_response(shape, response)
    found = []
    for item in items:
        kind = _member(item, "type")
        if kind == _KINDS[shape]:
            found.append(item)
        elif not isinstance(kind, str) or kind in _KINDS.values():
            raise _not_a_response(shape, item)
    return found


def _member(container: object, name: str) -> object:
    """Return a member of a dict, or an attribute of an object of the API's library; None if it is absent."""
    if isinstance(container, Mapping):
        value: object = container.get(name)
        return value
    return getattr(container, name, None)


def _required_string(container: object, name: str) -> str:
    value = _member(container, name)
    if not isinstance(value, str) or not value:
        raise UsageError(f"a tool call in the response of the model has no {name!r}", path=name)
    return value


def _not_a_response(shape: str, value: object) -> UsageError:
    kind = _member(value, "type") or _member(value, "object")
    got = f"{type(value).__name__} of type {kind!r}" if isinstance(kind, str) else type(value).__name__
    return UsageError(
        f"expected a response of {shape!r} ({_EXPECTED[shape]}), got {got}; pass one or use another shape"
    )


def _json_type(value: object) -> str:
    names = {list: "an array", bool: "a boolean", int: "a number", float: "a number", str: "a string"}
    return names.get(type(value), type(value).__name__)
