"""The checks of an HTTP server that need only the request's headers, before the body is read.

They cover Host, Origin, Content-Type, length and Accept, and protect servers on a user's machine from web pages. See
2026-07-28 basic/transports/streamable-http, "Security & Endpoint" and "Sending Messages"; RFC 9110.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, TypeAlias

import msgspec

from jackstay.errors import Json, RequestId, UsageError
from jackstay.protocol._versions import VERSIONS
from jackstay.protocol.http._headers import HeaderPairs
from jackstay.protocol.wire._framer import MAX_FRAME_BYTES
from jackstay.protocol.wire._jsonrpc import ABSENT, Absent, ErrorCode

Headers: TypeAlias = Mapping[str, str]


class ErrorResponse(msgspec.Struct, frozen=True):
    """An HTTP response with a JSON-RPC error as its body.

    The caller adds the id of the request if it has read the body.
    """

    status: int
    code: int
    message: str
    data: Json = None
    headers: HeaderPairs = ()


def error_response(status: int, message: str, headers: HeaderPairs = ()) -> ErrorResponse:
    """Return the response to an invalid HTTP request, as opposed to an invalid message in it."""
    return ErrorResponse(status, ErrorCode.INVALID_REQUEST, message, headers=headers)


class RequestRefused(Exception):
    """The request is refused with this response. `id` is the id of its message, once it was read."""

    id: RequestId | Absent = ABSENT

    def __init__(self, response: ErrorResponse) -> None:
        super().__init__(response)
        self.response = response


class Accepts(msgspec.Struct, frozen=True):
    """The media types that the client accepts."""

    json: bool = True
    stream: bool = True


# --- Host and Origin ---

# The hosts under which clients reach a server on the same machine, at any port.
LOCAL_HOSTS: Final = ("localhost", "127.0.0.1", "[::1]")

_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._~-]+)(?::([0-9]{1,5}))?")
_ORIGIN = re.compile(r"([a-z][a-z0-9+.-]*)://(\[[0-9a-f:.]+\]|[a-z0-9._~-]+)(?::([0-9]{1,5}))?")
_DEFAULT_PORTS = {"http": "80", "https": "443"}


class Access(msgspec.Struct, frozen=True, eq=False):
    """The Host and Origin values that a server accepts. Create it with `allow()`."""

    hosts: frozenset[str]
    origins: frozenset[str]

    @property
    def is_any_origin(self) -> bool:
        """True if pages of every origin are allowed."""
        return "*" in self.origins

    @classmethod
    def allow(cls, hosts: tuple[str, ...] = LOCAL_HOSTS, origins: tuple[str, ...] | None = None) -> "Access":
        """Allow hosts such as `localhost` or `mcp.example.com:8443` and origins such as `https://app.example.com`.

        `*` allows all. An entry without a port allows every port. Without `origins`, the pages of the allowed hosts are
        allowed; if the hosts are `*`, none are.

        Raises:
            UsageError: an entry is not a host or not an origin.
        """
        if origins is None:
            origins = tuple(f"{scheme}://{host}" for host in hosts if host != "*" for scheme in _DEFAULT_PORTS)
        for row in hosts:
            if row != "*" and _HOST.fullmatch(row.lower()) is None:
                raise UsageError(f"invalid host {row!r}; expected a name such as 'mcp.example.com'", path="hosts")
        for row in origins:
            if row not in ("*", "null") and _ORIGIN.fullmatch(row.lower()) is None:
                raise UsageError(
                    f"invalid origin {row!r}; expected one such as 'https://app.example.com'", path="origins"
                )
        return cls(frozenset(row.lower() for row in hosts), frozenset(row.lower() for row in origins))


def with_port(origin: str) -> str:
    """Return an origin with its default port added; a string that is not an http(s) origin is returned unchanged."""
    found = _ORIGIN.fullmatch(origin.lower())
    port = None if found is None else _DEFAULT_PORTS.get(found[1])
    return origin if found is None or found[3] or port is None else f"{origin}:{port}"


def check_access(access: Access, headers: Headers) -> ErrorResponse | None:
    """Check Host and Origin; return an error response if one of them is not allowed.

    With DNS rebinding a page of `evil.example` is same-origin with 127.0.0.1, so the Origin does not reveal it; but the
    browser still sends the original name as Host (2026-07-28 "Security & Endpoint").
    """
    host, origin = headers.get("host", ""), headers.get("origin")
    is_short = len(host if origin is None else host + origin) <= MAX_CACHED_NAMES
    return (_check_names if is_short else _check_names.__wrapped__)(access, host, origin)


# A server is reached under few names. Longer values are not cached, so that they cannot fill the memory: a DNS name has
# at most 253 characters.
MAX_CACHED_NAMES = 600


@lru_cache(maxsize=1024)
def _check_names(access: Access, host: str, origin: str | None) -> ErrorResponse | None:
    if "*" not in access.hosts:
        host = host.lower()
        found = _HOST.fullmatch(host)
        if found is None:
            return error_response(400, "missing or malformed Host header")
        if host not in access.hosts and found[1] not in access.hosts:
            return error_response(
                403, "this Host is not allowed; the server's option `hosts` (--allow-host) sets the allowed ones"
            )
    if origin is None or access.is_any_origin:
        return None
    origin = origin.lower()
    found = _ORIGIN.fullmatch(origin)
    if found is None:
        is_allowed = origin == "null" and "null" in access.origins
    else:
        name = f"{found[1]}://{found[2]}"
        port = found[3] or _DEFAULT_PORTS.get(found[1], "")
        is_allowed = name in access.origins or f"{name}:{port}" in access.origins
    return None if is_allowed else error_response(403, "this Origin is not allowed")


# --- other headers ---


class Endpoint(msgspec.Struct, frozen=True):
    """The configuration of an MCP endpoint. `versions` are the revisions that it serves, of either era.

    Raises: UsageError for an unknown version or an empty tuple.
    """

    access: Access = Access.allow()
    has_sessions: bool = False
    versions: tuple[str, ...] = VERSIONS
    max_body_bytes: int = MAX_FRAME_BYTES

    def __post_init__(self) -> None:
        if not self.versions or not set(self.versions) <= set(VERSIONS):
            raise UsageError(f"invalid versions {self.versions!r}; use some of {', '.join(VERSIONS)}", path="versions")

    @property
    def allowed(self) -> str:
        """The value of the `Allow` header. GET and DELETE exist only with sessions."""
        return "GET, POST, DELETE, OPTIONS" if self.has_sessions else "POST, OPTIONS"


# Request smuggling: two parsers could disagree about the end of this request (RFC 9112, section 6.1: "ought to be
# handled as an error", and the connection closed). Some HTTP servers do not check it.
_TWO_LENGTHS: Final = error_response(
    400, "a request must not have both Content-Length and Transfer-Encoding", (("connection", "close"),)
)


def check_request(endpoint: Endpoint, method: str, headers: Headers) -> None:
    """Check the headers of a request.

    Raises: RequestRefused; then the HTTP server must read the rest of the body or close the connection.
    """
    if "transfer-encoding" in headers and "content-length" in headers:
        raise RequestRefused(_TWO_LENGTHS)
    refusal = check_access(endpoint.access, headers)
    if refusal is not None:
        raise RequestRefused(refusal)
    accept = headers.get("accept")
    accepts = BOTH if accept in USUAL_ACCEPT else read_accept(accept)
    if method == "GET" and endpoint.has_sessions and not accepts.stream:
        raise RequestRefused(error_response(406, "GET opens a stream: accept text/event-stream"))
    if method != "POST":
        return
    if headers.get("content-type") != "application/json" or "content-encoding" in headers:
        _check_content(headers)
    length = headers.get("content-length")
    if length is not None:
        if not (length.isascii() and length.isdigit()):
            raise RequestRefused(error_response(400, "Content-Length must be a number"))
        # A long number may have zeros in front.
        if (len(length) > 18 and len(length.lstrip("0")) > 18) or int(length[-18:]) > endpoint.max_body_bytes:
            raise RequestRefused(too_large(endpoint.max_body_bytes))
    if not (accepts.json or accepts.stream):
        raise RequestRefused(error_response(406, "Accept must include application/json or text/event-stream"))


def _check_content(headers: Headers) -> None:
    # Also a defence: a page can send text/plain to any origin, but application/json only after a CORS preflight.
    media_type, _, parameters = headers.get("content-type", "").lower().partition(";")
    if media_type.strip() != "application/json":
        raise RequestRefused(error_response(415, "Content-Type must be application/json"))
    for parameter in parameters.split(";"):
        name, _, value = parameter.strip().partition("=")
        if name == "charset" and value.strip('"') not in ("utf-8", "utf8"):
            raise RequestRefused(error_response(415, "the body must be UTF-8"))
    if headers.get("content-encoding", "identity").lower() != "identity":
        # A small body could expand beyond the limit.
        raise RequestRefused(error_response(415, "the body must not be compressed"))


def too_large(limit: int) -> ErrorResponse:
    """Return the response to a body over the limit, by its declared length or while it is being read."""
    return error_response(413, f"the body is over the limit of {limit} bytes")


# What nearly all clients send, and what it means.
USUAL_ACCEPT = frozenset(("application/json, text/event-stream", "*/*", None))
BOTH = Accepts()


def read_accept(value: str | None) -> Accepts:
    """Parse an Accept header (RFC 9110, section 12.5.1). If it is absent, everything is accepted.

    More lenient than MCP, which requires both types: a client that accepts one of them gets that one, so `curl` works.
    Weights other than `q=0` are ignored: JSON is cheaper, and a stream is opened only if it is needed.
    """
    if value is None or value in USUAL_ACCEPT:
        return BOTH
    ranges: dict[str, bool] = {}
    for part in value.lower().split(","):
        media_range, *parameters = (piece.strip() for piece in part.split(";"))
        is_accepted = not any(_is_zero(parameter) for parameter in parameters)
        ranges[media_range] = ranges.get(media_range, False) or is_accepted
    return Accepts(*(_accepts(ranges, kind) for kind in ("application/json", "text/event-stream")))


def _is_zero(parameter: str) -> bool:
    name, _, value = parameter.partition("=")
    return name.strip() == "q" and re.fullmatch(r"0(?:\.0*)?", value.strip()) is not None


def _accepts(ranges: dict[str, bool], media_type: str) -> bool:
    for media_range in (media_type, media_type.partition("/")[0] + "/*", "*/*"):
        if media_range in ranges:
            return ranges[media_range]
    return False
