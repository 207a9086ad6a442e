"""What an HTTP response means to a client: the next step, and whether the call may have run.

`classify_response` decides by the first matching row of `RULES`, from what was sent, the status, a few headers and the
JSON-RPC error in the body. See 2026-07-28 basic/transports/streamable-http and basic/versioning; 2025-11-25
basic/transports; RFC 9110.
"""

import re
from collections.abc import Mapping, Set
from datetime import UTC, datetime
from enum import Enum
from functools import lru_cache
from typing import Final

import msgspec

from jackstay.errors import McpError, OutcomeUnknownError, ProtocolError, SessionLostError, TransportError
from jackstay.protocol.client._negotiation import STATELESS_ERROR_CODES
from jackstay.protocol.wire._jsonrpc import ErrorCode


class Sent(Enum):
    """The request that the response belongs to."""

    PROBE = "`server/discover`, to detect the era"
    INITIALIZE = "`initialize`"
    REQUEST = "any other request"
    NOTIFICATION = "a notification or a response"
    LISTEN = "GET, to open or resume a stream"
    END = "DELETE, to end the session"
    LEGACY_LISTEN = "GET, to detect a 2024-11-05 server"
    LEGACY_POST = "a message to a 2024-11-05 server, which responds on its stream"


class Next(Enum):
    """The next step of the driver. The values are part of error messages."""

    RESPONSE = "the body is the JSON response"
    STREAM = "the body is an event stream"
    ACCEPTED = "accepted, without a body"
    ERROR = "the body is a JSON-RPC error response"
    SESSION_LOST = "open a new session, then send the request again"
    TRY_INITIALIZE = "not a server of the stateless era: send `initialize`"
    TRY_LEGACY = "not Streamable HTTP either: try the transport of 2024-11-05"
    AUTHORIZE = "authorize, then send the request again, once"
    THROTTLED = "too many requests; retry later"
    UNAVAILABLE = "the server or a proxy failed"
    REDIRECTED = "redirected; followed only on the same origin, to protect credentials"
    NOT_SUPPORTED = "the server has no such stream"
    REFUSED = "refused"
    UNEXPECTED = "not a response of an MCP server"


class Fact(Enum):
    """A condition of a rule, other than the status."""

    JSON = "the content type is application/json"
    EVENTS = "the content type is text/event-stream"
    ERROR = "the body is a JSON-RPC error"
    MODERN = "its code is one that only the stateless era has"
    UNKNOWN_METHOD = "its code is -32601"
    SESSION = "the request had a session id"
    CHALLENGE = "there is a WWW-Authenticate header"
    CAN_AUTHORIZE = "there is an authorizer, and it was not used for this request yet"


class Rule(msgspec.Struct, frozen=True):
    """One row: it matches if all of `needs` and none of `lacks` are true. `may_have_run` as in `McpError`."""

    sent: Set[Sent]
    statuses: Set[int]
    next: Next
    may_have_run: bool | None
    needs: Set[Fact] = frozenset()
    lacks: Set[Fact] = frozenset()


_ALL = frozenset(Sent)
_CALLS = frozenset({Sent.PROBE, Sent.INITIALIZE, Sent.REQUEST})
_POSTS = _CALLS | {Sent.NOTIFICATION, Sent.LEGACY_POST}
_USER_MESSAGES = _POSTS - {Sent.PROBE, Sent.INITIALIZE}
_GETS = frozenset({Sent.LISTEN, Sent.LEGACY_LISTEN})

_STATUSES = frozenset(range(1000))
_OK = frozenset(range(200, 300))
_CLIENT_ERRORS = frozenset(range(400, 500))
_SERVER_ERRORS = frozenset(range(500, 600))
# A server without the method may fail instead of returning an error. The specification falls back on 4xx only; the
# probe has no effects, so another attempt costs a round trip and reaches servers that would otherwise be unreachable.
_CANNOT_PROBE = _CLIENT_ERRORS | {500, 501}
# Refused before anything was dispatched: the request is invalid, or must be repeated elsewhere or later. Not included:
# 408, 409, 410 and others that a proxy or an application may send after it has started.
_NOT_RUN = frozenset((400, 401, 403, 404, 405, 406, 407, 411, 413, 414, 415, 417, 421, 425, 426, 428, 429, 431, 451))
_REDIRECTS = frozenset((301, 302, 307, 308))


RULES: Final = (
    # The usual case. A JSON body is the response only if it is not an error; see the rows below for those.
    Rule(_CALLS, _OK, Next.RESPONSE, True, {Fact.JSON}, {Fact.ERROR}),
    Rule(_CALLS, _OK, Next.STREAM, True, {Fact.EVENTS}),
    Rule({Sent.NOTIFICATION, Sent.LEGACY_POST}, _OK, Next.ACCEPTED, True, lacks={Fact.ERROR}),
    Rule(_GETS, _OK, Next.STREAM, False, {Fact.EVENTS}),
    # Authorization comes before the body: it is a layer below MCP, and servers send JSON-RPC errors with a 401. A 403
    # with such an error and without a challenge has another reason (for instance the Origin).
    Rule(_ALL, {401}, Next.AUTHORIZE, False, {Fact.CAN_AUTHORIZE}),
    Rule(_ALL, {403}, Next.AUTHORIZE, False, {Fact.CAN_AUTHORIZE, Fact.CHALLENGE}),
    Rule(_ALL, {403}, Next.AUTHORIZE, False, {Fact.CAN_AUTHORIZE}, {Fact.ERROR}),
    # Then the session: servers send a JSON-RPC error of any code with this 404 as well, and the client MUST start over
    # (2025-11-25 "Session Management"). The exception is -32601, which some servers send with 404 in both eras:
    # starting over would lead to the same 404.
    Rule({Sent.END}, {404, 405}, Next.ACCEPTED, False),
    Rule({Sent.REQUEST, Sent.NOTIFICATION, Sent.LISTEN}, {404}, Next.SESSION_LOST, False, {Fact.SESSION},
         {Fact.UNKNOWN_METHOD}),
    # Detecting the era (2026-07-28 "Backward Compatibility"): a modern error means a modern server, any other client
    # error an older one. A server that is busy or down could be of either era.
    Rule({Sent.PROBE, Sent.INITIALIZE}, _STATUSES, Next.ERROR, None, {Fact.MODERN}),
    # Credentials are a layer below MCP: an error object in the body does not make such a response one of `initialize`.
    Rule({Sent.PROBE, Sent.INITIALIZE}, {401, 403, 407}, Next.REFUSED, False),
    Rule({Sent.PROBE}, {429}, Next.THROTTLED, False),
    Rule({Sent.PROBE}, _CANNOT_PROBE, Next.TRY_INITIALIZE, False),
    Rule({Sent.PROBE}, _OK, Next.TRY_INITIALIZE, False, {Fact.ERROR}),
    Rule({Sent.INITIALIZE}, {400, 404, 405}, Next.TRY_LEGACY, False),
    # A JSON-RPC error is the response, whatever the status. GET and DELETE have no id that it could belong to.
    Rule(_POSTS - {Sent.PROBE}, _STATUSES, Next.ERROR, None, {Fact.ERROR}),
    # The rest is plain HTTP.
    Rule(_ALL, _REDIRECTS, Next.REDIRECTED, False),
    Rule(_ALL, {303}, Next.REDIRECTED, True),  # "See Other": the request was processed
    Rule(_ALL, {429}, Next.THROTTLED, False),
    Rule(_ALL, _SERVER_ERRORS, Next.UNAVAILABLE, True),
    Rule({Sent.LISTEN}, {404, 405} | _OK, Next.NOT_SUPPORTED, False),
    Rule({Sent.LEGACY_LISTEN}, _CLIENT_ERRORS | _OK, Next.NOT_SUPPORTED, False),
    Rule({Sent.END}, _OK, Next.ACCEPTED, False),
    Rule(_ALL, _NOT_RUN, Next.REFUSED, False),
    Rule(_ALL, _CLIENT_ERRORS, Next.REFUSED, True),
    Rule(_ALL, _STATUSES, Next.UNEXPECTED, True),
)  # fmt: skip


class Verdict(msgspec.Struct, frozen=True):
    """The meaning of a response. `may_have_run`: True, False, or None if the JSON-RPC response determines it.

    `session_id` is that of the request: a late 404 for an old session must not end the new one (docs/guarantees.md G4).
    `retry_in` is in seconds. `location` is the unresolved target of a redirect (`resolve_url`).
    """

    next: Next
    status: int
    may_have_run: bool | None
    retry_in: float | None = None
    session_id: str | None = None
    location: str | None = None
    content_type: str = ""


def classify_response(
    sent: Sent,
    status: int,
    headers: Mapping[str, str],
    *,
    error_code: int | None = None,
    session_id: str | None = None,
    can_authorize: bool = False,
    now: float | None = None,
) -> Verdict:
    """Classify a response. `headers` have lower-case names (`fold_headers`).

    `error_code` is the code of the JSON-RPC error in the body, or None. `can_authorize` is False if there is no
    authorizer or it was already used for this request. `now` is Unix time, for a `Retry-After` date; without it such
    dates are ignored.
    """
    content_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    facts = {
        Fact.JSON: content_type == "application/json",
        Fact.EVENTS: content_type == "text/event-stream",
        Fact.ERROR: error_code is not None,
        Fact.MODERN: error_code in STATELESS_ERROR_CODES,
        Fact.UNKNOWN_METHOD: error_code == ErrorCode.METHOD_NOT_FOUND,
        Fact.SESSION: session_id is not None,
        Fact.CHALLENGE: "www-authenticate" in headers,
        Fact.CAN_AUTHORIZE: can_authorize,
    }
    present = {fact for fact, is_present in facts.items() if is_present}
    rule = next(row for row in _candidates(sent, status) if row.needs <= present and not row.lacks & present)
    # A handshake, a GET or a DELETE runs nothing for the user.
    may_have_run = rule.may_have_run if sent in _USER_MESSAGES else False
    retry_after = headers.get("retry-after")
    return Verdict(
        rule.next,
        status,
        may_have_run,
        retry_in=None if retry_after is None else parse_retry_after(retry_after, now),
        session_id=session_id,
        location=headers.get("location") if rule.next is Next.REDIRECTED else None,
        content_type=content_type,
    )


@lru_cache(maxsize=256)  # a client receives few different ones
def _candidates(sent: Sent, status: int) -> tuple[Rule, ...]:
    """Return the rows for a status. The last row is always included, even for an invalid status."""
    return tuple(row for row in RULES if row is RULES[-1] or (sent in row.sent and status in row.statuses))


# --- errors ---

_NO_ERROR = frozenset((Next.RESPONSE, Next.STREAM, Next.ACCEPTED, Next.ERROR))


def error_for(verdict: Verdict) -> McpError | None:
    """Return the error of a call that is not retried; None if the body determines the result.

    Verdicts that lead to another attempt (authorization, another era) have an error too, for when none is left.
    """
    if verdict.next in _NO_ERROR:
        return None
    if verdict.next is Next.SESSION_LOST:
        return SessionLostError()
    reason = verdict.next.value
    if verdict.next is Next.REFUSED:
        reason = _REASONS.get(verdict.status, reason)
    if verdict.location is not None:
        reason = f"redirected to {verdict.location[:200]!a}, which is not followed; use the final URL"
    message = f"HTTP {verdict.status}: {reason}"
    if verdict.next is Next.UNEXPECTED:
        return ProtocolError(f"{message} ({verdict.content_type[:80]!a})", sent=verdict.may_have_run is not False)
    if verdict.may_have_run is not False:
        return OutcomeUnknownError(message, retry_in=verdict.retry_in, details={"status": verdict.status})
    is_transient = verdict.next in _TRANSIENT or verdict.status in _TRANSIENT_STATUSES
    return TransportError(
        message, permanent=not is_transient, retry_in=verdict.retry_in, details={"status": verdict.status}
    )


# The reason of a refusal, for statuses that have a specific one.
_REASONS: Final = {
    401: "missing or invalid credentials",
    403: "not permitted for these credentials",
    407: "the proxy requires credentials",
    413: "the message is too large for the server",
}

# A retry may succeed. Not for refusals and redirects: the same request gets the same response.
_TRANSIENT = frozenset((Next.THROTTLED, Next.UNAVAILABLE, Next.TRY_INITIALIZE, Next.TRY_LEGACY, Next.NOT_SUPPORTED))
_TRANSIENT_STATUSES = frozenset((408, 421, 425))


# --- Retry-After ---

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_TIME = r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
# RFC 9110, section 5.6.7: the current format and the two obsolete ones that a recipient must accept. Compiled (and
# cached by `re`) only when a server sends a date, which few do.
_DATES = (
    rf"[a-z]{{3}}, (?P<day>\d\d) (?P<month>[a-z]{{3}}) (?P<year>\d{{4}}) {_TIME} GMT",
    rf"[a-z]{{6,9}}, (?P<day>\d\d)-(?P<month>[a-z]{{3}})-(?P<year>\d\d) {_TIME} GMT",
    rf"[a-z]{{3}} (?P<month>[a-z]{{3}}) (?P<day>[ \d]\d) {_TIME} (?P<year>\d{{4}})",
)

# A longer delay than a day means that the server is down.
MAX_RETRY_AFTER: Final = 86_400.0


def parse_retry_after(value: str, now: float | None) -> float | None:
    """Return the seconds of a `Retry-After` header, a number or a date (RFC 9110, section 10.2.3); None if invalid.

    `now` is Unix time. A date in the past is 0; the result is at most MAX_RETRY_AFTER.
    """
    value = value.strip()
    if value.isascii() and value.isdigit():
        return MAX_RETRY_AFTER if len(value) > 9 else min(float(value), MAX_RETRY_AFTER)
    if now is None:
        return None
    for form in _DATES:
        found = re.fullmatch(form, value, re.ASCII | re.IGNORECASE)
        if found is not None:
            moment = _timestamp(found, now)
            return None if moment is None else min(max(moment - now, 0.0), MAX_RETRY_AFTER)
    return None


def _timestamp(found: re.Match[str], now: float) -> float | None:
    month = found["month"].lower()
    year = int(found["year"])
    if month not in _MONTHS:
        return None
    if len(found["year"]) == 2:
        # RFC 9110, section 5.6.7: a two-digit year more than 50 years in the future is in the past.
        this_year = 1970 + int(now // 31_556_952)
        year = this_year + 50 - (this_year + 50 - year) % 100
    # datetime does not support the leap second :60; use the second before.
    second = 59 if found["second"] == "60" else int(found["second"])
    day, hour, minute = (int(found[name]) for name in ("day", "hour", "minute"))
    try:
        moment = datetime(year, _MONTHS.index(month) + 1, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None
    return moment.timestamp()
