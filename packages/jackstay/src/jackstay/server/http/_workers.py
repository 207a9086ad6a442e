"""Several processes on one port: a parent that listens and watches, and workers that accept from the same sockets.

A worker is this very program, started again: it runs to the same `run()`, finds there that it is a worker, and serves on the
sockets it was given. So whatever the program does to make its server (settings, tools, closures, a command line of its own)
is done in every worker, and nothing has to be importable or copied. What runs before `run()` runs in each.

The sockets are shared and not opened once per worker: a connection that waits while a worker ends is taken by another one,
where sockets of their own (SO_REUSEPORT) would lose it. Nothing is sticky, so any worker must be able to serve any request.

Between parent and worker is one socket. The parent sends what must not be seen on a command line or in an environment (the
secrets that seal request states); the worker says that it serves; and its end tells each that the other is gone.

Above: `_run`. Below: processes, signals, `_sockets`.
"""

import logging
import os
import selectors
import signal
import socket
import stat
import subprocess
import sys
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType
from typing import Any, Final

import msgspec

from jackstay.errors import TransportError, UsageError
from jackstay.server._run import take_signals

logger = logging.getLogger("jackstay.server.http")

# Numbers of files, and nothing secret. Taken away by the worker, so that what it starts does not think it is one.
VARIABLE: Final = "JACKSTAY_WORKER"

# A worker that served this long was sound: the next one may start at once. One that did not waits longer every time.
SOUND_SECONDS: Final = 10.0
FIRST_DELAY: Final = 0.1
MOST_DELAY: Final = 10.0

# Beyond the time that a worker gives its handlers: it has a limit of its own, which this must not cut.
KILL_MARGIN: Final = 1.0

_READY: Final = b"r"


class Charge(msgspec.Struct, frozen=True):
    """What a parent hands a worker."""

    keys: tuple[str, ...]


# --- the worker's side ------------------------------------------------------------------------------------------------


class Worker:
    """What a process has that was started by `supervise()`."""

    def __init__(self, control: socket.socket, sockets: list[socket.socket], keys: tuple[bytes, ...]) -> None:
        self.control = control
        self.sockets = sockets
        self.keys = keys

    def tell_ready(self) -> None:
        """It serves now."""
        try:
            self.control.send(_READY)
        except OSError:
            pass  # the parent is gone: its end of the socket says so

    def is_orphan(self) -> bool:
        """True when the parent has gone. Ask when `control` can be read."""
        try:
            return self.control.recv(1) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True


def adopt(environment: "Mapping[str, str] | None" = None) -> Worker | None:
    """What this process was handed, if it is a worker; None if it is not.

    Raises: TransportError, if the parent was gone before it said what to do.
    """
    said = os.environ.pop(VARIABLE, None) if environment is None else environment.get(VARIABLE)
    if said is None:
        return None
    try:
        control, *listening = (_inherited(int(number)) for number in said.split(","))
    except (ValueError, OSError):
        return None  # not meant for us: a process between the parent and here had it
    with control.makefile("rb") as lines:
        line = lines.readline()
    if not line.endswith(b"\n"):
        raise TransportError("the process that started this worker is gone", permanent=True)
    charge = msgspec.json.decode(line, type=Charge)
    control.setblocking(False)
    return Worker(control, listening, tuple(map(b64decode, charge.keys)))


def _inherited(number: int) -> socket.socket:
    if not stat.S_ISSOCK(os.fstat(number).st_mode):
        raise ValueError(f"{number} is no socket")
    os.set_inheritable(number, False)  # what a worker starts must not hold the port
    return socket.socket(fileno=number)


# --- the parent's side ------------------------------------------------------------------------------------------------


def own_command() -> list[str]:
    """The command that starts this program again.

    Raises: UsageError, where there is none: a prompt, a program read from standard input.
    """
    main = sys.modules.get("__main__")
    file = getattr(main, "__file__", None)
    is_file = isinstance(file, str) and os.path.exists(file)
    if (is_file or "-c" in sys.orig_argv) and not hasattr(sys, "ps1") and os.name == "posix":
        return [sys.executable, *sys.orig_argv[1:]]
    raise UsageError(
        "workers are started by running this program again, and it cannot be run again from a prompt, standard input"
        " or on Windows: put it in a file, or use `jackstay serve FILE --http PORT --workers N`",
        path="workers",
    )


def delays() -> Iterator[float]:
    """How long to wait before a worker that died is started again, each time that it died soon."""
    delay = FIRST_DELAY
    while True:
        yield delay
        delay = min(delay * 2, MOST_DELAY)


class Slot:
    """The place of one worker, and who is in it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.process: subprocess.Popen[bytes] | None = None
        self.control: socket.socket | None = None
        self.is_ready = False
        self.started_at = 0.0
        self.start_at = 0.0
        self.delays = delays()

    def __repr__(self) -> str:
        who = "empty" if self.process is None else f"process {self.process.pid}"
        return f"<Slot {self.number} {who}{' ready' if self.is_ready else ''}>"

    def start(self, command: Sequence[str], sockets: Sequence[socket.socket], charge: bytes) -> None:
        """Start a worker here."""
        ours, theirs = socket.socketpair()
        numbers = [theirs.fileno(), *(one.fileno() for one in sockets)]
        self.process = subprocess.Popen(  # noqa: S603  # this program itself
            command,
            stdin=subprocess.DEVNULL,
            env={**os.environ, VARIABLE: ",".join(map(str, numbers))},
            pass_fds=numbers,
            # Ctrl-C at a terminal goes to a whole group: only the parent should hear it, and tell its workers once.
            process_group=0,
        )
        theirs.close()
        try:
            ours.sendall(charge)
        except OSError:
            pass  # it is gone already, and its end of the socket says so
        self.control = ours
        self.is_ready = False
        self.started_at = time.monotonic()

    def ended(self, kill_after: float) -> int:
        """Its socket is closed, so it has ended or will now. The exit code; the place is empty."""
        assert self.process is not None
        assert self.control is not None
        self.control.close()
        try:
            code = self.process.wait(kill_after)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        self.process = self.control = None
        if time.monotonic() - self.started_at >= SOUND_SECONDS:
            self.delays = delays()
        self.start_at = time.monotonic() + next(self.delays)
        return code

    def signal(self, number: int) -> None:
        """Send it this signal."""
        if self.process is not None:
            self.process.send_signal(number)


class Supervisor:
    """Keeps so many workers running until a signal ends it; then lets them end in order."""

    def __init__(
        self,
        command: Sequence[str],
        sockets: Sequence[socket.socket],
        count: int,
        *,
        keys: tuple[bytes, ...],
        end_timeout: float,
        on_ready: Callable[[], None],
        leave: Callable[[int], Any] = os._exit,
    ) -> None:
        self._command = command
        self._sockets = sockets
        self._slots = [Slot(number) for number in range(1, count + 1)]
        self._charge = msgspec.json.encode(Charge(tuple(b64encode(key).decode() for key in keys))) + b"\n"
        self._end_timeout = end_timeout + KILL_MARGIN
        self._on_ready = on_ready
        self._leave = leave
        self._selector = selectors.DefaultSelector()
        self._code: int | None = None
        self._kill_at = float("inf")
        self._was_ready = False

    def run(self) -> int:
        """Until the end; the exit code."""
        waker, woken = socket.socketpair()
        waker.setblocking(False)
        woken.setblocking(False)
        self._selector.register(woken, selectors.EVENT_READ, None)
        handlers = take_signals(self._asked)
        before = signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
        try:
            while self._code is None or any(slot.process for slot in self._slots):
                self._start_due()
                self._wait(woken)
        finally:
            for slot in self._slots:
                slot.signal(signal.SIGKILL)  # only after an error of ours: nobody is left behind
            signal.set_wakeup_fd(before)
            for number, handler in handlers.items():
                signal.signal(number, handler)
            self._selector.close()
            waker.close()
            woken.close()
        return self._code

    def _asked(self, number: int, _: FrameType | None) -> None:
        """A signal: workers drain. A second one: everything ends at once."""
        if self._code is not None:
            for slot in self._slots:
                slot.signal(signal.SIGKILL)
            self._leave(128 + number)
            return
        self._end(130 if number == signal.SIGINT else 0)

    def _end(self, code: int) -> None:
        self._code = code
        self._kill_at = time.monotonic() + self._end_timeout
        for slot in self._slots:
            slot.signal(signal.SIGTERM)

    @property
    def _is_ending(self) -> bool:
        return self._code is not None

    def _start_due(self) -> None:
        now = time.monotonic()
        if self._is_ending:
            # What is not taken any more must be refused, and not be left to wait for who will not come. Not in the handler
            # of the signal, which may come while a worker is being started with them.
            for one in self._sockets:
                one.close()
        if now >= self._kill_at:
            self._kill_at = float("inf")
            for slot in self._slots:
                slot.signal(signal.SIGKILL)
        for slot in self._slots:
            if self._code is None and slot.process is None and now >= slot.start_at:
                slot.start(self._command, self._sockets, self._charge)
                assert slot.control is not None
                self._selector.register(slot.control, selectors.EVENT_READ, slot)
                if self._is_ending:  # the signal came meanwhile, and could not be passed on
                    slot.signal(signal.SIGTERM)

    def _wait(self, woken: socket.socket) -> None:
        times = [slot.start_at for slot in self._slots if slot.process is None and self._code is None]
        until = min([*times, self._kill_at])
        timeout = None if until == float("inf") else max(0.0, until - time.monotonic())
        for key, _ in self._selector.select(timeout):
            if key.data is None:
                woken.recv(4096)
            else:
                self._heard(key.data)

    def _heard(self, slot: Slot) -> None:
        assert slot.control is not None
        try:
            said = slot.control.recv(1)
        except ConnectionError:
            said = b""
        if said == _READY:
            slot.is_ready = True
            if not self._was_ready and all(one.is_ready for one in self._slots):
                self._was_ready = True
                self._on_ready()
            return
        self._selector.unregister(slot.control)
        was_ready = slot.is_ready
        code = slot.ended(self._end_timeout)
        if self._code is not None:
            return
        if not was_ready and not self._was_ready:
            # It never worked: the next one would not either, and has said why on standard error.
            logger.error("worker %d ended before it served, with code %d", slot.number, code)
            self._end(code if code > 0 else 1)
            return
        again = slot.start_at - time.monotonic()
        logger.warning("worker %d ended with code %d; starting another in %.1f s", slot.number, code, again)


__all__ = ["VARIABLE", "Supervisor", "Worker", "adopt", "delays", "own_command"]
