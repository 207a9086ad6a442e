"""What can be set for an HTTP endpoint, as rows with defaults; wrong values are refused when the endpoint is made.

The keyword of `server.asgi(...)` and its default are the Struct's field; its row below makes the check and the line in
`docs/settings.md`.

Must never know a request. Above: `_app`, `_run`. Below: `jackstay.protocol`.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Literal, TypedDict, TypeGuard

import msgspec

from jackstay.errors import UsageError
from jackstay.protocol.client import Setting
from jackstay.protocol.http import LOCAL_HOSTS, Access
from jackstay.server._subscriptions import MAX_URI_BYTES
from jackstay.server.http._auth import AuthLike
from jackstay.server.http._event_store import EventStore
from jackstay.server.http._session_store import SessionStore
from jackstay.server.http._stream import MAX_STREAM_BYTES

Answers = Literal["auto", "json", "sse"]


class HttpKeywords(TypedDict, total=False):
    """The options of an endpoint; `docs/settings.md` explains each."""

    path: str
    sessions: bool
    session_ttl: float
    max_sessions: int
    max_subscription_bytes: int
    max_all_subscription_bytes: int
    session_store: SessionStore | None
    event_store: EventStore | None
    retry: float
    answers: Answers
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
    """Everything that can be set for an HTTP endpoint.

    Raises: UsageError, naming the option and what it may be.
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
    answers: Answers = "auto"
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
            raise UsageError("path, sse_path and messages_path must differ", path="sse_path")
        health = "/health" if self.health is True else self.health
        if health in (self.path, self.sse_path, self.messages_path):
            raise UsageError(f"health must be a path of its own, like /health, not {health!r}", path="health")
        if not self.sessions and (self.event_store is not None or self.session_store is not None):
            name = "event_store" if self.event_store is not None else "session_store"
            raise UsageError(f"{name} needs sessions=True", path=name)

    @property
    def needs_one_process(self) -> bool:
        """True if more than one worker would lose sessions or events: they are kept in the memory of one."""
        if not self.sessions:
            return False
        stores = (self.session_store, self.event_store)
        return stores[0] is None or any(store is not None and not store.is_shared for store in stores)


def _is_path(value: object) -> bool:
    return isinstance(value, str) and value.startswith("/") and "?" not in value and "#" not in value


def _is_health(value: object) -> bool:
    return isinstance(value, bool) or value == "" or _is_path(value)


def _are_hosts(value: object) -> bool:
    return are_texts(value) and _is_allowed(hosts=tuple(value))


def _are_origins(value: object) -> bool:
    return are_texts(value) and _is_allowed(origins=tuple(value))


def are_texts(value: object) -> TypeGuard[Sequence[str]]:
    """True for several texts. One text is a sequence to Python, of letters, and none to people."""
    return (
        isinstance(value, Sequence)
        and not isinstance(value, str)
        and all(isinstance(row, str) for row in value)
    )


def _is_allowed(hosts: tuple[str, ...] = ("*",), origins: tuple[str, ...] = ()) -> bool:
    try:
        Access.allow(hosts, origins)
    except UsageError:
        return False
    return True


def _has(*names: str) -> Callable[[object], bool]:
    """What a contract asks for, by its names; none: whoever takes the value has the last word."""
    return lambda value: all(hasattr(value, name) for name in names)


_PATH: Final = "a path that begins with a slash, like /mcp"

# By name, in the order of the documentation.
HTTP_OPTIONS: Final = {
    row.name: row
    for row in (
        Setting("path", "The one URL of all revisions.", holds=_is_path, must=_PATH),
        Setting("sessions", "Sessions for clients of 2025-03-26 to 2025-11-25: needed to ask them something, and to tell them "
                "something unasked.", is_flag=True),
        Setting("session_ttl", "After so long without anything happening a session is forgotten.", low=0.01, high=604_800),
        Setting("max_sessions", "Sessions at once; then an idle one is ended: of the caller with the most, and the one idle longest.",
                low=1, high=10_000_000, is_whole=True),
        Setting("max_subscription_bytes", "URIs that one client may be subscribed to, in bytes; above it the request is refused.",
                low=1024, high=2**30, is_whole=True),
        Setting("max_all_subscription_bytes", "URIs that all clients of this process may be subscribed to, in bytes.",
                low=1024, high=2**40, is_whole=True),
        Setting("session_store", "Where sessions are remembered: one that workers share, or None for the memory of this process.",
                is_optional=True, holds=_has("is_shared", "save", "load", "delete"), must="a SessionStore"),
        Setting("event_store", "What makes streams resumable: `MemoryEvents()`, or one that workers share. None: they are not.",
                is_optional=True, holds=_has("is_shared", "append", "replay", "forget"), must="an EventStore"),
        Setting("retry", "When a client comes back for a stream that was closed.", low=0, high=3600),
        Setting("answers", '"auto": JSON, unless something must be said before the answer. "json" and "sse": always that.',
                choices=("auto", "json", "sse")),
        Setting("hosts", 'Names that the server answers as, in any number; `"*"` is any. A name without a port allows every port.',
                holds=_are_hosts, must='names such as "mcp.example.com" or "localhost:8000", or "*"'),
        Setting("origins", 'Web pages that may call; `"*"` is any. None: those on one of the hosts.', is_optional=True,
                holds=_are_origins, must='origins such as "https://app.example.com", or "*"'),
        Setting("max_body_bytes", "The largest body of a request; above it 413. None: what a frame may have (`max_frame_bytes`).",
                low=1024, high=2**40, is_whole=True, is_optional=True),
        Setting("body_timeout", "How long a body may take that does not come in one piece; then 408.", low=0.01, high=3600),
        Setting("max_stream_bytes", "What may wait for a client that reads slowly, for each stream; then that stream is closed.",
                low=1024, high=2**30, is_whole=True),
        Setting("keepalive", "After so long in silence a stream says that it is alive; 0: never.", low=0, high=3600),
        Setting("sse_path", "Where 2024-11-05 is served, HTTP+SSE, for clients that know nothing newer. None: nowhere.",
                is_optional=True, holds=_is_path, must=_PATH),
        Setting("messages_path", "Where clients of `sse_path` send to.", holds=_is_path, must=_PATH),
        Setting("auth", "Who may call: [keys, tokens, or both](server.md#who-may-call). None: everybody who can reach it.",
                is_optional=True, holds=_has(), must="keys(...), a token verifier, several of them, or a BearerAuth"),
        Setting("cors", 'Web pages that may call and read the answers, by origin; `"*"` is any. One without a port has the default port.',
                holds=_are_origins, must='origins such as "https://app.example.com", or "*"'),
        Setting("health", "Where load balancers ask whether to send requests here. True: at /health.",
                holds=_is_health, must="a path of its own, like /health, or True or False"),
    )
}  # fmt: skip


def make_http_options(**given: object) -> HttpOptions:
    """The options, where an unknown one is refused like a wrong one.

    Raises: UsageError, naming the option.
    """
    refuse_unknown(given, HTTP_OPTIONS)
    # One name is a list of one: as a sequence of letters it would allow none, and say nothing.
    single = {name: (given[name],) for name in _LISTS if isinstance(given.get(name), str)}
    return HttpOptions(**(given | single))  # type: ignore[arg-type]  # the rows check their values


def refuse_unknown(given: Iterable[str], known: Iterable[str]) -> None:
    """Raises: UsageError, naming the first option that is none."""
    known = tuple(known)
    for name in sorted(set(given).difference(known)):
        raise UsageError(
            f"{name} is no option of an HTTP server; the options are {', '.join(known)}", path=name
        )


_LISTS: Final = ("hosts", "origins", "cors")
