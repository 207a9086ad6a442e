"""The HTTP+SSE transport of 2024-11-05: events, and the session id in the URL."""

import pytest

from jackstay.protocol.http import endpoint_event, legacy_session, message_event, resolve_endpoint
from jackstay.protocol.wire import EventReader


def test_the_first_event_contains_the_url_with_the_session_id() -> None:
    """2024-11-05 basic/transports: an `endpoint` event with a URI for the client to use."""
    reader = EventReader()
    reader.feed(endpoint_event("/some app", "/messages", "a-b_C"))
    event = reader.next_event()
    assert event is not None
    assert event.event == "endpoint"
    url = resolve_endpoint("http://localhost:8000/some%20app/sse", event.data)
    assert url == "http://localhost:8000/some%20app/messages?session_id=a-b_C"
    assert legacy_session(url.partition("?")[2].encode()) == "a-b_C"


def test_other_events_are_messages() -> None:
    reader = EventReader()
    reader.feed(message_event(b'{"a":1}'))
    event = reader.next_event()
    assert event is not None
    assert (event.event, event.data) == ("message", b'{"a":1}')


def test_the_session_id_of_a_query(subtests: pytest.Subtests) -> None:
    """Duplicated and malformed ids, and queries with too many fields, are ignored."""
    for query, id in [
        (b"session_id=abc", "abc"),
        (b"x=1&session_id=a%2Bb", "a+b"),
        (b"", None),
        (b"session_id=", None),
        (b"session_id=a&session_id=b", None),
        (b"session_id=a%20b", None),
        (b"session_id=%C3%A9", None),
        (b"session_id=\xff", None),
        (b"&".join(b"%d=1" % number for number in range(50)), None),
    ]:
        with subtests.test(query=query, id=id):
            assert legacy_session(query) == id
