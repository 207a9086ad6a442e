"""The headers of a client's requests, in every revision.

From 2025-06-18 on headers name the revision, and from 2026-07-28 on they repeat parts of the body (`_headers`). See
2026-07-28 basic/transports/streamable-http; 2025-11-25 and 2024-11-05 basic/transports.
"""

import re
from collections.abc import Mapping
from typing import Final

from jackstay.errors import ProtocolError, UsageError
from jackstay.protocol._versions import Revision
from jackstay.protocol.http._headers import (
    LAST_EVENT_HEADER,
    METHOD_HEADER,
    NAME_HEADER,
    NAME_SOURCES,
    SESSION_HEADER,
    VERSION_HEADER,
    HeaderPairs,
    encode_header_value,
    is_session_id,
)

_POST: Final[HeaderPairs] = (
    ("Content-Type", "application/json"),
    ("Accept", "application/json, text/event-stream"),  # both, always: the server chooses
)
_STREAM: Final[HeaderPairs] = (("Accept", "text/event-stream"),)

# nginx and Apache reject header lines above 8 KiB by default; half of that leaves the rest to proxies. A stream with a
# longer id cannot be resumed, which is better detected before the request.
MAX_EVENT_ID_BYTES: Final = 4096

_PLAIN = re.compile(r"[\x21-\x7e]+")
_UNSENDABLE = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]|^[ \t]|[ \t]$")


def post_headers(
    revision: Revision | None,
    method: str,
    *,
    name: str | None = None,
    session_id: str | None = None,
    params: HeaderPairs = (),
) -> HeaderPairs:
    """Return the headers of a POST with `method`; with an empty `method`, those of a POST with a response.

    `revision` is the negotiated one, or None for `initialize` (2025-06-18 requires the version header on every later
    request; 2025-03-26 has none). `name` is the member that NAME_SOURCES names; `params` come from
    `build_param_headers`. A session id is always echoed, whatever the revision.

    Raises:
        UsageError: the method is not visible ASCII; `Mcp-Method` has no encoding for other characters.
    """
    pairs = [*_POST, *_common(revision, session_id)]
    if revision is not None and revision.has_method_headers and method:
        if _PLAIN.fullmatch(method) is None:
            raise UsageError(f"method must be visible ASCII to be sent over HTTP, not {method[:80]!a}", path="method")
        pairs.append((METHOD_HEADER, method))
        if name is not None and method in NAME_SOURCES:
            pairs.append((NAME_HEADER, encode_header_value(name)))
        pairs += params
    return tuple(pairs)


def listen_headers(revision: Revision | None, *, session_id: str | None = None, last_event_id: str = "") -> HeaderPairs:
    """Return the headers of the GET that opens or resumes a stream (handshake era); `revision` None is 2024-11-05.

    Values are Latin-1 strings, as HTTP libraries and ASGI expect. An event id is sent as UTF-8 (WHATWG HTML, "The
    `Last-Event-ID` header").

    Raises:
        ProtocolError: a header cannot contain the id, so the stream cannot be resumed.
    """
    pairs = [*_STREAM, *_common(revision, session_id)]
    if last_event_id:
        # A lone surrogate becomes "?", which the comparison below detects.
        encoded = last_event_id.encode("utf-8", "replace")
        is_sendable = len(encoded) <= MAX_EVENT_ID_BYTES and _UNSENDABLE.search(encoded) is None
        if not is_sendable or encoded.decode() != last_event_id:
            raise ProtocolError("the last event id cannot be sent in a header", quote=last_event_id[:64])
        pairs.append((LAST_EVENT_HEADER, encoded.decode("latin-1")))
    return tuple(pairs)


def delete_headers(revision: Revision, session_id: str) -> HeaderPairs:
    """Return the headers of the DELETE that ends a session."""
    return _common(revision, session_id)


def _common(revision: Revision | None, session_id: str | None) -> HeaderPairs:
    pairs: list[tuple[str, str]] = []
    if revision is not None and revision.has_version_header:
        pairs.append((VERSION_HEADER, revision.name))
    if session_id is not None:
        pairs.append((SESSION_HEADER, session_id))
    return tuple(pairs)


def new_session_id(headers: Mapping[str, str]) -> str | None:
    """Return the session id in the response to `initialize`, or None if the server has no sessions.

    Raises:
        ProtocolError: the id is not visible ASCII (2025-11-25 basic/transports, "Session Management").
    """
    value = headers.get(SESSION_HEADER.lower())
    if value is None or is_session_id(value):
        return value
    raise ProtocolError(f"{SESSION_HEADER} must be visible ASCII characters", path=SESSION_HEADER, quote=value[:64])
