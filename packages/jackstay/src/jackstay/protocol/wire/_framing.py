"""The ways to mark frames on a stream, by the names that options give them.

One row each: how to read it, how to write it. A transport takes a row and knows no framing by itself.

Above: the transports, the options. Below: `_lines`, `_content_length`.
"""

from collections.abc import Callable

import msgspec

from jackstay.protocol.wire._content_length import ContentLengthFramer, frame_content_length
from jackstay.protocol.wire._framer import Framer
from jackstay.protocol.wire._lines import LineFramer, frame_line


class Framing(msgspec.Struct, frozen=True):
    """`reader(limit)` makes a framer, one for each connection; `writer(payload, limit)` frames one payload."""

    name: str
    reader: Callable[[int], Framer]
    writer: Callable[[bytes, int], bytes]


# docs/design/connection.md, row 3: lines unless asked otherwise, because every revision of MCP says so and real peers do it.
FRAMINGS = {
    row.name: row
    for row in (
        Framing("lines", LineFramer, frame_line),
        Framing("content-length", ContentLengthFramer, frame_content_length),
    )
}
