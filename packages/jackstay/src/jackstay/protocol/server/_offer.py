"""What one server says the same to every client: its options, and the answers made from them, encoded once.

A connection answers `initialize` and `server/discover` by itself; everything those answers hold is known when the
server starts, except the revision. So it is encoded here, once for all connections, and an idle connection keeps only
a reference.

Must never know a state or a client. Above: `_connection`. Below: `_versions`, `_methods`, `_stateless`.
"""

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

import msgspec

from jackstay.errors import UsageError
from jackstay.protocol._methods import METHODS, Method, Sender, is_known
from jackstay.protocol._versions import REVISIONS, VERSIONS, Era, newest
from jackstay.protocol.server._stateless import dress_result, result_head
from jackstay.types import encode_json

# Answered by the core itself, so the dispatch never sees them.
ANSWERED_HERE = frozenset({"initialize", "ping", "server/discover"})


class ServerOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that can be set for the connections of one server. It refuses bad values when built.

    `server_info`, `capabilities` and `stateless_capabilities` are JSON objects already encoded; the last is what
    `server/discover` tells, where that differs (None: the same).

    Raises: UsageError, naming the option and what it may be.
    """

    server_info: bytes
    capabilities: bytes = b"{}"
    stateless_capabilities: bytes | None = None
    instructions: str = ""
    versions: tuple[str, ...] = VERSIONS
    # A known request before `notifications/initialized` is a sequence error; clients pipeline, hence not by default.
    strict: bool = False
    # Requests in flight on one connection; the next is refused as busy.
    max_concurrent: int = 1024
    max_frame_bytes: int = 16_777_216
    # What running handlers get when the connection ends: with it a process is gone 1.5 s after EOF, before the
    # client's next step at 2 s.
    drain_timeout: float = 1.0
    # How long a client may keep what `server/discover` said, and who may (2026-07-28 server/utilities/caching).
    ttl_ms: int = 0
    cache_scope: str = "private"

    def __post_init__(self) -> None:
        for name in ("server_info", "capabilities", "stateless_capabilities"):
            _check_object(name, getattr(self, name))
        if not self.versions or not all(name in REVISIONS for name in self.versions):
            raise UsageError(f"versions must be a non-empty tuple of {', '.join(VERSIONS)}", path="versions")
        for name, low in (("max_concurrent", 1), ("max_frame_bytes", 1024), ("ttl_ms", 0)):
            value: object = getattr(self, name)
            if type(value) is not int or value < low:
                raise UsageError(f"{name} must be a whole number from {low}, not {value!r}", path=name)
        seconds: object = self.drain_timeout
        # NaN compares false with everything, so it falls out here too.
        if not isinstance(seconds, int | float) or not 0 <= seconds <= 3600:
            raise UsageError(
                f"drain_timeout must be a number from 0 to 3600, not {seconds!r}", path="drain_timeout"
            )
        if self.cache_scope not in ("private", "public"):
            raise UsageError(
                f'cache_scope must be "private" or "public", not {self.cache_scope!r}', path="cache_scope"
            )


def _check_object(name: str, encoded: bytes | None) -> None:
    if encoded is None and name == "stateless_capabilities":
        return
    try:
        msgspec.json.decode(encoded or b"", type=dict)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{name} must be an encoded JSON object: {error}", path=name) from error


@cache
def known_methods(version: str) -> Mapping[str, Method]:
    """The requests that a client may send in a revision, by name."""
    return MappingProxyType(
        {
            name: row
            for name, row in METHODS.items()
            if row.is_request and is_known(name, version, Sender.CLIENT)
        }
    )


@cache
def served_methods(version: str) -> dict[str, Method]:
    """Those of them that a handler serves. A plain dict, for the hot path; nobody writes to it."""
    return {name: row for name, row in known_methods(version).items() if name not in ANSWERED_HERE}


class ServerOffer:
    """The answers of a server that are the same for everybody, from its options. Make one and share it.

    Raises: UsageError, if what it would answer is larger than a frame may be.
    """

    __slots__ = (
        "_discovered",
        "_head",
        "_introduction",
        "handshake",
        "known_anywhere",
        "options",
        "stateless",
        "supported",
    )

    def __init__(self, options: ServerOptions) -> None:
        self.options = options
        # Newest first, as a client reads the list from its front.
        self.supported = tuple(sorted(set(options.versions), reverse=True))
        self.handshake = tuple(name for name in self.supported if REVISIONS[name].era is Era.HANDSHAKE)
        self.stateless = tuple(name for name in self.supported if REVISIONS[name].era is Era.STATELESS)
        # Before the revision is known, a method of any of them is a known one.
        self.known_anywhere = {
            name: row for version in self.supported for name, row in known_methods(version).items()
        }
        instructions = (
            b',"instructions":%b' % encode_json(options.instructions) if options.instructions else b""
        )
        self._head = result_head(options.server_info)
        self._introduction = b'"capabilities":%b,"serverInfo":%b%b}' % (
            options.capabilities,
            options.server_info,
            instructions,
        )
        capabilities = options.stateless_capabilities
        self._discovered = self.complete(
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
        room = options.max_frame_bytes - 8192
        if max(len(self._introduction), len(self._discovered)) > max(room, options.max_frame_bytes // 2):
            raise UsageError(
                "capabilities, instructions and server_info do not fit into a frame", path="max_frame_bytes"
            )

    def negotiate(self, requested: str) -> str | None:
        """The revision to answer `initialize` with: the one asked for if we speak it, else our newest; None: none.

        2025-11-25 basic/lifecycle, "Version negotiation". A stateless revision has no handshake to agree on it by.
        """
        return requested if requested in self.handshake else newest(self.handshake, Era.HANDSHAKE)

    def initialize_result(self, version: str) -> bytes:
        """The InitializeResult for that revision, encoded."""
        return b'{"protocolVersion":%b,%b' % (encode_json(version), self._introduction)

    @property
    def discover_result(self) -> bytes:
        """The DiscoverResult, encoded."""
        return self._discovered

    def complete(self, result: bytes) -> bytes:
        """An encoded result as the stateless era wants it: `resultType` and our name spliced in (`dress_result`)."""
        return dress_result(result, self._head)
