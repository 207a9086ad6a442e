"""A command that stands where a server stands, until its client is gone or a signal comes.

A server that is told to end has done what it was there for: 0 after SIGTERM and SIGHUP, 130 after Ctrl-C, as `jackstay serve` has it.

Above: `_record`, `_replay`. Below: `jackstay.shell`, asyncio.
"""

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any

from jackstay.cli._exits import DONE, INTERRUPTED
from jackstay.shell import ending_in_order
from jackstay.transport import kill_children


def stand(work: Coroutine[Any, Any, int]) -> int:
    """Do it on a loop of its own and return its exit code; a signal cancels it, and a second one ends
    the process, and the server that it has started.
    """
    return asyncio.run(_stand(work))


async def _stand(work: Coroutine[Any, Any, int]) -> int:
    with ending_in_order(kill_children) as came:
        try:
            return await work
        except asyncio.CancelledError:
            if not came:
                raise  # somebody else's doing
            return INTERRUPTED if came[0] == signal.SIGINT else DONE
