"""Deduplication of concurrent work: callers with the same key share one task and its result."""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

_K = TypeVar("_K", bound=Hashable)
_T = TypeVar("_T")


class Cancelled(Exception):
    """The task was cancelled by `close`."""


class SingleFlight(Generic[_K, _T]):
    """The running tasks by key."""

    def __init__(self) -> None:
        self._tasks: dict[_K, asyncio.Task[_T]] = {}

    def __len__(self) -> int:
        return len(self._tasks)

    def __contains__(self, key: _K) -> bool:
        return key in self._tasks

    def start(self, key: _K, work: Callable[[], Coroutine[Any, Any, _T]]) -> "asyncio.Task[_T]":
        """Return the running task for this key, or start one."""
        task = self._tasks.get(key)
        if task is None:
            task = self._tasks[key] = asyncio.create_task(work())
            task.add_done_callback(lambda done: self._on_done(key, done))
        return task

    async def join(self, key: _K, work: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """Return the result for this key. Cancelling one caller does not cancel the task.

        Raises: what the task raises; Cancelled if `close` cancelled it.
        """
        task = self.start(key, work)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if task.cancelled() and (caller is None or not caller.cancelling()):
                raise Cancelled from None
            raise

    def _on_done(self, key: _K, task: "asyncio.Task[_T]") -> None:
        del self._tasks[key]
        if not task.cancelled():
            task.exception()  # marks it as retrieved, in case all callers are gone

    async def wait(self) -> None:
        """Wait for the tasks that are running now, however they end."""
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def close(self) -> None:
        """Cancel all running tasks."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


__all__ = ["Cancelled", "SingleFlight"]
