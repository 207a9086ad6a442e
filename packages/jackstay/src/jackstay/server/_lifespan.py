"""The lifespan of a server: a context manager that is open while the server runs, and the state that it yields."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from typing import Any

from jackstay.errors import UsageError

logger = logging.getLogger("jackstay.server")


class Lifespan:
    """Enters a context manager in a task of its own, which leaves it too: task groups and cancel scopes need that.

    `enter()` and `leave()` may be called in different tasks and on different event loops. If the event loop ends before
    `leave()`, as `asyncio.run()` ends it, `shutdown()` is awaited, which must call `leave()`.
    """

    def __init__(
        self, manager: Callable[[], AbstractAsyncContextManager[Any]], shutdown: Callable[[], Coroutine[Any, Any, None]]
    ) -> None:
        self.state: Any = None
        self._manager = manager
        self._shutdown = shutdown
        self._task: asyncio.Task[None] | None = None
        self._leaving = asyncio.Event()
        self._ended: Future[None] = Future()

    async def enter(self) -> None:
        """Enter the context manager. Raises: what it raises."""
        loop = asyncio.get_running_loop()
        entered: asyncio.Future[Any] = loop.create_future()
        self._leaving = asyncio.Event()
        self._ended = Future()
        self._task = loop.create_task(self._run(entered, self._leaving, self._ended))
        try:
            self.state = await entered
        except asyncio.CancelledError:
            self._leaving.set()
            self._task.cancel()
            await asyncio.wait([self._task])
            raise

    async def leave(self) -> None:
        """Leave the context manager and wait until it has ended. Raises: what it raises."""
        task, self._task = self._task, None
        if task is None:
            return
        loop = task.get_loop()
        loop.call_soon_threadsafe(self._leaving.set)
        try:
            await asyncio.wrap_future(self._ended)
        except asyncio.CancelledError:
            loop.call_soon_threadsafe(task.cancel)
            raise
        finally:
            self.state = None

    async def _run(self, entered: "asyncio.Future[Any]", leaving: asyncio.Event, ended: "Future[None]") -> None:
        ending: asyncio.Task[None] | None = None
        # Cancelled only with all tasks of a loop that ends. A task group around the state cancels this task alone.
        sentinel = asyncio.create_task(leaving.wait())
        try:
            manager = self._manager()
            if not hasattr(manager, "__aenter__"):
                raise UsageError(
                    f"lifespan must return an async context manager, not {type(manager).__name__};"
                    " decorate it with contextlib.asynccontextmanager",
                    path="lifespan",
                )
            async with manager as state:
                if not entered.done():  # else `enter()` was cancelled
                    entered.set_result(state)
                try:
                    await leaving.wait()
                except asyncio.CancelledError:
                    task = asyncio.current_task()
                    if leaving.is_set() or not sentinel.cancelling() or task is None:
                        raise
                    task.uncancel()  # a task group around the state must not be cancelled
                    ending = asyncio.create_task(self._shutdown())
                    await leaving.wait()
        except BaseException as error:
            if not entered.done():
                entered.set_exception(error)
            elif not leaving.is_set() and isinstance(error, Exception):
                logger.error("the lifespan ended while the server runs, and its state is closed", exc_info=error)
            elif not ended.done():
                ended.set_exception(error)
            if not isinstance(error, Exception):
                raise
        finally:
            sentinel.cancel()
            if not ended.done():
                ended.set_result(None)
            if ending is not None:
                await asyncio.wait([ending])
