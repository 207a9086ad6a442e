"""Errors with the place in the document."""

from jackstay.openapi import OpenApiError
from jackstay.openapi._problems import escape, join, names_of


def test_an_error_names_the_operation_once() -> None:
    error = OpenApiError("bad type", pointer="#/paths/~1x/get")
    assert str(error) == "bad type (at #/paths/~1x/get)"
    named = error.about("GET /x")
    assert str(named) == "GET /x: bad type (at #/paths/~1x/get)"
    assert named.about("other") is named
    assert (named.reason, named.pointer, named.operation) == ("bad type", "#/paths/~1x/get", "GET /x")


def test_pointers() -> None:
    assert join("#", "a/b", 0, "~") == "#/a~1b/0/~0"
    assert escape("/~") == "~1~0"
    assert names_of(["a", 1]) == "'a', 1"
