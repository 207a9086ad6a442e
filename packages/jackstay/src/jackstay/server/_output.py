"""Encoding of what a tool returns as a `tools/call` result; the return annotation decides which form it has.

Everything except plain text is in `_structured`, which is loaded on first use: many servers only return text.
"""

# | annotation | schema | result |
# |---|---|---|
# | none, Any, None, blocks, media, lists of blocks, `CallToolResult` | none | content |
# | `str` | none | one text block |
# | objects: Struct, dataclass, TypedDict, dict, pydantic model | the object's | structured, and the same JSON as text |
# | others: numbers, lists, enumerations, unions, optional | `{"result": ...}` | structured, and the value as text |
#
# The last row is a convention of the official SDK, which also applies it to `str`. Here `str` is only structured with
# `structured=True`, because the text block is already the whole value. A structured result has the same value as text,
# too, as 2025-06-18 server/tools recommends. Revisions before that get only the text.
#
# A structured result is decoded again by its own annotation before it is sent, because it MUST conform to the schema.

from collections.abc import Callable
from typing import Annotated, TypeAlias, get_args, get_origin

import msgspec

from jackstay.server._foreign import Hint
from jackstay.server._schema import Schema
from jackstay.types import encode_json

# Encodes what a tool returned as a result for a revision.
EncodeResult: TypeAlias = Callable[[object, str], bytes]

# Checks encoded structured content. Raises ValueError or one of `DECODE_ERRORS` if it violates the schema.
Check: TypeAlias = Callable[[bytes], object]

_encode_text = msgspec.json.Encoder().encode


class Output(msgspec.Struct, frozen=True):
    """The output schema of a tool, if it has one, and the encoder of its results.

    `encode_result(value, version)` raises UsageError for a value without a JSON form, or that violates the schema.
    """

    schema: Schema | None
    encode_result: EncodeResult


def read_output(hint: Hint, tool: str, structured: bool | None = None) -> Output:
    """Return the output of a function with this return annotation. `structured=None` applies the table above.

    Raises:
        UsageError: for an annotation without a schema, unless `structured=False`, and for `structured=True` without an
            annotation that has a structure.
    """
    if structured is None and bare(hint) is str:
        return Output(None, encode_content_result)
    from jackstay.server._structured import read_structured  # noqa: PLC0415  # see above

    return read_structured(hint, tool, structured)


def bare(hint: Hint) -> Hint:
    """Return the annotation without `Annotated`."""
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def encode_content_result(value: object, version: str) -> bytes:
    """Encode a result that has only content. A `Result` object is sent unchanged.

    Raises:
        UsageError: for a value without a JSON form.
    """
    if type(value) is str:
        try:
            text = _encode_text(value)
        except ValueError:
            text = encode_json(value)  # raises UsageError with the position of the lone surrogate
        return b'{"content":[{"type":"text","text":%b}]}' % text
    from jackstay.server._structured import encode_value_result  # noqa: PLC0415  # see above

    return encode_value_result(value, version)


def error_result(text: str) -> bytes:
    """Encode a tool error: a result with `isError` and a message for the model (2025-11-25 server/tools)."""
    encoded = encode_json(text.encode(errors="replace").decode())  # the text may contain lone surrogates
    return b'{"content":[{"type":"text","text":%b}],"isError":true}' % encoded
