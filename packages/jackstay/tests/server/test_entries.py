"""Checks of names, icons and scopes, and the choice of where a function runs."""

from typing import Any

import pytest

from jackstay.errors import UsageError
from jackstay.server._entries import (
    EntryOptions,
    body_fields,
    check_name,
    check_scopes,
    entry_fields,
    read_icons,
    runs_blocking,
)
from jackstay.server._functions import Function
from jackstay.types import Body, Icon, Tool


def test_valid_names(subtests: pytest.Subtests) -> None:
    for name in ["a", "A.b-c_9", "x" * 128]:
        with subtests.test(name=name):
            assert check_name(name) == name


def test_invalid_names_are_rejected(subtests: pytest.Subtests) -> None:
    for name in ["", "a b", "ü", "<lambda>", "a/b", "x" * 129, "a\n"]:
        with subtests.test(name=name), pytest.raises(UsageError, match="name must be 1 to 128"):
            check_name(name)


def test_an_icon_may_be_only_its_uri() -> None:
    whole = Icon(src="b", theme="dark")
    assert read_icons(["a", whole]) == [Icon(src="a"), whole]
    assert read_icons([]) is None
    assert read_icons(None) is None


def test_meta_is_copied_and_none_if_empty() -> None:
    meta: dict[str, Any] = {"a": 1}
    copy = body_fields("f", Function(now), EntryOptions(meta=meta))["meta"]
    assert copy == meta
    assert copy is not meta
    assert body_fields("f", Function(now), EntryOptions(meta={}))["meta"] is None


def fields_of(body: Body) -> dict[str, Any]:
    return entry_fields("t", body, Function(now), now, EntryOptions())


def test_a_list_item_must_have_a_json_form() -> None:
    assert fields_of(Icon(src="a"))["listed"] == b'{"src":"a"}'
    with pytest.raises(UsageError, match="t cannot be encoded: cannot encode nan") as caught:
        fields_of(Tool(name="t", input_schema={"a": float("nan")}))
    assert caught.value.path == "$.inputSchema.a"


async def later() -> None: ...
def now() -> None: ...


def test_a_plain_function_runs_in_the_pool_unless_it_is_not_blocking(subtests: pytest.Subtests) -> None:
    cases: list[tuple[Any, Any, bool]] = [
        (later, None, False),
        (later, False, False),
        (now, None, True),
        (now, True, True),
        (now, False, False),
    ]
    for call, blocking, expected in cases:
        with subtests.test(call=call, blocking=blocking, expected=expected):
            assert runs_blocking(Function(call), blocking) is expected


def test_an_async_function_cannot_be_blocking() -> None:
    with pytest.raises(UsageError, match="not possible for later: it is async"):
        runs_blocking(Function(later), True)


def test_check_scopes() -> None:
    assert check_scopes(()) == frozenset()
    assert check_scopes("a b") == check_scopes(["a", "b"]) == {"a", "b"}
    for wrong in (['"'], ["ü"], ["a\\b"]):
        with pytest.raises(UsageError, match="invalid scope"):
            check_scopes(wrong)
