"""Threads for blocking functions: bounded, fair between callers, and never a reason why a process cannot end.

Daemon threads of our own: the interpreter waits at exit for every thread of a `ThreadPoolExecutor`, so one hung tool would
keep a server alive that its client has left. Work waits in one queue for each owner, and queues are served in turn, so an owner
with a thousand slow calls delays only itself. The owner is a connection; over HTTP it is the principal, or the address of a
POST without session.

Must never know a request. Above: `_dispatch`, which brings work; `_run`, which asks what is left. Below: threads.
"""

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, TypeAlias, TypeVar

R = TypeVar("R")

# Does the work in its thread, and returns what tells of it.
Work: TypeAlias = Callable[[], Callable[[], None]]

# As many as a server may reasonably block at once; a thread that waits costs little.
THREADS = 32


class Pool:
    """Run functions in threads. One for each server; threads start when they are needed and stay."""

    def __init__(self, threads: int = THREADS) -> None:
        self._limit = threads
        self._lock = threading.Lock()
        self._has_work = threading.Condition(self._lock)
        self._queues: dict[Hashable, deque[Work]] = {}
        self._turns: deque[Hashable] = deque()
        self._queued = 0
        self._threads: set[threading.Thread] = set()
        self._idle = 0
        self._is_closed = False

    def __repr__(self) -> str:
        return (
            f"<Pool {len(self._threads)} of {self._limit} threads, {self.busy} busy, {self._queued} queued>"
        )

    @property
    def busy(self) -> int:
        """Threads that run something now: what is left when a server ends."""
        with self._lock:
            return len(self._threads) - self._idle

    @property
    def queued(self) -> int:
        """What waits for a thread."""
        return self._queued

    async def run(self, owner: Hashable, function: Callable[..., R], *args: Any, **kwargs: Any) -> R:
        """The result of `function`, called in a thread in turn with other owners.

        A caller that is cancelled while it waits takes the work back; once it runs, it runs to its end unheard.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[R] = loop.create_future()
        context = contextvars.copy_context()

        def work() -> Callable[[], None]:
            if future.cancelled():
                return _nothing
            try:
                result = context.run(function, *args, **kwargs)
            except BaseException as error:  # noqa: BLE001  # carried to whoever awaits: it is his exception
                return partial(_tell, loop, future, None, error)
            return partial(_tell, loop, future, result, None)

        self._put(owner, work)
        try:
            return await future
        except asyncio.CancelledError:
            self._take_back(owner, work)
            raise

    def release(self) -> None:
        """Let every thread go that has nothing to do; what waits is still done. The next work has new threads."""
        with self._lock:
            self._is_closed = True
            self._has_work.notify_all()

    def close(self) -> None:
        """Take no more work, and forget what waits. Threads that run something are left to it: they are daemons."""
        with self._lock:
            self._is_closed = True
            self._queues.clear()
            self._turns.clear()
            self._queued = 0
            self._has_work.notify_all()

    def _put(self, owner: Hashable, work: Work) -> None:
        with self._lock:
            self._is_closed = False  # a server that is run again uses its pool again
            queue = self._queues.get(owner)
            if queue is None:
                queue = self._queues[owner] = deque()
                self._turns.append(owner)
            queue.append(work)
            self._queued += 1
            # A thread counts as idle until it has taken its work, so the idle ones may all be spoken for.
            if self._queued > self._idle and len(self._threads) < self._limit:
                thread = threading.Thread(target=self._serve, name="jackstay-pool", daemon=True)
                self._threads.add(thread)
                self._idle += 1
                thread.start()
            else:
                self._has_work.notify()

    def _take_back(self, owner: Hashable, work: Work) -> None:
        """Forget work that has not begun: a client that calls and cancels must not fill the queue."""
        with self._lock:
            queue = self._queues.get(owner)
            if queue is None or work not in queue:
                return
            queue.remove(work)
            self._queued -= 1
            if not queue:
                del self._queues[owner]
                self._turns.remove(owner)

    def _serve(self) -> None:
        while (work := self._next()) is not None:
            tell = work()
            with self._lock:
                self._idle += 1  # before it is told: who has the result must not find the thread busy with it
            tell()
            del work, tell  # a thread that waits must not keep the last result alive

    def _next(self) -> Work | None:
        """The next piece of work, in turn; None: the pool is closed. The thread counts as busy from here on."""
        with self._lock:
            while not self._turns:
                if self._is_closed:
                    self._idle -= 1
                    self._threads.discard(threading.current_thread())
                    return None
                self._has_work.wait()
            owner = self._turns.popleft()
            queue = self._queues[owner]
            work = queue.popleft()
            if queue:
                self._turns.append(owner)
            else:
                del self._queues[owner]
            self._queued -= 1
            self._idle -= 1
            return work


def _nothing() -> None:
    """Nobody waits for this one."""


def _tell(
    loop: asyncio.AbstractEventLoop, future: "asyncio.Future[Any]", result: Any, error: BaseException | None
) -> None:
    def settle() -> None:
        if future.cancelled():
            return
        if error is None:
            future.set_result(result)
        elif isinstance(error, StopIteration | GeneratorExit):
            # A future cannot carry the one, and who awaits it would take the other for the end of himself.
            future.set_exception(RuntimeError(f"the function raised {type(error).__name__}"))
        else:
            future.set_exception(error)

    try:
        loop.call_soon_threadsafe(settle)
    except RuntimeError:
        pass  # the loop is closed: nobody waits any more
