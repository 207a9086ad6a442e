"""Python values as content blocks: what a tool answered, what a prompt says.

A block stays what it is. Text is text; an `Image` or `Audio` is base64; a list that has a block in it is a list of
blocks; anything else is its JSON, as text. A block that a revision does not have is said in words there, because one
unknown block would make the whole result invalid to an old client's schema.

Must never know a tool. Above: `_output`, `_prompts`, `_resources`. Below: `_foreign`.
"""

from binascii import b2a_base64
from collections.abc import Sequence

import msgspec

from jackstay.errors import Json, UsageError
from jackstay.server._foreign import encode_foreign
from jackstay.types import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    UnknownContent,
    encode_json,
)

BLOCKS = (TextContent, ImageContent, AudioContent, ResourceLink, EmbeddedResource, UnknownContent)

# The first revision that has a block; the others are there since the first (schema.ts of each revision).
BLOCKS_SINCE: dict[type, str] = {AudioContent: "2025-03-26", ResourceLink: "2025-06-18"}


class Image(msgspec.Struct, frozen=True):
    """A picture to answer with: its bytes, and what they are."""

    data: bytes
    mime_type: str = "image/png"


class Audio(msgspec.Struct, frozen=True):
    """A sound to answer with: its bytes, and what they are."""

    data: bytes
    mime_type: str = "audio/wav"


MEDIA = (Image, Audio)

_encode = msgspec.json.Encoder(enc_hook=encode_foreign).encode


def encode_value(value: object) -> bytes:
    """JSON bytes of whatever an author may return: also pydantic models and paths, at any depth.

    Raises:
        UsageError: for what JSON has no form for, NaN and Infinity included; `path` names the place if it is known.
    """
    try:
        data = _encode(value)
        if data.find(b"null") < 0:
            return data
        # msgspec writes NaN as null; only a walk can tell that from a null that was meant.
        return encode_json(msgspec.to_builtins(value, enc_hook=_plain_foreign))
    except UsageError:
        raise
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise _explain(value, error) from error


def _plain_foreign(value: object) -> object:
    plain = encode_foreign(value)
    return msgspec.json.decode(plain) if isinstance(plain, msgspec.Raw) else plain


def _explain(value: object, error: Exception) -> UsageError:
    """The place of what cannot be written, if another walk finds it."""
    try:
        encode_json(value)
    except UsageError as found:
        return found
    return UsageError(str(error))


def encode_base64(data: bytes) -> str:
    """Base64 in one line, as the protocol has it."""
    return b2a_base64(data, newline=False).decode()


def is_block(value: object) -> bool:
    """True for what becomes a block of its own in a list."""
    return isinstance(value, (*BLOCKS, *MEDIA))


def to_block(value: object) -> ContentBlock:
    """One value as one block.

    Raises:
        UsageError: as `encode_value`.
    """
    if isinstance(value, BLOCKS):
        return value
    if isinstance(value, str):
        return TextContent(text=value)
    if isinstance(value, Image):
        return ImageContent(data=encode_base64(value.data), mime_type=value.mime_type)
    if isinstance(value, Audio):
        return AudioContent(data=encode_base64(value.data), mime_type=value.mime_type)
    return TextContent(text=to_text(value))


def to_text(value: object) -> str:
    """A value in words: strings as they are, bytes as base64, the rest as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return encode_base64(bytes(value))
    return encode_value(value).decode()


def to_blocks(value: object) -> list[ContentBlock]:
    """What a function returned, as blocks; nothing is no block."""
    if value is None:
        return []
    if isinstance(value, list | tuple) and any(map(is_block, value)):
        return [to_block(item) for item in value]
    return [to_block(value)]


def encode_blocks(blocks: Sequence[ContentBlock], version: str) -> bytes:
    """The blocks as a JSON array, in what a revision has.

    Raises:
        UsageError: for a block that JSON has no form for.
    """
    written = [
        block if version >= BLOCKS_SINCE.get(block.__class__, "") else _in_words(block) for block in blocks
    ]
    return encode_json(written)


def _in_words(block: ContentBlock) -> TextContent:
    if isinstance(block, ResourceLink):
        return TextContent(text=f"{block.title or block.name}: {block.uri}")
    assert isinstance(block, AudioContent)
    said: Json = block.mime_type
    return TextContent(text=f"[a sound, {said}: this revision of the protocol cannot carry it]")
