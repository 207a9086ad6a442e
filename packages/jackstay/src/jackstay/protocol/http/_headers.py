"""MCP's HTTP headers: the encoding of values, what headers repeat of a message, and the headers that a client sends.

From 2026-07-28 on headers repeat the method, the name and annotated arguments of a request, so that routers need not
read bodies. A request whose headers contradict its body is refused. Header mappings have lower-case names
(`fold_headers`). See 2026-07-28 basic/transports/streamable-http, "Request Metadata"; RFC 9110 section 5.
"""

import binascii
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

import msgspec

from jackstay.errors import Json, ProtocolError, UsageError
from jackstay.protocol._methods import METHODS
from jackstay.protocol._versions import Revision
from jackstay.protocol.wire._jsonrpc import ErrorCode

# Names as they are sent. Received names are lower-cased: they are case-insensitive (RFC 9110, section 5.1).
VERSION_HEADER = "MCP-Protocol-Version"
METHOD_HEADER = "Mcp-Method"
NAME_HEADER = "Mcp-Name"
PARAM_PREFIX = "Mcp-Param-"
SESSION_HEADER = "Mcp-Session-Id"
LAST_EVENT_HEADER = "Last-Event-ID"

_METHOD = METHOD_HEADER.lower()

# Header lines to send, in order.
HeaderPairs: TypeAlias = tuple[tuple[str, str], ...]

# The member of `params` that `Mcp-Name` repeats. The tasks extension has no rows of its own in METHODS: it shares names
# with the experimental tasks of 2025-11-25, which have other messages and no such headers (SEP-2663).
NAME_SOURCES = {row.name: row.header_name for row in METHODS.values() if row.header_name} | {
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}

# Headers with a single value. Repeated lines are joined by a line feed, which no legal value contains, so every check
# below rejects them. Joined by a comma they could form another legal value, and a router that reads the first line
# would see a different value than we do.
_SINGLE = frozenset(
    ("host", "origin", "content-type", "content-length", "content-encoding", "authorization", "last-event-id")
)

_LEGAL_VALUE = re.compile(r"[\t\x20-\x7e]*", re.ASCII)
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VISIBLE = re.compile(r"[\x21-\x7e]+")
_INTEGER = re.compile(r"-?0*[0-9]{1,16}(?:\.0*)?", re.ASCII)
_BASE64_PREFIX, _BASE64_SUFFIX = "=?base64?", "?="
_ENCODED = re.compile(r"=\?base64\?(.*)\?=", re.DOTALL)

# The largest integer that JavaScript represents exactly (Number.MAX_SAFE_INTEGER).
MAX_INTEGER = 2**53 - 1

# How much of a value or a JSON pointer an error quotes.
_MAX_QUOTE = 80
_MAX_POINTER = 400


def fold_headers(pairs: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return header lines as a mapping of lower-case names to stripped values (RFC 9110, section 5.5).

    Repeated lines are joined by a comma (RFC 9110, section 5.3), except those of headers with a single value.
    """
    folded: dict[str, str] = {}
    for raw_name, raw_value in pairs:
        name = _USUAL_NAMES.get(raw_name) or raw_name.decode("latin-1").lower()
        value = raw_value.decode("latin-1").strip(" \t")
        if name in folded:
            is_single = name in _SINGLE or name.startswith("mcp-")
            value = folded[name] + ("\n" if is_single else ", ") + value
        folded[name] = value
    return folded


# Common names as HTTP servers provide them. A lookup is faster than decoding each of them.
_USUAL_NAMES = {
    name.encode(): name
    for name in (
        *_SINGLE,
        *(header.lower() for header in (VERSION_HEADER, METHOD_HEADER, NAME_HEADER, SESSION_HEADER)),
        *("accept", "accept-encoding", "accept-language", "connection", "user-agent", "transfer-encoding"),
    )
}


def is_session_id(value: str) -> bool:
    """Return True for a valid `Mcp-Session-Id`: one or more characters 0x21 to 0x7E (2025-11-25 basic/transports)."""
    return _VISIBLE.fullmatch(value) is not None


def mirrored_name(method: str, params: Mapping[str, Json] | None) -> str | None:
    """Return the value of `Mcp-Name` for a request, or None if it has none."""
    source = NAME_SOURCES.get(method)
    name = None if source is None or params is None else params.get(source)
    return name if isinstance(name, str) else None


# --- values ---


def encode_header_value(value: str) -> str:
    """Encode any string as a header value, in base64 if necessary ("Value Encoding").

    Raises:
        UsageError: the string contains a lone surrogate.
    """
    is_plain = (
        _LEGAL_VALUE.fullmatch(value) is not None
        and value == value.strip(" \t")
        and not (value.startswith(_BASE64_PREFIX) and value.endswith(_BASE64_SUFFIX))
    )
    if is_plain:
        return value
    try:
        text = value.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"a header value must not contain a lone surrogate: {_quote(value)}") from error
    return _BASE64_PREFIX + binascii.b2a_base64(text, newline=False).decode("ascii") + _BASE64_SUFFIX


def decode_header_value(value: str, header: str = "") -> str:
    """Decode the value of `header`, which may be base64 between markers.

    A value with only one of the markers is literal, and so is `=?base64?=`, in which the markers overlap. Alphabet and
    padding are checked strictly: with a lenient decoder two values could differ for a router and be equal for us.

    Raises:
        ProtocolError: illegal characters, invalid base64, or base64 of bytes that are not UTF-8; code -32020.
    """
    if _LEGAL_VALUE.fullmatch(value) is None:
        raise _malformed(header, "contains illegal characters", value)
    value = value.strip(" \t")
    encoded = _ENCODED.fullmatch(value)
    if encoded is None:
        return value
    inner = encoded[1]
    try:
        decoded = binascii.a2b_base64(inner, strict_mode=True)
        # The unused bits of the last character must be zero, or one value would have several encodings.
        if binascii.b2a_base64(decoded, newline=False) != inner.encode():
            raise binascii.Error("stray bits")
        return decoded.decode()
    except binascii.Error as error:
        raise _malformed(header, "is not valid base64", value) from error
    except UnicodeDecodeError as error:
        raise _malformed(header, "is not base64 of UTF-8", value) from error


def _malformed(header: str, problem: str, value: str) -> ProtocolError:
    return ProtocolError(f"the value {problem}", path=header, quote=value[:_MAX_QUOTE], code=ErrorCode.HEADER_MISMATCH)


# --- annotations of a tool's schema (x-mcp-header) ---


class ParamHeader(msgspec.Struct, frozen=True):
    """One argument that is also sent in a header: its `path` through `properties`, and its type."""

    path: tuple[str, ...]
    name: str
    type: str

    @property
    def header(self) -> str:
        """The full name of the header."""
        return PARAM_PREFIX + self.name


class ParamHeaders(msgspec.Struct, frozen=True):
    """The annotations of one input schema. A tool with `problems` must be omitted from lists and not be called."""

    rows: tuple[ParamHeader, ...] = ()
    problems: tuple[str, ...] = ()


_ANNOTATION = "x-mcp-header"
_TYPES = ("string", "integer", "boolean")

# The keywords of JSON Schema (2020-12 and older drafts) that contain schemas. The rest is data: a `default` or an
# `enum` may contain the key without being an annotation.
_SCHEMAS_BY_NAME = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies")
_SCHEMAS_IN_PLACE = (
    *("items", "prefixItems", "additionalItems", "unevaluatedItems", "contains", "contentSchema"),
    *("additionalProperties", "unevaluatedProperties", "propertyNames"),
    *("allOf", "anyOf", "oneOf", "not", "if", "then", "else"),
)

# One problem invalidates a tool; a few more help its author. A schema from a peer may have thousands.
_MAX_PROBLEMS = 10

# A position in the schema: its parent, the keyword, and the name or index after it. It is formatted only for errors:
# pointers to all children of a schema with long names would fill the memory.
_Position: TypeAlias = "tuple[_Position, str, str] | None"


def read_param_headers(schema: Json) -> ParamHeaders:
    """Return the arguments of a tool that are sent in headers, or why the tool is invalid ("Schema Extension").

    An annotation must be reachable through `properties` alone. Anywhere else (inside an array, a composition, a
    condition or a definition) it makes the tool invalid. Each problem contains a JSON pointer.
    """
    rows: list[ParamHeader] = []
    problems: list[str] = []
    used: dict[str, _Position] = {}
    for position, is_reachable, annotation, found in _annotations(schema):
        problem = ""
        if not is_reachable:
            problem = "is not reachable through `properties` alone"
        elif not isinstance(annotation, str) or _TOKEN.fullmatch(annotation) is None:
            problem = f"must be a header name (RFC 9110 token), not {_quote(annotation)}"
        elif not isinstance(found, str) or found not in _TYPES:
            problem = f"is for string, integer or boolean, not for type {_quote(found)}"
        elif annotation.lower() in used:
            problem = f"{_quote(annotation)} is already used at {_pointer(used[annotation.lower()])}"
        else:
            used[annotation.lower()] = position
            rows.append(ParamHeader(tuple(name for _, name in _steps(position)), annotation, found))
            continue
        problems.append(f"{_pointer(position)}: {_ANNOTATION} {problem}")
        if len(problems) == _MAX_PROBLEMS:
            break
    return ParamHeaders(tuple(rows), tuple(problems))


def _annotations(schema: Json) -> Iterator[tuple[_Position, bool, Json, Json]]:
    """Yield every annotation: its position, whether `properties` alone lead there, its value, the `type` beside it.

    Iterative, because a schema from a peer may be nested too deeply for recursion.
    """
    stack: list[tuple[_Position, bool, Json]] = [(None, True, schema)]
    while stack:
        position, is_reachable, here = stack.pop()
        if not isinstance(here, dict):
            continue
        if _ANNOTATION in here:
            yield position, is_reachable, here[_ANNOTATION], here.get("type")
        inner: list[tuple[_Position, bool, Json]] = []
        for keyword in _SCHEMAS_BY_NAME:
            children = here.get(keyword)
            if isinstance(children, dict):
                is_property = is_reachable and keyword == "properties"
                inner += (((position, keyword, name), is_property, child) for name, child in children.items())
        for keyword in _SCHEMAS_IN_PLACE:
            child = here.get(keyword)
            if isinstance(child, list):
                inner += (((position, keyword, str(index)), False, item) for index, item in enumerate(child))
            elif isinstance(child, dict):
                inner.append(((position, keyword, ""), False, child))
        stack += reversed(inner)


def _steps(position: _Position) -> list[tuple[str, str]]:
    """Return the keywords and the names after them, from the root of the schema."""
    steps: list[tuple[str, str]] = []
    while position is not None:
        position, keyword, name = position
        steps.append((keyword, name))
    return steps[::-1]


def _pointer(position: _Position) -> str:
    """Return a JSON pointer (RFC 6901) of bounded length."""
    pointer = "#"
    for keyword, name in _steps(position):
        escaped = ascii(name[:_MAX_QUOTE])[1:-1].replace("~", "~0").replace("/", "~1")
        pointer += f"/{keyword}/{escaped}" if name or keyword == "properties" else f"/{keyword}"
    return pointer if len(pointer) <= _MAX_POINTER else "#..." + pointer[-_MAX_POINTER:]


def build_param_headers(rows: Iterable[ParamHeader], arguments: Mapping[str, Json] | None) -> HeaderPairs:
    """Return the `Mcp-Param-*` headers of a call. An argument that is absent or null has none.

    Raises:
        UsageError: an argument does not have the type of its header. Nothing was sent: the server would have to refuse
            the request, and its error would not name the argument.
    """
    pairs: list[tuple[str, str]] = []
    for row in rows:
        value = _value_at(arguments, row.path)
        if value is None:
            continue
        text = _to_header_text(row.type, value)
        if text is None:
            raise UsageError(
                f"the argument must be {_TYPE_RULES[row.type]} to be sent in {row.header}, not {_quote(value)}",
                path=".".join(row.path),
            )
        pairs.append((row.header, encode_header_value(text)))
    return tuple(pairs)


_TYPE_RULES = {
    "string": "a string",
    "integer": f"an integer between -{MAX_INTEGER} and {MAX_INTEGER}",
    "boolean": "true or false",
}


def _to_header_text(kind: str, value: object) -> str | None:
    """Return the header text of a value ("Value Encoding"), or None if it does not have that type."""
    if kind == "string":
        return value if isinstance(value, str) else None
    if kind == "boolean":
        return None if not isinstance(value, bool) else "true" if value else "false"
    number = _as_integer(value)
    return None if number is None else str(number)


def _as_integer(value: object) -> int | None:
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # JSON Schema: 42.0 is an integer
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > MAX_INTEGER:
        return None
    return value


def _value_at(arguments: Mapping[str, Json] | None, path: tuple[str, ...]) -> object:
    here: object = arguments
    for name in path:
        if not isinstance(here, Mapping):
            return None
        here = here.get(name)
    return here


# --- comparing headers with the body ---


class HeaderMismatch(msgspec.Struct, frozen=True):
    """A header that is missing, malformed, or different from the body. Its error code is -32020."""

    header: str
    reason: str

    @property
    def message(self) -> str:
        """The message of the JSON-RPC error."""
        return f"Header mismatch: {self.header} {self.reason}"


def check_method_headers(
    headers: Mapping[str, str], method: str, name: Json = None, *, is_request: bool = True
) -> HeaderMismatch | None:
    """Compare `Mcp-Method` and `Mcp-Name` with the body; `name` is the member that NAME_SOURCES names, None if absent.

    A notification may omit them ("header requirements for notification POSTs are not defined"), but headers that are
    present must match. A body without the member is not a mismatch unless the header is present: its params are
    invalid, which -32602 reports better.
    """
    found = headers.get(_METHOD)
    if found is None:
        if is_request:
            return HeaderMismatch(METHOD_HEADER, "is missing")
    # The method is never encoded: "Server Validation" allows that only for names and arguments.
    elif found != method and found.strip(" \t") != method:
        return _mismatch(METHOD_HEADER, found, method)
    if method not in NAME_SOURCES:
        return None
    return _compare(headers, NAME_HEADER, "string", name, is_required=is_request and isinstance(name, str))


def check_param_headers(
    rows: Iterable[ParamHeader], headers: Mapping[str, str], arguments: Mapping[str, Json] | None
) -> HeaderMismatch | None:
    """Compare the `Mcp-Param-*` headers of a call with its arguments; return None if all of them match.

    Stricter than the specification in one point: a header without an argument is refused and not only unexpected,
    because a router may have acted on it.
    """
    for row in rows:
        value = _value_at(arguments, row.path)
        mismatch = _compare(headers, row.header, row.type, value, is_required=value is not None)
        if mismatch is not None:
            return mismatch
    return None


def _compare(
    headers: Mapping[str, str], header: str, kind: str, value: object, *, is_required: bool
) -> HeaderMismatch | None:
    """Compare a header with the value in the body; it may be absent unless `is_required`."""
    found = headers.get(header.lower())
    if found is None:
        return HeaderMismatch(header, f"is missing; the body value is {_quote(value)}") if is_required else None
    try:
        decoded = decode_header_value(found, header)
    except ProtocolError as error:
        return HeaderMismatch(header, f"header: {error.message}: {_quote(error.quote)}")
    return None if _matches(kind, decoded, value) else _mismatch(header, decoded, value)


def _matches(kind: str, text: str, value: object) -> bool:
    """Return True if the header matches the body: integers by value (`42.0` is 42), other types exactly."""
    if kind != "integer":
        return text == _to_header_text(kind, value)
    number = _as_integer(value)
    return number is not None and _INTEGER.fullmatch(text) is not None and int(text.partition(".")[0]) == number


def _mismatch(header: str, value: str, body: object) -> HeaderMismatch:
    if body is None:
        return HeaderMismatch(header, f"header value {_quote(value)} has no counterpart in the body")
    return HeaderMismatch(header, f"header value {_quote(value)} does not match body value {_quote(body)}")


def _quote(value: object) -> str:
    """Format a value of a peer for an error message or a log: ASCII, and short."""
    if isinstance(value, Mapping | list | tuple):
        return "an array" if not isinstance(value, Mapping) else "an object"
    if isinstance(value, int) and abs(value) > 10**20:
        return "an integer out of range"  # Python refuses to format more than 4,300 digits
    shown = ascii(value[:_MAX_QUOTE] if isinstance(value, str) else value)
    return shown if len(shown) <= _MAX_QUOTE else shown[: _MAX_QUOTE - 3] + "..."


# --- the headers of a client's requests, in every revision ---

_POST: Final[HeaderPairs] = (
    ("Content-Type", "application/json"),
    ("Accept", "application/json, text/event-stream"),  # both, always: the server chooses
)
_STREAM: Final[HeaderPairs] = (("Accept", "text/event-stream"),)

# nginx and Apache reject header lines above 8 KiB by default; half of that leaves the rest to proxies. A stream with a
# longer id cannot be resumed, which is better detected before the request.
MAX_EVENT_ID_BYTES: Final = 4096

_UNSENDABLE = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]|^[ \t]|[ \t]$")


def post_headers(
    revision: Revision | None,
    method: str,
    *,
    name: str | None = None,
    session_id: str | None = None,
    params: HeaderPairs = (),
) -> HeaderPairs:
    """Return the headers of a POST with `method`; with an empty `method`, those of a POST with a response.

    `revision` is the negotiated one, or None for `initialize` (2025-06-18 requires the version header on every later
    request; 2025-03-26 has none). `name` is the member that NAME_SOURCES names; `params` come from
    `build_param_headers`. A session id is always echoed, whatever the revision.

    Raises:
        UsageError: the method is not visible ASCII; `Mcp-Method` has no encoding for other characters.
    """
    pairs = [*_POST, *_common(revision, session_id)]
    if revision is not None and revision.has_method_headers and method:
        if _VISIBLE.fullmatch(method) is None:
            raise UsageError(f"method must be visible ASCII to be sent over HTTP, not {method[:80]!a}", path="method")
        pairs.append((METHOD_HEADER, method))
        if name is not None and method in NAME_SOURCES:
            pairs.append((NAME_HEADER, encode_header_value(name)))
        pairs += params
    return tuple(pairs)


def listen_headers(revision: Revision | None, *, session_id: str | None = None, last_event_id: str = "") -> HeaderPairs:
    """Return the headers of the GET that opens or resumes a stream (handshake era); `revision` None is 2024-11-05.

    Values are Latin-1 strings, as HTTP libraries and ASGI expect. An event id is sent as UTF-8 (WHATWG HTML, "The
    `Last-Event-ID` header").

    Raises:
        ProtocolError: a header cannot contain the id, so the stream cannot be resumed.
    """
    pairs = [*_STREAM, *_common(revision, session_id)]
    if last_event_id:
        # A lone surrogate becomes "?", which the comparison below detects.
        encoded = last_event_id.encode("utf-8", "replace")
        is_sendable = len(encoded) <= MAX_EVENT_ID_BYTES and _UNSENDABLE.search(encoded) is None
        if not is_sendable or encoded.decode() != last_event_id:
            raise ProtocolError("the last event id cannot be sent in a header", quote=last_event_id[:64])
        pairs.append((LAST_EVENT_HEADER, encoded.decode("latin-1")))
    return tuple(pairs)


def delete_headers(revision: Revision, session_id: str) -> HeaderPairs:
    """Return the headers of the DELETE that ends a session."""
    return _common(revision, session_id)


def _common(revision: Revision | None, session_id: str | None) -> HeaderPairs:
    pairs: list[tuple[str, str]] = []
    if revision is not None and revision.has_version_header:
        pairs.append((VERSION_HEADER, revision.name))
    if session_id is not None:
        pairs.append((SESSION_HEADER, session_id))
    return tuple(pairs)


def new_session_id(headers: Mapping[str, str]) -> str | None:
    """Return the session id in the response to `initialize`, or None if the server has no sessions.

    Raises:
        ProtocolError: the id is not visible ASCII (2025-11-25 basic/transports, "Session Management").
    """
    value = headers.get(SESSION_HEADER.lower())
    if value is None or is_session_id(value):
        return value
    raise ProtocolError(f"{SESSION_HEADER} must be visible ASCII characters", path=SESSION_HEADER, quote=value[:64])
