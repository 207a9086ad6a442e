"""What the transport of a child does between its parts; whole processes that misbehave stand in tests/chaos."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from jackstay.errors import FrameTooLargeError, ProtocolError
from jackstay.testing.transport_suite import Recorder, run
from jackstay.transport import _child, stdio
from jackstay.transport._child import ChildTransport, Life
from jackstay.transport._intake import FULL_BYTES
from scripted.places import TESTS

MISBEHAVING = str(TESTS / "chaos" / "servers" / "misbehaving.py")
CAT = "import os\nwhile data := os.read(0, 65536):\n    while data: data = data[os.write(1, data):]\n"


async def started(
    owner: Recorder, *arguments: str, framing: str = "lines", step: float = 10.0, stderr: str = "log"
) -> ChildTransport:
    target = stdio(sys.executable, "-I", "-S", *arguments, framing=framing, stderr=stderr, name="child")
    transport = await target.open(owner, 1_000_000, step)
    owner.transport = transport
    assert isinstance(transport, ChildTransport)
    return transport


@pytest.mark.parametrize("framing", ["lines", "content-length"])
@pytest.mark.parametrize("stderr", ["log", "inherit"])
def test_frames_travel_in_either_framing_and_with_any_stderr(framing: str, stderr: str) -> None:
    async def test() -> None:
        owner = Recorder()
        transport = await started(owner, "-c", CAT, framing=framing, stderr=stderr)
        assert "open" in repr(transport)
        for number in range(1, 11):
            assert transport.send(b'{"n":%d}' % number, number)
        await owner.until(lambda: len(owner.frames) == 10)
        assert owner.frames == [b'{"n":%d}' % number for number in range(1, 11)]
        with pytest.raises(FrameTooLargeError):
            transport.send(b"x" * 1_000_001, 11)
        await transport.close()
        assert "closed" in repr(transport)

    run(test)


def test_a_child_with_an_inherited_stderr_ends_without_last_words_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    async def test() -> None:
        owner = Recorder()
        transport = await started(owner, "-c", "raise SystemExit(4)", stderr="inherit")
        await owner.until(lambda: owner.ends)
        ((error, code, _),) = owner.ends
        assert code == 4
        assert str(error) == "the server child exited [exit code 4]"
        await transport.close()

    run(test)
    assert list(tmp_path.iterdir()) == [], "inherit is no path"


def test_a_child_without_a_stderr_of_ours_is_reported_in_time_too() -> None:
    async def test() -> None:
        owner = Recorder()
        transport = await started(owner, MISBEHAVING, "closes_stdout_only", stderr="inherit")
        await owner.until(lambda: owner.ends)
        assert str(owner.ends[0][0]) == "the server child closed its stdout"
        await transport.close()

    run(test)


def test_a_framing_that_is_lost_is_a_fault_and_then_the_end() -> None:
    async def test() -> None:
        owner = Recorder()
        transport = await started(owner, MISBEHAVING, "prints_junk", framing="content-length")
        await owner.until(lambda: owner.ends)
        (fault,) = owner.frames
        ((error, code, was_silent),) = owner.ends
        assert isinstance(fault, ProtocolError)
        assert error is fault
        assert (code, was_silent) == (None, False)
        await transport.close()

    run(test)


def test_a_loss_found_by_a_late_pull_is_told_and_not_from_inside_the_pull() -> None:
    async def test() -> None:
        owner = Recorder()
        owner.pulls = False
        said = r'import os; os.write(1, b"Content-Length: 1\r\n\r\n1junk\n"); os.read(0, 1)'
        transport = await started(owner, "-c", said, framing="content-length")
        await owner.until(lambda: owner.arrivals)
        assert owner.ends == []
        while not isinstance(transport.next_frame(), ProtocolError):
            await asyncio.sleep(0)
        assert owner.ends == []
        await owner.until(lambda: owner.ends)
        await transport.close()

    run(test)


def test_an_owner_that_does_not_pull_stops_the_reading_until_it_does() -> None:
    lines = 5000
    flood = f"import os, sys\nfor n in range({lines}): sys.stdout.write('x' * 999 + '\\n')\nsys.stdout.flush(); os.read(0, 1)"

    async def test() -> None:
        owner = Recorder()
        owner.pulls = False
        transport = await started(owner, "-c", flood)
        while transport._stdout._is_reading:
            await asyncio.sleep(0)
        assert transport._intake._framer.buffered < 2 * FULL_BYTES
        owner.pulls = True
        owner.pull()
        await owner.until(lambda: len(owner.frames) == lines)
        assert transport._stdout._is_reading
        await transport.close()

    run(test)


def test_what_a_child_said_is_all_read_at_its_end_although_the_owner_does_not_pull() -> None:
    flood = "import sys\nfor n in range(320): sys.stdout.write('x' * 999 + '\\n')"

    async def test() -> None:
        owner = Recorder()
        owner.pulls = False
        transport = await started(owner, "-c", flood)
        await owner.until(lambda: owner.ends)
        owner.pull()
        assert len(owner.frames) == 320
        await transport.close()

    run(test)


def test_frames_sent_after_the_first_sign_are_kept_and_surely_not_sent() -> None:
    async def test() -> None:
        owner = Recorder()
        transport = await started(owner, MISBEHAVING, "closes_stdout_only")
        while transport._life is Life.OPEN:
            await asyncio.sleep(0)
        assert transport._life is Life.ENDING
        assert transport.send(b'{"late":true}', 1), "to say busy would be a lie"
        await asyncio.sleep(0)
        assert transport.withdraw(1)
        assert transport.send(b'{"late":true}', 2)
        await owner.until(lambda: owner.ends)
        assert owner.through == 0
        assert not transport.send(b"{}", 3)
        await transport.close()

    run(test)


def test_a_close_between_the_first_sign_and_the_report_is_silent() -> None:
    async def test() -> None:
        owner = Recorder()
        transport = await started(owner, MISBEHAVING, "closes_stdout_only")
        while transport._life is Life.OPEN:
            await asyncio.sleep(0)
        await transport.close()
        transport._report_late()
        transport._report()
        assert owner.ends == []

    run(test)


def test_what_is_said_while_it_is_being_closed_is_read_and_dropped() -> None:
    talker = "import os\nos.read(0, 1)\nfor _ in range(40): os.write(1, b'x' * 65536)\n"

    async def test() -> None:
        owner = Recorder()
        transport = await started(owner, "-c", talker)
        await transport.close()
        assert owner.arrivals == 0
        assert transport._process.exit_code == 0, "it could write all it had to say"

    run(test)


def test_the_report_at_the_latest_delivers_what_the_loop_has_not_come_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The timer and the data may be due in one turn of the loop: the data comes first all the same."""

    async def test() -> None:
        owner = Recorder()
        transport = await started(owner, MISBEHAVING, "never_answers")
        transport._stdout.pause()
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        os.write(writer, b'{"answer":1}\nhalf')
        transport._stdout._fd = reader  # as if a grandchild held it
        transport._sign("exited")
        transport._stdout.pause()
        transport._report_late()
        assert owner.frames == [b'{"answer":1}', b"half"]
        assert owner.frames_at_end == 2
        await transport.close()
        os.close(reader)
        os.close(writer)

    run(test)


@pytest.mark.parametrize(("name", "code"), [("ignores_the_end_of_its_input", -15), ("ignores_sigterm", -9)])
def test_the_ladder_goes_as_far_as_it_must_for_two_who_close(name: str, code: int) -> None:
    async def test() -> None:
        owner = Recorder()
        transport = await started(owner, MISBEHAVING, name, step=0.05)
        await owner.until(lambda: owner.frames)
        await asyncio.gather(transport.close(), transport.close())
        assert transport._process.exit_code == code

    run(test)


def test_a_write_that_fails_is_a_sign() -> None:
    async def test() -> None:
        owner = Recorder()
        transport = await started(owner, MISBEHAVING, "closes_stdin_only", step=0.05)
        await owner.until(lambda: owner.frames)
        assert transport.send(b"{}", 1)
        await owner.until(lambda: owner.ends)
        assert "does not read its stdin" in str(owner.ends[0][0])
        await transport.close()

    run(test)


def test_a_loop_that_ends_in_the_middle_of_the_ladder_leaves_nothing() -> None:
    async def main() -> None:
        owner = Recorder()
        transport = await started(owner, MISBEHAVING, "ignores_sigterm", step=30.0)
        await owner.until(lambda: owner.frames)
        closing = asyncio.ensure_future(transport.close())
        await asyncio.sleep(0)
        assert not closing.done()

    asyncio.run(main())


def test_the_numbers_are_the_designs() -> None:
    assert _child.REPORT_AFTER == 0.1
