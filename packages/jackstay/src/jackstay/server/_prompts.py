"""Prompts from functions. The parameters are the arguments of the prompt.

MCP sends every argument as a string. Parameters may also be numbers, booleans, dates, enumerations or optional, which
are converted; lists and objects are rejected at registration.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from jackstay.errors import UsageError
from jackstay.server._content import encode_blocks, to_block
from jackstay.server._entries import Entry, EntryOptions, body_fields, check_name, entry_fields
from jackstay.server._functions import Function
from jackstay.types import GetPromptResult, Prompt, PromptArgument, PromptMessage, Result, decode, encode_json

_TEXTUAL = {"string", "integer", "number", "boolean", "null"}


class PromptOptions(EntryOptions, frozen=True, kw_only=True):
    """The options of a prompt."""


class PromptEntry(Entry, frozen=True, kw_only=True):
    """A registered prompt."""

    body: Prompt

    def encode_result(self, value: object, version: str) -> bytes:
        """Encode what the function returned: a string, block, message, a list of these, or a `Result`.

        Raises:
            UsageError: for a value without a JSON form.
        """
        if isinstance(value, GetPromptResult):
            messages: Sequence[object] = value.messages
            rest: Mapping[str, object] = value.raw
        elif isinstance(value, Result):
            return encode_json(value)
        else:
            messages = value if isinstance(value, list | tuple) else [] if value is None else [value]
            rest = {} if self.body.description is None else {"description": self.body.description}
        written = b",".join(_encode_message(message, version) for message in messages)
        return encode_json({**rest, "messages": msgspec.Raw(b"[%b]" % written)})


def prompt_from_function(call: Callable[..., object], options: PromptOptions | None = None) -> PromptEntry:
    """Create a prompt from a function.

    Raises:
        UsageError: for a parameter whose type cannot be read from a string, and as `Function`.
    """
    options = options or PromptOptions()
    function = Function(call)
    name = check_name(options.name or function.name)
    properties: Any = function.input_schema["properties"]
    for argument, schema in properties.items():
        if not _is_textual(schema, function.input_schema.get("$defs")):
            where = f"{function.name}({argument})"
            message = f"{where}: prompt arguments are strings, and this type cannot be read from one"
            raise UsageError(message, path=where)
    arguments = [
        PromptArgument(name=row.name, description=properties[row.name].get("description"), required=row.is_required)
        for row in function.parameters
    ]
    body = Prompt(arguments=arguments or None, **body_fields(name, function, options))
    return PromptEntry(**entry_fields(name, body, function, function.bind_strings, options))


def _is_textual(schema: Any, definitions: Any) -> bool:
    if "$ref" in schema:
        return _is_textual(definitions[schema["$ref"].removeprefix("#/$defs/")], definitions)
    if "anyOf" in schema:
        return all(_is_textual(choice, definitions) for choice in schema["anyOf"])
    return "enum" in schema or "const" in schema or schema.get("type", "string") in _TEXTUAL


def _read_message(message: dict[str, object]) -> PromptMessage:
    role, content = message["role"], message["content"]
    if role not in ("user", "assistant"):
        raise UsageError(f"role must be 'user' or 'assistant', not {role!r}", path="role")
    if isinstance(content, dict):
        return decode(PromptMessage, encode_json(message))
    return PromptMessage(role=role, content=to_block(content))


def _encode_message(message: object, version: str) -> bytes:
    if isinstance(message, dict) and message.keys() == {"role", "content"}:
        message = _read_message(message)
    if not isinstance(message, PromptMessage):
        message = PromptMessage(role="user", content=to_block(message))
    content = encode_blocks([message.content], version)[1:-1]
    return b'{"role":"%b","content":%b}' % (message.role.encode(), content)
