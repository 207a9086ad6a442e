"""What takes long is looked after once, what does not never, and one timer does it."""

import asyncio

from jackstay.server.http._lookout import LOOK_EVERY, Lookout
from jackstay.testing import run_on_fake_clock


class One:
    def __init__(self) -> None:
        self.watched: list[float] = []

    def watch(self) -> None:
        self.watched.append(asyncio.get_running_loop().time())


def test_what_takes_long_is_looked_after_once_and_soon() -> None:
    async def test() -> None:
        loop = asyncio.get_running_loop()
        lookout: Lookout[One] = Lookout(loop)
        early, late, quick = One(), One(), One()
        began = loop.time()
        lookout.begin(early)
        lookout.begin(quick)
        await asyncio.sleep(LOOK_EVERY * 0.9)
        lookout.end(quick)
        lookout.begin(late)
        await asyncio.sleep(LOOK_EVERY * 10)
        assert repr(lookout) == "<Lookout for 2>"
        for one in (early, late):
            (at,) = one.watched
            assert LOOK_EVERY <= at - began <= 3 * LOOK_EVERY
        assert quick.watched == []
        lookout.end(early)
        lookout.end(late)
        lookout.end(late)
        assert lookout.all == set()
        assert lookout._timer is None, "nothing to wait for, no timer"

    run_on_fake_clock(test())


def test_what_ends_before_its_second_turn_is_left_alone() -> None:
    async def test() -> None:
        lookout: Lookout[One] = Lookout(asyncio.get_running_loop())
        one = One()
        lookout.begin(one)
        await asyncio.sleep(LOOK_EVERY * 1.5)
        lookout.end(one)
        await asyncio.sleep(LOOK_EVERY * 5)
        assert one.watched == []

    run_on_fake_clock(test())
