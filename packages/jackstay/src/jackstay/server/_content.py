"""Conversion of Python values to content blocks.

A list with at least one block is a list of blocks. Other values become one block: strings as text, `Image` and `Audio`
as base64, `File` as an embedded resource, everything else as JSON text. A block type that the negotiated revision lacks
is replaced by text, because an unknown block would make the whole result invalid for the client.
"""

import os
from binascii import b2a_base64
from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec
from msgspec.structs import force_setattr

from jackstay import types
from jackstay.errors import UsageError
from jackstay.server._foreign import encode_foreign
from jackstay.types import encode_json

# The first revision with each block type; the others are in all revisions (schema.ts).
BLOCKS_SINCE: dict[type, str] = {types.AudioContent: "2025-03-26", types.ResourceLink: "2025-06-18"}


# The default of the data of a medium: that of its file.
_OF_FILE: Any = None


class _Medium(msgspec.Struct, frozen=True):
    """Data of a media type, or the path of a file."""

    DEFAULT_TYPE: ClassVar[str]
    BLOCK: ClassVar[type[types.ImageContent | types.AudioContent]]

    data: bytes = _OF_FILE
    mime_type: str = ""
    path: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        _load(self, self.DEFAULT_TYPE, (bytes, bytearray, memoryview))


class Image(_Medium, frozen=True):
    """An image to return from a tool, resource or prompt: its data, or the path of a file, which is read now.

    Without `mime_type` it is that of the file, or `image/png`. Raises: UsageError for other data than bytes; OSError.
    """

    DEFAULT_TYPE = "image/png"
    BLOCK = types.ImageContent


class Audio(_Medium, frozen=True):
    """Audio to return from a tool, resource or prompt, as `Image`. Without `mime_type` it is `audio/wav`."""

    DEFAULT_TYPE = "audio/wav"
    BLOCK = types.AudioContent


class File(msgspec.Struct, frozen=True):
    """A file to return from a tool, resource or prompt: an embedded resource, text if `data` is a str.

    With `path` the file is read now. Raises: UsageError for other data than bytes and str; OSError.
    """

    data: bytes | str = _OF_FILE
    mime_type: str | None = None
    name: str = ""
    path: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        _load(self, None, (bytes, bytearray, memoryview, str))
        if not self.name:
            force_setattr(self, "name", "file" if self.path is None else os.path.basename(self.path))

    def to_block(self) -> types.EmbeddedResource:
        """Return the file as an embedded resource."""
        from urllib.parse import quote  # noqa: PLC0415  # slow to import, and rarely needed

        uri = f"file:///{quote(self.name)}"
        contents: types.ResourceContents
        if isinstance(self.data, str):
            contents = types.TextResourceContents(uri=uri, mime_type=self.mime_type or "text/plain", text=self.data)
        else:
            mime_type = self.mime_type or "application/octet-stream"
            contents = types.BlobResourceContents(uri=uri, mime_type=mime_type, blob=encode_base64(self.data))
        return types.EmbeddedResource(resource=contents)


MEDIA = (_Medium, File)


def _load(media: _Medium | File, default: str | None, accepted: tuple[type, ...]) -> None:
    """Check the data, or read the file; then set the media type if there is none."""
    name = type(media).__name__
    found = None
    if media.path is not None:
        if media.data is not _OF_FILE:
            raise UsageError(f"{name}() expected data or a path, got both", path="path")
        with open(media.path, "rb") as file:
            force_setattr(media, "data", file.read())
        from mimetypes import guess_type  # noqa: PLC0415  # slow to import, and rarely needed

        found = guess_type(media.path)[0]
    elif not isinstance(media.data, accepted):
        got = type(media.data).__name__
        raise UsageError(f"{name}() expected bytes, got {got}; for a file write {name}(path=...)", path="data")
    if not media.mime_type:
        force_setattr(media, "mime_type", found or default)


_encode = msgspec.json.Encoder(enc_hook=encode_foreign).encode


def encode_value(value: object) -> bytes:
    """Encode a returned value as JSON. Pydantic models and paths are supported at any depth.

    Raises:
        UsageError: for values without a JSON form, including NaN and Infinity; `path` is where, if known.
    """
    try:
        data = _encode(value)
        if data.find(b"null") < 0:
            return data
        # msgspec writes NaN as null. Only a slower pass over the value can distinguish it from None.
        return encode_json(msgspec.to_builtins(value, enc_hook=_plain_foreign))
    except UsageError:
        raise
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        encode_json(value)  # raises UsageError with the path of what cannot be encoded, if it finds that
        raise UsageError(str(error)) from error


def _plain_foreign(value: object) -> object:
    plain = encode_foreign(value)
    return msgspec.json.decode(plain) if isinstance(plain, msgspec.Raw) else plain


def encode_base64(data: bytes) -> str:
    """Encode as base64 in one line."""
    return b2a_base64(data, newline=False).decode()


def is_block(value: object) -> bool:
    """Return whether the value is a block, an `Image`, an `Audio` or a `File`."""
    return isinstance(value, types.ContentBlock | _Medium | File)


def to_block(value: object) -> types.ContentBlock:
    """Convert one value to one block.

    Raises:
        UsageError: as `encode_value`.
    """
    if isinstance(value, types.ContentBlock):
        return value
    if isinstance(value, str):
        return types.TextContent(text=value)
    if isinstance(value, _Medium):
        return value.BLOCK(data=encode_base64(value.data), mime_type=value.mime_type)
    if isinstance(value, File):
        return value.to_block()
    return types.TextContent(text=to_text(value))


def to_text(value: object) -> str:
    """Convert a value to text: strings unchanged, bytes as base64, the rest as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return encode_base64(bytes(value))
    return encode_value(value).decode()


def to_blocks(value: object) -> list[types.ContentBlock]:
    """Convert a returned value to blocks. None is an empty list."""
    if value is None:
        return []
    if isinstance(value, list | tuple) and any(map(is_block, value)):
        return [to_block(item) for item in value]
    return [to_block(value)]


def encode_blocks(blocks: Sequence[types.ContentBlock], version: str) -> bytes:
    """Encode blocks as a JSON array for a revision.

    Raises:
        UsageError: for a block without a JSON form.
    """
    written = [block if version >= BLOCKS_SINCE.get(block.__class__, "") else _as_text(block) for block in blocks]
    return encode_json(written)


def _as_text(block: types.ContentBlock) -> types.TextContent:
    if isinstance(block, types.ResourceLink):
        return types.TextContent(text=f"{block.title or block.name}: {block.uri}")
    assert isinstance(block, types.AudioContent)
    return types.TextContent(text=f"[audio, {block.mime_type}: not supported by protocol revisions before 2025-03-26]")
