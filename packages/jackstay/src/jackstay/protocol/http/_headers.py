"""MCP's own HTTP headers: how text becomes a value and comes back, and the parts of a message that are said twice.

From 2026-07-28 on a request repeats in headers what its body says (its method, the name it is about, and arguments
that the tool's schema marks with `x-mcp-header`), so that a router need not read bodies. The body is what runs; a
header that says anything else is an attack or a bug, and the request is refused before dispatch. Both ends are here,
side by side: what the client writes is what the server compares with, and one test holds them together.

Sources: 2026-07-28 basic/transports/streamable-http, "Request Metadata"; RFC 9110 section 5 for names and values.

This file must never know a status, a session's state or a library's header object: headers are a mapping of
lower-case names to text (`fold_headers` makes one). Above: `_client`, `_server`. Below: `_methods`.
"""

import binascii
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

import msgspec

from jackstay.errors import Json, ProtocolError, UsageError
from jackstay.protocol._methods import METHODS
from jackstay.protocol.wire._jsonrpc import ErrorCode

# Names as they are sent. Received names are lower case: they are case-insensitive (RFC 9110, 5.1).
VERSION_HEADER = "MCP-Protocol-Version"
METHOD_HEADER = "Mcp-Method"
NAME_HEADER = "Mcp-Name"
PARAM_PREFIX = "Mcp-Param-"
SESSION_HEADER = "Mcp-Session-Id"
LAST_EVENT_HEADER = "Last-Event-ID"

_METHOD, _NAME = METHOD_HEADER.lower(), NAME_HEADER.lower()

# Header lines to send, in order.
HeaderPairs: TypeAlias = tuple[tuple[str, str], ...]

# The member of `params` that `Mcp-Name` repeats. The tasks extension has no rows of its own among the methods: it
# shares names with the experimental tasks of 2025-11-25, which is another wire without these headers (seps/2663).
NAME_SOURCES = {row.name: row.header_name for row in METHODS.values() if row.header_name} | {
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}

# Headers that have one value. Two lines of one of them are kept apart by a line end, which no legal value contains:
# every check below then refuses it by itself. Joined by a comma they could spell another legal value, and a router
# that reads the first line would see something else than we do.
_SINGLE = frozenset(
    ("host", "origin", "content-type", "content-length", "content-encoding", "authorization", "last-event-id")
)

_LEGAL_VALUE = re.compile(r"[\t\x20-\x7e]*", re.ASCII)
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_SESSION_ID = re.compile(r"[\x21-\x7e]+")
_INTEGER = re.compile(r"-?0*[0-9]{1,16}(?:\.0*)?", re.ASCII)
_MARK, _MARK_END = "=?base64?", "?="

# Beyond it a double cannot tell neighbours apart, and peers written in JavaScript have nothing else.
MAX_INTEGER = 2**53 - 1

# How much of a value an error shows.
_LONGEST_QUOTE = 80
_LONGEST_PLACE = 400


def fold_headers(pairs: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Header lines as a mapping: names in lower case, values without the whitespace around them (RFC 9110, 5.5).

    Repeated lines are one list, joined by a comma (RFC 9110, 5.3), except where a header has one value.
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


# What most requests have, as HTTP servers hand it over: looked up instead of decoded, for every line of every request.
_USUAL_NAMES = {
    name.encode(): name
    for name in (
        *_SINGLE,
        *(header.lower() for header in (VERSION_HEADER, METHOD_HEADER, NAME_HEADER, SESSION_HEADER)),
        *("accept", "accept-encoding", "accept-language", "connection", "user-agent", "transfer-encoding"),
    )
}


def is_session_id(value: str) -> bool:
    """True for what may stand in `Mcp-Session-Id`: one or more of 0x21 to 0x7E (2025-11-25 basic/transports)."""
    return _SESSION_ID.fullmatch(value) is not None


def mirrored_name(method: str, params: Mapping[str, Json] | None) -> str | None:
    """What `Mcp-Name` must say for such a request, or None where it has none."""
    source = NAME_SOURCES.get(method)
    name = None if source is None or params is None else params.get(source)
    return name if isinstance(name, str) else None


# ---- values ----


def encode_header_value(value: str) -> str:
    """The header value that says `value`, which may be any text ("Value Encoding").

    Raises:
        UsageError: a lone surrogate, which is not text.
    """
    is_plain = (
        _LEGAL_VALUE.fullmatch(value) is not None
        and value == value.strip(" \t")
        and not (value.startswith(_MARK) and value.endswith(_MARK_END))
    )
    if is_plain:
        return value
    try:
        text = value.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"a lone surrogate cannot be sent in a header: {_quote(value)}") from error
    return _MARK + binascii.b2a_base64(text, newline=False).decode("ascii") + _MARK_END


def decode_header_value(value: str, header: str = "") -> str:
    """What the value of `header` says, decoded where it has the base64 markers around it.

    A value with only one of the markers is what it is, and so is `=?base64?=`, which has no room for both. Alphabet
    and padding are checked, as the conformance suite demands: a lenient decoder would let two spellings differ for a
    router and be the same for us.

    Raises:
        ProtocolError: bad characters, bad base64, or base64 of something that is not UTF-8; code -32020.
    """
    if _LEGAL_VALUE.fullmatch(value) is None:
        raise _malformed(header, "contains characters that no header value may have", value)
    value = value.strip(" \t")
    if not (
        value.startswith(_MARK) and value.endswith(_MARK_END) and len(value) >= len(_MARK) + len(_MARK_END)
    ):
        return value
    inner = value[len(_MARK) : -len(_MARK_END)]
    try:
        decoded = binascii.a2b_base64(inner, strict_mode=True)
        # The bits of the last character that belong to no byte must be zero, or one value had several spellings.
        if binascii.b2a_base64(decoded, newline=False) != inner.encode():
            raise binascii.Error("stray bits")
        return decoded.decode()
    except binascii.Error as error:
        raise _malformed(header, "is marked as base64 but is not", value) from error
    except UnicodeDecodeError as error:
        raise _malformed(header, "is base64 of something that is not UTF-8", value) from error


def _malformed(header: str, what: str, value: str) -> ProtocolError:
    return ProtocolError(
        f"the value {what}", path=header, quote=value[:_LONGEST_QUOTE], code=ErrorCode.HEADER_MISMATCH
    )


# ---- what a tool's schema marks with x-mcp-header ----


class ParamHeader(msgspec.Struct, frozen=True):
    """One argument that travels in a header too: its `path` through `properties`, and the type it must have."""

    path: tuple[str, ...]
    name: str
    type: str

    @property
    def header(self) -> str:
        """The whole name of the header."""
        return PARAM_PREFIX + self.name


class ParamHeaders(msgspec.Struct, frozen=True):
    """The marks of one input schema. With any `problems` the tool must be dropped from the list, and not called."""

    rows: tuple[ParamHeader, ...] = ()
    problems: tuple[str, ...] = ()


_MARKED = "x-mcp-header"
_TYPES = ("string", "integer", "boolean")

# Where JSON Schema (2020-12, and what older drafts called the same) keeps schemas inside schemas, apart from
# `properties`. Everything else is data: a `default` or an `enum` may hold the word without meaning it.
_SCHEMAS_BY_NAME = ("patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies")
_SCHEMAS_IN_PLACE = (
    *("items", "prefixItems", "additionalItems", "unevaluatedItems", "contains", "contentSchema"),
    *("additionalProperties", "unevaluatedProperties", "propertyNames"),
    *("allOf", "anyOf", "oneOf", "not", "if", "then", "else"),
)

# One problem is enough to drop a tool; a few more help its author. The schema is the peer's, and may hold thousands.
_MOST_PROBLEMS = 10

# A place in the document: its parent, the keyword, and the name or number behind it. Spelled out only where there is
# something to say: a schema whose names are long and whose children are many would otherwise fill the memory.
_Place: TypeAlias = "tuple[_Place, str, str] | None"

_NOTHING_MARKED = ParamHeaders()


def read_param_headers(schema: Json) -> ParamHeaders:
    """Which arguments of a tool travel in headers, or why the tool is not valid ("Schema Extension").

    A mark counts where a chain of `properties` alone leads to it. Anywhere else (inside an array, a composition, a
    condition or a definition) it makes the tool invalid. Each problem names the place as a JSON pointer.
    """
    rows: list[ParamHeader] = []
    problems: list[str] = []
    taken: dict[str, _Place] = {}
    for place, is_reachable, mark, found in _marks(schema):
        problem = ""
        if not is_reachable:
            problem = "is not reachable through `properties` alone"
        elif not isinstance(mark, str) or _TOKEN.fullmatch(mark) is None:
            problem = f"must be a header name (RFC 9110 token), not {_quote(mark)}"
        elif not isinstance(found, str) or found not in _TYPES:
            problem = f"is for string, integer or boolean, not for type {_quote(found)}"
        elif mark.lower() in taken:
            problem = f"{_quote(mark)} is used already at {_spell_place(taken[mark.lower()])}"
        else:
            taken[mark.lower()] = place
            rows.append(ParamHeader(_path_to(place), mark, found))
            continue
        problems.append(f"{_spell_place(place)}: {_MARKED} {problem}")
        if len(problems) == _MOST_PROBLEMS:
            break
    if not rows and not problems:
        return _NOTHING_MARKED
    return ParamHeaders(tuple(rows), tuple(problems))


def _marks(schema: Json) -> Iterator[tuple[_Place, bool, Json, Json]]:
    """Every mark in the document: its place, whether `properties` alone lead there, the mark, the `type` beside it.

    A stack of our own, and not recursion: the schema is the peer's, and may be as deep as it likes.
    """
    stack: list[tuple[_Place, bool, Json]] = [(None, True, schema)]
    while stack:
        place, is_reachable, here = stack.pop()
        if not isinstance(here, dict):
            continue
        if _MARKED in here:
            yield place, is_reachable, here[_MARKED], here.get("type")
        inner: list[tuple[_Place, bool, Json]] = []
        properties = here.get("properties")
        if isinstance(properties, dict):
            inner += (
                ((place, "properties", name), is_reachable, child) for name, child in properties.items()
            )
        for keyword in _SCHEMAS_BY_NAME:
            children = here.get(keyword)
            if isinstance(children, dict):
                inner += (((place, keyword, name), False, child) for name, child in children.items())
        for keyword in _SCHEMAS_IN_PLACE:
            child = here.get(keyword)
            if isinstance(child, list):
                inner += (((place, keyword, str(index)), False, item) for index, item in enumerate(child))
            elif isinstance(child, dict):
                inner.append(((place, keyword, ""), False, child))
        stack += reversed(inner)


def _path_to(place: _Place) -> tuple[str, ...]:
    names: list[str] = []
    while place is not None:
        place, _, name = place
        names.append(name)
    return tuple(reversed(names))


def _spell_place(place: _Place) -> str:
    """A JSON pointer (RFC 6901) of bounded length."""
    steps: list[str] = []
    while place is not None:
        place, keyword, name = place
        name = ascii(name[:_LONGEST_QUOTE])[1:-1].replace("~", "~0").replace("/", "~1")
        steps.append(f"/{keyword}/{name}" if name or keyword == "properties" else f"/{keyword}")
    pointer = "#" + "".join(reversed(steps))
    return pointer if len(pointer) <= _LONGEST_PLACE else "#..." + pointer[-_LONGEST_PLACE:]


def build_param_headers(rows: Iterable[ParamHeader], arguments: Mapping[str, Json] | None) -> HeaderPairs:
    """The `Mcp-Param-*` headers of a call. An argument that is absent or null has none.

    Raises:
        UsageError: an argument that its type cannot say in a header. Nothing was sent: the server would have to
            refuse it for the header alone, and its answer would not name the argument.
    """
    pairs: list[tuple[str, str]] = []
    for row in rows:
        value = _value_at(arguments, row.path)
        if value is None:
            continue
        text = _spell(row.type, value)
        if text is None:
            raise UsageError(
                f"the argument must be {_WANTED[row.type]} to be sent in {row.header}, not {_quote(value)}",
                path=".".join(row.path),
            )
        pairs.append((row.header, encode_header_value(text)))
    return tuple(pairs)


_WANTED = {
    "string": "a string",
    "integer": f"an integer between -{MAX_INTEGER} and {MAX_INTEGER}",
    "boolean": "true or false",
}


def _spell(kind: str, value: object) -> str | None:
    """The value in the words of "Value Encoding", or None where it is not of that kind."""
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


# ---- comparing headers with the body ----


class HeaderMismatch(msgspec.Struct, frozen=True):
    """A header that is missing, malformed, or says something else than the body. Its code is -32020."""

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

    A notification may come without them ("header requirements for notification POSTs are not defined"), but what it
    does carry must be true. A body without the member it needs is not refused here unless a header claims one: its
    params are wrong, and -32602 will say so better.
    """
    found = headers.get(_METHOD)
    if found is None:
        if is_request:
            return HeaderMismatch(METHOD_HEADER, "is missing")
    elif (
        found != method and found.strip(" \t") != method
    ):  # never encoded: "Server Validation" lets only names and arguments be
        return _differs(METHOD_HEADER, found, method)
    if method not in NAME_SOURCES:
        return None
    found = headers.get(_NAME)
    if found is None:
        if is_request and isinstance(name, str):
            return HeaderMismatch(NAME_HEADER, f"is missing, and the body says {_quote(name)}")
        return None
    try:
        decoded = decode_header_value(found, NAME_HEADER)
    except ProtocolError as error:
        return _unreadable(NAME_HEADER, error)
    return None if decoded == name else _differs(NAME_HEADER, decoded, name)


def check_param_headers(
    rows: Iterable[ParamHeader], headers: Mapping[str, str], arguments: Mapping[str, Json] | None
) -> HeaderMismatch | None:
    """Compare the `Mcp-Param-*` headers of a call with its arguments; None where all of them agree.

    Stricter than the specification in one point: it says that a header is not expected where the argument is absent
    or null, and we refuse one that comes all the same. A router has acted on it, and nothing in the body bears it out.
    """
    for row in rows:
        value = _value_at(arguments, row.path)
        found = headers.get(row.header.lower())
        if found is None:
            if value is not None:
                return HeaderMismatch(row.header, f"is missing, and the body says {_quote(value)}")
            continue
        try:
            decoded = decode_header_value(found, row.header)
        except ProtocolError as error:
            return _unreadable(row.header, error)
        if not _says(row.type, decoded, value):
            return _differs(row.header, decoded, value)
    return None


def _says(kind: str, text: str, value: object) -> bool:
    """True where the header's text says the body's value; integers as numbers (`42.0` is 42), the rest to the letter."""
    if kind != "integer":
        return text == _spell(kind, value)
    number = _as_integer(value)
    return (
        number is not None and _INTEGER.fullmatch(text) is not None and int(text.partition(".")[0]) == number
    )


def _differs(header: str, said: str, body: object) -> HeaderMismatch:
    if body is None:
        return HeaderMismatch(header, f"header value {_quote(said)} has no counterpart in the body")
    return HeaderMismatch(header, f"header value {_quote(said)} does not match body value {_quote(body)}")


def _unreadable(header: str, error: ProtocolError) -> HeaderMismatch:
    return HeaderMismatch(header, f"header: {error.message}: {_quote(error.quote)}")


def _quote(value: object) -> str:
    """The value as a message may show it: ASCII, since it goes into logs too, and short, since it is the peer's."""
    if isinstance(value, Mapping | list | tuple):
        return "an array" if not isinstance(value, Mapping) else "an object"
    if isinstance(value, int) and abs(value) > 10**20:
        return "an integer out of range"  # and perhaps of more digits than Python likes to print
    shown = ascii(value[:_LONGEST_QUOTE] if isinstance(value, str) else value)
    return shown if len(shown) <= _LONGEST_QUOTE else shown[: _LONGEST_QUOTE - 3] + "..."
