"""Declarations of settings, and what is derived from them."""

from typing import Annotated, Literal, get_type_hints

import pytest

from jackstay.errors import UnexpectedOptionError, UsageError
from jackstay.protocol import Setting, SettingsBase, keywords, refuse_unknown, settings_of


class Sizes(SettingsBase, frozen=True, kw_only=True):
    """An example."""

    # fmt: off
    width: Annotated[int, Setting("The width.", low=1)] = 3
    height: Annotated[float | None, Setting("The height.", low=0, high=5)] = None
    shape: Annotated[Literal["round", "square"], Setting("The shape.")] = "round"
    is_open: Annotated[bool, Setting("Whether it is open.")] = False
    label: Annotated[str | None, Setting("The label.")] = None
    key: Annotated[bytes | None, Setting("The key.", is_valid=lambda value: value == b"key", expected="bytes",
        is_secret=True)] = None
    note: str = ""
    # fmt: on


def test_the_type_and_the_name_are_part_of_the_declaration() -> None:
    assert {name: (row.name, row.range) for name, row in settings_of(Sizes).items()} == {
        "width": ("width", "an int from 1"),
        "height": ("height", "a number from 0 to 5, or None"),
        "shape": ("shape", '"round" or "square"'),
        "is_open": ("is_open", "True or False"),
        "label": ("label", "a str, or None"),
        "key": ("key", "bytes, or None"),
    }


REFUSED = [
    ({"width": 0}, "width must be an int from 1, not 0"),
    ({"width": None}, "width must be an int from 1, not None"),
    ({"height": 6}, "height must be a number from 0 to 5, or None, not 6"),
    ({"shape": "flat"}, 'shape must be "round" or "square", not \'flat\''),
    ({"is_open": 1}, "is_open must be True or False, not 1"),
    ({"label": 1}, "label must be a str, or None, not 1"),
    ({"key": b"secret"}, "key must be bytes, or None, not bytes"),
]


def test_a_group_is_checked_on_construction(subtests: pytest.Subtests) -> None:
    for given, message in REFUSED:
        with subtests.test(given=given), pytest.raises(UsageError) as caught:
            Sizes(**given)
        assert str(caught.value) == message
    assert Sizes(width=1, height=0, shape="square", is_open=True, label="x", key=b"key").width == 1


def test_an_unknown_keyword_is_refused() -> None:
    with pytest.raises(UnexpectedOptionError, match=r"make\(\) got an unexpected option 'widht'; did you mean 'width'"):
        Sizes.from_keywords("make()", {"widht": 1})
    assert Sizes.from_keywords("make()", {"width": 1}) == Sizes(width=1)
    refuse_unknown(["a"], ["a", "b"], "make()")


def test_keywords_have_the_types_of_the_settings() -> None:
    class More(SettingsBase, frozen=True, kw_only=True):
        depth: Annotated[int, Setting("The depth.", low=1)] = 1

    found = keywords("Keywords", Sizes, More, without=("note", "key", "label"))
    assert get_type_hints(found) == {
        "width": int,
        "height": float | None,
        "shape": Literal["round", "square"],
        "is_open": bool,
        "depth": int,
    }
    assert not found.__total__
