"""The options of a server, and the results that are the same for every client, encoded once.

A connection responds to `initialize` and `server/discover` itself. Everything in those results except the revision is
known when the server starts, so all connections share one `ServerConfig`.
"""

from collections.abc import Callable, Mapping
from functools import cache, partial
from types import MappingProxyType

import msgspec

from jackstay.errors import UsageError
from jackstay.protocol._methods import METHODS, Method, Sender, is_known
from jackstay.protocol._versions import REVISIONS, VERSIONS, Era, newest
from jackstay.protocol.server._stateless import finalize_result, result_head
from jackstay.types import encode_json

# The core responds to these itself; handlers never get them.
CORE_METHODS = frozenset({"initialize", "ping", "server/discover"})


class ServerOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of all connections of one server, validated on construction.

    `server_info`, `capabilities` and `stateless_capabilities` are encoded JSON objects; the last are the capabilities
    in `server/discover` (None: the same as `capabilities`).

    Raises: UsageError for an invalid value.
    """

    server_info: bytes
    capabilities: bytes = b"{}"
    stateless_capabilities: bytes | None = None
    instructions: str = ""
    versions: tuple[str, ...] = VERSIONS
    # Refuse requests before `notifications/initialized`. Off by default, because clients pipeline.
    strict: bool = False
    # The maximum of requests in flight on one connection; further ones are refused as busy.
    max_concurrent: int = 1024
    max_frame_bytes: int = 16_777_216
    # How long handlers may run after the connection ends. With one second a process exits 1.5 s after EOF, before a
    # client sends SIGTERM after 2 s.
    drain_timeout: float = 1.0
    # How long the result of `server/discover` may be cached, and by whom (2026-07-28 server/utilities/caching).
    ttl_ms: int = 0
    cache_scope: str = "private"

    def __post_init__(self) -> None:
        for name in ("server_info", "capabilities", "stateless_capabilities"):
            _check_object(name, getattr(self, name))
        if not self.versions or not all(name in REVISIONS for name in self.versions):
            raise UsageError(
                f"invalid versions {self.versions!r}; use a non-empty tuple of {', '.join(VERSIONS)}", path="versions"
            )
        for name, low in (("max_concurrent", 1), ("max_frame_bytes", 1024), ("ttl_ms", 0)):
            value: object = getattr(self, name)
            if type(value) is not int or value < low:
                raise UsageError(f"{name} must be an int of at least {low}, not {value!r}", path=name)
        seconds: object = self.drain_timeout
        # NaN compares false with everything, so it is rejected too.
        if not isinstance(seconds, int | float) or not 0 <= seconds <= 3600:
            raise UsageError(
                f"drain_timeout must be a number of seconds from 0 to 3600, not {seconds!r}", path="drain_timeout"
            )
        if self.cache_scope not in ("private", "public"):
            raise UsageError(f"cache_scope must be 'private' or 'public', not {self.cache_scope!r}", path="cache_scope")


def _check_object(name: str, encoded: bytes | None) -> None:
    if encoded is None and name == "stateless_capabilities":
        return
    try:
        msgspec.json.decode(encoded or b"", type=dict)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{name} must be an encoded JSON object: {error}", path=name) from error


@cache
def known_methods(version: str) -> Mapping[str, Method]:
    """Return the requests that a client may send in a revision, by name."""
    return MappingProxyType(
        {name: row for name, row in METHODS.items() if row.is_request and is_known(name, version, Sender.CLIENT)}
    )


@cache
def served_methods(version: str) -> dict[str, Method]:
    """Return the `known_methods` that handlers serve. A plain dict for speed; do not modify it."""
    return {name: row for name, row in known_methods(version).items() if name not in CORE_METHODS}


class ServerConfig:
    """The options of a server and its encoded results. Create one and share it between all connections.

    Raises: UsageError if a result is larger than a frame.
    """

    __slots__ = (
        "_discover_result",
        "_initialize_tail",
        "finalize",
        "handshake",
        "known_in_any_version",
        "options",
        "stateless",
        "supported",
    )

    def __init__(self, options: ServerOptions) -> None:
        self.options = options
        # Newest first: clients prefer the versions at the front.
        self.supported = tuple(sorted(set(options.versions), reverse=True))
        self.handshake = tuple(name for name in self.supported if REVISIONS[name].era is Era.HANDSHAKE)
        self.stateless = tuple(name for name in self.supported if REVISIONS[name].era is Era.STATELESS)
        # Before the revision is negotiated, the methods of all of them are known.
        self.known_in_any_version = {
            name: row for version in self.supported for name, row in known_methods(version).items()
        }
        instructions = b',"instructions":%b' % encode_json(options.instructions) if options.instructions else b""
        # Adds `resultType` and the server's name to an encoded result, as the stateless era requires.
        self.finalize: Callable[[bytes], bytes] = partial(finalize_result, head=result_head(options.server_info))
        self._initialize_tail = b'"capabilities":%b,"serverInfo":%b%b}' % (
            options.capabilities,
            options.server_info,
            instructions,
        )
        capabilities = options.stateless_capabilities
        self._discover_result = self.finalize(
            b'{"supportedVersions":%b,"capabilities":%b%b,"ttlMs":%d,"cacheScope":%b}'
            % (
                encode_json(list(self.supported)),
                options.capabilities if capabilities is None else capabilities,
                instructions,
                options.ttl_ms,
                encode_json(options.cache_scope),
            )
        )
        # The envelope around a result is 40 bytes and an id, which has at most 1,024 characters of 6 bytes each.
        available = options.max_frame_bytes - 8192
        if max(len(self._initialize_tail), len(self._discover_result)) > max(available, options.max_frame_bytes // 2):
            raise UsageError(
                "capabilities, instructions and server_info do not fit into a frame; raise max_frame_bytes",
                path="max_frame_bytes",
            )

    def negotiate(self, requested: str) -> str | None:
        """Return the revision for `initialize`: the requested one if it is supported, else the newest, or None.

        See 2025-11-25 basic/lifecycle, "Version negotiation". Stateless revisions have no handshake.
        """
        return requested if requested in self.handshake else newest(self.handshake, Era.HANDSHAKE)

    def initialize_result(self, version: str) -> bytes:
        """Return the encoded InitializeResult for a revision."""
        return b'{"protocolVersion":%b,%b' % (encode_json(version), self._initialize_tail)

    @property
    def discover_result(self) -> bytes:
        """The encoded DiscoverResult."""
        return self._discover_result
