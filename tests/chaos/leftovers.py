"""Check that a test leaves no child process, descriptor or thread behind.

Threads are joined with a timeout, because they may need a moment to end; children and descriptors must be gone at once.
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
    """Return the open descriptors and what each refers to."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:
            pass  # the descriptor of the listing itself
    return found


def children() -> set[int]:
    """Return all child processes, including zombies, of all threads."""
    found: set[int] = set()
    for tasks in Path("/proc/self/task").iterdir():
        try:
            found.update(map(int, (tasks / "children").read_text().split()))
        except FileNotFoundError:
            pass  # a thread that has just ended
    return found


def is_running(pid: int) -> bool:
    """Return whether a process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_until_gone(pid: int) -> None:
    """Wait for the end of a process that is not a child of this one. Kill it and fail if it does not end."""
    deadline = time.monotonic() + JOIN_SECONDS
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    if is_running(pid):
        os.kill(pid, signal.SIGKILL)
        pytest.fail(f"process {pid} is still running")


@contextmanager
def nothing_left() -> Iterator[None]:
    """Fail if the block leaves a thread, a child process or a descriptor behind."""
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
