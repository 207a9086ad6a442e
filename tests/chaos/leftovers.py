"""What a test may leave behind in this process: nothing. No child, no descriptor, no thread.

`nothing_left()` looks before and after. Threads that have done their work may take a moment to be gone, so they are
joined, under a guard; children and descriptors must be gone at once.
"""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

JOIN_SECONDS = 10.0


def descriptors() -> dict[int, str]:
    """The open descriptors, and what each is of."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:
            pass  # the descriptor of the listing itself
    return found


def children() -> set[int]:
    """Every child of this process, zombies included, whichever thread started it."""
    found: set[int] = set()
    for tasks in Path("/proc/self/task").iterdir():
        try:
            found.update(map(int, (tasks / "children").read_text().split()))
        except FileNotFoundError:
            pass  # a thread that has just ended
    return found


def is_running(pid: int) -> bool:
    """Whether a process exists and is more than a zombie that nobody reaps."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_until_gone(pid: int) -> None:
    """Wait for the end of a process that was killed by one that did not wait for it; fail, and end it, if it is left."""
    deadline = time.monotonic() + JOIN_SECONDS
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    if is_running(pid):
        os.kill(pid, signal.SIGKILL)
        pytest.fail(f"process {pid} is left")


@contextmanager
def nothing_left() -> Iterator[None]:
    """Fail if anything that was started inside is left at the end."""
    fds, processes, threads = descriptors(), children(), set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - threads:
        thread.join(JOIN_SECONDS)
        assert not thread.is_alive(), f"a thread is left: {thread}"
    assert children() <= processes, f"processes are left: {children() - processes}"
    left = {fd: what for fd, what in descriptors().items() if fds.get(fd) != what}
    assert left == {}, f"descriptors are left: {left}"


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    with nothing_left():
        yield
