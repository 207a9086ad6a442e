"""A line on a terminal about what a command waits for: imports, a server that starts, a call.

A thread draws it, so that it also appears while modules are imported. This module is loaded first, so it imports almost
nothing itself.
"""

import _thread
import os
import sys
import time

from jackstay._lazy import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Self, TextIO

# A terminal shows something after this time, counted from the start of the process. The limit is 0.3 seconds; the rest
# is for a busy machine.
QUIET_SECONDS = 0.2
TICK_SECONDS = 0.1
# After this time a wait also shows its hint.
HINT_SECONDS = 5.0
BAR_WIDTH = 24
MIN_BAR_COLUMNS = 60
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_ERASE = "\r\x1b[K"

# Guards everything below, and what is drawn.
_lock = _thread.RLock()
# The lines of waits that have not ended; only the last one is drawn. It is None while the user types.
_waits: "list[StatusLine | None]" = []
# When the user last saw something new; None if this process has shown nothing.
_last_output_at: float | None = None


def _note_output() -> None:
    global _last_output_at  # noqa: PLW0603  # there is one terminal
    _last_output_at = time.monotonic()


def process_age() -> float:
    """Return the seconds since the process was started. Without /proc it is the CPU time used, which is less."""
    try:
        with open("/proc/self/stat", "rb") as file:
            started = int(file.read().rpartition(b")")[2].split()[19])  # starttime in proc_pid_stat(5)
        return max(time.clock_gettime(time.CLOCK_BOOTTIME) - started / os.sysconf("SC_CLK_TCK"), time.process_time())
    except (OSError, ValueError, IndexError, AttributeError):  # AttributeError: no such clock on this system
        return time.process_time()


class output:  # noqa: N801  # used as a function
    """A context manager around a print: remove the status line; the next one is drawn after a moment."""

    def __enter__(self) -> None:
        _lock.acquire()
        erase_status()

    def __exit__(self, *ended: object) -> None:
        _note_output()
        _lock.release()


def terminal_width(stream: "TextIO") -> int:
    """Return the number of columns: the variable COLUMNS, or that of the terminal."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        return int(columns)
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def erase_status(_: object = None) -> bool:
    """Remove the status line before something else is printed; it is drawn again. True: the filter of a log handler."""
    with _lock:
        for wait in _waits:
            if wait is not None:
                wait.erase()
    return True


def erase_before_exit() -> None:
    """Remove the status line in a signal handler, which may have interrupted the code that has the lock."""
    if any(wait is not None and wait.is_shown for wait in _waits):
        try:
            os.write(2, _ERASE.encode())
        except OSError:
            pass  # the terminal is gone


class hidden_status:  # noqa: N801  # used as a function
    """A context manager: remove the status line, and show none until the end of the block. The user types there."""

    def __enter__(self) -> None:
        with _lock:
            erase_status()
            _waits.append(None)

    def __exit__(self, *ended: object) -> None:
        with _lock:
            _waits.remove(None)
            _note_output()


class StatusLine:
    """A line on standard error about what is waited for. It is updated in place on a terminal and then removed.

    Used as a context manager around the wait. On a pipe, progress is a line each, and nothing else is shown. `hint` is
    shown as well if the wait takes long.
    """

    def __init__(self, what: str = "", stream: "TextIO | None" = None, *, hint: str = "") -> None:
        self._stream = sys.stderr if stream is None else stream
        self.is_terminal = self._stream is not None and self._stream.isatty()
        self.is_shown = False
        self._text = _printable(what)
        self._hint = hint
        self._began = 0.0
        self._ticks = 0
        # Acquired while a thread draws. Released, it ends the thread.
        self._end: _thread.LockType | None = None

    def __enter__(self) -> "Self":
        with _lock:
            _waits.append(self)
        if self.is_terminal and self._text:
            self._began = time.monotonic()
            self._end = end = _thread.allocate_lock()
            end.acquire()
            _thread.start_new_thread(self._draw_until, (end,))
        return self

    def __exit__(self, *ended: object) -> None:
        self.clear()
        with _lock:
            _waits.remove(self)

    def report(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Show progress: a bar if the total is known."""
        text = f"{done:g}"
        if total:
            share = min(max(done / total, 0.0), 1.0)
            text = f"{share:4.0%} ({done:g} of {total:g})"
            if self.is_terminal and terminal_width(self._stream) >= MIN_BAR_COLUMNS:
                filled = round(share * BAR_WIDTH)
                text = f"{'█' * filled}{'░' * (BAR_WIDTH - filled)} {text}"
        lines = (message or "").strip().splitlines()
        line = f"{text} {_printable(lines[0])}".rstrip() if lines else text
        if self.is_terminal:
            with _lock:
                self._stop()
                self._show(line)
        elif self._stream is not None:
            print(line.lstrip(), file=self._stream, flush=True)

    def clear(self) -> None:
        """Remove the line before something else is printed, and show it no more."""
        with _lock:
            self._stop()
            self.erase()

    def erase(self) -> None:
        """Remove the line until the next change."""
        if self.is_shown:
            self._write(_ERASE)
            self.is_shown = False

    def _stop(self) -> None:
        if self._end is not None:
            self._end.release()
            self._end = None

    def _draw_until(self, end: "_thread.LockType") -> None:
        """Draw the line again and again, in a thread."""
        now = time.monotonic()
        quiet = process_age() if _last_output_at is None else now - _last_output_at
        delay = max(QUIET_SECONDS - quiet, 0.0)
        while not end.acquire(timeout=delay):
            with _lock:
                if self._end is not end:
                    return
                self._tick()
            delay = TICK_SECONDS

    def _tick(self) -> None:
        self._ticks += 1
        seconds = time.monotonic() - self._began
        text = f"{self._hint} ({self._text})" if self._hint and seconds >= HINT_SECONDS else self._text
        self._show(f"{_SPINNER[self._ticks % len(_SPINNER)]} {seconds:.0f} s {text}")

    def _show(self, line: str) -> None:
        if _waits and _waits[-1] is not self:
            return
        line = _fit(line, terminal_width(self._stream) - 1)
        if not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb":
            line = f"\x1b[2m{line}\x1b[0m"
        # The cursor returns to the first column: what another program prints then covers the line.
        self._write(f"{_ERASE}{line}\r")
        self.is_shown = True

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            pass  # the terminal is gone


def _printable(text: str) -> str:
    if text.isprintable():
        return text
    from jackstay.shell._screen import escape_controls  # noqa: PLC0415  # see the module docstring

    return escape_controls(text).replace("\t", " ").replace("\n", " ")


def _fit(line: str, width: int) -> str:
    """Return as much of the line as fits."""
    if len(line) * 2 <= width:
        return line
    from jackstay.shell._screen import display_width  # noqa: PLC0415  # see the module docstring

    while display_width(line) > width:
        line = line[:-1]
    return line
