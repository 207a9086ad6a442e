"""Cursors: a place in a list, as an opaque word.

A cursor names the last entry that was sent and the number under which it was registered, so it holds while the list
changes: new entries come after it, and if the entry itself is gone the number says where it stood. Nothing is
remembered for it, on this connection or another, and workers that register the same entries in the same order
understand each other's.

A checksum finds what was cut or made up. It is no seal, and none is needed: everything a forged cursor can reach is in
the list that anybody may read from the beginning.

Must never know what the entries are. Above: `_catalogue`. Below: nothing.
"""

from binascii import Error, a2b_base64, b2a_base64, crc32

import msgspec

from jackstay.errors import ProtocolError
from jackstay.protocol.wire import ErrorCode

_LONGEST = 8192
_TO_URL = bytes.maketrans(b"+/", b"-_")
_FROM_URL = bytes.maketrans(b"-_", b"+/")


class Mark(msgspec.Struct, frozen=True, array_like=True):
    """What a cursor says: which list, and the number and the key of the last entry sent."""

    list: str
    number: int
    key: str


_read = msgspec.json.Decoder(Mark, strict=True).decode


def write_cursor(mark: Mark) -> str:
    """The word for it: base64url, without padding."""
    said = msgspec.json.encode(mark)
    sealed = crc32(said).to_bytes(4, "big") + said
    return b2a_base64(sealed, newline=False).translate(_TO_URL).rstrip(b"=").decode()


def read_cursor(cursor: str, list: str) -> Mark:
    """What a cursor of ours says.

    Raises:
        ProtocolError: (-32602) for one that is not ours, was damaged, or belongs to another list. The empty string is a
            cursor like any other to the protocol, and never one of ours.
    """
    try:
        if len(cursor) > _LONGEST:
            raise ValueError("too long")
        encoded = cursor.encode("ascii").translate(_FROM_URL)
        sealed = a2b_base64(encoded + b"=" * (-len(encoded) % 4), strict_mode=True)
        if crc32(sealed[4:]).to_bytes(4, "big") != sealed[:4]:
            raise ValueError("damaged")
        mark = _read(sealed[4:])
        if mark.list != list:
            raise ValueError("of another list")
    except (ValueError, Error, msgspec.DecodeError) as error:
        message = "not a cursor of this list; begin again without one"
        raise ProtocolError(
            message, path="$.cursor", quote=cursor[:40], code=ErrorCode.INVALID_PARAMS
        ) from error
    return mark
