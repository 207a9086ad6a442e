"""Names, icons and where a function runs."""

from typing import Any

import pytest

from jackstay.errors import UsageError
from jackstay.server._entries import (
    check_meta,
    check_name,
    check_scopes,
    encode_listed,
    read_icons,
    runs_blocking,
)
from jackstay.server._functions import Function
from jackstay.types import Icon, Tool


@pytest.mark.parametrize("name", ["a", "A.b-c_9", "x" * 128])
def test_a_name_is_taken(name: str) -> None:
    assert check_name(name, "name") == name


@pytest.mark.parametrize("name", ["", "a b", "ü", "<lambda>", "a/b", "x" * 129, "a\n"])
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="name must be 1 to 128"):
        check_name(name, "name")


def test_an_icon_may_be_its_uri_alone() -> None:
    whole = Icon(src="b", theme="dark")
    assert read_icons(["a", whole]) == [Icon(src="a"), whole]
    assert read_icons([]) is None
    assert read_icons(None) is None


def test_meta_is_copied_and_nothing_where_it_is_empty() -> None:
    given: dict[str, Any] = {"a": 1}
    copy = check_meta(given)
    assert copy == given
    assert copy is not given
    assert check_meta({}) is None


def test_a_line_of_a_list_must_be_json() -> None:
    assert encode_listed(Icon(src="a"), "icon") == b'{"src":"a"}'
    with pytest.raises(UsageError, match="t cannot be listed: nan") as caught:
        encode_listed(Tool(name="t", input_schema={"a": float("nan")}), "t")
    assert caught.value.path == "$.inputSchema.a"


async def later() -> None: ...
def now() -> None: ...


@pytest.mark.parametrize(
    ("call", "blocking", "expected"),
    [(later, None, False), (later, False, False), (now, None, True), (now, True, True), (now, False, False)],
)
def test_a_plain_function_goes_to_the_pool_unless_it_never_waits(
    call: Any, blocking: Any, expected: bool
) -> None:
    assert runs_blocking(Function(call), blocking) is expected


def test_an_async_function_cannot_be_run_in_a_thread() -> None:
    with pytest.raises(UsageError, match="later is async"):
        runs_blocking(Function(later), True)


def test_scopes_are_a_set_and_a_text_may_hold_several() -> None:
    assert check_scopes(()) == frozenset()
    assert check_scopes("a b") == check_scopes(["a", "b"]) == {"a", "b"}
    for wrong in (['"'], ["ü"], ["a\\b"]):
        with pytest.raises(UsageError, match="not a scope"):
            check_scopes(wrong)
