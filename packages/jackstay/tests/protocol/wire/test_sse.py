"""Server-sent events: the WHATWG rules as rows, every split, and an oracle that reads the whole stream at once.

"WHATWG" is the chapter "Server-sent events" of the HTML standard, section "Parsing an event stream" (9.2.5) and
"Interpreting an event stream" (9.2.6); "2025-11-25" is basic/transports of that revision of MCP.
"""

import itertools
import re
import time
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackstay.errors import FrameTooLargeError, ProtocolError, UsageError
from jackstay.protocol.wire._sse import (
    KEEP_ALIVE,
    MAX_RETRY,
    EventReader,
    ServerSentEvent,
    encode_event,
)

Event = ServerSentEvent


LARGE = "over the limit"


def read_events(reader: EventReader) -> list[ServerSentEvent | str]:
    events: list[ServerSentEvent | str] = []
    while True:
        try:
            event = reader.next_event()
        except FrameTooLargeError as error:
            events.append(LARGE if error.limit == reader.limit < error.size else "wrong fields")
            continue
        if event is None:
            return events
        events.append(event)


def read(*chunks: bytes, limit: int = 1_000_000) -> tuple[list[ServerSentEvent | str], EventReader]:
    reader = EventReader(limit)
    events: list[ServerSentEvent | str] = []
    for chunk in chunks:
        reader.feed(chunk)
        events += read_events(reader)
        assert reader.buffered <= limit + len(b"\xef\xbb\xbfdata: ")
    return events, reader


class Row(NamedTuple):
    rule: str
    stream: bytes
    events: list[ServerSentEvent]
    last_id: str
    retry: int | None

    def check(self, *chunks: bytes) -> None:
        found, reader = read(*chunks)
        assert found == self.events
        assert (reader.last_event_id, reader.retry) == (self.last_id, self.retry)


STREAMS = [
    Row("WHATWG: a blank line ends an event", b"data: a\n\n", [Event(b"a")], "", None),
    Row("WHATWG: lines end in CR", b"data: a\r\r", [Event(b"a")], "", None),
    Row("WHATWG: lines end in CRLF", b"data: a\r\n\r\n", [Event(b"a")], "", None),
    Row("WHATWG: line ends may be mixed", b"data: a\r\ndata: b\rdata: c\n\r\n", [Event(b"a\nb\nc")], "", None),
    Row("WHATWG: LF CR is two line ends", b"data: a\n\rdata: b\n\n", [Event(b"a"), Event(b"b")], "", None),
    Row("WHATWG: data lines are joined by LF", b"data: a\ndata: b\n\n", [Event(b"a\nb")], "", None),
    Row(
        "WHATWG: one space after the colon is dropped",
        b"data:a\n\ndata:  b\n\n",
        [Event(b"a"), Event(b" b")],
        "",
        None,
    ),
    Row("WHATWG: a tab is not a space", b"data:\ta\n\n", [Event(b"\ta")], "", None),
    Row("WHATWG: a colon in a value is data", b"data: a: b\n\n", [Event(b"a: b")], "", None),
    Row(
        "WHATWG: a field without colon is empty",
        b"data\n\ndata\ndata\n\ndata:",
        [Event(b""), Event(b"\n")],
        "",
        None,
    ),
    Row("WHATWG: empty data lines count", b"data:\ndata:\n\n", [Event(b"\n")], "", None),
    Row("WHATWG: a byte order mark at the start is dropped", b"\xef\xbb\xbfdata: a\n\n", [Event(b"a")], "", None),
    Row("WHATWG: only one byte order mark is dropped", b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\n", [], "", None),
    Row("WHATWG: a later byte order mark is part of the name", b"\n\xef\xbb\xbfdata: a\n\n", [], "", None),
    Row("WHATWG: comments are skipped", b": one\n:\n::\ndata: a\n: two\ndata: b\n\n", [Event(b"a\nb")], "", None),
    Row("WHATWG: unknown fields are skipped", b"foo: bar\nDATA: x\ndataset: y\n data: z\n\n", [], "", None),
    Row("WHATWG: event names", b"event: endpoint\ndata: /m\n\n", [Event(b"/m", "endpoint")], "", None),
    Row("WHATWG: the last name wins", b"event: a\nevent: b\ndata: x\n\n", [Event(b"x", "b")], "", None),
    Row("WHATWG: an empty name is message", b"event: a\nevent:\ndata: x\n\n", [Event(b"x")], "", None),
    Row("WHATWG: a name without data is dropped", b"event: a\n\ndata: x\n\n", [Event(b"x")], "", None),
    Row("WHATWG: names may be any string", "event: é\ndata: x\n\n".encode(), [Event(b"x", "é")], "", None),
    Row("WHATWG: ids persist", b"id: 1\ndata: x\n\ndata: y\n\n", [Event(b"x", id="1"), Event(b"y")], "1", None),
    Row(
        "WHATWG: an empty id resets",
        b"id: 1\ndata: x\n\nid\ndata: y\n\n",
        [Event(b"x", id="1"), Event(b"y", id="")],
        "",
        None,
    ),
    Row("WHATWG: an id with NUL is ignored", b"id: 1\ndata: x\nid: 2\0\n\n", [Event(b"x", id="1")], "1", None),
    Row("WHATWG: an id may be any string", "id: ÿ 1\ndata: x\n\n".encode(), [Event(b"x", id="ÿ 1")], "ÿ 1", None),
    Row(
        "WHATWG: an incomplete event does not move the id",
        b"id: 1\n\nid: 2\ndata: x\n",
        [Event(b"", id="1")],
        "1",
        None,
    ),
    Row("WHATWG: retry", b"retry: 500\ndata: x\n\n", [Event(b"x", retry=500)], "", 500),
    Row("WHATWG: retry works without a blank line", b"retry: 500\n", [], "", 500),
    Row(
        "WHATWG: retry must be digits",
        b"retry: 5s\nretry: -1\nretry:\nretry: +1\nretry: 1.5\nretry: \xd9\xa1\ndata: x\n\n",
        [Event(b"x")],
        "",
        None,
    ),
    Row("leading zeros are digits", b"retry: 000250\n\n", [Event(b"", retry=250)], "", 250),
    Row("zero is valid", b"retry: 0\n\n", [Event(b"", retry=0)], "", 0),
    Row("31 years", b"retry: 999999999999\n\n", [Event(b"", retry=999_999_999_999)], "", 999_999_999_999),
    Row("more is clamped", b"retry: 1000000000000\n\n", [Event(b"", retry=999_999_999_999)], "", 999_999_999_999),
    Row(
        "a retry too long for int() is clamped",
        b"retry: " + b"9" * 5_000 + b"\n\n",
        [Event(b"", retry=MAX_RETRY)],
        "",
        MAX_RETRY,
    ),
    Row("2025-11-25: a priming event, with a data line", b"id: a-1\ndata: \n\n", [Event(b"", id="a-1")], "a-1", None),
    Row(
        "2025-11-25: a priming event, without one",
        b"id: a-1\nretry: 2000\n\n",
        [Event(b"", id="a-1", retry=2000)],
        "a-1",
        2000,
    ),
    Row("WHATWG: an incomplete event is discarded", b"data: a\n\ndata: b\n", [Event(b"a")], "", None),
    Row("WHATWG: an incomplete line is discarded", b"data: a\n\ndata: b", [Event(b"a")], "", None),
    Row("an incomplete comment is not an event", b"data: a\n\n: b", [Event(b"a")], "", None),
    Row("a byte order mark alone is not an event", b"\xef\xbb\xbf", [], "", None),
    Row("half a byte order mark is not an event", b"\xef\xbb", [], "", None),
    Row("an empty stream", b"", [], "", None),
    Row("only keep-alives", KEEP_ALIVE * 3, [], "", None),
    Row(
        "U+2028 does not end a line",
        "data: a\u2028b\u0085c\n\n".encode(),
        [Event("a\u2028b\u0085c".encode())],
        "",
        None,
    ),
    Row("NUL in data is data", b"data: a\0b\n\n", [Event(b"a\0b")], "", None),
    Row("bad UTF-8 in data is not changed", b"data: \xff\xfe\n\n", [Event(b"\xff\xfe")], "", None),
    Row("bad UTF-8 in a comment is skipped", b": \xff\ndata: a\n\n", [Event(b"a")], "", None),
]


def test_streams_read_whole_byte_by_byte_and_at_every_split(subtests: pytest.Subtests):
    for row in STREAMS:
        with subtests.test(rule=row.rule):
            row.check(row.stream)
            row.check(*(row.stream[at : at + 1] for at in range(len(row.stream))))
            for split in itertools.chain(range(min(200, len(row.stream) + 1)), (len(row.stream),)):
                row.check(row.stream[:split], b"", row.stream[split:])


def test_an_event_that_ends_in_a_lone_return_does_not_wait_for_the_next_chunk():
    reader = EventReader()
    reader.feed(b"data: a\r\n\r")
    assert reader.next_event() == Event(b"a")
    reader.feed(b"\n")
    reader.feed(b"data: b\r\n\r\n")
    assert reader.next_event() == Event(b"b")
    assert reader.next_event() is None


def test_the_last_event_id_is_that_of_the_event_read_last():
    reader = EventReader()
    reader.feed(b"id: 1\ndata: a\n\nid: 2\ndata: b\n\n")
    assert reader.next_event() == Event(b"a", id="1")
    assert reader.last_event_id == "1"
    assert reader.next_event() == Event(b"b", id="2")
    assert reader.last_event_id == "2"
    assert reader.events_read == 2


def test_chunks_fed_before_reading_are_all_read():
    reader = EventReader()
    for chunk in (b"da", b"ta: a\n", b"\ndata: b\n\nda", b"ta: c\n\n"):
        reader.feed(chunk)
    assert read_events(reader) == [Event(b"a"), Event(b"b"), Event(b"c")]


def test_mutable_buffers_may_be_reused_after_feeding():
    reader = EventReader()
    buffer = bytearray(b"data: a\n\n")
    reader.feed(memoryview(buffer))
    buffer[6:7] = b"z"
    assert read_events(reader) == [Event(b"a")]


def test_repr_shows_the_state():
    reader = EventReader()
    reader.feed(b"id: 7\n\nabc")
    read_events(reader)
    assert repr(reader) == "<EventReader 1 read, last id '7', buffered=3>"
    reader.feed(b"\nid: \xff\n\n")
    with pytest.raises(ProtocolError):
        reader.next_event()
    assert repr(reader) == "<EventReader broken, 1 read, last id '7', buffered=0>"


# --- bad input ---

BAD_TEXT = [
    (b"id: \xff\ndata: a\n\n", "the id of a server-sent event is not UTF-8 (byte 0)", r"\xff"),
    (b"event: ab\xc3\ndata: a\n\n", "the event of a server-sent event is not UTF-8 (byte 2)", r"ab\xc3"),
]


def test_a_name_or_id_that_is_not_utf8_breaks_the_stream(subtests: pytest.Subtests):
    for stream, message, quote in BAD_TEXT:
        with subtests.test(stream=stream, message=message, quote=quote):
            reader = EventReader()
            reader.feed(b"data: fine\n\n" + stream + b"data: later\n\n")
            assert reader.next_event() == Event(b"fine")
            with pytest.raises(ProtocolError) as caught:
                reader.next_event()
            assert caught.value.message == message
            assert (caught.value.path, caught.value.quote) == ("event 2", quote)
            with pytest.raises(ProtocolError) as again:
                reader.next_event()
            assert again.value is caught.value
            reader.feed(b"data: a\n\n")
            assert reader.buffered == 0


def test_data_of_exactly_the_limit_is_accepted_and_one_more_byte_is_not(subtests: pytest.Subtests):
    for size in [1, 2, 7]:
        for prefix in [b"", b"\xef\xbb\xbf"]:
            for field in [b"data:", b"data: "]:
                with subtests.test(size=size, prefix=prefix, field=field):
                    fits = prefix + field + b"x" * size + b"\n\ndata: a\n\n"
                    over = prefix + field + b"x" * (size + 1) + b"\n\ndata: a\n\n"
                    for split in range(len(fits) + 1):
                        assert read(fits[:split], fits[split:], limit=size)[0] == [Event(b"x" * size), Event(b"a")]
                    for split in range(len(over) + 1):
                        assert read(over[:split], over[split:], limit=size)[0] == [LARGE, Event(b"a")]


# with a limit of six bytes
LIMITED = [
    (b"data: abc\ndata: de\n\n", [Event(b"abc\nde")], ""),
    (b"data: abc\ndata: def\n\ndata: a\n\n", [LARGE, Event(b"a")], ""),
    (b"data\n" * 7 + b"\n", [Event(b"\n" * 6)], ""),
    (b"data\n" * 8 + b"\ndata: a\n\n", [LARGE, Event(b"a")], ""),
    (b"data: abcdefg\ndata: abcdefg\n" + b"x" * 50 + b"\n\ndata: a\n\n", [LARGE, Event(b"a")], ""),
    (b"id: 1\ndata: " + b"x" * 50 + b"\nid: 2\nevent: b\n\ndata: a\n\n", [LARGE, Event(b"a")], "2"),
    (b"data: " + b"x" * 50 + b"\ndata: b\n\ndata: a\n\n", [LARGE, Event(b"a")], ""),
    (b"data: b\n: " + b"x" * 50 + b"\n\ndata: a\n\n", [LARGE, Event(b"a")], ""),
    (b"data: abcdef\nid: 12\ndataset: x\n: y\n\n", [Event(b"abcdef", id="12")], "12"),
    (b"data: a\n" + b": alive\nfoo: bar\n" * 9 + b"data: b\n\n", [Event(b"a\nb")], ""),
    (b"data: " + b"x" * 50, [LARGE], ""),
    (b"data: " + b"x" * 50 + b"\ndata: y", [LARGE], ""),
    (b"data: abc\ndata: def\ndata: g", [LARGE], ""),
]


def test_only_the_event_over_the_limit_is_skipped(subtests: pytest.Subtests):
    for stream, events, last_id in LIMITED:
        with subtests.test(stream=stream, events=events):
            splits = [(stream[:at], stream[at:]) for at in range(len(stream) + 1)]
            for chunks in (*splits, [stream[at : at + 1] for at in range(len(stream))]):
                found, reader = read(*chunks, limit=6)
                assert found == events
                assert reader.last_event_id == last_id


def test_an_endless_line_is_not_buffered(subtests: pytest.Subtests):
    for start in [b"data: abc\ndata: ", b"data: ", b": ", b"id: ", b"nonsense"]:
        with subtests.test(start=start):
            reader = EventReader(100)
            reader.feed(start)
            found = []
            for _ in range(1000):
                found += read_events(reader)
                reader.feed(b"x" * 10)
                assert reader.buffered <= 120
            assert found == [LARGE]


@pytest.mark.no_cover  # it measures time
def test_reading_time_is_linear_in_bytes(subtests: pytest.Subtests):
    for kind in ["one long line", "many lines", "many events", "returns"]:
        with subtests.test(kind=kind):

            def stream(size: int, kind: str = kind) -> bytes:
                return {
                    "one long line": b"data: " + b"x" * size + b"\n\n",
                    "many lines": b"data: x\n" * (size // 8) + b"\n",
                    "many events": b"data: x\n\n" * (size // 9),
                    "returns": b"data: x\r\n\r\n" * (size // 11),
                }[kind]

            def seconds(size: int) -> float:
                whole = stream(size)
                best = float("inf")
                for _ in range(3):
                    started = time.process_time()
                    reader = EventReader()
                    for at in range(0, len(whole), 512):
                        reader.feed(whole[at : at + 512])
                        while reader.next_event() is not None:
                            pass
                    best = min(best, time.process_time() - started)
                return best

            # Eight times the bytes should take eight times as long; quadratic code would take 64 times as long.
            assert seconds(1 << 19) < 24 * max(seconds(1 << 16), 0.0005)


# --- an oracle: the standard, applied to a whole stream at once ---

PIECES = st.sampled_from(
    [
        b"data",
        b"id",
        b"event",
        b"retry",
        b":",
        b": ",
        b" ",
        b"\n",
        b"\r",
        b"\r\n",
        b"\n\n",
        b"a",
        b"12",
        b"\0",
        b"\xef\xbb\xbf",
        b"\xc3\xa9",
    ]
)
STREAM = st.lists(PIECES, max_size=60).map(b"".join)


def oracle(stream: bytes) -> list[ServerSentEvent]:
    lines = re.split(rb"\r\n|\n|\r", stream.removeprefix(b"\xef\xbb\xbf"))[:-1]
    events, fields = [], []
    for line in lines:
        if line:
            match = re.fullmatch(rb"(data|id|event|retry)(?:: ?(.*))?", line, re.DOTALL)
            if match:
                fields.append((match[1], match[2] or b""))
            continue
        data = [value for name, value in fields if name == b"data"]
        ids = [value.decode() for name, value in fields if name == b"id" and b"\0" not in value]
        names = [value.decode() for name, value in fields if name == b"event"]
        retries = [int(value) for name, value in fields if name == b"retry" and re.fullmatch(rb"[0-9]+", value)]
        if data or ids or retries:
            events.append(
                Event(
                    b"\n".join(data),
                    (names or [""])[-1] or "message",
                    (ids or [None])[-1],
                    (retries or [None])[-1],
                )
            )
        fields = []
    return events


@given(STREAM, st.lists(st.integers(0, 200), max_size=5))
def test_any_stream_in_any_chunks_is_read_by_the_standard(stream, cuts):
    edges = sorted({0, len(stream), *(min(cut, len(stream)) for cut in cuts)})
    found, _ = read(*(stream[a:b] for a, b in itertools.pairwise(edges)))
    assert found == oracle(stream)


# --- encoding ---

WRITTEN = [
    ((b"{}",), b"data: {}\n\n"),
    ((b"",), b"data: \n\n"),
    ((b"", None, "a-1"), b"id: a-1\ndata: \n\n"),
    ((b"", None, "a-1", 500), b"id: a-1\nretry: 500\ndata: \n\n"),
    ((b"/m", "endpoint"), b"event: endpoint\ndata: /m\n\n"),
    ((b"a\nb",), b"data: a\ndata: b\n\n"),
    ((b"a\r\nb\rc\n",), b"data: a\ndata: b\ndata: c\ndata: \n\n"),
    ((b" a",), b"data:  a\n\n"),
    ((b"x", None, "", 0), b"id: \nretry: 0\ndata: x\n\n"),
]


def test_encode_event(subtests: pytest.Subtests):
    for arguments, expected in WRITTEN:
        with subtests.test(arguments=arguments, expected=expected):
            assert encode_event(*arguments) == expected


def test_comments_are_skipped_by_the_reader():
    assert read(b": hello\n\n: data: x\n\n" + KEEP_ALIVE)[0] == []


def test_nul_is_allowed_in_an_event_name():
    event = encode_event(b"x", event="a\0b")
    assert read(event)[0] == [Event(b"x", event="a\0b")]


REFUSED = [
    (lambda: encode_event(b"", id="a\nb"), "id"),
    (lambda: encode_event(b"", id="a\rb"), "id"),
    (lambda: encode_event(b"", id="a\0b"), "id"),
    (lambda: encode_event(b"", id="\ud800"), "id"),
    (lambda: encode_event(b"", event="a\nb"), "event"),
    (lambda: encode_event(b"", event="\ud800"), "event"),
    (lambda: encode_event(b"", event=""), "event"),
    (lambda: encode_event(b"", retry=-1), "retry"),
    (lambda: encode_event(b"", retry=MAX_RETRY + 1), "retry"),
]


def test_invalid_fields_are_refused(subtests: pytest.Subtests):
    for write, path in REFUSED:
        with subtests.test(write=write, path=path):
            with pytest.raises(UsageError) as caught:
                write()
            assert caught.value.path == path


TEXT = st.text(st.characters(exclude_characters="\n\r\0", exclude_categories=["Cs"]), max_size=20)


@given(
    st.lists(
        st.tuples(
            st.binary(max_size=40),
            TEXT.filter(bool) | st.none(),
            TEXT | st.none(),
            st.integers(0, MAX_RETRY) | st.none(),
        ),
        max_size=5,
    ),
    st.integers(1, 30),
)
def test_encoded_events_are_read_back(rows, size):
    stream = b"".join(encode_event(*row) + KEEP_ALIVE for row in rows)
    found, _ = read(*(stream[at : at + size] for at in range(0, len(stream), size)))
    assert found == [
        Event(data.replace(b"\r\n", b"\n").replace(b"\r", b"\n"), event or "message", id, retry)
        for data, event, id, retry in rows
    ]
