"""The table of framings: each row reads what it writes, in pieces of any size."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackstay.protocol.wire._lines import FRAMINGS, framing_of

PAYLOADS = st.lists(st.text(max_size=40).map(lambda text: ascii(text).encode()), max_size=8)


def test_the_names_of_the_framings() -> None:
    assert FRAMINGS == ("lines", "content-length")


@pytest.mark.parametrize("name", FRAMINGS)
@given(payloads=PAYLOADS, cuts=st.lists(st.integers(min_value=0, max_value=400)))
def test_frames_round_trip_in_any_pieces(name: str, payloads: list[bytes], cuts: list[int]) -> None:
    reader, join = framing_of(name)
    stream = b"".join(join([payload]) for payload in payloads)
    assert join(payloads) == stream
    framer = reader(400)
    frames = []
    edges = [0, *sorted(cut for cut in cuts if cut < len(stream)), len(stream)]
    for start, end in pairwise(edges):
        framer.feed(stream[start:end])
        while (frame := framer.next_frame()) is not None:
            frames.append(frame)
    assert frames == payloads
    assert framer.eof() == b""
    assert framer.buffered == 0
