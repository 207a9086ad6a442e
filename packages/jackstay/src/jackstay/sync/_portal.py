"""The one thread with the one event loop on which everything blocking of this process happens.

It is started by the first who needs it and ends with the last: while a client is open, or a call is under way, it runs;
otherwise it does not exist. It is a daemon, and what is still open when the interpreter exits is stopped then. Work is
brought to it and waited for; a wait that is interrupted (Ctrl-C) cancels the work, and returns when that has ended, so that
the server was told. Two mistakes that would wait for ever are refused instead: waiting on the thread itself (from a
handler), and using after `fork()` what was made before, whose thread stayed in the parent.

What it must never know: what the work is. Above: `_client`, `_fleet`. Below: asyncio.
"""

import asyncio
import atexit
import logging
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from typing import Any, ParamSpec, TypeAlias, TypeVar

from jackstay.errors import ClosedError, McpError, ShutdownError, StateError

P = ParamSpec("P")
R = TypeVar("R")

# How something open is stopped, on the loop.
End: TypeAlias = Callable[[], Coroutine[Any, Any, None]]

logger = logging.getLogger("jackstay.sync")

# How long what was cancelled may take to end before the loop ends without it: as long as a step of closing a server.
STUBBORN_SECONDS = 2.0


class Portal:
    """The thread, whether it runs at the moment or not. Get the process's own with `portal()`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders: dict[
            object, End
        ] = {}  # what is open, and how it is stopped when the interpreter exits
        self._waiting = 0  # threads that have brought work and wait for it
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._ending = threading.Event()  # of the thread that runs now: each has its own

    def __repr__(self) -> str:
        state = "idle" if self._thread is None else "running"
        return f"<Portal {state}, {len(self._holders)} open, {self._waiting} waiting>"

    # --- who keeps it -------------------------------------------------------------------------------------------------

    def hold(self, holder: object, end: End) -> bool:
        """Keep the thread for this one, until `drop()`; `end()` stops it if that never comes. False: it was held before.

        Raises: StateError on the loop's own thread and after a fork.
        """
        self._check()
        with self._lock:
            if holder in self._holders:
                return False
            self._start()
            self._holders[holder] = end
            return True

    def drop(self, holder: object) -> None:
        """This one needs it no longer. The thread of the last ends before this returns."""
        with self._lock:
            self._holders.pop(holder, None)
            self._end_if_idle()

    # --- work ---------------------------------------------------------------------------------------------------------

    def wait(self, function: Callable[P, Coroutine[Any, Any, R]], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run `function(...)` on the loop and return what it returns.

        Raises: what it raises; StateError on the loop's own thread and after a fork.
        """
        self._check()
        is_counted = False
        try:
            with self._lock:
                loop = self._start()
                self._waiting += 1
                is_counted = True
            return _waited(loop, function, *args, **kwargs)
        finally:
            if is_counted:
                with self._lock:
                    self._waiting -= 1
                    self._end_if_idle()

    def ask(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """As `wait()`, for what does not wait itself: it runs between two turns of the loop. Handlers may ask, too."""

        async def asked() -> R:
            return function(*args, **kwargs)

        return function(*args, **kwargs) if self._is_here() else self.wait(asked)

    def _is_here(self) -> bool:
        return self._thread is not None and threading.get_ident() == self._thread.ident

    def _check(self) -> None:
        """Refuse what would wait for ever."""
        if self is not _portal:
            raise StateError(
                "forked",
                message="this was made before fork(), and its connections stayed in the parent: make a new one",
            )
        if self._is_here():
            raise StateError(
                "busy",
                message="a blocking call inside a handler would wait for itself, because handlers run on the loop's "
                "thread: make it on another thread, or use the async client",
            )

    # --- the thread ---------------------------------------------------------------------------------------------------

    def _start(self) -> asyncio.AbstractEventLoop:
        """The loop, running. With the lock held."""
        if self._loop is None:
            _watch_process()
            loop, ending = asyncio.new_event_loop(), threading.Event()
            thread = threading.Thread(target=_run, args=(loop, ending), name="jackstay-sync", daemon=True)
            thread.start()
            # Only now: a Ctrl-C before must not leave a loop here that nobody runs.
            self._loop, self._thread, self._ending = loop, thread, ending
        return self._loop

    def _end_if_idle(self) -> None:
        """End the thread if nobody needs it. With the lock held: whoever comes now waits, and starts a new one."""
        if self._holders or self._waiting or self._loop is None or self._thread is None:
            return
        loop, thread = self._loop, self._thread
        self._ending.set()
        self._loop = self._thread = None  # before the wait, which a Ctrl-C may cut short
        loop.call_soon_threadsafe(loop.stop)
        thread.join()

    def end_all(self) -> None:
        """Stop everything that is open: the interpreter exits."""
        holders = dict(self._holders)
        if not holders:
            return

        async def stop() -> None:
            await asyncio.gather(*(end() for end in holders.values()), return_exceptions=True)

        self.wait(stop)
        for holder in holders:
            self.drop(holder)


class Passage:
    """The way of one client to the portal. After the end it is shut: the loop that knew the client may be gone.

    `end` is then why, and every wait fails as a call of an async client that has ended does. It is looked at twice: here, so
    that nothing is started for what has ended, and on the loop, because another thread may end it in between.
    """

    def __init__(self) -> None:
        self.portal = portal()
        self.end: McpError | None = None

    def wait(self, function: Callable[P, Coroutine[Any, Any, R]], *args: P.args, **kwargs: P.kwargs) -> R:
        """As the portal's. Raises: ClosedError after the end."""

        async def if_open() -> R:
            self._check()
            return await function(*args, **kwargs)

        self._check()
        return self.portal.wait(if_open)

    def submit(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """As the portal's `ask()`, for what begins a call. Raises: ClosedError after the end."""

        def if_open() -> R:
            self._check()
            return function(*args, **kwargs)

        self._check()
        return self.portal.ask(if_open)

    def _check(self) -> None:
        if self.end is not None:
            raise ClosedError(self.end)


def _run(loop: asyncio.AbstractEventLoop, ending: threading.Event) -> None:
    """The thread's whole life."""
    asyncio.set_event_loop(loop)
    try:
        while not ending.is_set():
            try:
                loop.run_forever()
            except (KeyboardInterrupt, SystemExit):
                # A handler asked the whole program to end; this is not the thread that can do that.
                logger.exception("a handler tried to end the program; it ended only itself")
        loop.run_until_complete(_leave_nothing())
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def _waited(
    loop: asyncio.AbstractEventLoop,
    function: Callable[P, Coroutine[Any, Any, R]],
    *args: P.args,
    **kwargs: P.kwargs,
) -> R:
    """Run it on the loop of another thread. Not `run_coroutine_threadsafe`: its future, once cancelled, cannot say when
    the work has ended."""
    outcome: Future[R] = Future()
    tasks: list[asyncio.Task[R]] = []

    def begin() -> None:
        task = loop.create_task(function(*args, **kwargs))
        tasks.append(task)
        task.add_done_callback(settle)

    def settle(task: asyncio.Task[R]) -> None:
        if task.cancelled():
            outcome.cancel()
        elif (error := task.exception()) is not None:
            outcome.set_exception(error)
        else:
            outcome.set_result(task.result())

    def give_up() -> None:
        if not tasks:  # interrupted before it was brought here: `begin` would have come first
            outcome.cancel()
        for task in tasks:
            task.cancel()

    try:
        # From here on: the work may begin, and a Ctrl-C arrive, before this line has ended.
        loop.call_soon_threadsafe(begin)
        return outcome.result()
    except CancelledError:
        # What it had sent by then is not known here.
        raise ShutdownError("the work was cancelled while it was waited for", sent=True) from None
    except BaseException:
        if (
            not outcome.done()
        ):  # interrupted, not failed: end the work, and see it ended; a second Ctrl-C gives that up
            loop.call_soon_threadsafe(give_up)
            try:
                outcome.exception()
            except CancelledError:
                pass
        raise


async def _leave_nothing() -> None:
    """Cancel what handlers began and nobody awaited, and let it end: but not for ever, because somebody waits for this."""
    mine = asyncio.current_task()
    others = [task for task in asyncio.all_tasks() if task is not mine]
    for task in others:
        task.cancel()
    if others:
        ended, stubborn = await asyncio.wait(others, timeout=STUBBORN_SECONDS)
        for task in ended:
            if not task.cancelled():
                task.exception()  # seen: nobody is left who would ask
        for task in stubborn:
            logger.error("a handler does not end, and is left: %r", task)
    loop = asyncio.get_running_loop()
    await loop.shutdown_asyncgens()
    try:
        await loop.shutdown_default_executor()
    except RuntimeError:
        # While the interpreter exits it starts no thread, which this needs from 3.12 on. Its own exit waits for the pool.
        logger.debug("the pool of the loop is left to the interpreter", exc_info=True)


# --- one for the process ----------------------------------------------------------------------------------------------

_portal = Portal()
_is_watched = False


def portal() -> Portal:
    """The portal of this process."""
    return _portal


def _watch_process() -> None:
    """Hear of a fork and of the interpreter's exit. At the first start and not on import, which registers nothing."""
    global _is_watched  # noqa: PLW0603  # hooks of the process are of the process
    if not _is_watched:
        _is_watched = True
        os.register_at_fork(after_in_child=_forget)
        atexit.register(lambda: _portal.end_all())


def _forget() -> None:
    """In the child of a fork: the thread is not here, and the lock may be held by one that is not here either."""
    global _portal  # noqa: PLW0603  # as above
    _abandoned.append(_portal)
    _portal = Portal()


# Loops of parents: kept, because to collect them would be to close them, and say so.
_abandoned: list[Portal] = []
