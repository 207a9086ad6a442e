# Invariant: events do not depend on how bytes are split, only typed errors are raised, buffers are limited.
from jackstay.errors import FrameTooLargeError, ProtocolError
from jackstay.protocol.wire._sse import EventReader, ServerSentEvent, encode_event

LIMIT = 64

CORPUS = [
    b"id: 1\nretry: 500\ndata: \n\nevent: message\nid: 2\ndata: {}\n\n",
    b"\xef\xbb\xbfdata: a\r\ndata: b\r\r: comment\ndata\n\n",
    b"data: " + b"x" * 80 + b"\nid: 9\n\ndata: a\n\n",
    b"event: \xff\ndata: a\n\n",
    b"event: a\x00b\ndata: a\n\n",
    b"event: endpoint\r\ndata: /messages?session=1\r\n\r\n",
]


def read(chunks: list[bytes]) -> tuple[list[ServerSentEvent | str], str, int | None]:
    reader = EventReader(LIMIT)
    found: list[ServerSentEvent | str] = []
    for chunk in chunks:
        reader.feed(chunk)
        while True:
            try:
                event = reader.next_event()
            except FrameTooLargeError:
                found.append("too large")
                continue
            except ProtocolError as error:
                return [*found, str(error)], reader.last_event_id, reader.retry
            if event is None:
                break
            found.append(event)
        assert reader.buffered <= LIMIT + 9
    return found, reader.last_event_id, reader.retry


def fuzz(data: bytes) -> None:
    whole = read([data])
    assert read([data[at : at + 1] for at in range(len(data))]) == whole
    middle = len(data) // 2
    assert read([data[:middle], data[middle:]]) == whole
    for event in whole[0]:
        if isinstance(event, ServerSentEvent):
            assert len(event.data) <= LIMIT
            written = encode_event(event.data, event.event, event.id, event.retry)
            assert read([written])[0] == [event]
