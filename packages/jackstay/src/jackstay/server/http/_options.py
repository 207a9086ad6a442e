"""The options of an HTTP endpoint.

A field of `HttpOptions` is a keyword of `server.asgi(...)` with its default. Its row in `HTTP_OPTIONS` has the check
and the description in `docs/settings.md`.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Literal, TypedDict, TypeGuard

import msgspec

from jackstay.errors import UnexpectedOptionError, UsageError
from jackstay.protocol.client import Setting
from jackstay.protocol.http import LOCAL_HOSTS, Access
from jackstay.server._subscriptions import MAX_URI_BYTES
from jackstay.server.http._auth import AuthLike
from jackstay.server.http._event_store import EventStore
from jackstay.server.http._session_store import SessionStore
from jackstay.server.http._stream import MAX_STREAM_BYTES

ResponseFormat = Literal["auto", "json", "sse"]


class HttpKeywords(TypedDict, total=False):
    """The options of an endpoint, described in `docs/settings.md`."""

    path: str
    sessions: bool
    session_ttl: float
    max_sessions: int
    max_subscription_bytes: int
    max_all_subscription_bytes: int
    session_store: SessionStore | None
    event_store: EventStore | None
    retry: float
    response_format: ResponseFormat
    hosts: Sequence[str]
    origins: Sequence[str] | None
    max_body_bytes: int | None
    body_timeout: float
    max_stream_bytes: int
    keepalive: float
    sse_path: str | None
    messages_path: str
    auth: AuthLike | None
    cors: Sequence[str]
    health: str | bool


class HttpOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of an endpoint with their defaults, described in `docs/settings.md`.

    Raises: UsageError, naming the option and its valid values.
    """

    path: str = "/mcp"
    sessions: bool = False
    session_ttl: float = 1800.0
    max_sessions: int = 10_000
    max_subscription_bytes: int = MAX_URI_BYTES
    max_all_subscription_bytes: int = 64 * MAX_URI_BYTES
    session_store: SessionStore | None = None
    event_store: EventStore | None = None
    retry: float = 1.0
    response_format: ResponseFormat = "auto"
    hosts: Sequence[str] = LOCAL_HOSTS
    origins: Sequence[str] | None = None
    max_body_bytes: int | None = None
    body_timeout: float = 30.0
    max_stream_bytes: int = MAX_STREAM_BYTES
    keepalive: float = 15.0
    sse_path: str | None = None
    messages_path: str = "/messages"
    auth: AuthLike | None = None
    cors: Sequence[str] = ()
    health: str | bool = False

    def __post_init__(self) -> None:
        for row in HTTP_OPTIONS.values():
            row.check(getattr(self, row.name))
        if len({self.path, self.sse_path, self.messages_path}) != 3:
            paths = f"{self.path!r}, {self.sse_path!r}, {self.messages_path!r}"
            raise UsageError(f"path, sse_path and messages_path must differ: {paths}", path="sse_path")
        health = "/health" if self.health is True else self.health
        if health in (self.path, self.sse_path, self.messages_path):
            raise UsageError(
                f"health must differ from the other paths: {health!r}; use for example '/health'", path="health"
            )
        if not self.sessions and (self.event_store is not None or self.session_store is not None):
            name = "event_store" if self.event_store is not None else "session_store"
            raise UsageError(f"{name} needs sessions=True", path=name)

    @property
    def needs_one_process(self) -> bool:
        """True if sessions or events are kept in the memory of one process, so that several workers would lose them."""
        if not self.sessions:
            return False
        stores = (self.session_store, self.event_store)
        return stores[0] is None or any(store is not None and not store.is_shared for store in stores)


def _is_path(value: object) -> bool:
    return isinstance(value, str) and value.startswith("/") and "?" not in value and "#" not in value


def _is_health(value: object) -> bool:
    return isinstance(value, bool) or value == "" or _is_path(value)


def _are_hosts(value: object) -> bool:
    return are_strings(value) and _is_allowed(hosts=tuple(value))


def _are_origins(value: object) -> bool:
    return are_strings(value) and _is_allowed(origins=tuple(value))


def are_strings(value: object) -> TypeGuard[Sequence[str]]:
    """Return whether this is a sequence of strings. A str is a sequence too, but not accepted here."""
    return isinstance(value, Sequence) and not isinstance(value, str) and all(isinstance(row, str) for row in value)


def _is_allowed(hosts: tuple[str, ...] = ("*",), origins: tuple[str, ...] = ()) -> bool:
    try:
        Access.allow(hosts, origins)
    except UsageError:
        return False
    return True


def _has(*names: str) -> Callable[[object], bool]:
    """Return a check that a value has these attributes. Without names it accepts any value, which is checked later."""
    return lambda value: all(hasattr(value, name) for name in names)


_PATH: Final = "a path that begins with a slash, such as /mcp"

# By name, in the order of the documentation.
HTTP_OPTIONS: Final = {
    row.name: row
    for row in (
        Setting("path", "The path of the endpoint, for all protocol revisions.", is_valid=_is_path, expected=_PATH),
        Setting("sessions", "Sessions for clients of 2025-03-26 to 2025-11-25. Requests to the client and unsolicited "
                "notifications need them.", is_flag=True),
        Setting("session_ttl", "Seconds without activity after which a session expires.", low=0.01, high=604_800),
        Setting("max_sessions",
                "Maximum number of sessions. Above it the longest idle session of the caller with the most "
                "sessions is ended.",
                low=1, high=10_000_000, is_integer=True),
        Setting("max_subscription_bytes",
                "Maximum total size of the URIs that one client subscribes to. Above it the request "
                "is refused.",
                low=1024, high=2**30, is_integer=True),
        Setting("max_all_subscription_bytes", "The same limit for all clients of this process together.",
                low=1024, high=2**40, is_integer=True),
        Setting("session_store",
                "Stores sessions. Several workers need a shared store. None: in the memory of this process.",
                is_optional=True, is_valid=_has("is_shared", "save", "load", "delete"), expected="a SessionStore"),
        Setting("event_store",
                "Makes streams resumable: `MemoryEventStore()`, or a store that workers share. None: streams are "
                "not resumable.",
                is_optional=True, is_valid=_has("is_shared", "append", "replay", "forget"), expected="an EventStore"),
        Setting("retry", "Seconds before a client reconnects to a stream that was closed.", low=0, high=3600),
        Setting("response_format",
                '"auto": JSON, or SSE if messages precede the response. "json" and "sse": always that '
                "format, if the client accepts it.",
                choices=("auto", "json", "sse")),
        Setting("hosts", 'Allowed Host headers; `"*"` allows any. A name without a port allows every port.',
                is_valid=_are_hosts, expected='names such as "mcp.example.com" or "localhost:8000", or "*"'),
        Setting("origins",
                'Origins of web pages that may send requests; `"*"` allows any. None: the origins on one of the hosts.',
                is_optional=True,
                is_valid=_are_origins, expected='origins such as "https://app.example.com", or "*"'),
        Setting("max_body_bytes", "Maximum size of a request body; above it 413. None: `max_frame_bytes`.",
                low=1024, high=2**40, is_integer=True, is_optional=True),
        Setting("body_timeout", "Seconds for a request body to arrive; then 408.", low=0.01, high=3600),
        Setting("max_stream_bytes",
                "Bytes that are buffered per stream for a client that reads slowly; then the stream is closed.",
                low=1024, high=2**30, is_integer=True),
        Setting("keepalive", "Seconds of silence after which a keepalive comment is sent on a stream; 0: never.",
                low=0, high=3600),
        Setting("sse_path", "The path of the HTTP+SSE transport of 2024-11-05, for older clients. None: disabled.",
                is_optional=True, is_valid=_is_path, expected=_PATH),
        Setting("messages_path", "The path to which clients of `sse_path` POST messages.",
                is_valid=_is_path, expected=_PATH),
        Setting("auth", "Authentication: [keys, tokens, or both](server.md#authentication). None: no authentication.",
                is_optional=True, is_valid=_has(),
                expected="keys(...), a token verifier, several of them, or a BearerAuth"),
        Setting("cors",
                'Origins of web pages that may send requests and read responses; `"*"` allows any. An origin without a '
                "port has the default port.",
                is_valid=_are_origins, expected='origins such as "https://app.example.com", or "*"'),
        Setting("health", "The path of the health check for load balancers. True: /health.",
                is_valid=_is_health, expected="a path such as /health, or True or False"),
    )
}  # fmt: skip


def make_http_options(**given: object) -> HttpOptions:
    """Make the options of an endpoint. For `hosts`, `origins` and `cors` a str is a sequence of one.

    Raises: UnexpectedOptionError, UsageError.
    """
    refuse_unknown(given, HTTP_OPTIONS, "asgi()")
    single = {name: (given[name],) for name in _LISTS if isinstance(given.get(name), str)}
    return HttpOptions(**(given | single))  # type: ignore[arg-type]  # the rows check their values


def refuse_unknown(given: Iterable[str], known: Iterable[str], where: str) -> None:
    """Raises: UnexpectedOptionError, naming `where` and the first option that is not known."""
    known = tuple(known)
    for name in sorted(set(given).difference(known)):
        raise UnexpectedOptionError(where, name, known)


_LISTS: Final = ("hosts", "origins", "cors")
