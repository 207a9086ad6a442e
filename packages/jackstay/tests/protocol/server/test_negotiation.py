"""The rules that depend on the revision and the client of a connection."""

import pytest

from jackstay.errors import UsageError
from jackstay.protocol.server._negotiation import FIRST_STATES, Negotiation
from jackstay.protocol.server._states import ServerState as S
from jackstay.protocol.server.events import ClientParams
from jackstay.protocol.wire._jsonrpc import ABSENT, Batch, decode
from model.server import DEFAULT_CONFIG, array, call, initialize, server_config

CLIENT = ClientParams("2025-06-18", b'{"name":"c"}', b'{"roots":{},"sampling":{}}')


def batch(*frames: bytes) -> Batch:
    message = decode(array(*frames))
    assert isinstance(message, Batch)
    return message


def test_the_version_determines_the_first_state() -> None:
    states = {version: FIRST_STATES[version] for version in (None, "2024-11-05", "2026-07-28")}
    assert states == {None: S.FRESH, "2024-11-05": S.OPERATING, "2026-07-28": S.STATELESS}
    with pytest.raises(UsageError, match="unsupported version '1999-01-01'"):
        Negotiation(DEFAULT_CONFIG, "1999-01-01")


def test_initialize_stores_the_client_with_the_negotiated_version() -> None:
    for requested, agreed in (("2025-06-18", "2025-06-18"), ("1999-01-01", "2025-11-25"), ("2026-07-28", "2025-11-25")):
        negotiation = Negotiation(DEFAULT_CONFIG)
        client = ClientParams(requested, CLIENT.info, CLIENT.capabilities)
        version, result = negotiation.respond(client)
        assert (version, negotiation.version, negotiation.client) == (agreed, None, None)
        assert negotiation.initialize(client) == result == DEFAULT_CONFIG.initialize_result(agreed)
        assert negotiation.version == agreed
        assert negotiation.client == ClientParams(agreed, CLIENT.info, CLIENT.capabilities)
    assert "2025-11-25" in repr(negotiation)


def test_methods_are_served_only_in_states_that_serve_them_all() -> None:
    negotiation = Negotiation(DEFAULT_CONFIG, "2025-11-25")
    serving = {state for state in S if negotiation.served_methods(state)}
    assert serving == {S.HANDSHAKE, S.OPERATING, S.STATELESS}
    strict = Negotiation(server_config(strict=True), "2025-11-25")
    assert {state for state in S if strict.served_methods(state)} == {S.OPERATING, S.STATELESS}
    assert not Negotiation(DEFAULT_CONFIG).served_methods(S.OPERATING)
    assert "tools/call" in negotiation.served_methods(S.OPERATING)
    assert "ping" not in negotiation.served_methods(S.OPERATING)


def test_before_the_negotiation_the_methods_of_all_revisions_are_known() -> None:
    assert {"ping", "subscriptions/listen"} <= Negotiation(DEFAULT_CONFIG).known_methods.keys()
    assert "subscriptions/listen" not in Negotiation(DEFAULT_CONFIG, "2025-11-25").known_methods


def test_a_client_accepts_what_its_revision_has_and_it_declared(subtests: pytest.Subtests) -> None:
    negotiation = Negotiation(DEFAULT_CONFIG, CLIENT.version, CLIENT)
    for method, is_accepted in (
        ("ping", True),
        ("roots/list", True),
        ("sampling/createMessage", True),
        ("elicitation/create", False),
        ("tools/list", False),
        ("no/such", False),
    ):
        with subtests.test(method=method):
            assert negotiation.accepts(method) is is_accepted
    assert not Negotiation(DEFAULT_CONFIG, "2025-11-25").accepts("ping")


def test_an_unreadable_id_is_null_and_from_2025_11_25_on_absent() -> None:
    ids = {version: Negotiation(DEFAULT_CONFIG, version).unreadable_id for version in (None, "2025-06-18")}
    assert ids == {None: None, "2025-06-18": None}
    assert Negotiation(DEFAULT_CONFIG, "2025-11-25").unreadable_id is ABSENT
    assert Negotiation(DEFAULT_CONFIG, "2026-07-28").unreadable_id is ABSENT


def test_only_2025_03_26_has_batches_without_initialize() -> None:
    negotiation = Negotiation(DEFAULT_CONFIG, "2025-03-26")
    assert negotiation.batch_problem(batch(*[call(id) for id in range(100)])) == ""
    assert "at most 100" in negotiation.batch_problem(batch(*[call(id) for id in range(101)]))
    assert "empty" in negotiation.batch_problem(Batch())
    assert "initialize" in negotiation.batch_problem(batch(call(1), initialize(2)))
    for version in (None, "2024-11-05", "2025-06-18", "2026-07-28"):
        assert "no batches" in Negotiation(DEFAULT_CONFIG, version).batch_problem(batch(call(1)))
