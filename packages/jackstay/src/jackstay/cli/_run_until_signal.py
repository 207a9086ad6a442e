"""Run a command that acts as a server until its client disconnects or a signal arrives.

The exit codes are those of `jackstay serve`: 0 after SIGTERM and SIGHUP, 130 after SIGINT.
"""

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any

from jackstay.cli._exits import DONE, INTERRUPTED
from jackstay.shell import cancel_on_signal
from jackstay.transport import kill_children


def run_until_signal(work: Coroutine[Any, Any, int]) -> int:
    """Run a coroutine in a new event loop and return its exit code.

    The first signal cancels it; the second terminates the process and the servers it has started.
    """
    return asyncio.run(_run(work))


async def _run(work: Coroutine[Any, Any, int]) -> int:
    with cancel_on_signal(kill_children) as received:
        try:
            return await work
        except asyncio.CancelledError:
            if not received:
                raise  # not cancelled by a signal
            return INTERRUPTED if received[0] == signal.SIGINT else DONE
