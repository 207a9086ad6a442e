"""MCP's HTTP headers: the tables of the specification, the cases of the conformance suite, and client against server.

Sections are those of 2026-07-28 basic/transports/streamable-http. "conformance" names a scenario of the official suite.
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

# --- folding and ids ---

FOLDED = [
    ([], {}),
    # RFC 9110, 5.5; conformance http-header-validation
    ([(b"Mcp-Method", b" tools/list\t")], {"mcp-method": "tools/list"}),
    ([(b"MCP-METHOD", b"x")], {"mcp-method": "x"}),  # RFC 9110, 5.1
    ([(b"Accept", b"a"), (b"accept", b"b")], {"accept": "a, b"}),  # RFC 9110, 5.3
    ([(b"X-Any", b"a"), (b"X-Any", b"b"), (b"X-Any", b"c")], {"x-any": "a, b, c"}),
    ([(b"Host", b"a"), (b"Host", b"b")], {"host": "a\nb"}),  # single values: two lines must not form a legal value
    ([(b"Mcp-Name", b"a"), (b"Mcp-Name", b"b")], {"mcp-name": "a\nb"}),
    ([(b"Mcp-Param-X", b"a"), (b"mcp-param-x", b"a")], {"mcp-param-x": "a\na"}),
    ([(b"X", b"\xe9")], {"x": "\u00e9"}),
]


def test_fold_headers(subtests: pytest.Subtests):
    for pairs, folded in FOLDED:
        with subtests.test(pairs=pairs, folded=folded):
            assert fold_headers(pairs) == folded


def test_session_ids_are_visible_ascii():
    """2025-11-25 basic/transports, "Session Management": 0x21 to 0x7E."""
    for code in range(256):
        assert is_session_id("a" + chr(code) + "b") is (0x21 <= code <= 0x7E), code


def test_an_empty_session_id_is_invalid():
    assert not is_session_id("")


# --- "Value Encoding" ---

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


def test_values_are_encoded_and_decoded(subtests: pytest.Subtests):
    for text, value in ENCODED:
        with subtests.test(text=text, value=value):
            assert encode_header_value(text) == value
            assert decode_header_value(value) == text


DECODED = [
    ("  a b\t", "a b"),  # surrounding whitespace is not part of the value
    ("=?base64?SGVsbG8=?=", "Hello"),  # conformance http-custom-header-server-validation, the next three too
    ("SGVsbG8=", "SGVsbG8="),
    ("=?base64?SGVsbG8=", "=?base64?SGVsbG8="),
    ("SGVsbG8=?=", "SGVsbG8=?="),
    ("=?base64??=", ""),
    ("=?base64?=", "=?base64?="),
    ("=?Base64?SGVsbG8=?=", "=?Base64?SGVsbG8=?="),  # "These markers are case-sensitive"
    (" =?base64?SGVsbG8=?= ", "Hello"),
]


def test_values_are_decoded(subtests: pytest.Subtests):
    for value, text in DECODED:
        with subtests.test(value=value, text=text):
            assert decode_header_value(value) == text


MALFORMED = [
    ("=?base64?SGVsbG8?=", "is not valid base64"),  # conformance: invalid padding
    ("=?base64?SGVs!!!bG8=?=", "is not valid base64"),  # conformance: invalid characters
    ("=?base64?SGVsbG8= ?=", "is not valid base64"),
    ("=?base64?SGVs bG8=?=", "is not valid base64"),
    ("=?base64?SGVsbG8==?=", "is not valid base64"),
    ("=?base64?SGVsbG8=SGVs?=", "is not valid base64"),
    ("=?base64?=?=", "is not valid base64"),
    ("=?base64?SGVs-_8=?=", "is not valid base64"),
    ("=?base64?/w==?=", "is not base64 of UTF-8"),
    ("=?base64?7aCA?=", "is not base64 of UTF-8"),  # a surrogate
    ("a\nb", "contains illegal characters"),
    ("a\0", "contains illegal characters"),
    ("\u00e9", "contains illegal characters"),
    ("\x7f", "contains illegal characters"),
]


def test_malformed_values_are_refused(subtests: pytest.Subtests):
    for value, reason in MALFORMED:
        with subtests.test(value=value, reason=reason):
            with pytest.raises(ProtocolError) as caught:
                decode_header_value(value, "Mcp-Name")
            assert caught.value.message == f"the value {reason}"
            assert (caught.value.path, caught.value.quote, caught.value.code) == ("Mcp-Name", value, -32020)


@given(st.text())
def test_any_string_round_trips_through_a_legal_value(text):
    value = encode_header_value(text)
    assert all(char == "\t" or " " <= char <= "~" for char in value)
    assert value == value.strip(" \t")
    assert decode_header_value(value) == text
    assert fold_headers([(b"mcp-name", value.encode("latin-1"))])["mcp-name"] == value


def test_a_lone_surrogate_is_refused():
    with pytest.raises(UsageError, match="lone surrogate"):
        encode_header_value("a\ud800")


# --- "Schema Extension" ---


def schema(**properties: object) -> dict[str, object]:
    return {"type": "object", "properties": properties}


def annotated(kind: object = "string", name: object = "Region") -> dict[str, object]:
    return {"type": kind, "x-mcp-header": name}


VALID = [
    (schema(), []),
    (schema(a={"type": "string"}), []),
    (schema(a=annotated()), [(("a",), "Region", "string")]),
    (
        schema(a=annotated("integer", "N"), b=annotated("boolean", "B")),
        [(("a",), "N", "integer"), (("b",), "B", "boolean")],
    ),
    (schema(a=schema(b=schema(c=annotated()))), [(("a", "b", "c"), "Region", "string")]),
    (
        {"properties": {"a": {"properties": {"b": annotated()}}}},
        [(("a", "b"), "Region", "string")],
    ),  # no `type` in between
    (schema(a=annotated(name="!#$%&'*+-.^_`|~09Az")), [(("a",), "!#$%&'*+-.^_`|~09Az", "string")]),
    (schema(a=annotated(name="Method")), [(("a",), "Method", "string")]),  # Mcp-Param-Method, not Mcp-Method
    (schema(a={**annotated(), "enum": ["x"], "description": "y", "$ref": "#/$defs/z"}), [(("a",), "Region", "string")]),
    (schema(**{"": annotated()}), [(("",), "Region", "string")]),
    # The key in data, or as the name of an argument.
    (schema(**{"x-mcp-header": {"type": "string"}}), []),
    (schema(a={"type": "object", "default": {"x-mcp-header": ""}, "const": {"x-mcp-header": 1}}), []),
    (schema(a={"enum": [{"x-mcp-header": 1}], "examples": [{"x-mcp-header": 1}]}), []),
    ({"description": {"x-mcp-header": 1}, "x-vendor": {"x-mcp-header": "A"}}, []),
    # Not a schema.
    (None, []),
    (True, []),
    ([], []),
    ("x-mcp-header", []),
    ({"properties": []}, []),
    ({"properties": {"a": True}}, []),
    ({"$defs": [], "allOf": {}, "items": True}, []),
]


def test_valid_schemas(subtests: pytest.Subtests):
    for document, rows in VALID:
        with subtests.test(document=document, rows=rows):
            assert read_param_headers(document) == ParamHeaders(tuple(ParamHeader(*row) for row in rows))


TOKEN = "must be a header name (RFC 9110 token), not"
UNREACHABLE = "is not reachable through `properties` alone"
KIND = "is for string, integer or boolean, not for type"

INVALID = [
    # conformance http-invalid-tool-headers, in its order
    (schema(value=annotated(name="")), ["#/properties/value", f"{TOKEN} ''"]),
    (schema(data=annotated("object")), ["#/properties/data", f"{KIND} 'object'"]),
    (
        schema(items={"type": "array", "items": {"type": "string"}, "x-mcp-header": "I"}),
        ["#/properties/items", f"{KIND} 'array'"],
    ),
    (schema(nil=annotated("null")), ["#/properties/nil", f"{KIND} 'null'"]),
    (schema(a=annotated(), b=annotated()), ["#/properties/b", "'Region' is already used at #/properties/a"]),
    (
        schema(a=annotated(name="MyField"), b=annotated(name="myfield")),
        ["#/properties/b", "'myfield' is already used at #/properties/a"],
    ),
    (schema(value=annotated(name="My Region")), ["#/properties/value", f"{TOKEN} 'My Region'"]),
    (schema(value=annotated(name="Region:Primary")), ["#/properties/value", f"{TOKEN} 'Region:Primary'"]),
    (schema(value=annotated(name="Région")), ["#/properties/value", f"{TOKEN} 'R\\xe9gion'"]),
    (schema(value=annotated(name="Region\t1")), ["#/properties/value", f"{TOKEN} 'Region\\t1'"]),
    # the other constraints
    (schema(value=annotated(name="A\r\nB: c")), ["#/properties/value", f"{TOKEN} 'A\\r\\nB: c'"]),
    (schema(value=annotated("number")), ["#/properties/value", f"{KIND} 'number'"]),
    (schema(value=annotated(["string", "null"])), ["#/properties/value", f"{KIND} an array"]),
    (schema(value={"x-mcp-header": "A"}), ["#/properties/value", f"{KIND} None"]),
    (schema(value=annotated(name=1)), ["#/properties/value", f"{TOKEN} 1"]),
    (schema(value=annotated(name=None)), ["#/properties/value", f"{TOKEN} None"]),
    (schema(value=annotated(name={})), ["#/properties/value", f"{TOKEN} an object"]),
    (schema(value=annotated(name=10**5000)), ["#/properties/value", f"{TOKEN} an integer out of range"]),
    (schema(value=annotated(name="é" * 500)), ["#/properties/value", "..."]),
    ({**schema(), "x-mcp-header": "A"}, ["#: ", f"{KIND} 'object'"]),
    ({"properties": {"a/b~c": annotated("null")}}, ["#/properties/a~1b~0c", KIND]),
    # "The chain MUST NOT pass through ..."
    *[
        ({"properties": {"a": {keyword: annotated()}}}, [f"#/properties/a/{keyword}: ", UNREACHABLE])
        for keyword in (
            *("items", "additionalItems", "unevaluatedItems", "contains", "contentSchema", "not", "if", "then", "else"),
            *("additionalProperties", "unevaluatedProperties", "propertyNames"),
        )
    ],
    *[
        ({"properties": {"a": {keyword: [{}, annotated()]}}}, [f"#/properties/a/{keyword}/1: ", UNREACHABLE])
        for keyword in ("allOf", "anyOf", "oneOf", "prefixItems", "items")
    ],
    *[
        ({keyword: {"x": annotated()}}, [f"#/{keyword}/x: ", UNREACHABLE])
        for keyword in ("$defs", "definitions", "patternProperties", "dependentSchemas", "dependencies")
    ],
    # `properties` below another keyword do not count.
    ({"anyOf": [schema(a=annotated())]}, ["#/anyOf/0/properties/a: ", UNREACHABLE]),
    (
        schema(a={"$ref": "#/$defs/b"}) | {"$defs": {"b": schema(c=annotated())}},
        ["#/$defs/b/properties/c: ", UNREACHABLE],
    ),
]


def test_invalid_schemas(subtests: pytest.Subtests):
    for document, expected in INVALID:
        with subtests.test(document=document, expected=expected):
            found = read_param_headers(document)
            assert len(found.problems) == 1
            assert all(part in found.problems[0] for part in expected), found.problems
            assert found.problems[0].isascii()


def test_valid_annotations_beside_a_problem_are_listed():
    found = read_param_headers(schema(a=annotated(), b=annotated("number", "B"), c=annotated("integer", "C")))
    assert [row.name for row in found.rows] == ["Region", "C"]
    assert len(found.problems) == 1


def test_problems_and_their_length_are_bounded():
    nested: object = annotated("null")
    for _ in range(3000):
        nested = {"properties": {"é" * 1000: nested}}
    found = read_param_headers(nested)
    assert len(found.problems[0]) < 600
    many = read_param_headers(schema(**{f"p{index}": annotated("null") for index in range(1000)}))
    assert len(many.problems) == 10


def test_a_deeply_nested_schema_needs_no_recursion():
    nested: object = annotated()
    for _ in range(20_000):
        nested = {"properties": {"a": nested}}
    assert len(read_param_headers(nested).rows[0].path) == 20_000


def test_the_full_name_of_a_param_header():
    assert ParamHeader(("a",), "Region", "string").header == "Mcp-Param-Region"


# --- "Client Behavior" ---

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
    ({"deep": None}, ()),
    ({"deep": "x"}, ()),
    ({"deep": ["er"]}, ()),
    ({"deep": {}}, ()),
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
]


def test_arguments_become_headers_that_the_server_accepts(subtests: pytest.Subtests):
    for arguments, pairs in BUILT:
        with subtests.test(arguments=arguments, pairs=pairs):
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


def test_arguments_of_the_wrong_type_are_not_sent(subtests: pytest.Subtests):
    for arguments, path, expected in UNSENDABLE:
        with subtests.test(arguments=arguments, path=path, expected=expected):
            with pytest.raises(UsageError) as caught:
                build_param_headers(ROWS, arguments)
            assert caught.value.path == path
            assert expected in caught.value.message


# --- "Server Validation" ---

PARAM_CHECKS = [
    # headers, arguments, problem (None: no problem)
    ({}, {}, None),
    ({}, {"text": None}, None),  # "Server MUST NOT expect the header"
    ({}, {"text": "a"}, "Mcp-Param-Text is missing; the body value is 'a'"),
    ({}, {"text": ""}, "Mcp-Param-Text is missing; the body value is ''"),
    ({"mcp-param-text": "a"}, {"text": "a"}, None),
    ({"mcp-param-text": " a "}, {"text": "a"}, None),
    ({"mcp-param-text": "A"}, {"text": "a"}, "Mcp-Param-Text header value 'A' does not match body value 'a'"),
    ({"mcp-param-text": "=?base64?YQ==?="}, {"text": "a"}, None),  # unnecessary encoding is allowed
    (
        {"mcp-param-text": "=?base64?YQ?="},
        {"text": "a"},
        "Mcp-Param-Text header: the value is not valid base64: '=?base64?YQ?='",
    ),
    (
        {"mcp-param-text": "a\na"},
        {"text": "a"},
        "Mcp-Param-Text header: the value contains illegal characters: 'a\\na'",
    ),
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
    ({"mcp-param-count": "=?base64?2aE=?="}, {"count": 1}, "does not match"),  # a digit, but not ASCII
    ({"mcp-param-count": ""}, {"count": 0}, "does not match"),
    ({"mcp-param-count": "true"}, {"count": True}, "does not match"),
    ({"mcp-param-count": "1" * 5000}, {"count": 1}, "does not match"),
    ({"mcp-param-count": "9007199254740992"}, {"count": 9007199254740992}, "does not match"),
    ({"mcp-param-flag": "true"}, {"flag": True}, None),
    ({"mcp-param-flag": "True"}, {"flag": True}, "does not match body value True"),
    ({"mcp-param-flag": "1"}, {"flag": True}, "does not match body value True"),
    ({"mcp-param-flag": "true"}, {"flag": "true"}, "does not match body value 'true'"),
    ({"mcp-param-deep": "x"}, {"deep": {"er": "x"}}, None),
    ({}, {"deep": {"er": {}}}, "Mcp-Param-Deep is missing; the body value is an object"),
]


def test_param_headers_are_compared_with_the_arguments(subtests: pytest.Subtests):
    for headers, arguments, expected in PARAM_CHECKS:
        with subtests.test(headers=headers, arguments=arguments, expected=expected):
            found = check_param_headers(ROWS, headers, arguments)
            if expected is None:
                assert found is None
            else:
                assert isinstance(found, HeaderMismatch)
                assert found.message.startswith("Header mismatch: " + found.header)
                assert expected in found.message


METHOD_CHECKS = [
    # headers, method, name in the body, problem; conformance http-header-validation
    ({"mcp-method": "tools/list"}, "tools/list", None, None),
    ({"mcp-method": " tools/list "}, "tools/list", None, None),
    ({}, "tools/list", None, "Mcp-Method is missing"),
    (
        {"mcp-method": "prompts/list"},
        "tools/list",
        None,
        "Mcp-Method header value 'prompts/list' does not match body value 'tools/list'",
    ),
    ({"mcp-method": "TOOLS/LIST"}, "tools/list", None, "does not match"),
    ({"mcp-method": "tools/list\ntools/list"}, "tools/list", None, "does not match"),
    ({"mcp-method": "=?base64?dG9vbHMvbGlzdA==?="}, "tools/list", None, "does not match"),  # never encoded
    ({"mcp-method": "tools/list", "mcp-name": "x"}, "tools/list", None, None),  # the method has no name: ignored
    ({"mcp-method": "tools/call", "mcp-name": "a"}, "tools/call", "a", None),
    ({"mcp-method": "tools/call", "mcp-name": "  a  "}, "tools/call", "a", None),
    ({"mcp-method": "tools/call", "mcp-name": "=?base64?w6k=?="}, "tools/call", "é", None),
    ({"mcp-method": "tools/call"}, "tools/call", "a", "Mcp-Name is missing; the body value is 'a'"),
    (
        {"mcp-method": "tools/call", "mcp-name": "b"},
        "tools/call",
        "a",
        "Mcp-Name header value 'b' does not match body value 'a'",
    ),
    ({"mcp-method": "tools/call", "mcp-name": "a\na"}, "tools/call", "a", "illegal characters"),
    ({"mcp-method": "tools/call", "mcp-name": "=?base64?x?="}, "tools/call", "a", "is not valid base64"),
    ({"mcp-method": "tools/call", "mcp-name": "a"}, "tools/call", None, "has no counterpart in the body"),
    ({"mcp-method": "tools/call", "mcp-name": "5"}, "tools/call", 5, "does not match body value 5"),
    ({"mcp-method": "tools/call"}, "tools/call", None, None),  # -32602 reports the invalid params
    ({"mcp-method": "tools/call"}, "tools/call", 5, None),
    ({"mcp-method": "resources/read", "mcp-name": "file:///a"}, "resources/read", "file:///a", None),
    ({"mcp-method": "tasks/get", "mcp-name": "t1"}, "tasks/get", "t1", None),
]


def test_method_headers_are_compared_with_the_body(subtests: pytest.Subtests):
    for headers, method, name, expected in METHOD_CHECKS:
        with subtests.test(headers=headers, method=method):
            found = check_method_headers(headers, method, name)
            assert (found is None) == (expected is None)
            assert found is None or expected in found.message


NOTIFICATION_CHECKS = [
    ({}, "notifications/x", None, None),  # "header requirements for notification POSTs are not defined"
    ({"mcp-method": "notifications/x"}, "notifications/x", None, None),
    ({"mcp-method": "notifications/y"}, "notifications/x", None, "does not match"),
    ({}, "tools/call", "a", None),
    ({"mcp-name": "b"}, "tools/call", "a", "does not match"),
]


def test_headers_of_a_notification_are_optional_but_must_match(subtests: pytest.Subtests):
    for headers, method, name, expected in NOTIFICATION_CHECKS:
        with subtests.test(headers=headers, method=method):
            found = check_method_headers(headers, method, name, is_request=False)
            assert (found is None) == (expected is None)
            assert found is None or expected in found.message


def test_name_sources():
    assert NAME_SOURCES == {
        "tools/call": "name",
        "prompts/get": "name",
        "resources/read": "uri",
        "tasks/get": "taskId",
        "tasks/update": "taskId",
        "tasks/cancel": "taskId",
    }


def test_mirrored_name(subtests: pytest.Subtests):
    for method, params, name in [
        ("tools/call", {"name": "a", "uri": "b"}, "a"),
        ("resources/read", {"name": "a", "uri": "b"}, "b"),
        ("tasks/cancel", {"taskId": "t"}, "t"),
        ("tools/call", {"name": 5}, None),
        ("tools/call", {}, None),
        ("tools/call", None, None),
        ("tools/list", {"name": "a"}, None),
    ]:
        with subtests.test(method=method, params=params, name=name):
            assert mirrored_name(method, params) == name


def test_quotes_of_long_values_are_truncated():
    found = check_param_headers(ROWS, {"mcp-param-text": "x" * 1000}, {"text": "y" * 1000})
    assert found is not None
    assert len(found.message) < 300


# --- client and server ---

VALUES = {
    "string": st.text(),
    "integer": st.integers(-MAX_INTEGER, MAX_INTEGER) | st.integers(-1000, 1000).map(float),
    "boolean": st.booleans(),
}
NAMES = st.from_regex(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,10}", fullmatch=True)


@given(st.data())
def test_the_server_accepts_the_client_s_headers_and_refuses_any_change(data):
    names = data.draw(st.lists(NAMES, min_size=1, max_size=4, unique_by=str.lower))
    kinds = [data.draw(st.sampled_from(sorted(VALUES))) for _ in names]
    document = schema(**{f"p{at}": annotated(kinds[at], name) for at, name in enumerate(names)})
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


def test_each_value_has_one_base64_encoding(subtests: pytest.Subtests) -> None:
    """Unused bits of the last character must be zero, or a router would see another value."""
    for encoding in ["ZXV=", "ZXW=", "ZXX="]:
        with subtests.test(encoding=encoding):
            assert decode_header_value("=?base64?ZXU=?=") == "eu"
            with pytest.raises(ProtocolError):
                decode_header_value(f"=?base64?{encoding}?=")
