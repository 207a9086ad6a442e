"""The framings of a stream, by the names that options use."""

from collections.abc import Callable

import msgspec

from jackstay.protocol.wire._content_length import ContentLengthFramer, frame_content_length
from jackstay.protocol.wire._framer import Framer
from jackstay.protocol.wire._lines import LineFramer, frame_line


class Framing(msgspec.Struct, frozen=True):
    """`reader(limit)` creates a framer, one per connection; `writer(payload, limit)` frames one payload."""

    name: str
    reader: Callable[[int], Framer]
    writer: Callable[[bytes, int], bytes]


# "lines" is the default, because every revision of MCP requires it for stdio.
FRAMINGS = {
    row.name: row
    for row in (
        Framing("lines", LineFramer, frame_line),
        Framing("content-length", ContentLengthFramer, frame_content_length),
    )
}
