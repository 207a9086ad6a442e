"""The stderr of a child: destinations, the kept tail, and failing destinations."""

import io
import logging
from pathlib import Path

import pytest

from jackstay.errors import UsageError
from jackstay.transport._stderr_tail import KEPT_BYTES, LINE_BYTES, StderrTail, check_stderr

# (chunks, lines, the line at the end)
LINES = [
    ([b"one\ntwo\n"], ["one", "two"], []),
    ([b"o", b"ne", b"\nt"], ["one"], ["t"]),
    ([b"a\r\n\n"], ["a", ""], []),
    ([b"\xff\n"], ["\ufffd"], []),
    ([b"x" * (2 * LINE_BYTES + 5)], ["x" * LINE_BYTES] * 2, ["x" * 5]),
    ([b"x" * (LINE_BYTES + 5) + b"\n"], ["x" * LINE_BYTES, "x" * 5], []),
    ([b"x" * LINE_BYTES, b"\n"], ["x" * LINE_BYTES, ""], []),
]


def test_complete_lines_are_forwarded() -> None:
    for chunks, lines, last in LINES:
        received: list[str] = []
        tail = StderrTail(received.append, "x")
        for chunk in chunks:
            tail.feed(chunk)
        assert received == lines
        tail.close()
        assert received == lines + last
        tail.close()
        assert received == lines + last
        assert tail.tail() == b"".join(chunks).decode("utf-8", "replace")


def test_the_last_64_kib_are_kept() -> None:
    tail = StderrTail(lambda line: None, "x")
    for number in range(10_000):
        tail.feed(b"%09d\n" % number)
    assert len(tail.tail()) == KEPT_BYTES
    assert tail.tail().endswith("000009998\n000009999\n")
    assert len(tail._tail) <= KEPT_BYTES
    tail.feed(b"y" * 1_000_000)
    tail.feed(b"z")
    assert tail.tail() == "y" * (KEPT_BYTES - 1) + "z"


def test_lines_go_to_the_log_of_the_server(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "jackstay.server.git"):
        tail = StderrTail("log", "git")
        tail.feed(b"100 %s\n")
    assert caplog.record_tuples == [("jackstay.server.git", logging.INFO, "100 %s")]


def test_a_path_is_appended_to(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"before\n")
    for destination in (str(path), path):
        tail = StderrTail(destination, "x")
        tail.feed(b"\xffhalf")
        assert path.read_bytes().endswith(b"\xffhalf"), "unbuffered"
        tail.close()
    assert path.read_bytes() == b"before\n\xffhalf\xffhalf"


def test_a_binary_file_gets_bytes_and_a_text_file_gets_lines(tmp_path: Path) -> None:
    binary, text = io.BytesIO(), io.StringIO()
    for file in (binary, text):
        tail = StderrTail(file, "x")
        tail.feed(b"a\xff\nb")
        tail.close()
    assert binary.getvalue() == b"a\xff\nb"
    assert text.getvalue() == "a\ufffd\nb\n"
    with (tmp_path / "log").open("w", encoding="utf-8") as opened:
        StderrTail(opened, "x").feed(b"line\n")
        assert (tmp_path / "log").read_text() == "line\n", "flushed"


def test_a_path_that_cannot_be_opened_raises(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        StderrTail(tmp_path / "absent" / "log", "x")


def test_a_failing_destination_is_logged_once_and_called_again(caplog: pytest.LogCaptureFixture) -> None:
    received: list[str] = []

    def fail(line: str) -> None:
        received.append(line)
        raise KeyError(line)

    tail = StderrTail(fail, "git")
    tail.feed(b"one\ntwo\n")
    assert received == ["one", "two"]
    (record,) = caplog.records
    assert "the stderr destination of git failed" in record.message
    assert record.exc_info is not None


def test_invalid_destinations_are_rejected() -> None:
    for destination in [None, 3, "", b"log"]:
        with pytest.raises(UsageError, match="stderr must be"):
            check_stderr(destination)


def test_valid_destinations_are_accepted() -> None:
    for destination in ["log", "inherit", "/x", Path("/x"), print, io.StringIO()]:
        check_stderr(destination)
