"""Every style with every kind of value: the examples of OpenAPI 3.1.1 ("Style Examples") and of RFC 6570."""

from typing import Any

import pytest

from jackstay.openapi import _styles as styles

ARRAY = ["blue", "black", "brown"]
OBJECT = {"R": 100, "G": 200, "B": 150}
encode = styles.encode_component


@pytest.mark.parametrize(
    ("style", "explode", "value", "expected"),
    [
        ("simple", False, "blue", "blue"),
        ("simple", False, ARRAY, "blue,black,brown"),
        ("simple", True, ARRAY, "blue,black,brown"),
        ("simple", False, OBJECT, "R,100,G,200,B,150"),
        ("simple", True, OBJECT, "R=100,G=200,B=150"),
        ("label", False, "blue", ".blue"),
        ("label", False, ARRAY, ".blue,black,brown"),
        ("label", True, ARRAY, ".blue.black.brown"),
        ("label", False, OBJECT, ".R,100,G,200,B,150"),
        ("label", True, OBJECT, ".R=100.G=200.B=150"),
        ("matrix", False, "blue", ";color=blue"),
        ("matrix", False, ARRAY, ";color=blue,black,brown"),
        ("matrix", True, ARRAY, ";color=blue;color=black;color=brown"),
        ("matrix", False, OBJECT, ";color=R,100,G,200,B,150"),
        ("matrix", True, OBJECT, ";R=100;G=200;B=150"),
    ],
)
def test_a_path_parameter(style: str, explode: bool, value: Any, expected: str) -> None:
    if style == "matrix":
        assert styles.matrix("color", value, explode, encode) == expected
    else:
        assert {"simple": styles.simple, "label": styles.label}[style](value, explode, encode) == expected


@pytest.mark.parametrize(
    ("style", "explode", "value", "expected"),
    [
        ("form", False, "blue", "color=blue"),
        ("form", False, "", "color="),
        ("form", False, ARRAY, "color=blue,black,brown"),
        ("form", True, ARRAY, "color=blue&color=black&color=brown"),
        ("form", False, OBJECT, "color=R,100,G,200,B,150"),
        ("form", True, OBJECT, "R=100&G=200&B=150"),
        ("spaceDelimited", False, ARRAY, "color=blue%20black%20brown"),
        ("spaceDelimited", True, ARRAY, "color=blue&color=black&color=brown"),
        ("pipeDelimited", False, ARRAY, "color=blue%7Cblack%7Cbrown"),
        ("pipeDelimited", False, OBJECT, "color=R%7C100%7CG%7C200%7CB%7C150"),
        ("deepObject", True, OBJECT, "color%5BR%5D=100&color%5BG%5D=200&color%5BB%5D=150"),
        (
            "deepObject",
            True,
            {"a": {"b": [1, None, 2]}, "c": None},
            "color%5Ba%5D%5Bb%5D%5B0%5D=1&color%5Ba%5D%5Bb%5D%5B2%5D=2",
        ),
        ("form", False, [], ""),
        ("form", False, {}, ""),
        ("form", True, [None], ""),
    ],
)
def test_a_query_parameter(style: str, explode: bool, value: Any, expected: str) -> None:
    rows = styles.query("color", value, style, explode, encode)
    assert "&".join(f"{name}={item}" for name, item in rows) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, "true"),
        (False, "false"),
        (1, "1"),
        (1.0, "1"),
        (1.5, "1.5"),
        (1e300, "1e300"),
        ("x", "x"),
        (2**70, str(2**70)),
    ],
)
def test_a_primitive(value: Any, expected: str) -> None:
    assert styles.primitive(value) == expected


@pytest.mark.parametrize("value", [[[1]], [{"a": 1}], {"a": [1]}, {"a": {"b": 1}}])
def test_a_nested_value_is_refused(value: Any) -> None:
    with pytest.raises(styles.UnsuitableValueError, match="cannot be sent in this style"):
        styles.query("color", value, "form", True, encode)


def test_reserved_characters_are_kept_only_where_they_have_no_other_meaning() -> None:
    every = ":/?#[]@!$&'()*+,;=é %"
    assert styles.encode_component(every) == "%3A%2F%3F%23%5B%5D%40%21%24%26%27%28%29%2A%2B%2C%3B%3D%C3%A9%20%25"
    assert styles.encode_reserved(every) == ":/?%23%5B%5D@!$%26'()*%2B,;=%C3%A9%20%25"
    assert styles.keep(every) == every
