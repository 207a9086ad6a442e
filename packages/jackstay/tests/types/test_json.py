"""Encoding as JSON, and errors with their paths."""

import copy
import json
import pickle
from collections import namedtuple
from dataclasses import dataclass
from datetime import date
from enum import Enum, IntEnum
from math import isfinite

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackstay.errors import UsageError
from jackstay.types import TextContent, Tool, encode_json, with_members
from jackstay.types._json import MAX_PATH_LENGTH, ExtraMembers, spell_path

NAN, INFINITY = float("nan"), float("inf")


class Colour(IntEnum):
    RED = 1


@dataclass
class Measured:
    value: float


class Handler(Enum):
    PRINT = (print,)


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


# Value, JSON.
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

# Value, path, a part of the message.
INVALID = [
    (NAN, "$", "cannot encode nan as JSON"),
    ({"a": [1, INFINITY]}, "$.a[1]", "cannot encode inf as JSON"),
    ({"a b": {"c": -INFINITY}}, "$['a b'].c", "cannot encode -inf as JSON"),
    ((1, NAN), "$[1]", "nan"),
    ([{NAN}], "$[0][0]", "nan"),
    ([Measured(NAN)], "$[0].value", "nan"),
    (Untagged("n", extra={"deep": NAN}), "$.extra.deep", "nan"),
    (Tagged({"x": NAN}), "$.inner.x", "nan"),
    (TextContent("t", meta={"score": NAN}), "$._meta.score", "nan"),
    ({"x": "a\ud800b"}, "$.x", "the str has a lone surrogate (U+D800)"),
    ({"\udfff": 1}, "$", "the str has a lone surrogate (U+DFFF)"),
    ({"\ud800": {"x": NAN}}, "$", "U+D800"),
    ([object()], "$[0]", "cannot encode object as JSON"),
    ([Word("w")], "$[0]", "cannot encode Word as JSON"),
    ([Handler.PRINT], "$", "cannot encode as JSON: Encoding objects of type"),
    (Measured(object()), "$.value", "cannot encode object as JSON"),
    ({"f": lambda: 1}, "$.f", "cannot encode function as JSON"),
    ({None: 1}, "$", "cannot encode NoneType as a JSON member name"),
    ({"a": {(1, 2): 1}}, "$.a", "cannot encode tuple as a JSON member name"),
    ({"n": 10**5000}, "$.n", "the int has too many digits"),
    (with_members(TextContent("t"), {"vendor": [NAN]}), "$.vendor[0]", "nan"),
    (with_members(TextContent("t"), {"\ud800": 1}), "$", "U+D800"),
    (circular(), "$", "nested too deeply"),
    (nested(100_000), "$", "nested too deeply"),
]


def test_json_values_are_written_as_by_msgspec() -> None:
    for value, expected in WRITTEN:
        assert encode_json(value).decode() == expected


def test_values_that_json_cannot_represent_are_rejected_with_their_path() -> None:
    for value, path, message in INVALID:
        with pytest.raises(UsageError) as caught:
            encode_json(value)
        assert caught.value.path == path
        assert message in caught.value.message


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_json_round_trips(value: object) -> None:
    assert json.loads(encode_json(value)) == value


@given(VALUES, st.sampled_from([NAN, INFINITY, "\udc80"]))
def test_one_invalid_leaf_is_found(value: object, bad: object) -> None:
    with pytest.raises(UsageError) as caught:
        encode_json({"good": value, "bad": [value, {"x": bad}]})
    assert caught.value.path == "$.bad[1].x"


def test_a_field_takes_precedence_over_an_extra_member() -> None:
    tool = with_members(Tool("t", {}), {"title": None, "vendor": 1})
    assert json.loads(encode_json(tool)) == {"name": "t", "inputSchema": {}, "title": None, "vendor": 1}
    titled = msgspec.structs.replace(tool, title="T")
    assert json.loads(encode_json(titled)) == {"name": "t", "inputSchema": {}, "title": "T", "vendor": 1}


def test_extra_members_are_written_at_any_depth() -> None:
    block = with_members(TextContent("t"), {"vendor": {"deep": None}})
    expected = {"text": "t", "type": "text", "vendor": {"deep": None}}
    for parent in ([block], {"a": block}, (block,), Untagged("n", extra=block), Tagged({"b": [block]})):
        assert expected in list(walk(json.loads(encode_json(parent))))


def walk(value: object):
    yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from walk(item)


def test_extra_members_compare_hash_copy_and_pickle() -> None:
    extra = ExtraMembers({"a": [1]})
    assert extra == ExtraMembers({"a": [1]}) != ExtraMembers({"a": [2]})
    assert extra != {"a": [1]}
    assert hash(extra) == hash(ExtraMembers({"a": [1]}))
    assert repr(extra) == "Kept({'a': [1]})"
    assert pickle.loads(pickle.dumps(extra)) == copy.deepcopy(extra) == extra


def test_a_path_is_formatted_like_by_msgspec() -> None:
    for path, spelled in [
        (None, "$"),
        (((None, "a"), 3), "$.a[3]"),
        ((None, "a/b"), "$['a/b']"),
        ((None, ""), "$['']"),
        ((None, "\ud800"), r"$['\ud800']"),
        ((None, "x" * 50), "$['" + "x" * 40 + r"\u2026']"),
    ]:
        assert spell_path(path) == spelled


def test_a_path_is_truncated() -> None:
    path = None
    for _ in range(1_000):
        path = (path, "name")
    assert spell_path(path) == "$" + ".name" * 39 + ".nam" + "…"
    assert len(spell_path(path)) == MAX_PATH_LENGTH + 1


@given(
    st.floats(),
    st.lists(st.none() | st.floats(allow_nan=False, allow_infinity=False) | st.integers() | st.text()),
)
def test_a_valid_null_does_not_hide_a_number_that_is_not_finite(number: float, others: list[object]) -> None:
    """Also if other data looks alike: a number is rejected if and only if it is not finite."""
    value = [None, *others, {"x": number}]
    if isfinite(number):
        assert msgspec.json.decode(encode_json(value)) == value
    else:
        with pytest.raises(UsageError, match="as JSON"):
            encode_json(value)
