"""Validation of tool arguments: every failure is INVALID_INPUT with the name of the argument."""

from typing import Any

import msgspec
import pytest

from procontext.errors import ProContextError
from procontext.tools._arguments import (
    IndexArguments,
    PageArguments,
    ResolveArguments,
    SearchArguments,
    read_arguments,
)

# (type, arguments, error)
INVALID: list[tuple[type[msgspec.Struct], dict[str, Any], str]] = [
    (ResolveArguments, {}, "query is missing"),
    (ResolveArguments, {"query": ""}, "query: expected str of length >= 1"),
    (ResolveArguments, {"query": "x" * 501}, "query: expected str of length <= 500"),
    (ResolveArguments, {"query": 3}, "query: expected str, got int"),
    (ResolveArguments, {"query": None}, "query: expected str, got null"),
    (IndexArguments, {"library_id": "Bad Id"}, "library_id: expected an identifier such as 'fastapi'"),
    (IndexArguments, {"library_id": "a\n"}, "library_id: expected an identifier such as 'fastapi'"),
    (IndexArguments, {"library_id": "-a"}, "library_id: expected an identifier such as 'fastapi'"),
    (IndexArguments, {"library_id": "a", "offset": 0}, "offset: expected int >= 1"),
    (IndexArguments, {"library_id": "a", "limit": 0}, "limit: expected int >= 1"),
    (PageArguments, {"url": "x" * 2049}, "url: expected str of length <= 2048"),
    (PageArguments, {"url": ""}, "url: expected str of length >= 1"),
    (PageArguments, {"url": "https://a", "offset": 0}, "offset: expected int >= 1"),
    (PageArguments, {"url": "https://a", "offset": -5}, "offset: expected int >= 1"),
    (PageArguments, {"url": "https://a", "offset": "1"}, "offset: expected int, got str"),
    (PageArguments, {"url": "https://a", "offset": 1.5}, "offset: expected int, got float"),
    (PageArguments, {"url": "https://a", "limit": 0}, "limit: expected int >= 1"),
    (PageArguments, {"url": "https://a", "limit": True}, "limit: expected int, got bool"),
    (PageArguments, {"url": "https://a", "heading": ""}, "heading: expected str of length >= 1"),
    (SearchArguments, {"library_id": "a", "query": "x", "limit": 51}, "limit: expected int <= 50"),
    (SearchArguments, {"library_id": "a"}, "query is missing"),
]


def test_invalid_arguments(subtests: pytest.Subtests) -> None:
    for kind, given, problem in INVALID:
        with subtests.test(kind=kind, problem=problem):
            with pytest.raises(ProContextError) as raised:
                read_arguments(kind, given)
            assert (raised.value.code, raised.value.recoverable) == ("INVALID_INPUT", False)
            assert problem in raised.value.message


def test_defaults_and_unknown_arguments() -> None:
    found = read_arguments(PageArguments, {"url": "https://a", "colour": "red"})
    assert found == PageArguments("https://a", 1, 2000, None)
    assert read_arguments(PageArguments, {"url": "https://a", "offset": 2.0}).offset == 2
    assert read_arguments(SearchArguments, {"library_id": "a", "query": "b"}).limit == 5


def test_arguments_at_their_bounds() -> None:
    assert len(read_arguments(ResolveArguments, {"query": "x" * 500}).query) == 500
    assert len(read_arguments(PageArguments, {"url": "x" * 2048}).url) == 2048
    assert read_arguments(IndexArguments, {"library_id": "0_-a", "offset": 1, "limit": 1}).limit == 1
