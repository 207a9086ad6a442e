"""Which texts are JSON we take, told apart from those that are not by an independent reader: the standard library's."""

import json
import re
import tracemalloc

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackstay.protocol.wire import _json_text
from jackstay.protocol.wire._json_text import (
    FEW_BYTES,
    LONGEST_PATH,
    LONGEST_SHALLOW_TEXT,
    MAX_DEPTH,
    PATH_REACH,
    WINDOW,
    Flaw,
    explain,
    find_flaw,
    flatten,
    is_deeper_than,
    needs_look,
    path_at,
)

_read_raw = msgspec.json.Decoder(msgspec.Raw).decode


def flaw_of(text: bytes) -> Flaw | None:
    """The verdict as the envelope reader forms it: first our checks, then msgspec, which builds nothing here."""
    flaw = find_flaw(text)
    if flaw is not None:
        return flaw
    try:
        _read_raw(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        return explain(text, error)
    return None


def is_json(text: bytes) -> bool:
    """What RFC 8259 says, and our fixed answers to surrogates: by the standard library, numbers not converted."""

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


PLACE = "$.a[1]['b c']"

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
    (b'"\\ud800"', r"a lone surrogate \(\\ud800\) is not text"),
    (b'"\\uD83D!"', r"a lone surrogate \(\\uD83D\) is not text"),
    (b'"\\ud83d\\ud83d\\ude00"', r"a lone surrogate \(\\ud83d\) is not text"),
    (b'"\\udc00"', r"a lone surrogate \(\\udc00\) is not text"),
    (b'"\\\\\\udc00"', r"a lone surrogate \(\\udc00\) is not text"),
    (b'"\\ud83d\\ude00\\ude00"', r"a lone surrogate \(\\ude00\) is not text"),
    (b'{"\\ud800":1}', r"a lone surrogate \(\\ud800\) is not text"),
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


@pytest.mark.parametrize(("value", "reason"), REFUSED_VALUES)
def test_a_value_that_is_not_json_is_refused_wherever_it_is_skipped_and_the_place_is_named(
    value: bytes, reason: str
) -> None:
    text = member(value)
    assert not is_json(text)
    flaw = flaw_of(text)
    assert flaw is not None
    assert re.search(reason, flaw.message)
    assert flaw.path.startswith(PLACE)
    assert not flaw.is_depth


TAKEN_VALUES = [
    b"1e400",  # JSON by its grammar; refused when the body that holds it is decoded
    b"-1e400",
    b"9" * 5_000,
    b"-0",
    b"1E+5",
    b'"\x7f"',
    b'"\\ud83d\\ude00"',
    b'"\\\\ud800"',  # an escaped backslash, then text
    '"\u2028\U0001f600"'.encode(),
    b'"\\u0000"',
    b'{"d":1,"d":2}',
    b" \t\r\n1 ",
]


@pytest.mark.parametrize("value", TAKEN_VALUES)
def test_a_value_that_is_json_is_taken(value: bytes) -> None:
    assert is_json(member(value))
    assert flaw_of(member(value)) is None


WHOLE_TEXTS = [
    (b"", "truncated (at byte 0)", "$"),
    (b" ", "truncated (at byte 1)", "$"),
    (b"\xef\xbb\xbf{}", "a byte order mark is not JSON (at byte 0)", "$"),
    (b"\x0b{}", "invalid character (at byte 0)", "$"),
    (b"{} {}", "trailing characters", "$"),
    (b'{"a":[1,{"b":"x', "truncated (at byte 15)", "$.a[1].b"),
    (b'{"a":1,"b', "truncated (at byte 9)", "$.b"),
    ("{}".encode("utf-16"), "not UTF-8 (at byte 0)", "$"),
    (b"-", "JSON is malformed", "$"),
    (b"]}", "invalid character (at byte 0)", "$"),
    (b"NaN", "NaN is not JSON (at byte 0)", "$"),
]


@pytest.mark.parametrize(("text", "message", "path"), WHOLE_TEXTS)
def test_what_is_wrong_with_a_whole_text_is_said(text: bytes, message: str, path: str) -> None:
    flaw = flaw_of(text)
    assert flaw is not None
    assert message in flaw.message
    assert flaw.path == path


ODD_BYTES = [bytes([byte]) for byte in b'{}[]",:\\ \n0-1.eu/x\xff']
ODD_WORDS = [b'"a":', b"NaN", b"null", b"\\ud83d", b"\\ude00", b"\xc3\xa9", b"\xe2\x80"]
JSON_PIECES = st.sampled_from(ODD_BYTES + ODD_WORDS)


@given(st.lists(JSON_PIECES, max_size=24).map(b"".join))
def test_the_verdict_on_odd_texts_is_that_of_an_independent_reader(text: bytes) -> None:
    for candidate in (text, b'"' + text + b'"', member(b'"' + text + b'"'), member(text)):
        assert (flaw_of(candidate) is None) == is_json(candidate)


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    ),
    st.booleans(),
)
def test_all_json_is_taken(value: object, is_escaped: bool) -> None:
    assert flaw_of(json.dumps(value, ensure_ascii=is_escaped).encode("utf-8", "surrogatepass")) is None


def nested(depth: int, opening: bytes = b"[", closing: bytes = b"]") -> bytes:
    return opening * depth + b"1" + closing * depth


@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}"), (b' [ "]" , ', b" ] ")])
def test_nesting_is_taken_up_to_the_limit_and_no_further(opening: bytes, closing: bytes) -> None:
    assert flaw_of(nested(MAX_DEPTH, opening, closing)) is None
    flaw = flaw_of(nested(MAX_DEPTH + 1, opening, closing))
    assert flaw is not None
    assert flaw.is_depth
    assert flaw.message == "nested more than 128 deep"
    assert flaw.path.startswith("$")
    assert len(flaw.path) <= LONGEST_PATH + 3


@pytest.mark.parametrize("depth", [1_000, 100_000])
def test_nesting_beyond_the_stack_is_a_flaw_and_not_a_recursion_error(depth: int) -> None:
    flaw = flaw_of(nested(depth))
    assert flaw is not None
    assert flaw.is_depth


def test_a_recursion_error_of_the_decoder_is_a_flaw_of_depth() -> None:
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
def test_depth_is_measured_outside_strings_in_windows_of_any_size(value: object, window: int) -> None:
    text = json.dumps(value, ensure_ascii=False).encode()
    depth = depth_of(value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_json_text, "WINDOW", window)
        assert not is_deeper_than(text, depth)
        assert depth == 0 or is_deeper_than(text, depth - 1)


@pytest.mark.parametrize("size", [1_000, FEW_BYTES + 1, WINDOW + 1])
@pytest.mark.parametrize("bracket", [b"{", b"["])
def test_many_brackets_are_no_depth(size: int, bracket: bytes) -> None:
    pair = bracket + (b"}" if bracket == b"{" else b"]")
    assert flaw_of(b"[" + b",".join([pair] * size) + b"]") is None
    assert flaw_of(b'["' + bracket * size + b'"]') is None


def test_closing_brackets_inside_strings_do_not_hide_depth() -> None:
    flaw = flaw_of(b'["]]]]\\"]]]]",' * 200 + b"1" + b"]" * 200)
    assert flaw is not None
    assert flaw.is_depth


@pytest.mark.parametrize("at", [0, WINDOW - 2, WINDOW - 1, WINDOW, WINDOW + 1, 3 * WINDOW])
def test_bad_utf8_is_found_at_its_byte_in_texts_of_any_size(at: int) -> None:
    good = ("é" * WINDOW * 2).encode()
    assert find_flaw(b'"' + good + b'"') is None
    flaw = find_flaw(b'"' + good[: at // 2 * 2] + b"\xff" + good + b'"')
    assert flaw is not None
    assert flaw.message == f"not UTF-8 (at byte {1 + at // 2 * 2})"


def test_a_character_cut_off_at_the_end_of_a_long_text_is_not_utf8() -> None:
    flaw = find_flaw(("é" * WINDOW).encode() + b"\xe2\x82")
    assert flaw is not None


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


@pytest.mark.parametrize(("text", "path"), PATHS)
def test_the_path_to_a_byte_is_spelled_and_short(text: bytes, path: str) -> None:
    assert path_at(text, text.index(b"X")) == path


def test_beyond_its_reach_the_walk_names_no_path_but_the_byte() -> None:
    text = b'["' + b"a" * PATH_REACH + b'",NaN]'
    flaw = flaw_of(text)
    assert flaw is not None
    assert flaw.path == ""
    assert flaw.message == f"NaN is not JSON (at byte {text.index(b'NaN')})"


@pytest.mark.parametrize(
    ("depth", "opens", "closes", "is_flawed"),
    [
        (MAX_DEPTH, b'{"":', b"}", False),
        (MAX_DEPTH + 1, b'{"":', b"}", True),
        (MAX_DEPTH, b"[", b"]", False),
        (MAX_DEPTH + 1, b"[", b"]", True),
        (MAX_DEPTH, b' { "" : ', b" } ", False),
        (MAX_DEPTH + 1, b' { "" : ', b" } ", True),
    ],
)
def test_the_shortest_text_that_is_too_deep_is_looked_at(
    depth: int, opens: bytes, closes: bytes, is_flawed: bool
) -> None:
    innermost = opens[:1] + closes if opens[:1] in b"{[" else b"{}"
    text = opens * (depth - 1) + innermost + closes * (depth - 1)
    assert (needs_look(text) and find_flaw(text) is not None) is is_flawed
    assert len(text) > LONGEST_SHALLOW_TEXT or not is_flawed


@given(
    st.lists(st.sampled_from([b'{"":', b"[", b"}", b"]", b'{"a":1,"":', b"1", b'"\xc3\xa9"']), max_size=400)
)
def test_what_need_not_be_looked_at_has_no_flaw(parts: list[bytes]) -> None:
    text = b"".join(parts)
    assert needs_look(text) or find_flaw(text) is None or not _is_json(text)


def _is_json(text: bytes) -> bool:
    try:
        _read_raw(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


@given(st.binary(max_size=64), st.integers(min_value=0, max_value=64))
def test_any_bytes_have_a_path(text: bytes, offset: int) -> None:
    assert path_at(text, offset).startswith("$")


def test_checking_sixteen_mebibytes_takes_a_fraction_of_their_memory() -> None:
    text = b'["' + ("é{" * 5_500_000).encode() + b'"]'
    tracemalloc.start()
    try:
        assert find_flaw(text) is None
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
    # Cut inside of what is emptied, it is closed; elsewhere it stays what it is.
    (b'{"id":1,"result":{"a":{"b":1}},"c":2}', 25, b'{"id":1,"result":{}}'),
    (b'{"id":1,"result":[[1]],"c":2}', 20, b'{"id":1,"result":[]}'),
    (b'{"id":1,"result":[[1]],"c":2}', 25, b'{"id":1,"result":[],"c'),
]


@pytest.mark.parametrize(("text", "limit", "expected"), FLATTENED)
def test_what_is_inside_the_outermost_value_is_emptied(text: bytes, limit: int, expected: bytes) -> None:
    assert flatten(text, limit) == expected


@pytest.mark.parametrize("depth", [2, 500, 1_000, 30_000])
@pytest.mark.parametrize(("opens", "closes"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_any_depth_is_flattened(depth: int, opens: bytes, closes: bytes) -> None:
    text = b'{"result":' + opens * depth + b"1" + closes * depth + b',"id":7}'
    assert flatten(text, len(text)) == b'{"result":' + opens[:1] + closes + b',"id":7}'
