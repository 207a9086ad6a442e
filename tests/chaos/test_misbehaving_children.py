"""Misbehaving server processes: their output is delivered, their end is reported, and nothing is left behind."""

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
from jackstay.testing.transport_suite import RecordingHandler, run
from jackstay.transport import Transport, stdio
from jackstay.transport._child import ChildTransport

SERVERS = Path(__file__).parent / "servers"
ANSWER = b'{"jsonrpc":"2.0","id":1,"result":{"text":"an answer of some length"}}'
LIMIT = 16 * 1024 * 1024


async def started(handler: RecordingHandler, name: str, *arguments: str, step: float = 10.0) -> Transport:
    script = str(SERVERS / "misbehaving.py")
    target = stdio(sys.executable, "-I", "-S", script, name, *arguments, name=name)
    handler.transport = await target.open(handler, LIMIT, step)
    return handler.transport


async def ended(handler: RecordingHandler) -> tuple[TransportError, int | None, bool]:
    await handler.until(lambda: handler.ends)
    ((error, code, was_silent),) = handler.ends
    assert isinstance(error, TransportError)
    assert error.exit_code == code
    return error, code, was_silent


# --- servers that end -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 20, len(ANSWER), len(ANSWER) + 1])
async def test_the_output_of_a_server_that_exits_is_delivered(count: int) -> None:
    handler = RecordingHandler()
    transport = await started(handler, "exits_at_byte", str(count))
    transport.send(b'{"id":1}', 1)
    _, code, was_silent = await ended(handler)
    assert code == 0
    assert was_silent == (count == 0)
    assert handler.frames == ([ANSWER[:count]] if count else [])
    await transport.close()


async def test_the_frames_of_a_server_killed_within_a_frame_are_delivered() -> None:
    handler = RecordingHandler()
    transport = await started(handler, "dies_mid_frame")
    error, code, _ = await ended(handler)
    assert code == -signal.SIGKILL
    assert "signal 9" in str(error)
    assert handler.frames == [ANSWER, ANSWER[:20]], "the incomplete frame is invalid JSON, which the reader reports"
    await transport.close()


@pytest.mark.parametrize("end", ["ended", "unended"])
async def test_a_response_in_the_pipe_of_a_server_that_exited_is_delivered(end: str) -> None:
    handler = RecordingHandler()
    transport = await started(handler, "answers_and_exits", end)
    transport.send(b'{"id":1}', 1)
    _, code, was_silent = await ended(handler)
    assert handler.frames == [ANSWER]
    assert handler.frames_at_end == 1
    assert (code, was_silent) == (0, False)
    await transport.close()


async def test_the_exit_code_and_the_stderr_tail_are_reported() -> None:
    handler = RecordingHandler()
    transport = await started(handler, "exits_with", "3")
    error, code, was_silent = await ended(handler)
    assert (code, was_silent) == (3, True)
    assert error.stderr_tail == "cannot go on\n"
    assert str(error) == "the server 'exits_with' exited [exit code 3] [stderr: cannot go on]"
    assert not error.permanent
    await transport.close()


@pytest.mark.parametrize("kind", ["normal", "stubborn"])
async def test_a_grandchild_with_open_pipes_causes_no_delay_and_is_killed(kind: str) -> None:
    handler = RecordingHandler()
    transport = await started(handler, "leaves_a_grandchild", kind)
    _, code, _ = await ended(handler)
    assert code == 0
    grandchild = json.loads(handler.frames[0])["grandchild"]
    assert is_running(grandchild), "otherwise the test is not meaningful"
    await transport.close()
    await gone(grandchild)


async def test_a_grandchild_in_its_own_session_causes_no_delay_and_is_not_killed() -> None:
    """docs/guarantees.md G13: the grandchild is not in the process group."""
    handler = RecordingHandler()
    transport = await started(handler, "leaves_a_grandchild", "detached")
    _, code, _ = await ended(handler)
    assert code == 0
    grandchild = json.loads(handler.frames[0])["grandchild"]
    try:
        await transport.close()
        assert is_running(grandchild)
    finally:
        os.kill(grandchild, signal.SIGKILL)
        await gone(grandchild)


async def gone(pid: int) -> None:
    """Wait for the end of a process that is not a child of this one."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    has_ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(descriptor, has_ended.set)
    await has_ended.wait()
    asyncio.get_running_loop().remove_reader(descriptor)
    os.close(descriptor)


async def test_closing_stdout_ends_the_connection_without_an_exit_code() -> None:
    handler = RecordingHandler()
    transport = await started(handler, "closes_stdout_only")
    error, code, _ = await ended(handler)
    assert code is None
    assert "closed its stdout" in str(error)
    assert handler.frames == [ANSWER]
    assert not transport.send(b"{}", 1)
    await transport.close()
    assert len(handler.ends) == 1


async def test_closing_stdin_ends_the_connection_at_the_first_write() -> None:
    handler = RecordingHandler()
    transport = await started(handler, "closes_stdin_only", step=0.05)
    await handler.until(lambda: handler.frames)
    assert handler.ends == []
    assert transport.send(b'{"id":1}', 1)
    await handler.until(
        lambda: (isinstance(transport, ChildTransport) and transport._state.value == "ending") or handler.ends
    )
    error, code, _ = await ended(handler)
    assert code is None
    assert "does not read its stdin (Broken pipe)" in str(error)
    assert handler.through == 0, "the write failed"
    await transport.close()


# --- servers that run on ----------------------------------------------------------------------------------------------


async def answered(handler: RecordingHandler, count: int = 1) -> list[bytes | McpError]:
    await handler.until(lambda: len(handler.frames) >= count)
    return handler.frames


def is_answer_only(frames: list[bytes | McpError]) -> bool:
    return frames == [ANSWER]


def is_junk_then_answer(frames: list[bytes | McpError]) -> bool:
    return frames[-1] == ANSWER and frames[0] == b"Starting server on stdio..." and len(frames) == 4


def is_too_large_then_answer(frames: list[bytes | McpError]) -> bool:
    return isinstance(frames[0], FrameTooLargeError) and frames[1:] == [ANSWER]


@pytest.mark.parametrize(
    ("name", "argument", "count", "is_expected"),
    [
        ("floods_stderr", str(1024 * 1024), 1, is_answer_only),
        ("prints_junk", "", 4, is_junk_then_answer),
        ("sends_a_long_line", str(17 * 1024 * 1024), 2, is_too_large_then_answer),
        ("trickles", "", 1, is_answer_only),
    ],
)
async def test_the_output_of_a_misbehaving_server_is_read(
    name: str, argument: str, count: int, is_expected: Callable[[list[bytes | McpError]], bool]
) -> None:
    handler = RecordingHandler()
    transport = await started(handler, name, argument)
    assert is_expected(await answered(handler, count))
    await transport.close()
    assert handler.ends == []


async def test_one_mebibyte_of_stderr_is_drained_and_the_last_64_kib_are_kept() -> None:
    handler = RecordingHandler()
    transport = await started(handler, "floods_stderr", str(1024 * 1024))
    await answered(handler)
    assert isinstance(transport, ChildTransport)
    os.killpg(transport._child.pid, signal.SIGKILL)
    error, code, _ = await ended(handler)
    assert code == -9
    assert len(error.stderr_tail) == 65_536
    assert error.stderr_tail.endswith("eee\nthe end of it\n")
    await transport.close()


async def test_a_server_that_never_responds_ends_with_its_input() -> None:
    handler = RecordingHandler()
    transport = await started(handler, "never_answers")
    assert transport.send(b'{"id":1}', 1)
    await handler.until(lambda: handler.through == 1)
    await transport.close()
    assert handler.frames == handler.ends == []


async def test_backpressure_of_a_server_that_does_not_read() -> None:
    handler = RecordingHandler()
    transport = await started(handler, "reads_nothing_at_first")
    (first,) = await answered(handler)
    assert isinstance(first, bytes)
    number = 0
    while transport.send(b"x" * 1000, number + 1):
        number += 1
        await asyncio.sleep(0)
    assert number - handler.through >= 1023, "send() fails only if the queue is full"
    withdrawn = number
    assert transport.withdraw(withdrawn)
    assert not transport.withdraw(1)
    os.kill(json.loads(first)["pid"], signal.SIGUSR1)
    await handler.until(lambda: handler.room_calls == 1)
    assert transport.send(b'"stop', number + 2)
    assert transport.send(b"stop", number + 3)
    frames = await answered(handler, 2)
    assert frames[1] == b'{"lines":%d}' % (number - 1 + 2), "all lines except the withdrawn one, plus the last two"
    await transport.close()


# --- closing ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "by"),
    [("ignores_sigterm", signal.SIGKILL), ("ignores_the_end_of_its_input", signal.SIGTERM)],
)
async def test_close_escalates_to_the_signal_that_is_needed(name: str, by: signal.Signals) -> None:
    handler = RecordingHandler()
    transport = await started(handler, name, step=0.1)
    await answered(handler)
    assert isinstance(transport, ChildTransport)
    await transport.close()
    assert transport._process.exit_code == -by
    assert handler.ends == []


async def test_a_grandchild_of_a_server_that_ends_normally_is_killed() -> None:
    handler = RecordingHandler()
    transport = await started(handler, "leaves_a_grandchild", "waiting")
    (frame,) = await answered(handler)
    assert isinstance(frame, bytes)
    await transport.close()
    await gone(json.loads(frame)["grandchild"])
    assert handler.ends == []


async def test_closing_a_server_that_has_ended_or_was_not_read() -> None:
    for name, argument in (("exits_with", "0"), ("never_answers", ""), ("sends_a_long_line", "2000000")):
        handler = RecordingHandler()
        handler.pulls = False
        transport = await started(handler, name, argument)
        await transport.close()
        assert handler.ends == []


def test_a_loop_that_ends_during_close_leaves_no_process() -> None:
    async def end_during_close() -> None:
        handler = RecordingHandler()
        transport = await started(handler, "ignores_sigterm", step=30.0)
        await answered(handler)
        closing = asyncio.ensure_future(transport.close())
        await asyncio.sleep(0)
        assert not closing.done()

    asyncio.run(end_during_close())


async def test_cancelling_close_does_not_stop_it() -> None:
    handler = RecordingHandler()
    transport = await started(handler, "ignores_the_end_of_its_input", step=0.1)
    await answered(handler)
    closing = asyncio.ensure_future(transport.close())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    await transport.close()
    assert "cleared" in repr(transport)


# --- the environment --------------------------------------------------------------------------------------------------


def test_the_descriptors_process_group_and_environment_of_a_child(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "x")
    monkeypatch.setenv("LC_TIME", "C")
    lines: list[str] = []

    async def test() -> None:
        handler = RecordingHandler()
        script = str(SERVERS / "misbehaving.py")
        target = stdio(
            sys.executable,
            "-I",
            "-S",
            script,
            "shows_its_environment",
            cwd=tmp_path,
            env={"EXTRA": "1"},
            stderr=lines.append,
        )
        transport = handler.transport = await target.open(handler, LIMIT, 10.0)
        (frame,) = await answered(handler)
        assert isinstance(frame, bytes)
        seen = json.loads(frame)
        names = set(seen["names"].split(","))
        assert {"PATH", "EXTRA", "LC_TIME"} <= names
        assert "SECRET_TOKEN" not in names
        assert seen["cwd"] == str(tmp_path)
        assert seen["group"] == seen["pid"] != os.getpgrp()
        await transport.close()

    run(test)
    assert sorted(lines) == ["fd 0", "fd 1", "fd 2", "fd 3"], "the fourth is that of the directory listing"
