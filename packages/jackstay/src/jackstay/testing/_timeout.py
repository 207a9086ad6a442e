"""Waiting with a time limit."""

import asyncio
from collections.abc import Awaitable


async def finishes_within(seconds: float, work: Awaitable[object]) -> bool:
    """Wait for `work` for at most `seconds`. False: it was not finished in time, and was cancelled."""
    try:
        async with asyncio.timeout(seconds):
            await work
    except TimeoutError:
        return False
    return True
