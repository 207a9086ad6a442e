"""FrameReader: frames, callbacks and the end of the stream."""

from jackstay.errors import FrameTooLargeError, McpError, ProtocolError
from jackstay.protocol.wire import framing_of
from jackstay.transport._pipe import FULL_BYTES, FrameReader


class Harness:
    def __init__(self, framing: str = "lines", limit: int = 1_000_000) -> None:
        self.arrivals = 0
        self.drains = 0
        self.losses: list[ProtocolError] = []
        framer, _ = framing_of(framing)
        self.reader = FrameReader(framer(limit), self.arrived, self.drained, self.losses.append)

    def arrived(self) -> None:
        self.arrivals += 1

    def drained(self) -> None:
        self.drains += 1

    def pull(self) -> list[bytes | McpError]:
        found = []
        while (frame := self.reader.next_frame()) is not None:
            found.append(frame)
        return found


# (chunks, frames)
CHUNKS = [
    ([b"a\nb\n"], [b"a", b"b"]),
    ([b"a", b"\n", b"b\nc"], [b"a", b"b"]),
    ([b"\n", b"\r\n"], []),
]


def test_frames_are_returned_in_order() -> None:
    for chunks, frames in CHUNKS:
        harness = Harness()
        assert harness.reader.was_silent
        for chunk in chunks:
            harness.reader.feed(chunk)
        assert not harness.reader.was_silent
        assert harness.arrivals == (1 if frames else 0), "called once until everything is pulled"
        assert harness.pull() == frames


def test_the_handler_is_called_again_after_it_has_pulled_everything() -> None:
    harness = Harness()
    harness.reader.feed(b"a\nb\n")
    assert harness.reader.next_frame() == b"a"
    harness.reader.feed(b"c\n")
    assert harness.arrivals == 1
    assert harness.pull() == [b"b", b"c"]
    harness.reader.feed(b"d\n")
    assert harness.arrivals == 2


# (framing, data, frames after the end)
ENDS = [
    ("lines", b"", []),
    ("lines", b"a\n", [b"a"]),
    ("lines", b"a\nhalf", [b"a", b"half"]),
    ("lines", b"a\n  ", [b"a"]),
    ("content-length", b"Content-Length: 1\r\n\r\na", [b"a"]),
]


def test_the_end_delivers_a_last_line_without_a_newline() -> None:
    for framing, data, frames in ENDS:
        harness = Harness(framing)
        harness.reader.feed(data)
        harness.reader.end()
        assert harness.pull() == frames
        assert harness.pull() == []


def test_the_end_inside_a_frame_is_an_error() -> None:
    for data, message in [(b"Content-Length: 9\r\n\r\nhalf", "after 4 of 9 bytes"), (b"Content-Len", "after 11 bytes")]:
        harness = Harness("content-length")
        harness.reader.feed(data)
        harness.reader.end()
        (fault,) = harness.pull()
        assert isinstance(fault, ProtocolError)
        assert message in str(fault)


def test_a_frame_over_the_limit_is_an_error_and_reading_continues() -> None:
    harness = Harness(limit=3)
    harness.reader.feed(b"aaaa\nbb\n")
    fault, frame = harness.pull()
    assert isinstance(fault, FrameTooLargeError)
    assert frame == b"bb"
    harness.reader.feed(b"cccc")
    harness.reader.end()
    (fault,) = harness.pull()
    assert isinstance(fault, FrameTooLargeError), "nothing of a skipped line is delivered"


def test_a_lost_framing_is_reported_once() -> None:
    harness = Harness("content-length")
    harness.reader.feed(b"Starting server...\n")
    assert harness.arrivals == 1
    (fault,) = harness.pull()
    assert harness.losses == [fault]
    harness.reader.feed(b"Content-Length: 1\r\n\r\na")
    harness.reader.end()
    assert harness.pull() == []
    assert len(harness.losses) == 1
    assert harness.reader.is_lost


def test_the_reader_is_full_only_if_the_handler_does_not_pull() -> None:
    harness = Harness()
    line = b"x" * 999 + b"\n"
    harness.reader.feed(b"y" * (2 * FULL_BYTES))
    assert not harness.reader.is_full(), "an incomplete frame cannot be pulled"
    harness.reader.feed(b"\n")
    assert not harness.reader.is_full(), "the frame was split off and is no longer buffered"
    harness.reader.feed(line * 300)
    assert harness.reader.is_full()
    harness.reader.next_frame()
    assert harness.reader.is_full(), "until it is empty"
    assert harness.drains == 0
    harness.pull()
    assert harness.drains == 1
    assert not harness.reader.is_full()
    harness.pull()
    assert harness.drains == 1


def test_a_closed_reader_returns_nothing() -> None:
    harness = Harness()
    harness.reader.feed(b"a\nb\nc")
    harness.reader.close()
    assert harness.reader.next_frame() is None
    harness.reader.end()
    assert harness.reader.next_frame() is None
