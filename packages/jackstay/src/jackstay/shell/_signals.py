"""Cancel an asyncio task on the first signal, and terminate the process on the second.

asyncio does this for SIGINT only, and a second SIGINT prints a traceback. Here SIGINT, SIGTERM and SIGHUP are treated
alike, and the second one gets its default action again.
"""

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

# SIGHUP: the terminal was closed. Windows has no SIGHUP.
SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


@contextmanager
def cancel_on_signal(last: Callable[[], object] | None = None) -> Iterator[list[int]]:
    """Cancel the current task on a signal. Yields a list that contains the signal after it was received.

    `last()` is called on the second signal, just before the process terminates; it must neither wait nor raise.
    Ignored signals stay ignored (nohup). Does nothing in other threads than the main thread.
    """
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received
        return
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None  # always called in a task
    before = {number: signal.getsignal(number) for number in SIGNALS}
    # None: a handler that was not installed from Python.
    handled = [number for number in SIGNALS if before[number] not in (signal.SIG_IGN, None)]

    def end_at_once(number: int, _: FrameType | None) -> None:
        for each in handled:
            signal.signal(each, signal.SIG_DFL)
        assert last is not None  # otherwise this handler is not installed
        last()
        os.kill(os.getpid(), number)

    def end(number: int, _: FrameType | None) -> None:
        for each in handled:
            signal.signal(each, signal.SIG_DFL if last is None else end_at_once)
        received.append(number)
        # This runs in the thread of the loop, but the loop may be waiting: call_soon_threadsafe wakes it.
        loop.call_soon_threadsafe(task.cancel)

    for number in handled:
        signal.signal(number, end)
    try:
        yield received
    finally:
        for number in handled:
            signal.signal(number, before[number])
