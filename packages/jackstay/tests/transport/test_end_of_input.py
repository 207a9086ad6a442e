"""Detection of the end of input without reading."""

import os
import pty
import socket
import threading
from collections.abc import Iterator

import pytest

from chaos.leftovers import nothing_left
from jackstay.transport._own_stdio import EndOfInput

# Longer than any test takes.
TIMEOUT = 60.0


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    with nothing_left():
        yield


def watched(fd: int) -> tuple[EndOfInput, threading.Event]:
    ended = threading.Event()
    return EndOfInput(fd, ended.set), ended


def test_a_pipe_that_was_closed_with_unread_data() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"unread")
    end, ended = watched(reading)
    assert repr(end) == "<EndOfInput>"
    assert not ended.is_set(), "unread data is not the end"
    os.close(writing)
    assert ended.wait(TIMEOUT)
    assert end.has_ended
    assert repr(end) == "<EndOfInput has ended>"
    end.stop()
    assert os.read(reading, 10) == b"unread"
    os.close(reading)


def test_a_socket_that_was_shut_down_for_writing() -> None:
    local, remote = socket.socketpair()
    with local, remote:
        end, ended = watched(local.fileno())
        remote.shutdown(socket.SHUT_WR)
        assert ended.wait(TIMEOUT)
        end.stop()


def test_a_terminal_that_hangs_up() -> None:
    controller, terminal = pty.openpty()
    end, ended = watched(terminal)
    os.close(controller)
    assert ended.wait(TIMEOUT)
    end.stop()
    os.close(terminal)


def test_a_stopped_watcher_does_not_call_back() -> None:
    reading, writing = os.pipe()
    end, ended = watched(reading)
    end.stop()
    os.close(writing)
    os.close(reading)
    assert not ended.is_set()
    assert not end.has_ended


def test_an_earlier_end_is_detected() -> None:
    reading, writing = os.pipe()
    os.close(writing)
    end, ended = watched(reading)
    assert ended.wait(TIMEOUT)
    end.stop()
    os.close(reading)
