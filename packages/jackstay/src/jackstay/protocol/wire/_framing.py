"""The framings of a stream, by the names that options use."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from jackstay.protocol.wire._lines import LineFramer, frame_lines

if TYPE_CHECKING:
    from jackstay.protocol.wire._content_length import ContentLengthFramer

# "lines" is the default, because every revision of MCP requires it for stdio.
FRAMINGS = ("lines", "content-length")


class Framing(NamedTuple):
    """`reader(limit)` creates a framer, one per connection; `join(payloads)` frames payloads within the limit."""

    reader: "type[LineFramer | ContentLengthFramer]"
    join: Callable[[Sequence[bytes]], bytes]


def framing_of(name: str) -> Framing:
    """Return one of FRAMINGS. The second is loaded on first use: no revision of MCP has it."""
    if name == "content-length":
        from jackstay.protocol.wire._content_length import ContentLengthFramer, frame_content_lengths  # noqa: PLC0415

        return Framing(ContentLengthFramer, frame_content_lengths)
    return Framing(LineFramer, frame_lines)
