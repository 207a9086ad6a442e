"""Run a server as a process: signal handlers, a bounded shutdown, and the exit code.

Shutdown starts with the end of input or with a signal. From then on a watchdog thread limits it to 1.5 s, whatever
hangs: a handler, a hook, a lock, the event loop or interpreter exit. Clients usually kill a server after 2 s.
"""

import _thread
import asyncio
import atexit
import gc
import logging
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeAlias

from jackstay.errors import UsageError

if TYPE_CHECKING:
    from jackstay.server._server import Server

logger = logging.getLogger("jackstay.server")

# Seconds from the start of shutdown to the exit. The documented limit is 1.5 s: handlers have 1 s of it, flushing
# 0.25 s, hooks and remaining tasks 0.05 s each. The rest is for the operating system.
END_TIMEOUT = 1.42

# Seconds for cancelled tasks and for threads of the loop's executor to end.
LEFTOVERS_TIMEOUT = 0.05

# How often the watchdog polls during shutdown.
WATCH_SECONDS = 0.02

# Seconds that startup hooks may still take after stdin was closed. `printf ... | server` closes it before the server
# has started and expects responses; but a client that crashed meanwhile must not leave a hung process behind.
STARTUP_TIMEOUT = 10.0

# The signals that drain a server. SIGPIPE is not among them: Python ignores it, and a closed pipe is reported as an
# error.
SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))

_LoopFactory: TypeAlias = "Callable[[], asyncio.AbstractEventLoop] | None"


def install_signal_handlers(handler: Callable[[int, FrameType | None], None]) -> dict[int, Any]:
    """Install `handler` for `SIGNALS`. Returns the previous handlers by signal number."""
    # Under nohup SIGHUP is ignored, and has to stay so.
    return {
        number: signal.signal(number, handler)
        for number in SIGNALS
        if number.name != "SIGHUP" or signal.getsignal(number) is not signal.SIG_IGN
    }


class Shutdown:
    """The shutdown of the process: started by EOF or a signal, limited by a watchdog, cut short by a second signal.

    The watchdog is a thread that needs neither the loop nor a lock. It runs on after `restore()` until its deadline,
    because interpreter exit may hang, too (`threading` joins the threads of every executor, then `atexit` hooks run). A
    program that goes on after `run()` is not affected.
    """

    def __init__(
        self,
        drain: Callable[[], None],
        loop: asyncio.AbstractEventLoop,
        exit_process: Callable[[int], Any] = os._exit,
        timeout: float = END_TIMEOUT,
    ) -> None:
        self.code = 0
        self._drain = drain
        self._loop = loop
        self._exit_process = exit_process
        self._timeout = timeout
        self._deadline = math.inf
        self._is_watched = threading.Lock()  # acquired when the watchdog is started, and never released
        self._is_over = False
        self._is_exiting = False
        self._is_draining = False
        self._before: dict[int, Any] = {}

    def run(self, server: "Server", serve: Coroutine[Any, Any, object]) -> int:
        """Serve on the loop and close it. Returns the exit code. If something still runs, this ends the process."""
        threads = set(threading.enumerate())
        self.install()
        try:
            self._loop.run_until_complete(serve)
            pending = self._loop.run_until_complete(cancel_remaining_tasks(self._loop))
            self._loop.close()  # releases the idle threads of its executor, and does not wait for the others
            if server._blocking_calls or pending or has_running_threads(threads):
                self.exit_now()
        except BaseException:
            self.code = 1
            raise
        finally:
            self.restore()
            self._loop.close()
        return self.code

    def install(self) -> None:
        """Install the signal handlers, if this is the main thread."""
        if threading.current_thread() is threading.main_thread():
            self._before = install_signal_handlers(self.handle_signal)

    def restore(self) -> None:
        """Undo `install()`. From now on the watchdog acts only during interpreter exit."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()
        owns_process = self._exit_process is os._exit and threading.current_thread() is threading.main_thread()
        if self._deadline < math.inf and owns_process:
            _at_exit(self._exit)
        self._is_over = True

    def handle_signal(self, number: int, _: FrameType | None) -> None:
        """Drain at the first signal, exit at the second."""
        if self._is_draining:
            self._exit_process(128 + number)
            return
        self.code = 130 if number == signal.SIGINT else 0
        self.drain()

    def drain(self) -> None:
        """Start an orderly shutdown."""
        self._is_draining = True
        self.begin()  # before the loop is involved: it may be what hangs
        # This is the loop's thread, but only `call_soon_threadsafe` wakes a loop that waits.
        self._loop.call_soon_threadsafe(self._drain)

    def begin(self, timeout: float | None = None) -> None:
        """Set the deadline and start the watchdog. A second call can only shorten the deadline. Thread-safe."""
        limit = time.monotonic() + (self._timeout if timeout is None else timeout)
        self._deadline = min(self._deadline, limit)
        if self._is_watched.acquire(blocking=False):
            # Not `threading.Thread`: a signal handler may have interrupted code that has the lock which it needs.
            _thread.start_new_thread(self._watch, ())

    def exit_now(self) -> None:
        """Flush and end the process now. If flushing hangs, the watchdog ends it."""
        self.begin()
        flush()
        self._exit_process(self.code)

    def _watch(self) -> None:
        while (left := self._deadline - time.monotonic()) > 0:
            time.sleep(min(left, WATCH_SECONDS))
        if not self._is_over:
            flush_in_time()
            self._exit_process(self.code)
            return
        # `run()` has returned in time, perhaps just now: wait a moment for interpreter exit to begin.
        late = self._deadline + LEFTOVERS_TIMEOUT
        while not self._is_exiting and time.monotonic() < late:
            time.sleep(WATCH_SECONDS)
        if self._is_exiting:
            self._exit_process(self.code)

    def _exit(self) -> None:
        """Called when interpreter exit begins. Flushes now, because the watchdog has no time for that."""
        self._is_exiting = True
        flush_streams()


def _at_exit(function: Callable[[], None]) -> None:
    """Call this when interpreter exit begins: before it joins the threads of executors, which `atexit` runs after."""
    # Private, but in every CPython since 3.9 for concurrent.futures.
    register = getattr(threading, "_register_atexit", atexit.register)
    try:
        register(function)
    except RuntimeError:
        function()  # interpreter exit has already begun


def flush() -> None:
    """Flush log handlers and the standard streams."""
    logging.shutdown()
    flush_streams()


def flush_streams() -> None:
    """Flush stdout and stderr."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            pass  # closed, or the reader is gone


def flush_in_time() -> None:
    """Flush, but give up after a moment: a lock may never be released, and a pipe may have no reader."""
    _thread.start_new_thread(flush, ())
    time.sleep(WATCH_SECONDS)


def fill_standard_descriptors() -> None:
    """Open /dev/null for each of the descriptors 0 to 2 that is closed, so that none of them becomes a socket.

    Printed text would go to that socket, and libuv aborts the process when it closes a handle with such a number.
    """
    for standard in range(3):
        try:
            os.fstat(standard)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number, which is this one


def run(server: "Server", loop_factory: _LoopFactory = None, exit_process: Callable[[int], Any] = os._exit) -> int:
    """As `Server.run(transport="stdio")`. `exit_process(code)` ends the process if something still runs."""
    if asyncio._get_running_loop() is not None:
        raise UsageError("run() cannot be called from a running event loop; use `await server.serve_stdio()`")
    fill_standard_descriptors()
    loop = (loop_factory or asyncio.new_event_loop)()
    # The limit of 1.5 s includes the default drain timeout of 1 s; another value moves the limit.
    shutdown = Shutdown(server.drain, loop, exit_process, END_TIMEOUT - 1.0 + server.options.drain_timeout)
    serving = server._serve_stdio("lines", lambda is_starting: shutdown.begin(STARTUP_TIMEOUT if is_starting else None))
    # What is imported and registered stays until the exit. The garbage collector would visit it during the start, and
    # again whenever many calls are in flight.
    gc.freeze()
    try:
        return shutdown.run(server, serving)
    finally:
        gc.unfreeze()


async def cancel_remaining_tasks(loop: asyncio.AbstractEventLoop) -> bool:
    """Cancel all other tasks of the loop and wait a moment for them. Returns True if some are still pending.

    Does not use `shutdown_default_executor()`, which in Python 3.11 waits for its threads even when it is cancelled.
    """
    tasks = asyncio.all_tasks(loop) - {asyncio.current_task(loop)}
    for task in tasks:
        task.cancel()
    pending: set[asyncio.Task[Any]] = set()
    if tasks:
        _, pending = await asyncio.wait(tasks, timeout=LEFTOVERS_TIMEOUT)
    await loop.shutdown_asyncgens()
    return bool(pending)


def has_running_threads(before: set[threading.Thread]) -> bool:
    """Return whether a new non-daemon thread still runs after a moment: it would block interpreter exit."""
    deadline = time.monotonic() + LEFTOVERS_TIMEOUT
    for thread in threading.enumerate():
        if thread not in before and not thread.daemon:
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                return True
    return False
