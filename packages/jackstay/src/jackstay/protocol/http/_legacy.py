"""HTTP+SSE as 2024-11-05 has it: a GET whose stream is all that the server says, and a URL to POST to that it says first.

The stream's first event is called `endpoint` and holds the URL that messages go to; it carries the id that joins the two.
Everything else is an event called `message` (2024-11-05 basic/transports, "HTTP with SSE").

Must never know a socket or a connection. Above: the legacy endpoint of the server's room. Below: `_headers`, `wire`.
"""

from typing import Final
from urllib.parse import parse_qs, quote

from jackstay.protocol.http._headers import is_session_id
from jackstay.protocol.wire._sse import encode_event

# The name under which the id travels. Clients take the URL as it is, so it could be any.
LEGACY_PARAMETER: Final = "session_id"


def endpoint_event(root_path: str, path: str, id: str) -> bytes:
    """The first event of a stream. `root_path` is where the app is mounted; the client resolves against its own URL."""
    url = f"{quote(root_path)}{quote(path)}?{LEGACY_PARAMETER}={quote(id, safe='')}"
    return encode_event(url.encode(), event="endpoint")


def message_event(frame: bytes) -> bytes:
    """Any other event of a stream."""
    return encode_event(frame, event="message")


def legacy_session(query: bytes) -> str | None:
    """The id that a POST names in the query of its URL, or None where it names none, or two."""
    try:
        values = parse_qs(query.decode("ascii"), max_num_fields=32).get(LEGACY_PARAMETER, [])
    except ValueError:
        return None
    return values[0] if len(values) == 1 and is_session_id(values[0]) else None
