"""Waiting with a time limit."""

import asyncio

from jackstay.testing import on_fake_clock
from jackstay.testing._timeout import finishes_within


@on_fake_clock
async def test_a_wait_ends_with_the_work_or_the_limit() -> None:
    loop = asyncio.get_running_loop()
    assert await finishes_within(1, asyncio.sleep(0.5))
    assert loop.time() == 0.5
    assert not await finishes_within(1, asyncio.Event().wait())
    assert loop.time() == 1.5
