"""Replace the descriptors 0, 1 and 2 of this process, for tests of servers over stdio."""

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def redirected_stdio(stdin: int | None = None, stdout: int | None = None, stderr: int | None = None) -> Iterator[None]:
    """Use these descriptors as 0, 1 and 2, and restore the original ones."""
    originals = [os.dup(fd) for fd in range(3)]
    try:
        for number, fd in enumerate((stdin, stdout, stderr)):
            if fd is not None:
                os.dup2(fd, number)
        yield
    finally:
        for number, fd in enumerate(originals):
            os.dup2(fd, number)
            os.close(fd)
