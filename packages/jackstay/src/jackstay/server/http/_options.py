"""The options of an HTTP endpoint: keywords of `server.asgi(...)`, described in `docs/settings.md`."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final, Literal, TypeGuard

from jackstay.errors import UsageError
from jackstay.protocol import Setting, SettingsBase, settings_of
from jackstay.protocol.http import LOCAL_HOSTS, Accepts, Access
from jackstay.server._subscriptions import MAX_URI_BYTES
from jackstay.server.http._auth import AuthLike
from jackstay.server.http._event_store import EventStore
from jackstay.server.http._session_store import SessionStore
from jackstay.server.http._stream import MAX_STREAM_BYTES

ResponseFormat = Literal["auto", "json", "sse"]


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


class HttpOptions(SettingsBase, frozen=True, kw_only=True):
    """The options of an endpoint with their defaults, described in `docs/settings.md`.

    Raises: UsageError, naming the option and its valid values.
    """

    # fmt: off
    path: Annotated[str, Setting("The path of the endpoint, for all protocol revisions.", is_valid=_is_path,
        expected=_PATH)] = "/mcp"
    sessions: Annotated[bool, Setting("Sessions for clients of 2025-03-26 to 2025-11-25. Requests to the client and"
        " unsolicited notifications need them.")] = False
    session_ttl: Annotated[float, Setting("Seconds without activity after which a session expires.", low=0.01,
        high=604_800)] = 1800.0
    max_sessions: Annotated[int, Setting("Maximum number of sessions. Above it the longest idle session of the caller"
        " with the most sessions is ended.", low=1, high=10_000_000)] = 10_000
    max_subscription_bytes: Annotated[int, Setting("Maximum total size of the URIs that one client subscribes to."
        " Above it the request is refused.", low=1024, high=2**30)] = MAX_URI_BYTES
    max_all_subscription_bytes: Annotated[int, Setting("The same limit for all clients of this process together.",
        low=1024, high=2**40)] = 64 * MAX_URI_BYTES
    max_requests: Annotated[int, Setting("Maximum number of HTTP requests that are served at once, with open streams."
        " Above it 503, which states that the request did not run.", low=1, high=10_000_000)] = 20_000
    session_store: Annotated[SessionStore | None, Setting("Stores sessions. Several workers need a shared store. None:"
        " in the memory of this process.", is_valid=_has("is_shared", "save", "change", "load", "delete"),
        expected="a SessionStore")] = None
    event_store: Annotated[EventStore | None, Setting("Makes streams resumable: `MemoryEventStore()`, or a store that"
        " workers share. None: streams are not resumable.", is_valid=_has("is_shared", "append", "replay", "forget"),
        expected="an EventStore")] = None
    retry: Annotated[float, Setting("Seconds before a client reconnects to a stream that was closed.", low=0,
        high=3600)] = 1.0
    response_format: Annotated[ResponseFormat, Setting('"auto": JSON, or SSE if messages precede the response. "json"'
        ' and "sse": always that format, if the client accepts it.')] = "auto"
    hosts: Annotated[Sequence[str], Setting('Allowed Host headers; `"*"` allows any. A name without a port allows'
        ' every port.', is_valid=_are_hosts,
        expected='names such as "mcp.example.com" or "localhost:8000", or "*"')] = LOCAL_HOSTS
    origins: Annotated[Sequence[str] | None, Setting('Origins of web pages that may send requests; `"*"` allows any.'
        ' None: the origins on one of the hosts.', is_valid=_are_origins,
        expected='origins such as "https://app.example.com", or "*"')] = None
    max_body_bytes: Annotated[int | None, Setting("Maximum size of a request body; above it 413. None:"
        " `max_frame_bytes`.", low=1024, high=2**40)] = None
    body_timeout: Annotated[float, Setting("Seconds for a request body to arrive; then 408.", low=0.01,
        high=3600)] = 30.0
    max_stream_bytes: Annotated[int, Setting("Bytes that are buffered per stream for a client that reads slowly; then"
        " the stream is closed.", low=1024, high=2**30)] = MAX_STREAM_BYTES
    keepalive: Annotated[float, Setting("Seconds of silence after which a keepalive comment is sent on a stream; 0:"
        " never.", low=0, high=3600)] = 15.0
    sse_path: Annotated[str | None, Setting("The path of the HTTP+SSE transport of 2024-11-05, for older clients."
        " None: disabled.", is_valid=_is_path, expected=_PATH)] = None
    messages_path: Annotated[str, Setting("The path to which clients of `sse_path` POST messages.", is_valid=_is_path,
        expected=_PATH)] = "/messages"
    auth: Annotated[AuthLike | None, Setting("Authentication: [keys, tokens, or both](server.md#authentication). None:"
        " no authentication.", is_valid=_has(),
        expected="keys(...), a token verifier, several of them, or a BearerAuth")] = None
    cors: Annotated[Sequence[str], Setting('Origins of web pages that may send requests and read responses; `"*"`'
        ' allows any. An origin without a port has the default port.', is_valid=_are_origins,
        expected='origins such as "https://app.example.com", or "*"')] = ()
    health: Annotated[str | bool, Setting("The path of the health check for load balancers. True: /health.",
        is_valid=_is_health, expected="a path such as /health, or True or False")] = False
    # fmt: on

    def __post_init__(self) -> None:
        super().__post_init__()
        if len({self.path, self.sse_path, self.messages_path}) != 3:
            paths = f"{self.path!r}, {self.sse_path!r}, {self.messages_path!r}"
            raise UsageError(f"path, sse_path and messages_path must differ: {paths}", path="sse_path")
        health = self.health_path
        if health is not None and health in (self.path, self.sse_path, self.messages_path):
            raise UsageError(
                f"health must differ from the other paths: {health!r}; use for example '/health'", path="health"
            )
        if not self.sessions and (self.event_store is not None or self.session_store is not None):
            name = "event_store" if self.event_store is not None else "session_store"
            raise UsageError(f"{name} needs sessions=True", path=name)

    @property
    def health_path(self) -> str | None:
        """The path of the health check; None: disabled."""
        return "/health" if self.health is True else self.health or None

    def accepted_formats(self, accepts: Accepts) -> tuple[bool, bool]:
        """Return whether a response may be JSON and whether it may be a stream.

        The client's `Accept` takes precedence.
        """
        return (
            accepts.json and not (self.response_format == "sse" and accepts.stream),
            accepts.stream and not (self.response_format == "json" and accepts.json),
        )

    @property
    def shares_sessions(self) -> bool:
        """True if other workers may serve the same sessions."""
        return self.session_store is not None and self.session_store.is_shared

    @property
    def needs_one_process(self) -> bool:
        """True if sessions or events are kept in the memory of one process, so that several workers would lose them."""
        shares_all = self.shares_sessions and (self.event_store is None or self.event_store.is_shared)
        return self.sessions and not shares_all


# By name, in the order of the documentation.
HTTP_OPTIONS: Final = settings_of(HttpOptions)


def make_http_options(**given: Any) -> HttpOptions:
    """Make the options of an endpoint. For `hosts`, `origins` and `cors` a str is a sequence of one.

    Raises: UnexpectedOptionError, UsageError.
    """
    return HttpOptions.from_keywords("asgi()", as_sequences(given, "hosts", "origins", "cors"))


def as_sequences(given: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return the options with a sequence of one for each of these that is a str."""
    return given | {name: (given[name],) for name in names if isinstance(given.get(name), str)}
