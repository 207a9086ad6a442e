"""Several worker processes on one port: a supervisor that binds the sockets, and workers that accept from them.

A worker runs the same program again up to `run()`, so nothing has to be importable or picklable. The workers share the
sockets: with SO_REUSEPORT, connections in the backlog of a worker would be lost when it ends. A socket pair per worker
transfers the request state secrets and the readiness; its EOF reports the end of the other process.
"""

import contextlib
import logging
import math
import os
import selectors
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any, Final, NamedTuple

import msgspec

from jackstay.errors import TransportError, UsageError
from jackstay.server._run import install_signal_handlers

logger = logging.getLogger("jackstay.server.http")

# File descriptors, and nothing secret. A worker removes the variable, so that its child processes do not act as
# workers.
VARIABLE: Final = "JACKSTAY_WORKER"

# Seconds. A worker that ran for HEALTHY_AFTER resets the restart delay; otherwise the delay doubles up to MAX_DELAY.
HEALTHY_AFTER: Final = 10.0
FIRST_DELAY: Final = 0.1
MAX_DELAY: Final = 10.0

# Seconds beyond the shutdown limit of a worker, before it is killed.
KILL_MARGIN: Final = 1.0

_READY: Final = b"r"


# --- in the worker ----------------------------------------------------------------------------------------------------


class Worker(NamedTuple):
    """What a worker got from its supervisor: the control socket, the listening sockets and the secrets."""

    control: socket.socket
    sockets: list[socket.socket]
    request_state_secrets: tuple[bytes, ...]

    @classmethod
    def from_env(cls) -> "Worker | None":
        """Return the worker that this process is, or None if it was not started by a supervisor.

        Raises: TransportError if the supervisor exited before it sent the configuration.
        """
        value = os.environ.pop(VARIABLE, None)
        if value is None:
            return None
        try:
            control, *listening = (_inherited(int(number)) for number in value.split(","))
        except (ValueError, OSError):
            return None  # inherited through another process, which did not pass the descriptors on
        with control.makefile("rb") as lines:
            line = lines.readline()
        if not line.endswith(b"\n"):
            raise TransportError("the supervisor process has exited", permanent=True)
        control.setblocking(False)
        return cls(control, listening, msgspec.json.decode(line, type=tuple[bytes, ...]))

    def notify_ready(self) -> None:
        """Notify the supervisor that this worker serves."""
        with contextlib.suppress(OSError):  # the supervisor has exited, which `parent_is_gone()` detects
            self.control.send(_READY)

    def parent_is_gone(self) -> bool:
        """Return whether the supervisor has exited. Call it when `control` is readable."""
        try:
            return self.control.recv(1) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True


def _inherited(number: int) -> socket.socket:
    if not stat.S_ISSOCK(os.fstat(number).st_mode):
        raise ValueError(f"not a socket: file descriptor {number}")
    os.set_inheritable(number, False)  # child processes of a worker must not keep the port open
    return socket.socket(fileno=number)


# --- in the supervisor ------------------------------------------------------------------------------------------------


def own_command() -> list[str]:
    """Return the command that started this program.

    Raises: UsageError if it cannot be started again: at a prompt, from standard input, or on Windows.
    """
    main = sys.modules.get("__main__")
    file = getattr(main, "__file__", None)
    is_file = isinstance(file, str) and os.path.exists(file)
    if (is_file or "-c" in sys.orig_argv) and not hasattr(sys, "ps1") and os.name == "posix":
        return [sys.executable, *sys.orig_argv[1:]]
    raise UsageError(
        "workers run this program again, which is not possible from a prompt, from standard input or on Windows: put it"
        " in a file, or use `jackstay serve FILE --http PORT --workers N`",
        path="workers",
    )


def delays() -> Iterator[float]:
    """Yield the delays before the restarts of a worker that keeps crashing."""
    delay = FIRST_DELAY
    while True:
        yield delay
        delay = min(delay * 2, MAX_DELAY)


class WorkerSlot(msgspec.Struct, eq=False):
    """One of the workers of a supervisor, and the process that currently runs it."""

    number: int
    process: subprocess.Popen[bytes] | None = None
    control: socket.socket | None = None
    is_ready: bool = False
    started_at: float = 0.0
    start_at: float = 0.0
    delays: Iterator[float] = msgspec.field(default_factory=delays)

    def __repr__(self) -> str:
        process = "empty" if self.process is None else f"process {self.process.pid}"
        return f"<WorkerSlot {self.number} {process}{' ready' if self.is_ready else ''}>"

    def start(self, command: Sequence[str], sockets: Sequence[socket.socket], config: bytes) -> None:
        """Start a worker process."""
        control, worker_control = socket.socketpair()
        numbers = [worker_control.fileno(), *(sock.fileno() for sock in sockets)]
        self.process = subprocess.Popen(  # noqa: S603  # this program itself
            command,
            stdin=subprocess.DEVNULL,
            env={**os.environ, VARIABLE: ",".join(map(str, numbers))},
            pass_fds=numbers,
            # Ctrl-C at a terminal signals a whole process group. The supervisor alone must get it, and signals its
            # workers.
            process_group=0,
        )
        worker_control.close()
        with contextlib.suppress(OSError):  # the worker has exited already, which the control socket reports
            control.sendall(config)
        self.control = control
        self.is_ready = False
        self.started_at = time.monotonic()

    def ended(self, kill_after: float) -> int:
        """Wait for a process that closed its control socket, and kill it after a timeout. Returns the exit code."""
        assert self.process is not None
        assert self.control is not None
        self.control.close()
        try:
            code = self.process.wait(kill_after)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        self.process = self.control = None
        if time.monotonic() - self.started_at >= HEALTHY_AFTER:
            self.delays = delays()
        self.start_at = time.monotonic() + next(self.delays)
        return code

    def signal(self, number: int) -> None:
        """Send a signal to the process."""
        if self.process is not None:
            self.process.send_signal(number)


class Supervisor(msgspec.Struct, eq=False):
    """Keeps `count` workers running until a signal arrives; then lets them drain."""

    command: Sequence[str]
    sockets: Sequence[socket.socket]
    count: int
    request_state_secrets: tuple[bytes, ...]
    # The limit of the shutdown of a worker.
    end_timeout: float
    on_ready: Callable[[], None]
    exit_process: Callable[[int], Any] = os._exit
    _slots: list[WorkerSlot] = []
    _selector: selectors.BaseSelector = msgspec.field(default_factory=selectors.DefaultSelector)
    _is_ending: bool = False
    _code: int = 0
    _kill_at: float = math.inf
    _was_ready: bool = False

    def __repr__(self) -> str:
        return f"<Supervisor of {self.count} workers>"

    def run(self) -> int:
        """Supervise until all workers have ended after a signal. Returns the exit code."""
        self._slots += map(WorkerSlot, range(1, self.count + 1))
        waker, woken = socket.socketpair()
        waker.setblocking(False)
        woken.setblocking(False)
        self._selector.register(woken, selectors.EVENT_READ, None)
        handlers = install_signal_handlers(self._on_signal)
        before = signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
        with waker, woken, self._selector:
            try:
                while not self._is_ending or any(slot.process for slot in self._slots):
                    self._start_due()
                    self._wait(woken)
            finally:
                self._signal(signal.SIGKILL)  # only after an exception here: leave no process behind
                signal.set_wakeup_fd(before)
                for number, handler in handlers.items():
                    signal.signal(number, handler)
        return self._code

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        """Drain the workers on the first signal, and kill them on the second."""
        if self._is_ending:
            self._signal(signal.SIGKILL)
            self.exit_process(128 + number)
            return
        self._end(130 if number == signal.SIGINT else 0)

    def _signal(self, number: int) -> None:
        for slot in self._slots:
            slot.signal(number)

    def _end(self, code: int) -> None:
        self._is_ending, self._code = True, code
        self._kill_at = time.monotonic() + self.end_timeout + KILL_MARGIN
        self._signal(signal.SIGTERM)

    def _start_due(self) -> None:
        now = time.monotonic()
        if self._is_ending:
            # Close the listening sockets, so that new connections are refused instead of waiting in the backlog. Not in
            # the signal handler: it may run while a worker is being started with these sockets.
            for sock in self.sockets:
                sock.close()
        if now >= self._kill_at:
            self._kill_at = math.inf
            self._signal(signal.SIGKILL)
        for slot in self._slots:
            if not self._is_ending and slot.process is None and now >= slot.start_at:
                self._start(slot)

    def _start(self, slot: WorkerSlot) -> None:
        slot.start(self.command, self.sockets, msgspec.json.encode(self.request_state_secrets) + b"\n")
        assert slot.control is not None
        self._selector.register(slot.control, selectors.EVENT_READ, slot)
        if self._is_ending:  # the signal arrived while the worker was being started
            slot.signal(signal.SIGTERM)

    def _wait(self, woken: socket.socket) -> None:
        times = [slot.start_at for slot in self._slots if slot.process is None and not self._is_ending]
        until = min([*times, self._kill_at])
        timeout = None if until == math.inf else max(0.0, until - time.monotonic())
        for key, _ in self._selector.select(timeout):
            if key.data is None:
                woken.recv(4096)
            else:
                self._on_readable(key.data)

    def _on_readable(self, slot: WorkerSlot) -> None:
        assert slot.control is not None
        try:
            message = slot.control.recv(1)
        except ConnectionError:
            message = b""
        if message == _READY:
            slot.is_ready = True
            if not self._was_ready and all(other.is_ready for other in self._slots):
                self._was_ready = True
                self.on_ready()
            return
        self._selector.unregister(slot.control)
        code = slot.ended(self.end_timeout + KILL_MARGIN)
        if self._is_ending:
            return
        if not slot.is_ready and not self._was_ready:
            # No worker has ever served, so a restart would not help. The worker printed the reason to standard error.
            logger.error("worker %d exited with code %d before it served", slot.number, code)
            self._end(code if code > 0 else 1)
            return
        delay = slot.start_at - time.monotonic()
        logger.warning("worker %d exited with code %d; restarting it in %.1f s", slot.number, code, delay)
