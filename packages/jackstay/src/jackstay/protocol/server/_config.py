"""The options of a server, and the results that are the same for every client, encoded once.

A connection responds to `initialize` and `server/discover` itself. Everything in those results except the revision is
known when the server starts, so all connections share one `ServerConfig`.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Annotated, Literal

import msgspec

from jackstay.errors import UsageError
from jackstay.protocol._methods import METHODS, Method, Sender, is_known
from jackstay.protocol._settings import Setting, SettingsBase, versions_setting
from jackstay.protocol._versions import REVISIONS, VERSIONS, Era, newest
from jackstay.protocol.server._stateless import finalize_result, result_head
from jackstay.protocol.wire import MAX_FRAME_BYTES
from jackstay.types import DECODE_ERRORS, encode_json

# The core responds to these itself; handlers never get them.
CORE_METHODS = frozenset({"initialize", "ping", "server/discover"})


class ListOptions(SettingsBase, frozen=True, kw_only=True):
    """The options of lists."""

    # fmt: off
    # Large, because servers built with the official SDKs send a single page, and some hosts never request a second.
    page_size: Annotated[int, Setting("The number of entries on a page of a list.", low=1)] = 500
    ttl_ms: Annotated[int, Setting("How many milliseconds lists and `server/discover` may be cached, from 2026-07-28"
        " on.", low=0)] = 0
    cache_scope: Annotated[Literal["private", "public"], Setting("Who may cache them.")] = "private"
    # fmt: on


class ConnectionOptions(ListOptions, frozen=True, kw_only=True):
    """The options of connections that a user of `Server()` sets."""

    # fmt: off
    instructions: Annotated[str, Setting("Instructions for the model on how to use the server.")] = ""
    versions: Annotated[tuple[str, ...], versions_setting("The supported protocol revisions.")] = VERSIONS
    # Off by default, because clients pipeline.
    strict: Annotated[bool, Setting("Refuse requests between `initialize` and `notifications/initialized`.")] = False
    max_concurrent: Annotated[int, Setting("The maximum number of requests in flight on one connection. Further"
        " requests are refused as busy.", low=1)] = 1024
    max_frame_bytes: Annotated[int, Setting("The maximum size of a message, in both directions.", low=1024)
        ] = MAX_FRAME_BYTES
    # With one second a process exits 1.5 s after EOF, before a client sends SIGTERM after 2 s.
    drain_timeout: Annotated[float, Setting("Seconds that handlers may run after the connection ends or the server"
        " shuts down.", low=0, high=3600)] = 1.0
    # fmt: on


class ServerOptions(ConnectionOptions, frozen=True, kw_only=True):
    """The options of all connections of one server, validated on construction.

    `server_info`, `capabilities` and `stateless_capabilities` are encoded JSON objects; the last are the capabilities
    in `server/discover` (None: the same as `capabilities`). `methods` are those of extensions.

    Raises: UsageError for an invalid value.
    """

    server_info: bytes
    capabilities: bytes = b"{}"
    stateless_capabilities: bytes | None = None
    # The methods of extensions.
    methods: tuple[Method, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("server_info", "capabilities", "stateless_capabilities"):
            encoded = getattr(self, name)
            if encoded is None and name == "stateless_capabilities":
                continue
            try:
                msgspec.json.decode(encoded or b"", type=dict)
            except DECODE_ERRORS as error:
                raise UsageError(f"{name} must be an encoded JSON object: {error}", path=name) from error


@cache
def known_methods(version: str) -> dict[str, Method]:
    """Return the requests that a client may send in a revision, by name. Do not modify it."""
    return {name: row for name, row in METHODS.items() if row.is_request and is_known(name, version, Sender.CLIENT)}


class ServerConfig:
    """The options of a server and its encoded results. Create one and share it between all connections.

    Raises: UsageError if a result is larger than a frame.
    """

    def __init__(self, options: ServerOptions) -> None:
        self.options = options
        # Newest first: clients prefer the versions at the front.
        self.supported = tuple(sorted(set(options.versions), reverse=True))
        self.handshake = tuple(name for name in self.supported if REVISIONS[name].era is Era.HANDSHAKE)
        self.stateless = tuple(name for name in self.supported if REVISIONS[name].era is Era.STATELESS)
        # The requests that a client may send in each revision, and those among them that handlers serve.
        self.known: dict[str, dict[str, Method]] = {}
        self.served: dict[str, dict[str, Method]] = {}
        for version in self.supported:
            added = {row.name: row for row in options.methods if row.since <= version <= row.until}
            self.known[version] = known = {**known_methods(version), **added}
            self.served[version] = {name: row for name, row in known.items() if name not in CORE_METHODS}
        # Before the revision is negotiated, the methods of all of them are known.
        self.known_in_any_version = {
            name: row for version in self.supported for name, row in self.known[version].items()
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
        # The encoded DiscoverResult.
        self.discover_result = self.finalize(
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
        if max(len(self._initialize_tail), len(self.discover_result)) > max(available, options.max_frame_bytes // 2):
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
