"""The startup and shutdown hooks of a server.

`run()`, each `serve()` and each ASGI app enter before they serve and leave after it. The first one to enter runs the
startup hooks while others wait; the last one to leave runs the shutdown hooks. They may be on different event loops.
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

# Seconds that each shutdown hook has at least, even if the hooks before it have used up the time of all.
MIN_HOOK_TIMEOUT = 0.05

# Hooks have their own threads: those of the tools may all hang, and a hook that hangs must not block the next one.
HOOK_THREADS = 8

# Resolved when the hooks that run now are done, with the exception of one of them or None.
HookRun: TypeAlias = "Future[Exception | None]"


class Lifetime:
    """The current users of a server, and the hooks before the first and after the last of them."""

    def __init__(self) -> None:
        self.startup_hooks: list[Callable[[], object]] = []
        self.shutdown_hooks: list[Callable[[], object]] = []
        # Run after the shutdown hooks.
        self.final_hooks: list[Callable[[], object]] = []
        self.pool = Pool(HOOK_THREADS)
        self._lock = threading.RLock()
        self._users: set[Hashable] = set()
        # Startup hooks that have succeeded. One that raised runs again with the next attempt.
        self._started = 0
        self._needs_shutdown = False
        self._running_hooks: HookRun | None = None  # other users wait for it
        self._starting: asyncio.Task[None] | None = None

    @property
    def is_starting(self) -> bool:
        """True while startup hooks run."""
        return self._starting is not None

    @property
    def has_users(self) -> bool:
        """True while the server runs."""
        return bool(self._users)

    @property
    def has_shutdown(self) -> bool:
        """True if there is something to do at the end: hooks, a lifespan or a backend."""
        # The first of `final_hooks` closes dependencies, and does nothing for a server without any.
        return bool(self.shutdown_hooks) or len(self.final_hooks) > 1

    def try_enter(self, user: Hashable) -> bool:
        """Enter if there is nothing to wait for: no startup hooks, or they have run. Returns whether it entered."""
        with self._lock:
            if self._running_hooks is not None or not (self._users or self._started == len(self.startup_hooks)):
                return False
            self._needs_shutdown = True
            self._users.add(user)
            return True

    async def enter(self, user: Hashable) -> bool:
        """Run the startup hooks, if this is the first user. Returns False if `cancel_startup()` was called.

        Raises: whatever a hook raises; the user has not entered then.
        """
        while True:
            with self._lock:
                if self.try_enter(user):
                    return True
                running = self._running_hooks
                if running is None:
                    hook_run = self._running_hooks = Future()
                    break
            error = await asyncio.shield(asyncio.wrap_future(running))
            if error is not None:
                raise error
        try:
            is_up = await self._run_startup()
        except BaseException as error:
            # If the task that ran the hooks was cancelled, the next waiting one runs them.
            self._end_hook_run(hook_run, error if isinstance(error, Exception) else None)
            raise
        if is_up:
            self._users.add(user)
        self._end_hook_run(hook_run)
        return is_up

    async def leave(self, user: Hashable, timeout: float, end_serving: Callable[[], Awaitable[None]]) -> bool:
        """Remove a user, or all users if it is None. After the last one, run the shutdown hooks and return True.

        `end_serving()` is awaited before the hooks. They run once for each time that startup began, and have `timeout`
        seconds together.
        """
        while True:
            with self._lock:
                running = self._running_hooks
                if running is None:
                    self._users.discard(user)
                    if self._users and user is not None:
                        return False
                    self._users.clear()
                    hook_run = self._running_hooks = Future()
                    break
            await asyncio.shield(asyncio.wrap_future(running))
        try:
            await end_serving()
            if self._needs_shutdown:
                self._needs_shutdown = False
                self._started = 0
                loop = asyncio.get_running_loop()
                deadline = loop.time() + timeout
                for hook in (*self.shutdown_hooks, *self.final_hooks):
                    await self._run_hook(hook, max(MIN_HOOK_TIMEOUT, deadline - loop.time()))
        finally:
            self._end_hook_run(hook_run)
        return True

    def cancel_startup(self) -> None:
        """Cancel running startup hooks. Thread-safe."""
        starting = self._starting
        if starting is not None:
            starting.get_loop().call_soon_threadsafe(starting.cancel)

    async def _run_startup(self) -> bool:
        self._needs_shutdown = True
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
        except Exception:  # a hook may raise anything
            message = "a shutdown hook failed, or took more than the %.3g s left of Server(shutdown_timeout=...)"
            logger.exception(message, timeout)

    def _end_hook_run(self, hook_run: "HookRun", error: Exception | None = None) -> None:
        with self._lock:
            self._running_hooks = None
        hook_run.set_result(error)
