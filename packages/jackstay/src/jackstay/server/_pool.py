"""A thread pool for blocking functions, bounded and fair.

Not a `ThreadPoolExecutor`: interpreter exit joins its threads, so a hung tool would keep the process alive. Each owner
has its own queue, and queues are served in turn, so an owner with many slow calls delays only itself. The owner is a
connection; over HTTP it is the principal, or the client's address for a POST without a session.
"""

import asyncio
import contextvars
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias, TypeVar

R = TypeVar("R")

# A function without parameters, and the future that gets its result.
Work: TypeAlias = tuple[asyncio.Future[Any], Callable[[], Any]]

# The default limit. A waiting thread costs little.
THREADS = 32


class Pool:
    """Runs functions in daemon threads, which are started on demand and reused."""

    def __init__(self, threads: int = THREADS) -> None:
        self._limit = threads
        self._lock = threading.Condition()  # notified when there is work
        # In the order of their turns.
        self._queues: OrderedDict[Hashable, deque[Work]] = OrderedDict()
        # The number of functions that wait for a thread.
        self.queued = 0
        self._threads: set[threading.Thread] = set()
        self._idle = 0
        self._is_closed = False

    def __repr__(self) -> str:
        return f"<Pool {len(self._threads)} of {self._limit} threads, {self.busy} busy, {self.queued} queued>"

    @property
    def busy(self) -> int:
        """The number of threads that are running a function."""
        with self._lock:
            return len(self._threads) - self._idle

    async def run(self, owner: Hashable, function: Callable[..., R], *args: Any, **kwargs: Any) -> R:
        """Call `function` in a thread, in turn with other owners, and return its result.

        If the caller is cancelled before the function runs, it is not called; afterwards its result is discarded.
        """
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        work = future, partial(contextvars.copy_context().run, function, *args, **kwargs)
        self._put(owner, work)
        try:
            return await future
        except asyncio.CancelledError:
            self._remove(owner, work)
            raise

    def release(self) -> None:
        """End idle threads. Queued work is still done, and later work starts new threads."""
        with self._lock:
            self._is_closed = True
            self._lock.notify_all()

    def close(self) -> None:
        """Discard queued work and end idle threads. Running functions continue in their daemon threads."""
        with self._lock:
            self._queues.clear()
            self.queued = 0
        self.release()

    def _put(self, owner: Hashable, work: Work) -> None:
        with self._lock:
            self._is_closed = False  # a server can be run again
            self._queues.setdefault(owner, deque()).append(work)
            self.queued += 1
            # A thread counts as idle until it has got its work, so there may be more work than idle threads.
            if self.queued > self._idle and len(self._threads) < self._limit:
                thread = threading.Thread(target=self._serve, name="jackstay-pool", daemon=True)
                self._threads.add(thread)
                self._idle += 1
                thread.start()
            else:
                self._lock.notify()

    def _remove(self, owner: Hashable, work: Work) -> None:
        """Remove work that has not started: a client that calls and cancels must not fill the queue."""
        with self._lock:
            queue = self._queues.get(owner)
            if queue is None or work not in queue:
                return
            queue.remove(work)
            self.queued -= 1
            if not queue:
                del self._queues[owner]

    def _serve(self) -> None:
        while (work := self._next()) is not None:
            future, call = work
            result, error = None, None
            if not future.cancelled():
                try:
                    result = call()
                except BaseException as raised:  # noqa: BLE001  # raised in the awaiting task
                    error = raised
            with self._lock:
                self._idle += 1  # before delivery: `busy` must be right once the result is visible
            with suppress(RuntimeError):  # the loop is closed
                future.get_loop().call_soon_threadsafe(_deliver, future, result, error)
            del work, future, call, result, error  # a thread that waits must not keep the last result alive

    def _next(self) -> Work | None:
        """Wait for the next work, and count the thread as busy. Returns None if the pool is closed."""
        with self._lock:
            while not self._queues:
                if self._is_closed:
                    self._idle -= 1
                    self._threads.discard(threading.current_thread())
                    return None
                self._lock.wait()
            owner, queue = self._queues.popitem(last=False)
            work = queue.popleft()
            if queue:
                self._queues[owner] = queue  # its next turn is after those of all others
            self.queued -= 1
            self._idle -= 1
            return work


def _deliver(future: "asyncio.Future[Any]", result: Any, error: BaseException | None) -> None:
    if future.cancelled():
        return
    if error is None:
        future.set_result(result)
    elif isinstance(error, StopIteration | GeneratorExit):
        # Futures reject StopIteration, and GeneratorExit would end the awaiting coroutine.
        future.set_exception(RuntimeError(f"the function raised {type(error).__name__}"))
    else:
        future.set_exception(error)
