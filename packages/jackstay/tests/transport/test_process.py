"""A child's end is seen, by the loop or by a thread, and everything of it is cleared away."""

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

from jackstay.testing.transport_suite import run
from jackstay.transport import _process, kill_children
from jackstay.transport._process import Process, exit_code_of
from jackstay.transport._spawn import Child, close_pipes


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


def without_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    monkeypatch.delattr(os, "waitid", raising=False)


WAYS = [with_pidfd, without_pidfd, without_anything]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("raise SystemExit(3)", 3),
        ("pass", 0),
        ("import os; os.kill(os.getpid(), 9)", -9),
        ("import os; os.abort()", -6),
    ],
)
def test_an_end_is_told_once_with_its_code(
    monkeypatch: pytest.MonkeyPatch, way: Callable[[pytest.MonkeyPatch], None], code: str, expected: int
) -> None:
    way(monkeypatch)

    async def test() -> None:
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

    run(test)


@pytest.mark.parametrize("way", WAYS)
def test_a_signal_reaches_the_group_and_a_wait_has_an_end(
    monkeypatch: pytest.MonkeyPatch, way: Callable[[pytest.MonkeyPatch], None]
) -> None:
    way(monkeypatch)

    async def test() -> None:
        running = child("import signal; print(flush=True); signal.pause()")
        process = Process(asyncio.get_running_loop(), running, lambda: None)
        assert not await process.exits_within(0.0)
        assert "running" in repr(process)
        process.signal(signal.SIGTERM)
        assert await process.exits_within(20)
        assert process.exit_code == -signal.SIGTERM
        process.clear()
        process.signal(signal.SIGTERM)  # no longer ours: nothing is sent
        close_pipes(running)

    run(test)


def test_a_dead_child_keeps_its_number_until_it_is_cleared() -> None:
    async def test() -> None:
        running = child("pass")
        process = Process(asyncio.get_running_loop(), running, lambda: None)
        assert await process.exits_within(20)
        os.killpg(running.pid, 0)
        process.clear()
        with pytest.raises(ProcessLookupError):
            os.killpg(running.pid, 0)
        close_pipes(running)

    run(test)


def test_in_the_last_moment_of_a_program_every_child_is_killed_and_those_cleared_away_are_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """G13: nothing is left, also where nobody waits for the ladder. A number that was given back may be a stranger's."""

    async def test() -> None:
        monkeypatch.setattr(
            _process, "_children", weakref.WeakSet()
        )  # other tests leave children that nobody clears away
        signalled: list[int] = []
        kill = _process.kill_group

        def note(group: int, number: signal.Signals) -> None:
            signalled.append(group)
            kill(group, number)

        stubborn = child(
            "import signal; signal.signal(15, signal.SIG_IGN); print(1, flush=True); signal.pause()"
        )
        gone = child("pass")
        processes = [Process(asyncio.get_running_loop(), one, lambda: None) for one in (stubborn, gone)]
        assert stubborn.stdout is not None
        assert await asyncio.to_thread(stubborn.stdout.readline) == b"1\n"
        assert await processes[1].exits_within(30)
        processes[1].clear()
        monkeypatch.setattr(_process, "kill_group", note)
        kill_children()
        assert signalled == [stubborn.pid]
        assert await processes[0].exits_within(30)
        assert processes[0].exit_code == -signal.SIGKILL
        processes[0].clear()
        signalled.clear()
        kill_children()
        assert signalled == []
        for one in (stubborn, gone):
            close_pipes(one)

    run(test)


@pytest.mark.parametrize("way", WAYS)
def test_a_child_discarded_on_the_spot_is_gone_and_its_end_is_not_told(
    monkeypatch: pytest.MonkeyPatch, way: Callable[[pytest.MonkeyPatch], None]
) -> None:
    way(monkeypatch)
    ends: list[int] = []

    async def test() -> None:
        running = child("import signal; signal.pause()")
        process = Process(asyncio.get_running_loop(), running, lambda: ends.append(1))
        process.discard()
        assert running.returncode == -9
        for thread in threading.enumerate():
            if thread.name.startswith("jackstay-wait"):
                await asyncio.to_thread(thread.join, 20)
        await asyncio.sleep(0)
        assert ends == []

    run(test)


def test_a_thread_that_waits_for_a_child_outlives_its_loop_and_ends_with_the_child(
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
            thread.join(20)
    running.wait()
    close_pipes(running)


def test_a_child_that_somebody_else_has_reaped_has_ended_without_a_code() -> None:
    async def test() -> None:
        running = child("pass")
        os.waitpid(running.pid, 0)
        process = Process(asyncio.get_running_loop(), running, lambda: None)
        assert await process.exits_within(20)
        assert process.exit_code is None
        process.clear()
        close_pipes(running)

    run(test)


def test_a_child_that_does_not_die_is_told_of_and_reaped_when_it_does(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(_process, "kill_group", lambda group, number: None)  # as if it waited for a dead disk

    async def test() -> None:
        running = child("import sys; sys.stdin.read()")
        process = Process(asyncio.get_running_loop(), running, lambda: None)
        process.clear()
        assert [record.levelno for record in caplog.records] == [logging.ERROR]
        assert f"process {running.pid} does not end" in caplog.text
        close_pipes(running)

    run(test)


def test_the_code_of_an_impossible_answer_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    running = child("pass")
    monkeypatch.setattr(os, "waitid", lambda *_: None)
    assert exit_code_of(running) is None
    running.wait()
    close_pipes(running)
