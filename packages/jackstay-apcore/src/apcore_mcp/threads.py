"""A thread pool for blocking modules.

apcore runs a blocking module in the default executor of the event loop. The default of asyncio has few threads, so that
some hanging modules would block all others; it does not propagate context variables (the trace id); and on Python 3.11
a `StopIteration` is lost. This pool replaces it.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, Final, TypeVar

_R = TypeVar("_R")

# Each blocking call needs a thread, also after its caller has gone. Threads are created on demand.
THREADS: Final = 256


class ModuleThreads(ThreadPoolExecutor):
    """Runs functions in threads, in the context of the caller."""

    def __init__(self) -> None:
        super().__init__(THREADS, thread_name_prefix="apcore-mcp-module")

    def submit(self, fn: Callable[..., _R], /, *args: Any, **kwargs: Any) -> "Future[_R]":
        """Submit a function, as `ThreadPoolExecutor.submit`."""
        context = copy_context()

        def run() -> _R:
            try:
                return context.run(fn, *args, **kwargs)
            except StopIteration as error:
                raise RuntimeError("the module raised StopIteration") from error

        return super().submit(run)


def install_thread_pool(loop: asyncio.AbstractEventLoop, *, owns_loop: bool) -> None:
    """Set the thread pool as the default executor of an event loop. A loop of the program keeps an executor of its own.

    asyncio has no public API to read the executor, and uvloop none at all: there an existing executor is replaced.
    """
    before = getattr(loop, "_default_executor", None)
    if before is not None and not owns_loop:
        return
    loop.set_default_executor(ModuleThreads())
    if before is not None:
        before.shutdown(wait=False)


__all__ = ["THREADS", "ModuleThreads", "install_thread_pool"]
