"""A child's stderr: the last 64 KiB are kept for errors, and everything is forwarded line by line.

It is always read, because a server blocks once its stderr pipe is full. A failing destination does not stop the
reading.
"""

import logging
import os
from collections.abc import Callable
from typing import IO, Final, TypeAlias, cast

from jackstay.errors import UsageError

# How much is kept for errors.
KEPT_BYTES: Final = 65_536

# A longer line is forwarded in pieces of this size, so that a line without an end is not kept forever.
LINE_BYTES: Final = 8_192

# "log", "inherit", a path, a file open for writing, or a function that is called with each line.
StderrTo: TypeAlias = "str | os.PathLike[str] | IO[str] | IO[bytes] | Callable[[str], object]"

_log = logging.getLogger("jackstay.transport")


def check_stderr(where: StderrTo) -> None:
    """Check the argument `stderr`.

    Raises: UsageError.
    """
    is_usable = isinstance(where, str | os.PathLike) or callable(where) or hasattr(where, "write")
    if not is_usable or where == "":
        raise UsageError(
            "stderr must be 'log', 'inherit', a path, a file open for writing, or a function that accepts a str, "
            f"not {where!r}",
            path="stderr",
        )


class StderrTail:
    """Receives the bytes of one child's stderr. Call `close()` at the end."""

    def __init__(self, where: StderrTo, name: str) -> None:
        """Raises: OSError, if it is a path that cannot be opened."""
        self._name = name
        self._tail = bytearray()
        self._line = bytearray()  # the beginning of a line
        self._has_failed = False
        self._close: Callable[[], object] | None = None
        self._is_raw = False  # forwarded as received, not line by line
        self._to = self._destination(where)

    def feed(self, data: bytes) -> None:
        """Add bytes that the child wrote."""
        self._tail += data
        del self._tail[:-KEPT_BYTES]
        if self._is_raw:
            self._forward(data)
            return
        self._line += data
        *lines, self._line = self._line.split(b"\n")
        for line in lines:
            self._emit_line(line)
        while len(self._line) >= LINE_BYTES:
            self._emit_line(self._line[:LINE_BYTES])
            del self._line[:LINE_BYTES]

    def tail(self) -> str:
        """Return the last 64 KiB, decoded."""
        return self._tail.decode("utf-8", "replace")

    def close(self) -> None:
        """Forward a last line without a newline, and close a file that was opened here."""
        if self._line:
            self._emit_line(self._line)
            self._line = bytearray()
        if self._close is not None:
            self._close()
            self._close = None

    def _emit_line(self, line: bytearray) -> None:
        if line.endswith(b"\r"):
            del line[-1:]
        for start in range(0, len(line) or 1, LINE_BYTES):
            self._forward(line[start : start + LINE_BYTES])

    def _forward(self, data: bytes | bytearray) -> None:
        try:
            self._to(data)
        except Exception:  # noqa: BLE001  # user code: whatever it raises, the reading continues
            if not self._has_failed:
                self._has_failed = True
                _log.exception("the stderr destination of %s failed; further failures are not logged", self._name)

    def _destination(self, where: StderrTo) -> Callable[[bytes | bytearray], object]:
        if where == "log":
            log = logging.getLogger(f"jackstay.server.{self._name}")
            return lambda line: log.info("%s", line.decode("utf-8", "replace"))
        if where == "inherit":  # the child writes to this process's stderr: nothing is received here
            return len
        if isinstance(where, str | os.PathLike):
            file: IO[str] | IO[bytes] = open(where, "ab", buffering=0)  # noqa: SIM115  closed by close()
            self._close = file.close
        elif callable(where):
            return lambda line: where(line.decode("utf-8", "replace"))
        else:
            file = where
        # A binary file gets the bytes unchanged; a file opened in text mode gets decoded lines.
        self._is_raw = not hasattr(file, "encoding")

        def write(data: bytes | bytearray) -> None:
            if self._is_raw:
                cast("IO[bytes]", file).write(data)  # it has no encoding, so it is a binary file
            else:
                cast("IO[str]", file).write(data.decode("utf-8", "replace") + "\n")
            file.flush()

        return write
