"""Negotiation of era and revision: what to send first, and what the response means.

The probe is always `server/discover`, which has no side effects. A DiscoverResult or an error code of the stateless era
selects that era, an InitializeResult the handshake era. Any other error to the probe means a server that does not know
it; no single code is relied on, because servers use every code there is (2026-07-28 basic/versioning).
"""

from enum import Enum, unique

import msgspec

from jackstay.errors import Json, JsonRpcError, McpError, ProtocolError, TransportError
from jackstay.protocol._versions import REVISIONS, Era, newest
from jackstay.protocol.client import events as e
from jackstay.protocol.client._calls import Calls
from jackstay.protocol.client._exchange import Role
from jackstay.protocol.client._settings import MAX_NEGOTIATION_STEPS, Settings
from jackstay.protocol.wire._jsonrpc import ErrorCode, encode_notification
from jackstay.types import (
    META_CLIENT_CAPABILITIES,
    META_CLIENT_INFO,
    META_PROTOCOL_VERSION,
    META_SERVER_INFO,
    encode_json,
)

# Errors that only a server of the stateless era sends; after one of them `initialize` is not tried.
STATELESS_ERROR_CODES = frozenset(
    {ErrorCode.HEADER_MISMATCH, ErrorCode.MISSING_REQUIRED_CLIENT_CAPABILITY, ErrorCode.UNSUPPORTED_PROTOCOL_VERSION}
)


@unique
class ProbeHistory(Enum):
    """What the probe did to earlier transports: some servers exit when they receive an unknown request."""

    HARMLESS = "no server exited on the probe"
    FATAL = "the last server exited on the probe; the next start begins with `initialize`"
    SUSPECTED = "a server exited on the probe, but `initialize` failed too: the next start sends the probe again"


class Negotiation(msgspec.Struct):
    """The negotiation with one transport. Methods that return an event return it for the connection to process."""

    calls: Calls
    # The era of the last agreement, or None.
    known_era: Era | None = None
    probe_history: ProbeHistory = ProbeHistory.HARMLESS
    # The extensions that are declared only to a server that declared them. Set by the client.
    offered: dict[str, Json] = {}
    # It has begun, and neither agreed nor failed.
    is_open: bool = False
    # What was tried; both requests may be open at once.
    steps: int = 0
    probe_id: int | None = None
    handshake_id: int | None = None
    requested: str = ""
    proposed: str = ""
    # The stateless era was agreed on, while `initialize` has no response yet.
    deferred: e.Negotiated | None = None

    def open(self) -> e.Event | None:
        """Send the first request."""
        self.is_open = True
        settings = self.calls.settings
        first = first_proposal(settings, Era.HANDSHAKE if self.probe_history is ProbeHistory.FATAL else self.known_era)
        is_new = self.known_era is None and not self.calls.is_http and supports_both_eras(settings)
        if first.era is Era.STATELESS and is_new:
            self.calls.timers.arm(e.ProbeExpired, self.calls.now + settings.probe_wait)
        return self._propose(first)

    def send_initialize(self) -> e.Event | None:
        """Send `initialize`, unless it is open already. There is no need to wait for the probe any longer."""
        self.calls.timers.disarm(e.ProbeExpired)
        return self._propose(first_proposal(self.calls.settings, Era.HANDSHAKE))

    def try_version(self, proposal: e.VersionProposed) -> e.Event | None:
        """Try another era or version, if there are steps left."""
        self.steps += 1
        if self.steps > MAX_NEGOTIATION_STEPS:
            message = f"no agreement on a protocol version after {MAX_NEGOTIATION_STEPS} steps"
            return e.NegotiationFailed(ProtocolError(message))
        return self._propose(proposal)

    def _propose(self, proposal: e.VersionProposed) -> e.Event | None:
        """Send `server/discover` or `initialize` for that era, unless it is open already."""
        calls = self.calls
        if proposal.era is Era.STATELESS:
            if self.probe_id is not None:
                return None
            self.requested = proposal.version
            meta = request_meta(calls.settings, proposal.version)
            id = self.probe_id = calls.make_internal("server/discover", b"{}", Role.PROBE, meta=meta)
        else:
            if self.handshake_id is not None:
                return None
            self.proposed = proposal.version
            params = initialize_params(calls.settings, proposal.version)
            id = self.handshake_id = calls.make_internal("initialize", params, Role.HANDSHAKE)
        return None if id in calls.pending or calls.refusal is None else e.NegotiationRefused(calls.refusal)

    @property
    def is_probing(self) -> bool:
        """True while the probe has no response, and the server may be of the handshake era."""
        return self.is_open and self.probe_id is not None and supports_both_eras(self.calls.settings)

    def handle_response(self, event: e.ResponseReceived | e.ExchangeLost) -> e.Event | None:
        """Continue with the response to a request of the negotiation."""
        calls = self.calls
        calls.remove(calls.pending[event.id])
        response = event.error if isinstance(event, e.ExchangeLost) or event.result is None else event.result
        assert response is not None  # a response has a result or an error
        # A retry cannot help, for example after refused credentials.
        is_final = isinstance(event.error, TransportError) and event.error.permanent
        if isinstance(event, e.ExchangeLost) and (is_final or not event.was_declined):
            self.probe_id = self.handshake_id = None
            outcome: e.Event = e.NegotiationRefused(event.error) if is_final else e.NegotiationFailed(event.error)
        elif event.id == self.probe_id:
            self.probe_id = None
            outcome = interpret_probe(calls.settings, self.requested, response, may_repeat=self.steps == 0)
        else:
            self.handshake_id = None
            outcome = interpret_handshake(calls.settings, self.proposed, response)
        if self.handshake_id is not None and isinstance(outcome, e.Negotiated):
            # Both were sent, and a server of both eras treats `initialize` as the client's choice. So its response
            # decides; without one the connect deadline does, and next time `initialize` is not sent.
            self.deferred = outcome
            return None
        is_stateless = isinstance(response, JsonRpcError) and response.code in STATELESS_ERROR_CODES
        is_usable = isinstance(outcome, e.Negotiated | e.VersionProposed) or is_stateless
        if self.deferred is not None and not isinstance(outcome, e.Negotiated):
            return self.deferred
        if not is_usable and (self.probe_id is not None or self.handshake_id is not None):
            return None  # the response to the other request may be usable; the connect deadline limits the wait
        return outcome

    def restart(self, id: int) -> e.Event | None:
        """Begin again with `initialize`: the server refused request `id` because it does not know the session."""
        self.calls.remove(self.calls.pending[id])
        self.calls.abandon_own(Role.PROBE)
        self.probe_id = self.handshake_id = None
        return self.try_version(first_proposal(self.calls.settings, Era.HANDSHAKE))

    def finish(self, server: e.ServerFacts) -> None:
        """Store the agreement, and abandon the request that has no response."""
        calls = self.calls
        self.is_open = False
        self.known_era = server.era
        calls.abandon_own(Role.PROBE, Role.HANDSHAKE)
        meta = version_meta = b""
        if server.era is Era.STATELESS:
            meta = request_meta(calls.settings, server.version, _accepted(self.offered, server))
            version_meta = encode_json({META_PROTOCOL_VERSION: server.version})[1:-1]
            self.probe_history = ProbeHistory.HARMLESS
        else:
            calls.send_message(encode_notification("notifications/initialized"), None)
        disconnect_cancels = calls.is_http and REVISIONS[server.version].disconnect_cancels
        calls.agree(meta, version_meta, closes_response_to_cancel=disconnect_cancels)

    def record_failure(self, event: e.Event) -> None:
        """Record for the next start how the connection failed, before or after an agreement."""
        if isinstance(event, e.WentDown) and self.is_probing:
            self.probe_history = ProbeHistory.FATAL
        elif self.is_open and self.probe_history is ProbeHistory.FATAL:
            self.probe_history = ProbeHistory.SUSPECTED
        self.is_open = False
        if isinstance(event, e.NegotiationFailed | e.NegotiationRefused | e.ConnectExpired):
            # Forget the era: the server may have changed it. A deferred stateless agreement is kept.
            self.known_era = None if self.deferred is None else Era.STATELESS


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
    """Raise ValueError for a member that is not an object; msgspec makes a ValidationError of it."""
    if any(bytes(memoryview(member)[:1]) != b"{" for member in members):
        raise ValueError("expected an object")


_read_discovered = msgspec.json.Decoder(_DiscoverResult).decode
_read_initialized = msgspec.json.Decoder(_InitializeResult).decode


def first_proposal(settings: Settings, verdict: Era | None) -> e.VersionProposed:
    """Return the first era and version to try: the known era, else the stateless era if it is enabled."""
    stateless = newest(settings.versions, Era.STATELESS)
    handshake = newest(settings.versions, Era.HANDSHAKE)
    if stateless is None or (verdict is Era.HANDSHAKE and handshake is not None):
        assert handshake is not None  # `versions` is never empty
        return e.VersionProposed(Era.HANDSHAKE, handshake)
    return e.VersionProposed(Era.STATELESS, stateless)


def supports_both_eras(settings: Settings) -> bool:
    """Return True if both eras are enabled."""
    return len({REVISIONS[name].era for name in settings.versions}) > 1


def _accepted(offered: dict[str, Json], server: e.ServerFacts) -> dict[str, Json]:
    """Return the offered extensions that the server declared."""
    if not offered or b'"extensions"' not in server.capabilities:
        return {}
    declared = msgspec.json.decode(server.capabilities).get("extensions")
    return {name: value for name, value in offered.items() if isinstance(declared, dict) and name in declared}


def request_meta(settings: Settings, version: str, extensions: dict[str, Json] | None = None) -> bytes:
    """Return the members of `_meta` that every request of the stateless era has, encoded, without braces.

    `extensions` are declared in addition to those of the settings.
    """
    capabilities = settings.capabilities or {}
    if extensions:
        known = capabilities.get("extensions")
        capabilities = {**capabilities, "extensions": {**extensions, **(known if isinstance(known, dict) else {})}}
    members = {
        META_PROTOCOL_VERSION: version,
        META_CLIENT_CAPABILITIES: capabilities,
        META_CLIENT_INFO: settings.client_info,
    }
    return encode_json(members)[1:-1]


def initialize_params(settings: Settings, version: str) -> bytes:
    """Return the params of `initialize`, encoded."""
    return encode_json(
        {"protocolVersion": version, "capabilities": settings.capabilities or {}, "clientInfo": settings.client_info}
    )


def interpret_probe(
    settings: Settings, requested: str, response: msgspec.Raw | McpError, *, may_repeat: bool = False
) -> e.Event:
    """Return the event for a response to `server/discover`. `may_repeat`: `requested` may be tried once more."""
    if isinstance(response, McpError):
        return _interpret_probe_error(settings, requested, response, may_repeat)
    try:
        result = _read_discovered(response)
    except msgspec.DecodeError:
        # The server responds to any request with something; `initialize` will show whether it has a handshake.
        return _fall_back_to_handshake(settings, "the response to server/discover is not a DiscoverResult", None)
    version = newest(_common(settings, result.supported_versions), Era.STATELESS)
    if version is None:
        legacy = newest(_common(settings, result.supported_versions), Era.HANDSHAKE)
        if legacy is not None:
            return e.VersionProposed(Era.HANDSHAKE, legacy)
        return _mismatch(settings, result.supported_versions)
    if version != requested:
        return e.VersionProposed(Era.STATELESS, version)
    facts = e.ServerFacts(
        version,
        Era.STATELESS,
        bytes(result.meta.get(META_SERVER_INFO, msgspec.Raw(b"{}"))),
        bytes(result.capabilities),
        result.instructions or "",
    )
    return e.Negotiated(facts)


def _interpret_probe_error(settings: Settings, requested: str, error: McpError, may_repeat: bool) -> e.Event:
    if not isinstance(error, JsonRpcError):
        return _fall_back_to_handshake(settings, str(error), error)
    if error.code == ErrorCode.UNSUPPORTED_PROTOCOL_VERSION:
        supported = _supported(error)
        version = newest(_common(settings, supported), Era.STATELESS)
        # A server may refuse a version that it lists while it is being replaced by a newer one: choose from the list
        # and try again (2026-07-28 basic/versioning). Only once, to avoid a loop.
        if version is not None and (version != requested or may_repeat):
            return e.VersionProposed(Era.STATELESS, version)
        return _mismatch(settings, supported, error)
    if error.code in STATELESS_ERROR_CODES:
        return e.NegotiationRefused(error)
    if error.code == ErrorCode.INTERNAL_ERROR and not supports_both_eras(settings):
        return e.NegotiationFailed(error)
    return _fall_back_to_handshake(settings, str(error), error)


def interpret_handshake(settings: Settings, requested: str, response: msgspec.Raw | McpError) -> e.Event:
    """Return the event for a response to `initialize`."""
    if isinstance(response, McpError):
        return _interpret_handshake_error(settings, requested, response)
    try:
        result = _read_initialized(response)
    except msgspec.DecodeError as invalid:
        return e.NegotiationFailed(ProtocolError(f"the response to initialize is not an InitializeResult: {invalid}"))
    version = result.protocol_version
    if version not in settings.versions or REVISIONS[version].era is not Era.HANDSHAKE:
        return _mismatch(settings, [version])
    facts = e.ServerFacts(
        version, Era.HANDSHAKE, bytes(result.server_info), bytes(result.capabilities), result.instructions or ""
    )
    return e.Negotiated(facts)


def _interpret_handshake_error(settings: Settings, requested: str, error: McpError) -> e.Event:
    supported = _supported(error)
    if error.code == ErrorCode.UNSUPPORTED_PROTOCOL_VERSION:
        version = newest(_common(settings, supported), Era.STATELESS)
        return _mismatch(settings, supported, error) if version is None else e.VersionProposed(Era.STATELESS, version)
    if error.code == ErrorCode.INVALID_PARAMS and supported:
        # In 2025-11-25 basic/lifecycle this ends the connection; but if the server lists versions, try one of them.
        version = newest(_common(settings, supported), Era.HANDSHAKE)
        if version is None or version == requested:
            return _mismatch(settings, supported, error)
        return e.VersionProposed(Era.HANDSHAKE, version)
    return e.NegotiationFailed(error)


def _fall_back_to_handshake(settings: Settings, why: str, error: McpError | None) -> e.Event:
    version = newest(settings.versions, Era.HANDSHAKE)
    if version is not None:
        return e.VersionProposed(Era.HANDSHAKE, version)
    return _refused(f"the server does not support {', '.join(settings.versions)}: {why}", error)


def _mismatch(settings: Settings, server_versions: list[str], error: McpError | None = None) -> e.NegotiationRefused:
    client_versions = ", ".join(settings.versions)
    # The server's list is untrusted: shorten it.
    listed = ", ".join(str(name)[:40] for name in server_versions[:10]) or "none that it lists"
    message = f"no common protocol version: the client supports {client_versions}; the server supports {listed}"
    return _refused(message, error)


def _refused(message: str, cause: McpError | None) -> e.NegotiationRefused:
    refusal = ProtocolError(message)
    refusal.__cause__ = cause
    return e.NegotiationRefused(refusal)


def _common(settings: Settings, server_versions: list[str]) -> tuple[str, ...]:
    return tuple(name for name in settings.versions if name in server_versions)


def _supported(error: McpError) -> list[str]:
    data = error.data if isinstance(error, JsonRpcError) else None
    supported = data.get("supported") if isinstance(data, dict) else None
    return [name for name in supported if isinstance(name, str)] if isinstance(supported, list) else []
