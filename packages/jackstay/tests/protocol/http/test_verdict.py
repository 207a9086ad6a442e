"""The classification of HTTP responses: rows for every rule, then every status for every kind of request.

"M" is 2026-07-28 basic/transports/streamable-http, "L" is 2025-11-25 and "L24" 2024-11-05 basic/transports.
"""

import http
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackstay.errors import OutcomeUnknownError, ProtocolError, SessionLostError, TransportError
from jackstay.protocol.http._verdict import (
    MAX_RETRY_AFTER,
    RULES,
    Fact,
    Next,
    Sent,
    Verdict,
    classify_response,
    error_for,
    parse_retry_after,
)

JSON = {"content-type": "application/json"}
EVENTS = {"content-type": "text/event-stream; charset=utf-8"}
HTML = {"content-type": "text/html"}
CHALLENGE = {"www-authenticate": "Bearer"}

# reason, what was sent, status, headers, keywords, next step, whether it may have run
ROWS = [
    # Responses.
    ("M: JSON", Sent.REQUEST, 200, JSON, {}, Next.RESPONSE, True),
    (
        "M: JSON, in another notation",
        Sent.REQUEST,
        200,
        {"content-type": "Application/JSON;charset=utf-8"},
        {},
        Next.RESPONSE,
        True,
    ),
    ("M: a stream", Sent.REQUEST, 200, EVENTS, {}, Next.STREAM, True),
    ("a transforming proxy", Sent.REQUEST, 203, JSON, {}, Next.RESPONSE, True),
    ("M: a notification", Sent.NOTIFICATION, 202, {}, {}, Next.ACCEPTED, True),
    ("a notification, leniently", Sent.NOTIFICATION, 200, JSON, {}, Next.ACCEPTED, True),
    ("a notification, leniently", Sent.NOTIFICATION, 204, {}, {}, Next.ACCEPTED, True),
    ("L24: messages are accepted", Sent.LEGACY_POST, 202, {}, {}, Next.ACCEPTED, True),
    ("L24: leniently", Sent.LEGACY_POST, 200, HTML, {}, Next.ACCEPTED, True),
    ("a request needs a response", Sent.REQUEST, 202, {}, {}, Next.UNEXPECTED, True),
    ("without a body", Sent.REQUEST, 204, {}, {}, Next.UNEXPECTED, True),
    ("an HTML page", Sent.REQUEST, 200, HTML, {}, Next.UNEXPECTED, True),
    ("the response to initialize", Sent.INITIALIZE, 200, JSON, {}, Next.RESPONSE, False),
    ("the response to the probe", Sent.PROBE, 200, EVENTS, {}, Next.STREAM, False),
    # A JSON-RPC error is the response, whatever the status.
    ("JSON-RPC error", Sent.REQUEST, 200, JSON, {"error_code": -32603}, Next.ERROR, None),
    ("bad request", Sent.REQUEST, 400, JSON, {"error_code": -32602}, Next.ERROR, None),
    ("M: unknown method", Sent.REQUEST, 404, JSON, {"error_code": -32601}, Next.ERROR, None),
    ("even with 429", Sent.REQUEST, 429, JSON, {"error_code": -32603}, Next.ERROR, None),
    ("even with 503, our own refusal", Sent.REQUEST, 503, JSON, {"error_code": -32603}, Next.ERROR, None),
    ("even with 302", Sent.REQUEST, 302, JSON, {"error_code": -32603}, Next.ERROR, None),
    (
        "L: a notification that cannot be accepted",
        Sent.NOTIFICATION,
        400,
        JSON,
        {"error_code": -32600},
        Next.ERROR,
        None,
    ),
    ("a refused notification", Sent.NOTIFICATION, 200, JSON, {"error_code": -32600}, Next.ERROR, None),
    # Statuses without a JSON-RPC error.
    ("429 did not run", Sent.REQUEST, 429, {}, {}, Next.THROTTLED, False),
    ("5xx is unknown", Sent.REQUEST, 500, HTML, {}, Next.UNAVAILABLE, True),
    ("5xx is unknown", Sent.REQUEST, 502, {}, {}, Next.UNAVAILABLE, True),
    ("5xx is unknown", Sent.REQUEST, 503, {}, {}, Next.UNAVAILABLE, True),
    ("5xx is unknown", Sent.REQUEST, 504, {}, {}, Next.UNAVAILABLE, True),
    ("refused", Sent.REQUEST, 400, HTML, {}, Next.REFUSED, False),
    ("refused", Sent.REQUEST, 413, {}, {}, Next.REFUSED, False),
    ("an unknown path", Sent.REQUEST, 404, HTML, {}, Next.REFUSED, False),
    ("a timeout", Sent.REQUEST, 408, {}, {}, Next.REFUSED, True),
    ("a conflict", Sent.REQUEST, 409, {}, {}, Next.REFUSED, True),
    ("an unassigned status", Sent.REQUEST, 499, {}, {}, Next.REFUSED, True),
    # Sessions.
    ("L: 404 with a session id", Sent.REQUEST, 404, {}, {"session_id": "s"}, Next.SESSION_LOST, False),
    (
        "L: whatever the body",
        Sent.REQUEST,
        404,
        JSON,
        {"session_id": "s", "error_code": -32001},
        Next.SESSION_LOST,
        False,
    ),
    (
        "but not for an unknown method",
        Sent.REQUEST,
        404,
        JSON,
        {"session_id": "s", "error_code": -32601},
        Next.ERROR,
        None,
    ),
    ("L: for a notification too", Sent.NOTIFICATION, 404, {}, {"session_id": "s"}, Next.SESSION_LOST, False),
    ("L: and for the stream", Sent.LISTEN, 404, {}, {"session_id": "s"}, Next.SESSION_LOST, False),
    ("400 is not 404", Sent.REQUEST, 400, {}, {"session_id": "s"}, Next.REFUSED, False),
    ("L: ending a session", Sent.END, 200, {}, {"session_id": "s"}, Next.ACCEPTED, False),
    ("L: ending a session", Sent.END, 204, {}, {"session_id": "s"}, Next.ACCEPTED, False),
    ("L: servers may not allow it", Sent.END, 405, {}, {"session_id": "s"}, Next.ACCEPTED, False),
    ("an unknown session has ended", Sent.END, 404, {}, {"session_id": "s"}, Next.ACCEPTED, False),
    ("it may still fail", Sent.END, 500, {}, {"session_id": "s"}, Next.UNAVAILABLE, False),
    # The stream of the handshake era.
    ("L", Sent.LISTEN, 200, EVENTS, {}, Next.STREAM, False),
    ("L: 405 means no stream", Sent.LISTEN, 405, {}, {"session_id": "s"}, Next.NOT_SUPPORTED, False),
    ("404 without a session", Sent.LISTEN, 404, {}, {}, Next.NOT_SUPPORTED, False),
    ("an HTML page", Sent.LISTEN, 200, HTML, {}, Next.NOT_SUPPORTED, False),
    ("400 has a reason", Sent.LISTEN, 400, JSON, {"error_code": -32600}, Next.REFUSED, False),
    ("later", Sent.LISTEN, 429, {}, {}, Next.THROTTLED, False),
    ("later", Sent.LISTEN, 503, {}, {}, Next.UNAVAILABLE, False),
    # Detecting the era: the probe.
    ("M: 400 with a modern error", Sent.PROBE, 400, JSON, {"error_code": -32022}, Next.ERROR, False),
    ("M: 400 with a modern error", Sent.PROBE, 400, JSON, {"error_code": -32021}, Next.ERROR, False),
    ("M: 400 with a modern error", Sent.PROBE, 400, JSON, {"error_code": -32020}, Next.ERROR, False),
    ("even with 200", Sent.PROBE, 200, JSON, {"error_code": -32022}, Next.ERROR, False),
    ("M: 400 with another", Sent.PROBE, 400, JSON, {"error_code": -32600}, Next.TRY_INITIALIZE, False),
    ("M: 400 with nothing", Sent.PROBE, 400, {}, {}, Next.TRY_INITIALIZE, False),
    ("404 before ready", Sent.PROBE, 404, HTML, {}, Next.TRY_INITIALIZE, False),
    ("405 before ready", Sent.PROBE, 405, {}, {}, Next.TRY_INITIALIZE, False),
    ("any 4xx", Sent.PROBE, 406, {}, {}, Next.TRY_INITIALIZE, False),
    ("any 4xx", Sent.PROBE, 422, {}, {}, Next.TRY_INITIALIZE, False),
    (
        "an ordinary error of the handshake era",
        Sent.PROBE,
        200,
        JSON,
        {"error_code": -32601},
        Next.TRY_INITIALIZE,
        False,
    ),
    ("a server that fails on an unknown method", Sent.PROBE, 500, {}, {}, Next.TRY_INITIALIZE, False),
    (
        "a server that fails on an unknown method",
        Sent.PROBE,
        501,
        JSON,
        {"error_code": -32603},
        Next.TRY_INITIALIZE,
        False,
    ),
    ("busy: the era is unknown", Sent.PROBE, 503, JSON, {"error_code": -32603}, Next.UNAVAILABLE, False),
    ("busy: the era is unknown", Sent.PROBE, 502, {}, {}, Next.UNAVAILABLE, False),
    ("busy: the era is unknown", Sent.PROBE, 429, {}, {}, Next.THROTTLED, False),
    ("credentials: the era is unknown", Sent.PROBE, 401, {}, {}, Next.REFUSED, False),
    ("credentials: the era is unknown", Sent.PROBE, 403, JSON, {"error_code": -32600}, Next.REFUSED, False),
    ("proxy: the era is unknown", Sent.PROBE, 407, {}, {}, Next.REFUSED, False),
    ("an HTML page", Sent.PROBE, 200, HTML, {}, Next.UNEXPECTED, False),
    # Detecting the era: initialize.
    ("L: 400", Sent.INITIALIZE, 400, {}, {}, Next.TRY_LEGACY, False),
    ("L: 404", Sent.INITIALIZE, 404, HTML, {}, Next.TRY_LEGACY, False),
    ("L: 405", Sent.INITIALIZE, 405, {}, {}, Next.TRY_LEGACY, False),
    ("M: not a recognized modern error", Sent.INITIALIZE, 400, JSON, {"error_code": -32600}, Next.TRY_LEGACY, False),
    ("M: a recognized modern error", Sent.INITIALIZE, 400, JSON, {"error_code": -32022}, Next.ERROR, False),
    ("an error with 200", Sent.INITIALIZE, 200, JSON, {"error_code": -32602}, Next.ERROR, False),
    ("other refusals are final", Sent.INITIALIZE, 415, {}, {}, Next.REFUSED, False),
    ("later", Sent.INITIALIZE, 500, {}, {}, Next.UNAVAILABLE, False),
    # The transport of 2024-11-05.
    ("L24", Sent.LEGACY_LISTEN, 200, EVENTS, {}, Next.STREAM, False),
    ("not 2024-11-05 either", Sent.LEGACY_LISTEN, 404, {}, {}, Next.NOT_SUPPORTED, False),
    ("not 2024-11-05 either", Sent.LEGACY_LISTEN, 200, HTML, {}, Next.NOT_SUPPORTED, False),
    ("later", Sent.LEGACY_LISTEN, 502, {}, {}, Next.UNAVAILABLE, False),
    ("a lost stream", Sent.LEGACY_POST, 404, {}, {}, Next.REFUSED, False),
    ("unknown", Sent.LEGACY_POST, 500, {}, {}, Next.UNAVAILABLE, True),
    # Authorization.
    ("401", Sent.REQUEST, 401, CHALLENGE, {"can_authorize": True}, Next.AUTHORIZE, False),
    ("401 without a challenge", Sent.REQUEST, 401, {}, {"can_authorize": True}, Next.AUTHORIZE, False),
    (
        "401 before the body",
        Sent.REQUEST,
        401,
        JSON,
        {"can_authorize": True, "error_code": -32001},
        Next.AUTHORIZE,
        False,
    ),
    ("403", Sent.REQUEST, 403, {}, {"can_authorize": True}, Next.AUTHORIZE, False),
    (
        "step-up",
        Sent.REQUEST,
        403,
        JSON | CHALLENGE,
        {"can_authorize": True, "error_code": -32001},
        Next.AUTHORIZE,
        False,
    ),
    (
        "M: 403 for a foreign Origin",
        Sent.REQUEST,
        403,
        JSON,
        {"can_authorize": True, "error_code": -32600},
        Next.ERROR,
        None,
    ),
    ("at most once", Sent.REQUEST, 401, CHALLENGE, {}, Next.REFUSED, False),
    ("at most once", Sent.REQUEST, 403, CHALLENGE, {}, Next.REFUSED, False),
    (
        "credentials: not a response of initialize",
        Sent.INITIALIZE,
        401,
        JSON,
        {"error_code": -32600},
        Next.REFUSED,
        False,
    ),
    ("authorized once, then the response", Sent.REQUEST, 401, JSON, {"error_code": -32001}, Next.ERROR, None),
    ("for the probe too", Sent.PROBE, 401, {}, {"can_authorize": True}, Next.AUTHORIZE, False),
    ("for initialize too", Sent.INITIALIZE, 401, {}, {"can_authorize": True}, Next.AUTHORIZE, False),
    ("for the stream too", Sent.LISTEN, 401, {}, {"can_authorize": True}, Next.AUTHORIZE, False),
    # Redirects.
    ("redirected", Sent.REQUEST, 301, {"location": "/x"}, {}, Next.REDIRECTED, False),
    ("redirected", Sent.PROBE, 307, {"location": "/x"}, {}, Next.REDIRECTED, False),
    ("redirected", Sent.INITIALIZE, 308, {"location": "/x"}, {}, Next.REDIRECTED, False),
    ("a login page", Sent.REQUEST, 302, {}, {}, Next.REDIRECTED, False),
    ("See Other", Sent.REQUEST, 303, {"location": "/x"}, {}, Next.REDIRECTED, True),
    ("no redirect", Sent.REQUEST, 304, {}, {}, Next.UNEXPECTED, True),
    ("no redirect", Sent.REQUEST, 300, {"location": "/x"}, {}, Next.UNEXPECTED, True),
    # Not a response of an MCP server.
    ("1xx", Sent.REQUEST, 101, {}, {}, Next.UNEXPECTED, True),
    ("600", Sent.REQUEST, 600, JSON, {}, Next.UNEXPECTED, True),
    ("not a status", Sent.REQUEST, 12345, JSON, {}, Next.UNEXPECTED, True),
    ("not a status", Sent.REQUEST, -1, {}, {}, Next.UNEXPECTED, True),
]


def test_classify_response(subtests: pytest.Subtests):
    for reason, sent, status, headers, keywords, expected, may_have_run in ROWS:
        with subtests.test(reason=reason, sent=sent):
            found = classify_response(sent, status, headers, **keywords)
            assert (found.next, found.may_have_run) == (expected, may_have_run)
            assert found.status == status
            assert found.session_id == keywords.get("session_id")  # docs/guarantees.md G4: the session of a late 404
            assert found.location == (headers.get("location") if expected is Next.REDIRECTED else None)


def test_the_rows_reach_every_rule():
    reached = set()
    for _, sent, status, headers, keywords, _, _ in ROWS:
        conditions = {
            Fact.JSON: "json" in headers.get("content-type", "").lower(),
            Fact.EVENTS: "event-stream" in headers.get("content-type", ""),
            Fact.ERROR: "error_code" in keywords,
            Fact.MODERN: keywords.get("error_code") in (-32020, -32021, -32022),
            Fact.UNKNOWN_METHOD: keywords.get("error_code") == -32601,
            Fact.SESSION: "session_id" in keywords,
            Fact.CHALLENGE: "www-authenticate" in headers,
            Fact.CAN_AUTHORIZE: "can_authorize" in keywords,
        }
        facts = {fact for fact, is_present in conditions.items() if is_present}
        for index, rule in enumerate(RULES):
            if sent in rule.sent and status in rule.statuses and rule.needs <= facts and not rule.lacks & facts:
                reached.add(index)
                break
    assert reached == set(range(len(RULES)))


def test_the_last_rule_matches_everything():
    last = RULES[-1]
    assert last.sent == set(Sent)
    assert last.statuses >= set(range(1000))
    assert not last.needs
    assert not last.lacks


# --- totality ---

ERRORS = (None, -32020, -32022, -32601, -32603)
TYPES = ({}, JSON, EVENTS, HTML)
ASSIGNED = {*http.HTTPStatus, 199, 299, 399, 499, 599}  # with one unassigned status of each class


@pytest.mark.no_cover  # the rows above cover the code, and tracing this takes five times as long
def test_every_status_has_a_consistent_verdict(subtests: pytest.Subtests):
    """Every assigned status with every content type, error body, session and authorizer; every other one alone."""
    for sent in Sent:
        with subtests.test(sent=sent):
            for status, headers, code, session, can_authorize in (
                *itertools.product(sorted(ASSIGNED), TYPES, ERRORS, (None, "s"), (False, True)),
                *((status, JSON, None, "s", True) for status in range(100, 600)),
            ):
                found = classify_response(
                    sent, status, headers, error_code=code, session_id=session, can_authorize=can_authorize
                )
                error = error_for(found)
                if found.next in (Next.RESPONSE, Next.STREAM, Next.ACCEPTED, Next.ERROR):
                    assert error is None
                else:
                    assert error is not None
                    assert error.may_have_run is bool(found.may_have_run)
                    assert str(error)
                # A request may have run unless it was certainly refused, and is then not resent automatically.
                if sent is Sent.REQUEST and code is None and status >= 500:
                    assert found.may_have_run is True
                if found.next in (
                    Next.AUTHORIZE,
                    Next.SESSION_LOST,
                    Next.TRY_INITIALIZE,
                    Next.TRY_LEGACY,
                    Next.THROTTLED,
                ):
                    assert found.may_have_run is False
                if sent in (Sent.LISTEN, Sent.END, Sent.PROBE, Sent.INITIALIZE, Sent.LEGACY_LISTEN):
                    assert found.may_have_run is False
                if found.next is Next.AUTHORIZE:
                    assert can_authorize
                if found.next is Next.SESSION_LOST:
                    assert session
                    assert status == 404


# --- errors ---

ERROR_ROWS = [
    # verdict, class, start of the message, permanent (None: no such field)
    (Verdict(Next.SESSION_LOST, 404, False), SessionLostError, "the server no longer knows this session", False),
    (
        Verdict(Next.THROTTLED, 429, False, retry_in=5.0),
        TransportError,
        "HTTP 429: too many requests; retry later (in 5 s)",
        False,
    ),
    (
        Verdict(Next.UNAVAILABLE, 503, True, retry_in=1.0),
        OutcomeUnknownError,
        "HTTP 503: the server or a proxy failed; it may have run",
        None,
    ),
    (Verdict(Next.UNAVAILABLE, 503, False), TransportError, "HTTP 503: the server or a proxy failed", False),
    (Verdict(Next.REFUSED, 413, False), TransportError, "HTTP 413: the message is too large for the server", True),
    (Verdict(Next.REFUSED, 401, False), TransportError, "HTTP 401: missing or invalid credentials", True),
    (Verdict(Next.REFUSED, 425, False), TransportError, "HTTP 425: refused", False),
    (Verdict(Next.REFUSED, 409, True), OutcomeUnknownError, "HTTP 409: refused", None),
    (Verdict(Next.AUTHORIZE, 401, False), TransportError, "HTTP 401: authorize, then send the request again", True),
    (Verdict(Next.TRY_LEGACY, 404, False), TransportError, "HTTP 404: not Streamable HTTP either", False),
    (Verdict(Next.NOT_SUPPORTED, 405, False), TransportError, "HTTP 405: the server has no such stream", False),
    (
        Verdict(Next.REDIRECTED, 302, False, location="https://é/\n"),
        TransportError,
        "HTTP 302: redirected to 'https://\\xe9/\\n', which is not followed; use the final URL",
        True,
    ),
    (
        Verdict(Next.REDIRECTED, 302, False),
        TransportError,
        "HTTP 302: redirected; followed only on the same origin",
        True,
    ),
    (
        Verdict(Next.REDIRECTED, 303, True, location="/x"),
        OutcomeUnknownError,
        "HTTP 303: redirected to '/x', which is not followed; use the final URL",
        None,
    ),
    (
        Verdict(Next.UNEXPECTED, 200, True, content_type="text/html"),
        ProtocolError,
        "HTTP 200: not a response of an MCP server ('text/html')",
        None,
    ),
]


def test_the_error_of_a_verdict(subtests: pytest.Subtests):
    for verdict, error_type, message, permanent in ERROR_ROWS:
        with subtests.test(verdict=verdict, error_type=error_type):
            error = error_for(verdict)
            assert type(error) is error_type
            assert str(error).startswith(message)
            assert error.may_have_run is verdict.may_have_run
            assert error.retry_in == verdict.retry_in
            assert getattr(error, "permanent", None) is permanent


def test_no_error_if_the_body_determines_the_result(subtests: pytest.Subtests):
    for next in [Next.RESPONSE, Next.STREAM, Next.ACCEPTED, Next.ERROR]:
        with subtests.test(next=next):
            assert error_for(Verdict(next, 200, True)) is None


# --- Retry-After ---

NOW = 784_111_777.0  # Sun, 06 Nov 1994 08:49:37 GMT, the example of RFC 9110, section 5.6.7

RETRY_AFTER = [
    ("0", 0.0),
    ("120", 120.0),
    (" 5 ", 5.0),
    ("0005", 5.0),
    ("86401", MAX_RETRY_AFTER),
    ("9" * 5000, MAX_RETRY_AFTER),
    ("Sun, 06 Nov 1994 08:49:37 GMT", 0.0),
    ("Sun, 06 Nov 1994 08:50:37 GMT", 60.0),
    ("Sunday, 06-Nov-94 08:50:37 GMT", 60.0),
    ("Sun Nov  6 08:50:37 1994", 60.0),
    ("Thu Nov 10 08:49:37 1994", MAX_RETRY_AFTER),
    ("sun, 06 nov 1994 08:50:37 gmt", 60.0),
    ("Sat, 05 Nov 1994 08:49:37 GMT", 0.0),  # in the past
    ("Saturday, 06-Nov-45 08:49:37 GMT", 0.0),  # more than 50 years in the future: 1945
    ("Sunday, 06-Nov-44 08:49:37 GMT", MAX_RETRY_AFTER),  # exactly 50 years in the future: 2044
    ("Sun, 06 Nov 1994 08:49:60 GMT", 22.0),  # a leap second
    ("", None),
    ("-1", None),
    ("1.5", None),
    ("soon", None),
    ("\u0661", None),
    ("Sun, 32 Nov 1994 08:49:37 GMT", None),
    ("Sun, 06 Foo 1994 08:49:37 GMT", None),
    ("Sun, 06 Nov 0000 08:49:37 GMT", None),
    ("Sun, 06 Nov 1994 24:49:37 GMT", None),
    ("Sun, 06 Nov 1994 08:49:61 GMT", None),
    ("Sun, 06 Nov 1994 08:49:37 CET", None),
    ("Sun, 06 Nov 1994 08:49:37 GMT, 5", None),
]


def test_retry_after(subtests: pytest.Subtests):
    for value, seconds in RETRY_AFTER:
        with subtests.test(value=value, seconds=seconds):
            assert parse_retry_after(value, NOW) == seconds
            found = classify_response(Sent.REQUEST, 503, {"retry-after": value}, now=NOW)
            assert found.retry_in == seconds


def test_a_retry_after_date_needs_the_time():
    assert classify_response(Sent.REQUEST, 429, {"retry-after": "7"}).retry_in == 7.0
    assert classify_response(Sent.REQUEST, 429, {"retry-after": "Sun, 06 Nov 1994 08:49:37 GMT"}).retry_in is None
    assert classify_response(Sent.REQUEST, 429, {}).retry_in is None


@given(st.text(max_size=40), st.floats(0, 4e9))
def test_retry_after_is_bounded(value, now):
    seconds = parse_retry_after(value, now)
    assert seconds is None or 0 <= seconds <= MAX_RETRY_AFTER
