"""Recordings: writing, reading, and errors for invalid files."""

import json
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackstay.errors import UsageError
from jackstay.protocol.wire import Batch, Notification, Request
from jackstay.testing import _recording
from jackstay.testing._cassette import Cassette
from jackstay.testing._recording import event_line, frame_line, header_line, read_recording
from jackstay.testing._redaction import Redaction
from scripted.cassettes import HEADER, client, event, write

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


def line_of(frame: bytes, *names: str) -> Any:
    line = frame_line("server", 1.5, 2, frame, Redaction(names))
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    return json.loads(line)


# --- writing ----------------------------------------------------------------------------------------------------------


def test_a_message_is_written_unchanged() -> None:
    line = frame_line("client", 0.25, 1, PING, Redaction())
    assert line == b'{"at":0.250000,"connection":1,"from":"client","message":' + PING + b"}\n"


def test_line_breaks_of_an_indented_message_become_spaces() -> None:
    assert line_of(b'{"jsonrpc":"2.0",\r\n"id":1,\n"method":"ping"}')["message"]["method"] == "ping"


def test_a_frame_that_is_not_a_message_is_kept_as_text() -> None:
    for frame in (b"Debugger attached.", b'{"jsonrpc":"1.0"}', b"\xc3\xa4 [", b"[" * 200):
        assert line_of(frame)["text"] == frame.decode()


def test_a_frame_that_is_not_utf_8_is_kept_as_base64() -> None:
    assert line_of(b"\xff\x00")["base64"] == "/wA="


def test_a_frame_that_cannot_be_redacted_is_omitted() -> None:
    assert "secret" not in str(line_of(b"token=secret", "token"))
    frame = b'{"jsonrpc":"2.0","method":"x","params":{"token":1,"n":' + b"9" * 5000 + b"}}"
    assert "omitted" in line_of(frame, "token")["note"]


def test_a_file_is_read_as_written(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    redaction = Redaction(["token"])
    path.write_bytes(
        header_line("shop", datetime(2026, 11, 15, tzinfo=UTC), redaction)
        + frame_line("client", 0.5, 1, PING, redaction)
        + b"\n"
        + event_line("server", 1, 1, "ended", "exited", exit=3)
        + event_line("server", 1, 1, "lost", 7, why="gone")
        + event_line("client", 1, 1, "aborted", "a")
        + event_line("client", 1, 1, "note", "text")
        + frame_line("server", 2, 3, b"[" + PING + b"]", Redaction())
        + frame_line("server", 2, 3, b"text", Redaction())
        + frame_line("server", 2, 3, b"\xff", Redaction())
    )
    recording = read_recording(path)
    assert (recording.header.target, recording.header.recorded) == ("shop", "2026-11-15T00:00:00+00:00")
    assert recording.redaction.names == {"token"}
    ping, end, lost, aborted, note, batch, text, raw = recording.entries
    assert isinstance(ping.content, Request)
    assert (ping.number, ping.line.at, ping.line.sender) == (2, 0.5, "client")
    assert (end.number, end.line.ended, end.line.exit) == (4, "exited", 3), "blank lines are counted"
    assert (lost.line.lost, lost.line.why, aborted.line.aborted, note.line.note) == (7, "gone", "a", "text")
    assert isinstance(batch.content, Batch)
    assert batch.line.connection == 3
    assert (text.content, raw.content) == (b"text", b"\xff")


def test_a_last_line_without_a_newline_is_valid(tmp_path: Path) -> None:
    path = write(tmp_path / "x", client({"jsonrpc": "2.0", "method": "a"}))
    path.write_bytes(path.read_bytes().rstrip())
    (entry,) = read_recording(path).entries
    assert isinstance(entry.content, Notification)


# --- invalid files ----------------------------------------------------------------------------------------------------

# The bytes of a file, the number of the invalid line, the problem, the advice.
GOOD = json.dumps(HEADER).encode() + b"\n"
LINE = b'{"at":0,"from":"client","message":%b}\n'
INVALID = [
    (b"", 1, "the file is empty", "record again"),
    (b"\n\n", 1, "the file is empty", "record again"),
    (b"hello\n", 1, "not the header of a recording ('hello')", "a file written by `jackstay record`"),
    (b"\x7fELF\xff\x00" + b"x" * 99, 1, "not the header", "jackstay record"),
    (b'{"mcpServers":{}}\n', 1, "not the header", "jackstay record"),
    (b'{"jackstay":"other","version":1}\n', 1, "not the header", "jackstay record"),
    (b'{"jackstay":"recording","version":"1"}\n', 1, "not the header", "jackstay record"),
    (b"[" * 100_000, 1, "not the header", "jackstay record"),
    (
        b'{"jackstay":"recording","version":2}\n',
        1,
        "version 2, but this Jackstay reads versions up to 1",
        "update",
    ),
    (b'{"jackstay":"recording","version":0}\n', 1, "the invalid version 0", "record again"),
    (b'{"jackstay":"recording","version":1,"redacted":[""]}\n', 1, "an empty name", "fix the line"),
    (b'{"jackstay":"recor', 1, "not the header", "jackstay record"),
    (GOOD + LINE % PING + b'{"at":0.5,"fro', 3, "is truncated", "delete this line"),
    (GOOD + b"\n" + b"nonsense\n", 3, "is not JSON", "delete the line"),
    (GOOD + b"\xff\n", 2, "is not JSON", "delete the line"),
    (GOOD + b'{"at":0,"from":"client","message":' + b"[" * 100_000 + b"\n", 2, "nested too deeply", "delete"),
    (GOOD + LINE % (b"[" * 200 + b"]" * 200), 2, "nested more than 128 deep", "fix the line"),
    (GOOD + LINE % b'{"jsonrpc":"2.0"}', 2, "a message must have `method`", "fix the line"),
    (GOOD + LINE % b"12", 2, "has an invalid message", "fix the line"),
    (GOOD + b"[]\n", 2, "is invalid", "fix the line"),
    (GOOD + b'{"at":"now","from":"client","text":""}\n', 2, "$.at", "fix the line"),
    (GOOD + b'{"at":-1,"from":"client","text":""}\n', 2, "$.at", "fix the line"),
    (GOOD + b'{"at":1e300,"from":"client","text":""}\n', 2, "$.at", "fix the line"),
    (GOOD + b'{"at":0,"from":"me","text":""}\n', 2, "$.from", "fix the line"),
    (GOOD + b'{"at":0,"from":"client","connection":0,"text":""}\n', 2, "$.connection", "fix the line"),
    (GOOD + b'{"at":0,"from":"client"}\n', 2, "but has none", "fix the line"),
    (GOOD + b'{"at":0,"from":"client","text":"","note":""}\n', 2, "has text and note", "fix the line"),
    (GOOD + b'{"at":0,"from":"client","lost":1}\n', 2, "has lost from the client", "fix the line"),
    (
        GOOD + b'{"at":0,"from":"server","base64":"?"}\n',
        2,
        "Invalid base64 encoded string - at `$.base64`",
        "fix the line",
    ),
]


def test_an_invalid_line_is_reported_with_its_number(tmp_path: Path, subtests: pytest.Subtests) -> None:
    path = tmp_path / "x.jsonl"
    for data, number, problem, advice in INVALID:
        with subtests.test(problem=problem):
            path.write_bytes(data)
            with pytest.raises(UsageError) as caught:
                read_recording(path)
            assert f"{path}: line {number} " in str(caught.value)
            assert problem in str(caught.value)
            assert advice in str(caught.value)
            assert caught.value.details["line"] == number
            assert len(str(caught.value)) < len(str(path)) + 300, "the invalid line is not quoted at length"


def test_an_overlong_line_is_not_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_recording, "MAX_LINE", 1000)
    with pytest.raises(UsageError, match="line 1 is longer than 1000 bytes"):
        read_recording("/dev/zero")
    path = write(tmp_path / "x", event("client", note="x" * 1000))
    with pytest.raises(UsageError, match="line 2 is longer than 1000 bytes"):
        read_recording(path)


def test_the_error_for_a_missing_file_suggests_how_to_create_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no such recording: .*gone'; create it with `jackstay record"):
        read_recording(tmp_path / "gone")
    with pytest.raises(UsageError, match=r"cannot read .*: Is a directory"):
        read_recording(tmp_path)
    with pytest.raises(UsageError, match=r"cannot read .*null"):
        read_recording("a\0b")


# --- arbitrary files --------------------------------------------------------------------------------------------------

PARTS = [
    b'{"jackstay":"recording","version":1}\n',
    b'{"at":0,"from":"client","message":'
    b'{"jsonrpc":"2.0","id":1,"method":"a","params":{"_meta":{"progressToken":1}}}}\n',
    b'{"at":1,"from":"server","message":'
    b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1}}}\n',
    b'{"at":1,"from":"server","message":{"jsonrpc":"2.0","id":7,"method":"q"}}\n',
    b'{"at":2,"from":"client","message":{"jsonrpc":"2.0","id":7,"result":1}}\n',
    b'{"at":2,"from":"server","message":{"jsonrpc":"2.0","id":1,"result":{}}}\n',
    b'{"at":3,"from":"server","ended":"x"}\n',
    b'{"at":3,"from":"server","lost":1}\n',
    b'"',
    b"{",
    b"[",
    b"1e999",
    b"null",
    b"\n",
    b"\xff",
    b"9" * 5000,
    b'"id":',
    b'"params":[',
    b'"_meta":1',
]


@given(
    st.lists(st.sampled_from(PARTS), max_size=12),
    st.lists(st.tuples(st.integers(0, 900), st.binary(max_size=4)), max_size=3),
)
def test_any_file_is_read_or_raises_usage_error(parts: list[bytes], changes: list[tuple[int, bytes]]) -> None:
    """Invariant: any file is a usable recording or raises UsageError with the line."""
    text = PARTS[0] + b"".join(parts)
    for position, change in changes:
        text = text[:position] + change + text[position:]
    with TemporaryDirectory() as folder:
        path = Path(folder, "x")
        path.write_bytes(text)
        message = ""
        try:
            cassette = Cassette(read_recording(path))
            cassette.find("a", {"x": 1})
            cassette.find("initialize", None)
        except UsageError as error:
            message = str(error)
        assert not message or ": line " in message
