"""A child's stderr: the last of it kept for errors, all of it passed on, line by line.

It is always read, whatever becomes of it: an unread stderr pipe freezes the server once it is full (G14). It is never mixed
with the stream of frames (docs/design/connection.md, row 21). Whoever is given the lines may fail; the reading goes on.

Must never know about pipes or processes. Above: the child's transport. Below: logging.
"""

import logging
import os
from collections import deque
from collections.abc import Callable
from typing import IO, Final, TypeAlias, cast

from jackstay.errors import UsageError

# What is kept for errors (docs/design/connection.md, row 21).
KEPT_BYTES: Final = 65_536

# A longer line is passed on in pieces of this size: a log record of a megabyte helps nobody, and a line that never
# ends must not be kept for ever.
LINE_BYTES: Final = 8_192

# "log", "inherit", a path, a file open for writing, or a function that is given each line.
StderrTo: TypeAlias = "str | os.PathLike[str] | IO[str] | IO[bytes] | Callable[[str], object]"

_log = logging.getLogger("jackstay.transport")


def check_stderr(where: StderrTo) -> None:
    """Refuse what lines cannot go to.

    Raises: UsageError.
    """
    is_usable = isinstance(where, str | os.PathLike) or callable(where) or hasattr(where, "write")
    if not is_usable or where == "":
        raise UsageError(
            'stderr must be "log", "inherit", a path, a file open for writing, or a function of one line',
            path="stderr",
        )


class LastWords:
    """Takes the bytes of one child's stderr. `close()` it when there are no more."""

    __slots__ = ("_close", "_has_failed", "_is_raw", "_line", "_name", "_tail", "_tail_size", "_to")

    def __init__(self, where: StderrTo, name: str) -> None:
        """Raises: OSError, if it is a path that cannot be opened."""
        self._name = name
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._line = bytearray()  # the beginning of a line
        self._has_failed = False
        self._close: Callable[[], object] | None = None
        self._is_raw = False  # passed on as it comes, and not in lines
        self._to = self._passage(where)

    def feed(self, data: bytes) -> None:
        """Take what the child wrote."""
        self._tail.append(data)
        self._tail_size += len(data)
        while self._tail_size - len(self._tail[0]) >= KEPT_BYTES:
            self._tail_size -= len(self._tail.popleft())
        if self._is_raw:
            self._pass_on(data)
            return
        self._line += data
        if b"\n" in data or len(self._line) >= LINE_BYTES:
            *lines, self._line = self._line.split(b"\n")
            for line in lines:
                self._say(line)
            while len(self._line) >= LINE_BYTES:
                self._say(self._line[:LINE_BYTES])
                del self._line[:LINE_BYTES]

    def tail(self) -> str:
        """The last 64 KiB, as text."""
        return b"".join(self._tail)[-KEPT_BYTES:].decode("utf-8", "replace")

    def close(self) -> None:
        """Pass on a last line without its end, and close a file that was opened here."""
        if self._line:
            self._say(self._line)
            self._line = bytearray()
        if self._close is not None:
            self._close()
            self._close = None

    def _say(self, line: bytearray) -> None:
        if line.endswith(b"\r"):
            del line[-1:]
        for start in range(0, len(line) or 1, LINE_BYTES):
            self._pass_on(line[start : start + LINE_BYTES])

    def _pass_on(self, data: bytes | bytearray) -> None:
        try:
            self._to(data)
        except Exception:  # noqa: BLE001  the outermost edge of the user's code: whatever it does, the reading goes on
            if not self._has_failed:
                self._has_failed = True
                _log.exception(
                    "what takes the stderr of %s failed; it is read on, and this is said once", self._name
                )

    def _passage(self, where: StderrTo) -> Callable[[bytes | bytearray], object]:
        if where == "log":
            log = logging.getLogger(f"jackstay.server.{self._name}")
            return lambda line: log.info("%s", line.decode("utf-8", "replace"))
        if where == "inherit":  # the child has our own: nothing comes here
            return len
        if isinstance(where, str | os.PathLike):
            file = open(where, "ab", buffering=0)  # noqa: SIM115  closed by close()
            self._close = file.close
            self._is_raw = True
            return file.write
        if callable(where):
            return lambda line: where(line.decode("utf-8", "replace"))
        return self._writing(where)

    def _writing(self, file: IO[str] | IO[bytes]) -> Callable[[bytes | bytearray], object]:
        # A file of bytes gets what the child wrote, as it is; a file of text gets lines that surely are text.
        self._is_raw = not hasattr(file, "encoding")

        def write(data: bytes | bytearray) -> None:
            if self._is_raw:
                cast("IO[bytes]", file).write(data)  # text files have an encoding, and this one has not
            else:
                cast("IO[str]", file).write(data.decode("utf-8", "replace") + "\n")  # and this one has
            file.flush()

        return write
