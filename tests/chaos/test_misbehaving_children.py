"""Real processes that misbehave in every way that was seen: what was said is delivered, the end is told, nothing is left."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from chaos.leftovers import is_running
from jackstay.errors import FrameTooLargeError, McpError, TransportError
from jackstay.testing.transport_suite import Recorder, run
from jackstay.transport import Transport, stdio
from jackstay.transport._child import ChildTransport

SERVERS = Path(__file__).parent / "servers"
ANSWER = b'{"jsonrpc":"2.0","id":1,"result":{"text":"an answer of some length"}}'
LIMIT = 16 * 1024 * 1024


async def started(owner: Recorder, name: str, *arguments: str, step: float = 10.0) -> Transport:
    script = str(SERVERS / "misbehaving.py")
    target = stdio(sys.executable, "-I", "-S", script, name, *arguments, name=name)
    owner.transport = await target.open(owner, LIMIT, step)
    return owner.transport


async def ended(owner: Recorder) -> tuple[TransportError, int | None, bool]:
    await owner.until(lambda: owner.ends)
    ((error, code, was_silent),) = owner.ends
    assert isinstance(error, TransportError)
    assert error.exit_code == code
    return error, code, was_silent


# --- ends that are theirs ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 20, len(ANSWER), len(ANSWER) + 1])
def test_a_server_that_exits_at_any_byte_ends_with_what_it_said(count: int) -> None:
    async def test() -> None:
        owner = Recorder()
        transport = await started(owner, "exits_at_byte", str(count))
        transport.send(b'{"id":1}', 1)
        _, code, was_silent = await ended(owner)
        assert code == 0
        assert was_silent == (count == 0)
        assert owner.frames == ([ANSWER[:count]] if count else [])
        await transport.close()

    run(test)


def test_a_server_killed_in_the_middle_of_a_frame_has_its_whole_frames_delivered() -> None:
    async def test() -> None:
        owner = Recorder()
        transport = await started(owner, "dies_mid_frame")
        error, code, _ = await ended(owner)
        assert code == -signal.SIGKILL
        assert "signal 9" in str(error)
        assert owner.frames == [ANSWER, ANSWER[:20]], "half a message is no JSON: whoever reads it can tell"
        await transport.close()

    run(test)


@pytest.mark.parametrize("end", ["ended", "unended"])
def test_an_answer_in_the_pipe_of_a_server_that_has_exited_is_an_answer(end: str) -> None:
    async def test() -> None:
        owner = Recorder()
        transport = await started(owner, "answers_and_exits", end)
        transport.send(b'{"id":1}', 1)
        _, code, was_silent = await ended(owner)
        assert owner.frames == [ANSWER]
        assert owner.frames_at_end == 1
        assert (code, was_silent) == (0, False)
        await transport.close()

    run(test)


def test_an_exit_code_and_the_last_words_are_told() -> None:
    async def test() -> None:
        owner = Recorder()
        transport = await started(owner, "exits_with", "3")
        error, code, was_silent = await ended(owner)
        assert (code, was_silent) == (3, True)
        assert error.stderr_tail == "cannot go on\n"
        assert str(error) == "the server exits_with exited [exit code 3] [stderr: cannot go on]"
        assert not error.permanent
        await transport.close()

    run(test)


@pytest.mark.parametrize("kind", ["polite", "stubborn"])
def test_a_grandchild_that_holds_the_pipes_delays_nothing_and_is_killed(kind: str) -> None:
    async def test() -> None:
        owner = Recorder()
        transport = await started(owner, "leaves_a_grandchild", kind)
        _, code, _ = await ended(owner)
        assert code == 0
        grandchild = json.loads(owner.frames[0])["grandchild"]
        assert is_running(grandchild), "it holds the pipes, or this test shows nothing"
        await transport.close()
        await gone(grandchild)

    run(test)


def test_a_grandchild_in_a_session_of_its_own_delays_nothing_and_is_left() -> None:
    """G13: it is not in the group, and nobody can tell whose it is."""

    async def test() -> None:
        owner = Recorder()
        transport = await started(owner, "leaves_a_grandchild", "detached")
        _, code, _ = await ended(owner)
        assert code == 0
        grandchild = json.loads(owner.frames[0])["grandchild"]
        try:
            await transport.close()
            assert is_running(grandchild)
        finally:
            os.kill(grandchild, signal.SIGKILL)
            await gone(grandchild)

    run(test)


async def gone(pid: int) -> None:
    """Wait for the end of a process that is not our child; at once if it has none to wait for."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    has_ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(descriptor, has_ended.set)
    await has_ended.wait()
    asyncio.get_running_loop().remove_reader(descriptor)
    os.close(descriptor)


def test_a_server_that_closes_stdout_only_is_down_and_without_an_exit_code() -> None:
    async def test() -> None:
        owner = Recorder()
        transport = await started(owner, "closes_stdout_only")
        error, code, _ = await ended(owner)
        assert code is None
        assert "closed its stdout" in str(error)
        assert owner.frames == [ANSWER]
        assert not transport.send(b"{}", 1)
        await transport.close()
        assert len(owner.ends) == 1

    run(test)


def test_a_server_that_closes_stdin_only_is_down_at_the_first_write() -> None:
    async def test() -> None:
        owner = Recorder()
        transport = await started(owner, "closes_stdin_only", step=0.05)
        await owner.until(lambda: owner.frames)
        assert owner.ends == []
        assert transport.send(b'{"id":1}', 1)
        await owner.until(
            lambda: (
                (isinstance(transport, ChildTransport) and transport._life.value == "ending") or owner.ends
            )
        )
        error, code, _ = await ended(owner)
        assert code is None
        assert "does not read its stdin (Broken pipe)" in str(error)
        assert owner.through == 0, "nothing was written"
        await transport.close()

    run(test)


# --- servers that go on -----------------------------------------------------------------------------------------------


async def answered(owner: Recorder, count: int = 1) -> list[bytes | McpError]:
    await owner.until(lambda: len(owner.frames) >= count)
    return owner.frames


def is_answer_only(frames: list[bytes | McpError]) -> bool:
    return frames == [ANSWER]


def is_junk_then_answer(frames: list[bytes | McpError]) -> bool:
    return frames[-1] == ANSWER and frames[0] == b"Starting server on stdio..." and len(frames) == 4


def is_too_large_then_answer(frames: list[bytes | McpError]) -> bool:
    return isinstance(frames[0], FrameTooLargeError) and frames[1:] == [ANSWER]


@pytest.mark.parametrize(
    ("name", "argument", "count", "holds"),
    [
        ("floods_stderr", str(1024 * 1024), 1, is_answer_only),
        ("prints_junk", "", 4, is_junk_then_answer),
        ("sends_a_long_line", str(17 * 1024 * 1024), 2, is_too_large_then_answer),
        ("trickles", "", 1, is_answer_only),
    ],
)
def test_a_server_that_misbehaves_is_read_all_the_same(
    name: str, argument: str, count: int, holds: Callable[[list[bytes | McpError]], bool]
) -> None:
    async def test() -> None:
        owner = Recorder()
        transport = await started(owner, name, argument)
        assert holds(await answered(owner, count))
        await transport.close()
        assert owner.ends == []

    run(test)


def test_one_mebibyte_of_stderr_is_drained_and_the_last_64_kib_are_kept() -> None:
    async def test() -> None:
        owner = Recorder()
        transport = await started(owner, "floods_stderr", str(1024 * 1024))
        await answered(owner)
        assert isinstance(transport, ChildTransport)
        os.killpg(transport._child.pid, signal.SIGKILL)
        error, code, _ = await ended(owner)
        assert code == -9
        assert len(error.stderr_tail) == 65_536
        assert error.stderr_tail.endswith("eee\nthe end of it\n")
        await transport.close()

    run(test)


def test_a_server_that_never_answers_ends_with_its_input() -> None:
    async def test() -> None:
        owner = Recorder()
        transport = await started(owner, "never_answers")
        assert transport.send(b'{"id":1}', 1)
        await owner.until(lambda: owner.through == 1)
        await transport.close()
        assert owner.frames == owner.ends == []

    run(test)


def test_a_server_that_reads_nothing_makes_it_busy_and_reading_makes_room() -> None:
    async def test() -> None:
        owner = Recorder()
        transport = await started(owner, "reads_nothing_at_first")
        (hello,) = await answered(owner)
        assert isinstance(hello, bytes)
        number = 0
        while transport.send(b"x" * 1000, number + 1):
            number += 1
            await asyncio.sleep(0)
        assert number - owner.through >= 1023, "busy means a full queue"
        withdrawn = number
        assert transport.withdraw(withdrawn)
        assert not transport.withdraw(1)
        os.kill(json.loads(hello)["pid"], signal.SIGUSR1)
        await owner.until(lambda: owner.rooms == 1)
        assert transport.send(b'"stop', number + 2)
        assert transport.send(b"stop", number + 3)
        frames = await answered(owner, 2)
        assert frames[1] == b'{"lines":%d}' % (number - 1 + 2), "all but the withdrawn one, and the two last"
        await transport.close()

    run(test)


# --- ends that are ours -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "by"),
    [("ignores_sigterm", signal.SIGKILL), ("ignores_the_end_of_its_input", signal.SIGTERM)],
)
def test_the_ladder_is_climbed_as_far_as_needed(name: str, by: signal.Signals) -> None:
    async def test() -> None:
        owner = Recorder()
        transport = await started(owner, name, step=0.1)
        await answered(owner)
        assert isinstance(transport, ChildTransport)
        await transport.close()
        assert transport._process.exit_code == -by
        assert owner.ends == []

    run(test)


def test_a_grandchild_of_a_server_that_ends_as_asked_is_ended_too() -> None:
    async def test() -> None:
        owner = Recorder()
        transport = await started(owner, "leaves_a_grandchild", "waiting")
        (frame,) = await answered(owner)
        assert isinstance(frame, bytes)
        await transport.close()
        await gone(json.loads(frame)["grandchild"])
        assert owner.ends == []

    run(test)


def test_closing_a_server_that_is_down_or_fresh_or_unread_is_quick() -> None:
    async def test() -> None:
        for name, argument in (("exits_with", "0"), ("never_answers", ""), ("sends_a_long_line", "2000000")):
            owner = Recorder()
            owner.pulls = False
            transport = await started(owner, name, argument)
            await transport.close()
            assert owner.ends == []

    run(test)


def test_a_loop_that_ends_leaves_nothing_although_nobody_closed_in_time() -> None:
    async def main() -> None:
        owner = Recorder()
        transport = await started(owner, "ignores_sigterm", step=30.0)
        await answered(owner)
        closing = asyncio.ensure_future(transport.close())
        await asyncio.sleep(0)
        assert not closing.done()
        # and here the loop ends: everything is cancelled, and the fixture looks for what is left

    asyncio.run(main())


def test_a_caller_that_is_cancelled_does_not_stop_the_closing() -> None:
    async def test() -> None:
        owner = Recorder()
        transport = await started(owner, "ignores_the_end_of_its_input", step=0.1)
        await answered(owner)
        closing = asyncio.ensure_future(transport.close())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        await transport.close()
        assert "cleared" in repr(transport)

    run(test)


# --- what a child is given --------------------------------------------------------------------------------------------


def test_a_child_has_three_descriptors_its_own_group_and_only_the_variables_it_needs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "x")
    monkeypatch.setenv("LC_TIME", "C")
    lines: list[str] = []

    async def test() -> None:
        owner = Recorder()
        script = str(SERVERS / "misbehaving.py")
        target = stdio(
            sys.executable,
            "-I",
            "-S",
            script,
            "shows_its_surroundings",
            cwd=tmp_path,
            env={"EXTRA": "1"},
            stderr=lines.append,
        )
        transport = owner.transport = await target.open(owner, LIMIT, 10.0)
        (frame,) = await answered(owner)
        assert isinstance(frame, bytes)
        seen = json.loads(frame)
        names = set(seen["names"].split(","))
        assert {"PATH", "EXTRA", "LC_TIME"} <= names
        assert "SECRET_TOKEN" not in names
        assert seen["cwd"] == str(tmp_path)
        assert seen["group"] == seen["pid"] != os.getpgrp()
        await transport.close()

    run(test)
    assert sorted(lines) == ["fd 0", "fd 1", "fd 2", "fd 3"], "the fourth is its own, of the listing"
