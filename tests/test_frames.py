"""A warm call over stdio enters few Python frames: their number is most of what a call costs."""

import sys

import pytest

from scripted.places import ROOT

sys.path.insert(0, str(ROOT / "tools"))
import count_frames

MAX_FRAMES = {"client": 55, "server": 35}


@pytest.mark.parametrize("revision", count_frames.REVISIONS)
@pytest.mark.parametrize("side", MAX_FRAMES)
def test_a_warm_call_enters_few_frames(side: str, revision: str) -> None:
    rows = count_frames.frames_per_call(side, revision)
    assert 20 < sum(rows.values()) <= MAX_FRAMES[side], rows
