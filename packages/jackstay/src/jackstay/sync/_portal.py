"""`Portal`: the thread with the event loop that runs all blocking clients of the process.

It is a daemon thread that runs while a client is open or a call is pending; open clients are closed at interpreter
exit. Ctrl-C during a wait cancels the coroutine and waits until it has ended. What would deadlock raises StateError:
blocking calls in a handler (on the thread itself), in the child of a `fork()`, and after interpreter exit.
"""

import asyncio
import atexit
import logging
import os
import sys
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from functools import cache
from typing import Any, ParamSpec, TypeAlias, TypeVar

from jackstay.errors import ClosedError, McpError, ShutdownError, StateError

P = ParamSpec("P")
R = TypeVar("R")

# Closes a registered owner; runs on the event loop.
Close: TypeAlias = Callable[[], Coroutine[Any, Any, None]]

logger = logging.getLogger("jackstay.sync")

# How long cancelled tasks may take before the event loop ends without them; the default of `close_step`.
CANCEL_GRACE_SECONDS = 2.0


class Portal:
    """The event loop thread, which runs on demand. `portal()` returns the one of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owners: dict[object, Close] = {}  # what is open, and how to close it at interpreter exit
        self._waiting = 0  # threads inside `wait()`
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._ending = threading.Event()  # of the current thread; each thread has its own

    def __repr__(self) -> str:
        state = "idle" if self._thread is None else "running"
        return f"<Portal {state}, {len(self._owners)} open, {self._waiting} waiting>"

    # --- owners -------------------------------------------------------------------------------------------------------

    def register(self, owner: object, close: Close) -> bool:
        """Keep the thread running for this owner until `unregister()`; `close()` is called at interpreter exit.

        Returns False if the owner was already registered. Raises: StateError on the event loop thread and after a fork.
        """
        self._check()
        with self._lock:
            if owner in self._owners:
                return False
            self._start()
            self._owners[owner] = close
            return True

    def unregister(self, owner: object) -> None:
        """Remove an owner. If it was the last one, the thread ends before this returns."""
        with self._lock:
            self._owners.pop(owner, None)
            if not sys.is_finalizing():  # then no other thread runs any more
                self._end_if_idle()

    # --- running code on the event loop -------------------------------------------------------------------------------

    def wait(self, function: Callable[P, Coroutine[Any, Any, R]], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the coroutine `function(...)` on the event loop and return its result.

        Raises: its exception; StateError on the event loop thread and after a fork.
        """
        self._check()
        is_counted = False
        try:
            with self._lock:
                loop = self._start()
                self._waiting += 1
                is_counted = True
            return _run_and_wait(loop, function, *args, **kwargs)
        finally:
            if is_counted:
                with self._lock:
                    self._waiting -= 1
                    self._end_if_idle()

    def submit(self, function: Callable[P, Coroutine[Any, Any, R]], *args: P.args, **kwargs: P.kwargs) -> "Future[R]":
        """Start the coroutine `function(...)` on the event loop and return its future, which can cancel it.

        For registered owners: otherwise the thread may end first. Raises: StateError after a fork.
        """
        self._check_process()
        with self._lock:
            loop = self._start()
        return asyncio.run_coroutine_threadsafe(function(*args, **kwargs), loop)

    def run_on_loop(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the plain function `function(...)` on the event loop and return its result; allowed in handlers, too."""

        async def run() -> R:
            return function(*args, **kwargs)

        return function(*args, **kwargs) if self._is_loop_thread() else self.wait(run)

    def _is_loop_thread(self) -> bool:
        return self._thread is not None and threading.get_ident() == self._thread.ident

    def _check_process(self) -> None:
        """Raises: StateError after a fork, and in a `__del__` after interpreter exit."""
        if sys.is_finalizing():  # a new thread would never run, and the caller would wait forever
            raise StateError("closed", message="the interpreter is exiting, and all clients are closed")
        if self is not _portal:
            raise StateError(
                "forked",
                message="this client was created before fork() and belongs to the parent process; create a new one",
            )

    def _check(self) -> None:
        """Raises: StateError where waiting would deadlock."""
        self._check_process()
        if self._is_loop_thread():
            raise StateError(
                "busy",
                message="a blocking call inside a handler would deadlock, because handlers run on the event loop "
                "thread; make the call on another thread or use the async client",
            )

    # --- the thread ---------------------------------------------------------------------------------------------------

    def _start(self) -> asyncio.AbstractEventLoop:
        """Return the running event loop, and start it if necessary. The lock must be held."""
        if self._loop is None:
            _install_process_hooks()
            loop, ending = asyncio.new_event_loop(), threading.Event()
            thread = threading.Thread(target=_run, args=(loop, ending), name="jackstay-sync", daemon=True)
            thread.start()
            # Only now: a Ctrl-C before `start()` must not leave a loop here that does not run.
            self._loop, self._thread, self._ending = loop, thread, ending
        return self._loop

    def _end_if_idle(self) -> None:
        """End the thread if it is unused. The lock must be held, so that a concurrent caller starts a new thread."""
        if self._owners or self._waiting or self._loop is None or self._thread is None:
            return
        loop, thread = self._loop, self._thread
        self._ending.set()
        self._loop = self._thread = None  # before the join, which Ctrl-C may interrupt
        loop.call_soon_threadsafe(loop.stop)
        thread.join()

    def close_all(self) -> None:
        """Close all owners at interpreter exit."""
        owners = dict(self._owners)
        if not owners:
            return

        async def close() -> None:
            await asyncio.gather(*(close_owner() for close_owner in owners.values()), return_exceptions=True)

        self.wait(close)
        for owner in owners:
            self.unregister(owner)


class ClientPortal:
    """The portal as one client uses it: after the client has closed, every call raises ClosedError with `closed_by`.

    `closed_by` is checked twice: on the calling thread, so that no event loop is started for a closed client, and on
    the event loop, because another thread may have closed the client in between.
    """

    def __init__(self) -> None:
        self.portal = portal()
        self.closed_by: McpError | None = None

    def wait(self, function: Callable[P, Coroutine[Any, Any, R]], *args: P.args, **kwargs: P.kwargs) -> R:
        """As `Portal.wait()`. Raises: ClosedError after the client has closed."""

        async def if_open() -> R:
            self._check()
            return await function(*args, **kwargs)

        self._check()
        return self.portal.wait(if_open)

    def submit(self, function: Callable[[], R]) -> R:
        """As `Portal.run_on_loop()`. Raises: ClosedError after the client has closed."""

        def if_open() -> R:
            self._check()
            return function()

        self._check()
        return self.portal.run_on_loop(if_open)

    def _check(self) -> None:
        if self.closed_by is not None:
            raise ClosedError(self.closed_by)


def _run(loop: asyncio.AbstractEventLoop, ending: threading.Event) -> None:
    """The target of the thread: run the event loop until `ending` is set."""
    asyncio.set_event_loop(loop)
    try:
        while not ending.is_set():
            try:
                loop.run_forever()
            except (KeyboardInterrupt, SystemExit):
                # Raised by a handler. Only the main thread can end the program.
                logger.exception("a handler raised KeyboardInterrupt or SystemExit; the program continues")
        loop.run_until_complete(_cancel_remaining_tasks())
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def _run_and_wait(
    loop: asyncio.AbstractEventLoop, function: Callable[P, Coroutine[Any, Any, R]], *args: P.args, **kwargs: P.kwargs
) -> R:
    """Run a coroutine on the event loop of another thread and wait until it has ended, also after a cancellation."""
    ended = threading.Event()
    tasks: list[asyncio.Task[R]] = []

    def begin() -> None:
        task = loop.create_task(function(*args, **kwargs))
        tasks.append(task)
        task.add_done_callback(on_done)

    def on_done(task: asyncio.Task[R]) -> None:
        if not task.cancelled():
            task.exception()  # mark as retrieved: after Ctrl-C it is not raised
        ended.set()

    def cancel() -> None:
        if not tasks:  # interrupted before `begin` was scheduled
            ended.set()
        for task in tasks:
            task.cancel()

    try:
        # Inside `try`: the coroutine may start, and Ctrl-C arrive, before this line has returned.
        loop.call_soon_threadsafe(begin)
        ended.wait()
    except BaseException:  # Ctrl-C: cancel, and wait until the coroutine has ended or for a second Ctrl-C
        loop.call_soon_threadsafe(cancel)
        ended.wait()
        raise
    try:
        return tasks[0].result()
    except asyncio.CancelledError:
        # It is not known here what was sent.
        raise ShutdownError("the call was cancelled", sent=True) from None


async def _cancel_remaining_tasks() -> None:
    """Cancel the tasks that handlers left behind and wait for a limited time until they have ended."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        ended, unfinished = await asyncio.wait(others, timeout=CANCEL_GRACE_SECONDS)
        for task in ended:
            if not task.cancelled():
                task.exception()  # mark as retrieved: no task awaits it
        for task in unfinished:
            logger.error("a task of a handler did not end after cancellation: %r", task)
    loop = asyncio.get_running_loop()
    await loop.shutdown_asyncgens()
    try:
        await loop.shutdown_default_executor()
    except RuntimeError:
        # From Python 3.12 on this needs a new thread, which the interpreter refuses to start while it exits; it waits
        # for the executor itself.
        logger.debug("the default executor is shut down by the interpreter", exc_info=True)


# --- the portal of the process ----------------------------------------------------------------------------------------

_portal = Portal()


def portal() -> Portal:
    """Return the portal of this process."""
    return _portal


@cache
def _install_process_hooks() -> None:
    """Register the fork and exit hooks, once. Called at the first start, because imports must have no side effects."""
    os.register_at_fork(after_in_child=_reset_after_fork)
    atexit.register(lambda: _portal.close_all())


def _reset_after_fork() -> None:
    """Replace the portal in the child of a fork, where its thread does not run and its lock may be held forever."""
    global _portal  # noqa: PLW0603  # the portal is per process
    _parent_portals.append(_portal)
    _portal = Portal()


# Portals of parent processes: kept alive, because collecting an unclosed event loop emits a ResourceWarning.
_parent_portals: list[Portal] = []
