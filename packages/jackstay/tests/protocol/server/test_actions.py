"""Requests to a server: each guard both ways, and the negotiation of era and version."""

import pytest

from jackstay.errors import (
    GuardRefusedError,
    InvalidEventError,
)
from jackstay.protocol.server import events as e
from jackstay.protocol.server._connection import ServerConnection
from jackstay.protocol.server._states import ServerState as S
from model.server import (
    DEFAULT_CONFIG,
    INITIALIZED,
    META,
    VERSION_KEY,
    SlowConnection,
    call,
    cancel,
    connect,
    frame,
    initialize,
    parse,
    refusal,
    responses,
    server_config,
    stateless,
)
from model.server_checks import (
    DUPLICATE,
    LATE_ERA,
    NO_HANDSHAKE,
    NO_META,
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


def test_strict_refuses_pipelined_requests(subtests: pytest.Subtests) -> None:
    for kind in [ServerConnection, SlowConnection]:
        with subtests.test(kind=kind):
            lenient, strict = (
                connect(S.HANDSHAKE, server_config=server_config(strict=is_strict), kind=kind)
                for is_strict in (False, True)
            )
            served()(lenient, S.HANDSHAKE, lenient.receive(call(7)))
            SEQUENCE(strict, S.HANDSHAKE, strict.receive(call(7)))
            strict.receive(INITIALIZED)
            served()(strict, S.OPERATING, strict.receive(call(7)))


def test_requests_over_the_limit_are_refused_as_busy(subtests: pytest.Subtests) -> None:
    for state in [S.HANDSHAKE, S.OPERATING, S.STATELESS]:
        with subtests.test(state=state):
            core = connect(state, server_config=server_config(max_concurrent=1))
            serial = put_in_flight(core, 1)
            message = stateless(7) if state is S.STATELESS else call(7)
            refuses(-32603, GuardRefusedError, retryable=True, reason="busy")(core, state, core.receive(message))
            assert 7 not in core.in_flight
            core.finish(1, serial, b"{}")
            served()(core, state, core.receive(message))


def test_ping_and_cancel_are_never_busy(subtests: pytest.Subtests) -> None:
    for state in [S.HANDSHAKE, S.OPERATING]:
        with subtests.test(state=state):
            core = connect(state, server_config=server_config(max_concurrent=1))
            put_in_flight(core, 8)
            answered(core, state, core.receive(frame(id=7, method="ping")))
            STOP(core, state, core.receive(cancel(8)))


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


def test_stateless_meta_is_validated_with_every_request(subtests: pytest.Subtests) -> None:
    for state in [S.FRESH, S.STATELESS]:
        for key, meta in [(key, meta) for key, metas in BAD_META.items() for meta in metas]:
            for method in ["tools/call", "server/discover"]:
                with subtests.test(state=state, key=key):
                    core = connect(state)
                    effects = core.receive(stateless(7, method, meta))
                    refuses(-32602, GuardRefusedError, key=key)(core, state, effects)
                    assert core.version == (None if state is S.FRESH else "2026-07-28")


def test_handlers_get_the_meta_of_stateless_requests() -> None:
    core = connect(S.STATELESS)
    meta = {**META, "progressToken": "p", "io.modelcontextprotocol/logLevel": "debug"}
    (serve,) = core.receive(stateless(7, meta=meta))
    assert isinstance(serve, e.Serve)
    assert serve.meta is not None
    assert (serve.version, serve.meta.version) == ("2026-07-28", "2026-07-28")
    assert (serve.meta.progress_token, serve.meta.log_level) == ("p", "debug")
    assert bytes(serve.meta.capabilities) == b"{}"


def test_initialize_with_invalid_params_changes_nothing(subtests: pytest.Subtests) -> None:
    for params in [
        {"protocolVersion": ...},
        {"protocolVersion": 20251125},
        {"capabilities": ...},
        {"capabilities": []},
        {"clientInfo": ...},
        {"clientInfo": {"name": "x"}},
        {"clientInfo": {"name": "x", "version": 1}},
        {"clientInfo": {"name": "x" * 5000, "version": "1"}},
        {"capabilities": {"experimental": {"x": "y" * 9000}}},
    ]:
        with subtests.test(params=params):
            core = connect(S.FRESH)
            version = params.pop("protocolVersion", "2025-11-25")
            effects = core.receive(initialize(7, version, **params))
            refuses(-32602, GuardRefusedError)(core, S.FRESH, effects)
            assert (core.client, core.version) == (None, None)
            agreed(core, S.FRESH, core.receive(initialize(7)))


def test_initialize_without_params_changes_nothing() -> None:
    core = connect(S.FRESH)
    effects = core.receive(frame(id=7, method="initialize"))
    refuses(-32602, GuardRefusedError, method="initialize")(core, S.FRESH, effects)


def test_initialize_negotiates_the_requested_version_or_the_newest_with_a_handshake(subtests: pytest.Subtests) -> None:
    for versions, requested, negotiated in [
        (("2024-11-05", "2025-11-25"), "2024-11-05", "2024-11-05"),
        (("2024-11-05", "2025-11-25"), "2025-06-18", "2025-11-25"),
        (("2024-11-05", "2025-11-25"), "1999-01-01", "2025-11-25"),
        (("2024-11-05", "2026-07-28"), "2026-07-28", "2024-11-05"),
    ]:
        with subtests.test(versions=versions, requested=requested, negotiated=negotiated):
            core = ServerConnection(server_config(versions=versions, instructions="Say hello."))
            (response,) = responses(core.receive(initialize(7, requested)))
            assert response["result"] == {
                "protocolVersion": negotiated,
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "test", "version": "1"},
                "instructions": "Say hello.",
            }
            assert core.client is not None
            assert (core.version, core.client.version) == (negotiated, negotiated)
            assert parse(core.client.info) == {"name": "client", "version": "1"}


def test_a_server_without_handshakes_sends_its_versions() -> None:
    core = connect(S.FRESH, server_config=server_config(versions=("2026-07-28",)))
    NO_HANDSHAKE(core, S.FRESH, core.receive(initialize(7)))
    unreadable = core.receive(initialize(7, 1))
    refuses(-32022, GuardRefusedError, requested="")(core, S.FRESH, unreadable)


def test_a_server_without_the_stateless_era_responds_as_older_servers_do() -> None:
    core = connect(S.FRESH, server_config=server_config(versions=("2025-06-18",)))
    UNKNOWN(core, S.FRESH, core.receive(stateless(7, "server/discover")))
    SEQUENCE(core, S.FRESH, core.receive(stateless(7)))
    core.receive(initialize())
    served()(core, S.HANDSHAKE, core.receive(stateless(7)))


def test_the_quote_of_a_version_is_truncated() -> None:
    core = connect(S.FRESH)
    error = refusal(core.receive(stateless(7, meta={VERSION_KEY: "9" * 5000})))
    assert len(str(error.data()["requested"])) == 64


def test_an_escaped_version_key_makes_a_stateless_request() -> None:
    core = connect(S.OPERATING)
    for escaped in (
        b"io.modelcontextprotocol\\/protocolVersion",
        b"\\u0069o.modelcontextprotocol/protocolVersion",
    ):
        message = stateless(7).replace(VERSION_KEY.encode(), escaped)
        LATE_ERA(core, S.OPERATING, core.receive(message))


def test_a_version_outside_meta_is_ignored() -> None:
    core = connect(S.OPERATING)
    served()(core, S.OPERATING, core.receive(call(7, arguments={"_meta": META, "text": "a\\b\u2028"})))


# --- other responses ---


def test_discover_and_ping_need_no_handler() -> None:
    core = connect(S.OPERATING)
    answered(core, S.OPERATING, core.receive(stateless(7, "server/discover")))
    answered(core, S.OPERATING, core.receive(frame(id=7, method="ping")))
    assert core.version == "2025-11-25"


def test_the_first_stateless_request_determines_the_era(subtests: pytest.Subtests) -> None:
    for kind in [ServerConnection, SlowConnection]:
        with subtests.test(kind=kind):
            core = connect(S.FRESH, kind=kind)
            served(S.STATELESS)(core, S.FRESH, core.receive(stateless(7)))
            (serve,) = core.receive(stateless(8))
            assert isinstance(serve, e.Serve)
            assert (core.version, serve.version) == ("2026-07-28", "2026-07-28")
            NO_META(core, S.STATELESS, core.receive(call(9)))


def test_a_duplicate_is_refused_and_counted() -> None:
    core = connect(S.OPERATING)
    serial = put_in_flight(core, 7)
    effects = core.receive(call(7))
    DUPLICATE(core, S.OPERATING, effects)
    assert effects[1] == e.Violation("duplicate requested", 0, 1)
    assert core.in_flight == {7: serial}


def test_a_known_method_in_the_wrong_state_is_a_sequence_error() -> None:
    for kind in (ServerConnection, SlowConnection):
        core = connect(S.FRESH, kind=kind)
        error = refusal(core.receive(call(7, "tools/list")))
        assert isinstance(error, InvalidEventError)
        assert error.data() == {
            "fsmError": "InvalidEventError",
            "event": "MethodRequested",
            "state": "fresh",
            "method": "tools/list",
        }


def test_a_draining_server_refuses_requests_as_retryable() -> None:
    core = connect(S.DRAINING)
    for message in (call(7), stateless(7), initialize(7), stateless(7, "server/discover")):
        SHUTDOWN(core, S.DRAINING, core.receive(message))


def test_only_a_post_accepts_initialize_again() -> None:
    post = ServerConnection(DEFAULT_CONFIG, version="2025-11-25", is_post=True)
    for _ in range(2):
        (response,) = responses(post.receive(initialize(7, "2024-11-05")))
        assert response["result"]["protocolVersion"] == "2024-11-05"
    assert post.client is None
    session = connect(S.OPERATING)
    SEQUENCE(session, S.OPERATING, session.receive(initialize(7)))
    SEQUENCE(session, S.OPERATING, session.receive(initialize(7, 5)))


# --- stored client params ---


def test_only_name_and_version_of_a_large_client_info_are_kept() -> None:
    """Icons may be data URIs; a session stores little."""
    core = connect(S.FRESH)
    info = {"name": "x", "version": "1", "icons": [{"src": "data:image/png;base64," + "A" * 100_000}]}
    core.receive(initialize(1, clientInfo=info))
    assert core.client is not None
    assert core.client.info == b'{"name":"x","version":"1"}'
    small = {"name": "x", "version": "1", "title": "T"}
    core = connect(S.FRESH)
    core.receive(initialize(1, clientInfo=small))
    assert core.client is not None
    assert b'"title"' in core.client.info
