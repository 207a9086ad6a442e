"""The options of `Server(...)`, with defaults and validation.

Options that belong to the protocol core or to the catalogue are passed on to them, and validated there.
"""

from collections.abc import Sequence

import msgspec

# Imported as modules: their attributes are loaded lazily, with the first server.
import jackstay.protocol.server as core
from jackstay import types
from jackstay.errors import Json, UnexpectedOptionError, UsageError
from jackstay.protocol import VERSIONS
from jackstay.server._catalogue import PAGE_SIZE, CatalogueOptions
from jackstay.server._entries import IconLike, read_icons
from jackstay.server._pool import THREADS

# The capabilities that a server can declare before anything is registered.
CAPABILITIES = ("tools", "resources", "prompts", "completions")

# Seconds that a client has to answer an `input_required` result: a person may have to read it.
ROUND_TIMEOUT = 600.0

_DECLARATIONS: dict[str, Json] = {
    "tools": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "prompts": {"listChanged": True},
    "completions": {},
}

# The parameters of `Server()` that are not options.
_OTHER_PARAMETERS = ("middleware", "on_invalid_arguments", "changes")


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of a server.

    Raises: UsageError, which names the option and the values that it accepts.
    """

    name: str
    version: str = "0"
    title: str | None = None
    description: str | None = None
    website_url: str | None = None
    icons: Sequence[IconLike] | None = None
    # Instructions for the model on how to use the server.
    instructions: str = ""
    versions: tuple[str, ...] = VERSIONS
    # Declared even if nothing of the kind is registered, for servers that register tools later.
    capabilities: tuple[str, ...] = ()
    # Refuse requests between `initialize` and `notifications/initialized`.
    strict: bool = False
    # Requests in flight on one connection. Further requests are rejected as busy.
    max_concurrent: int = 1024
    max_frame_bytes: int = 16_777_216
    # Seconds for running handlers when a connection ends.
    drain_timeout: float = 1.0
    # Seconds for all shutdown hooks together. Over stdio they have less, because the client waits.
    shutdown_timeout: float = 5.0
    # Blocking functions that run at the same time, for all connections together.
    threads: int = THREADS
    page_size: int = PAGE_SIZE
    # Cache hints of 2026-07-28, for lists and `server/discover`.
    ttl_ms: int = 0
    cache_scope: str = "private"
    # HMAC secrets for `requestState`: the first one signs, all of them verify. Empty: a random one for this process.
    request_state_secrets: tuple[bytes, ...] = ()
    # Seconds after which a `requestState` expires.
    round_timeout: float = ROUND_TIMEOUT

    def __post_init__(self) -> None:
        for name in ("name", "version"):
            value: object = getattr(self, name)
            if not isinstance(value, str) or not value:
                raise UsageError(f"{name} must be a non-empty str, not {value!r}", path=name)
        for name in ("title", "description", "website_url", "instructions"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise UsageError(f"{name} must be a str, not {value!r}", path=name)
        if type(self.threads) is not int or not 1 <= self.threads <= 1024:
            raise UsageError(f"threads must be an int from 1 to 1024, not {self.threads!r}", path="threads")
        for capability in self.capabilities:
            if capability not in CAPABILITIES:
                known = ", ".join(map(repr, CAPABILITIES))
                raise UsageError(f"capabilities must be some of {known}, not {capability!r}", path="capabilities")
        secrets: tuple[object, ...] = self.request_state_secrets
        if not all(isinstance(secret, bytes) and len(secret) >= 16 for secret in secrets):
            raise UsageError("request_state_secrets must be bytes, each of at least 16", path="request_state_secrets")
        for name, limit in (("round_timeout", 86_400), ("shutdown_timeout", 3600)):
            seconds: object = getattr(self, name)
            if not isinstance(seconds, int | float) or not 0 < seconds <= limit:  # NaN fails every comparison
                raise UsageError(f"{name} must be seconds, above 0 and at most {limit}, not {seconds!r}", path=name)
        self.for_core(frozenset())
        self.for_catalogue()

    def for_catalogue(self) -> CatalogueOptions:
        """Return the options of the catalogue."""
        return CatalogueOptions(page_size=self.page_size, ttl_ms=self.ttl_ms, cache_scope=self.cache_scope)

    def for_core(self, capabilities: frozenset[str]) -> "core.ServerOptions":
        """Return the options of the protocol core for a server with these capabilities."""
        declared = {name: _DECLARATIONS[name] for name in CAPABILITIES if name in capabilities}
        return core.ServerOptions(
            server_info=types.encode_json(self.implementation),
            capabilities=types.encode_json({**declared, "logging": {}}),
            instructions=self.instructions,
            versions=self.versions,
            strict=self.strict,
            max_concurrent=self.max_concurrent,
            max_frame_bytes=self.max_frame_bytes,
            drain_timeout=self.drain_timeout,
            ttl_ms=self.ttl_ms,
            cache_scope=self.cache_scope,
        )

    @property
    def implementation(self) -> "types.Implementation":
        """The `serverInfo` of this server."""
        return types.Implementation(
            name=self.name,
            version=self.version,
            title=self.title,
            description=self.description,
            website_url=self.website_url,
            icons=read_icons(self.icons),
        )


def make_options(**given: object) -> Options:
    """Validate the options of `Server()`.

    Raises: UnexpectedOptionError for an unknown one; UsageError for a bad value.
    """
    for option in sorted(given.keys() - set(Options.__struct_fields__)):
        raise UnexpectedOptionError("Server()", option, (*Options.__struct_fields__, *_OTHER_PARAMETERS))
    return Options(**given)  # type: ignore[arg-type]  # the Struct checks the values
