"""A task that takes long is watched once, a quick one never, with one timer for all."""

import asyncio
from typing import Any

from jackstay.server.http._post import POLL_INTERVAL, DisconnectPoller
from jackstay.testing import run_on_fake_clock


class LongTask:
    def __init__(self) -> None:
        self.watched: list[float] = []

    def watch(self) -> None:
        self.watched.append(asyncio.get_running_loop().time())


def test_a_long_task_is_watched_once_and_soon() -> None:
    async def test() -> None:
        loop = asyncio.get_running_loop()
        poller: Any = DisconnectPoller(loop)
        early, late, quick = LongTask(), LongTask(), LongTask()
        started_at = loop.time()
        poller.add(early)
        poller.add(quick)
        await asyncio.sleep(POLL_INTERVAL * 0.9)
        poller.remove(quick)
        poller.add(late)
        await asyncio.sleep(POLL_INTERVAL * 10)
        assert repr(poller) == "<DisconnectPoller of 2 tasks>"
        for task in (early, late):
            (watched_at,) = task.watched
            assert POLL_INTERVAL <= watched_at - started_at <= 3 * POLL_INTERVAL
        assert quick.watched == []
        poller.remove(early)
        poller.remove(late)
        poller.remove(late)
        assert poller.all == set()
        assert poller._timer is None, "without tasks there is no timer"

    run_on_fake_clock(test())


def test_a_task_that_ends_before_the_second_poll_is_not_watched() -> None:
    async def test() -> None:
        poller: Any = DisconnectPoller(asyncio.get_running_loop())
        task = LongTask()
        poller.add(task)
        await asyncio.sleep(POLL_INTERVAL * 1.5)
        poller.remove(task)
        await asyncio.sleep(POLL_INTERVAL * 5)
        assert task.watched == []

    run_on_fake_clock(test())
