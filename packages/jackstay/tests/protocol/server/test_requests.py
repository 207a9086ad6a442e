"""Requests at a server: each guard both ways, with the state afterwards, and how era and version are agreed on."""

from typing import Any

import pytest

from jackstay.errors import (
    GuardRefusedError,
    InvalidEventError,
)
from jackstay.protocol.server import events as e
from jackstay.protocol.server._connection import ServerConnection
from jackstay.protocol.server._table import ServerState as S
from model.server import (
    INITIALIZED,
    META,
    OFFER,
    VERSION_KEY,
    SlowConnection,
    answers,
    call,
    cancel,
    connect,
    frame,
    initialize,
    offer,
    parse,
    refusal,
    stateless,
)
from model.server_checks import (
    DUPLICATE,
    LATE_ERA,
    NO_HANDSHAKE,
    NO_META,
    NOW,
    SEQUENCE,
    SHUTDOWN,
    STOP,
    UNKNOWN,
    agreed,
    answered,
    put_in_flight,
    refuses,
    served,
)


@pytest.mark.parametrize("kind", [ServerConnection, SlowConnection])
def test_strict_refuses_what_clients_pipeline(kind: type[ServerConnection]) -> None:
    lenient, strict = (
        connect(S.HANDSHAKE, offer=offer(strict=is_strict), kind=kind) for is_strict in (False, True)
    )
    served()(lenient, S.HANDSHAKE, lenient.receive(call(7), NOW))
    SEQUENCE(strict, S.HANDSHAKE, strict.receive(call(7), NOW))
    strict.receive(INITIALIZED, NOW)
    served()(strict, S.OPERATING, strict.receive(call(7), NOW))


@pytest.mark.parametrize("state", [S.HANDSHAKE, S.OPERATING, S.STATELESS])
def test_requests_over_the_limit_are_busy_and_the_next_is_served_when_there_is_room(state: S) -> None:
    core = connect(state, offer=offer(max_concurrent=1))
    serial = put_in_flight(core, 1)
    message = stateless(7) if state is S.STATELESS else call(7)
    refuses(-32603, GuardRefusedError, retryable=True, reason="busy")(core, state, core.receive(message, NOW))
    assert 7 not in core.in_flight
    core.finish(1, serial, b"{}", NOW)
    served()(core, state, core.receive(message, NOW))


@pytest.mark.parametrize("state", [S.HANDSHAKE, S.OPERATING])
def test_ping_and_cancel_are_never_busy(state: S) -> None:
    core = connect(state, offer=offer(max_concurrent=1))
    put_in_flight(core, 8)
    answered(core, state, core.receive(frame(id=7, method="ping"), NOW))
    STOP(core, state, core.receive(cancel(8), NOW))


BAD_META = {
    "io.modelcontextprotocol/clientCapabilities": [
        {VERSION_KEY: "2026-07-28"},
        {VERSION_KEY: "2026-07-28", "io.modelcontextprotocol/clientCapabilities": []},
        {VERSION_KEY: "2026-07-28", "io.modelcontextprotocol/clientCapabilities": None},
    ],
    VERSION_KEY: [{VERSION_KEY: 1}, {VERSION_KEY: None}],
    "io.modelcontextprotocol/logLevel": [{**META, "io.modelcontextprotocol/logLevel": "loud"}],
    "progressToken": [{**META, "progressToken": 1.5}, {**META, "progressToken": []}],
}


@pytest.mark.parametrize("state", [S.FRESH, S.STATELESS])
@pytest.mark.parametrize(("key", "meta"), [(key, meta) for key, metas in BAD_META.items() for meta in metas])
@pytest.mark.parametrize("method", ["tools/call", "server/discover"])
def test_stateless_meta_is_checked_with_every_request_and_its_flaw_named(
    state: S, key: str, meta: dict[str, Any], method: str
) -> None:
    core = connect(state)
    effects = core.receive(stateless(7, method, meta), NOW)
    refuses(-32602, GuardRefusedError, key=key)(core, state, effects)
    assert core.version == (None if state is S.FRESH else "2026-07-28")


def test_stateless_requests_bring_their_meta_to_the_handler() -> None:
    core = connect(S.STATELESS)
    meta = {**META, "progressToken": "p", "io.modelcontextprotocol/logLevel": "debug"}
    (serve,) = core.receive(stateless(7, meta=meta), NOW)
    assert isinstance(serve, e.Serve)
    assert serve.meta is not None
    assert (serve.version, serve.meta.version) == ("2026-07-28", "2026-07-28")
    assert (serve.meta.progress_token, serve.meta.log_level) == ("p", "debug")
    assert bytes(serve.meta.capabilities) == b"{}"


@pytest.mark.parametrize(
    "params",
    [
        {"protocolVersion": ...},
        {"protocolVersion": 20251125},
        {"capabilities": ...},
        {"capabilities": []},
        {"clientInfo": ...},
        {"clientInfo": {"name": "x"}},
        {"clientInfo": {"name": "x", "version": 1}},
        {"clientInfo": {"name": "x" * 5000, "version": "1"}},
        {"capabilities": {"experimental": {"x": "y" * 9000}}},
    ],
)
def test_initialize_with_bad_params_commits_nothing(params: dict[str, Any]) -> None:
    core = connect(S.FRESH)
    version = params.pop("protocolVersion", "2025-11-25")
    effects = core.receive(initialize(7, version, **params), NOW)
    refuses(-32602, GuardRefusedError)(core, S.FRESH, effects)
    assert (core.client, core.version) == (None, None)
    agreed(core, S.FRESH, core.receive(initialize(7), NOW))


def test_initialize_without_params_commits_nothing() -> None:
    core = connect(S.FRESH)
    effects = core.receive(frame(id=7, method="initialize"), NOW)
    refuses(-32602, GuardRefusedError, method="initialize")(core, S.FRESH, effects)


@pytest.mark.parametrize(
    ("versions", "requested", "agreed_on"),
    [
        (("2024-11-05", "2025-11-25"), "2024-11-05", "2024-11-05"),
        (("2024-11-05", "2025-11-25"), "2025-06-18", "2025-11-25"),
        (("2024-11-05", "2025-11-25"), "1999-01-01", "2025-11-25"),
        (("2024-11-05", "2026-07-28"), "2026-07-28", "2024-11-05"),
    ],
)
def test_initialize_agrees_on_the_version_asked_for_or_our_newest_with_a_handshake(
    versions: tuple[str, ...], requested: str, agreed_on: str
) -> None:
    core = ServerConnection(offer(versions=versions, instructions="Say hello."))
    (answer,) = answers(core.receive(initialize(7, requested), NOW))
    assert answer["result"] == {
        "protocolVersion": agreed_on,
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "test", "version": "1"},
        "instructions": "Say hello.",
    }
    assert core.client is not None
    assert (core.version, core.client.version) == (agreed_on, agreed_on)
    assert parse(core.client.info) == {"name": "client", "version": "1"}


def test_a_server_without_handshakes_names_its_versions_to_initialize() -> None:
    core = connect(S.FRESH, offer=offer(versions=("2026-07-28",)))
    NO_HANDSHAKE(core, S.FRESH, core.receive(initialize(7), NOW))
    unreadable = core.receive(initialize(7, 1), NOW)
    refuses(-32022, GuardRefusedError, requested="")(core, S.FRESH, unreadable)


def test_a_server_without_the_stateless_era_answers_as_old_servers_do() -> None:
    core = connect(S.FRESH, offer=offer(versions=("2025-06-18",)))
    UNKNOWN(core, S.FRESH, core.receive(stateless(7, "server/discover"), NOW))
    SEQUENCE(core, S.FRESH, core.receive(stateless(7), NOW))
    core.receive(initialize(), NOW)
    served()(core, S.HANDSHAKE, core.receive(stateless(7), NOW))


def test_a_long_version_is_not_quoted_whole() -> None:
    core = connect(S.FRESH)
    error = refusal(core.receive(stateless(7, meta={VERSION_KEY: "9" * 5000}), NOW))
    assert len(str(error.data()["requested"])) == 64


def test_an_escaped_name_of_the_version_is_still_a_stateless_request() -> None:
    core = connect(S.OPERATING)
    for escaped in (
        b"io.modelcontextprotocol\\/protocolVersion",
        b"\\u0069o.modelcontextprotocol/protocolVersion",
    ):
        hidden = stateless(7).replace(VERSION_KEY.encode(), escaped)
        LATE_ERA(core, S.OPERATING, core.receive(hidden, NOW))


def test_the_version_in_another_place_than_meta_means_nothing() -> None:
    core = connect(S.OPERATING)
    served()(core, S.OPERATING, core.receive(call(7, arguments={"_meta": META, "text": "a\\b\u2028"}), NOW))


# --- the rest of the answers ----------------------------------------------------------------------------------------------


def test_discover_and_ping_are_answered_without_a_handler() -> None:
    core = connect(S.OPERATING)
    answered(core, S.OPERATING, core.receive(stateless(7, "server/discover"), NOW))
    answered(core, S.OPERATING, core.receive(frame(id=7, method="ping"), NOW))
    assert core.version == "2025-11-25"


@pytest.mark.parametrize("kind", [ServerConnection, SlowConnection])
def test_the_first_stateless_request_chooses_the_era_and_the_next_keeps_it(
    kind: type[ServerConnection],
) -> None:
    core = connect(S.FRESH, kind=kind)
    served(S.STATELESS)(core, S.FRESH, core.receive(stateless(7), NOW))
    (serve,) = core.receive(stateless(8), NOW)
    assert isinstance(serve, e.Serve)
    assert (core.version, serve.version) == ("2026-07-28", "2026-07-28")
    NO_META(core, S.STATELESS, core.receive(call(9), NOW))


def test_a_duplicate_is_refused_and_counted_and_the_first_runs_on() -> None:
    core = connect(S.OPERATING)
    serial = put_in_flight(core, 7)
    effects = core.receive(call(7), NOW)
    DUPLICATE(core, S.OPERATING, effects)
    assert effects[1] == e.Violation("duplicate requested", 0, 1)
    assert core.in_flight == {7: serial}


def test_a_known_method_in_the_wrong_state_is_a_sequence_error_with_its_name() -> None:
    for kind in (ServerConnection, SlowConnection):
        core = connect(S.FRESH, kind=kind)
        error = refusal(core.receive(call(7, "tools/list"), NOW))
        assert isinstance(error, InvalidEventError)
        assert error.data() == {
            "fsmError": "InvalidEventError",
            "event": "MethodRequested",
            "state": "fresh",
            "method": "tools/list",
        }


def test_a_draining_server_says_that_it_may_be_tried_again() -> None:
    core = connect(S.DRAINING)
    for message in (call(7), stateless(7), initialize(7), stateless(7, "server/discover")):
        SHUTDOWN(core, S.DRAINING, core.receive(message, NOW))


def test_one_post_answers_initialize_and_any_other_connection_only_once() -> None:
    post = ServerConnection(OFFER, version="2025-11-25", is_post=True)
    for _ in range(2):
        (answer,) = answers(post.receive(initialize(7, "2024-11-05"), NOW))
        assert answer["result"]["protocolVersion"] == "2024-11-05"
    assert post.client is None
    session = connect(S.OPERATING)
    SEQUENCE(session, S.OPERATING, session.receive(initialize(7), NOW))
    SEQUENCE(session, S.OPERATING, session.receive(initialize(7, 5), NOW))


# --- what is kept of a client --------------------------------------------------------------------------------------------


def test_of_a_long_client_info_only_the_name_and_the_version_are_kept() -> None:
    """Icons may be data; what is kept of a session stays small."""
    core = connect(S.FRESH)
    info = {"name": "x", "version": "1", "icons": [{"src": "data:image/png;base64," + "A" * 100_000}]}
    core.receive(initialize(1, clientInfo=info), NOW)
    assert core.client is not None
    assert core.client.info == b'{"name":"x","version":"1"}'
    small = {"name": "x", "version": "1", "title": "T"}
    core = connect(S.FRESH)
    core.receive(initialize(1, clientInfo=small), NOW)
    assert core.client is not None
    assert b'"title"' in core.client.info
