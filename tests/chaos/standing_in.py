"""Other descriptors in place of 0, 1 and 2 of this very process, for tests of what a server does with them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def standing_in(
    stdin: int | None = None, stdout: int | None = None, stderr: int | None = None
) -> Iterator[None]:
    """Put these in place of 0, 1 and 2, and put back what was there."""
    kept = [os.dup(fd) for fd in range(3)]
    try:
        for place, fd in enumerate((stdin, stdout, stderr)):
            if fd is not None:
                os.dup2(fd, place)
        yield
    finally:
        for place, fd in enumerate(kept):
            os.dup2(fd, place)
            os.close(fd)
