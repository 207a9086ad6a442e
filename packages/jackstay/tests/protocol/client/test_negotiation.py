"""Negotiation of era and version: what is sent first, and what every response to it means."""

import json

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from jackstay.errors import JsonRpcError, ProtocolError, TransportError
from jackstay.protocol._versions import VERSIONS, Era
from jackstay.protocol.client._negotiation import (
    STATELESS_ERROR_CODES,
    Negotiation,
    ProbeHistory,
    first_proposal,
    initialize_params,
    interpret_handshake,
    interpret_probe,
    request_meta,
    supports_both_eras,
)
from jackstay.protocol.client._settings import Settings
from jackstay.protocol.client.events import (
    ConnectExpired,
    Negotiated,
    NegotiationFailed,
    NegotiationRefused,
    ProbeExpired,
    ResponseReceived,
    ServerFacts,
    VersionProposed,
    WentDown,
)
from scripted.calls import CallsHarness

H, M = Era.HANDSHAKE, Era.STATELESS
NEW, OLD = "2026-07-28", "2025-11-25"
BOTH = Settings()
OLD_ONLY = Settings(versions=VERSIONS[:4])
NEW_ONLY = Settings(versions=(NEW,))

FIRST_PROPOSALS = [
    (BOTH, None, VersionProposed(M, NEW)),
    (BOTH, M, VersionProposed(M, NEW)),
    (BOTH, H, VersionProposed(H, OLD)),
    (OLD_ONLY, None, VersionProposed(H, OLD)),
    (OLD_ONLY, M, VersionProposed(H, OLD)),
    (NEW_ONLY, None, VersionProposed(M, NEW)),
    (NEW_ONLY, H, VersionProposed(M, NEW)),
    (Settings(versions=("2024-11-05",)), None, VersionProposed(H, "2024-11-05")),
    (Settings(versions=("2025-06-18", "2024-11-05")), H, VersionProposed(H, "2025-06-18")),
]


def test_the_first_proposal(subtests):
    for settings, known_era, proposal in FIRST_PROPOSALS:
        with subtests.test(settings=settings, known_era=known_era, proposal=proposal):
            assert first_proposal(settings, known_era) == proposal


def test_supports_both_eras():
    assert supports_both_eras(BOTH)
    assert not supports_both_eras(OLD_ONLY)
    assert not supports_both_eras(NEW_ONLY)


def test_the_request_meta_of_the_stateless_era():
    """2026-07-28 basic/index: version and capabilities must, client info should be there."""
    settings = Settings(capabilities={"roots": {}}, client_info={"name": "me", "version": "2"})
    assert json.loads(b"{%b}" % request_meta(settings, NEW)) == {
        "io.modelcontextprotocol/protocolVersion": NEW,
        "io.modelcontextprotocol/clientCapabilities": {"roots": {}},
        "io.modelcontextprotocol/clientInfo": {"name": "me", "version": "2"},
    }
    assert json.loads(b"{%b}" % request_meta(BOTH, NEW))["io.modelcontextprotocol/clientCapabilities"] == {}


def test_the_params_of_initialize():
    settings = Settings(capabilities={"roots": {}}, client_info={"name": "me", "version": "2"})
    assert json.loads(initialize_params(settings, OLD)) == {
        "protocolVersion": OLD,
        "capabilities": {"roots": {}},
        "clientInfo": {"name": "me", "version": "2"},
    }
    assert json.loads(initialize_params(BOTH, OLD))["capabilities"] == {}


def raw(value) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(value).encode())


def discover_result(*versions, **more):
    return raw({"supportedVersions": list(versions), "capabilities": {}, **more})


def unsupported(supported):
    return JsonRpcError(-32022, "no", {"supported": supported, "requested": NEW})


PROPOSE_OLD = VersionProposed(H, OLD)

# (settings, response to server/discover, expected event or its class)
PROBES = [
    # A DiscoverResult decides for the stateless era.
    (BOTH, discover_result(NEW), Negotiated),
    (BOTH, discover_result("2099-01-01", NEW, OLD), Negotiated),
    (NEW_ONLY, discover_result(NEW), Negotiated),
    # One that lists only revisions of the handshake era leads to `initialize`.
    (BOTH, discover_result(OLD, "2025-06-18"), PROPOSE_OLD),
    (BOTH, discover_result("2025-03-26"), VersionProposed(H, "2025-03-26")),
    (NEW_ONLY, discover_result(OLD), NegotiationRefused),
    # No common version is a permanent failure.
    (BOTH, discover_result("2099-01-01"), NegotiationRefused),
    (BOTH, discover_result(), NegotiationRefused),
    # Recognised errors of the stateless era: never `initialize` (2026-07-28 basic/versioning).
    (BOTH, unsupported(["2099-01-01"]), NegotiationRefused),
    (BOTH, unsupported([NEW]), NegotiationRefused),  # it refuses a version that it lists, again: no loop
    (BOTH, unsupported([OLD]), NegotiationRefused),
    (BOTH, unsupported([]), NegotiationRefused),
    (BOTH, unsupported("2026-07-28"), NegotiationRefused),
    (BOTH, unsupported([None, 5, {}]), NegotiationRefused),
    (BOTH, JsonRpcError(-32022, "no"), NegotiationRefused),
    (BOTH, JsonRpcError(-32022, "no", []), NegotiationRefused),
    (BOTH, JsonRpcError(-32020, "header"), NegotiationRefused),
    (BOTH, JsonRpcError(-32021, "capability"), NegotiationRefused),
    # Any other error means a server that does not know the probe; no single code is relied on.
    *[(BOTH, JsonRpcError(code, "what?"), PROPOSE_OLD)
      for code in (-32601, -32600, -32602, -32603, -32700, -32000, -32001, -32002, 0, 1, 404, -2**70)],
    (BOTH, ProtocolError("malformed"), PROPOSE_OLD),
    (BOTH, TransportError("405"), PROPOSE_OLD),
    # With only the stateless era there is no fallback.
    (NEW_ONLY, JsonRpcError(-32601, "what?"), NegotiationRefused),
    (NEW_ONLY, JsonRpcError(-32603, "down for a moment"), NegotiationFailed),
    (NEW_ONLY, ProtocolError("malformed"), NegotiationRefused),
    # Invalid results.
    *[(BOTH, raw(value), PROPOSE_OLD)
      for value in (None, {}, [], 5, "x", True, {"supportedVersions": NEW, "capabilities": {}},
                   {"supportedVersions": [NEW]}, {"supportedVersions": [1], "capabilities": {}},
                   {"capabilities": {}}, {"supportedVersions": None, "capabilities": {}})],
    *[(BOTH, raw({"supportedVersions": [NEW], "capabilities": value}), PROPOSE_OLD) for value in (None, 5, [], "x")],
    (NEW_ONLY, raw({}), NegotiationRefused),
]  # fmt: skip


def matches(event, expected):
    return isinstance(event, expected) if isinstance(expected, type) else event == expected


def name_of(value):
    if isinstance(value, msgspec.Raw):
        return bytes(value).decode()[:80]
    return str(value)[:60] if not isinstance(value, Settings) else f"{len(value.versions)} versions"


def test_the_event_for_each_response_to_the_probe(subtests):
    for settings, response, expected in PROBES:
        with subtests.test(settings=settings, response=response, expected=expected):
            event = interpret_probe(settings, NEW, response)
            assert matches(event, expected), event


def test_a_server_that_refuses_a_version_it_lists_is_tried_once_more():
    """2026-07-28 basic/versioning: choose from the list of -32022 and try again."""
    assert interpret_probe(BOTH, NEW, unsupported([NEW]), may_repeat=True) == VersionProposed(M, NEW)
    assert isinstance(interpret_probe(BOTH, NEW, unsupported([OLD]), may_repeat=True), NegotiationRefused)


def initialize_result(version=OLD, **more):
    return raw({"protocolVersion": version, "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}, **more})


HANDSHAKES = [
    (BOTH, OLD, initialize_result(), Negotiated),
    (BOTH, OLD, initialize_result("2024-11-05"), Negotiated),
    (OLD_ONLY, OLD, initialize_result("2025-03-26"), Negotiated),
    # A mismatch is permanent.
    (BOTH, OLD, initialize_result("1999-01-01"), NegotiationRefused),
    (BOTH, OLD, initialize_result(""), NegotiationRefused),
    (BOTH, OLD, initialize_result(NEW), NegotiationRefused),
    (Settings(versions=(OLD,)), OLD, initialize_result("2024-11-05"), NegotiationRefused),
    # An error that lists versions leads to another proposal.
    (BOTH, OLD, unsupported([NEW]), VersionProposed(M, NEW)),
    (BOTH, OLD, unsupported(["2099-01-01"]), NegotiationRefused),
    (OLD_ONLY, OLD, unsupported([NEW]), NegotiationRefused),
    (BOTH, OLD, JsonRpcError(-32022, "no"), NegotiationRefused),
    (BOTH, OLD, JsonRpcError(-32602, "no", {"supported": ["2024-11-05"]}), VersionProposed(H, "2024-11-05")),
    (BOTH, OLD, JsonRpcError(-32602, "no", {"supported": [OLD]}), NegotiationRefused),
    (BOTH, OLD, JsonRpcError(-32602, "no", {"supported": ["1999-01-01"]}), NegotiationRefused),
    (BOTH, OLD, JsonRpcError(-32602, "no", {"supported": []}), NegotiationFailed),
    (BOTH, OLD, JsonRpcError(-32602, "no", {"supported": OLD}), NegotiationFailed),
    # After anything else a later attempt may succeed.
    *[(BOTH, OLD, JsonRpcError(code, "no"), NegotiationFailed) for code in (-32601, -32602, -32603, -32001, 5)],
    (BOTH, OLD, ProtocolError("malformed"), NegotiationFailed),
    (BOTH, OLD, TransportError("503"), NegotiationFailed),
    *[(BOTH, OLD, raw(value), NegotiationFailed)
      for value in (None, {}, [], 5, "x", {"protocolVersion": OLD}, {"protocolVersion": OLD, "capabilities": {}},
                   {"protocolVersion": 1, "capabilities": {}, "serverInfo": {}})],
    *[(BOTH, OLD, initialize_result(capabilities=value), NegotiationFailed) for value in (None, 5, [], "x")],
    *[(BOTH, OLD, initialize_result(serverInfo=value), NegotiationFailed) for value in (None, 5, [], "x")],
]  # fmt: skip


def test_the_event_for_each_response_to_initialize(subtests):
    for settings, requested, response, expected in HANDSHAKES:
        with subtests.test(settings=settings, requested=requested, response=response, expected=expected):
            event = interpret_handshake(settings, requested, response)
            assert matches(event, expected), event


def test_the_facts_from_a_discover_result():
    info = {"name": "s", "version": "1"}
    response = discover_result(
        NEW,
        capabilities={"tools": {}},
        instructions="be brief",
        _meta={"io.modelcontextprotocol/serverInfo": info, "other": 1},
        unknown=[1],
    )
    server = interpret_probe(BOTH, NEW, response).server
    assert (server.version, server.era, server.instructions) == (NEW, M, "be brief")
    assert json.loads(server.info) == info
    assert json.loads(server.capabilities) == {"tools": {}}


def test_a_discover_result_without_server_info():
    server = interpret_probe(BOTH, NEW, discover_result(NEW, instructions=None)).server
    assert (server.info, server.instructions) == (b"{}", "")


def test_the_facts_from_an_initialize_result():
    server = interpret_handshake(
        BOTH, OLD, initialize_result("2025-06-18", instructions="x", capabilities={"prompts": {}})
    ).server
    assert (server.version, server.era, server.instructions) == ("2025-06-18", H, "x")
    assert json.loads(server.info) == {"name": "s", "version": "1"}
    assert json.loads(server.capabilities) == {"prompts": {}}
    assert interpret_handshake(BOTH, OLD, initialize_result()).server.instructions == ""


def test_another_revision_of_the_stateless_era_is_proposed():
    """For later revisions: today the stateless era has one."""
    assert interpret_probe(BOTH, "2027-01-01", discover_result(NEW)) == VersionProposed(M, NEW)
    assert interpret_probe(BOTH, "2027-01-01", unsupported([NEW])) == VersionProposed(M, NEW)


def test_a_mismatch_lists_the_versions_of_both_sides_and_shortens_long_lists():
    event = interpret_probe(BOTH, NEW, discover_result(*["9" * 1000] * 1000))
    message = str(event.error)
    assert all(version in message for version in VERSIONS)
    assert len(message) < 700
    assert "none that it lists" in str(interpret_probe(BOTH, NEW, discover_result()).error)


def test_a_refusal_has_the_error_of_the_server_as_its_cause():
    error = JsonRpcError(-32022, "no")
    assert interpret_probe(BOTH, NEW, error).error.__cause__ is error
    error = JsonRpcError(-32601, "no")
    assert interpret_probe(NEW_ONLY, NEW, error).error.__cause__ is error


def test_the_stateless_error_codes():
    assert {-32020, -32021, -32022} == STATELESS_ERROR_CODES


# --- the component ----------------------------------------------------------------------------------------------------


def negotiation(is_http=False, known_era=None, **options):
    """Return the component alone, under a fake clock, with its first request open."""
    harness = CallsHarness(is_http=is_http, **options)
    component = Negotiation(harness.turn(), known_era)
    assert component.open() is None
    return harness, component


def methods(harness):
    return [frame["method"] for frame in harness.frames()]


def test_an_unknown_server_gets_the_probe_and_after_a_while_initialize():
    harness, component = negotiation()
    assert (methods(harness), component.handshake_id) == (["server/discover"], None)
    assert ProbeExpired in harness.calls.timers
    harness.turn()
    assert component.send_initialize() is None
    assert component.send_initialize() is None
    assert (methods(harness), component.handshake_id) == (["initialize"], 2)


def test_a_known_era_and_a_single_era_are_tried_first():
    for options in ({"known_era": Era.HANDSHAKE}, {"versions": ("2025-11-25",)}):
        harness, _ = negotiation(**options)
        assert methods(harness) == ["initialize"]
        assert ProbeExpired not in harness.calls.timers


def test_an_agreement_on_the_probe_waits_for_the_response_to_initialize():
    harness, component = negotiation()
    component.send_initialize()
    discovered = raw({"supportedVersions": [NEW], "capabilities": {}})
    assert component.handle_response(ResponseReceived(component.probe_id, discovered)) is None
    refusal = JsonRpcError(-32601, "no")
    outcome = component.handle_response(ResponseReceived(component.handshake_id, None, refusal))
    assert isinstance(outcome, Negotiated)
    component.finish(outcome.server)
    assert (component.known_era, harness.calls.request_meta[:1], harness.calls.pending) == (Era.STATELESS, b'"', {})


def test_an_exit_on_the_probe_skips_it_once_and_any_other_failure_tries_it_again():
    _, component = negotiation()
    down = WentDown(1, TransportError("down"))
    component.record_failure(down)
    assert component.probe_history is ProbeHistory.FATAL
    component = Negotiation(component.calls, component.known_era, component.probe_history)
    component.open()
    assert component.probe_id is None
    component.record_failure(down)
    assert component.probe_history is ProbeHistory.SUSPECTED
    component = Negotiation(component.calls, component.known_era, component.probe_history)
    component.open()
    assert component.probe_id is not None
    component.finish(ServerFacts(NEW, Era.STATELESS))
    assert component.probe_history is ProbeHistory.HARMLESS


def test_a_failure_forgets_the_era():
    for event in (NegotiationFailed(TransportError("x")), NegotiationRefused(TransportError("x")), ConnectExpired()):
        _, component = negotiation(known_era=Era.HANDSHAKE)
        component.record_failure(event)
        assert component.known_era is None
    _, component = negotiation(known_era=Era.HANDSHAKE)
    component.record_failure(WentDown(1, TransportError("down")))
    assert component.known_era is Era.HANDSHAKE


def test_a_request_that_cannot_be_sent_refuses_the_negotiation():
    harness = CallsHarness(max_frame_bytes=1024, client_info={"name": "x" * 2000, "version": "1"})
    component = Negotiation(harness.turn())
    assert isinstance(component.open(), NegotiationRefused)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(["supportedVersions", "capabilities", "_meta", "instructions", "protocolVersion", "serverInfo"])


@given(
    st.dictionaries(KEYS, JSON | st.just([NEW]) | st.just(OLD)) | JSON,
    st.sampled_from([BOTH, OLD_ONLY, NEW_ONLY]),
)
def test_any_response_gives_an_event(value, settings):
    events = (Negotiated, VersionProposed, NegotiationFailed, NegotiationRefused)
    assert isinstance(interpret_probe(settings, NEW, raw(value)), events)
    assert isinstance(interpret_handshake(settings, OLD, raw(value)), events)


@given(st.integers(), st.text(), JSON, st.sampled_from([BOTH, OLD_ONLY, NEW_ONLY]))
def test_any_error_gives_an_event_and_never_an_agreement(code, message, data, settings):
    for interpret in (interpret_probe, interpret_handshake):
        event = interpret(settings, NEW, JsonRpcError(code, message, data))
        assert isinstance(event, VersionProposed | NegotiationFailed | NegotiationRefused)
        if isinstance(event, VersionProposed):
            assert event.version in settings.versions
