"""2024-11-05's HTTP+SSE: the first event names the URL to POST to, and the URL names the stream."""

import pytest

from jackstay.protocol.http import endpoint_event, legacy_session, message_event, resolve_endpoint
from jackstay.protocol.wire import EventReader


def test_the_first_event_gives_a_url_that_leads_back_to_the_stream() -> None:
    """L24:basic/transports: an `endpoint` event with a URI for the client to use."""
    reader = EventReader()
    reader.feed(endpoint_event("/some app", "/messages", "a-b_C"))
    event = reader.next_event()
    assert event is not None
    assert event.event == "endpoint"
    url = resolve_endpoint("http://localhost:8000/some%20app/sse", event.data)
    assert url == "http://localhost:8000/some%20app/messages?session_id=a-b_C"
    assert legacy_session(url.partition("?")[2].encode()) == "a-b_C"


def test_everything_else_is_a_message() -> None:
    reader = EventReader()
    reader.feed(message_event(b'{"a":1}'))
    event = reader.next_event()
    assert event is not None
    assert (event.event, event.data) == ("message", b'{"a":1}')


@pytest.mark.parametrize(
    ("query", "id"),
    [
        (b"session_id=abc", "abc"),
        (b"x=1&session_id=a%2Bb", "a+b"),
        (b"", None),
        (b"session_id=", None),
        (b"session_id=a&session_id=b", None),
        (b"session_id=a%20b", None),
        (b"session_id=%C3%A9", None),
        (b"session_id=\xff", None),
        (b"&".join(b"%d=1" % number for number in range(50)), None),
    ],
)
def test_only_one_whole_id_is_read_from_a_query(query: bytes, id: str | None) -> None:
    """Hostile input: what is doubled, malformed or too much is none."""
    assert legacy_session(query) == id
