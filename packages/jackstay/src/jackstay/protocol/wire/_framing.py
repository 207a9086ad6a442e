"""The framings of a stream, by the names that options use."""

from collections.abc import Callable, Sequence

import msgspec

from jackstay.protocol.wire._content_length import ContentLengthFramer, frame_content_length, frame_content_lengths
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


# "lines" is the default, because every revision of MCP requires it for stdio.
FRAMINGS = {
    row.name: row
    for row in (
        Framing("lines", LineFramer, frame_line, frame_lines),
        Framing("content-length", ContentLengthFramer, frame_content_length, frame_content_lengths),
    )
}
