"""Detection of a child's exit by the event loop or by a thread, and cleanup."""

import asyncio
import logging
import os
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable

import pytest

from jackstay.transport import _process, kill_children
from jackstay.transport._process import Child, Process, close_pipes, exit_code_of


def child(code: str) -> Child:
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        process_group=0,
        bufsize=0,
    )


def with_pidfd(monkeypatch: pytest.MonkeyPatch) -> None:
    if not hasattr(os, "pidfd_open"):
        pytest.skip("no pidfd on this system")


def without_pidfd(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(pid: int) -> int:
        raise PermissionError("a sandbox")

    monkeypatch.setattr(os, "pidfd_open", refuse, raising=False)


def without_pidfd_and_waitid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    monkeypatch.delattr(os, "waitid", raising=False)


DETECTIONS = [with_pidfd, without_pidfd, without_pidfd_and_waitid]


@pytest.mark.parametrize("detection", DETECTIONS)
@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("raise SystemExit(3)", 3),
        ("pass", 0),
        ("import os; os.kill(os.getpid(), 9)", -9),
        ("import os; os.abort()", -6),
    ],
)
async def test_an_exit_is_reported_once_with_its_code(
    monkeypatch: pytest.MonkeyPatch, detection: Callable[[pytest.MonkeyPatch], None], code: str, expected: int
) -> None:
    detection(monkeypatch)
    ends: list[int] = []
    running = child(code)
    process = Process(asyncio.get_running_loop(), running, lambda: ends.append(1))
    assert await process.exits_within(20)
    assert process.has_exited
    assert (process.exit_code, ends) == (expected, [1])
    assert f"exited {expected}" in repr(process)
    process.clear()
    process.clear()
    process.discard()
    assert "cleared" in repr(process)
    assert running.returncode == expected
    close_pipes(running)


@pytest.mark.parametrize("detection", DETECTIONS)
async def test_a_signal_reaches_the_group_and_a_wait_has_a_limit(
    monkeypatch: pytest.MonkeyPatch, detection: Callable[[pytest.MonkeyPatch], None]
) -> None:
    detection(monkeypatch)
    running = child("import signal; print(flush=True); signal.pause()")
    process = Process(asyncio.get_running_loop(), running, lambda: None)
    assert not await process.exits_within(0.0)
    assert "running" in repr(process)
    process.signal(signal.SIGTERM)
    assert await process.exits_within(20)
    assert process.exit_code == -signal.SIGTERM
    process.clear()
    process.signal(signal.SIGTERM)  # reaped: nothing is sent
    close_pipes(running)


async def test_an_exited_child_is_not_reaped_until_it_is_cleared() -> None:
    running = child("pass")
    process = Process(asyncio.get_running_loop(), running, lambda: None)
    assert await process.exits_within(20)
    os.killpg(running.pid, 0)
    process.clear()
    with pytest.raises(ProcessLookupError):
        os.killpg(running.pid, 0)
    close_pipes(running)


async def test_kill_children_kills_every_child_that_is_not_reaped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """docs/guarantees.md G13. The process id of a reaped child may be reused."""
    monkeypatch.setattr(_process, "_children", weakref.WeakSet())  # without children of other tests
    signalled: list[int] = []
    kill = _process.kill_group

    def record_and_kill(group: int, number: signal.Signals) -> None:
        signalled.append(group)
        kill(group, number)

    stubborn = child("import signal; signal.signal(15, signal.SIG_IGN); print(1, flush=True); signal.pause()")
    gone = child("pass")
    processes = [Process(asyncio.get_running_loop(), process, lambda: None) for process in (stubborn, gone)]
    assert stubborn.stdout is not None
    assert await asyncio.to_thread(stubborn.stdout.readline) == b"1\n"
    assert await processes[1].exits_within(30)
    processes[1].clear()
    monkeypatch.setattr(_process, "kill_group", record_and_kill)
    kill_children()
    assert signalled == [stubborn.pid]
    assert await processes[0].exits_within(30)
    assert processes[0].exit_code == -signal.SIGKILL
    processes[0].clear()
    signalled.clear()
    kill_children()
    assert signalled == []
    for process in (stubborn, gone):
        close_pipes(process)


@pytest.mark.parametrize("detection", DETECTIONS)
async def test_a_discarded_child_is_reaped_without_a_callback(
    monkeypatch: pytest.MonkeyPatch, detection: Callable[[pytest.MonkeyPatch], None]
) -> None:
    detection(monkeypatch)
    ends: list[int] = []
    running = child("import signal; signal.pause()")
    process = Process(asyncio.get_running_loop(), running, lambda: ends.append(1))
    process.discard()
    assert running.returncode == -9
    for thread in threading.enumerate():
        if thread.name.startswith("jackstay-wait"):
            await asyncio.to_thread(thread.join, 20)
    await asyncio.sleep(0)
    assert ends == []


def test_a_waiting_thread_outlives_its_loop_and_ends_with_the_child(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    without_pidfd(monkeypatch)
    loop = asyncio.new_event_loop()
    running = child("import signal; signal.pause()")
    Process(loop, running, lambda: None)
    loop.close()
    running.kill()
    for thread in threading.enumerate():
        if thread.name.startswith("jackstay-wait"):
            thread.join(120)
    running.wait()
    close_pipes(running)


async def test_a_child_reaped_elsewhere_has_no_exit_code() -> None:
    running = child("pass")
    os.waitpid(running.pid, 0)
    process = Process(asyncio.get_running_loop(), running, lambda: None)
    assert await process.exits_within(20)
    assert process.exit_code is None
    process.clear()
    close_pipes(running)


async def test_a_child_that_survives_a_kill_is_logged_and_reaped_later(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(_process, "kill_group", lambda group, number: None)  # as if it were blocked in the kernel
    running = child("import sys; sys.stdin.read()")
    process = Process(asyncio.get_running_loop(), running, lambda: None)
    process.clear()
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert f"process {running.pid} was killed but has not exited" in caplog.text
    close_pipes(running)


def test_an_impossible_wait_status_has_no_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    running = child("pass")
    monkeypatch.setattr(os, "waitid", lambda *_: None)
    assert exit_code_of(running) is None
    running.wait()
    close_pipes(running)
