"""Which web pages may read what an endpoint answers (CORS): the preflight, and the headers of every answer to a page.

Off unless asked for: a server that no page should call says nothing. Credentials that a browser adds by itself (cookies,
client certificates) are never allowed, so that `*` is safe to say: what a page may do it must be able to do by a token of
its own. Which origins may call at all is the gate's affair (`jackstay.protocol.http`); the same rows make both.

Sources: the Fetch standard, "CORS protocol".

Must never know a message or a session. Above: `_edge`. Below: `jackstay.protocol.http`.
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

# What clients send beyond the few headers that need no leave. `Mcp-Param-*` are named after a tool's arguments, so they are
# allowed by their beginning; trace headers because clients in browsers are traced as well.
_SENT: Final = frozenset(
    name.lower()
    for name in (
        "Accept", "Authorization", "Content-Type", LAST_EVENT_HEADER, METHOD_HEADER, NAME_HEADER, SESSION_HEADER,
        VERSION_HEADER, "baggage", "traceparent", "tracestate",
    )
)  # fmt: skip

# What a page may read of an answer: without it a client in a browser could neither keep its session nor find out where
# tokens are got.
EXPOSED: Final = f"{SESSION_HEADER}, {VERSION_HEADER}, Retry-After, WWW-Authenticate"

# How long a browser may remember a preflight, in seconds. Chromium takes at most two hours.
MAX_AGE: Final = "7200"


class Cors:
    """The pages that may read the answers, as rows: `https://app.example.com`, or `*` for all.

    A row without a port is an origin as browsers write it: the default port of its scheme.

    Raises: UsageError for a row that is no origin.
    """

    def __init__(self, origins: Sequence[str]) -> None:
        if isinstance(origins, str):
            origins = (origins,)
        if not origins:
            raise UsageError("cors needs at least one origin; without CORS leave it out", path="cors")
        self.origins = tuple(map(with_port, origins))
        self._access = Access.allow(("*",), self.origins)

    def __repr__(self) -> str:
        return f"<Cors for {', '.join(self.origins)}>"

    def answer_headers(self, headers: Mapping[str, str]) -> HeaderPairs:
        """What goes with every answer to this request. A page that is not allowed gets nothing to show."""
        # With `*` the answer is the same for all, and caches may keep it so.
        vary = () if self._access.is_any_origin else (("vary", "Origin"),)
        return (*self._allowed(headers), *vary)

    def _allowed(self, headers: Mapping[str, str]) -> HeaderPairs:
        origin = headers.get("origin")
        if origin is None or check_access(self._access, {"origin": origin}) is not None:
            return ()
        shown = "*" if self._access.is_any_origin else origin
        return (("access-control-allow-origin", shown), ("access-control-expose-headers", EXPOSED))

    def preflight(self, method: str, headers: Mapping[str, str]) -> HeaderPairs | None:
        """The headers of a 204 that answers a preflight, or None if this is none, or from a page that may not call."""
        if (
            method != "OPTIONS"
            or "access-control-request-method" not in headers
            or not self._allowed(headers)
        ):
            return None
        wanted = headers.get("access-control-request-headers", "").lower().split(",")
        allowed = [name for name in map(str.strip, wanted) if name in _SENT or name.startswith(_PARAM)]
        return (
            *self.answer_headers(headers),
            ("access-control-allow-methods", METHODS),
            ("access-control-allow-headers", ", ".join(allowed)),
            ("access-control-max-age", MAX_AGE),
        )


_PARAM: Final = PARAM_PREFIX.lower()

__all__ = ["Cors"]
