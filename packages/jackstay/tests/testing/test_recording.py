"""The file: what is written is read again, and what is not a recording is refused by its line, with what to do."""

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
from jackstay.testing._recording import event_line, frame_line, header_line, read_recording
from jackstay.testing._redaction import Redaction
from jackstay.testing._repertoire import Repertoire
from scripted.tapes import HEADER, client, event, write

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


def line_of(frame: bytes, *names: str) -> Any:
    line = frame_line("server", 1.5, 2, frame, Redaction(names))
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    return json.loads(line)


# --- writing ----------------------------------------------------------------------------------------------------------


def test_a_message_is_written_as_it_came() -> None:
    line = frame_line("client", 0.25, 1, PING, Redaction())
    assert line == b'{"at":0.250000,"connection":1,"from":"client","message":' + PING + b"}\n"


def test_line_breaks_of_an_indented_message_become_spaces() -> None:
    assert line_of(b'{"jsonrpc":"2.0",\r\n"id":1,\n"method":"ping"}')["message"]["method"] == "ping"


@pytest.mark.parametrize("frame", [b"Debugger attached.", b'{"jsonrpc":"1.0"}', b"\xc3\xa4 [", b"[" * 200])
def test_what_is_no_message_is_kept_as_text(frame: bytes) -> None:
    assert line_of(frame)["text"] == frame.decode()


def test_what_is_no_text_is_kept_as_bytes() -> None:
    assert line_of(b"\xff\x00")["base64"] == "/wA="


def test_what_cannot_be_searched_for_a_redacted_name_is_left_out() -> None:
    assert "secret" not in str(line_of(b"token=secret", "token"))
    frame = b'{"jsonrpc":"2.0","method":"x","params":{"token":1,"n":' + b"9" * 5000 + b"}}"
    assert "left out" in line_of(frame, "token")["note"]


def test_a_whole_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    redaction = Redaction(["token"])
    path.write_bytes(
        header_line("shop", datetime(2026, 11, 15, tzinfo=UTC), redaction)
        + frame_line("client", 0.5, 1, PING, redaction)
        + b"\n"
        + event_line("server", 1, 1, "ended", "exited", exit=3)
        + event_line("server", 1, 1, "lost", 7, why="gone")
        + event_line("client", 1, 1, "hung_up", "a")
        + event_line("client", 1, 1, "note", "words")
        + frame_line("server", 2, 3, b"[" + PING + b"]", Redaction())
        + frame_line("server", 2, 3, b"text", Redaction())
        + frame_line("server", 2, 3, b"\xff", Redaction())
    )
    recording = read_recording(path)
    assert (recording.header.target, recording.header.recorded) == ("shop", "2026-11-15T00:00:00+00:00")
    assert recording.redaction.names == {"token"}
    ping, end, lost, hung_up, note, batch, text, raw = recording.entries
    assert isinstance(ping.message, Request)
    assert (ping.number, ping.said.at, ping.said.sender) == (2, 0.5, "client")
    assert (end.number, end.said.ended, end.said.exit) == (4, "exited", 3), "a blank line is counted"
    assert (lost.said.lost, lost.said.why, hung_up.said.hung_up, note.said.note) == (7, "gone", "a", "words")
    assert isinstance(batch.message, Batch)
    assert batch.said.connection == 3
    assert (text.rubbish, raw.rubbish) == (b"text", b"\xff")


def test_a_last_line_that_only_lacks_its_newline_is_whole(tmp_path: Path) -> None:
    path = write(tmp_path / "x", client({"jsonrpc": "2.0", "method": "a"}))
    path.write_bytes(path.read_bytes().rstrip())
    (entry,) = read_recording(path).entries
    assert isinstance(entry.message, Notification)


# --- refusing ---------------------------------------------------------------------------------------------------------

# the bytes of a file -> the line, what is said, what to do
GOOD = json.dumps(HEADER).encode() + b"\n"
LINE = b'{"at":0,"from":"client","message":%b}\n'
REFUSED = [
    (b"", 1, "the file is empty", "record the conversation again"),
    (b"\n\n", 1, "the file is empty", "record the conversation again"),
    (b"hello\n", 1, "not the header of a recording ('hello')", "a file that `jackstay record` wrote"),
    (b"\x7fELF\xff\x00" + b"x" * 99, 1, "not the header", "jackstay record"),
    (b'{"mcpServers":{}}\n', 1, "not the header", "jackstay record"),
    (b'{"jackstay":"other","version":1}\n', 1, "not the header", "jackstay record"),
    (b'{"jackstay":"recording","version":"1"}\n', 1, "not the header", "jackstay record"),
    (b"[" * 100_000, 1, "not the header", "jackstay record"),
    (
        b'{"jackstay":"recording","version":2}\n',
        1,
        "version 2, and this Jackstay reads versions up to 1",
        "update",
    ),
    (b'{"jackstay":"recording","version":0}\n', 1, "which there never was", "record again"),
    (b'{"jackstay":"recording","version":1,"redacted":[""]}\n', 1, "an empty name", "mend the line"),
    (b'{"jackstay":"recor', 1, "not the header", "jackstay record"),
    (GOOD + LINE % PING + b'{"at":0.5,"fro', 3, "is cut short", "delete this line"),
    (GOOD + b"\n" + b"nonsense\n", 3, "is not JSON", "delete the line"),
    (GOOD + b"\xff\n", 2, "is not JSON", "delete the line"),
    (GOOD + b'{"at":0,"from":"client","message":' + b"[" * 100_000 + b"\n", 2, "nested too deeply", "delete"),
    (GOOD + LINE % (b"[" * 200 + b"]" * 200), 2, "nested more than 128 deep", "mend the line"),
    (GOOD + LINE % b'{"jsonrpc":"2.0"}', 2, "a message needs `method`", "mend the line"),
    (GOOD + LINE % b"12", 2, "holds what is no message", "mend the line"),
    (GOOD + b"[]\n", 2, "cannot be used", "mend the line"),
    (GOOD + b'{"at":"now","from":"client","text":""}\n', 2, "$.at", "mend the line"),
    (GOOD + b'{"at":-1,"from":"client","text":""}\n', 2, "$.at", "mend the line"),
    (GOOD + b'{"at":1e300,"from":"client","text":""}\n', 2, "$.at", "mend the line"),
    (GOOD + b'{"at":0,"from":"me","text":""}\n', 2, "$.from", "mend the line"),
    (GOOD + b'{"at":0,"from":"client","connection":0,"text":""}\n', 2, "$.connection", "mend the line"),
    (GOOD + b'{"at":0,"from":"client"}\n', 2, "and says none", "mend the line"),
    (GOOD + b'{"at":0,"from":"client","text":"","note":""}\n', 2, "says text and note", "mend the line"),
    (GOOD + b'{"at":0,"from":"client","lost":1}\n', 2, "says lost from the client", "mend the line"),
    (GOOD + b'{"at":0,"from":"server","base64":"?"}\n', 2, "holds no base64", "delete the line"),
]


@pytest.mark.parametrize(("text", "line", "said", "advice"), REFUSED, ids=[row[2][:40] for row in REFUSED])
def test_what_cannot_be_used_is_refused_by_its_line(
    text: bytes, line: int, said: str, advice: str, tmp_path: Path
) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(text)
    with pytest.raises(UsageError) as caught:
        read_recording(path)
    assert f"{path}: line {line} " in str(caught.value)
    assert said in str(caught.value)
    assert advice in str(caught.value)
    assert caught.value.details["line"] == line
    assert len(str(caught.value)) < len(str(path)) + 300, "what is wrong is not repeated at length"


def test_a_line_without_an_end_is_not_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_recording, "MAX_LINE", 1000)
    with pytest.raises(UsageError, match="line 1 is longer than 1000 bytes"):
        read_recording("/dev/zero")
    path = write(tmp_path / "x", event("client", note="x" * 1000))
    with pytest.raises(UsageError, match="line 2 is longer than 1000 bytes"):
        read_recording(path)


def test_a_file_that_is_not_there_is_told_how_to_make_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no recording .*gone: make one with `jackstay record"):
        read_recording(tmp_path / "gone")
    with pytest.raises(UsageError, match=r"cannot read .*: Is a directory"):
        read_recording(tmp_path)
    with pytest.raises(UsageError, match=r"cannot read .*null"):
        read_recording("a\0b")


# --- anything at all --------------------------------------------------------------------------------------------------

WORDS = [
    b'{"jackstay":"recording","version":1}\n',
    b'{"at":0,"from":"client","message":{"jsonrpc":"2.0","id":1,"method":"a","params":{"_meta":{"progressToken":1}}}}\n',
    b'{"at":1,"from":"server","message":{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1}}}\n',
    b'{"at":1,"from":"server","message":{"jsonrpc":"2.0","id":7,"method":"q"}}\n',
    b'{"at":2,"from":"client","message":{"jsonrpc":"2.0","id":7,"result":1}}\n',
    b'{"at":2,"from":"server","message":{"jsonrpc":"2.0","id":1,"result":{}}}\n',
    b'{"at":3,"from":"server","ended":"x"}\n',
    b'{"at":3,"from":"server","lost":1}\n',
    b'"', b"{", b"[", b"1e999", b"null", b"\n", b"\xff", b"9" * 5000, b'"id":', b'"params":[', b'"_meta":1',
]  # fmt: skip


@given(
    st.lists(st.sampled_from(WORDS), max_size=12),
    st.lists(st.tuples(st.integers(0, 900), st.binary(max_size=4)), max_size=3),
)
def test_any_file_is_read_or_refused_in_words(words: list[bytes], changes: list[tuple[int, bytes]]) -> None:
    """Invariant: a recording that can be looked up, or a UsageError; nothing else, whatever is in the file."""
    text = WORDS[0] + b"".join(words)
    for place, change in changes:
        text = text[:place] + change + text[place:]
    with TemporaryDirectory() as folder:
        path = Path(folder, "x")
        path.write_bytes(text)
        said = ": line "
        try:
            repertoire = Repertoire(read_recording(path))
            repertoire.find("a", {"x": 1})
            repertoire.find("initialize", None)
        except UsageError as refused:
            said = str(refused)
        assert ": line " in said
