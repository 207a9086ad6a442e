"""Names of tools and arguments."""

import re

from hypothesis import given
from hypothesis import strategies as st

from jackstay.openapi._names import MAX_NAME, argument_names, plain, tool_names


def test_the_operation_id_or_the_method_and_the_path() -> None:
    rows = [("get", "/a", "repos/list-all"), ("get", "/users/{id}", ""), ("post", "/", ""), ("put", "/ü", "é")]
    assert tool_names(rows) == ["repos_list-all", "get_users_id", "post", "unnamed"]


def test_ids_of_fastapi_lose_the_path() -> None:
    row = ("get", "/items/{item_id}", "read_item_items__item_id__get")
    assert tool_names([row]) == ["read_item"]
    other = ("get", "/v2/items/{item_id}", "read_item_v2_items__item_id__get")
    assert tool_names([row, other]) == ["read_item_items_item_id_get", "read_item_v2_items_item_id_get"]
    assert tool_names([row], frozenset(["read_item"])) == ["read_item_items_item_id_get"]


def test_long_and_equal_names_get_a_hash() -> None:
    rows = [("get", "/a", "x" * 100), ("get", "/b", "a.b"), ("get", "/c", "a/b")]
    names = tool_names(rows)
    assert [len(name) for name in names] == [64, 12, 12]
    assert all(re.fullmatch(r"(x+|a_b)_[0-9a-f]{8}", name) for name in names)


@given(
    st.lists(
        st.tuples(st.sampled_from(["get", "put"]), st.text(max_size=90), st.text(max_size=90)),
        unique_by=lambda row: row[:2],
    )
)
def test_names_are_unique_valid_and_independent_of_the_order(rows: list[tuple[str, str, str]]) -> None:
    names = tool_names(rows)
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in names)
    assert dict(zip(rows, names, strict=True)) == dict(zip(rows[::-1], tool_names(rows[::-1]), strict=True))


def test_arguments() -> None:
    keys = [("path", "id"), ("query", "id"), ("query", "filter[name]"), ("header", "X-A"), ("query", "$top")]
    assert list(argument_names(keys).values()) == ["id_path", "id_query", "filter_name", "X-A", "top"]
    assert plain("a.b", ".") == "a.b"


@given(st.lists(st.tuples(st.sampled_from(["path", "query"]), st.text(max_size=80)), unique=True))
def test_arguments_are_unique_and_valid(keys: list[tuple[str, str]]) -> None:
    names = list(argument_names(keys).values())
    assert len(set(names)) == len(names) == len(keys)
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]+", name) and len(name) <= MAX_NAME for name in names)
