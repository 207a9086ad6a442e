"""Values out to JSON: what is written, what is refused, and where the refusal says it was."""

import copy
import json
import pickle
from collections import namedtuple
from dataclasses import dataclass
from datetime import date
from enum import IntEnum
from math import isfinite

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackstay.errors import UsageError
from jackstay.types import TextContent, Tool, encode_json, with_members
from jackstay.types._json import LONGEST_PATH, Kept, spell_path

NAN, INFINITY = float("nan"), float("inf")


class Colour(IntEnum):
    RED = 1


@dataclass
class Measured:
    value: float


class Untagged(msgspec.Struct):
    name: str
    extra: object = msgspec.UNSET
    list: list = []


class Tagged(msgspec.Struct, tag="tagged", omit_defaults=True):
    inner: object
    absent: str | None = None


class Word(str):
    __slots__ = ()


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


def circular() -> list:
    value: list = []
    value.append(value)
    return value


# value, and what is written
WRITTEN = [
    (None, "null"),
    ({"a": [1, 2.5, None, True, "é", "null"]}, '{"a":[1,2.5,null,true,"é","null"]}'),
    ((1, (2, None)), "[1,[2,null]]"),
    ({1: None}, '{"1":null}'),
    ([2**64, -(2**70), None], "[18446744073709551616,-1180591620717411303424,null]"),
    ([date(2026, 7, 28), None], '["2026-07-28",null]'),
    ([Colour.RED, None], "[1,null]"),
    ([{1}, None], "[[1],null]"),
    ([Measured(1.5), None], '[{"value":1.5},null]'),
    ([msgspec.Raw(b'{"as": "it is"}'), None], '[{"as": "it is"},null]'),
    ([Untagged("n"), None], '[{"name":"n","list":[]},null]'),
    ([Tagged(None), None], '[{"type":"tagged","inner":null},null]'),
    (namedtuple("Pair", "a b")(1, None), "[1,null]"),
]

# value, path, a part of the sentence
REFUSED = [
    (NAN, "$", "nan is not a JSON number"),
    ({"a": [1, INFINITY]}, "$.a[1]", "inf is not a JSON number"),
    ({"a b": {"c": -INFINITY}}, "$['a b'].c", "-inf is not a JSON number"),
    ((1, NAN), "$[1]", "nan"),
    ([{NAN}], "$[0][0]", "nan"),
    ([Measured(NAN)], "$[0].value", "nan"),
    (Untagged("n", extra={"deep": NAN}), "$.extra.deep", "nan"),
    (Tagged({"x": NAN}), "$.inner.x", "nan"),
    (TextContent("t", meta={"score": NAN}), "$._meta.score", "nan"),
    ({"x": "a\ud800b"}, "$.x", "a lone surrogate (U+D800) is not text"),
    ({"\udfff": 1}, "$", "a lone surrogate (U+DFFF) is not text"),
    ({"\ud800": {"x": NAN}}, "$", "U+D800"),
    ([object()], "$[0]", "an object of type object has no form in JSON"),
    ([Word("w")], "$[0]", "an object of type Word has no form in JSON"),
    ({"f": lambda: 1}, "$.f", "an object of type function has no form in JSON"),
    ({None: 1}, "$", "an object of type NoneType cannot name a member"),
    ({"a": {(1, 2): 1}}, "$.a", "an object of type tuple cannot name a member"),
    ({"n": 10**5000}, "$.n", "an integer is too long to be written"),
    (with_members(TextContent("t"), {"vendor": [NAN]}), "$.vendor[0]", "nan"),
    (with_members(TextContent("t"), {"\ud800": 1}), "$", "U+D800"),
    (circular(), "$", "nested too deeply"),
    (nested(100_000), "$", "nested too deeply"),
]


@pytest.mark.parametrize(("value", "expected"), WRITTEN, ids=[str(index) for index in range(len(WRITTEN))])
def test_what_json_can_say_is_written_as_msgspec_writes_it(value: object, expected: str) -> None:
    assert encode_json(value).decode() == expected


@pytest.mark.parametrize(("value", "path", "sentence"), REFUSED, ids=[str(n) for n in range(len(REFUSED))])
def test_what_json_cannot_say_is_refused_with_its_place(value: object, path: str, sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        encode_json(value)
    assert caught.value.path == path
    assert sentence in caught.value.message


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_json_is_written_and_read_back_unchanged(value: object) -> None:
    assert json.loads(encode_json(value)) == value


@given(VALUES, st.sampled_from([NAN, INFINITY, "\udc80"]))
def test_one_bad_leaf_anywhere_is_found(value: object, bad: object) -> None:
    with pytest.raises(UsageError) as caught:
        encode_json({"good": value, "bad": [value, {"x": bad}]})
    assert caught.value.path == "$.bad[1].x"


def test_a_kept_member_loses_to_a_field_of_its_name() -> None:
    tool = with_members(Tool("t", {}), {"title": None, "vendor": 1})
    assert json.loads(encode_json(tool)) == {"name": "t", "inputSchema": {}, "title": None, "vendor": 1}
    titled = msgspec.structs.replace(tool, title="T")
    assert json.loads(encode_json(titled)) == {"name": "t", "inputSchema": {}, "title": "T", "vendor": 1}


def test_kept_members_are_written_wherever_the_body_is_put() -> None:
    block = with_members(TextContent("t"), {"vendor": {"deep": None}})
    expected = {"text": "t", "type": "text", "vendor": {"deep": None}}
    for parent in ([block], {"a": block}, (block,), Untagged("n", extra=block), Tagged({"b": [block]})):
        assert expected in list(walk(json.loads(encode_json(parent))))


def walk(value: object):
    yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from walk(item)


def test_kept_members_compare_hash_show_copy_and_pickle() -> None:
    kept = Kept({"a": [1]})
    assert kept == Kept({"a": [1]}) != Kept({"a": [2]})
    assert kept != {"a": [1]}
    assert hash(kept) == hash(Kept({"a": [1]}))
    assert repr(kept) == "Kept({'a': [1]})"
    assert pickle.loads(pickle.dumps(kept)) == copy.deepcopy(kept) == kept


@pytest.mark.parametrize(
    ("path", "spelled"),
    [
        (None, "$"),
        (((None, "a"), 3), "$.a[3]"),
        ((None, "a/b"), "$['a/b']"),
        ((None, ""), "$['']"),
        ((None, "\ud800"), r"$['\ud800']"),
        ((None, "x" * 50), "$['" + "x" * 40 + r"\u2026']"),
    ],
)
def test_a_path_is_spelled_as_msgspec_does(path: object, spelled: str) -> None:
    assert spell_path(path) == spelled


def test_a_path_does_not_grow_without_bounds() -> None:
    path = None
    for _ in range(1_000):
        path = (path, "name")
    assert spell_path(path) == "$" + ".name" * 39 + ".nam" + "…"
    assert len(spell_path(path)) == LONGEST_PATH + 1


@given(
    st.floats(),
    st.lists(st.none() | st.floats(allow_nan=False, allow_infinity=False) | st.integers() | st.text()),
)
def test_a_null_that_is_meant_hides_no_number_that_json_has_not(number: float, others: list[object]) -> None:
    """Also where the bytes beside it look alike: whatever is not finite is refused, whatever is finite is written."""
    value = [None, *others, {"x": number}]
    if isfinite(number):
        assert msgspec.json.decode(encode_json(value)) == value
    else:
        with pytest.raises(UsageError, match="not a JSON number"):
            encode_json(value)
