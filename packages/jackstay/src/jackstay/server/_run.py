"""A process that is a server: signals, the end within a second and a half, and what is left when a thread hangs.

Only here are signal handlers installed, and only here may the process be ended (connection.md, section 8). The end begins
with EOF or a signal. From that moment a watchdog counts: whatever hangs, in a handler, a hook, a log handler's lock, the
loop itself or the interpreter's own end, the process is gone before the client loses patience (its first step is two
seconds).

Above: `Server.run`, the commands. Below: the loop, signals, `_server`.
"""

import _thread
import asyncio
import logging
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeAlias

from jackstay.errors import UsageError

if TYPE_CHECKING:
    from jackstay.server._server import Server

logger = logging.getLogger("jackstay.server")
_OURS = logging.getLogger("jackstay")

# From the beginning of the end to the end. The promise is 1.5 s: handlers get 1 s of it, flushing 0.25 s, hooks and what
# is left 0.05 s each; the rest is the operating system's, which has to notice that there was an end and to clear away.
END_TIMEOUT = 1.42

# For what is left on the loop: tasks that were cancelled, threads of the loop's own executor.
LEFTOVERS_TIMEOUT = 0.05

# How often the watchdog looks while the process ends.
WATCH_SECONDS = 0.02

# How long startup hooks may still take after the client has closed our stdin. `printf ... | server` has done that before
# the server has begun, and wants its answers; a client that died meanwhile must not leave a hung process behind.
STARTUP_TIMEOUT = 10.0

# What ends a server in order. SIGHUP is the terminal's end; SIGPIPE is ignored by Python, and a closed pipe is told.
SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))

_LoopFactory: TypeAlias = "Callable[[], asyncio.AbstractEventLoop] | None"


def take_signals(handler: Callable[[int, FrameType | None], None]) -> dict[int, Any]:
    """Have `handler` called for what ends a server in order; what was there before, by signal."""
    hangup = getattr(signal, "SIGHUP", None)
    # nohup: whoever started it says that the terminal's end is not its end.
    is_kept = hangup is not None and signal.getsignal(hangup) is signal.SIG_IGN
    return {
        number: signal.signal(number, handler) for number in SIGNALS if not (is_kept and number == hangup)
    }


class Ending:
    """How the process ends: begun by EOF or a signal, bounded by a watchdog, at once by a second signal.

    The watchdog is a thread that needs neither the loop nor a lock. It outlives `restore()` until its time is over: a
    process that goes straight from there to its end may hang on its way (`threading` joins the workers of every executor,
    and then `atexit` hooks run). A program that does something else after `run()` is not the watchdog's business.
    """

    def __init__(
        self,
        drain: Callable[[], None],
        loop: asyncio.AbstractEventLoop,
        leave: Callable[[int], Any] = os._exit,
        timeout: float = END_TIMEOUT,
    ) -> None:
        self.code = 0
        self._drain = drain
        self._loop = loop
        self._leave = leave
        self._timeout = timeout
        self._deadline = math.inf
        self._is_watched = threading.Lock()  # taken by whoever starts the watchdog, and never released
        self._is_over = False
        self._is_exiting = False
        self._was_asked = False
        self._before: dict[int, Any] = {}
        self._unhear: Callable[[], None] | None = None

    def install(self) -> None:
        """Take the signals over, where that can be done: on the main thread. Let warnings be heard."""
        self._unhear = hear_warnings()
        if threading.current_thread() is threading.main_thread():
            self._before = take_signals(self.ask)

    def restore(self) -> None:
        """Give the signals back, and listen no longer. From now on the watchdog only ends an interpreter that exits."""
        if self._unhear is not None:
            self._unhear()
            self._unhear = None
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()
        is_process_ours = self._leave is os._exit and threading.current_thread() is threading.main_thread()
        if self._deadline < math.inf and is_process_ours:
            _at_exit(self._exit)
        self._is_over = True

    def ask(self, number: int, _: FrameType | None) -> None:
        """A signal came: drain; a second one: leave at once."""
        if self._was_asked:
            self._leave(128 + number)
            return
        self.code = 130 if number == signal.SIGINT else 0
        self.drain()

    def drain(self) -> None:
        """End in order: the first signal came, or there is no more reason to serve."""
        self._was_asked = True
        self.begin()  # before the loop hears of it: it may be what hangs
        # On this very thread, but the loop may be asleep, and only this wakes it.
        self._loop.call_soon_threadsafe(self._drain)

    def begin(self, timeout: float | None = None) -> None:
        """The end has begun: from now on there is a limit. A second call can only shorten it. From any thread."""
        limit = time.monotonic() + (self._timeout if timeout is None else timeout)
        self._deadline = min(self._deadline, limit)
        if self._is_watched.acquire(blocking=False):
            # Not `threading.Thread`: a signal handler may have interrupted code that has the lock which that needs.
            _thread.start_new_thread(self._watch, ())

    def leave(self) -> None:
        """End the process now, after what is buffered was written; the watchdog is still there if that hangs."""
        self.begin()
        flush()
        self._leave(self.code)

    def _watch(self) -> None:
        while (left := self._deadline - time.monotonic()) > 0:
            time.sleep(min(left, WATCH_SECONDS))
        if not self._is_over:
            flush_in_time()
            self._leave(self.code)
            return
        # `run()` has returned in time, perhaps just now: what follows has a moment to begin.
        late = self._deadline + LEFTOVERS_TIMEOUT
        while not self._is_exiting and time.monotonic() < late:
            time.sleep(WATCH_SECONDS)
        if self._is_exiting:
            self._leave(self.code)

    def _exit(self) -> None:
        """The interpreter has begun to exit. Flushed now: once the watchdog acts, there is no time for that."""
        self._is_exiting = True
        flush_streams()


def _at_exit(function: Callable[[], None]) -> None:
    """Call this as soon as the interpreter exits: before it joins the threads of executors, not after, as `atexit` does."""
    register = getattr(threading, "_register_atexit", None)
    if register is None:  # pragma: no cover  # every CPython from 3.9 on has it: concurrent.futures needs it
        import atexit  # noqa: PLC0415

        register = atexit.register
    try:
        register(function)
    except RuntimeError:
        function()  # it does already


def hear_warnings() -> Callable[[], None]:
    """Where nobody has set logging up, warnings of ours go to stderr, as those of any program without it do.

    A library is silent unless somebody listens; but who runs a server must see why a tool failed. Call what is returned
    to listen no longer.
    """
    handler = logging.lastResort
    is_heard = logging.getLogger().handlers or any(
        type(one) is not logging.NullHandler for one in _OURS.handlers
    )
    if is_heard or handler is None:
        return lambda: None
    _OURS.addHandler(handler)
    return lambda: _OURS.removeHandler(handler)


def flush() -> None:
    """Write what is buffered: log handlers and the standard streams."""
    logging.shutdown()
    flush_streams()


def flush_streams() -> None:
    """Write what the standard streams have buffered."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            pass  # closed, or nobody reads it


def flush_in_time() -> None:
    """Write what is buffered, unless that hangs: on a lock that is never released, or because nobody reads."""
    is_done = threading.Lock()
    is_done.acquire()

    def work() -> None:
        try:
            flush()
        finally:
            is_done.release()

    _thread.start_new_thread(work, ())
    is_done.acquire(timeout=WATCH_SECONDS)


def fill_standard_descriptors() -> None:
    """Open /dev/null for each of the descriptors 0 to 2 that is closed, so that none of them becomes a socket.

    What is printed would go to that socket; and libuv aborts the process when it closes one of its own with such a number.
    """
    for standard in range(3):
        try:
            os.fstat(standard)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free: this one


def run(server: "Server", loop_factory: _LoopFactory = None, leave: Callable[[int], Any] = os._exit) -> int:
    """As `Server.run`; `leave` ends the process."""
    if asyncio._get_running_loop() is not None:
        raise UsageError("run() makes its own loop; inside one use `await server.serve_stdio()`")
    fill_standard_descriptors()
    threads = set(threading.enumerate())
    loop = (loop_factory or asyncio.new_event_loop)()
    # More time for handlers is more time for all of it: the promise of 1.5 s is made with the second they get by default.
    ending = Ending(server.drain, loop, leave, END_TIMEOUT - 1.0 + server.options.drain_timeout)
    server.on_stdio_ending = lambda is_starting: ending.begin(STARTUP_TIMEOUT if is_starting else None)
    ending.install()
    try:
        left = loop.run_until_complete(server.serve_stdio())
        pending = loop.run_until_complete(settle(loop))
        loop.close()  # lets the idle threads of its executor go, and does not wait for others
        if left or pending or still_running(threads):
            ending.leave()
    except BaseException:
        ending.code = 1
        raise
    finally:
        server.on_stdio_ending = None
        ending.restore()
        loop.close()
    return ending.code


async def settle(loop: asyncio.AbstractEventLoop) -> bool:
    """Cancel what is left on the loop and wait a moment for it. True: something still is.

    Not `shutdown_default_executor()`, which in Python 3.11 waits for its threads even when it is cancelled.
    """
    tasks = asyncio.all_tasks(loop) - {asyncio.current_task(loop)}
    for task in tasks:
        task.cancel()
    pending: set[asyncio.Task[Any]] = set()
    if tasks:
        _, pending = await asyncio.wait(tasks, timeout=LEFTOVERS_TIMEOUT)
    await loop.shutdown_asyncgens()
    return bool(pending)


def still_running(before: set[threading.Thread]) -> bool:
    """Whether a thread that was started meanwhile would keep the interpreter from ending, after a moment's patience."""
    patience = time.monotonic() + LEFTOVERS_TIMEOUT
    for thread in threading.enumerate():
        if thread not in before and not thread.daemon:
            thread.join(max(0.0, patience - time.monotonic()))
            if thread.is_alive():
                return True
    return False
