"""One piece of work at a time for one key: who asks meanwhile waits for the same result.

Must never know what the work is. Above: `_fetcher`, `procontext.page`. Below: asyncio.
"""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

_K = TypeVar("_K", bound=Hashable)
_T = TypeVar("_T")


class Grounded(Exception):
    """The work was ended by `close` before it was done."""


class Flights(Generic[_K, _T]):
    """What is under way, by key."""

    def __init__(self) -> None:
        self._tasks: dict[_K, asyncio.Task[_T]] = {}

    def __len__(self) -> int:
        return len(self._tasks)

    def __contains__(self, key: _K) -> bool:
        return key in self._tasks

    def start(self, key: _K, work: Callable[[], Coroutine[Any, Any, _T]]) -> "asyncio.Task[_T]":
        """The task for this key: the one that is under way, or a new one."""
        task = self._tasks.get(key)
        if task is None:
            task = self._tasks[key] = asyncio.create_task(work())
            task.add_done_callback(lambda done: self._landed(key, done))
        return task

    async def join(self, key: _K, work: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """The result for this key. Who is cancelled while waiting goes alone: the work goes on for the others.

        Raises: what the work raises; Grounded when `close` ended it.
        """
        task = self.start(key, work)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            here = asyncio.current_task()
            if task.cancelled() and (here is None or not here.cancelling()):
                raise Grounded from None
            raise

    def _landed(self, key: _K, task: "asyncio.Task[_T]") -> None:
        del self._tasks[key]
        if not task.cancelled():
            task.exception()  # seen, also when nobody waits any more

    async def close(self) -> None:
        """End everything that is under way."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


__all__ = ["Flights", "Grounded"]
