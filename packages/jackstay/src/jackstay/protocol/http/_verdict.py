"""What an HTTP response means to a client: what happens next and, before everything else, whether the call may have run.

A response is judged once, by `judge`, from what was sent, the status, a few headers and whether the body is a JSON-RPC
error; a driver that retries never has to guess. The rules are rows, tried in order; the first that fits decides, and
the last fits everything. Where two rules of the specification collide, the order of the rows is the decision, and a
comment says why.

Sources: 2026-07-28 basic/transports/streamable-http and basic/versioning; 2025-11-25 basic/transports; docs/design/connection.md,
section 2, "Over HTTP"; RFC 9110.

Must never know a socket, a library, a clock (`now` is an argument) or a state machine. Above: the HTTP transports.
Below: `_jsonrpc` and `_negotiation`, for codes.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import Enum
from functools import lru_cache
from typing import Final

import msgspec

from jackstay.errors import McpError, OutcomeUnknownError, ProtocolError, SessionLostError, TransportError
from jackstay.protocol.client._negotiation import MODERN_CODES
from jackstay.protocol.wire._jsonrpc import ErrorCode


class Sent(Enum):
    """What the response answers."""

    PROBE = "`server/discover`, to learn the era"
    INITIALIZE = "`initialize`"
    REQUEST = "any other request"
    NOTICE = "a notification or a response"
    LISTEN = "GET, to open or resume a stream"
    END = "DELETE, to end the session"
    LEGACY_LISTEN = "GET, in the hope of a 2024-11-05 server"
    LEGACY_POST = "a message to a 2024-11-05 server, which answers on its stream"


class Next(Enum):
    """What the response means for the driver."""

    ANSWER = "the body is the answer, one JSON value"
    STREAM = "the body is a stream of events"
    ACCEPTED = "taken; there is nothing to read"
    ERROR = "the body is a JSON-RPC error, and that is the answer"
    SESSION_LOST = "open a new session, then send it again"
    TRY_INITIALIZE = "not a server of the stateless era: send `initialize`"
    TRY_LEGACY = "not Streamable HTTP either: try the transport of 2024-11-05"
    AUTHORIZE = "ask the authorizer, then send it again, once"
    THROTTLED = "too many requests: try later"
    UNAVAILABLE = "the server or a proxy failed"
    REDIRECTED = "somewhere else: followed on the same origin alone, because credentials would go along"
    NOT_OFFERED = "the server has no such stream"
    REFUSED = "refused"
    UNEXPECTED = "no server of MCP answers like this"


class Fact(Enum):
    """What a row can ask of a response beside its status."""

    JSON = "the content type is application/json"
    EVENTS = "the content type is text/event-stream"
    ERROR = "the body is a JSON-RPC error"
    MODERN = "its code is one that only the stateless era has"
    UNKNOWN_METHOD = "its code is -32601"
    SESSION = "the request carried a session id"
    CHALLENGE = "there is a WWW-Authenticate header"
    CAN_AUTHORIZE = "there is an authorizer, and it was not asked about that yet"


class Rule(msgspec.Struct, frozen=True):
    """One row: it fits where all of `needs` and none of `lacks` hold. `may_have_run` as in `McpError`."""

    sent: frozenset[Sent]
    statuses: frozenset[int]
    next: Next
    may_have_run: bool | None
    needs: frozenset[Fact] = frozenset()
    lacks: frozenset[Fact] = frozenset()


_ALL = frozenset(Sent)
_CALLS = frozenset({Sent.PROBE, Sent.INITIALIZE, Sent.REQUEST})
_POSTS = _CALLS | {Sent.NOTICE, Sent.LEGACY_POST}
_USERS = _POSTS - {Sent.PROBE, Sent.INITIALIZE}
_GETS = frozenset({Sent.LISTEN, Sent.LEGACY_LISTEN})

_STATUSES = frozenset(range(1000))
_OK = frozenset(range(200, 300))
_CLIENT_ERRORS = frozenset(range(400, 500))
_SERVER_ERRORS = frozenset(range(500, 600))
# A server that has no such method may fail instead of saying so. The specification falls back on 4xx only; the probe
# has no effects, so one more try costs a round trip and saves a server that could otherwise never be reached.
_CANNOT_PROBE = _CLIENT_ERRORS | {500, 501}
# Refused before anything was dispatched: the request itself was at fault, or is to be repeated elsewhere or later.
# Not here: 408, 409, 410 and the like, which a proxy or an application may say when it has begun.
_NOT_RUN = frozenset(
    (400, 401, 403, 404, 405, 406, 407, 411, 413, 414, 415, 417, 421, 425, 426, 428, 429, 431, 451)
)
_REDIRECTS = frozenset((301, 302, 307, 308))


def _rule(
    sent: frozenset[Sent] | Sent,
    statuses: frozenset[int] | int,
    next: Next,
    may_have_run: bool | None,
    *facts: Fact,
    lacks: Fact | None = None,
) -> Rule:
    return Rule(
        sent if isinstance(sent, frozenset) else frozenset((sent,)),
        statuses if isinstance(statuses, frozenset) else frozenset((statuses,)),
        next,
        may_have_run,
        frozenset(facts),
        frozenset() if lacks is None else frozenset((lacks,)),
    )


RULES: Final = (
    # The usual. A JSON body is the answer only where it is not an error: rows below judge those by what was sent.
    _rule(_CALLS, _OK, Next.ANSWER, True, Fact.JSON, lacks=Fact.ERROR),
    _rule(_CALLS, _OK, Next.STREAM, True, Fact.EVENTS),
    _rule(frozenset({Sent.NOTICE, Sent.LEGACY_POST}), _OK, Next.ACCEPTED, True, lacks=Fact.ERROR),
    _rule(_GETS, _OK, Next.STREAM, False, Fact.EVENTS),
    # Authorization comes before everything that the body says: it is a layer below MCP, and servers put JSON-RPC errors
    # into their 401. A 403 with such an error and no challenge is about something else (a foreign Origin).
    _rule(_ALL, 401, Next.AUTHORIZE, False, Fact.CAN_AUTHORIZE),
    _rule(_ALL, 403, Next.AUTHORIZE, False, Fact.CAN_AUTHORIZE, Fact.CHALLENGE),
    _rule(_ALL, 403, Next.AUTHORIZE, False, Fact.CAN_AUTHORIZE, lacks=Fact.ERROR),
    # Then the session: servers put a JSON-RPC error of any code into this 404 as well, and the client MUST start over
    # (2025-11-25 "Session Management"). Except for -32601, which is about a method, from servers that answer 404 for
    # it in both eras: starting over would end in the same 404.
    _rule(Sent.END, frozenset((404, 405)), Next.ACCEPTED, False),
    _rule(frozenset({Sent.REQUEST, Sent.NOTICE, Sent.LISTEN}), 404, Next.SESSION_LOST, False, Fact.SESSION,
          lacks=Fact.UNKNOWN_METHOD),
    # Choosing the era (2026-07-28 "Backward Compatibility"): a modern error means a modern server, anything else of the
    # client's fault an older one. A server that is only busy or down has said nothing about its era.
    _rule(frozenset({Sent.PROBE, Sent.INITIALIZE}), _STATUSES, Next.ERROR, None, Fact.MODERN),
    _rule(Sent.PROBE, frozenset((401, 403, 407)), Next.REFUSED, False),
    _rule(Sent.PROBE, 429, Next.THROTTLED, False),
    _rule(Sent.PROBE, _CANNOT_PROBE, Next.TRY_INITIALIZE, False),
    _rule(Sent.PROBE, _OK, Next.TRY_INITIALIZE, False, Fact.ERROR),
    _rule(Sent.INITIALIZE, frozenset((400, 404, 405)), Next.TRY_LEGACY, False),
    # A JSON-RPC error is the answer, whatever the status (docs/design/connection.md). GET and DELETE have no id that it could be for.
    _rule(_POSTS - {Sent.PROBE}, _STATUSES, Next.ERROR, None, Fact.ERROR),
    # What is left is HTTP's own.
    _rule(_ALL, _REDIRECTS, Next.REDIRECTED, False),
    _rule(_ALL, 303, Next.REDIRECTED, True),  # "see other": it was done, and the result is over there
    _rule(_ALL, 429, Next.THROTTLED, False),
    _rule(_ALL, _SERVER_ERRORS, Next.UNAVAILABLE, True),
    _rule(Sent.LISTEN, frozenset((404, 405)) | _OK, Next.NOT_OFFERED, False),
    _rule(Sent.LEGACY_LISTEN, _CLIENT_ERRORS | _OK, Next.NOT_OFFERED, False),
    _rule(Sent.END, _OK, Next.ACCEPTED, False),
    _rule(_ALL, _NOT_RUN, Next.REFUSED, False),
    _rule(_ALL, _CLIENT_ERRORS, Next.REFUSED, True),
    _rule(_ALL, _STATUSES, Next.UNEXPECTED, True),
)  # fmt: skip


class Verdict(msgspec.Struct, frozen=True):
    """What a response means. `may_have_run`: True, False, or None where the answer itself says.

    `session_id` is the one that the request carried: a late 404 for an old session must not end the new one (G4).
    `retry_in` is in seconds. `location` is where a redirect leads, as the server spelled it (`resolve_url`).
    `error_code` is kept where the verdict is to try something else: if that fails too, the error was the better answer.
    """

    next: Next
    status: int
    may_have_run: bool | None
    retry_in: float | None = None
    session_id: str | None = None
    location: str | None = None
    content_type: str = ""
    error_code: int | None = None


def judge(
    sent: Sent,
    status: int,
    headers: Mapping[str, str],
    *,
    error_code: int | None = None,
    session_id: str | None = None,
    can_authorize: bool = False,
    now: float | None = None,
) -> Verdict:
    """What a response means. `headers` have lower-case names (`fold_headers`).

    Read the body first where it is JSON and not an answer for sure: `error_code` is the code of the JSON-RPC error in
    it, or None. `can_authorize` is False once the authorizer was asked for this request, or where there is none. `now`
    is Unix time, for a `Retry-After` that is a date; without it a date is not understood.
    """
    content_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    facts = {
        Fact.JSON: content_type == "application/json",
        Fact.EVENTS: content_type == "text/event-stream",
        Fact.ERROR: error_code is not None,
        Fact.MODERN: error_code in MODERN_CODES,
        Fact.UNKNOWN_METHOD: error_code == ErrorCode.METHOD_NOT_FOUND,
        Fact.SESSION: session_id is not None,
        Fact.CHALLENGE: "www-authenticate" in headers,
        Fact.CAN_AUTHORIZE: can_authorize,
    }
    held = {fact for fact, holds in facts.items() if holds}
    rule = next(row for row in _candidates(sent, status) if row.needs <= held and not row.lacks & held)
    # The rest is our own: nothing of the user's can have run because of a handshake, a GET or a DELETE.
    may_have_run = rule.may_have_run if sent in _USERS else False
    retry_after = headers.get("retry-after")
    return Verdict(
        rule.next,
        status,
        may_have_run,
        retry_in=None if retry_after is None else parse_retry_after(retry_after, now),
        session_id=session_id,
        location=headers.get("location") if rule.next is Next.REDIRECTED else None,
        content_type=content_type,
        error_code=error_code,
    )


@lru_cache(maxsize=256)  # a client meets a handful
def _candidates(sent: Sent, status: int) -> tuple[Rule, ...]:
    """The rows that speak of that status; the last row is always among them, whatever a library calls a status."""
    found = tuple(row for row in RULES if sent in row.sent and status in row.statuses)
    return found if found and found[-1] is RULES[-1] else (*found, RULES[-1])


# ---- errors ----

_HAS_NO_ERROR = frozenset((Next.ANSWER, Next.STREAM, Next.ACCEPTED, Next.ERROR))


def error_for(verdict: Verdict) -> McpError | None:
    """The error that ends a call whose response was judged so and is not sent again; None where the body decides.

    The rows that ask for another try (authorizer, other era) have one too, for when there is none left to make.
    """
    if verdict.next in _HAS_NO_ERROR:
        return None
    if verdict.next is Next.SESSION_LOST:
        return SessionLostError()
    said = f"the server answered HTTP {verdict.status}: {verdict.next.value}"
    if verdict.next is Next.REFUSED and verdict.status in _WHY:
        said = f"{said}: {_WHY[verdict.status]}"
    if verdict.location is not None:
        said = f"the server answered HTTP {verdict.status}: moved to {verdict.location[:200]!a}"
    if verdict.next is Next.UNEXPECTED:
        return ProtocolError(
            f"{said} ({verdict.content_type[:80]!a})", sent=verdict.may_have_run is not False
        )
    if verdict.may_have_run is not False:
        return OutcomeUnknownError(said, retry_in=verdict.retry_in, details={"status": verdict.status})
    is_passing = verdict.next in _PASSES or verdict.status in _PASSING
    return TransportError(
        said, permanent=not is_passing, retry_in=verdict.retry_in, details={"status": verdict.status}
    )


# What a refusal is about, where the status says it.
_WHY: Final = {
    401: "it wants a key or token, or another one than it got",
    403: "it knows who asks, or need not, and does not allow it",
    407: "the proxy wants credentials",
    413: "the message is larger than it takes",
}

# Trying again may help. Not for what was refused or moved: the same request meets the same answer.
_PASSES = frozenset(
    (Next.THROTTLED, Next.UNAVAILABLE, Next.TRY_INITIALIZE, Next.TRY_LEGACY, Next.NOT_OFFERED)
)
_PASSING = frozenset((408, 421, 425))


# ---- Retry-After ----

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_TIME = r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
# RFC 9110, 5.6.7: the form to send, and the two obsolete ones that a recipient must still read. Not compiled until a
# server sends a date, which few do: `re` remembers.
_DATES = (
    rf"[a-z]{{3}}, (?P<day>\d\d) (?P<month>[a-z]{{3}}) (?P<year>\d{{4}}) {_TIME} GMT",
    rf"[a-z]{{6,9}}, (?P<day>\d\d)-(?P<month>[a-z]{{3}})-(?P<year>\d\d) {_TIME} GMT",
    rf"[a-z]{{3}} (?P<month>[a-z]{{3}}) (?P<day>[ \d]\d) {_TIME} (?P<year>\d{{4}})",
)

# A server that wants to be left alone for longer than a day is down, and then it is not for us to wait for it.
LONGEST_RETRY_AFTER: Final = 86_400.0


def parse_retry_after(value: str, now: float | None) -> float | None:
    """Seconds to wait, from a `Retry-After` of seconds or a date (RFC 9110, 10.2.3); None for what is neither.

    `now` is Unix time. A date that has passed is 0; nothing is more than LONGEST_RETRY_AFTER.
    """
    value = value.strip()
    if value.isascii() and value.isdigit():
        return LONGEST_RETRY_AFTER if len(value) > 9 else min(float(value), LONGEST_RETRY_AFTER)
    if now is None:
        return None
    for form in _DATES:
        found = re.fullmatch(form, value, re.ASCII | re.IGNORECASE)
        if found is not None:
            moment = _moment(found, now)
            return None if moment is None else min(max(moment - now, 0.0), LONGEST_RETRY_AFTER)
    return None


def _moment(found: re.Match[str], now: float) -> float | None:
    month = found["month"].lower()
    year = int(found["year"])
    if month not in _MONTHS:
        return None
    if len(found["year"]) == 2:
        # RFC 9110: two digits that would be more than fifty years ahead are of the past.
        this_year = 1970 + int(now // 31_556_952)
        year = this_year + 50 - (this_year + 50 - year) % 100
    # A leap second is written :60, which datetime does not know; the second before is near enough.
    second = 59 if found["second"] == "60" else int(found["second"])
    try:
        moment = datetime(
            year,
            _MONTHS.index(month) + 1,
            int(found["day"]),
            int(found["hour"]),
            int(found["minute"]),
            second,
            tzinfo=UTC,
        )
    except ValueError:
        return None
    return moment.timestamp()
