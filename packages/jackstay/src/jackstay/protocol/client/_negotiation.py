"""Choosing the era: what to open with, and what the answer to it means. Pure functions of what was said.

The probe is always `server/discover`, never a call with effects. A DiscoverResult or a recognised error of the
stateless era decides for it, an InitializeResult for the handshake era; any other error to the probe means a server
that does not know it, which then gets `initialize`. No single code is trusted for that: servers answer what they do
not know with every code there is (2026-07-28 basic/versioning).

Above: the client's core, which holds a `Negotiation` while it is `initializing`. Below: `_versions`, `_jsonrpc`.
"""

import msgspec

from jackstay.errors import JsonRpcError, McpError, ProtocolError, TransportError
from jackstay.protocol._versions import REVISIONS, Era, newest
from jackstay.protocol.client._settings import Settings
from jackstay.protocol.client.events import (
    Event,
    Negotiated,
    NegotiationFailed,
    NegotiationRefused,
    Offered,
    ServerFacts,
)
from jackstay.protocol.wire._jsonrpc import ErrorCode
from jackstay.types import (
    META_CLIENT_CAPABILITIES,
    META_CLIENT_INFO,
    META_PROTOCOL_VERSION,
    META_SERVER_INFO,
    encode_json,
)

# Errors that only a server of the stateless era sends: after one of them `initialize` is never tried.
MODERN_CODES = frozenset(
    {
        ErrorCode.HEADER_MISMATCH,
        ErrorCode.MISSING_REQUIRED_CLIENT_CAPABILITY,
        ErrorCode.UNSUPPORTED_PROTOCOL_VERSION,
    }
)


class Negotiation(msgspec.Struct):
    """What was tried since the transport came up. It is not a state: two questions may be open at once."""

    steps: int = 0
    probe_id: int | None = None
    handshake_id: int | None = None
    requested: str = ""
    proposed: str = ""
    # The stateless era, agreed on while `initialize` is still unanswered.
    held: Negotiated | None = None
    has_opened: bool = False


class _DiscoverResult(msgspec.Struct, rename="camel"):
    supported_versions: list[str]
    capabilities: msgspec.Raw
    instructions: str | None = None
    meta: dict[str, msgspec.Raw] = msgspec.field(name="_meta", default_factory=dict)

    def __post_init__(self) -> None:
        _check_objects(self.capabilities)


class _InitializeResult(msgspec.Struct, rename="camel"):
    protocol_version: str
    capabilities: msgspec.Raw
    server_info: msgspec.Raw
    instructions: str | None = None

    def __post_init__(self) -> None:
        _check_objects(self.capabilities, self.server_info)


def _check_objects(*members: msgspec.Raw) -> None:
    """A ValueError becomes msgspec's own refusal of the whole result."""
    if any(bytes(memoryview(member)[:1]) != b"{" for member in members):
        raise ValueError("not an object")


_read_discovered = msgspec.json.Decoder(_DiscoverResult).decode
_read_initialized = msgspec.json.Decoder(_InitializeResult).decode


def is_modern(answer: msgspec.Raw | McpError) -> bool:
    """True for an error that only a server of the stateless era sends."""
    return isinstance(answer, JsonRpcError) and answer.code in MODERN_CODES


def is_permanent(error: McpError) -> bool:
    """True where trying again cannot help: a refused credential, for instance."""
    return isinstance(error, TransportError) and error.permanent


def opening(settings: Settings, verdict: Era | None) -> Offered:
    """What to open with: the era remembered, else the probe where both eras may be spoken."""
    stateless = newest(settings.versions, Era.STATELESS)
    handshake = newest(settings.versions, Era.HANDSHAKE)
    if stateless is None or (verdict is Era.HANDSHAKE and handshake is not None):
        assert handshake is not None  # `versions` is never empty
        return Offered(Era.HANDSHAKE, handshake)
    return Offered(Era.STATELESS, stateless)


def speaks_both(settings: Settings) -> bool:
    """True where the other era may be tried when the first is not understood."""
    return len({REVISIONS[name].era for name in settings.versions}) > 1


def envelope(settings: Settings, version: str) -> bytes:
    """The members of `_meta` that every request of the stateless era carries, encoded, without braces."""
    members = {
        META_PROTOCOL_VERSION: version,
        META_CLIENT_CAPABILITIES: settings.capabilities or {},
        META_CLIENT_INFO: settings.client_info,
    }
    return encode_json(members)[1:-1]


def envelope_head(version: str) -> bytes:
    """The one of them that does not say who asks, for a request that is made for somebody else."""
    return encode_json({META_PROTOCOL_VERSION: version})[1:-1]


def initialize_params(settings: Settings, version: str) -> bytes:
    """The params of `initialize`, encoded."""
    return encode_json(
        {
            "protocolVersion": version,
            "capabilities": settings.capabilities or {},
            "clientInfo": settings.client_info,
        }
    )


def judge_probe(
    settings: Settings, requested: str, answer: msgspec.Raw | McpError, *, may_repeat: bool = False
) -> Event:
    """What the answer to `server/discover` means. `may_repeat`: the revision that was asked for may be tried once more."""
    if isinstance(answer, McpError):
        return _judge_probe_error(settings, requested, answer, may_repeat)
    try:
        result = _read_discovered(answer)
    except msgspec.DecodeError:
        # A server that answers everything with something. It has no era yet; `initialize` will tell.
        return _not_stateless(settings, "the answer to server/discover is not a DiscoverResult", None)
    version = newest(_common(settings, result.supported_versions), Era.STATELESS)
    if version is None:
        legacy = newest(_common(settings, result.supported_versions), Era.HANDSHAKE)
        if legacy is not None:
            return Offered(Era.HANDSHAKE, legacy)
        return _mismatch(settings, result.supported_versions)
    if version != requested:
        return Offered(Era.STATELESS, version)
    facts = ServerFacts(
        version,
        Era.STATELESS,
        bytes(result.meta.get(META_SERVER_INFO, msgspec.Raw(b"{}"))),
        bytes(result.capabilities),
        result.instructions or "",
    )
    return Negotiated(version=version, server=facts)


def _judge_probe_error(settings: Settings, requested: str, error: McpError, may_repeat: bool) -> Event:
    if not isinstance(error, JsonRpcError):
        return _not_stateless(settings, str(error), error)
    if error.code == ErrorCode.UNSUPPORTED_PROTOCOL_VERSION:
        supported = _supported(error)
        version = newest(_common(settings, supported), Era.STATELESS)
        # One that refuses what it names may do so while it is being replaced by a newer one: the specification says to
        # choose from the list and try again (2026-07-28 basic/versioning). Once, or it would be a loop.
        if version is not None and (version != requested or may_repeat):
            return Offered(Era.STATELESS, version)
        return _mismatch(settings, supported, error)
    if error.code in MODERN_CODES:
        return NegotiationRefused(error)
    if error.code == ErrorCode.INTERNAL_ERROR and not speaks_both(settings):
        return NegotiationFailed(error)
    return _not_stateless(settings, str(error), error)


def judge_handshake(settings: Settings, requested: str, answer: msgspec.Raw | McpError) -> Event:
    """What the answer to `initialize` means."""
    if isinstance(answer, McpError):
        return _judge_handshake_error(settings, requested, answer)
    try:
        result = _read_initialized(answer)
    except msgspec.DecodeError as refusal:
        return NegotiationFailed(
            ProtocolError(f"the answer to initialize is not an InitializeResult ({refusal})")
        )
    version = result.protocol_version
    if version not in settings.versions or REVISIONS[version].era is not Era.HANDSHAKE:
        return _mismatch(settings, [version])
    facts = ServerFacts(
        version,
        Era.HANDSHAKE,
        bytes(result.server_info),
        bytes(result.capabilities),
        result.instructions or "",
    )
    return Negotiated(version=version, server=facts)


def _judge_handshake_error(settings: Settings, requested: str, error: McpError) -> Event:
    supported = _supported(error)
    if error.code == ErrorCode.UNSUPPORTED_PROTOCOL_VERSION:
        version = newest(_common(settings, supported), Era.STATELESS)
        return _mismatch(settings, supported, error) if version is None else Offered(Era.STATELESS, version)
    if error.code == ErrorCode.INVALID_PARAMS and supported:
        # 2025-11-25 basic/lifecycle draws this as the hard failure; a server that names others gets one of them.
        version = newest(_common(settings, supported), Era.HANDSHAKE)
        if version is None or version == requested:
            return _mismatch(settings, supported, error)
        return Offered(Era.HANDSHAKE, version)
    return NegotiationFailed(error)


def _not_stateless(settings: Settings, why: str, error: McpError | None) -> Event:
    version = newest(settings.versions, Era.HANDSHAKE)
    if version is not None:
        return Offered(Era.HANDSHAKE, version)
    spoken = ", ".join(settings.versions)
    refusal = ProtocolError(f"the server does not speak {spoken}: {why}")
    refusal.__cause__ = error
    return NegotiationRefused(refusal)


def _mismatch(settings: Settings, theirs: list[str], error: McpError | None = None) -> NegotiationRefused:
    ours = ", ".join(settings.versions)
    # The peer's list is its own word: quoted, and not all of it if it is long.
    said = ", ".join(str(name)[:40] for name in theirs[:10]) or "none that it names"
    refusal = ProtocolError(f"no common protocol revision: we speak {ours}; the server speaks {said}")
    refusal.__cause__ = error
    return NegotiationRefused(refusal)


def _common(settings: Settings, theirs: list[str]) -> tuple[str, ...]:
    return tuple(name for name in settings.versions if name in theirs)


def _supported(error: McpError) -> list[str]:
    data = error.data if isinstance(error, JsonRpcError) else None
    supported = data.get("supported") if isinstance(data, dict) else None
    return [name for name in supported if isinstance(name, str)] if isinstance(supported, list) else []
