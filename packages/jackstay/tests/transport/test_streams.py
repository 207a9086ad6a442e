"""Moving and restoring descriptors 0, 1 and 2; whole servers are in test_own_stdio."""

import fcntl
import os
import socket
import sys

import pytest

from chaos.redirected_stdio import redirected_stdio
from jackstay.transport import _own_stdio
from jackstay.transport._own_stdio import Streams, is_open


def identity(fd: int) -> tuple[int, int]:
    found = os.fstat(fd)
    return found.st_dev, found.st_ino


def test_the_moved_descriptors_are_above_2_and_close_on_exec() -> None:
    reader, writer = os.pipe()
    with redirected_stdio(reader, writer):
        streams = Streams()
        for fd in (streams.input, streams.output, streams._null):
            assert fd > 2
            assert not os.get_inheritable(fd)
        assert all(map(os.get_inheritable, (0, 1))), "children inherit them"
        assert identity(1) == identity(2)
        streams.restore()
    os.close(reader)
    os.close(writer)


@pytest.mark.skipif(not hasattr(fcntl, "F_SETPIPE_SZ"), reason="only Linux has pipes of another size")
@pytest.mark.parametrize(("before", "after"), [(65_536, _own_stdio.PIPE_BYTES), (1_048_576, 1_048_576)])
def test_stdout_is_enlarged_unless_it_is_larger(before: int, after: int) -> None:
    """A list of 100 tools is written at once."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, before)
    with redirected_stdio(reader, writer):
        Streams().restore()
    assert fcntl.fcntl(writer, fcntl.F_GETPIPE_SZ) == after
    os.close(reader)
    os.close(writer)


@pytest.mark.skipif(not hasattr(fcntl, "F_SETPIPE_SZ"), reason="only Linux has pipes of another size")
def test_a_pipe_that_cannot_be_enlarged_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(fd: int, command: int, argument: int = 0) -> int:
        if command == fcntl.F_SETPIPE_SZ:
            raise PermissionError(1, "over the limit of the user")
        return plain(fd, command, argument)

    plain = fcntl.fcntl
    reader, writer = os.pipe()
    monkeypatch.setattr(fcntl, "fcntl", refuse)
    with redirected_stdio(reader, writer):
        Streams().restore()
    assert plain(writer, fcntl.F_GETPIPE_SZ) == 65_536
    os.close(reader)
    os.close(writer)


@pytest.mark.parametrize(("what", "is_watchable"), [("pipe", True), ("socket", True), ("file", False), ("null", False)])
def test_pipes_and_sockets_can_be_watched(what: str, is_watchable: bool, tmp_path: object) -> None:
    if what == "pipe":
        fds = list(os.pipe())
    elif what == "socket":
        fds = [end.detach() for end in socket.socketpair()]
    else:
        path = os.devnull if what == "null" else f"{tmp_path}/file"
        fds = [os.open(path, os.O_RDWR | os.O_CREAT) for _ in range(2)]
    with redirected_stdio(fds[0], fds[1]):
        streams = Streams()
        assert streams.is_input_watchable is is_watchable
        assert not streams.must_not_wait
        assert os.get_blocking(streams.output) is not is_watchable
        streams.restore()
        assert os.get_blocking(0)
        assert os.get_blocking(1)
    for fd in fds:
        os.close(fd)


def test_a_description_shared_with_stderr_keeps_its_mode() -> None:
    ends = [end.detach() for end in socket.socketpair()]
    with redirected_stdio(ends[0], ends[0], ends[0]):
        streams = Streams()
        assert streams.must_not_wait
        assert streams.is_input_shared
        assert os.get_blocking(2)
        streams.restore()
    for fd in ends:
        os.close(fd)


def test_a_file_opened_twice_is_not_shared(tmp_path: object) -> None:
    fifo = f"{tmp_path}/fifo"
    os.mkfifo(fifo)
    fds = [os.open(fifo, os.O_RDWR) for _ in range(2)]
    with redirected_stdio(None, fds[0], fds[1]):
        streams = Streams()
        assert not streams.must_not_wait
        assert not os.get_blocking(streams.output)
        assert os.get_blocking(2)
        streams.restore()
    for fd in fds:
        os.close(fd)


def test_without_a_stderr_prints_are_discarded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "__stderr__", None)
    reader, writer = os.pipe()
    with redirected_stdio(reader, writer):
        streams = Streams()
        assert identity(1) == identity(0)
        streams.restore()
    os.close(reader)
    os.close(writer)


def test_a_descriptor_that_was_closed_at_startup_is_not_touched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "__stdin__", None)
    assert not is_open(0)
    reader, writer = os.pipe()
    with redirected_stdio(reader, writer):
        before = identity(0)
        streams = Streams()
        assert identity(streams.input) == identity(streams._null)
        assert identity(0) == before, "it may belong to the loop"
        streams.restore()
        assert identity(0) == before
    os.close(reader)
    os.close(writer)


def test_buffered_prints_do_not_appear_on_the_restored_stdout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reader, writer = os.pipe()
    errors, to_errors = os.pipe()
    with redirected_stdio(None, writer, to_errors), open(1, "w", closefd=False) as standard:
        monkeypatch.setattr(sys, "stdout", standard)
        streams = Streams()
        standard.write("printed")
        streams.restore()
        monkeypatch.undo()
    os.close(writer)
    assert os.read(reader, 100) == b""
    assert os.read(errors, 100) == b"printed"
    for fd in (reader, errors, to_errors):
        os.close(fd)


@pytest.mark.parametrize("stdout", [None, "closed"])
def test_a_stdout_that_cannot_be_flushed_is_ignored(monkeypatch: pytest.MonkeyPatch, stdout: str | None) -> None:
    file = None
    if stdout == "closed":
        with open(os.devnull, "w") as file:
            pass
    monkeypatch.setattr(sys, "stdout", file)
    reader, writer = os.pipe()
    with redirected_stdio(reader, writer):
        Streams().restore()
    os.close(reader)
    os.close(writer)
    assert _own_stdio.is_open(1)


def test_a_closed_stdin_is_reserved_and_closed_again() -> None:
    reader, writer = os.pipe()
    with redirected_stdio(reader, writer):
        os.close(0)
        streams = Streams()
        assert identity(streams.input) == identity(streams._null)
        assert identity(0) == identity(streams._null)
        streams.restore()
        assert not is_open(0)
    os.close(reader)
    os.close(writer)


def test_a_closed_stdout_is_rejected_before_anything_is_moved() -> None:
    with redirected_stdio():
        before = identity(0)
        os.close(1)
        with pytest.raises(OSError, match="stdout is closed"):
            Streams()
        assert identity(0) == before
