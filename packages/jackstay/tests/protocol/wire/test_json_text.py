"""Checks of JSON documents, compared with the decoder of the standard library."""

import json
import re
import tracemalloc

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackstay.protocol.wire import _json_text
from jackstay.protocol.wire._json_text import (
    COUNT_THRESHOLD,
    MAX_DEPTH,
    MAX_PATH,
    MAX_PATH_SCAN,
    MAX_SHALLOW_TEXT,
    WINDOW,
    JsonProblem,
    explain,
    find_problem,
    flatten,
    is_deeper_than,
    needs_check,
    path_at,
)

_read_raw = msgspec.json.Decoder(msgspec.Raw).decode


def problem_of(text: bytes) -> JsonProblem | None:
    """Return the problem as `decode` finds it: first our checks, then msgspec."""
    problem = find_problem(text)
    if problem is not None:
        return problem
    try:
        _read_raw(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        return explain(text, error)
    return None


def is_json(text: bytes) -> bool:
    """Return True for JSON by RFC 8259 without lone surrogates, by the standard library; numbers are not converted."""

    def refuse(word: str) -> object:
        raise ValueError(word)

    try:
        value = json.loads(text.decode(), parse_constant=refuse, parse_int=str, parse_float=str)
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return False
    return True


def member(value: bytes) -> bytes:
    return b'{"a":[0,{"b c":' + value + b"}]}"


PATH = "$.a[1]['b c']"

REFUSED_VALUES = [
    (b"NaN", "NaN is not JSON"),
    (b"Infinity", "Infinity is not JSON"),
    (b"-Infinity", "-Infinity is not JSON"),
    (b"01", "invalid number"),
    (b"-01", "invalid number"),
    (b"1.", "invalid number"),
    (b".5", "invalid character"),
    (b"1e", "invalid number"),
    (b"+1", "invalid character"),
    (b"-", "invalid character"),
    (b"0x10", "expected ',' or '}'"),
    (b'"\x01"', "invalid character"),
    (b'"\n"', "invalid character"),
    (b'"\t"', "invalid character"),
    (b'"\\x"', "invalid escaped character"),
    (b'"\\u12"', "invalid character in unicode escape"),
    (b'"\\ud800"', r"lone surrogate \\ud800"),
    (b'"\\uD83D!"', r"lone surrogate \\uD83D"),
    (b'"\\ud83d\\ud83d\\ude00"', r"lone surrogate \\ud83d"),
    (b'"\\udc00"', r"lone surrogate \\udc00"),
    (b'"\\\\\\udc00"', r"lone surrogate \\udc00"),
    (b'"\\ud83d\\ude00\\ude00"', r"lone surrogate \\ude00"),
    (b'{"\\ud800":1}', r"lone surrogate \\ud800"),
    (b"[1,]", "trailing comma"),
    (b'{"d":1,}', "trailing comma"),
    (b"{d:1}", "expected '\"'"),
    (b"'d'", "invalid character"),
    (b"tru", "invalid character"),
    (b"nulll", "expected ',' or '}'"),
    (b'{"d" 1}', "expected ':'"),
    (b"[1 2]", "expected ',' or ']'"),
    (b"/**/1", "invalid character"),
    (b"\x00", "invalid character"),
    (b'"\xff"', "not UTF-8"),
    (b'"\xed\xa0\x80"', "not UTF-8"),
    (b'"\xc0\x80"', "not UTF-8"),
    (b'"\xf4\x90\x80\x80"', "not UTF-8"),
    (b'"\xe2\x82"', "not UTF-8"),
]


def test_invalid_values_in_skipped_members(subtests: pytest.Subtests) -> None:
    for value, reason in REFUSED_VALUES:
        with subtests.test(value=value, reason=reason):
            text = member(value)
            assert not is_json(text)
            problem = problem_of(text)
            assert problem is not None
            assert re.search(reason, problem.message)
            assert problem.path.startswith(PATH)
            assert not problem.is_depth


VALID_VALUES = [
    b"1e400",  # valid JSON; rejected when the body is decoded
    b"-1e400",
    b"9" * 5_000,
    b"-0",
    b"1E+5",
    b'"\x7f"',
    b'"\\ud83d\\ude00"',
    b'"\\\\ud800"',  # an escaped backslash
    '"\u2028\U0001f600"'.encode(),
    b'"\\u0000"',
    b'{"d":1,"d":2}',
    b" \t\r\n1 ",
]


def test_valid_values_in_skipped_members(subtests: pytest.Subtests) -> None:
    for value in VALID_VALUES:
        with subtests.test(value=value):
            assert is_json(member(value))
            assert problem_of(member(value)) is None


DOCUMENTS = [
    (b"", "truncated (at byte 0)", "$"),
    (b" ", "truncated (at byte 1)", "$"),
    (b"\xef\xbb\xbf{}", "byte order mark is not JSON (at byte 0)", "$"),
    (b"\x0b{}", "invalid character (at byte 0)", "$"),
    (b"{} {}", "trailing characters", "$"),
    (b'{"a":[1,{"b":"x', "truncated (at byte 15)", "$.a[1].b"),
    (b'{"a":1,"b', "truncated (at byte 9)", "$.b"),
    ("{}".encode("utf-16"), "not UTF-8 (at byte 0)", "$"),
    (b"-", "JSON is malformed", "$"),
    (b"]}", "invalid character (at byte 0)", "$"),
    (b"NaN", "NaN is not JSON (at byte 0)", "$"),
]


def test_invalid_documents(subtests: pytest.Subtests) -> None:
    for text, message, path in DOCUMENTS:
        with subtests.test(text=text, message=message, path=path):
            problem = problem_of(text)
            assert problem is not None
            assert message in problem.message
            assert problem.path == path


ODD_BYTES = [bytes([byte]) for byte in b'{}[]",:\\ \n0-1.eu/x\xff']
ODD_WORDS = [b'"a":', b"NaN", b"null", b"\\ud83d", b"\\ude00", b"\xc3\xa9", b"\xe2\x80"]
JSON_PIECES = st.sampled_from(ODD_BYTES + ODD_WORDS)


@given(st.lists(JSON_PIECES, max_size=24).map(b"".join))
def test_odd_documents_agree_with_the_standard_library(text: bytes) -> None:
    for candidate in (text, b'"' + text + b'"', member(b'"' + text + b'"'), member(text)):
        assert (problem_of(candidate) is None) == is_json(candidate)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    ),
    st.booleans(),
)
def test_all_json_is_accepted(value: object, is_escaped: bool) -> None:
    assert problem_of(json.dumps(value, ensure_ascii=is_escaped).encode("utf-8", "surrogatepass")) is None


def nested(depth: int, opening: bytes = b"[", closing: bytes = b"]") -> bytes:
    return opening * depth + b"1" + closing * depth


def test_nesting_is_accepted_up_to_the_limit(subtests: pytest.Subtests) -> None:
    for opening, closing in [(b"[", b"]"), (b'{"a":', b"}"), (b' [ "]" , ', b" ] ")]:
        with subtests.test(opening=opening, closing=closing):
            assert problem_of(nested(MAX_DEPTH, opening, closing)) is None
            problem = problem_of(nested(MAX_DEPTH + 1, opening, closing))
            assert problem is not None
            assert problem.is_depth
            assert problem.message == "nested more than 128 deep"
            assert problem.path.startswith("$")
            assert len(problem.path) <= MAX_PATH + 3


def test_nesting_beyond_the_stack_does_not_raise(subtests: pytest.Subtests) -> None:
    for depth in [1_000, 100_000]:
        with subtests.test(depth=depth):
            problem = problem_of(nested(depth))
            assert problem is not None
            assert problem.is_depth


def test_a_recursion_error_of_the_decoder_is_a_depth_problem() -> None:
    assert explain(b"[]", RecursionError("maximum recursion depth exceeded")).is_depth


def depth_of(value: object) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth_of, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(depth_of, value), default=0)
    return 0


ODD_STRINGS = st.text(alphabet='[]{}"\\aé', max_size=6)


@given(
    st.recursive(
        st.integers() | ODD_STRINGS,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ODD_STRINGS, inner, max_size=4),
        max_leaves=40,
    ),
    st.integers(min_value=1, max_value=40),
)
def test_depth_is_computed_outside_strings_with_any_window(value: object, window: int) -> None:
    text = json.dumps(value, ensure_ascii=False).encode()
    depth = depth_of(value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_json_text, "WINDOW", window)
        assert not is_deeper_than(text, depth)
        assert depth == 0 or is_deeper_than(text, depth - 1)


def test_many_brackets_without_depth(subtests: pytest.Subtests) -> None:
    for size in [1_000, COUNT_THRESHOLD + 1, WINDOW + 1]:
        for bracket in [b"{", b"["]:
            with subtests.test(size=size, bracket=bracket):
                pair = bracket + (b"}" if bracket == b"{" else b"]")
                assert problem_of(b"[" + b",".join([pair] * size) + b"]") is None
                assert problem_of(b'["' + bracket * size + b'"]') is None


def test_closing_brackets_inside_strings_do_not_hide_depth() -> None:
    problem = problem_of(b'["]]]]\\"]]]]",' * 200 + b"1" + b"]" * 200)
    assert problem is not None
    assert problem.is_depth


def test_bad_utf8_is_found_in_documents_of_any_size(subtests: pytest.Subtests) -> None:
    for at in [0, WINDOW - 2, WINDOW - 1, WINDOW, WINDOW + 1, 3 * WINDOW]:
        with subtests.test(at=at):
            good = ("é" * WINDOW * 2).encode()
            assert find_problem(b'"' + good + b'"') is None
            problem = find_problem(b'"' + good[: at // 2 * 2] + b"\xff" + good + b'"')
            assert problem is not None
            assert problem.message == f"not UTF-8 (at byte {1 + at // 2 * 2})"


def test_a_truncated_character_at_the_end_is_not_utf8() -> None:
    problem = find_problem(("é" * WINDOW).encode() + b"\xe2\x82")
    assert problem is not None


PATHS = [
    (b'{"a":{"b":X', "$.a.b"),
    (b'{"a":1,"b":X', "$.b"),
    (b'{"a":1,X', "$"),
    (b"[X", "$[0]"),
    (b"[1,[2,3],X", "$[2]"),
    (b'[{"a":[1,2]},{"b":X', "$[1].b"),
    (b'{"a":"x,y:[{","b":X', "$.b"),
    (b'{"a\\"b":X', "$['a\\\\\"b']"),
    (b'{"a b":X', "$['a b']"),
    (b'{"\xff":X', "$['\\ufffd']"),
    (b"}],:X", "$"),
    (b"X", "$"),
    (b'{"' + b"n" * 100 + b'":X', "$." + "n" * 40),
    (b"[" * 100 + b"X", "$" + "[0]" * 66 + "[..."),
]


def test_the_path_of_a_byte(subtests: pytest.Subtests) -> None:
    for text, path in PATHS:
        with subtests.test(text=text, path=path):
            assert path_at(text, text.index(b"X")) == path


def test_no_path_beyond_the_scanned_part() -> None:
    text = b'["' + b"a" * MAX_PATH_SCAN + b'",NaN]'
    problem = problem_of(text)
    assert problem is not None
    assert problem.path == ""
    assert problem.message == f"NaN is not JSON (at byte {text.index(b'NaN')})"


def test_the_shortest_document_that_is_too_deep_is_checked(subtests: pytest.Subtests) -> None:
    for depth, opens, closes, is_too_deep in [
        (MAX_DEPTH, b'{"":', b"}", False),
        (MAX_DEPTH + 1, b'{"":', b"}", True),
        (MAX_DEPTH, b"[", b"]", False),
        (MAX_DEPTH + 1, b"[", b"]", True),
        (MAX_DEPTH, b' { "" : ', b" } ", False),
        (MAX_DEPTH + 1, b' { "" : ', b" } ", True),
    ]:
        with subtests.test(depth=depth, opens=opens):
            innermost = opens[:1] + closes if opens[:1] in b"{[" else b"{}"
            text = opens * (depth - 1) + innermost + closes * (depth - 1)
            assert (needs_check(text) and find_problem(text) is not None) is is_too_deep
            assert len(text) > MAX_SHALLOW_TEXT or not is_too_deep


@given(st.lists(st.sampled_from([b'{"":', b"[", b"}", b"]", b'{"a":1,"":', b"1", b'"\xc3\xa9"']), max_size=400))
def test_documents_that_need_no_check_have_no_problem(parts: list[bytes]) -> None:
    text = b"".join(parts)
    assert needs_check(text) or find_problem(text) is None or not _is_json(text)


def _is_json(text: bytes) -> bool:
    try:
        _read_raw(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


@given(st.binary(max_size=64), st.integers(min_value=0, max_value=64))
def test_any_bytes_have_a_path(text: bytes, offset: int) -> None:
    assert path_at(text, offset).startswith("$")


def test_checking_16_mib_needs_little_memory() -> None:
    text = b'["' + ("é{" * 5_500_000).encode() + b'"]'
    tracemalloc.start()
    try:
        assert find_problem(text) is None
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2 * 1024 * 1024


# (text, limit, expected)
FLATTENED = [
    (b'{"id":1,"result":{"a":[1,{"b":2}]}}', 100, b'{"id":1,"result":{}}'),
    (b'{"result":[[[]],{}],"id":1}', 100, b'{"result":[],"id":1}'),
    (b'{"a":[1],"b":{"c":3},"d":"[{"}', 100, b'{"a":[],"b":{},"d":"[{"}'),
    (b'{"a":["]\\"}",{"x":"\\\\"}],"id":1}', 100, b'{"a":[],"id":1}'),
    (b"[[1],[2]]", 100, b"[[],[]]"),
    (b'{"id":1}', 100, b'{"id":1}'),
    (b"", 100, b""),
    (b"1", 100, b"1"),
    (b"]]]}", 100, b"]]]}"),
    # A cut inside an emptied value closes it; elsewhere nothing is added.
    (b'{"id":1,"result":{"a":{"b":1}},"c":2}', 25, b'{"id":1,"result":{}}'),
    (b'{"id":1,"result":[[1]],"c":2}', 20, b'{"id":1,"result":[]}'),
    (b'{"id":1,"result":[[1]],"c":2}', 25, b'{"id":1,"result":[],"c'),
]


def test_flatten(subtests: pytest.Subtests) -> None:
    for text, limit, expected in FLATTENED:
        with subtests.test(text=text, limit=limit, expected=expected):
            assert flatten(text, limit) == expected


def test_flatten_any_depth(subtests: pytest.Subtests) -> None:
    for depth in [2, 500, 1_000, 30_000]:
        for opens, closes in [(b"[", b"]"), (b'{"a":', b"}")]:
            with subtests.test(depth=depth, opens=opens, closes=closes):
                text = b'{"result":' + opens * depth + b"1" + closes * depth + b',"id":7}'
                assert flatten(text, len(text)) == b'{"result":' + opens[:1] + closes + b',"id":7}'
