"""Routing: the matrix, the revision of every message, the headers against the body, and the status of every answer.

"M" is 2026-07-28 basic/transports/streamable-http, "L" is 2025-11-25 basic/transports, "6" is section 6 of
docs/design/connection.md. "conformance" names the scenario of the official suite that tries the case.
"""

import itertools

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackstay.protocol._versions import REVISIONS, VERSIONS, Era
from jackstay.protocol.http._client import post_headers
from jackstay.protocol.http._gate import Accepts, Endpoint, Refusal, Verb, check_request
from jackstay.protocol.http._headers import HeaderMismatch, fold_headers
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
    Session,
    answer_status,
    mismatch_refusal,
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
KEEPING = Endpoint(has_sessions=True)


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


# ---- the matrix ----

# verb, era of the version header, session -> action or status; the rows of the table once more, from outside.
EXPECTED_VERBS = {
    (Verb.GET, Era.HANDSHAKE): {"OFF": 405, "ABSENT": 400, "MALFORMED": 400, "UNKNOWN": 404, "OPEN": Action.LISTEN},
    (Verb.DELETE, Era.HANDSHAKE): {"OFF": 405, "ABSENT": 400, "MALFORMED": 400, "UNKNOWN": 404, "OPEN": Action.END_SESSION},
    (Verb.GET, Era.STATELESS): dict.fromkeys(Session.__members__, 405),
    (Verb.DELETE, Era.STATELESS): dict.fromkeys(Session.__members__, 405),
    (Verb.OPTIONS, Era.HANDSHAKE): dict.fromkeys(Session.__members__, Action.DESCRIBE),
    (Verb.OPTIONS, Era.STATELESS): dict.fromkeys(Session.__members__, Action.DESCRIBE),
    (Verb.OTHER, Era.HANDSHAKE): dict.fromkeys(Session.__members__, 405),
    (Verb.OTHER, Era.STATELESS): dict.fromkeys(Session.__members__, 405),
}  # fmt: skip


@pytest.mark.parametrize("session", Session)
@pytest.mark.parametrize("era", Era)
@pytest.mark.parametrize("verb", sorted(set(Verb) - {Verb.POST}, key=lambda verb: verb.name))
def test_every_verb_in_every_era_and_every_session(verb, era, session):
    version = STATELESS if era is Era.STATELESS else "2025-11-25"
    endpoint = PLAIN if session is Session.OFF else KEEPING
    headers = headers_of(version, **{"mcp-session-id": "s1", "last-event-id": "e1"})
    found = route_verb(endpoint, verb, headers, session, "2025-06-18" if session is Session.OPEN else None)
    expected = EXPECTED_VERBS[verb, era][session.name]
    if isinstance(found, Refusal):
        assert found.status == expected
        assert (("allow", endpoint.allowed) in found.headers) is (found.status == 405)  # RFC 9110, 15.5.6
    else:
        assert found.action is expected
        assert found.last_event_id == ("e1" if verb is Verb.GET else None)
        assert (found.session_id is not None) is (session is Session.OPEN)


EXPECTED_POSTS = {
    "stateless": dict.fromkeys(Session.__members__, Action.SERVE),
    "initialize": {"OFF": Action.SERVE, "ABSENT": Action.OPEN_SESSION, "MALFORMED": 400, "UNKNOWN": 404, "OPEN": Action.SERVE_IN_SESSION},
    "request": {"OFF": Action.SERVE, "ABSENT": 400, "MALFORMED": 400, "UNKNOWN": 404, "OPEN": Action.SERVE_IN_SESSION},
}  # fmt: skip
EXPECTED_POSTS |= dict.fromkeys(
    ("notification", "response", "error", "batch", "malformed"), EXPECTED_POSTS["request"]
)

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


@pytest.mark.parametrize("session", Session)
@pytest.mark.parametrize("kind", POSTED)
def test_every_kind_of_message_in_every_session(kind, session):
    endpoint = PLAIN if session is Session.OFF else KEEPING
    headers = headers_of(method="tools/list", **{"mcp-session-id": "s1"})
    if kind == "stateless":
        headers["mcp-protocol-version"] = STATELESS
    found = route_post(
        endpoint, headers, POSTED[kind], session, "2025-11-25" if session is Session.OPEN else None
    )
    expected = EXPECTED_POSTS[kind][session.name]
    if isinstance(found, Refusal):
        assert (found.status, found.code) == (expected, -32600)
    else:
        assert found.action is expected
        # M "Earlier Streamable HTTP Revisions": a session id on a stateless request is ignored.
        assert found.session_id == ("s1" if session is Session.OPEN and kind != "stateless" else None)
        if kind == "stateless":
            assert found.revision.name == STATELESS
        else:
            assert found.revision.name == ("2025-11-25" if session is Session.OPEN else "2025-03-26")


def test_the_table_has_a_cell_for_every_pair():
    assert ROUTES.keys() == set(Kind)
    assert all(row.keys() == set(Session) for row in ROUTES.values())


# ---- which revision a POST runs at ----


@pytest.mark.parametrize("version", HANDSHAKES)
def test_a_post_without_meta_runs_at_the_revision_of_its_header(version):
    found = route_post(PLAIN, headers_of(version), request("tools/list"), Session.OFF)
    assert isinstance(found, Route)
    assert found.revision is REVISIONS[version]


REVISION_ROWS = [
    # why, version header, message, status, code (or the revision it runs at)
    ("6: absent is 2025-03-26", None, request("tools/list"), "2025-03-26"),
    ("L: invalid is 400", "invalid-protocol-version", request("tools/list"), (400, -32022)),
    ("conformance server-protocol-version-header", "2000-01-01", request("tools/list"), (400, -32022)),
    ("conformance server-protocol-version-header", "2099-01-01", request("tools/list"), (400, -32022)),
    ("6: unknown is 400, for initialize too", "2099-01-01", request("initialize"), (400, -32022)),
    ("sent twice", "2025-06-18\n2025-06-18", request("tools/list"), (400, -32022)),
    ("empty", "", request("tools/list"), (400, -32022)),
    ("6: a stateless revision without _meta", STATELESS, request("tools/list"), (400, -32602)),
    ("conformance server-stateless: missing-meta", STATELESS, request("server/discover", {}), (400, -32602)),
    ("conformance server-stateless: missing-protocol-version", STATELESS,
     request("server/discover", {"_meta": {"io.modelcontextprotocol/clientCapabilities": {}}}), (400, -32602)),
    ("_meta that is no object", STATELESS, request("tools/list", {"_meta": 5}), (400, -32602)),
    ("params that are an array", STATELESS, request("tools/list", [1]), (400, -32602)),
    ("a version that is no string", STATELESS,
     request("tools/list", {"_meta": {"io.modelcontextprotocol/protocolVersion": 5}}), (400, -32602)),
    ("a version that is null", None,
     request("tools/list", {"_meta": {"io.modelcontextprotocol/protocolVersion": None}}), (400, -32602)),
    ("a notification of the stateless era needs no _meta", STATELESS, message(method="notifications/x"), STATELESS),
    ("M: clients MUST NOT send responses", STATELESS, message(id=1, result={}), (400, -32600)),
    ("M: nor errors", STATELESS, message(id=1, error={"code": 1, "message": ""}), (400, -32600)),
    ("a batch is the machine's to refuse", STATELESS, decode(b"[]"), STATELESS),
    ("and so is what is no message", STATELESS, decode(b"nonsense"), STATELESS),
]  # fmt: skip


@pytest.mark.parametrize(("why", "version", "posted", "expected"), REVISION_ROWS)
def test_the_revision_of_a_post(why, version, posted, expected):
    found = route_post(PLAIN, headers_of(version), posted, Session.OFF)
    if isinstance(expected, str):
        assert isinstance(found, Route)
        assert found.revision.name == expected
    else:
        assert isinstance(found, Refusal)
        assert (found.status, found.code) == expected


def test_an_unsupported_version_is_told_what_is_supported():
    """M "Protocol Version Header"; conformance server-stateless: `data.supported` and `data.requested`."""
    endpoint = Endpoint(versions=("2025-06-18", STATELESS))
    found = route_post(endpoint, headers_of("2025-11-25"), request("tools/list"), Session.OFF)
    assert isinstance(found, Refusal)
    assert found.data == {"supported": [STATELESS, "2025-06-18"], "requested": "2025-11-25"}
    long = route_post(endpoint, headers_of("x" * 1000), request("tools/list"), Session.OFF)
    assert isinstance(long, Refusal)
    assert long.data["requested"] == "x" * 64


def test_a_session_keeps_its_own_revision_whatever_known_one_the_header_names():
    for named in (None, *HANDSHAKES):
        found = route_post(KEEPING, headers_of(named), request("tools/list"), Session.OPEN, "2025-06-18")
        assert isinstance(found, Route)
        assert found.revision.name == "2025-06-18"
        found = route_verb(KEEPING, Verb.GET, headers_of(named), Session.OPEN, "2025-06-18")
        assert isinstance(found, Route)
        assert found.revision.name == "2025-06-18"
    refused = route_verb(KEEPING, Verb.GET, headers_of("2099-01-01"), Session.OPEN, "2025-06-18")
    assert isinstance(refused, Refusal)
    assert (refused.status, refused.code) == (400, -32022)
    refused = route_post(KEEPING, headers_of("2099-01-01"), request("tools/list"), Session.OPEN, "2025-06-18")
    assert isinstance(refused, Refusal)


NARROWED = [
    # versions served, method, version header, revision or (status, code)
    (("2025-11-25",), "initialize", None, "2025-11-25"),  # its body negotiates
    (("2025-06-18", "2025-11-25", STATELESS), "initialize", None, "2025-11-25"),
    (("2025-11-25",), "tools/list", None, (400, -32020)),  # M: does not support such clients, MUST reject
    (("2025-11-25",), "tools/list", "2025-11-25", "2025-11-25"),
    ((STATELESS,), "initialize", None, (400, -32022)),  # M versioning: SHOULD name the versions
    ((STATELESS,), "tools/list", None, (400, -32020)),
    ((STATELESS,), "tools/list", "2025-11-25", (400, -32022)),
    (
        ("2025-03-26",),
        "tools/list",
        STATELESS,
        (400, -32600),
    ),  # no code of the stateless era: clients fall back to initialize
]


@pytest.mark.parametrize(("versions", "method", "named", "expected"), NARROWED)
def test_a_server_that_does_not_serve_every_revision(versions, method, named, expected):
    posted = request(method, {"protocolVersion": "2024-11-05"})
    found = route_post(Endpoint(versions=versions), headers_of(named), posted, Session.OFF)
    if isinstance(expected, str):
        assert isinstance(found, Route)
        assert found.revision.name == expected
    else:
        assert isinstance(found, Refusal)
        assert (found.status, found.code) == expected
        if method == "initialize":
            assert found.data == {"supported": [STATELESS], "requested": "2024-11-05"}


def test_an_initialize_without_a_version_is_told_too():
    found = route_post(Endpoint(versions=(STATELESS,)), {}, request("initialize"), Session.OFF)
    assert isinstance(found, Refusal)
    assert found.data == {"supported": [STATELESS], "requested": ""}


# ---- headers against the body (M "Server Validation") ----

CALL = stateless("tools/call", name="a")
MATCHED = [
    (headers_of(STATELESS, "tools/list"), stateless(), None),
    (headers_of(STATELESS, "tools/call", "a"), CALL, None),
    (
        headers_of(STATELESS, "resources/read", "file:///x"),
        stateless("resources/read", uri="file:///x"),
        None,
    ),
    (headers_of(STATELESS, "prompts/get", "=?base64?w6k=?="), stateless("prompts/get", name="é"), None),
    (headers_of(STATELESS, "tasks/get", "t"), stateless("tasks/get", taskId="t"), None),
    (headers_of(STATELESS, "ping"), stateless("ping"), None),  # unknown there: the machine says -32601
    (headers_of(STATELESS, "tools/call"), stateless("tools/call"), None),  # no name: -32602 will say so
    (headers_of(STATELESS, "tools/call"), stateless("tools/call", name=5), None),
    (headers_of(None, "tools/list"), stateless(), "MCP-Protocol-Version"),
    (headers_of("2025-11-25", "tools/list"), stateless(), "MCP-Protocol-Version"),
    (
        headers_of("v999.0.0", "tools/list"),
        stateless(),
        "MCP-Protocol-Version",
    ),  # conformance: mismatch before -32022
    (headers_of(STATELESS), stateless(), "Mcp-Method"),
    (headers_of(STATELESS, "tools/call"), stateless(), "Mcp-Method"),
    (headers_of(STATELESS, "tools/call"), CALL, "Mcp-Name"),
    (headers_of(STATELESS, "tools/call", "b"), CALL, "Mcp-Name"),
    (headers_of(STATELESS, "tools/call", "b"), stateless("tools/call"), "Mcp-Name"),
]


@pytest.mark.parametrize(("headers", "posted", "header"), MATCHED)
def test_headers_must_say_what_the_body_says(headers, posted, header):
    found = route_post(PLAIN, headers, posted, Session.OFF)
    if header is None:
        assert isinstance(found, Route)
    else:
        assert isinstance(found, Refusal)
        assert (found.status, found.code, found.data) == (400, -32020, {"header": header})
        assert found.message.startswith(f"Header mismatch: {header}")


@pytest.mark.parametrize("version", ["v999.0.0", "2099-01-01", "2025-11-25"])
def test_header_and_body_may_agree_on_a_version_that_is_not_served_statelessly(version):
    """Before the other headers are looked at: another revision may want others. Conformance server-stateless."""
    posted = request(
        "server/discover", {"_meta": {**META, "io.modelcontextprotocol/protocolVersion": version}}
    )
    found = route_post(PLAIN, headers_of(version), posted, Session.OFF)
    assert isinstance(found, Refusal)
    assert (found.status, found.code) == (400, -32022)


def test_a_stateless_notification_may_come_without_method_headers():
    posted = message(method="notifications/cancelled", params={"_meta": META})
    assert isinstance(route_post(PLAIN, headers_of(STATELESS), posted, Session.OFF), Route)
    found = route_post(PLAIN, headers_of(STATELESS, "tools/list"), posted, Session.OFF)
    assert isinstance(found, Refusal)


@pytest.mark.parametrize("version", HANDSHAKES)
def test_the_handshake_era_does_not_look_at_method_headers(version):
    headers = headers_of(version, "wrong", "wrong")
    assert isinstance(route_post(PLAIN, headers, request("tools/call", {"name": "a"}), Session.OFF), Route)


def test_a_subscription_needs_a_stream():
    listen = stateless("subscriptions/listen")
    headers = headers_of(STATELESS, "subscriptions/listen")
    assert isinstance(route_post(PLAIN, headers, listen, Session.OFF), Route)
    found = route_post(PLAIN, headers | {"accept": "application/json"}, listen, Session.OFF)
    assert isinstance(found, Refusal)
    assert found.status == 406
    unmatched = route_post(PLAIN, {"accept": "application/json"}, listen, Session.OFF)
    assert isinstance(unmatched, Refusal)
    assert unmatched.status == 400


def test_what_is_accepted_travels_with_the_route():
    found = route_post(PLAIN, {"accept": "application/json"}, request("tools/list"), Session.OFF)
    assert isinstance(found, Route)
    assert found.accepts == Accepts(json=True, stream=False)


# ---- sessions ----

SESSION_HEADERS = [
    (PLAIN, {"mcp-session-id": "s1"}, Session.OFF),  # ignored where there are none
    (PLAIN, {}, Session.OFF),
    (KEEPING, {}, Session.ABSENT),
    (KEEPING, {"mcp-session-id": ""}, Session.ABSENT),
    (KEEPING, {"mcp-session-id": "s1"}, "s1"),
    (KEEPING, {"mcp-session-id": "!~"}, "!~"),
    (KEEPING, {"mcp-session-id": "s 1"}, Session.MALFORMED),
    (KEEPING, {"mcp-session-id": "s1\ns1"}, Session.MALFORMED),
    (KEEPING, {"mcp-session-id": "é"}, Session.MALFORMED),
]


@pytest.mark.parametrize(("endpoint", "headers", "expected"), SESSION_HEADERS)
def test_the_session_a_request_names(endpoint, headers, expected):
    assert session_header(endpoint, headers) == expected


# ---- answers ----

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


@pytest.mark.parametrize(("code", "handshake", "stateless_status"), STATUSES)
def test_the_status_of_an_error(code, handshake, stateless_status):
    assert answer_status(REVISIONS[STATELESS], code) == stateless_status
    for version in HANDSHAKES:
        assert answer_status(REVISIONS[version], code) == handshake


def test_every_code_we_know_is_in_that_table():
    assert {code for code, _, _ in STATUSES} >= set(ErrorCode)
    assert set(ERROR_STATUS) == set(Era)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_refusal_for_load_or_shutdown_is_503_and_to_be_tried_again(version):
    """Section 6, "refuse": HTTP 503 with `Retry-After: 1`."""
    assert answer_status(REVISIONS[version], -32603, is_refused=True) == 503
    assert RETRY_HEADERS == (("retry-after", "1"),)


def test_missing_meta_is_400_but_wrong_params_are_an_ordinary_answer():
    assert answer_status(REVISIONS[STATELESS], -32602, is_envelope=True) == 400
    assert answer_status(REVISIONS[STATELESS], -32602) == 200
    assert answer_status(REVISIONS["2025-11-25"], -32602, is_envelope=True) == 200
    assert answer_status(REVISIONS[STATELESS], -32601, is_envelope=True) == 404


def test_fixed_headers():
    assert ACCEPTED == 202
    assert dict(JSON_HEADERS) == {"content-type": "application/json"}
    assert dict(STREAM_HEADERS) == {
        "content-type": "text/event-stream",
        "cache-control": "no-cache",
        "x-accel-buffering": "no",
    }


def test_a_mismatch_of_params_is_refused_like_the_others():
    found = mismatch_refusal(HeaderMismatch("Mcp-Param-Region", "is missing"))
    assert (found.status, found.code, found.message) == (
        400,
        -32020,
        "Header mismatch: Mcp-Param-Region is missing",
    )


# ---- both ends together, and totality ----

METHODS = st.sampled_from(["tools/list", "tools/call", "prompts/get", "resources/read", "tasks/get", "x/y"])


@given(METHODS, st.text(), st.sampled_from(VERSIONS))
def test_whatever_our_client_sends_our_server_takes(method, name, version):
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
    assert check_request(PLAIN, Verb.POST, headers | {"host": "localhost:8000"}) == Accepts()
    found = route_post(PLAIN, headers, request(method, params), Session.OFF)
    assert isinstance(found, Route)
    assert found.revision.name == (version if revision.has_version_header else "2025-03-26")
    assert found.accepts == Accepts()


HEADER_VALUES = st.sampled_from(
    ["", STATELESS, "2025-11-25", "2025-03-26", "nonsense", "tools/list", "a\nb", "é"]
)
HEADERS = st.dictionaries(
    st.sampled_from(["mcp-protocol-version", "mcp-method", "mcp-name", "mcp-session-id", "accept"]),
    HEADER_VALUES,
)
BODIES = st.sampled_from(
    [*POSTED.values(), CALL, stateless("subscriptions/listen"), request("tools/list", [1])]
)
ENDPOINTS = [
    Endpoint(has_sessions=has_sessions, versions=versions)
    for has_sessions, versions in itertools.product((True, False), (VERSIONS, (STATELESS,), ("2025-11-25",)))
]


@given(
    st.sampled_from(ENDPOINTS),
    HEADERS,
    BODIES,
    st.sampled_from(Session),
    st.sampled_from([None, "2025-06-18"]),
)
def test_every_post_has_a_route_or_a_refusal(endpoint, headers, posted, session, session_version):
    found = route_post(endpoint, headers, posted, session, session_version)
    assert isinstance(found, Route) or found.status in {400, 404, 406}
    for verb in set(Verb) - {Verb.POST}:
        found = route_verb(endpoint, verb, headers, session, session_version)
        assert isinstance(found, Route) or found.status in {400, 404, 405}
