"""A child's stderr: lines to wherever they are to go, the last of it kept, whatever the receiver does."""

import io
import logging
from pathlib import Path
from typing import Any

import pytest

from jackstay.errors import UsageError
from jackstay.transport._last_words import KEPT_BYTES, LINE_BYTES, LastWords, check_stderr

# (what is fed, piece by piece; the lines; the line that comes with the end)
LINES = [
    ([b"one\ntwo\n"], ["one", "two"], []),
    ([b"o", b"ne", b"\nt"], ["one"], ["t"]),
    ([b"a\r\n\n"], ["a", ""], []),
    ([b"\xff\n"], ["\ufffd"], []),
    ([b"x" * (2 * LINE_BYTES + 5)], ["x" * LINE_BYTES] * 2, ["x" * 5]),
    ([b"x" * (LINE_BYTES + 5) + b"\n"], ["x" * LINE_BYTES, "x" * 5], []),
    ([b"x" * LINE_BYTES, b"\n"], ["x" * LINE_BYTES, ""], []),
]


@pytest.mark.parametrize(("pieces", "lines", "last"), LINES)
def test_lines_are_passed_on_as_they_are_complete(
    pieces: list[bytes], lines: list[str], last: list[str]
) -> None:
    heard: list[str] = []
    words = LastWords(heard.append, "x")
    for piece in pieces:
        words.feed(piece)
    assert heard == lines
    words.close()
    assert heard == lines + last
    words.close()
    assert heard == lines + last
    assert words.tail() == b"".join(pieces).decode("utf-8", "replace")


def test_the_last_64_kib_are_kept_and_little_more() -> None:
    words = LastWords(lambda line: None, "x")
    for number in range(10_000):
        words.feed(b"%09d\n" % number)
    assert len(words.tail()) == KEPT_BYTES
    assert words.tail().endswith("000009998\n000009999\n")
    assert words._tail_size < KEPT_BYTES + 100
    words.feed(b"y" * 1_000_000)
    words.feed(b"z")
    assert words.tail() == "y" * (KEPT_BYTES - 1) + "z"


def test_lines_go_to_the_log_of_the_server(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "jackstay.server.git"):
        words = LastWords("log", "git")
        words.feed(b"100 %s\n")
    assert caplog.record_tuples == [("jackstay.server.git", logging.INFO, "100 %s")]


def test_a_path_gets_every_byte_at_the_end_of_what_it_has(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"before\n")
    for where in (str(path), path):
        words = LastWords(where, "x")
        words.feed(b"\xffhalf")
        assert path.read_bytes().endswith(b"\xffhalf"), "at once"
        words.close()
    assert path.read_bytes() == b"before\n\xffhalf\xffhalf"


def test_a_file_of_bytes_gets_bytes_and_a_file_of_text_gets_lines(tmp_path: Path) -> None:
    binary, text = io.BytesIO(), io.StringIO()
    for file in (binary, text):
        words = LastWords(file, "x")
        words.feed(b"a\xff\nb")
        words.close()
    assert binary.getvalue() == b"a\xff\nb"
    assert text.getvalue() == "a\ufffd\nb\n"
    with (tmp_path / "log").open("w", encoding="utf-8") as opened:
        LastWords(opened, "x").feed(b"line\n")
        assert (tmp_path / "log").read_text() == "line\n", "flushed"


def test_a_path_that_cannot_be_opened_says_so(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        LastWords(tmp_path / "absent" / "log", "x")


def test_a_receiver_that_fails_is_told_of_once_and_called_again(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[str] = []

    def fail(line: str) -> None:
        heard.append(line)
        raise KeyError(line)

    words = LastWords(fail, "git")
    words.feed(b"one\ntwo\n")
    assert heard == ["one", "two"]
    (record,) = caplog.records
    assert "stderr of git failed" in record.message
    assert record.exc_info is not None


@pytest.mark.parametrize("where", [None, 3, "", b"log"])
def test_what_lines_cannot_go_to_is_refused(where: Any) -> None:
    with pytest.raises(UsageError, match="stderr must be"):
        check_stderr(where)


@pytest.mark.parametrize("where", ["log", "inherit", "/x", Path("/x"), print, io.StringIO()])
def test_what_lines_can_go_to_is_taken(where: Any) -> None:
    check_stderr(where)
