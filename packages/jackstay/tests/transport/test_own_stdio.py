"""A server's own stdio, in this process with pipes put in place of 0, 1 and 2, and as a process of its own."""

import asyncio
import contextlib
import os
import pty
import subprocess
import sys
import threading
import tty
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.standing_in import standing_in
from jackstay.errors import FrameTooLargeError, ProtocolError, TransportError, UsageError
from jackstay.testing.transport_suite import Recorder, run
from jackstay.transport import own_stdio
from jackstay.transport._intake import FULL_BYTES
from jackstay.transport._own_stdio import BY_HAND, OwnStdioTransport
from scripted.places import PYTHONPATH, ROOT

OWN_ECHO = str(ROOT / "tests" / "chaos" / "servers" / "own_echo.py")


class Ends:
    """Pipes to and from a server in this process."""

    def __init__(self) -> None:
        self.stdin, self.to_server = os.pipe()
        self.from_server, self.stdout = os.pipe()
        self.fds = [self.stdin, self.to_server, self.from_server, self.stdout]

    def close(self, *fds: int) -> None:
        for fd in fds or tuple(self.fds):
            os.close(fd)
            self.fds.remove(fd)


@pytest.fixture
def ends() -> Iterator[Ends]:
    ends = Ends()
    yield ends
    ends.close(*ends.fds)


async def opened(owner: Recorder, framing: str = "lines", limit: int = 10_000_000) -> OwnStdioTransport:
    transport = await own_stdio(framing).open(owner, limit, 1.0)
    owner.transport = transport
    return transport


def test_frames_travel_and_everything_is_put_back(ends: Ends) -> None:
    async def test() -> None:
        owner = Recorder()
        transport = await opened(owner)
        assert os.fstat(0) == os.stat("/dev/null")
        os.write(ends.to_server, b"one\ntwo\n")
        await owner.until(lambda: len(owner.frames) == 2)
        assert transport.send(b"answer", 1)
        assert transport.send(b"taken back", 2)
        assert transport.withdraw(2)
        await owner.until(lambda: owner.through == 1)
        assert os.read(ends.from_server, 100) == b"answer\n"
        assert "open" in repr(transport)
        await transport.close()
        await transport.close()
        assert "closed" in repr(transport)
        assert transport.next_frame() is None
        assert not transport.send(b"late", 3)
        assert os.get_blocking(0)
        assert os.get_blocking(1)
        os.write(1, b"back")
        assert os.read(ends.from_server, 100) == b"back"
        assert owner.ends == []

    with standing_in(ends.stdin, ends.stdout):
        run(test)


def test_a_mode_that_was_found_is_put_back_as_it_was(ends: Ends) -> None:
    os.set_blocking(ends.stdin, False)
    os.set_blocking(ends.stdout, False)

    async def test() -> None:
        transport = await opened(Recorder())
        await transport.close()
        assert not os.get_blocking(0)
        assert not os.get_blocking(1)

    with standing_in(ends.stdin, ends.stdout):
        run(test)


def test_the_end_of_stdin_is_the_end_and_what_was_asked_is_still_answered(ends: Ends) -> None:
    async def test() -> None:
        owner = Recorder()
        transport = await opened(owner)
        os.write(ends.to_server, b"one\nunended")
        ends.close(ends.to_server)
        await owner.until(lambda: owner.ends)
        assert owner.frames == [b"one", b"unended"]
        assert owner.frames_at_end == 2
        ((error, code, was_silent),) = owner.ends
        assert str(error) == "the client closed our stdin"
        assert (code, was_silent) == (None, False)
        assert "down" in repr(transport)
        assert transport.send(b"answer", 1)
        await owner.until(lambda: owner.through == 1)
        assert os.read(ends.from_server, 100) == b"answer\n"
        await transport.close()

    with standing_in(ends.stdin, ends.stdout):
        run(test)


def test_a_stdout_that_nobody_reads_any_more_is_final(ends: Ends) -> None:
    async def test() -> None:
        owner = Recorder()
        transport = await opened(owner)
        ends.close(ends.from_server)
        os.write(ends.to_server, b"last words\n")
        assert transport.send(b"answer", 1)
        await owner.until(lambda: owner.ends)
        assert owner.frames == [b"last words"], "what it still said comes first"
        assert "closed our stdout (Broken pipe)" in str(owner.ends[0][0])
        assert not transport.send(b"answer", 2)
        ends.close(ends.to_server)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await transport.close()
        assert len(owner.ends) == 1

    with standing_in(ends.stdin, ends.stdout):
        run(test)


def test_a_lost_framing_and_a_frame_over_the_limit_are_told(ends: Ends) -> None:
    async def test() -> None:
        owner = Recorder()
        transport = await opened(owner, "content-length", limit=10)
        with pytest.raises(FrameTooLargeError):
            transport.send(b"x" * 11, 1)
        os.write(ends.to_server, b"{}\n")
        await owner.until(lambda: owner.ends)
        assert isinstance(owner.ends[0][0], ProtocolError)
        await transport.close()

    with standing_in(ends.stdin, ends.stdout):
        run(test)


def test_an_owner_that_does_not_pull_stops_the_reading(ends: Ends, tmp_path: Path) -> None:
    lines = 4000
    (tmp_path / "in").write_bytes((b"x" * 999 + b"\n") * lines)

    async def test() -> None:
        owner = Recorder()
        owner.pulls = False
        transport = await opened(owner)
        while not transport._intake.is_full():
            await asyncio.sleep(0)
        assert transport._intake._framer.buffered < 2 * FULL_BYTES
        assert owner.ends == []
        owner.pulls = True
        owner.pull()
        await owner.until(lambda: owner.ends)
        assert len(owner.frames) == lines
        await transport.close()

    stdin = os.open(tmp_path / "in", os.O_RDONLY)
    with standing_in(stdin, ends.stdout):
        run(test)
    os.close(stdin)


def test_a_slow_reader_of_stdout_makes_it_busy(ends: Ends) -> None:
    async def test() -> None:
        owner = Recorder()
        transport = await opened(owner)
        taken = 0
        while transport.send(b"x" * 100_000, taken + 1):
            taken += 1
            await asyncio.sleep(0)
        os.set_blocking(ends.from_server, False)
        size = 0
        while size < taken * 100_001:
            try:
                size += len(os.read(ends.from_server, 1_000_000))
            except BlockingIOError:
                await asyncio.sleep(0)
        assert owner.rooms == 1
        await transport.close()

    with standing_in(ends.stdin, ends.stdout):
        run(test)


def test_a_stdout_that_is_also_stderr_keeps_its_blocking_mode_and_carries_everything(ends: Ends) -> None:
    async def test() -> None:
        owner = Recorder()
        transport = await opened(owner)
        assert os.get_blocking(2)
        frame = b"x" * 200_000
        assert transport.send(frame, 1)
        received = bytearray()
        os.set_blocking(ends.from_server, False)
        while len(received) < 200_001:
            assert os.get_blocking(2), "whoever writes to stderr relies on it"
            try:
                received += os.read(ends.from_server, 1_000_000)
            except BlockingIOError:
                await asyncio.sleep(0)
        assert received == frame + b"\n"
        await transport.close()

    with standing_in(ends.stdin, ends.stdout, ends.stdout):
        run(test)


def test_one_server_at_a_time_has_them(ends: Ends) -> None:
    async def test() -> None:
        first = await opened(Recorder())
        with pytest.raises(TransportError, match="taken by another") as caught:
            await opened(Recorder())
        assert caught.value.permanent
        await first.close()
        second = await opened(Recorder())
        await second.close()

    with standing_in(ends.stdin, ends.stdout):
        run(test)


def test_who_holds_them_has_them_before_and_after_a_transport(ends: Ends) -> None:
    """G15: code of others runs then, too, and what it writes to stdout is not for the client."""

    async def test() -> None:
        target = own_stdio("lines")
        with target.held():
            os.write(1, b"before")
            with pytest.raises(TransportError, match="taken by another"):
                await opened(Recorder())
            owner = Recorder()
            owner.transport = transport = await target.open(owner, 1000, 1.0)
            os.write(ends.to_server, b"one\n")
            await owner.until(lambda: len(owner.frames) == 1)
            assert transport.send(b"answer", 1)
            assert await transport.flush()
            await transport.close()
            os.write(1, b"after")
        assert os.read(ends.from_server, 100) == b"answer\n"
        os.write(1, b"back")
        assert os.read(ends.from_server, 100) == b"back"
        assert os.get_blocking(0)
        await (await opened(Recorder())).close()

    with standing_in(ends.stdin, ends.stdout):
        run(test)


def test_the_end_is_noticed_while_the_owner_does_not_pull(ends: Ends) -> None:
    """G12: nothing more is read then, and what was sent before the end is delivered first."""

    class Idle(Recorder):
        is_idle = True

        def frames_arrived(self) -> None:
            if not self.is_idle:
                super().frames_arrived()

    async def test() -> None:
        owner = Idle()
        told = threading.Event()
        target = own_stdio("lines")
        target.on_end_of_input = told.set
        owner.transport = transport = await target.open(owner, 10_000_000, 1.0)
        os.set_blocking(ends.to_server, False)
        sent = 0
        while not transport._intake.is_full():  # it stops reading
            sent += os.write(ends.to_server, b"line\n" * 1000)
            await asyncio.sleep(0)
        with contextlib.suppress(BlockingIOError):  # and the pipe is full
            while True:
                sent += os.write(ends.to_server, b"line\n" * 100)
        ends.close(ends.to_server)
        await owner.until(lambda: owner.ends)
        assert told.is_set()
        owner.is_idle = False
        owner.frames_arrived()
        assert len(b"\n".join(owner.frames)) + 1 == sent
        await transport.close()

    with standing_in(ends.stdin, ends.stdout):
        run(test)


def test_an_end_that_came_before_the_transport_is_its_end(ends: Ends) -> None:
    async def test() -> None:
        told = threading.Event()
        target = own_stdio("lines")
        target.on_end_of_input = told.set
        with target.held():
            os.write(ends.to_server, b"one\n")
            ends.close(ends.to_server)
            assert await asyncio.to_thread(told.wait, 60)
            owner = Recorder()
            owner.transport = transport = await target.open(owner, 1000, 1.0)
            await owner.until(lambda: owner.ends)
            assert owner.frames == [b"one"]
            await transport.close()
            transport.input_ended()

    with standing_in(ends.stdin, ends.stdout):
        run(test)


def test_a_closed_stdin_is_the_end_at_once(ends: Ends) -> None:
    async def test() -> None:
        owner = Recorder()
        transport = await opened(owner)
        assert os.fstat(0) == os.stat("/dev/null"), "so that it does not become somebody's"
        await owner.until(lambda: owner.ends)
        assert owner.ends[0][2]
        await transport.close()
        with pytest.raises(OSError, match="Bad file"):
            os.fstat(0)
        again = await opened(owner)
        await again.close()
        await asyncio.sleep(0)
        assert len(owner.ends) == 1, "closed before it was told"

    async def with_a_loop_above_zero() -> None:
        os.close(0)
        await test()

    with standing_in(ends.stdin, ends.stdout):
        run(with_a_loop_above_zero)


def test_a_closed_stdout_is_refused_and_can_be_tried_again(ends: Ends) -> None:
    async def test() -> None:
        os.close(1)
        with pytest.raises(TransportError, match="stdout is closed") as caught:
            await opened(Recorder())
        assert caught.value.permanent
        os.dup2(ends.stdout, 1)
        await (await opened(Recorder())).close()

    with standing_in(ends.stdin, ends.stdout):
        run(test)


def test_an_unknown_framing_is_refused() -> None:
    with pytest.raises(UsageError) as caught:
        own_stdio("xml")
    assert caught.value.path == "framing"
    target = own_stdio()
    assert (target.name, target.is_http, target.init_timeout) == ("stdio", False, None)
    assert "lines" in repr(target)


# --- as a process of its own ------------------------------------------------------------------------------------------

ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join([PYTHONPATH, os.environ.get("PYTHONPATH", "")]),
}
FRAMES = b"".join(b'{"n":%d}\n' % number for number in range(2000))
MOVED_PRINTS = ["a print of a child's", "a print of the server's"]


def lines_of(text: bytes) -> list[str]:
    return sorted(text.decode().splitlines())


LOOPS = [
    pytest.param((), id="asyncio"),
    pytest.param(
        ("uvloop",),
        id="uvloop",
        marks=pytest.mark.skipif(
            subprocess.run(
                [sys.executable, "-c", "import uvloop"], capture_output=True, check=False
            ).returncode
            != 0,
            reason="uvloop is an extra",
        ),
    ),
]


@pytest.mark.parametrize("loop", LOOPS)
def test_from_a_file_to_a_file(tmp_path: Path, loop: tuple[str, ...]) -> None:
    (tmp_path / "in").write_bytes(FRAMES)
    with (tmp_path / "in").open("rb") as stdin, (tmp_path / "out").open("wb") as stdout:
        done = subprocess.run(
            [sys.executable, OWN_ECHO, *loop],
            stdin=stdin,
            stdout=stdout,
            stderr=subprocess.PIPE,
            env=ENVIRONMENT,
            timeout=30,
            check=True,
        )
    assert (tmp_path / "out").read_bytes() == FRAMES + b"stdout is back\n"
    expected = [
        *MOVED_PRINTS,
        "blocking afterwards: True True",
        "the end: the client closed our stdin, silent: False",
    ]
    assert lines_of(done.stderr) == expected


@pytest.mark.parametrize("loop", LOOPS)
def test_over_pipes(loop: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, OWN_ECHO, *loop],
        input=FRAMES * 50,
        capture_output=True,
        env=ENVIRONMENT,
        timeout=30,
        check=True,
    )
    assert done.stdout == FRAMES * 50 + b"stdout is back\n"
    assert set(MOVED_PRINTS) < set(lines_of(done.stderr))


@pytest.mark.parametrize("loop", LOOPS)
def test_from_dev_null(loop: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, OWN_ECHO, *loop],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=ENVIRONMENT,
        timeout=30,
        check=True,
    )
    assert done.stdout == b"stdout is back\n"
    assert "silent: True" in done.stderr.decode()


@pytest.mark.parametrize("redirections", ["<&-", "<&- 2>&-", "</dev/null 2>&-"])
def test_with_closed_descriptors(redirections: str) -> None:
    done = subprocess.run(
        f"exec {sys.executable} {OWN_ECHO} {redirections}",
        shell=True,
        capture_output=True,
        env=ENVIRONMENT,
        timeout=30,
        check=False,
    )
    if "2>&-" in redirections:
        # The script's own words to a stderr that is closed go nowhere; that they do not go to stdout is the point.
        assert b"print of" not in done.stdout
    else:
        assert done.returncode == 0
    assert done.stdout == b"stdout is back\n"


def test_with_stdout_and_stderr_in_one_pipe() -> None:
    done = subprocess.run(
        [sys.executable, OWN_ECHO],
        input=FRAMES,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=ENVIRONMENT,
        timeout=30,
        check=True,
    )
    lines = done.stdout.splitlines()
    assert [line for line in lines if line.startswith(b'{"n"')] == FRAMES.splitlines()
    assert b"blocking afterwards: True True" in lines
    assert BY_HAND.splitlines()[0] not in lines, "a client never sees it"


@pytest.mark.parametrize("loop", LOOPS)
def test_on_a_terminal(loop: tuple[str, ...]) -> None:
    controller, terminal = pty.openpty()
    tty.setraw(terminal)
    server = subprocess.Popen(
        [sys.executable, OWN_ECHO, *loop], stdin=terminal, stdout=terminal, stderr=terminal, env=ENVIRONMENT
    )
    try:
        shown = bytearray()
        os.write(controller, b'{"n":1}\n')
        while b'{"n":1}\n' not in shown:
            shown += os.read(controller, 65536)
        os.close(terminal)
        assert server.poll() is None
        os.close(controller)  # hung up
        assert server.wait(30) in (0, 1, 120), (
            "it has ended; its words to a terminal that is gone may have failed"
        )
        assert b"a print of a child's" in shown
        assert bytes(shown).count(BY_HAND) == 1, "who started it by hand is told what it waits for"
    finally:
        server.kill()
        server.wait()
