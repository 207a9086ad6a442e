"""Opaque pagination cursors, which stay valid while the list changes.

A cursor contains the key and the registration number of the last entry that was sent. The server keeps no state for it,
and workers with the same entries accept each other's cursors. A checksum detects damage; cursors need no signature,
because every client may read the whole list.
"""

from binascii import a2b_base64, b2a_base64, crc32

import msgspec

from jackstay.errors import ProtocolError
from jackstay.protocol.wire import ErrorCode
from jackstay.types import DECODE_ERRORS

_MAX_CURSOR_LENGTH = 8192
_TO_URL = bytes.maketrans(b"+/", b"-_")
_FROM_URL = bytes.maketrans(b"-_", b"+/")


class Position(msgspec.Struct, frozen=True, array_like=True):
    """The content of a cursor: the list, and the number and key of the last entry sent."""

    list: str
    number: int
    key: str


_read = msgspec.json.Decoder(Position, strict=True).decode


def encode_base64url(data: bytes) -> str:
    """Encode without padding (RFC 4648, section 5)."""
    return b2a_base64(data, newline=False).translate(_TO_URL).rstrip(b"=").decode()


def decode_base64url(text: str) -> bytes:
    """Decode what `encode_base64url` returned. Raises: ValueError, for anything else."""
    encoded = text.encode("ascii").translate(_FROM_URL)
    return a2b_base64(encoded + b"=" * (-len(encoded) % 4), strict_mode=True)


def write_cursor(position: Position) -> str:
    """Encode a cursor as base64url."""
    encoded = msgspec.json.encode(position)
    return encode_base64url(crc32(encoded).to_bytes(4, "big") + encoded)


def read_cursor(cursor: str, list: str) -> Position:
    """Decode a cursor.

    Raises:
        ProtocolError: (-32602) for an invalid one, or one of another list. The empty string is invalid, too.
    """
    try:
        if len(cursor) > _MAX_CURSOR_LENGTH:
            raise ValueError("too long")
        data = decode_base64url(cursor)
        if crc32(data[4:]).to_bytes(4, "big") != data[:4]:
            raise ValueError("damaged")
        position = _read(data[4:])
        if position.list != list:
            raise ValueError("of another list")
    except (ValueError, *DECODE_ERRORS) as error:
        message = "invalid cursor for this list; start again without a cursor"
        raise ProtocolError(message, path="$.cursor", quote=cursor[:40], code=ErrorCode.INVALID_PARAMS) from error
    return position
