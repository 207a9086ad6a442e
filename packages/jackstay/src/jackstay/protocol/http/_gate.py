"""The first gate of an HTTP server: what can be judged of a request before its body is read.

Under which name it came (Host), from which page (Origin), whether its body is JSON of a bearable length, and what it
takes as an answer. A refusal here costs nothing but the headers, and protects servers on someone's own machine from
the web pages open on it.

Sources: 2026-07-28 basic/transports/streamable-http, "Security & Endpoint" and "Sending Messages"; RFC 9110.

Must never know a message, an era or a session's state. Above: `_server`. Below: `_headers`.
"""

import re
from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from typing import Final, TypeAlias

import msgspec

from jackstay.errors import Json, UsageError
from jackstay.protocol._versions import VERSIONS
from jackstay.protocol.http._headers import HeaderPairs
from jackstay.protocol.wire._jsonrpc import ErrorCode

Headers: TypeAlias = Mapping[str, str]


class Verb(Enum):
    """The HTTP methods that a row can be about; OTHER is all the rest."""

    GET = "GET"
    POST = "POST"
    DELETE = "DELETE"
    OPTIONS = "OPTIONS"
    OTHER = ""


class Refusal(msgspec.Struct, frozen=True):
    """A whole answer: the status, the headers, and the JSON-RPC error that goes into the body.

    The error carries the request's id where the caller has read one; before the body is read there is none.
    """

    status: int
    code: int
    message: str
    data: Json = None
    headers: HeaderPairs = ()


def refuse(status: int, message: str) -> Refusal:
    """A refusal that is about the HTTP request and not about the message in it."""
    return Refusal(status, ErrorCode.INVALID_REQUEST, message)


class Accepts(msgspec.Struct, frozen=True):
    """What the client takes as an answer."""

    json: bool = True
    stream: bool = True


# ---- Host and Origin ----

# `localhost` and what it is short for, at any port: what a server on a developer's machine is called by its clients.
LOCAL_HOSTS: Final = ("localhost", "127.0.0.1", "[::1]")

_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._~-]+)(?::([0-9]{1,5}))?")
_ORIGIN = re.compile(r"([a-z][a-z0-9+.-]*)://(\[[0-9a-f:.]+\]|[a-z0-9._~-]+)(?::([0-9]{1,5}))?")
_DEFAULT_PORTS = {"http": "80", "https": "443"}


class Access(msgspec.Struct, frozen=True, eq=False):
    """Which hosts a server answers as, and which web pages may call it. Build it with `allow()`."""

    hosts: frozenset[str]
    origins: frozenset[str]
    is_any_host: bool = False
    is_any_origin: bool = False

    @classmethod
    def allow(cls, hosts: tuple[str, ...] = LOCAL_HOSTS, origins: tuple[str, ...] | None = None) -> "Access":
        """Rows such as `localhost`, `mcp.example.com:8443`, `https://app.example.com`; `*` allows all.

        A row without a port allows every port. Without `origins`, pages on one of the hosts may call; where the hosts
        are `*`, none may until `origins` says which.

        Raises:
            UsageError: a row that is neither a host nor an origin.
        """
        if origins is None:
            origins = tuple(
                f"{scheme}://{host}" for host in hosts if host != "*" for scheme in _DEFAULT_PORTS
            )
        for row in hosts:
            if row != "*" and _HOST.fullmatch(row.lower()) is None:
                raise UsageError(f"not a host: {row!r}; write it like mcp.example.com", path="hosts")
        for row in origins:
            if row not in ("*", "null") and _ORIGIN.fullmatch(row.lower()) is None:
                raise UsageError(
                    f"not an origin: {row!r}; write it like https://app.example.com", path="origins"
                )
        return cls(
            frozenset(row.lower() for row in hosts),
            frozenset(row.lower() for row in origins),
            "*" in hosts,
            "*" in origins,
        )


def with_port(origin: str) -> str:
    """An origin with the port it has in any case; what has no default port, or is no origin, as it is."""
    found = _ORIGIN.fullmatch(origin.lower())
    port = None if found is None else _DEFAULT_PORTS.get(found[1])
    return origin if found is None or found[3] or port is None else f"{origin}:{port}"


def check_access(access: Access, headers: Headers) -> Refusal | None:
    """Refuse what comes under a foreign name, which is how a web page reaches a server on its reader's machine.

    By DNS rebinding a page of `evil.example` is same-origin with 127.0.0.1, so that no Origin gives it away; but the
    browser still says whom it meant to call, in Host (2026-07-28 "Security & Endpoint"; conformance
    `dns-rebinding-protection`). An Origin, where there is one, must be allowed as well.
    """
    host, origin = headers.get("host", ""), headers.get("origin")
    is_short = len(host) + len(origin or "") <= MAX_CACHED_NAMES
    return (_judge_names if is_short else _judge_names.__wrapped__)(access, host, origin)


# A server is called by few names, all day, and each answer is the same. Long ones are an attempt to fill memory, and are
# judged each time: a DNS name has at most 253 characters.
MAX_CACHED_NAMES = 600


@lru_cache(maxsize=1024)
def _judge_names(access: Access, host: str, origin: str | None) -> Refusal | None:
    if not access.is_any_host:
        host = host.lower()
        found = _HOST.fullmatch(host)
        if found is None:
            return refuse(400, "the Host header is missing or malformed")
        if host not in access.hosts and found[1] not in access.hosts:
            return refuse(
                403,
                "this server does not answer as that Host: its option hosts (--allow-host) says as which it does",
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
    return None if is_allowed else refuse(403, "pages of that Origin may not call this server")


# ---- before the body ----


class Endpoint(msgspec.Struct, frozen=True):
    """How a server wants its one URL to behave. `versions` are those that it serves, of either era.

    Raises: UsageError for a version that does not exist, or none at all.
    """

    access: Access = Access.allow()
    has_sessions: bool = False
    versions: tuple[str, ...] = VERSIONS
    max_body_bytes: int = 16_777_216

    def __post_init__(self) -> None:
        if not self.versions or not set(self.versions) <= set(VERSIONS):
            raise UsageError(f"versions must be some of {', '.join(VERSIONS)}", path="versions")

    @property
    def allowed(self) -> str:
        """The value of `Allow`: sessions are what GET and DELETE are for."""
        return "GET, POST, DELETE, OPTIONS" if self.has_sessions else "POST, OPTIONS"


_VERBS = {verb.value: verb for verb in Verb}


def verb_of(method: str) -> Verb:
    """The verb of an HTTP request line."""
    return _VERBS.get(method, Verb.OTHER)


# Two readers would find two ends of this request, and one of them another request behind the first (RFC 9112, 6.1: "ought to
# be handled as an error", and nothing more be read from the connection). Some HTTP servers leave that to us.
_TWO_ENDS: Final = Refusal(
    400,
    ErrorCode.INVALID_REQUEST,
    "a body comes with a Content-Length or with a Transfer-Encoding, not with both",
    headers=(("connection", "close"),),
)


def check_request(endpoint: Endpoint, verb: Verb, headers: Headers) -> Accepts | Refusal:
    """The first gate, for every request, before its body is read.

    An unread body must still be drained or the connection closed; that is the HTTP server's.
    """
    if "transfer-encoding" in headers and "content-length" in headers:
        return _TWO_ENDS
    refusal = check_access(endpoint.access, headers)
    if refusal is not None:
        return refusal
    accepts = read_accept(headers.get("accept"))
    if verb is Verb.GET:
        is_offered = endpoint.has_sessions and not accepts.stream
        return refuse(406, "GET opens a stream: accept text/event-stream") if is_offered else accepts
    if verb is not Verb.POST:
        return accepts
    return (
        _check_content(headers)
        or _check_length(headers, endpoint.max_body_bytes)
        or (accepts if accepts.json or accepts.stream else refuse(406, _ACCEPT_WHAT))
    )


_ACCEPT_WHAT = "answers are application/json or text/event-stream, and neither is accepted"


def _check_content(headers: Headers) -> Refusal | None:
    if headers.get("content-type") == "application/json" and "content-encoding" not in headers:
        return None  # what nearly all requests have
    # Also a defence: a page can send text/plain anywhere without asking, application/json only after a preflight.
    media_type, _, parameters = headers.get("content-type", "").lower().partition(";")
    if media_type.strip() != "application/json":
        return refuse(415, "the body must be application/json")
    for parameter in parameters.split(";"):
        name, _, value = parameter.strip().partition("=")
        if name == "charset" and value.strip('"') not in ("utf-8", "utf8"):
            return refuse(415, "the body must be UTF-8")
    if headers.get("content-encoding", "identity").lower() != "identity":
        return refuse(415, "the body must not be compressed")  # a small one could unfold beyond any limit
    return None


def _check_length(headers: Headers, limit: int) -> Refusal | None:
    length = headers.get("content-length")
    if length is None:
        return None
    if not (length.isascii() and length.isdigit()):
        return refuse(400, "the Content-Length is not a number")
    digits = length if len(length) <= 18 else length.lstrip("0") or "0"
    return too_large(limit) if len(digits) > 18 or int(digits) > limit else None


def too_large(limit: int) -> Refusal:
    """The answer to a body over the limit, by its declared length or while it is being read."""
    return refuse(413, f"the body is over the limit of {limit} bytes")


_BOTH = Accepts()
_USUAL_ACCEPT = frozenset(("application/json, text/event-stream", "*/*"))


def read_accept(value: str | None) -> Accepts:
    """What an Accept header takes (RFC 9110, 12.5.1): absent is everything, `q=0` is never, the exact range wins.

    Laxer than the specification, which wants both types listed: a client that takes one of them gets that one, so
    that `curl` works. Preference is not weighed: JSON is cheaper, and a stream is opened only where it is needed.
    """
    if value is None or value in _USUAL_ACCEPT:
        return _BOTH
    ranges: dict[str, bool] = {}
    for part in value.lower().split(","):
        media_range, *parameters = (piece.strip() for piece in part.split(";"))
        is_taken = not any(_is_zero(parameter) for parameter in parameters)
        ranges[media_range] = ranges.get(media_range, False) or is_taken
    return Accepts(*(_takes(ranges, kind) for kind in ("application/json", "text/event-stream")))


def _is_zero(parameter: str) -> bool:
    name, _, value = parameter.partition("=")
    return name.strip() == "q" and re.fullmatch(r"0(?:\.0*)?", value.strip()) is not None


def _takes(ranges: dict[str, bool], media_type: str) -> bool:
    for media_range in (media_type, media_type.partition("/")[0] + "/*", "*/*"):
        if media_range in ranges:
            return ranges[media_range]
    return False
