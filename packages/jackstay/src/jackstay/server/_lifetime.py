"""The startup and shutdown hooks of a server: run once, however many ways it is served at the same time.

Whoever serves enters before and leaves after: `run()`, each `serve()`, each ASGI app. The first to enter runs the startup
hooks, and the others wait for them; the last to leave runs the shutdown hooks. That may happen on several event loops.
"""

import asyncio
import inspect
import logging
import threading
from collections.abc import Awaitable, Callable, Hashable
from concurrent.futures import Future
from typing import TypeAlias

from jackstay.server._pool import Pool

logger = logging.getLogger("jackstay.server")

# What each shutdown hook has at least, even if those before it have used up the time of all.
HOOKS_TIMEOUT = 0.05

# Threads for hooks alone: those of the tools may all hang, and one hook that hangs must not keep the next from running.
HOOK_THREADS = 8

# Done when the hooks that run now have run, with what one of them raised.
Change: TypeAlias = "Future[Exception | None]"


class Lifetime:
    """Who serves now, and the hooks before the first and after the last of them."""

    def __init__(self) -> None:
        self.startup_hooks: list[Callable[[], object]] = []
        self.shutdown_hooks: list[Callable[[], object]] = []
        self.pool = Pool(HOOK_THREADS)
        self._lock = threading.Lock()
        self._users: set[Hashable] = set()
        self._started = (
            0  # startup hooks that have succeeded; one that raised runs again with the next attempt
        )
        self._owes_shutdown = False
        self._change: Change | None = None  # hooks that run now; who comes meanwhile waits for them
        self._starting: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<Lifetime of {len(self._users)} users>"

    @property
    def is_starting(self) -> bool:
        """True while startup hooks run."""
        return self._starting is not None

    def join(self, user: Hashable) -> bool:
        """Enter without waiting, if there is nothing to wait for: no startup hook, or they have run."""
        with self._lock:
            return self._join(user)

    def _join(self, user: Hashable) -> bool:
        if self._change is not None or not (self._users or self._started == len(self.startup_hooks)):
            return False
        self._owes_shutdown = True
        self._users.add(user)
        return True

    async def enter(self, user: Hashable) -> bool:
        """Run the startup hooks, if this is the first user. False: `stop_starting()` was called meanwhile.

        Raises: what a hook raises. Then nobody has entered.
        """
        while True:
            with self._lock:
                if self._join(user):
                    return True
                running = self._change
                if running is None:
                    change = self._change = Future()
                    break
            error = await asyncio.shield(asyncio.wrap_future(running))
            if error is not None:
                raise error
        try:
            is_up = await self._run_startup()
        except BaseException as error:
            # Where the one who started was cancelled, the next who waits starts.
            self._changed(change, error if isinstance(error, Exception) else None)
            raise
        if is_up:
            self._users.add(user)
        self._changed(change)
        return is_up

    async def leave(self, user: Hashable, timeout: float, end_serving: Callable[[], Awaitable[None]]) -> bool:
        """This user serves no longer; with None, nobody does. True: it was the last, and the shutdown hooks have run.

        `end_serving()` is awaited before them.

        They run once for each time that startup was begun, and have `timeout` seconds together.
        """
        while True:
            with self._lock:
                running = self._change
                if running is None:
                    self._users.discard(user)
                    if self._users and user is not None:
                        return False
                    self._users.clear()
                    change = self._change = Future()
                    break
            await asyncio.shield(asyncio.wrap_future(running))
        try:
            await end_serving()
            if self._owes_shutdown:
                self._owes_shutdown = False
                self._started = 0
                deadline = asyncio.get_running_loop().time() + timeout
                for hook in self.shutdown_hooks:
                    left = deadline - asyncio.get_running_loop().time()
                    await self._run_hook(hook, max(HOOKS_TIMEOUT, left))
        finally:
            self._changed(change)
        return True

    def stop_starting(self) -> None:
        """Cancel the startup hooks that still run. From the loop that runs them, or a signal handler."""
        if self._starting is not None:
            self._starting.cancel()

    def stop_starting_threadsafe(self) -> None:
        """The same from any thread."""
        starting = self._starting
        if starting is not None:
            starting.get_loop().call_soon_threadsafe(self.stop_starting)

    async def _run_startup(self) -> bool:
        self._owes_shutdown = True
        if not self.startup_hooks:
            return True
        self._starting = asyncio.ensure_future(self._start())
        try:
            await self._starting
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if current is not None and current.cancelling():
                raise
            return False
        finally:
            self._starting = None
        return True

    async def _start(self) -> None:
        while self._started < len(self.startup_hooks):
            done = self.startup_hooks[self._started]()
            if inspect.isawaitable(done):
                await done
            self._started += 1

    async def _run_hook(self, hook: Callable[[], object], timeout: float) -> None:
        try:
            async with asyncio.timeout(timeout):
                if inspect.iscoroutinefunction(hook):
                    await hook()
                else:
                    done = await self.pool.run(self, hook)
                    if inspect.isawaitable(done):  # an object with an async `__call__`
                        await done
        except Exception:  # the edge of the author's hook
            logger.exception("a shutdown hook failed, or took more than %.3g s", timeout)

    def _changed(self, change: "Change", error: Exception | None = None) -> None:
        with self._lock:
            self._change = None
        change.set_result(error)
