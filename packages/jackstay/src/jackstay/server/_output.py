"""What a tool returns, as the bytes of a `tools/call` result.

The return annotation decides once what every answer looks like:

| annotation | schema | result |
|---|---|---|
| none, Any, None, blocks, media, lists of blocks, `CallToolResult` | none | content |
| `str` | none | one text block |
| objects: Struct, dataclass, TypedDict, dict, pydantic model | the object's | structured, and the same JSON as text |
| anything else: numbers, lists, enumerations, unions, "or None" | `{"result": ...}` | structured as `{"result": ...}`, and the bare value as text |

The last row is the official SDK's rule. It puts `str` there too; here text is not structured unless `structured=True`,
because the text block already is the whole value, and every answer would be sent twice. The text beside a structured
result is what 2025-06-18 server/tools asks for, for clients that do not read the structure.

A structured result is read back with the decoder of its own annotation before it is sent: the specification says MUST
conform, and an author's promise is only a hint. Revisions before 2025-06-18 have no structure and get the text alone.

Must never know a request. Above: `_tools`. Below: `_content`, `_schema`, `_ready`.
"""

import inspect
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, TypeAlias, Union, get_args, get_origin

import msgspec

from jackstay.errors import Json, UsageError
from jackstay.protocol import REVISIONS
from jackstay.server._content import MEDIA, encode_blocks, encode_value, to_blocks, to_text
from jackstay.server._foreign import Hint, accept_foreign, adapt
from jackstay.server._problems import REFUSALS
from jackstay.server._schema import Schema, UnusableHintError, resolve, schemas_of
from jackstay.types import Body, CallToolResult, Result, encode_json

# The result, encoded, from what the tool returned, in a revision.
Answer: TypeAlias = Callable[[object, str], bytes]

# Refuses structured JSON that breaks the schema, with a sentence.
Check: TypeAlias = Callable[[bytes], str | None]

_RESULT = "result"
_SEQUENCES = (list, tuple, Sequence, Iterable)


class Output(msgspec.Struct, frozen=True):
    """How a tool answers: `answer(value, version)` gives an encoded result; `schema` is what it promises, if anything.

    `answer` raises UsageError for a value that JSON has no form for, or that breaks the schema.
    """

    schema: Schema | None
    answer: Answer


def read_output(hint: Hint, tool: str, structured: bool | None = None) -> Output:
    """How a function with this return annotation answers. `structured`: None by the table above, True even for text.

    Raises:
        UsageError: for an annotation that has no schema (say `structured=False`), and for `structured=True` where
            there is nothing to describe.
    """
    if structured is False or _is_content(hint) or (structured is None and _bare(hint) is str):
        if structured:
            raise UsageError(f"{tool}: the return annotation does not say what structure there is", path=tool)
        return Output(None, answer_content)
    try:
        adapted = adapt(hint)
        found = schemas_of([adapted], "serialization")
    except (TypeError, UnusableHintError) as error:
        message = f"{tool}(return): the annotation cannot be used: {error}; pass structured=False to send text alone"
        raise UsageError(message, path=f"{tool}(return)") from error
    schema = resolve(found.schemas[0], found.definitions)
    decode = msgspec.json.Decoder[Any](adapted, dec_hook=accept_foreign).decode

    def check(data: bytes) -> str | None:
        try:
            decode(data)
        except REFUSALS as error:
            return str(error)
        return None

    if schema.get("type") == "object":
        return Output(schema, _answer_objects(tool, check))
    definitions = schema.pop("$defs", None)
    wrapped: Schema = {"type": "object", "properties": {_RESULT: schema}, "required": [_RESULT]}
    if definitions is not None:
        wrapped["$defs"] = definitions
    return Output(wrapped, _answer_wrapped(tool, check))


def ready_output(schema: Schema | None, tool: str, check: Check | None) -> Output:
    """How a tool with a schema of its own answers: objects are structured, everything else is content."""
    if schema is None:
        return Output(None, answer_content)
    return Output(schema, _answer_objects(tool, check or _accept))


def _accept(data: bytes) -> str | None:  # noqa: ARG001 (a Check has it)
    return None


# --- which row --------------------------------------------------------------------------------------------------------


def _bare(hint: Hint) -> Hint:
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def _is_content(hint: Hint) -> bool:
    """True where what is returned is content by itself, or nothing is known of it."""
    hint = _bare(hint)
    if hint in (inspect.Signature.empty, Any, object, None, types.NoneType):
        return True
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        parts = [part for part in get_args(hint) if part not in (str, types.NoneType)]
        return bool(parts) and all(_is_content(part) for part in parts)
    if origin in _SEQUENCES:
        # Text beside blocks is one of them; text alone is a list of strings.
        parts = [part for part in get_args(hint) if part not in (Ellipsis, str)]
        return bool(parts) and all(part is not Any and _is_content(part) for part in parts)
    return isinstance(hint, type) and issubclass(hint, (Body, *MEDIA))


# --- answers ----------------------------------------------------------------------------------------------------------


def answer_content(value: object, version: str) -> bytes:
    """A result of content alone; a result that the tool made itself is sent as it is.

    Raises:
        UsageError: for what JSON has no form for.
    """
    if value.__class__ is str:
        return b'{"content":[{"type":"text","text":%b}]}' % encode_json(value)
    if isinstance(value, Result):
        return _encode_result(value, version)
    return b'{"content":%b}' % encode_blocks(to_blocks(value), version)


def error_result(text: str) -> bytes:
    """The result of a call that failed: `isError`, and words for the model. Never a protocol error (server/tools)."""
    said = encode_json(
        text.encode(errors="replace").decode()
    )  # what failed may have failed with half a character
    return b'{"content":[{"type":"text","text":%b}],"isError":true}' % said


def _answer_objects(tool: str, check: Check) -> Answer:
    def answer(value: object, version: str) -> bytes:
        if isinstance(value, Result):
            return _encode_result(value, version, tool, check)
        data = encode_value(value)
        flaw = check(data) if data[:1] == b"{" else "it must be an object"
        if flaw is not None:
            raise _broken(tool, flaw)
        text = encode_json(data.decode())
        if not REVISIONS[version].has_structured_output:
            return b'{"content":[{"type":"text","text":%b}]}' % text
        return b'{"content":[{"type":"text","text":%b}],"structuredContent":%b}' % (text, data)

    return answer


def _answer_wrapped(tool: str, check: Check) -> Answer:
    def check_wrapped(data: bytes) -> str | None:
        try:
            return check(bytes(msgspec.json.decode(data, type=dict[str, msgspec.Raw])[_RESULT]))
        except KeyError:
            return f"it has no member {_RESULT}"

    def answer(value: object, version: str) -> bytes:
        if isinstance(value, Result):
            return _encode_result(value, version, tool, check_wrapped)
        data = encode_value(value)
        flaw = check(data)
        if flaw is not None:
            raise _broken(tool, flaw)
        text = encode_json(to_text(value) if isinstance(value, str | bytes) else data.decode())
        if not REVISIONS[version].has_structured_output:
            return b'{"content":[{"type":"text","text":%b}]}' % text
        return b'{"content":[{"type":"text","text":%b}],"structuredContent":{"result":%b}}' % (text, data)

    return answer


def _broken(tool: str, flaw: str) -> UsageError:
    return UsageError(f"{tool}(return) breaks the output schema: {flaw[:200]}", path=f"{tool}(return)")


def _encode_result(result: Result, version: str, tool: str = "", check: Check | None = None) -> bytes:
    """A result that the tool made itself, in what the revision has; its structure is held to the schema, too."""
    if not isinstance(result, CallToolResult):
        return encode_json(result)
    content = msgspec.Raw(encode_blocks(result.content, version))
    structured: Json = result.structured_content
    if check is not None and structured is not None and not result.is_error:
        flaw = check(encode_json(structured))
        if flaw is not None:
            raise _broken(tool, flaw)
    members: dict[str, object] = {**_members(result), "content": content}
    if not REVISIONS[version].has_structured_output:
        members.pop("structuredContent", None)
    return msgspec.json.encode(members)


def _members(result: CallToolResult) -> dict[str, msgspec.Raw]:
    without: CallToolResult = msgspec.structs.replace(result, content=())
    return msgspec.json.decode(encode_json(without), type=dict[str, msgspec.Raw])
