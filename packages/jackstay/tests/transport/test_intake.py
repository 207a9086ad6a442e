"""What is fed comes out as frames, the owner is told when it must be, and an end delivers what is left."""

import pytest

from jackstay.errors import FrameTooLargeError, McpError, ProtocolError
from jackstay.transport._intake import FULL_BYTES, Intake


class Bench:
    def __init__(self, framing: str = "lines", limit: int = 1_000_000) -> None:
        self.arrivals = 0
        self.drains = 0
        self.losses: list[ProtocolError] = []
        self.intake = Intake(framing, limit, self.arrived, self.drained, self.losses.append)

    def arrived(self) -> None:
        self.arrivals += 1

    def drained(self) -> None:
        self.drains += 1

    def pull(self) -> list[bytes | McpError]:
        found = []
        while (frame := self.intake.next_frame()) is not None:
            found.append(frame)
        return found


# (what is fed, piece by piece; the frames)
FED = [
    ([b"a\nb\n"], [b"a", b"b"]),
    ([b"a", b"\n", b"b\nc"], [b"a", b"b"]),
    ([b"\n", b"\r\n"], []),
]


@pytest.mark.parametrize(("pieces", "frames"), FED)
def test_frames_come_out_in_order(pieces: list[bytes], frames: list[bytes]) -> None:
    bench = Bench()
    assert bench.intake.was_silent
    for piece in pieces:
        bench.intake.feed(piece)
    assert not bench.intake.was_silent
    assert bench.arrivals == (1 if frames else 0), "told once until it has pulled"
    assert bench.pull() == frames
    assert "LineFramer" in repr(bench.intake)


def test_the_owner_is_told_again_after_it_has_pulled_everything() -> None:
    bench = Bench()
    bench.intake.feed(b"a\nb\n")
    assert bench.intake.next_frame() == b"a"
    bench.intake.feed(b"c\n")
    assert bench.arrivals == 1
    assert bench.pull() == [b"b", b"c"]
    bench.intake.feed(b"d\n")
    assert bench.arrivals == 2


# (framing, fed, the frames after the end)
ENDS = [
    ("lines", b"", []),
    ("lines", b"a\n", [b"a"]),
    ("lines", b"a\nhalf", [b"a", b"half"]),
    ("lines", b"a\n  ", [b"a"]),
    ("content-length", b"Content-Length: 1\r\n\r\na", [b"a"]),
]


@pytest.mark.parametrize(("framing", "fed", "frames"), ENDS)
def test_the_end_delivers_a_last_line_without_its_end(framing: str, fed: bytes, frames: list[bytes]) -> None:
    bench = Bench(framing)
    bench.intake.feed(fed)
    bench.intake.end()
    assert bench.pull() == frames
    assert bench.pull() == []
    assert "ended" in repr(bench.intake)


@pytest.mark.parametrize(
    ("fed", "said"),
    [(b"Content-Length: 9\r\n\r\nhalf", "after 4 of 9 bytes"), (b"Content-Len", "after 11 bytes")],
)
def test_the_end_inside_a_counted_frame_is_a_fault(fed: bytes, said: str) -> None:
    bench = Bench("content-length")
    bench.intake.feed(fed)
    bench.intake.end()
    (fault,) = bench.pull()
    assert isinstance(fault, ProtocolError)
    assert said in str(fault)


def test_a_frame_over_the_limit_is_a_fault_and_the_rest_goes_on() -> None:
    bench = Bench(limit=3)
    bench.intake.feed(b"aaaa\nbb\n")
    fault, frame = bench.pull()
    assert isinstance(fault, FrameTooLargeError)
    assert frame == b"bb"
    bench.intake.feed(b"cccc")
    bench.intake.end()
    (fault,) = bench.pull()
    assert isinstance(fault, FrameTooLargeError), "and nothing of a line that was being skipped"


def test_a_framing_that_is_lost_is_told_once_and_gives_nothing_more() -> None:
    bench = Bench("content-length")
    bench.intake.feed(b"Starting server...\n")
    assert bench.arrivals == 1
    (fault,) = bench.pull()
    assert bench.losses == [fault]
    bench.intake.feed(b"Content-Length: 1\r\n\r\na")
    bench.intake.end()
    assert bench.pull() == []
    assert len(bench.losses) == 1
    assert bench.intake.is_lost


def test_it_is_full_only_for_an_owner_that_does_not_pull() -> None:
    bench = Bench()
    line = b"x" * 999 + b"\n"
    bench.intake.feed(b"y" * (2 * FULL_BYTES))
    assert not bench.intake.is_full(), "one long frame is no reason: the owner has nothing to pull"
    bench.intake.feed(b"\n")
    assert not bench.intake.is_full(), "cut ahead, and so no longer held as bytes"
    bench.intake.feed(line * 300)
    assert bench.intake.is_full()
    bench.intake.next_frame()
    assert bench.intake.is_full(), "until it is empty"
    assert bench.drains == 0
    bench.pull()
    assert bench.drains == 1
    assert not bench.intake.is_full()
    bench.pull()
    assert bench.drains == 1
