"""Threads for modules that block: enough of them, and each call with what it carries.

apcore runs a module that is no coroutine in the default executor of the loop. As asyncio makes it, that has a few threads more
than the machine has processors, so half a dozen modules that hang, long given up by their callers, would stop all others. It
also starts every call bare: the trace id of the call would be missing in what the module logs. And up to Python 3.11 a
`StopIteration` that a module lets out is never told to anybody. So the loop is given one that does better.

Must never know a module. Above: the router. Below: asyncio, `concurrent.futures`.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, Final, TypeVar

_R = TypeVar("_R")

# Each call that blocks needs one, also after its caller has gone. A thread that waits costs little, and is made when needed.
THREADS: Final = 256


class ModuleThreads(ThreadPoolExecutor):
    """Runs functions in threads, in the context of whoever asked."""

    def __init__(self) -> None:
        super().__init__(THREADS, thread_name_prefix="apcore-mcp-module")

    def submit(self, fn: Callable[..., _R], /, *args: Any, **kwargs: Any) -> "Future[_R]":
        """As the executor's."""
        context = copy_context()

        def run() -> _R:
            try:
                return context.run(fn, *args, **kwargs)
            except StopIteration as error:
                raise RuntimeError("the module raised StopIteration") from error

        return super().submit(run)


def provide(loop: asyncio.AbstractEventLoop, *, is_ours: bool) -> None:
    """Give a loop these threads. One that is somebody else's keeps the executor that it has, where that can be seen.

    asyncio has no public way to read a loop's executor, and uvloop none at all: there an executor that was set before is replaced.
    """
    before = getattr(loop, "_default_executor", None)
    if before is not None and not is_ours:
        return
    loop.set_default_executor(ModuleThreads())
    if before is not None:
        before.shutdown(wait=False)


__all__ = ["THREADS", "ModuleThreads", "provide"]
