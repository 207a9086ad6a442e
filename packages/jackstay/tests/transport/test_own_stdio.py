"""A server on its own stdin and stdout: in this process with replaced descriptors, and in a child process."""

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

from chaos.redirected_stdio import redirected_stdio
from jackstay.errors import FrameTooLargeError, ProtocolError, TransportError, UsageError
from jackstay.testing.transport_suite import RecordingHandler, run
from jackstay.transport import own_stdio
from jackstay.transport._own_stdio import INTERACTIVE_HINT, OwnStdioTransport
from jackstay.transport._pipe import FULL_BYTES
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


async def opened(handler: RecordingHandler, framing: str = "lines", limit: int = 10_000_000) -> OwnStdioTransport:
    transport = await own_stdio(framing).open(handler, limit, 1.0)
    handler.transport = transport
    return transport


def test_frames_are_sent_and_received_and_descriptors_restored(ends: Ends) -> None:
    async def test() -> None:
        handler = RecordingHandler()
        transport = await opened(handler)
        assert os.fstat(0) == os.stat("/dev/null")
        os.write(ends.to_server, b"one\ntwo\n")
        await handler.until(lambda: len(handler.frames) == 2)
        assert transport.send(b"answer", 1)
        assert transport.send(b"withdrawn", 2)
        assert transport.withdraw(2)
        await handler.until(lambda: handler.through == 1)
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
        assert handler.ends == []

    with redirected_stdio(ends.stdin, ends.stdout):
        run(test)


def test_the_blocking_mode_is_restored(ends: Ends) -> None:
    os.set_blocking(ends.stdin, False)
    os.set_blocking(ends.stdout, False)

    async def test() -> None:
        transport = await opened(RecordingHandler())
        await transport.close()
        assert not os.get_blocking(0)
        assert not os.get_blocking(1)

    with redirected_stdio(ends.stdin, ends.stdout):
        run(test)


def test_responses_can_be_sent_after_the_end_of_stdin(ends: Ends) -> None:
    async def test() -> None:
        handler = RecordingHandler()
        transport = await opened(handler)
        os.write(ends.to_server, b"one\nincomplete")
        ends.close(ends.to_server)
        await handler.until(lambda: handler.ends)
        assert handler.frames == [b"one", b"incomplete"]
        assert handler.frames_at_end == 2
        ((error, code, was_silent),) = handler.ends
        assert str(error) == "the client closed stdin"
        assert (code, was_silent) == (None, False)
        assert "down" in repr(transport)
        assert transport.send(b"answer", 1)
        await handler.until(lambda: handler.through == 1)
        assert os.read(ends.from_server, 100) == b"answer\n"
        await transport.close()

    with redirected_stdio(ends.stdin, ends.stdout):
        run(test)


def test_a_closed_stdout_ends_the_connection(ends: Ends) -> None:
    async def test() -> None:
        handler = RecordingHandler()
        transport = await opened(handler)
        ends.close(ends.from_server)
        os.write(ends.to_server, b"last line\n")
        assert transport.send(b"answer", 1)
        await handler.until(lambda: handler.ends)
        assert handler.frames == [b"last line"], "delivered first"
        assert "closed stdout (Broken pipe)" in str(handler.ends[0][0])
        assert not transport.send(b"answer", 2)
        ends.close(ends.to_server)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await transport.close()
        assert len(handler.ends) == 1

    with redirected_stdio(ends.stdin, ends.stdout):
        run(test)


def test_a_lost_framing_and_a_frame_over_the_limit_are_reported(ends: Ends) -> None:
    async def test() -> None:
        handler = RecordingHandler()
        transport = await opened(handler, "content-length", limit=10)
        with pytest.raises(FrameTooLargeError):
            transport.send(b"x" * 11, 1)
        os.write(ends.to_server, b"{}\n")
        await handler.until(lambda: handler.ends)
        assert isinstance(handler.ends[0][0], ProtocolError)
        await transport.close()

    with redirected_stdio(ends.stdin, ends.stdout):
        run(test)


def test_reading_stops_while_the_handler_does_not_pull(ends: Ends, tmp_path: Path) -> None:
    lines = 4000
    (tmp_path / "in").write_bytes((b"x" * 999 + b"\n") * lines)

    async def test() -> None:
        handler = RecordingHandler()
        handler.pulls = False
        transport = await opened(handler)
        while not transport._frames.is_full():
            await asyncio.sleep(0)
        assert transport._frames.framer.buffered < 2 * FULL_BYTES
        assert handler.ends == []
        handler.pulls = True
        handler.pull()
        await handler.until(lambda: handler.ends)
        assert len(handler.frames) == lines
        await transport.close()

    stdin = os.open(tmp_path / "in", os.O_RDONLY)
    with redirected_stdio(stdin, ends.stdout):
        run(test)
    os.close(stdin)


def test_a_slow_reader_of_stdout_makes_it_busy(ends: Ends) -> None:
    async def test() -> None:
        handler = RecordingHandler()
        transport = await opened(handler)
        accepted = 0
        while transport.send(b"x" * 100_000, accepted + 1):
            accepted += 1
            await asyncio.sleep(0)
        os.set_blocking(ends.from_server, False)
        size = 0
        while size < accepted * 100_001:
            try:
                size += len(os.read(ends.from_server, 1_000_000))
            except BlockingIOError:
                await asyncio.sleep(0)
        assert handler.room_calls == 1
        await transport.close()

    with redirected_stdio(ends.stdin, ends.stdout):
        run(test)


def test_a_stdout_shared_with_stderr_keeps_its_blocking_mode(ends: Ends) -> None:
    async def test() -> None:
        handler = RecordingHandler()
        transport = await opened(handler)
        assert os.get_blocking(2)
        frame = b"x" * 200_000
        assert transport.send(frame, 1)
        received = bytearray()
        os.set_blocking(ends.from_server, False)
        while len(received) < 200_001:
            assert os.get_blocking(2), "writers to stderr rely on it"
            try:
                received += os.read(ends.from_server, 1_000_000)
            except BlockingIOError:
                await asyncio.sleep(0)
        assert received == frame + b"\n"
        await transport.close()

    with redirected_stdio(ends.stdin, ends.stdout, ends.stdout):
        run(test)


def test_only_one_server_can_use_stdio_at_a_time(ends: Ends) -> None:
    async def test() -> None:
        first = await opened(RecordingHandler())
        with pytest.raises(TransportError, match="in use by another") as caught:
            await opened(RecordingHandler())
        assert caught.value.permanent
        await first.close()
        second = await opened(RecordingHandler())
        await second.close()

    with redirected_stdio(ends.stdin, ends.stdout):
        run(test)


def test_a_target_cannot_be_opened_twice_at_a_time(ends: Ends) -> None:
    async def test() -> None:
        target = own_stdio()
        first = await target.open(RecordingHandler(), 1000, 1.0)
        with pytest.raises(TransportError, match="in use by another"):
            await target.open(RecordingHandler(), 1000, 1.0)
        await first.close()
        again = await target.open(RecordingHandler(), 1000, 1.0)
        await again.close()

    with redirected_stdio(ends.stdin, ends.stdout):
        run(test)


def test_acquired_descriptors_outlive_a_transport(ends: Ends) -> None:
    """docs/guarantees.md G15: user code that runs before or after the transport cannot write to the client."""

    async def test() -> None:
        target = own_stdio("lines")
        with target.acquired():
            os.write(1, b"before")
            with pytest.raises(TransportError, match="in use by another"):
                await opened(RecordingHandler())
            handler = RecordingHandler()
            handler.transport = transport = await target.open(handler, 1000, 1.0)
            os.write(ends.to_server, b"one\n")
            await handler.until(lambda: len(handler.frames) == 1)
            assert transport.send(b"answer", 1)
            assert await transport.flush()
            await transport.close()
            os.write(1, b"after")
        assert os.read(ends.from_server, 100) == b"answer\n"
        os.write(1, b"back")
        assert os.read(ends.from_server, 100) == b"back"
        assert os.get_blocking(0)
        await (await opened(RecordingHandler())).close()

    with redirected_stdio(ends.stdin, ends.stdout):
        run(test)


def test_the_end_is_detected_while_the_handler_does_not_pull(ends: Ends) -> None:
    """docs/guarantees.md G12; frames before the end are delivered first."""

    class Idle(RecordingHandler):
        is_idle = True

        def frames_arrived(self) -> None:
            if not self.is_idle:
                super().frames_arrived()

    async def test() -> None:
        handler = Idle()
        has_ended = threading.Event()
        target = own_stdio("lines")
        target.on_end_of_input = has_ended.set
        handler.transport = transport = await target.open(handler, 10_000_000, 1.0)
        os.set_blocking(ends.to_server, False)
        sent = 0
        while not transport._frames.is_full():  # it stops reading
            sent += os.write(ends.to_server, b"line\n" * 1000)
            await asyncio.sleep(0)
        with contextlib.suppress(BlockingIOError):  # and the pipe is full
            while True:
                sent += os.write(ends.to_server, b"line\n" * 100)
        ends.close(ends.to_server)
        await handler.until(lambda: handler.ends)
        assert has_ended.is_set()
        handler.is_idle = False
        handler.frames_arrived()
        assert len(b"\n".join(handler.frames)) + 1 == sent
        await transport.close()

    with redirected_stdio(ends.stdin, ends.stdout):
        run(test)


def test_an_earlier_end_of_input_ends_the_transport(ends: Ends) -> None:
    async def test() -> None:
        has_ended = threading.Event()
        target = own_stdio("lines")
        target.on_end_of_input = has_ended.set
        with target.acquired():
            os.write(ends.to_server, b"one\n")
            ends.close(ends.to_server)
            assert await asyncio.to_thread(has_ended.wait, 60)
            handler = RecordingHandler()
            handler.transport = transport = await target.open(handler, 1000, 1.0)
            await handler.until(lambda: handler.ends)
            assert handler.frames == [b"one"]
            await transport.close()
            transport.input_ended()

    with redirected_stdio(ends.stdin, ends.stdout):
        run(test)


def test_a_closed_stdin_is_the_end_at_once(ends: Ends) -> None:
    async def test() -> None:
        handler = RecordingHandler()
        transport = await opened(handler)
        assert os.fstat(0) == os.stat("/dev/null"), "so that the descriptor is not reused"
        await handler.until(lambda: handler.ends)
        assert handler.ends[0][2]
        await transport.close()
        with pytest.raises(OSError, match="Bad file"):
            os.fstat(0)
        again = await opened(handler)
        await again.close()
        await asyncio.sleep(0)
        assert len(handler.ends) == 1, "closed before the report"

    async def close_stdin_and_test() -> None:
        os.close(0)
        await test()

    with redirected_stdio(ends.stdin, ends.stdout):
        run(close_stdin_and_test)


def test_a_closed_stdout_is_rejected_and_can_be_retried(ends: Ends) -> None:
    async def test() -> None:
        os.close(1)
        with pytest.raises(TransportError, match="stdout is closed") as caught:
            await opened(RecordingHandler())
        assert caught.value.permanent
        os.dup2(ends.stdout, 1)
        await (await opened(RecordingHandler())).close()

    with redirected_stdio(ends.stdin, ends.stdout):
        run(test)


def test_an_unknown_framing_is_rejected() -> None:
    with pytest.raises(UsageError) as caught:
        own_stdio("xml")
    assert caught.value.path == "framing"
    target = own_stdio()
    assert (target.name, target.is_http, target.init_timeout) == ("stdio", False, None)
    assert "lines" in repr(target)


# --- in a child process -----------------------------------------------------------------------------------------------

ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join([PYTHONPATH, os.environ.get("PYTHONPATH", "")]),
}
FRAMES = b"".join(b'{"n":%d}\n' % number for number in range(2000))
REDIRECTED_PRINTS = ["a print of a child's", "a print of the server's"]


def lines_of(text: bytes) -> list[str]:
    return sorted(text.decode().splitlines())


LOOPS = [
    pytest.param((), id="asyncio"),
    pytest.param(
        ("uvloop",),
        id="uvloop",
        marks=pytest.mark.skipif(
            subprocess.run([sys.executable, "-c", "import uvloop"], capture_output=True, check=False).returncode != 0,
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
            timeout=240,
            check=True,
        )
    assert (tmp_path / "out").read_bytes() == FRAMES + b"stdout is back\n"
    expected = [
        *REDIRECTED_PRINTS,
        "blocking afterwards: True True",
        "the end: the client closed stdin, silent: False",
    ]
    assert lines_of(done.stderr) == expected


@pytest.mark.parametrize("loop", LOOPS)
def test_over_pipes(loop: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, OWN_ECHO, *loop],
        input=FRAMES * 50,
        capture_output=True,
        env=ENVIRONMENT,
        timeout=240,
        check=True,
    )
    assert done.stdout == FRAMES * 50 + b"stdout is back\n"
    assert set(REDIRECTED_PRINTS) < set(lines_of(done.stderr))


@pytest.mark.parametrize("loop", LOOPS)
def test_from_dev_null(loop: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, OWN_ECHO, *loop],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=ENVIRONMENT,
        timeout=240,
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
        timeout=240,
        check=False,
    )
    if "2>&-" in redirections:
        # Messages of the script to a closed stderr are lost; they must not appear on stdout.
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
        timeout=240,
        check=True,
    )
    lines = done.stdout.splitlines()
    assert [line for line in lines if line.startswith(b'{"n"')] == FRAMES.splitlines()
    assert b"blocking afterwards: True True" in lines
    assert INTERACTIVE_HINT.splitlines()[0] not in lines, "not shown to a client"


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
        assert server.wait(120) in (0, 1, 120), "it has exited, maybe with a failed write to the terminal"
        assert b"a print of a child's" in shown
        assert bytes(shown).count(INTERACTIVE_HINT) == 1, "the hint is shown once"
    finally:
        server.kill()
        server.wait()
