"""The framings of a stream, by the names that options use."""

from collections.abc import Callable, Sequence

import msgspec

from jackstay.protocol.wire._framer import Framer
from jackstay.protocol.wire._lines import LineFramer, frame_line, frame_lines


class Framing(msgspec.Struct, frozen=True):
    """`reader(limit)` creates a framer, one per connection; `writer(payload, limit)` frames one payload.

    `join(payloads)` frames several payloads within the limit.
    """

    name: str
    reader: Callable[[int], Framer]
    writer: Callable[[bytes, int], bytes]
    join: Callable[[Sequence[bytes]], bytes]


# Loaded on first use: no revision of MCP has this framing.
def _content_length_reader(limit: int) -> Framer:
    from jackstay.protocol.wire._content_length import ContentLengthFramer  # noqa: PLC0415

    return ContentLengthFramer(limit)


def _frame_content_length(payload: bytes, limit: int) -> bytes:
    from jackstay.protocol.wire._content_length import frame_content_length  # noqa: PLC0415

    return frame_content_length(payload, limit)


def _frame_content_lengths(payloads: Sequence[bytes]) -> bytes:
    from jackstay.protocol.wire._content_length import frame_content_lengths  # noqa: PLC0415

    return frame_content_lengths(payloads)


# "lines" is the default, because every revision of MCP requires it for stdio.
FRAMINGS = {
    row.name: row
    for row in (
        Framing("lines", LineFramer, frame_line, frame_lines),
        Framing("content-length", _content_length_reader, _frame_content_length, _frame_content_lengths),
    )
}
