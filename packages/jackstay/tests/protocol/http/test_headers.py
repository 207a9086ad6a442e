"""MCP's headers, both ends: the tables of the specification, the conformance suite's cases, and that the ends agree.

Sections are those of 2026-07-28 basic/transports/streamable-http. "conformance" names the scenario of the official
suite that tries the case.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackstay.errors import ProtocolError, UsageError
from jackstay.protocol.http._headers import (
    MAX_INTEGER,
    NAME_SOURCES,
    HeaderMismatch,
    ParamHeader,
    ParamHeaders,
    build_param_headers,
    check_method_headers,
    check_param_headers,
    decode_header_value,
    encode_header_value,
    fold_headers,
    is_session_id,
    mirrored_name,
    read_param_headers,
)

# ---- folding and ids ----

FOLDED = [
    ([], {}),
    ([(b"Mcp-Method", b" tools/list\t")], {"mcp-method": "tools/list"}),  # RFC 9110, 5.5; conformance http-header-validation
    ([(b"MCP-METHOD", b"x")], {"mcp-method": "x"}),  # RFC 9110, 5.1
    ([(b"Accept", b"a"), (b"accept", b"b")], {"accept": "a, b"}),  # RFC 9110, 5.3
    ([(b"X-Any", b"a"), (b"X-Any", b"b"), (b"X-Any", b"c")], {"x-any": "a, b, c"}),
    ([(b"Host", b"a"), (b"Host", b"b")], {"host": "a\nb"}),  # one value each: no legal value may come of two
    ([(b"Mcp-Name", b"a"), (b"Mcp-Name", b"b")], {"mcp-name": "a\nb"}),
    ([(b"Mcp-Param-X", b"a"), (b"mcp-param-x", b"a")], {"mcp-param-x": "a\na"}),
    ([(b"X", b"\xe9")], {"x": "\u00e9"}),
]  # fmt: skip


@pytest.mark.parametrize(("pairs", "folded"), FOLDED)
def test_header_lines_fold_into_a_mapping(pairs, folded):
    assert fold_headers(pairs) == folded


@pytest.mark.parametrize("code", range(256))
def test_session_ids_are_visible_ascii(code):
    """2025-11-25 basic/transports, "Session Management": 0x21 to 0x7E."""
    assert is_session_id("a" + chr(code) + "b") is (0x21 <= code <= 0x7E)


def test_an_empty_session_id_is_none():
    assert not is_session_id("")


# ---- "Value Encoding" ----

ENCODED = [
    # the table of the specification
    ("us-west1", "us-west1"),
    ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
    (" padded ", "=?base64?IHBhZGRlZCA=?="),
    ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
    ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
    # conformance http-custom-headers
    ("", ""),
    ("us west 1", "us west 1"),
    (" us-west1", "=?base64?IHVzLXdlc3Qx?="),
    ("us-west1 ", "=?base64?dXMtd2VzdDEg?="),
    ("line1\r\nline2", "=?base64?bGluZTENCmxpbmUy?="),
    ("\tindented", "=?base64?CWluZGVudGVk?="),
    # edges
    ("a\tb", "a\tb"),
    ("trailing\t", "=?base64?dHJhaWxpbmcJ?="),
    ("\x7f", "=?base64?fw==?="),
    ("\0", "=?base64?AA==?="),
    ("é", "=?base64?w6k=?="),
    ("\u00a0x", "=?base64?wqB4?="),
    ("!~", "!~"),
    ("=?base64?=", "=?base64?PT9iYXNlNjQ/PQ==?="),
    ("=?base64?", "=?base64?"),
    ("?=", "?="),
    ("=?BASE64?x?=", "=?BASE64?x?="),
    ("=?base64?x?= ", "=?base64?PT9iYXNlNjQ/eD89IA==?="),
]


@pytest.mark.parametrize(("text", "value"), ENCODED)
def test_text_is_encoded_like_this_and_comes_back(text, value):
    assert encode_header_value(text) == value
    assert decode_header_value(value) == text


DECODED = [
    ("  a b\t", "a b"),  # the whitespace around a value is not part of it
    ("=?base64?SGVsbG8=?=", "Hello"),  # conformance http-custom-header-server-validation, the next three too
    ("SGVsbG8=", "SGVsbG8="),
    ("=?base64?SGVsbG8=", "=?base64?SGVsbG8="),
    ("SGVsbG8=?=", "SGVsbG8=?="),
    ("=?base64??=", ""),
    ("=?base64?=", "=?base64?="),
    ("=?Base64?SGVsbG8=?=", "=?Base64?SGVsbG8=?="),  # "These markers are case-sensitive"
    (" =?base64?SGVsbG8=?= ", "Hello"),
]


@pytest.mark.parametrize(("value", "text"), DECODED)
def test_a_value_says_this(value, text):
    assert decode_header_value(value) == text


MALFORMED = [
    ("=?base64?SGVsbG8?=", "is marked as base64 but is not"),  # conformance: invalid padding
    ("=?base64?SGVs!!!bG8=?=", "is marked as base64 but is not"),  # conformance: invalid characters
    ("=?base64?SGVsbG8= ?=", "is marked as base64 but is not"),
    ("=?base64?SGVs bG8=?=", "is marked as base64 but is not"),
    ("=?base64?SGVsbG8==?=", "is marked as base64 but is not"),
    ("=?base64?SGVsbG8=SGVs?=", "is marked as base64 but is not"),
    ("=?base64?=?=", "is marked as base64 but is not"),
    ("=?base64?SGVs-_8=?=", "is marked as base64 but is not"),
    ("=?base64?/w==?=", "is base64 of something that is not UTF-8"),
    ("=?base64?7aCA?=", "is base64 of something that is not UTF-8"),  # a surrogate
    ("a\nb", "contains characters that no header value may have"),
    ("a\0", "contains characters that no header value may have"),
    ("\u00e9", "contains characters that no header value may have"),
    ("\x7f", "contains characters that no header value may have"),
]


@pytest.mark.parametrize(("value", "reason"), MALFORMED)
def test_a_malformed_value_is_refused_by_name(value, reason):
    with pytest.raises(ProtocolError) as caught:
        decode_header_value(value, "Mcp-Name")
    assert caught.value.message == f"the value {reason}"
    assert (caught.value.path, caught.value.quote, caught.value.code) == ("Mcp-Name", value, -32020)


@given(st.text())
def test_any_text_survives_a_header_and_is_legal_there(text):
    value = encode_header_value(text)
    assert all(char == "\t" or " " <= char <= "~" for char in value)
    assert value == value.strip(" \t")
    assert decode_header_value(value) == text
    assert fold_headers([(b"mcp-name", value.encode("latin-1"))])["mcp-name"] == value


def test_a_lone_surrogate_is_not_text():
    with pytest.raises(UsageError, match="lone surrogate"):
        encode_header_value("a\ud800")


# ---- "Schema Extension" ----


def schema(**properties: object) -> dict[str, object]:
    return {"type": "object", "properties": properties}


def marked(kind: object = "string", name: object = "Region") -> dict[str, object]:
    return {"type": kind, "x-mcp-header": name}


VALID = [
    (schema(), []),
    (schema(a={"type": "string"}), []),
    (schema(a=marked()), [(("a",), "Region", "string")]),
    (schema(a=marked("integer", "N"), b=marked("boolean", "B")), [(("a",), "N", "integer"), (("b",), "B", "boolean")]),
    (schema(a=schema(b=schema(c=marked()))), [(("a", "b", "c"), "Region", "string")]),
    ({"properties": {"a": {"properties": {"b": marked()}}}}, [(("a", "b"), "Region", "string")]),  # no `type` on the way
    (schema(a=marked(name="!#$%&'*+-.^_`|~09Az")), [(("a",), "!#$%&'*+-.^_`|~09Az", "string")]),
    (schema(a=marked(name="Method")), [(("a",), "Method", "string")]),  # Mcp-Param-Method, not Mcp-Method
    (schema(a={**marked(), "enum": ["x"], "description": "y", "$ref": "#/$defs/z"}), [(("a",), "Region", "string")]),
    (schema(**{"": marked()}), [(("",), "Region", "string")]),
    # The word in places that are data, or that are names of arguments.
    (schema(**{"x-mcp-header": {"type": "string"}}), []),
    (schema(a={"type": "object", "default": {"x-mcp-header": ""}, "const": {"x-mcp-header": 1}}), []),
    (schema(a={"enum": [{"x-mcp-header": 1}], "examples": [{"x-mcp-header": 1}]}), []),
    ({"description": {"x-mcp-header": 1}, "x-vendor": {"x-mcp-header": "A"}}, []),
    # What is no schema has no marks.
    (None, []), (True, []), ([], []), ("x-mcp-header", []),
    ({"properties": []}, []), ({"properties": {"a": True}}, []), ({"$defs": [], "allOf": {}, "items": True}, []),
]  # fmt: skip


@pytest.mark.parametrize(("document", "rows"), VALID)
def test_a_valid_schema_gives_its_rows(document, rows):
    assert read_param_headers(document) == ParamHeaders(tuple(ParamHeader(*row) for row in rows))


TOKEN = "must be a header name (RFC 9110 token), not"
PLACE = "is not reachable through `properties` alone"
KIND = "is for string, integer or boolean, not for type"

INVALID = [
    # conformance http-invalid-tool-headers, in its order
    (schema(value=marked(name="")), ["#/properties/value", f"{TOKEN} ''"]),
    (schema(data=marked("object")), ["#/properties/data", f"{KIND} 'object'"]),
    (schema(items={"type": "array", "items": {"type": "string"}, "x-mcp-header": "I"}), ["#/properties/items", f"{KIND} 'array'"]),
    (schema(nil=marked("null")), ["#/properties/nil", f"{KIND} 'null'"]),
    (schema(a=marked(), b=marked()), ["#/properties/b", "'Region' is used already at #/properties/a"]),
    (schema(a=marked(name="MyField"), b=marked(name="myfield")), ["#/properties/b", "'myfield' is used already at #/properties/a"]),
    (schema(value=marked(name="My Region")), ["#/properties/value", f"{TOKEN} 'My Region'"]),
    (schema(value=marked(name="Region:Primary")), ["#/properties/value", f"{TOKEN} 'Region:Primary'"]),
    (schema(value=marked(name="Région")), ["#/properties/value", f"{TOKEN} 'R\\xe9gion'"]),
    (schema(value=marked(name="Region\t1")), ["#/properties/value", f"{TOKEN} 'Region\\t1'"]),
    # the other constraints
    (schema(value=marked(name="A\r\nB: c")), ["#/properties/value", f"{TOKEN} 'A\\r\\nB: c'"]),
    (schema(value=marked("number")), ["#/properties/value", f"{KIND} 'number'"]),
    (schema(value=marked(["string", "null"])), ["#/properties/value", f"{KIND} an array"]),
    (schema(value={"x-mcp-header": "A"}), ["#/properties/value", f"{KIND} None"]),
    (schema(value=marked(name=1)), ["#/properties/value", f"{TOKEN} 1"]),
    (schema(value=marked(name=None)), ["#/properties/value", f"{TOKEN} None"]),
    (schema(value=marked(name={})), ["#/properties/value", f"{TOKEN} an object"]),
    (schema(value=marked(name=10**5000)), ["#/properties/value", f"{TOKEN} an integer out of range"]),
    (schema(value=marked(name="é" * 500)), ["#/properties/value", "..."]),
    ({**schema(), "x-mcp-header": "A"}, ["#: ", f"{KIND} 'object'"]),
    ({"properties": {"a/b~c": marked("null")}}, ["#/properties/a~1b~0c", KIND]),
    # "The chain MUST NOT pass through ..."
    *[
        ({"properties": {"a": {keyword: marked()}}}, [f"#/properties/a/{keyword}: ", PLACE])
        for keyword in (
            *("items", "additionalItems", "unevaluatedItems", "contains", "contentSchema", "not", "if", "then", "else"),
            *("additionalProperties", "unevaluatedProperties", "propertyNames"),
        )
    ],
    *[
        ({"properties": {"a": {keyword: [{}, marked()]}}}, [f"#/properties/a/{keyword}/1: ", PLACE])
        for keyword in ("allOf", "anyOf", "oneOf", "prefixItems", "items")
    ],
    *[
        ({keyword: {"x": marked()}}, [f"#/{keyword}/x: ", PLACE])
        for keyword in ("$defs", "definitions", "patternProperties", "dependentSchemas", "dependencies")
    ],
    # Once astray, `properties` do not lead back.
    ({"anyOf": [schema(a=marked())]}, ["#/anyOf/0/properties/a: ", PLACE]),
    (schema(a={"$ref": "#/$defs/b"}) | {"$defs": {"b": schema(c=marked())}}, ["#/$defs/b/properties/c: ", PLACE]),
]  # fmt: skip


@pytest.mark.parametrize(("document", "said"), INVALID)
def test_an_invalid_schema_says_where_and_why(document, said):
    found = read_param_headers(document)
    assert len(found.problems) == 1
    assert all(part in found.problems[0] for part in said), found.problems
    assert found.problems[0].isascii()


def test_valid_marks_beside_a_problem_are_still_listed():
    found = read_param_headers(schema(a=marked(), b=marked("number", "B"), c=marked("integer", "C")))
    assert [row.name for row in found.rows] == ["Region", "C"]
    assert len(found.problems) == 1


def test_problems_and_their_length_are_bounded():
    nested: object = marked("null")
    for _ in range(3000):
        nested = {"properties": {"é" * 1000: nested}}
    found = read_param_headers(nested)
    assert len(found.problems[0]) < 600
    many = read_param_headers(schema(**{f"p{index}": marked("null") for index in range(1000)}))
    assert len(many.problems) == 10


def test_a_schema_nested_without_end_is_walked_without_recursion():
    nested: object = marked()
    for _ in range(20_000):
        nested = {"properties": {"a": nested}}
    assert len(read_param_headers(nested).rows[0].path) == 20_000


def test_a_row_names_its_whole_header():
    assert ParamHeader(("a",), "Region", "string").header == "Mcp-Param-Region"


# ---- "Client Behavior" ----

ROWS = (
    ParamHeader(("text",), "Text", "string"),
    ParamHeader(("count",), "Count", "integer"),
    ParamHeader(("flag",), "Flag", "boolean"),
    ParamHeader(("deep", "er"), "Deep", "string"),
)

BUILT = [
    (None, ()),
    ({}, ()),
    ({"other": "x"}, ()),
    ({"text": None, "count": None, "flag": None, "deep": {"er": None}}, ()),  # null: no header
    ({"deep": None}, ()), ({"deep": "x"}, ()), ({"deep": ["er"]}, ()), ({"deep": {}}, ()),
    ({"text": "us-west1"}, (("Mcp-Param-Text", "us-west1"),)),
    ({"text": ""}, (("Mcp-Param-Text", ""),)),
    ({"text": "é"}, (("Mcp-Param-Text", "=?base64?w6k=?="),)),
    ({"count": 42}, (("Mcp-Param-Count", "42"),)),
    ({"count": -7}, (("Mcp-Param-Count", "-7"),)),
    ({"count": 42.0}, (("Mcp-Param-Count", "42"),)),
    ({"count": MAX_INTEGER}, (("Mcp-Param-Count", "9007199254740991"),)),
    ({"flag": True}, (("Mcp-Param-Flag", "true"),)),
    ({"flag": False}, (("Mcp-Param-Flag", "false"),)),
    ({"deep": {"er": "x", "other": 1}}, (("Mcp-Param-Deep", "x"),)),
    ({"flag": True, "text": "a"}, (("Mcp-Param-Text", "a"), ("Mcp-Param-Flag", "true"))),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "pairs"), BUILT)
def test_arguments_become_these_headers_and_the_server_agrees(arguments, pairs):
    assert build_param_headers(ROWS, arguments) == pairs
    headers = fold_headers((name.encode(), value.encode("latin-1")) for name, value in pairs)
    assert check_param_headers(ROWS, headers, arguments) is None


UNSENDABLE = [
    ({"text": 5}, "text", "a string to be sent in Mcp-Param-Text, not 5"),
    ({"text": ["a"]}, "text", "not an array"),
    ({"count": "5"}, "count", "an integer between -9007199254740991 and 9007199254740991"),
    ({"count": 1.5}, "count", "not 1.5"),
    ({"count": True}, "count", "not True"),
    ({"count": MAX_INTEGER + 1}, "count", "not 9007199254740992"),
    ({"count": -MAX_INTEGER - 1}, "count", "not -9007199254740992"),
    ({"count": 10**5000}, "count", "an integer out of range"),
    ({"count": float("inf")}, "count", "not inf"),
    ({"flag": 1}, "flag", "true or false"),
    ({"deep": {"er": {}}}, "deep.er", "not an object"),
]


@pytest.mark.parametrize(("arguments", "path", "said"), UNSENDABLE)
def test_an_argument_that_no_header_can_say_is_not_sent(arguments, path, said):
    with pytest.raises(UsageError) as caught:
        build_param_headers(ROWS, arguments)
    assert caught.value.path == path
    assert said in caught.value.message


# ---- "Server Validation" ----

PARAM_CHECKS = [
    # headers, arguments, what is wrong (None: nothing)
    ({}, {}, None),
    ({}, {"text": None}, None),  # "Server MUST NOT expect the header"
    ({}, {"text": "a"}, "Mcp-Param-Text is missing, and the body says 'a'"),
    ({}, {"text": ""}, "Mcp-Param-Text is missing, and the body says ''"),
    ({"mcp-param-text": "a"}, {"text": "a"}, None),
    ({"mcp-param-text": " a "}, {"text": "a"}, None),
    ({"mcp-param-text": "A"}, {"text": "a"}, "Mcp-Param-Text header value 'A' does not match body value 'a'"),
    ({"mcp-param-text": "=?base64?YQ==?="}, {"text": "a"}, None),  # encoded without need: still the same
    ({"mcp-param-text": "=?base64?YQ?="}, {"text": "a"},
     "Mcp-Param-Text header: the value is marked as base64 but is not: '=?base64?YQ?='"),
    ({"mcp-param-text": "a\na"}, {"text": "a"},
     "Mcp-Param-Text header: the value contains characters that no header value may have: 'a\\na'"),
    ({"mcp-param-text": "a"}, {}, "Mcp-Param-Text header value 'a' has no counterpart in the body"),
    ({"mcp-param-text": "a"}, None, "Mcp-Param-Text header value 'a' has no counterpart in the body"),
    ({"mcp-param-text": "5"}, {"text": 5}, "Mcp-Param-Text header value '5' does not match body value 5"),
    ({"mcp-param-other": "a"}, {}, None),  # "otherwise ignore it"
    # "servers SHOULD compare the header value and the body value numerically"
    ({"mcp-param-count": "42"}, {"count": 42}, None),
    ({"mcp-param-count": "42.0"}, {"count": 42}, None),
    ({"mcp-param-count": "42"}, {"count": 42.0}, None),
    ({"mcp-param-count": "042."}, {"count": 42}, None),
    ({"mcp-param-count": "-0"}, {"count": 0}, None),
    ({"mcp-param-count": "=?base64?NDI=?="}, {"count": 42}, None),
    ({"mcp-param-count": "43"}, {"count": 42}, "Mcp-Param-Count header value '43' does not match body value 42"),
    ({"mcp-param-count": "42.5"}, {"count": 42}, "does not match"),
    ({"mcp-param-count": "+42"}, {"count": 42}, "does not match"),
    ({"mcp-param-count": "4 2"}, {"count": 42}, "does not match"),
    ({"mcp-param-count": "=?base64?2aE=?="}, {"count": 1}, "does not match"),  # a digit, but not of ASCII
    ({"mcp-param-count": ""}, {"count": 0}, "does not match"),
    ({"mcp-param-count": "true"}, {"count": True}, "does not match"),
    ({"mcp-param-count": "1" * 5000}, {"count": 1}, "does not match"),
    ({"mcp-param-count": "9007199254740992"}, {"count": 9007199254740992}, "does not match"),
    ({"mcp-param-flag": "true"}, {"flag": True}, None),
    ({"mcp-param-flag": "True"}, {"flag": True}, "does not match body value True"),
    ({"mcp-param-flag": "1"}, {"flag": True}, "does not match body value True"),
    ({"mcp-param-flag": "true"}, {"flag": "true"}, "does not match body value 'true'"),
    ({"mcp-param-deep": "x"}, {"deep": {"er": "x"}}, None),
    ({}, {"deep": {"er": {}}}, "Mcp-Param-Deep is missing, and the body says an object"),
]  # fmt: skip


@pytest.mark.parametrize(("headers", "arguments", "said"), PARAM_CHECKS)
def test_param_headers_are_compared_with_the_arguments(headers, arguments, said):
    found = check_param_headers(ROWS, headers, arguments)
    if said is None:
        assert found is None
    else:
        assert isinstance(found, HeaderMismatch)
        assert found.message.startswith("Header mismatch: " + found.header)
        assert said in found.message


METHOD_CHECKS = [
    # headers, method, name in the body, what is wrong; conformance http-header-validation
    ({"mcp-method": "tools/list"}, "tools/list", None, None),
    ({"mcp-method": " tools/list "}, "tools/list", None, None),
    ({}, "tools/list", None, "Mcp-Method is missing"),
    ({"mcp-method": "prompts/list"}, "tools/list", None,
     "Mcp-Method header value 'prompts/list' does not match body value 'tools/list'"),
    ({"mcp-method": "TOOLS/LIST"}, "tools/list", None, "does not match"),
    ({"mcp-method": "tools/list\ntools/list"}, "tools/list", None, "does not match"),
    ({"mcp-method": "=?base64?dG9vbHMvbGlzdA==?="}, "tools/list", None, "does not match"),  # never encoded
    ({"mcp-method": "tools/list", "mcp-name": "x"}, "tools/list", None, None),  # not about a name: not looked at
    ({"mcp-method": "tools/call", "mcp-name": "a"}, "tools/call", "a", None),
    ({"mcp-method": "tools/call", "mcp-name": "  a  "}, "tools/call", "a", None),
    ({"mcp-method": "tools/call", "mcp-name": "=?base64?w6k=?="}, "tools/call", "é", None),
    ({"mcp-method": "tools/call"}, "tools/call", "a", "Mcp-Name is missing, and the body says 'a'"),
    ({"mcp-method": "tools/call", "mcp-name": "b"}, "tools/call", "a",
     "Mcp-Name header value 'b' does not match body value 'a'"),
    ({"mcp-method": "tools/call", "mcp-name": "a\na"}, "tools/call", "a", "characters that no header value may have"),
    ({"mcp-method": "tools/call", "mcp-name": "=?base64?x?="}, "tools/call", "a", "is marked as base64 but is not"),
    ({"mcp-method": "tools/call", "mcp-name": "a"}, "tools/call", None, "has no counterpart in the body"),
    ({"mcp-method": "tools/call", "mcp-name": "5"}, "tools/call", 5, "does not match body value 5"),
    ({"mcp-method": "tools/call"}, "tools/call", None, None),  # its params are wrong, and -32602 will say so
    ({"mcp-method": "tools/call"}, "tools/call", 5, None),
    ({"mcp-method": "resources/read", "mcp-name": "file:///a"}, "resources/read", "file:///a", None),
    ({"mcp-method": "tasks/get", "mcp-name": "t1"}, "tasks/get", "t1", None),
]  # fmt: skip


@pytest.mark.parametrize(("headers", "method", "name", "said"), METHOD_CHECKS)
def test_method_headers_are_compared_with_the_body(headers, method, name, said):
    found = check_method_headers(headers, method, name)
    assert (found is None) == (said is None)
    assert found is None or said in found.message


NOTICE_CHECKS = [
    ({}, "notifications/x", None, None),  # "header requirements for notification POSTs are not defined"
    ({"mcp-method": "notifications/x"}, "notifications/x", None, None),
    ({"mcp-method": "notifications/y"}, "notifications/x", None, "does not match"),
    ({}, "tools/call", "a", None),
    ({"mcp-name": "b"}, "tools/call", "a", "does not match"),
]


@pytest.mark.parametrize(("headers", "method", "name", "said"), NOTICE_CHECKS)
def test_a_notification_needs_no_headers_but_those_it_has_must_be_true(headers, method, name, said):
    found = check_method_headers(headers, method, name, is_request=False)
    assert (found is None) == (said is None)
    assert found is None or said in found.message


def test_names_come_from_these_members():
    assert NAME_SOURCES == {
        "tools/call": "name",
        "prompts/get": "name",
        "resources/read": "uri",
        "tasks/get": "taskId",
        "tasks/update": "taskId",
        "tasks/cancel": "taskId",
    }


@pytest.mark.parametrize(
    ("method", "params", "name"),
    [
        ("tools/call", {"name": "a", "uri": "b"}, "a"),
        ("resources/read", {"name": "a", "uri": "b"}, "b"),
        ("tasks/cancel", {"taskId": "t"}, "t"),
        ("tools/call", {"name": 5}, None),
        ("tools/call", {}, None),
        ("tools/call", None, None),
        ("tools/list", {"name": "a"}, None),
    ],
)
def test_the_name_to_be_mirrored(method, params, name):
    assert mirrored_name(method, params) == name


def test_long_values_are_quoted_in_part():
    found = check_param_headers(ROWS, {"mcp-param-text": "x" * 1000}, {"text": "y" * 1000})
    assert found is not None
    assert len(found.message) < 300


# ---- both ends together ----

VALUES = {
    "string": st.text(),
    "integer": st.integers(-MAX_INTEGER, MAX_INTEGER) | st.integers(-1000, 1000).map(float),
    "boolean": st.booleans(),
}
NAMES = st.from_regex(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,10}", fullmatch=True)


@given(st.data())
def test_what_the_client_sends_passes_the_servers_check_and_any_change_does_not(data):
    names = data.draw(st.lists(NAMES, min_size=1, max_size=4, unique_by=str.lower))
    kinds = [data.draw(st.sampled_from(sorted(VALUES))) for _ in names]
    document = schema(**{f"p{at}": marked(kinds[at], name) for at, name in enumerate(names)})
    found = read_param_headers(document)
    assert not found.problems
    arguments = {f"p{at}": data.draw(st.none() | VALUES[kind]) for at, kind in enumerate(kinds)}
    headers = fold_headers(
        (name.encode(), value.encode("latin-1")) for name, value in build_param_headers(found.rows, arguments)
    )
    assert check_param_headers(found.rows, headers, arguments) is None
    for at, row in enumerate(found.rows):
        key = row.header.lower()
        other = data.draw(VALUES[kinds[at]].filter(lambda value, at=at: value != arguments[f"p{at}"]))
        assert check_param_headers(found.rows, headers, arguments | {f"p{at}": other}) is not None
        if key in headers:
            without = {name: value for name, value in headers.items() if name != key}
            assert check_param_headers(found.rows, without, arguments) is not None


@pytest.mark.parametrize("spelling", ["ZXV=", "ZXW=", "ZXX="])
def test_base64_has_one_spelling_for_each_value(spelling: str) -> None:
    """Bits of the last character that belong to no byte: a router would see another value."""
    assert decode_header_value("=?base64?ZXU=?=") == "eu"
    with pytest.raises(ProtocolError):
        decode_header_value(f"=?base64?{spelling}?=")
