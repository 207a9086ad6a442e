"""CORS: preflight responses, and the headers that let a web page read a response (Fetch standard, "CORS protocol").

Off by default. Credentials that a browser adds by itself (cookies, client certificates) are never allowed, so `*` is
safe: a page needs a token of its own. Which origins may send requests at all is checked by `jackstay.protocol.http`.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from jackstay.errors import UsageError
from jackstay.protocol.http import (
    LAST_EVENT_HEADER,
    METHOD_HEADER,
    NAME_HEADER,
    PARAM_PREFIX,
    SESSION_HEADER,
    VERSION_HEADER,
    Access,
    HeaderPairs,
    check_access,
    with_port,
)

METHODS: Final = "GET, POST, DELETE, OPTIONS"

# Request headers that need permission. `Mcp-Param-*` headers are named after arguments of a tool, so they are allowed
# by prefix. The trace headers are sent by instrumented clients.
_SENT: Final = frozenset(
    name.lower()
    for name in (
        "Accept", "Authorization", "Content-Type", LAST_EVENT_HEADER, METHOD_HEADER, NAME_HEADER, SESSION_HEADER,
        VERSION_HEADER, "baggage", "traceparent", "tracestate",
    )
)  # fmt: skip

# Response headers that a page may read: a client in a browser needs them to keep its session and to find the
# authorization server.
EXPOSED: Final = f"{SESSION_HEADER}, {VERSION_HEADER}, Retry-After, WWW-Authenticate"

# How long a browser may cache a preflight, in seconds. Chromium caps it at two hours.
MAX_AGE: Final = "7200"


class Cors:
    """The origins whose pages may read responses: for example `https://app.example.com`, or `*` for all.

    An origin without a port has the default port of its scheme, as browsers write it.

    Raises: UsageError for an invalid origin.
    """

    def __init__(self, origins: Sequence[str]) -> None:
        if isinstance(origins, str):
            origins = (origins,)
        if not origins:
            raise UsageError("cors got no origin; to disable CORS, omit it", path="cors")
        self.origins = tuple(map(with_port, origins))
        self._access = Access.allow(("*",), self.origins)

    def __repr__(self) -> str:
        return f"<Cors for {', '.join(self.origins)}>"

    def response_headers(self, headers: Mapping[str, str]) -> HeaderPairs:
        """Return the CORS headers for a response to this request."""
        # With `*` the response is the same for all origins, so caches need no Vary.
        vary = () if self._access.is_any_origin else (("vary", "Origin"),)
        return (*self._allowed(headers), *vary)

    def _allowed(self, headers: Mapping[str, str]) -> HeaderPairs:
        origin = headers.get("origin")
        if origin is None or check_access(self._access, {"origin": origin}) is not None:
            return ()
        allowed_origin = "*" if self._access.is_any_origin else origin
        return (("access-control-allow-origin", allowed_origin), ("access-control-expose-headers", EXPOSED))

    def preflight(self, method: str, headers: Mapping[str, str]) -> HeaderPairs | None:
        """Return the headers of the 204 for a preflight, or None for another request or a forbidden origin."""
        if method != "OPTIONS" or "access-control-request-method" not in headers or not self._allowed(headers):
            return None
        requested = headers.get("access-control-request-headers", "").lower().split(",")
        allowed = [name for name in map(str.strip, requested) if name in _SENT or name.startswith(_PARAM)]
        return (
            *self.response_headers(headers),
            ("access-control-allow-methods", METHODS),
            ("access-control-allow-headers", ", ".join(allowed)),
            ("access-control-max-age", MAX_AGE),
        )


_PARAM: Final = PARAM_PREFIX.lower()
