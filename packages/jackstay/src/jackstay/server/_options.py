"""What can be set for a server, as rows with defaults; wrong values are refused when the server is made.

One row makes the keyword of `Server(...)` and the line in the documentation. Options that the core or the catalogue have
as well are handed on to them, and refused by them, in the same words.

Must never know a connection. Above: `_server`. Below: `jackstay.protocol`, `_catalogue`.
"""

from collections.abc import Sequence

import msgspec

# The core's room and the bodies are named whole: their faces load what is used of them, with the first server.
import jackstay.protocol.server as core
from jackstay import types
from jackstay.errors import Json, UsageError
from jackstay.protocol import VERSIONS
from jackstay.server._catalogue import PAGE_SIZE, CatalogueOptions
from jackstay.server._entries import IconLike, read_icons
from jackstay.server._pool import THREADS

# What a server may promise before anything of the kind is registered.
OFFERS = ("tools", "resources", "prompts", "completions")

# How long a client may take over one question of the stateless era: a person has to read it.
ROUND_TIMEOUT = 600.0

_CAPABILITIES: dict[str, Json] = {
    "tools": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "prompts": {"listChanged": True},
    "completions": {},
}


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that can be set for a server.

    Raises: UsageError, naming the option and what it may be.
    """

    name: str
    version: str = "0"
    title: str | None = None
    description: str | None = None
    website_url: str | None = None
    icons: Sequence[IconLike] | None = None
    # Words for the model about the whole server.
    instructions: str = ""
    versions: tuple[str, ...] = VERSIONS
    # What to promise although nothing of the kind is registered yet: for servers whose tools come and go.
    offers: tuple[str, ...] = ()
    # Refuse requests between `initialize` and `notifications/initialized`.
    strict: bool = False
    # Requests in flight on one connection; the next is refused as busy.
    max_concurrent: int = 1024
    max_frame_bytes: int = 16_777_216
    # What running handlers get when a connection ends.
    drain_timeout: float = 1.0
    # What all shutdown hooks together get, other than over stdio, where the client waits: closing a database takes a while.
    shutdown_timeout: float = 5.0
    # Blocking functions that run at once, for all connections.
    threads: int = THREADS
    page_size: int = PAGE_SIZE
    # Cache hints of 2026-07-28, for lists and `server/discover`.
    ttl_ms: int = 0
    cache_scope: str = "private"
    # Secrets that seal `requestState`, the first for new ones; none: one that this process makes. Workers share theirs.
    keys: tuple[bytes, ...] = ()
    # How long a sealed `requestState` can be answered, in seconds.
    round_timeout: float = ROUND_TIMEOUT

    def __post_init__(self) -> None:
        for name in ("name", "version"):
            value: object = getattr(self, name)
            if not isinstance(value, str) or not value:
                raise UsageError(f"{name} must be a text that is not empty, not {value!r}", path=name)
        for name in ("title", "description", "website_url", "instructions"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise UsageError(f"{name} must be a text, not {value!r}", path=name)
        if type(self.threads) is not int or not 1 <= self.threads <= 1024:
            raise UsageError(
                f"threads must be a whole number from 1 to 1024, not {self.threads!r}", path="threads"
            )
        if not all(offer in OFFERS for offer in self.offers):
            raise UsageError(f"offers must be some of {', '.join(OFFERS)}", path="offers")
        keys: tuple[object, ...] = self.keys
        if not all(isinstance(key, bytes) and len(key) >= 16 for key in keys):
            raise UsageError("keys must be secrets of at least 16 bytes each", path="keys")
        seconds: object = self.round_timeout
        if not isinstance(seconds, int | float) or not 0 < seconds <= 86_400:  # NaN is not above anything
            raise UsageError(
                f"round_timeout must be a number of seconds up to 86400, not {seconds!r}",
                path="round_timeout",
            )
        budget: object = self.shutdown_timeout
        if not isinstance(budget, int | float) or not 0 < budget <= 3600:
            raise UsageError(
                f"shutdown_timeout must be a number of seconds up to 3600, not {budget!r}",
                path="shutdown_timeout",
            )
        self.for_core(frozenset())
        self.for_catalogue()

    def for_catalogue(self) -> CatalogueOptions:
        """The part that the catalogue takes."""
        return CatalogueOptions(page_size=self.page_size, ttl_ms=self.ttl_ms, cache_scope=self.cache_scope)

    def for_core(self, offered: frozenset[str]) -> "core.ServerOptions":
        """The part that every connection takes, with the capabilities of what is offered."""
        capabilities = {name: _CAPABILITIES[name] for name in OFFERS if name in offered}
        return core.ServerOptions(
            server_info=types.encode_json(self.implementation),
            capabilities=types.encode_json({**capabilities, "logging": {}}),
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
        """Who this server says it is."""
        return types.Implementation(
            name=self.name,
            version=self.version,
            title=self.title,
            description=self.description,
            website_url=self.website_url,
            icons=read_icons(self.icons),
        )


def make_options(**given: object) -> Options:
    """The options, where an unknown one is refused like a wrong one.

    Raises: UsageError, naming the option.
    """
    unknown = given.keys() - set(Options.__struct_fields__)
    if unknown:
        known = ", ".join(Options.__struct_fields__)
        raise UsageError(
            f"{sorted(unknown)[0]} is no option of a server; the options are {known}", path=sorted(unknown)[0]
        )
    return Options(**given)  # type: ignore[arg-type]  # the rows check their values, as far as a wrong one could do harm
