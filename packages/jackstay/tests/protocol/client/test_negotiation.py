"""Choosing the era: what is opened with, and what every answer to it means, junk included."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackstay.errors import JsonRpcError, ProtocolError, TransportError
from jackstay.protocol._versions import VERSIONS, Era
from jackstay.protocol.client._negotiation import (
    MODERN_CODES,
    Negotiation,
    envelope,
    initialize_params,
    judge_handshake,
    judge_probe,
    opening,
    speaks_both,
)
from jackstay.protocol.client._settings import Settings
from jackstay.protocol.client.events import Negotiated, NegotiationFailed, NegotiationRefused, Offered

H, M = Era.HANDSHAKE, Era.STATELESS
NEW, OLD = "2026-07-28", "2025-11-25"
BOTH = Settings()
OLD_ONLY = Settings(versions=VERSIONS[:4])
NEW_ONLY = Settings(versions=(NEW,))

OPENINGS = [
    (BOTH, None, Offered(M, NEW)),
    (BOTH, M, Offered(M, NEW)),
    (BOTH, H, Offered(H, OLD)),
    (OLD_ONLY, None, Offered(H, OLD)),
    (OLD_ONLY, M, Offered(H, OLD)),
    (NEW_ONLY, None, Offered(M, NEW)),
    (NEW_ONLY, H, Offered(M, NEW)),
    (Settings(versions=("2024-11-05",)), None, Offered(H, "2024-11-05")),
    (Settings(versions=("2025-06-18", "2024-11-05")), H, Offered(H, "2025-06-18")),
]


@pytest.mark.parametrize(("settings", "verdict", "offer"), OPENINGS)
def test_what_is_opened_with(settings, verdict, offer):
    """Row 4 and "Choosing the era": of one era only, the other is not probed."""
    assert opening(settings, verdict) == offer


def test_who_speaks_both():
    assert speaks_both(BOTH)
    assert not speaks_both(OLD_ONLY)
    assert not speaks_both(NEW_ONLY)


def test_the_envelope_of_the_stateless_era():
    """2026-07-28 basic/index: version and capabilities must, client info should be there."""
    settings = Settings(capabilities={"roots": {}}, client_info={"name": "me", "version": "2"})
    assert json.loads(b"{%b}" % envelope(settings, NEW)) == {
        "io.modelcontextprotocol/protocolVersion": NEW,
        "io.modelcontextprotocol/clientCapabilities": {"roots": {}},
        "io.modelcontextprotocol/clientInfo": {"name": "me", "version": "2"},
    }
    assert json.loads(b"{%b}" % envelope(BOTH, NEW))["io.modelcontextprotocol/clientCapabilities"] == {}


def test_what_initialize_says():
    settings = Settings(capabilities={"roots": {}}, client_info={"name": "me", "version": "2"})
    assert json.loads(initialize_params(settings, OLD)) == {
        "protocolVersion": OLD,
        "capabilities": {"roots": {}},
        "clientInfo": {"name": "me", "version": "2"},
    }
    assert json.loads(initialize_params(BOTH, OLD))["capabilities"] == {}


def raw(value) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(value).encode())


def found(*versions, **more):
    return raw({"supportedVersions": list(versions), "capabilities": {}, **more})


def unsupported(supported):
    return JsonRpcError(-32022, "no", {"supported": supported, "requested": NEW})


OFFER_OLD = Offered(H, OLD)

# (settings, answer to server/discover, verdict); a class stands for any event of it.
PROBES = [
    # A DiscoverResult decides for the stateless era.
    (BOTH, found(NEW), Negotiated),
    (BOTH, found("2099-01-01", NEW, OLD), Negotiated),
    (NEW_ONLY, found(NEW), Negotiated),
    # One that lists only legacy revisions is a legacy advertisement.
    (BOTH, found(OLD, "2025-06-18"), OFFER_OLD),
    (BOTH, found("2025-03-26"), Offered(H, "2025-03-26")),
    (NEW_ONLY, found(OLD), NegotiationRefused),
    # Nothing in common is permanent (row 5).
    (BOTH, found("2099-01-01"), NegotiationRefused),
    (BOTH, found(), NegotiationRefused),
    # Recognised errors of the stateless era: never `initialize` (2026-07-28 basic/versioning).
    (BOTH, unsupported(["2099-01-01"]), NegotiationRefused),
    (BOTH, unsupported([NEW]), NegotiationRefused),  # it refuses what it names, again: no loop
    (BOTH, unsupported([OLD]), NegotiationRefused),
    (BOTH, unsupported([]), NegotiationRefused),
    (BOTH, unsupported("2026-07-28"), NegotiationRefused),
    (BOTH, unsupported([None, 5, {}]), NegotiationRefused),
    (BOTH, JsonRpcError(-32022, "no"), NegotiationRefused),
    (BOTH, JsonRpcError(-32022, "no", []), NegotiationRefused),
    (BOTH, JsonRpcError(-32020, "header"), NegotiationRefused),
    (BOTH, JsonRpcError(-32021, "capability"), NegotiationRefused),
    # Any other error is a server that does not know it. No single code is trusted for that.
    *[(BOTH, JsonRpcError(code, "what?"), OFFER_OLD)
      for code in (-32601, -32600, -32602, -32603, -32700, -32000, -32001, -32002, 0, 1, 404, -2**70)],
    (BOTH, ProtocolError("malformed"), OFFER_OLD),
    (BOTH, TransportError("405"), OFFER_OLD),
    # With the stateless era alone there is nothing to fall back to.
    (NEW_ONLY, JsonRpcError(-32601, "what?"), NegotiationRefused),
    (NEW_ONLY, JsonRpcError(-32603, "down for a moment"), NegotiationFailed),
    (NEW_ONLY, ProtocolError("malformed"), NegotiationRefused),
    # Junk: a server that answers everything with something.
    *[(BOTH, raw(junk), OFFER_OLD)
      for junk in (None, {}, [], 5, "x", True, {"supportedVersions": NEW, "capabilities": {}},
                   {"supportedVersions": [NEW]}, {"supportedVersions": [1], "capabilities": {}},
                   {"capabilities": {}}, {"supportedVersions": None, "capabilities": {}})],
    *[(BOTH, raw({"supportedVersions": [NEW], "capabilities": junk}), OFFER_OLD) for junk in (None, 5, [], "x")],
    (NEW_ONLY, raw({}), NegotiationRefused),
]  # fmt: skip


def matches(verdict, expected):
    return isinstance(verdict, expected) if isinstance(expected, type) else verdict == expected


def name_of(value):
    if isinstance(value, msgspec.Raw):
        return bytes(value).decode()[:80]
    return str(value)[:60] if not isinstance(value, Settings) else f"{len(value.versions)} versions"


@pytest.mark.parametrize(("settings", "answer", "expected"), PROBES, ids=name_of)
def test_what_the_answer_to_the_probe_means(settings, answer, expected):
    verdict = judge_probe(settings, NEW, answer)
    assert matches(verdict, expected), verdict


def test_a_server_that_refuses_what_it_names_is_asked_once_more():
    """2026-07-28 basic/versioning: choose from the list of -32022 and try again; the second time is the last."""
    assert judge_probe(BOTH, NEW, unsupported([NEW]), may_repeat=True) == Offered(M, NEW)
    assert isinstance(judge_probe(BOTH, NEW, unsupported([OLD]), may_repeat=True), NegotiationRefused)


def hello(version=OLD, **more):
    return raw(
        {"protocolVersion": version, "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}, **more}
    )


HANDSHAKES = [
    (BOTH, OLD, hello(), Negotiated),
    (BOTH, OLD, hello("2024-11-05"), Negotiated),
    (OLD_ONLY, OLD, hello("2025-03-26"), Negotiated),
    # A mismatch is permanent (row 5).
    (BOTH, OLD, hello("1999-01-01"), NegotiationRefused),
    (BOTH, OLD, hello(""), NegotiationRefused),
    (BOTH, OLD, hello(NEW), NegotiationRefused),
    (Settings(versions=(OLD,)), OLD, hello("2024-11-05"), NegotiationRefused),
    # An error that names versions is an offer.
    (BOTH, OLD, unsupported([NEW]), Offered(M, NEW)),
    (BOTH, OLD, unsupported(["2099-01-01"]), NegotiationRefused),
    (OLD_ONLY, OLD, unsupported([NEW]), NegotiationRefused),
    (BOTH, OLD, JsonRpcError(-32022, "no"), NegotiationRefused),
    (BOTH, OLD, JsonRpcError(-32602, "no", {"supported": ["2024-11-05"]}), Offered(H, "2024-11-05")),
    (BOTH, OLD, JsonRpcError(-32602, "no", {"supported": [OLD]}), NegotiationRefused),
    (BOTH, OLD, JsonRpcError(-32602, "no", {"supported": ["1999-01-01"]}), NegotiationRefused),
    (BOTH, OLD, JsonRpcError(-32602, "no", {"supported": []}), NegotiationFailed),
    (BOTH, OLD, JsonRpcError(-32602, "no", {"supported": OLD}), NegotiationFailed),
    # Everything else may be another time.
    *[(BOTH, OLD, JsonRpcError(code, "no"), NegotiationFailed) for code in (-32601, -32602, -32603, -32001, 5)],
    (BOTH, OLD, ProtocolError("malformed"), NegotiationFailed),
    (BOTH, OLD, TransportError("503"), NegotiationFailed),
    *[(BOTH, OLD, raw(junk), NegotiationFailed)
      for junk in (None, {}, [], 5, "x", {"protocolVersion": OLD}, {"protocolVersion": OLD, "capabilities": {}},
                   {"protocolVersion": 1, "capabilities": {}, "serverInfo": {}})],
    *[(BOTH, OLD, hello(capabilities=junk), NegotiationFailed) for junk in (None, 5, [], "x")],
    *[(BOTH, OLD, hello(serverInfo=junk), NegotiationFailed) for junk in (None, 5, [], "x")],
]  # fmt: skip


@pytest.mark.parametrize(("settings", "requested", "answer", "expected"), HANDSHAKES, ids=name_of)
def test_what_the_answer_to_initialize_means(settings, requested, answer, expected):
    verdict = judge_handshake(settings, requested, answer)
    assert matches(verdict, expected), verdict


def test_what_is_kept_of_a_discovered_server():
    info = {"name": "s", "version": "1"}
    answer = found(
        NEW,
        capabilities={"tools": {}},
        instructions="be kind",
        _meta={"io.modelcontextprotocol/serverInfo": info, "other": 1},
        unknown=[1],
    )
    server = judge_probe(BOTH, NEW, answer).server
    assert (server.version, server.era, server.instructions) == (NEW, M, "be kind")
    assert json.loads(server.info) == info
    assert json.loads(server.capabilities) == {"tools": {}}


def test_a_discovered_server_need_not_say_who_it_is():
    server = judge_probe(BOTH, NEW, found(NEW, instructions=None)).server
    assert (server.info, server.instructions) == (b"{}", "")


def test_what_is_kept_of_an_initialized_server():
    server = judge_handshake(
        BOTH, OLD, hello("2025-06-18", instructions="x", capabilities={"prompts": {}})
    ).server
    assert (server.version, server.era, server.instructions) == ("2025-06-18", H, "x")
    assert json.loads(server.info) == {"name": "s", "version": "1"}
    assert json.loads(server.capabilities) == {"prompts": {}}
    assert judge_handshake(BOTH, OLD, hello()).server.instructions == ""


def test_another_revision_of_the_stateless_era_is_asked_for_again():
    """Written for the next revision: today there is one."""
    assert judge_probe(BOTH, "2027-01-01", found(NEW)) == Offered(M, NEW)
    assert judge_probe(BOTH, "2027-01-01", unsupported([NEW])) == Offered(M, NEW)


def test_a_mismatch_names_both_sides_and_quotes_a_hostile_list_briefly():
    verdict = judge_probe(BOTH, NEW, found(*["9" * 1000] * 1000))
    said = str(verdict.error)
    assert all(version in said for version in VERSIONS)
    assert len(said) < 700
    assert "none that it names" in str(judge_probe(BOTH, NEW, found()).error)


def test_a_refusal_keeps_what_the_server_said_as_its_cause():
    error = JsonRpcError(-32022, "no")
    assert judge_probe(BOTH, NEW, error).error.__cause__ is error
    error = JsonRpcError(-32601, "no")
    assert judge_probe(NEW_ONLY, NEW, error).error.__cause__ is error


def test_the_recognised_codes():
    assert {-32020, -32021, -32022} == MODERN_CODES


def test_a_negotiation_begins_with_nothing_open():
    talk = Negotiation()
    assert (talk.steps, talk.probe_id, talk.handshake_id, talk.has_opened) == (0, None, None, False)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(
    ["supportedVersions", "capabilities", "_meta", "instructions", "protocolVersion", "serverInfo"]
)


@given(
    st.dictionaries(KEYS, JSON | st.just([NEW]) | st.just(OLD)) | JSON,
    st.sampled_from([BOTH, OLD_ONLY, NEW_ONLY]),
)
def test_any_answer_gives_a_verdict(value, settings):
    verdicts = (Negotiated, Offered, NegotiationFailed, NegotiationRefused)
    assert isinstance(judge_probe(settings, NEW, raw(value)), verdicts)
    assert isinstance(judge_handshake(settings, OLD, raw(value)), verdicts)


@given(st.integers(), st.text(), JSON, st.sampled_from([BOTH, OLD_ONLY, NEW_ONLY]))
def test_any_error_gives_a_verdict_and_never_an_agreement(code, message, data, settings):
    for judge in (judge_probe, judge_handshake):
        verdict = judge(settings, NEW, JsonRpcError(code, message, data))
        assert isinstance(verdict, Offered | NegotiationFailed | NegotiationRefused)
        if isinstance(verdict, Offered):
            assert verdict.version in settings.versions
