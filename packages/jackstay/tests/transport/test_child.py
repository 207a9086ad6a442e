"""The transport of a child process; tests with misbehaving processes are in tests/chaos."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from jackstay.errors import FrameTooLargeError, ProtocolError, TransportError
from jackstay.testing.transport_suite import RecordingHandler, run
from jackstay.transport import _child, stdio
from jackstay.transport._child import CELLS, STDERR_BYTES, ChildEvent, ChildState, ChildTransport
from jackstay.transport._pipe import FULL_BYTES
from jackstay.transport._stderr_tail import StderrTail
from scripted.places import TESTS

MISBEHAVING = str(TESTS / "chaos" / "servers" / "misbehaving.py")
CAT = "import os\nwhile data := os.read(0, 65536):\n    while data: data = data[os.write(1, data):]\n"


async def started(
    handler: RecordingHandler, *arguments: str, framing: str = "lines", step: float = 10.0, stderr: str = "log"
) -> ChildTransport:
    target = stdio(sys.executable, "-I", "-S", *arguments, framing=framing, stderr=stderr, name="child")
    transport = await target.open(handler, 1_000_000, step)
    handler.transport = transport
    assert isinstance(transport, ChildTransport)
    return transport


@pytest.mark.parametrize("framing", ["lines", "content-length"])
@pytest.mark.parametrize("stderr", ["log", "inherit"])
async def test_frames_are_sent_and_received_in_either_framing(framing: str, stderr: str) -> None:
    handler = RecordingHandler()
    transport = await started(handler, "-c", CAT, framing=framing, stderr=stderr)
    assert "open" in repr(transport)
    for number in range(1, 11):
        assert transport.send(b'{"n":%d}' % number, number)
    await handler.until(lambda: len(handler.frames) == 10)
    assert handler.frames == [b'{"n":%d}' % number for number in range(1, 11)]
    with pytest.raises(FrameTooLargeError):
        transport.send(b"x" * 1_000_001, 11)
    await transport.close()
    assert "closed" in repr(transport)


def test_a_child_with_an_inherited_stderr_has_no_stderr_tail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    async def test() -> None:
        handler = RecordingHandler()
        transport = await started(handler, "-c", "raise SystemExit(4)", stderr="inherit")
        await handler.until(lambda: handler.ends)
        ((error, code, _),) = handler.ends
        assert code == 4
        assert str(error) == "the server 'child' exited [exit code 4]"
        await transport.close()

    run(test)
    assert list(tmp_path.iterdir()) == [], "'inherit' is not a path"


async def test_a_child_without_a_stderr_pipe_is_reported_in_time() -> None:
    handler = RecordingHandler()
    transport = await started(handler, MISBEHAVING, "closes_stdout_only", stderr="inherit")
    await handler.until(lambda: handler.ends)
    assert str(handler.ends[0][0]) == "the server 'child' closed its stdout"
    await transport.close()


async def test_a_program_that_closes_its_stdout_without_a_message_is_terminated_at_once() -> None:
    """It is not a server, so the user who named it should not wait for `close_step`."""
    handler = RecordingHandler()
    transport = await started(handler, "-c", "import os, time\nos.close(1)\ntime.sleep(1000)", step=1000.0)
    await handler.until(lambda: handler.ends)
    ((error, code, was_silent),) = handler.ends
    assert isinstance(error, TransportError)
    assert (error.absent, code, was_silent) == (True, None, True)
    await transport.close()
    assert transport._process.exit_code == -signal.SIGTERM


async def test_a_lost_framing_is_an_error_and_ends_the_connection() -> None:
    handler = RecordingHandler()
    transport = await started(handler, MISBEHAVING, "prints_junk", framing="content-length")
    await handler.until(lambda: handler.ends)
    (fault,) = handler.frames
    ((error, code, was_silent),) = handler.ends
    assert isinstance(fault, ProtocolError)
    assert error is fault
    assert (code, was_silent) == (None, False)
    await transport.close()


async def test_a_lost_framing_found_by_a_pull_is_reported_after_the_pull() -> None:
    handler = RecordingHandler()
    handler.pulls = False
    program = r'import os; os.write(1, b"Content-Length: 1\r\n\r\n1junk\n"); os.read(0, 1)'
    transport = await started(handler, "-c", program, framing="content-length")
    await handler.until(lambda: handler.arrivals)
    assert handler.ends == []
    while not isinstance(transport.next_frame(), ProtocolError):
        await asyncio.sleep(0)
    assert handler.ends == []
    await handler.until(lambda: handler.ends)
    await transport.close()


async def test_reading_stops_while_the_handler_does_not_pull() -> None:
    lines = 5000
    flood = (
        f"import os, sys\nfor n in range({lines}): sys.stdout.write('x' * 999 + '\\n')\n"
        "sys.stdout.flush(); os.read(0, 1)"
    )
    handler = RecordingHandler()
    handler.pulls = False
    transport = await started(handler, "-c", flood)
    while transport._input.is_reading:
        await asyncio.sleep(0)
    assert transport._frames.framer.buffered < 2 * FULL_BYTES
    handler.pulls = True
    handler.pull()
    await handler.until(lambda: len(handler.frames) == lines)
    assert transport._input.is_reading
    await transport.close()


async def test_everything_is_read_at_the_end_even_if_the_handler_does_not_pull() -> None:
    flood = "import sys\nfor n in range(320): sys.stdout.write('x' * 999 + '\\n')"
    handler = RecordingHandler()
    handler.pulls = False
    transport = await started(handler, "-c", flood)
    await handler.until(lambda: handler.ends)
    handler.pull()
    assert len(handler.frames) == 320
    await transport.close()


async def test_frames_queued_while_the_connection_ends_are_not_sent() -> None:
    handler = RecordingHandler()
    transport = await started(handler, MISBEHAVING, "closes_stdout_only")
    while transport._state is ChildState.OPEN:
        await asyncio.sleep(0)
    assert transport._state is ChildState.ENDING
    assert transport.send(b'{"late":true}', 1), "not busy"
    await asyncio.sleep(0)
    assert transport.withdraw(1)
    assert transport.send(b'{"late":true}', 2)
    await handler.until(lambda: handler.ends)
    assert handler.through == 0
    assert not transport.send(b"{}", 3)
    await transport.close()


async def test_a_close_before_the_report_suppresses_it() -> None:
    handler = RecordingHandler()
    transport = await started(handler, MISBEHAVING, "closes_stdout_only")
    while transport._state is ChildState.OPEN:
        await asyncio.sleep(0)
    await transport.close()
    transport._expired()
    transport._lost(ProtocolError("late"))
    assert handler.ends == []


async def test_output_during_close_is_read_and_dropped() -> None:
    program = "import os\nos.read(0, 1)\nfor _ in range(40): os.write(1, b'x' * 65536)\n"
    handler = RecordingHandler()
    transport = await started(handler, "-c", program)
    await transport.close()
    assert handler.arrivals == 0
    assert transport._process.exit_code == 0, "it could write everything"


async def test_the_late_report_delivers_data_that_is_still_in_the_pipe(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The timer and the data may be due in one iteration of the loop: the data is delivered first."""
    handler = RecordingHandler()
    transport = await started(handler, MISBEHAVING, "never_answers")
    transport._input.pause()
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.write(writer, b'{"answer":1}\nhalf')
    transport._input.fd = reader  # as if a grandchild kept it open
    transport._change(ChildEvent.EXITED)
    transport._input.pause()
    transport._expired()
    assert handler.frames == [b'{"answer":1}', b"half"]
    assert handler.frames_at_end == 2
    await transport.close()
    os.close(reader)
    os.close(writer)


@pytest.mark.parametrize(("name", "code"), [("ignores_the_end_of_its_input", -15), ("ignores_sigterm", -9)])
async def test_close_escalates_signals_for_two_concurrent_callers(name: str, code: int) -> None:
    handler = RecordingHandler()
    transport = await started(handler, MISBEHAVING, name, step=0.05)
    await handler.until(lambda: handler.frames)
    await asyncio.gather(transport.close(), transport.close())
    assert transport._process.exit_code == code


async def test_a_failed_write_ends_the_connection() -> None:
    handler = RecordingHandler()
    transport = await started(handler, MISBEHAVING, "closes_stdin_only", step=0.05)
    await handler.until(lambda: handler.frames)
    assert transport.send(b"{}", 1)
    await handler.until(lambda: handler.ends)
    assert "does not read its stdin" in str(handler.ends[0][0])
    await transport.close()


def test_a_loop_that_ends_during_close_leaves_nothing() -> None:
    async def main() -> None:
        handler = RecordingHandler()
        transport = await started(handler, MISBEHAVING, "ignores_sigterm", step=30.0)
        await handler.until(lambda: handler.frames)
        closing = asyncio.ensure_future(transport.close())
        await asyncio.sleep(0)
        assert not closing.done()

    asyncio.run(main())


def test_the_constants() -> None:
    assert _child.REPORT_AFTER == 0.1


def test_the_table_has_a_cell_for_every_event_in_every_state() -> None:
    assert set(CELLS) == set(ChildEvent)
    assert all(set(cells) == set(ChildState) for cells in CELLS.values())
    order = {state: number for number, state in enumerate(ChildState)}
    for event, cells in CELLS.items():
        for state, cell in cells.items():
            if cell.to is not None:
                assert order[ChildState(cell.to)] > order[state], "a child never goes back to an earlier state"
            calls_went_down = ChildTransport._report in cell.actions
            assert calls_went_down == (cell.to is ChildState.DOWN), (event, state)


async def test_a_flood_on_stderr_is_read_in_small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each line is forwarded on its own: all lines of a full pipe at once would block the loop."""
    pieces: list[int] = []
    feed = StderrTail.feed
    monkeypatch.setattr(StderrTail, "feed", lambda tail, data: (pieces.append(len(data)), feed(tail, data)))
    handler = RecordingHandler()
    transport = await started(handler, "-c", "import os\nos.write(2, b'x\\n' * 20_000)")
    await handler.until(lambda: handler.ends)
    assert sum(pieces) == 40_000
    assert max(pieces) <= STDERR_BYTES
    await transport.close()
