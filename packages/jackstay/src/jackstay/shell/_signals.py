"""Work on a loop that ends in order: the first signal cancels it, the second ends the process.

asyncio has this for Ctrl-C alone, and a second one is a traceback there. Here SIGINT, SIGTERM and SIGHUP are alike, and the second
has the system's own meaning again, so that it is at once and silent. What must not outlive the process is ended just before.

Must never know what is ended. Above: commands that have something to end. Below: asyncio, signals.
"""

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

# SIGHUP: the terminal is gone. Windows has none.
SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


@contextmanager
def ending_in_order(last: Callable[[], object] | None = None) -> Iterator[list[int]]:
    """Inside a task: a signal cancels it. The list says which came, if one did; afterwards signals are as they were.

    `last()` is called when the second comes, and is all that is done then: it must neither wait nor raise.
    Signals that are ignored stay so, as nohup wants it; off the main thread nothing is taken over.
    """
    came: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield came
        return
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None  # said above: inside a task
    before = {number: signal.getsignal(number) for number in SIGNALS}
    # None: somebody's handler that is not Python's.
    taken = [number for number in SIGNALS if before[number] not in (signal.SIG_IGN, None)]

    def end_at_once(number: int, _: FrameType | None) -> None:
        for one in taken:
            signal.signal(one, signal.SIG_DFL)
        assert last is not None  # else nobody listens for the second
        last()
        os.kill(os.getpid(), number)

    def end(number: int, _: FrameType | None) -> None:
        for one in taken:
            signal.signal(one, signal.SIG_DFL if last is None else end_at_once)
        came.append(number)
        # On this very thread, but the loop may be asleep, and only this wakes it.
        loop.call_soon_threadsafe(task.cancel)

    for number in taken:
        signal.signal(number, end)
    try:
        yield came
    finally:
        for number in taken:
            signal.signal(number, before[number])


__all__ = ["SIGNALS", "ending_in_order"]
