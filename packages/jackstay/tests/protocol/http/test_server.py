"""Routing: actions, the revision of every message, the headers against the body, and the status of every response.

"M" is 2026-07-28 basic/transports/streamable-http, "L" is 2025-11-25 basic/transports. "conformance" names a scenario
of the official suite.
"""

import itertools
import tracemalloc
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackstay.protocol._versions import REVISIONS, VERSIONS, Era
from jackstay.protocol.http._headers import HeaderMismatch, fold_headers, post_headers
from jackstay.protocol.http._request_checks import Accepts, Endpoint, ErrorResponse, RequestRefused, check_request
from jackstay.protocol.http._server import (
    ACCEPTED,
    ERROR_STATUS,
    JSON_HEADERS,
    RETRY_HEADERS,
    ROUTES,
    STREAM_HEADERS,
    Action,
    Kind,
    Route,
    SessionState,
    error_status,
    mismatch_response,
    route_post,
    route_verb,
    session_header,
)
from jackstay.protocol.wire._jsonrpc import ErrorCode, decode

STATELESS = "2026-07-28"
HANDSHAKES = [name for name, row in REVISIONS.items() if row.era is Era.HANDSHAKE]
META = {
    "io.modelcontextprotocol/protocolVersion": STATELESS,
    "io.modelcontextprotocol/clientCapabilities": {},
}
PLAIN = Endpoint()
WITH_SESSIONS = Endpoint(has_sessions=True)


def message(**members: object) -> object:
    return decode(msgspec.json.encode({"jsonrpc": "2.0", **members}))


def request(method: str, params: object = None, **more: object) -> object:
    members = {"id": 1, "method": method, **more}
    return message(**members) if params is None else message(**members, params=params)


def stateless(method: str = "tools/list", **params: object) -> object:
    return request(method, {**params, "_meta": META})


def headers_of(
    version: str | None = None, method: str | None = None, name: str | None = None, **more: str
) -> dict[str, str]:
    named = {"mcp-protocol-version": version, "mcp-method": method, "mcp-name": name}
    return {key: value for key, value in named.items() if value is not None} | more


def outcome(function: Callable[..., object], *arguments: object) -> object:
    """Return what the function returns, or the response of the refusal that it raises."""
    try:
        return function(*arguments)
    except RequestRefused as refused:
        return refused.response


# --- the table of actions ---

# method, era of the version header, session -> action or status.
EXPECTED_VERBS = {
    ("GET", Era.HANDSHAKE): {"OFF": 405, "ABSENT": 400, "MALFORMED": 400, "UNKNOWN": 404, "OPEN": Action.LISTEN},
    ("DELETE", Era.HANDSHAKE): {
        "OFF": 405,
        "ABSENT": 400,
        "MALFORMED": 400,
        "UNKNOWN": 404,
        "OPEN": Action.END_SESSION,
    },
    ("GET", Era.STATELESS): dict.fromkeys(SessionState.__members__, 405),
    ("DELETE", Era.STATELESS): dict.fromkeys(SessionState.__members__, 405),
    ("OPTIONS", Era.HANDSHAKE): dict.fromkeys(SessionState.__members__, Action.DESCRIBE),
    ("OPTIONS", Era.STATELESS): dict.fromkeys(SessionState.__members__, Action.DESCRIBE),
}
# RFC 9110, 9.1: methods are case-sensitive.
EXPECTED_VERBS |= {
    (method, era): dict.fromkeys(SessionState.__members__, 405) for method in ("HEAD", "PUT", "get", "") for era in Era
}


def test_every_verb_era_and_session(subtests: pytest.Subtests):
    for session in SessionState:
        for era in Era:
            for verb in sorted({verb for verb, _ in EXPECTED_VERBS}):
                with subtests.test(session=session, era=era, verb=verb):
                    version = STATELESS if era is Era.STATELESS else "2025-11-25"
                    endpoint = PLAIN if session is SessionState.OFF else WITH_SESSIONS
                    headers = headers_of(version, **{"mcp-session-id": "s1", "last-event-id": "e1"})
                    found = outcome(route_verb, endpoint, verb, headers, session)
                    expected = EXPECTED_VERBS[verb, era][session.name]
                    if isinstance(found, ErrorResponse):
                        assert found.status == expected
                        assert (("allow", endpoint.allowed) in found.headers) is (
                            found.status == 405
                        )  # RFC 9110, 15.5.6
                    else:
                        assert found is expected


EXPECTED_POSTS = {
    "stateless": dict.fromkeys(SessionState.__members__, Action.SERVE),
    "initialize": {
        "OFF": Action.SERVE,
        "ABSENT": Action.OPEN_SESSION,
        "MALFORMED": 400,
        "UNKNOWN": 404,
        "OPEN": Action.SERVE_IN_SESSION,
    },
    "request": {"OFF": Action.SERVE, "ABSENT": 400, "MALFORMED": 400, "UNKNOWN": 404, "OPEN": Action.SERVE_IN_SESSION},
}
EXPECTED_POSTS |= dict.fromkeys(("notification", "response", "error", "batch", "malformed"), EXPECTED_POSTS["request"])

POSTED = {
    "stateless": stateless(),
    "initialize": request("initialize", {"protocolVersion": "2025-11-25"}),
    "request": request("tools/list"),
    "notification": message(method="notifications/initialized"),
    "response": message(id=1, result={}),
    "error": message(id=1, error={"code": 1, "message": ""}),
    "batch": decode(b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]'),
    "malformed": decode(b"{"),
}


def test_every_kind_of_message_and_session(subtests: pytest.Subtests):
    for session in SessionState:
        for kind, posted in POSTED.items():
            with subtests.test(session=session, kind=kind):
                endpoint = PLAIN if session is SessionState.OFF else WITH_SESSIONS
                headers = headers_of(method="tools/list", **{"mcp-session-id": "s1"})
                if kind == "stateless":
                    headers["mcp-protocol-version"] = STATELESS
                found = outcome(
                    route_post,
                    endpoint,
                    headers,
                    posted,
                    session,
                    "2025-11-25" if session is SessionState.OPEN else None,
                )
                expected = EXPECTED_POSTS[kind][session.name]
                if isinstance(found, ErrorResponse):
                    assert (found.status, found.code) == (expected, -32600)
                else:
                    assert found.action is expected
                    # M "Earlier Streamable HTTP Revisions": a session id on a stateless request is ignored.
                    assert (found.action is Action.SERVE_IN_SESSION) is (
                        session is SessionState.OPEN and kind != "stateless"
                    )
                    if kind == "stateless":
                        assert found.revision.name == STATELESS
                    else:
                        assert found.revision.name == ("2025-11-25" if session is SessionState.OPEN else "2025-03-26")


def test_the_table_has_a_cell_for_every_pair():
    assert ROUTES.keys() == set(Kind)
    assert all(row.keys() == set(SessionState) for row in ROUTES.values())


# --- the revision of a POST ---


def test_a_post_without_meta_has_the_revision_of_its_header(subtests: pytest.Subtests):
    for version in HANDSHAKES:
        with subtests.test(version=version):
            found = outcome(route_post, PLAIN, headers_of(version), request("tools/list"), SessionState.OFF)
            assert isinstance(found, Route)
            assert found.revision is REVISIONS[version]


REVISION_ROWS = [
    # reason, version header, message, revision or (status, code)
    ("absent is 2025-03-26", None, request("tools/list"), "2025-03-26"),
    ("L: invalid is 400", "invalid-protocol-version", request("tools/list"), (400, -32022)),
    ("conformance server-protocol-version-header", "2000-01-01", request("tools/list"), (400, -32022)),
    ("conformance server-protocol-version-header", "2099-01-01", request("tools/list"), (400, -32022)),
    ("unknown is 400, for initialize too", "2099-01-01", request("initialize"), (400, -32022)),
    ("sent twice", "2025-06-18\n2025-06-18", request("tools/list"), (400, -32022)),
    ("empty", "", request("tools/list"), (400, -32022)),
    ("a stateless revision without _meta", STATELESS, request("tools/list"), (400, -32602)),
    ("conformance server-stateless: missing-meta", STATELESS, request("server/discover", {}), (400, -32602)),
    (
        "conformance server-stateless: missing-protocol-version",
        STATELESS,
        request("server/discover", {"_meta": {"io.modelcontextprotocol/clientCapabilities": {}}}),
        (400, -32602),
    ),
    ("_meta that is not an object", STATELESS, request("tools/list", {"_meta": 5}), (400, -32602)),
    ("params that are an array", STATELESS, request("tools/list", [1]), (400, -32602)),
    (
        "a number out of range",
        STATELESS,
        decode(b'{"jsonrpc":"2.0","id":1,"method":"a","params":{"uri":1e999}}'),
        (400, -32602),
    ),
    ("a name that is not a string", None, request("tools/call", {"name": {"a": 1}, "_meta": [1]}), "2025-03-26"),
    (
        "a version that is not a string",
        STATELESS,
        request("tools/list", {"_meta": {"io.modelcontextprotocol/protocolVersion": 5}}),
        (400, -32602),
    ),
    (
        "a version that is null",
        None,
        request("tools/list", {"_meta": {"io.modelcontextprotocol/protocolVersion": None}}),
        (400, -32602),
    ),
    ("a notification of the stateless era needs no _meta", STATELESS, message(method="notifications/x"), STATELESS),
    ("M: clients MUST NOT send responses", STATELESS, message(id=1, result={}), (400, -32600)),
    ("M: nor errors", STATELESS, message(id=1, error={"code": 1, "message": ""}), (400, -32600)),
    ("the connection refuses a batch", STATELESS, decode(b"[]"), STATELESS),
    ("and an invalid message", STATELESS, decode(b"nonsense"), STATELESS),
]


def test_the_revision_of_a_post(subtests: pytest.Subtests):
    for reason, version, posted, expected in REVISION_ROWS:
        with subtests.test(reason=reason, version=version):
            found = outcome(route_post, PLAIN, headers_of(version), posted, SessionState.OFF)
            if isinstance(expected, str):
                assert isinstance(found, Route)
                assert found.revision.name == expected
            else:
                assert isinstance(found, ErrorResponse)
                assert (found.status, found.code) == expected


def posted_as(params: bytes, start: bytes = b'"id":1,"method":"tools/call"') -> object:
    return decode(b'{"jsonrpc":"2.0",%b,"params":%b}' % (start, params))


def test_members_that_http_does_not_need_are_not_decoded():
    """Of 1 MB of `[]`, the lists would take ten times as much memory."""
    huge = b"[%b]" % b",".join([b"[]"] * 350_000)
    meta = msgspec.json.encode(META)
    posts = [
        (headers_of(), posted_as(b'{"name":"a","uri":%b,"taskId":%b}' % (huge, huge))),
        (headers_of(STATELESS, "tools/call", "a"), posted_as(b'{"name":"a","uri":%b,"_meta":%b}' % (huge, meta))),
        (headers_of(STATELESS, "tools/call"), posted_as(b'{"name":%b,"_meta":%b}' % (huge, meta))),
    ]
    for headers, post in posts:
        tracemalloc.start()
        try:
            found = outcome(route_post, PLAIN, headers, post, SessionState.OFF)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert isinstance(found, Route)
        assert peak < 100_000


def test_a_number_out_of_range_that_http_does_not_need_is_left_to_the_method():
    meta = msgspec.json.encode(META)
    notification = b'"method":"notifications/progress"'
    for headers, post in [
        (headers_of(), posted_as(b'{"name":"a","uri":1e999}')),
        (headers_of(STATELESS, "tools/call", "a"), posted_as(b'{"name":"a","uri":1e999,"_meta":%b}' % meta)),
        (headers_of(), posted_as(b'{"name":1e999}', notification)),
        (headers_of(STATELESS), posted_as(b'{"name":1e999,"_meta":%b}' % meta, notification)),
    ]:
        assert isinstance(outcome(route_post, PLAIN, headers, post, SessionState.OFF), Route)


def test_an_unsupported_version_gets_the_supported_ones():
    """M "Protocol Version Header"; conformance server-stateless: `data.supported` and `data.requested`."""
    endpoint = Endpoint(versions=("2025-06-18", STATELESS))
    found = outcome(route_post, endpoint, headers_of("2025-11-25"), request("tools/list"), SessionState.OFF)
    assert isinstance(found, ErrorResponse)
    assert found.data == {"supported": [STATELESS, "2025-06-18"], "requested": "2025-11-25"}
    long = outcome(route_post, endpoint, headers_of("x" * 1000), request("tools/list"), SessionState.OFF)
    assert isinstance(long, ErrorResponse)
    assert long.data["requested"] == "x" * 64


def test_a_session_keeps_its_revision_whatever_supported_one_the_header_names():
    for named in (None, *HANDSHAKES):
        found = outcome(
            route_post, WITH_SESSIONS, headers_of(named), request("tools/list"), SessionState.OPEN, "2025-06-18"
        )
        assert isinstance(found, Route)
        assert found.revision.name == "2025-06-18"
        assert route_verb(WITH_SESSIONS, "GET", headers_of(named), SessionState.OPEN) is Action.LISTEN
    refused = outcome(route_verb, WITH_SESSIONS, "GET", headers_of("2099-01-01"), SessionState.OPEN)
    assert isinstance(refused, ErrorResponse)
    assert (refused.status, refused.code) == (400, -32022)
    refused = outcome(
        route_post, WITH_SESSIONS, headers_of("2099-01-01"), request("tools/list"), SessionState.OPEN, "2025-06-18"
    )
    assert isinstance(refused, ErrorResponse)


FEWER_VERSIONS = [
    # versions served, method, version header, revision or (status, code)
    (("2025-11-25",), "initialize", None, "2025-11-25"),  # the body negotiates
    (("2025-06-18", "2025-11-25", STATELESS), "initialize", None, "2025-11-25"),
    (("2025-11-25",), "tools/list", None, (400, -32020)),  # M: does not support such clients, MUST reject
    (("2025-11-25",), "tools/list", "2025-11-25", "2025-11-25"),
    ((STATELESS,), "initialize", None, (400, -32022)),  # M versioning: SHOULD name the versions
    ((STATELESS,), "tools/list", None, (400, -32020)),
    ((STATELESS,), "tools/list", "2025-11-25", (400, -32022)),
    # no code of the stateless era, so that clients fall back to initialize
    (("2025-03-26",), "tools/list", STATELESS, (400, -32600)),
]


def test_a_server_without_some_revisions(subtests: pytest.Subtests):
    for versions, method, named, expected in FEWER_VERSIONS:
        with subtests.test(versions=versions, method=method):
            posted = request(method, {"protocolVersion": "2024-11-05"})
            found = outcome(route_post, Endpoint(versions=versions), headers_of(named), posted, SessionState.OFF)
            if isinstance(expected, str):
                assert isinstance(found, Route)
                assert found.revision.name == expected
            else:
                assert isinstance(found, ErrorResponse)
                assert (found.status, found.code) == expected
                if method == "initialize":
                    assert found.data == {"supported": [STATELESS], "requested": "2024-11-05"}


def test_an_initialize_without_a_version_gets_the_supported_ones():
    found = outcome(route_post, Endpoint(versions=(STATELESS,)), {}, request("initialize"), SessionState.OFF)
    assert isinstance(found, ErrorResponse)
    assert found.data == {"supported": [STATELESS], "requested": ""}


# --- headers against the body (M "Server Validation") ---

CALL = stateless("tools/call", name="a")
HEADERS_AND_BODIES = [
    (headers_of(STATELESS, "tools/list"), stateless(), None),
    (headers_of(STATELESS, "tools/call", "a"), CALL, None),
    (
        headers_of(STATELESS, "resources/read", "file:///x"),
        stateless("resources/read", uri="file:///x"),
        None,
    ),
    (headers_of(STATELESS, "prompts/get", "=?base64?w6k=?="), stateless("prompts/get", name="é"), None),
    (headers_of(STATELESS, "tasks/get", "t"), stateless("tasks/get", taskId="t"), None),
    (headers_of(STATELESS, "ping"), stateless("ping"), None),  # unknown: the connection responds with -32601
    (headers_of(STATELESS, "tools/call"), stateless("tools/call"), None),  # no name: refused later with -32602
    (headers_of(STATELESS, "tools/call"), stateless("tools/call", name=5), None),
    (headers_of(None, "tools/list"), stateless(), "MCP-Protocol-Version"),
    (headers_of("2025-11-25", "tools/list"), stateless(), "MCP-Protocol-Version"),
    # conformance: mismatch before -32022
    (headers_of("v999.0.0", "tools/list"), stateless(), "MCP-Protocol-Version"),
    (headers_of(STATELESS), stateless(), "Mcp-Method"),
    (headers_of(STATELESS, "tools/call"), stateless(), "Mcp-Method"),
    (headers_of(STATELESS, "tools/call"), CALL, "Mcp-Name"),
    (headers_of(STATELESS, "tools/call", "b"), CALL, "Mcp-Name"),
    (headers_of(STATELESS, "tools/call", "b"), stateless("tools/call"), "Mcp-Name"),
]


def test_headers_must_match_the_body(subtests: pytest.Subtests):
    for headers, posted, header in HEADERS_AND_BODIES:
        with subtests.test(headers=headers, posted=posted, header=header):
            found = outcome(route_post, PLAIN, headers, posted, SessionState.OFF)
            if header is None:
                assert isinstance(found, Route)
            else:
                assert isinstance(found, ErrorResponse)
                assert (found.status, found.code, found.data) == (400, -32020, {"header": header})
                assert found.message.startswith(f"Header mismatch: {header}")


def test_a_version_that_is_not_served_statelessly(subtests: pytest.Subtests):
    """Checked before the other headers: another revision may require others. Conformance server-stateless."""
    for version in ["v999.0.0", "2099-01-01", "2025-11-25"]:
        with subtests.test(version=version):
            posted = request("server/discover", {"_meta": {**META, "io.modelcontextprotocol/protocolVersion": version}})
            found = outcome(route_post, PLAIN, headers_of(version), posted, SessionState.OFF)
            assert isinstance(found, ErrorResponse)
            assert (found.status, found.code) == (400, -32022)


def test_a_stateless_notification_may_omit_method_headers():
    posted = message(method="notifications/cancelled", params={"_meta": META})
    assert isinstance(outcome(route_post, PLAIN, headers_of(STATELESS), posted, SessionState.OFF), Route)
    found = outcome(route_post, PLAIN, headers_of(STATELESS, "tools/list"), posted, SessionState.OFF)
    assert isinstance(found, ErrorResponse)


def test_the_handshake_era_ignores_method_headers(subtests: pytest.Subtests):
    for version in HANDSHAKES:
        with subtests.test(version=version):
            headers = headers_of(version, "wrong", "wrong")
            assert isinstance(
                outcome(route_post, PLAIN, headers, request("tools/call", {"name": "a"}), SessionState.OFF), Route
            )


def test_a_subscription_requires_a_stream():
    listen = stateless("subscriptions/listen")
    headers = headers_of(STATELESS, "subscriptions/listen")
    assert isinstance(outcome(route_post, PLAIN, headers, listen, SessionState.OFF), Route)
    found = outcome(route_post, PLAIN, headers | {"accept": "application/json"}, listen, SessionState.OFF)
    assert isinstance(found, ErrorResponse)
    assert found.status == 406
    unmatched = outcome(route_post, PLAIN, {"accept": "application/json"}, listen, SessionState.OFF)
    assert isinstance(unmatched, ErrorResponse)
    assert unmatched.status == 400


def test_a_route_contains_the_accepted_media_types():
    found = outcome(route_post, PLAIN, {"accept": "application/json"}, request("tools/list"), SessionState.OFF)
    assert isinstance(found, Route)
    assert found.accepts == Accepts(json=True, stream=False)


# --- sessions ---

SESSION_HEADERS = [
    (PLAIN, {"mcp-session-id": "s1"}, SessionState.OFF),  # ignored without sessions
    (PLAIN, {}, SessionState.OFF),
    (WITH_SESSIONS, {}, SessionState.ABSENT),
    (WITH_SESSIONS, {"mcp-session-id": ""}, SessionState.ABSENT),
    (WITH_SESSIONS, {"mcp-session-id": "s1"}, "s1"),
    (WITH_SESSIONS, {"mcp-session-id": "!~"}, "!~"),
    (WITH_SESSIONS, {"mcp-session-id": "s 1"}, SessionState.MALFORMED),
    (WITH_SESSIONS, {"mcp-session-id": "s1\ns1"}, SessionState.MALFORMED),
    (WITH_SESSIONS, {"mcp-session-id": "é"}, SessionState.MALFORMED),
]


def test_the_session_of_a_request(subtests: pytest.Subtests):
    for endpoint, headers, expected in SESSION_HEADERS:
        with subtests.test(endpoint=endpoint, headers=headers, expected=expected):
            assert session_header(endpoint, headers) == expected


# --- responses ---

STATUSES = [
    # code, status in the handshake era, in the stateless era
    (-32700, 400, 400),
    (-32600, 400, 400),
    (-32601, 200, 404),  # M: "404 Not Found and a JSON-RPC error with code -32601"
    (-32602, 200, 200),
    (-32603, 200, 200),
    (-32001, 200, 200),
    (-32002, 200, 200),
    (-32020, 200, 400),
    (-32021, 200, 400),
    (-32022, 200, 400),
    (-32042, 200, 200),
    (1, 200, 200),
]


def test_the_status_of_an_error(subtests: pytest.Subtests):
    for code, handshake, stateless_status in STATUSES:
        with subtests.test(code=code, handshake=handshake, stateless_status=stateless_status):
            assert error_status(REVISIONS[STATELESS], code) == stateless_status
            for version in HANDSHAKES:
                assert error_status(REVISIONS[version], code) == handshake


def test_the_table_contains_every_code():
    assert {code for code, _, _ in STATUSES} >= set(ErrorCode)
    assert set(ERROR_STATUS) == set(Era)


def test_a_refusal_for_overload_or_shutdown_is_503(subtests: pytest.Subtests):
    for version in VERSIONS:
        with subtests.test(version=version):
            assert error_status(REVISIONS[version], -32603, is_refused=True) == 503
            assert RETRY_HEADERS == (("retry-after", "1"),)


def test_missing_meta_is_400_but_invalid_params_are_200():
    assert error_status(REVISIONS[STATELESS], -32602, is_envelope=True) == 400
    assert error_status(REVISIONS[STATELESS], -32602) == 200
    assert error_status(REVISIONS["2025-11-25"], -32602, is_envelope=True) == 200
    assert error_status(REVISIONS[STATELESS], -32601, is_envelope=True) == 404


def test_fixed_headers():
    assert ACCEPTED == 202
    assert dict(JSON_HEADERS) == {"content-type": "application/json"}
    assert dict(STREAM_HEADERS) == {
        "content-type": "text/event-stream",
        "cache-control": "no-cache",
        "x-accel-buffering": "no",
    }


def test_the_response_to_a_mismatch_of_param_headers():
    found = mismatch_response(HeaderMismatch("Mcp-Param-Region", "is missing"))
    assert (found.status, found.code, found.message) == (
        400,
        -32020,
        "Header mismatch: Mcp-Param-Region is missing",
    )


# --- client and server, and any input ---

METHODS = st.sampled_from(["tools/list", "tools/call", "prompts/get", "resources/read", "tasks/get", "x/y"])


@given(METHODS, st.text(), st.sampled_from(VERSIONS))
def test_the_server_accepts_what_the_client_sends(method, name, version):
    member = {
        "tools/call": "name",
        "prompts/get": "name",
        "resources/read": "uri",
        "tasks/get": "taskId",
    }.get(method)
    params: dict[str, object] = {} if member is None else {member: name}
    revision = REVISIONS[version]
    if revision.era is Era.STATELESS:
        params["_meta"] = META
    sent = post_headers(revision, method, name=name if member else None)
    headers = fold_headers((key.encode(), value.encode("latin-1")) for key, value in sent)
    check_request(PLAIN, "POST", headers | {"host": "localhost:8000"})
    found = outcome(route_post, PLAIN, headers, request(method, params), SessionState.OFF)
    assert isinstance(found, Route)
    assert found.revision.name == (version if revision.has_version_header else "2025-03-26")
    assert found.accepts == Accepts()


HEADER_VALUES = st.sampled_from(["", STATELESS, "2025-11-25", "2025-03-26", "nonsense", "tools/list", "a\nb", "é"])
HEADERS = st.dictionaries(
    st.sampled_from(["mcp-protocol-version", "mcp-method", "mcp-name", "mcp-session-id", "accept"]),
    HEADER_VALUES,
)
BODIES = st.sampled_from([*POSTED.values(), CALL, stateless("subscriptions/listen"), request("tools/list", [1])])
ENDPOINTS = [
    Endpoint(has_sessions=has_sessions, versions=versions)
    for has_sessions, versions in itertools.product((True, False), (VERSIONS, (STATELESS,), ("2025-11-25",)))
]


@given(
    st.sampled_from(ENDPOINTS),
    HEADERS,
    BODIES,
    st.sampled_from(SessionState),
    st.sampled_from([None, "2025-06-18"]),
)
def test_every_request_has_a_route_or_an_error(endpoint, headers, posted, session, session_version):
    found = outcome(route_post, endpoint, headers, posted, session, session_version)
    assert isinstance(found, Route) or found.status in {400, 404, 406}
    for verb, _ in EXPECTED_VERBS:
        found = outcome(route_verb, endpoint, verb, headers, session)
        assert isinstance(found, Action) or found.status in {400, 404, 405}
