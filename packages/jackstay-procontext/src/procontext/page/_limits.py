"""Limits of the conversion of one page: elements, lines and CPU time.

The conversion runs in a thread, which cannot be interrupted. So each loop over parts of a page checks the time, and the
work between two checks is bounded by the number of elements.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

_T = TypeVar("_T")

# The largest real pages have some ten thousand elements.
MAX_ELEMENTS: Final = 200_000
# A document of ten megabytes with lines of ordinary length has about 300,000.
MAX_LINES: Final = 500_000
# A megabyte takes about half a second. This is CPU time of the thread, so that load on the machine does not count.
MAX_SECONDS: Final = 20.0

# The number of parts between two checks of the clock.
_STRIDE: Final = 32


class PageTooLargeError(Exception):
    """A page that exceeds the limits. The message is a clause without a full stop."""


class Deadline:
    """The CPU time limit of one page, from the creation of this object, in the thread that creates it."""

    def __init__(self, seconds: float = MAX_SECONDS, clock: Callable[[], float] = time.thread_time) -> None:
        self._seconds = seconds
        self._clock = clock
        self._ends = clock() + seconds
        self._count = 0

    def each(self, parts: Iterable[_T]) -> Iterator[_T]:
        """Iterate over parts within the time limit.

        Raises: PageTooLargeError.
        """
        for part in parts:
            self._count += 1
            if self._count % _STRIDE == 0:
                self.check()
            yield part

    def check(self) -> None:
        """Raise PageTooLargeError if the time limit is exceeded."""
        if self._clock() > self._ends:
            raise PageTooLargeError(f"converting the page takes longer than {self._seconds:g} seconds")


def check_lines(text: str) -> None:
    """Raise PageTooLargeError if the text has too many lines."""
    if text.count("\n") + text.count("\r") > MAX_LINES:
        raise PageTooLargeError(f"the page has more than {MAX_LINES} lines")


__all__ = ["MAX_ELEMENTS", "MAX_LINES", "MAX_SECONDS", "Deadline", "PageTooLargeError", "check_lines"]
