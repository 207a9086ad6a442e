"""The end of a descriptor's input, noticed while nobody reads it."""

import os
import pty
import socket
import threading
from collections.abc import Iterator

import pytest

from chaos.leftovers import nothing_left
from jackstay.transport._end_of_input import EndOfInput

# Far longer than any of it takes.
PATIENCE = 60.0


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    with nothing_left():
        yield


def watched(fd: int) -> tuple[EndOfInput, threading.Event]:
    ended = threading.Event()
    return EndOfInput(fd, ended.set), ended


def test_a_pipe_that_was_closed_with_something_in_it() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"unread")
    end, ended = watched(reading)
    assert repr(end) == "<EndOfInput>"
    assert not ended.is_set(), "what can be read is not the end"
    os.close(writing)
    assert ended.wait(PATIENCE)
    assert end.has_come
    assert repr(end) == "<EndOfInput has come>"
    end.stop()
    assert os.read(reading, 10) == b"unread"
    os.close(reading)


def test_a_socket_whose_other_end_sends_no_more() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        end, ended = watched(ours.fileno())
        theirs.shutdown(socket.SHUT_WR)
        assert ended.wait(PATIENCE)
        end.stop()


def test_a_terminal_that_hangs_up() -> None:
    ours, theirs = pty.openpty()
    end, ended = watched(theirs)
    os.close(ours)
    assert ended.wait(PATIENCE)
    end.stop()
    os.close(theirs)


def test_one_that_is_stopped_tells_nobody() -> None:
    reading, writing = os.pipe()
    end, ended = watched(reading)
    end.stop()
    os.close(writing)
    os.close(reading)
    assert not ended.is_set()
    assert not end.has_come


def test_an_end_that_was_there_before_is_noticed() -> None:
    reading, writing = os.pipe()
    os.close(writing)
    end, ended = watched(reading)
    assert ended.wait(PATIENCE)
    end.stop()
    os.close(reading)
