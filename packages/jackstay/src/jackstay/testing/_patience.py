"""Waiting, but not for ever: what an end does for a peer that may be gone.

Above: `_relay`, `_replayer`. Below: asyncio.
"""

import asyncio
from collections.abc import Awaitable


async def within(seconds: float, work: Awaitable[object]) -> bool:
    """Wait for it, but not longer. False: it was not done in time, and was cancelled."""
    try:
        async with asyncio.timeout(seconds):
            await work
    except TimeoutError:
        return False
    return True
