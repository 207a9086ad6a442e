"""Results of tools other than text: content blocks, `CallToolResult` objects, and structured content.

The table in `_output` describes which annotation has which form.
"""

import inspect
import sys
import types
from collections.abc import Iterable, Sequence
from typing import Any, Union, get_args, get_origin

import msgspec

from jackstay.errors import Json, UsageError
from jackstay.protocol import REVISIONS
from jackstay.server._content import MEDIA, encode_blocks, encode_value, to_blocks, to_text
from jackstay.server._foreign import Hint, accept_foreign, adapt, is_pydantic
from jackstay.server._output import Check, EncodeResult, Output, bare, encode_content_result
from jackstay.server._schema import Schema, resolve, schemas_of
from jackstay.types import DECODE_ERRORS, Body, CallToolResult, Result, encode_json

_RESULT = "result"
_SEQUENCES = (list, tuple, Sequence, Iterable)


def read_structured(hint: Hint, tool: str, structured: bool | None) -> Output:
    """As `read_output`, for every annotation."""
    if structured is False or _is_content(hint):
        if structured:
            raise UsageError(f"{tool}: structured=True needs a return annotation that has a schema", path=tool)
        return Output(None, encode_content_result)
    if _mixes_models(hint):
        return _model_union(hint, tool)
    try:
        adapted = adapt(hint)
        found = schemas_of([adapted], "serialization")
    except TypeError as error:
        message = f"{tool}(return): unsupported annotation: {error}; pass structured=False to send only text"
        raise UsageError(message, path=f"{tool}(return)") from error
    schema = resolve(found.schemas[0], found.definitions)
    check = msgspec.json.Decoder[Any](adapted, dec_hook=accept_foreign).decode
    if schema.get("type") == "object":
        return Output(schema, structured_encoder(tool, check))
    return _wrapped(schema, tool, check)


def _wrapped(schema: Schema, tool: str, check: Check) -> Output:
    """Return the output of values with this schema, which are sent in an object: `{"result": ...}`."""
    from jackstay.types import WRAPPED  # noqa: PLC0415  # imports dataclasses, which few servers need

    definitions = schema.pop("$defs", None)
    wrapped: Schema = {"type": "object", "properties": {_RESULT: schema}, "required": [_RESULT], WRAPPED: True}
    if definitions is not None:
        wrapped["$defs"] = definitions
    return Output(wrapped, structured_encoder(tool, check, is_wrapped=True))


def _mixes_models(hint: Hint) -> bool:
    """Return whether this is a union of pydantic models and other types, which msgspec cannot decode."""
    parts = [part for part in get_args(hint) if part is not types.NoneType]
    is_union = get_origin(hint) in (Union, types.UnionType)
    return is_union and len(parts) > 1 and any(map(is_pydantic, parts))


def _model_union(hint: Hint, tool: str) -> Output:
    # pydantic is loaded, because the annotation has one of its models; this package does not depend on it.
    adapter: Any = sys.modules["pydantic"].TypeAdapter(hint)

    def check(data: bytes) -> None:
        if data[:1] != b"{":  # not a model, which may be written with other names than it is read with
            adapter.validate_json(data)

    return _wrapped(adapter.json_schema(mode="serialization"), tool, check)


def _is_content(hint: Hint) -> bool:
    """Return whether the annotation is one of content, or has no information about the value."""
    hint = bare(hint)
    if hint in (inspect.Signature.empty, Any, object, None, types.NoneType):
        return True
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        parts = [part for part in get_args(hint) if part not in (str, types.NoneType)]
        return bool(parts) and all(_is_content(part) for part in parts)
    if origin in _SEQUENCES:
        # A str among blocks is content, too; only str is a list of strings.
        parts = [part for part in get_args(hint) if part not in (Ellipsis, str)]
        return bool(parts) and all(part is not Any and _is_content(part) for part in parts)
    return isinstance(hint, type) and issubclass(hint, (Body, *MEDIA))


# --- encoders ---------------------------------------------------------------------------------------------------------


def encode_value_result(value: object, version: str) -> bytes:
    """As `encode_content_result`, for every value except a string."""
    if isinstance(value, Result):
        return _encode_result(value, version)
    return b'{"content":%b}' % encode_blocks(to_blocks(value), version)


def structured_encoder(tool: str, check: Check, *, is_wrapped: bool = False) -> EncodeResult:
    """Return the encoder of results with structured content: the value, or an object with the value as its member."""

    def check_wrapped(data: bytes) -> None:
        members = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
        if _RESULT not in members:
            raise ValueError(f"missing member {_RESULT!r}")
        check(bytes(members[_RESULT]))

    check_result = check_wrapped if is_wrapped else check
    structured = b'{"result":%b}' if is_wrapped else b"%b"
    result = b'{"content":[{"type":"text","text":%%b}],"structuredContent":%b}' % structured

    def encode_result(value: object, version: str) -> bytes:
        if isinstance(value, Result):
            return _encode_result(value, version, tool, check_result)
        data = encode_value(value)
        if data[:1] != b"{" and not is_wrapped:
            raise _schema_violation(tool, "expected an object")
        _verify(tool, check, data)
        text = encode_json(to_text(value) if is_wrapped and isinstance(value, str | bytes) else data.decode())
        if not REVISIONS[version].has_structured_output:
            return b'{"content":[{"type":"text","text":%b}]}' % text
        return result % (text, data)

    return encode_result


def _verify(tool: str, check: Check, data: bytes) -> None:
    try:
        check(data)
    except (*DECODE_ERRORS, ValueError) as error:
        raise _schema_violation(tool, str(error)) from error


def _schema_violation(tool: str, flaw: str) -> UsageError:
    return UsageError(f"{tool}(return) violates the output schema: {flaw[:200]}", path=f"{tool}(return)")


def _encode_result(result: Result, version: str, tool: str = "", check: Check | None = None) -> bytes:
    """Encode a `Result` object for a revision, and check its structured content."""
    if not isinstance(result, CallToolResult):
        return encode_json(result)
    content = msgspec.Raw(encode_blocks(result.content, version))
    structured: Json = result.structured_content
    if check is not None and structured is not None and not result.is_error:
        _verify(tool, check, encode_json(structured))
    without: CallToolResult = msgspec.structs.replace(result, content=())
    members: dict[str, object] = msgspec.json.decode(encode_json(without), type=dict[str, msgspec.Raw])
    members["content"] = content
    if not REVISIONS[version].has_structured_output:
        members.pop("structuredContent", None)
    return msgspec.json.encode(members)
