"""An ordinary loop for a test of real pipes, with a limit; where everything is in memory, `jackstay.testing.on_fake_clock` is it."""

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any


def timed(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test that may take 30 seconds and must leave no task behind."""

    @functools.wraps(test)
    def run(*args: Any, **named: Any) -> None:
        async def watched() -> None:
            async with asyncio.timeout(30):
                await test(*args, **named)
            for _ in range(
                100
            ):  # tasks that were just cancelled need turns; the nested generators of httpx many, on uvloop
                left = asyncio.all_tasks() - {asyncio.current_task()}
                if not left:
                    break
                await asyncio.sleep(0)
            assert left == set(), f"tasks are left: {left}"

        asyncio.run(watched())

    return run
