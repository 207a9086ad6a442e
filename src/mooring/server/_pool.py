"""Threads for blocking functions: bounded, fair between connections, and never a reason why a process cannot end.

Daemon threads of our own: the interpreter waits at exit for every thread of a `ThreadPoolExecutor`, so one hung tool would
keep a server alive that its client has left. Work waits in one queue per connection, served in turn, so a connection that
asks for a thousand slow things delays only itself.

Above: `_dispatch`. Below: threads.
"""

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

R = TypeVar("R")

# As many as a server may reasonably block at once; a thread that waits costs little.
THREADS = 32


class Pool:
    """Run functions in threads. One for each server; threads start when they are needed and stay."""

    def __init__(self, threads: int = THREADS) -> None:
        self._limit = threads
        self._lock = threading.Lock()
        self._has_work = threading.Condition(self._lock)
        self._queues: dict[Hashable, deque[Callable[[], None]]] = {}
        self._turns: deque[Hashable] = deque()
        self._threads: set[threading.Thread] = set()
        self._idle = 0
        self._is_closed = False

    def __repr__(self) -> str:
        return f"<Pool {len(self._threads)} of {self._limit} threads, {self._idle} idle>"

    @property
    def busy(self) -> int:
        """Threads that run something now: what is left when a server ends."""
        return len(self._threads) - self._idle

    async def run(self, owner: Hashable, function: Callable[..., R], *args: Any, **kwargs: Any) -> R:
        """The result of `function`, called in a thread in turn with other owners.

        A caller that is cancelled while it waits takes the work back; once it runs, it runs to its end unheard.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[R] = loop.create_future()
        context = contextvars.copy_context()

        def work() -> None:
            if future.cancelled():
                return
            try:
                result = context.run(function, *args, **kwargs)
            except BaseException as error:  # noqa: BLE001  # carried to whoever awaits: this is his exception
                _tell(loop, future, None, error)
            else:
                _tell(loop, future, result, None)

        self._put(owner, work)
        return await future

    def close(self) -> None:
        """Take no more work. Threads that run something are left to it: they are daemons."""
        with self._lock:
            self._is_closed = True
            self._queues.clear()
            self._turns.clear()
            self._has_work.notify_all()

    def _put(self, owner: Hashable, work: Callable[[], None]) -> None:
        with self._lock:
            queue = self._queues.get(owner)
            if queue is None:
                queue = self._queues[owner] = deque()
                self._turns.append(owner)
            queue.append(work)
            if self._idle:
                self._has_work.notify()
            elif len(self._threads) < self._limit:
                thread = threading.Thread(target=self._serve, name="mooring-pool", daemon=True)
                self._threads.add(thread)
                self._idle += 1  # it will look for work first
                thread.start()

    def _serve(self) -> None:
        while (work := self._next()) is not None:
            work()
            del work  # a thread that waits must not keep the last result alive
            with self._lock:
                self._idle += 1
        with self._lock:
            self._threads.discard(threading.current_thread())

    def _next(self) -> Callable[[], None] | None:
        """The next piece of work, in turn; None: the pool is closed. The thread counts as busy from here on."""
        with self._lock:
            while not self._turns:
                if self._is_closed:
                    self._idle -= 1
                    return None
                self._has_work.wait()
            owner = self._turns.popleft()
            queue = self._queues[owner]
            work = queue.popleft()
            if queue:
                self._turns.append(owner)
            else:
                del self._queues[owner]
            self._idle -= 1
            return work


def _tell(
    loop: asyncio.AbstractEventLoop, future: "asyncio.Future[Any]", result: Any, error: BaseException | None
) -> None:
    def settle() -> None:
        if future.cancelled():
            return
        if error is None:
            future.set_result(result)
        elif isinstance(error, StopIteration):
            future.set_exception(
                RuntimeError("the function raised StopIteration")
            )  # a future cannot carry one
        else:
            future.set_exception(error)

    try:
        loop.call_soon_threadsafe(settle)
    except RuntimeError:
        pass  # the loop is closed: nobody waits any more
