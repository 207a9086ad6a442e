"""How much work one page may be: elements, lines and seconds. A small packed page can unpack to minutes of work and gigabytes.

Converting runs in a thread, which cannot be stopped from outside. So each loop over the parts of a page checks the time, and
the calls between two checks are bounded by the number of elements.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

_T = TypeVar("_T")

# The largest real pages have some ten thousand elements.
MAX_ELEMENTS: Final = 200_000
# A text of ten megabytes with lines of ordinary length has about 300,000.
MAX_LINES: Final = 500_000
# A megabyte takes about half a second. CPU time of the thread that converts: a busy machine makes no page too large.
MAX_SECONDS: Final = 20.0

# The clock is read once for so many parts.
_STRIDE: Final = 32


class PageTooLargeError(Exception):
    """A page that is more work than it may be. The text is a clause for a person, without a full stop."""


class Deadline:
    """The CPU time that one page may take, counted from here, in the thread that makes this."""

    def __init__(self, seconds: float = MAX_SECONDS, clock: Callable[[], float] = time.thread_time) -> None:
        self._seconds = seconds
        self._clock = clock
        self._ends = clock() + seconds
        self._count = 0

    def each(self, parts: Iterable[_T]) -> Iterator[_T]:
        """The parts, as long as there is time.

        Raises: PageTooLargeError.
        """
        for part in parts:
            self._count += 1
            if self._count % _STRIDE == 0:
                self.check()
            yield part

    def check(self) -> None:
        """Raises: PageTooLargeError, if the time is over."""
        if self._clock() > self._ends:
            raise PageTooLargeError(f"converting the page takes longer than {self._seconds:g} seconds")


def check_lines(text: str) -> None:
    """Raises: PageTooLargeError, for a text with too many lines."""
    if text.count("\n") + text.count("\r") > MAX_LINES:
        raise PageTooLargeError(f"the page has more than {MAX_LINES} lines")


__all__ = ["MAX_ELEMENTS", "MAX_LINES", "MAX_SECONDS", "Deadline", "PageTooLargeError", "check_lines"]
