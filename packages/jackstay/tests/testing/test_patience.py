"""Waiting, but not for ever."""

import asyncio

from jackstay.testing import on_fake_clock
from jackstay.testing._patience import within


@on_fake_clock
async def test_a_wait_is_as_long_as_it_may_be_and_no_longer() -> None:
    loop = asyncio.get_running_loop()
    assert await within(1, asyncio.sleep(0.5))
    assert loop.time() == 0.5
    assert not await within(1, asyncio.Event().wait())
    assert loop.time() == 1.5
