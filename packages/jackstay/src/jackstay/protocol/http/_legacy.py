"""The HTTP+SSE transport of 2024-11-05 (basic/transports, "HTTP with SSE"): a GET stream and a URL for POST.

The first event of the stream is `endpoint`, with the URL that messages are posted to. It contains the session id. Every
other event is a `message`.
"""

from typing import Final
from urllib.parse import parse_qs, quote

from jackstay.protocol.http._headers import is_session_id
from jackstay.protocol.wire._sse import encode_event

# The query parameter with the session id. Clients use the URL unchanged, so the name is arbitrary.
LEGACY_PARAMETER: Final = "session_id"


def endpoint_event(root_path: str, path: str, id: str) -> bytes:
    """Return the first event of a stream. `root_path` is where the app is mounted."""
    url = f"{quote(root_path)}{quote(path)}?{LEGACY_PARAMETER}={quote(id, safe='')}"
    return encode_event(url.encode(), event="endpoint")


def message_event(frame: bytes) -> bytes:
    """Return a `message` event."""
    return encode_event(frame, event="message")


def legacy_session(query: bytes) -> str | None:
    """Return the session id in the query of a POST, or None if there is not exactly one."""
    try:
        values = parse_qs(query.decode("ascii"), max_num_fields=32).get(LEGACY_PARAMETER, [])
    except ValueError:
        return None
    return values[0] if len(values) == 1 and is_session_id(values[0]) else None
