"""The table of framings: each row reads what it writes, in pieces of any size."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackstay.errors import FrameTooLargeError
from jackstay.protocol.wire._framing import FRAMINGS

PAYLOADS = st.lists(st.text(max_size=40).map(lambda text: ascii(text).encode()), max_size=8)


def test_the_names_of_the_framings() -> None:
    assert list(FRAMINGS) == ["lines", "content-length"]
    assert all(row.name == name for name, row in FRAMINGS.items())


@pytest.mark.parametrize("name", FRAMINGS)
@given(payloads=PAYLOADS, cuts=st.lists(st.integers(min_value=0, max_value=400)))
def test_frames_round_trip_in_any_pieces(name: str, payloads: list[bytes], cuts: list[int]) -> None:
    row = FRAMINGS[name]
    stream = b"".join(row.writer(payload, 400) for payload in payloads)
    assert row.join(payloads) == stream
    framer = row.reader(400)
    frames = []
    edges = [0, *sorted(cut for cut in cuts if cut < len(stream)), len(stream)]
    for start, end in pairwise(edges):
        framer.feed(stream[start:end])
        while (frame := framer.next_frame()) is not None:
            frames.append(frame)
    assert frames == payloads
    assert framer.eof() is None
    assert framer.buffered == 0


def test_the_limit_applies_to_writing(subtests: pytest.Subtests) -> None:
    for name in FRAMINGS:
        with subtests.test(name=name):
            row = FRAMINGS[name]
            assert row.writer(b"x" * 10, 10)
            with pytest.raises(FrameTooLargeError) as caught:
                row.writer(b"x" * 11, 10)
            assert (caught.value.size, caught.value.limit) == (11, 10)
            assert caught.value.may_have_run is False
