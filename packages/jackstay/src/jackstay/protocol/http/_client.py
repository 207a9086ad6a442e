"""What a client says in headers: of every kind of request, in every revision.

Headers name the revision from 2025-06-18 on and the session where there is one, and from 2026-07-28 on they repeat
what the body is about (`_headers`). The user's own headers and credentials are added by the transport, not here.

Sources: 2026-07-28 basic/transports/streamable-http; 2025-11-25 and 2024-11-05 basic/transports.

Must never know a socket, a library or a response (`_verdict` does). Above: the HTTP transports. Below: `_headers`.
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

# nginx and Apache refuse header lines above 8 KiB as they come; half of that leaves room for what a proxy adds. A longer
# id could not be given back, so its stream cannot be resumed, and it is better to know before the request.
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
    """The headers of a POST that carries `method`, or of one that carries a response (`method` empty).

    `revision` is the one in force, or None for `initialize`, where none is yet (2025-06-18 puts the version header on
    everything after it; 2025-03-26 has none). `name` is the member that NAME_SOURCES names; `params` come from
    `build_param_headers`. A session id is echoed for as long as there is one, whatever the revision.

    Raises:
        UsageError: a method that cannot stand in a header, which has no encoding for it.
    """
    pairs = [*_POST, *_common(revision, session_id)]
    if revision is not None and revision.has_method_headers and method:
        if _PLAIN.fullmatch(method) is None:
            raise UsageError(
                f"a method must be visible ASCII to be sent over HTTP: {method[:80]!a}", path="method"
            )
        pairs.append((METHOD_HEADER, method))
        if name is not None and method in NAME_SOURCES:
            pairs.append((NAME_HEADER, encode_header_value(name)))
        pairs += params
    return tuple(pairs)


def listen_headers(
    revision: Revision | None, *, session_id: str | None = None, last_event_id: str = ""
) -> HeaderPairs:
    """The headers of the GET that opens or resumes a stream (handshake era); `revision` None: the 2024-11-05 one.

    Values are Latin-1 text, as HTTP libraries and ASGI understand it. An id is sent as its UTF-8 (WHATWG, "The
    `Last-Event-ID` header").

    Raises:
        ProtocolError: an id that no header can carry: the stream cannot be resumed.
    """
    pairs = [*_STREAM, *_common(revision, session_id)]
    if last_event_id:
        # A lone surrogate becomes "?", which the comparison below finds out.
        encoded = last_event_id.encode("utf-8", "replace")
        is_sendable = len(encoded) <= MAX_EVENT_ID_BYTES and _UNSENDABLE.search(encoded) is None
        if not is_sendable or encoded.decode() != last_event_id:
            raise ProtocolError(
                "the last event's id cannot be sent back in a header", quote=last_event_id[:64]
            )
        pairs.append((LAST_EVENT_HEADER, encoded.decode("latin-1")))
    return tuple(pairs)


def delete_headers(revision: Revision, session_id: str) -> HeaderPairs:
    """The headers of the DELETE that ends a session."""
    return _common(revision, session_id)


def _common(revision: Revision | None, session_id: str | None) -> HeaderPairs:
    pairs: list[tuple[str, str]] = []
    if revision is not None and revision.has_version_header:
        pairs.append((VERSION_HEADER, revision.name))
    if session_id is not None:
        pairs.append((SESSION_HEADER, session_id))
    return tuple(pairs)


def new_session_id(headers: Mapping[str, str]) -> str | None:
    """The session id in the response to `initialize`, or None where the server keeps no sessions.

    Raises:
        ProtocolError: an id that is not visible ASCII (2025-11-25 "Session Management"): it could not be echoed.
    """
    value = headers.get(SESSION_HEADER.lower())
    if value is None or is_session_id(value):
        return value
    raise ProtocolError(
        f"{SESSION_HEADER} must be visible ASCII characters", path=SESSION_HEADER, quote=value[:64]
    )
