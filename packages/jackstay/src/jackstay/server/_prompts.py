"""Prompts, from functions: their arguments are the parameters, and what they return is a conversation.

On the wire every argument is a string. A parameter of another type is read from one, as far as a string can say it:
numbers, booleans, dates, enumerations, "or None". Lists and objects are refused at registration.

Must never know a connection. Above: `_catalogue`, the dispatch. Below: `_functions`, `_content`.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from jackstay.errors import Json, UsageError
from jackstay.server._content import encode_blocks, to_block
from jackstay.server._entries import (
    Entry,
    IconLike,
    check_meta,
    check_name,
    encode_listed,
    read_icons,
    runs_blocking,
)
from jackstay.server._functions import Call, Function
from jackstay.server._problems import InvalidArguments
from jackstay.server._schema import Schema
from jackstay.types import GetPromptResult, Prompt, PromptArgument, PromptMessage, Result, encode_json

_TEXTUAL = {"string", "integer", "number", "boolean", "null"}


class PromptOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What an author may say of a prompt besides its function. None: from the function, or nothing."""

    name: str | None = None
    title: str | None = None
    description: str | None = None
    icons: Sequence[IconLike] | None = None
    meta: Mapping[str, Json] | None = None
    blocking: bool | None = None


class PromptEntry(Entry, frozen=True, kw_only=True):
    """A prompt. `bind(arguments, context)` gives what to call it with, or what is wrong."""

    body: Prompt
    function: Function

    @property
    def name(self) -> str:
        """What it is called by."""
        return self.key

    def bind(self, arguments: Mapping[str, str] | None, context: object) -> Call | InvalidArguments:
        """What to call it with: the answer to wrong arguments is -32602, since a prompt has no `isError`."""
        return self.function.bind_texts({} if arguments is None else arguments, context)

    def answer(self, value: object, version: str) -> bytes:
        """The encoded result: of text, blocks, messages, a list of those, or a result that is sent as it is.

        Raises:
            UsageError: for what JSON has no form for.
        """
        if isinstance(value, Result) and not isinstance(value, GetPromptResult):
            return encode_json(value)
        if isinstance(value, GetPromptResult):
            messages: Sequence[object] = value.messages
            rest: dict[str, object] = {key: said for key, said in value.raw.items() if key != "messages"}
        else:
            messages = value if isinstance(value, list | tuple) else [] if value is None else [value]
            rest = {} if self.body.description is None else {"description": self.body.description}
        written = b",".join(_encode_message(message, version) for message in messages)
        return encode_json({**rest, "messages": msgspec.Raw(b"[%b]" % written)})


def prompt_from_function(
    call: Callable[..., object], context_type: type | None = None, options: PromptOptions | None = None
) -> PromptEntry:
    """A prompt whose arguments are the parameters.

    Raises:
        UsageError: for a parameter that a string cannot say, and as `Function`.
    """
    options = options or PromptOptions()
    function = Function(call, context_type)
    name = check_name(options.name or function.name, "name")
    properties = function.input_schema.get("properties", {})
    assert isinstance(properties, dict)
    for argument, schema in properties.items():
        if not _is_textual(schema, function.input_schema):
            said = f"{function.name}({argument}) cannot be given as a string, and arguments of prompts are strings"
            raise UsageError(said, path=f"{function.name}({argument})")
    body = Prompt(
        name=name,
        title=options.title,
        description=options.description or function.description or None,
        arguments=[
            PromptArgument(
                name=parameter.name,
                description=_described(properties[parameter.name]),
                required=parameter.is_required,
            )
            for parameter in function.parameters
        ]
        or None,
        icons=read_icons(options.icons),
        meta=check_meta(options.meta),
    )
    listed = encode_listed(body, name)
    return PromptEntry(
        key=name,
        listed=listed,
        listed_plain=listed,
        call=call,
        is_async=function.is_async,
        is_blocking=runs_blocking(function, options.blocking),
        takes_context=function.takes_context,
        body=body,
        function=function,
    )


def _described(schema: Json) -> str | None:
    said = schema.get("description") if isinstance(schema, dict) else None
    return said if isinstance(said, str) else None


def _is_textual(schema: Json, root: Schema) -> bool:
    assert isinstance(schema, dict)
    reference = schema.get("$ref")
    if isinstance(reference, str):
        definitions = root["$defs"]
        assert isinstance(definitions, dict)
        return _is_textual(definitions[reference.removeprefix("#/$defs/")], root)
    choices = schema.get("anyOf")
    if isinstance(choices, list):
        return all(_is_textual(choice, root) for choice in choices)
    if "enum" in schema or "const" in schema:
        return True
    return schema.get("type", "string") in _TEXTUAL


def _encode_message(message: object, version: str) -> bytes:
    role = "user"
    if isinstance(message, PromptMessage):
        role, block = message.role, message.content
    else:
        block = to_block(message)
    content = encode_blocks([block], version)[1:-1]
    return b'{"role":"%b","content":%b}' % (role.encode(), content)
