"""Parameters: reading, their places in a request, and values that must not be sent."""

from typing import Any

import msgspec
import pytest

from jackstay.openapi import Request, build_request
from jackstay.openapi._parameters import BadArgumentError
from scripted.openapi_documents import document, get, parameter, read_one, read_problem


def request(arguments: dict[str, Any], *parameters: dict[str, Any], path: str = "/x") -> Request:
    return build_request(read_one(document({path: get(*parameters)})), arguments)


def test_each_location() -> None:
    made = request(
        {"id": "a b", "q": ["1", "2"], "X-Tag": "é", "sid": 'a"b'},
        parameter("id", "path", required=True),
        parameter("q", schema={"type": "array"}),
        parameter("X-Tag", "header"),
        parameter("sid", "cookie"),
        path="/pets/{id}/x",
    )
    assert made.target == "/pets/a%20b/x?q=1&q=2"
    assert made.headers == (("X-Tag", "é"), ("Cookie", "sid=a%22b"))


@pytest.mark.parametrize(
    ("more", "value", "target"),
    [
        ({"style": "label"}, ["a", "b"], "/.a,b"),
        ({"style": "label", "explode": True}, ["a", "b"], "/.a.b"),
        ({"style": "matrix", "explode": True}, ["a", "b"], "/;id=a;id=b"),
        ({"explode": True}, {"k": "v", "l": "w"}, "/k=v,l=w"),
        ({"content": {"application/json": {"schema": {}}}}, {"k": 1}, "/%7B%22k%22%3A1%7D"),
    ],
)
def test_path_styles(more: Any, value: Any, target: str) -> None:
    assert request({"id": value}, parameter("id", "path", **more), path="/{id}").target == target


@pytest.mark.parametrize(
    ("more", "value", "query"),
    [
        ({"explode": False}, ["a,b", "c"], "q=a%2Cb,c"),
        ({"style": "pipeDelimited", "explode": False}, ["a", "b"], "q=a%7Cb"),
        ({"style": "spaceDelimited", "explode": False}, ["a", "b"], "q=a%20b"),
        ({"style": "deepObject"}, {"a": 1}, "q%5Ba%5D=1"),
        ({"allowReserved": True}, "a/b?c&d", "q=a/b?c%26d"),
        ({"content": {"application/json": {"schema": {}}}}, [1], "q=%5B1%5D"),
        ({"content": {"text/plain": {"schema": {}}}}, "a b", "q=a%20b"),
        ({"content": {"application/json": {"schema": {}}}}, "a", "q=%22a%22"),
    ],
)
def test_query_styles(more: Any, value: Any, query: str) -> None:
    assert request({"q": value}, parameter("q", **more)).target == f"/x?{query}"


def test_header_and_cookie_values() -> None:
    rows = [parameter("H", "header", explode=True), parameter("c", "cookie"), parameter("d", "cookie", explode=False)]
    made = request({"H": {"a": 1, "b": "x y"}, "c": ["1", "2"], "d": ["1", "2"]}, *rows)
    assert made.headers == (("H", "a=1,b=x y"), ("Cookie", "c=1; c=2; d=1,2"))


@pytest.mark.parametrize(
    ("location", "value", "message"),
    [
        ("path", "..", "id: an empty value, '.' and '..' are not allowed in a path"),
        ("path", "", "an empty value"),
        ("path", [], "an empty value"),
        ("path", "a/b", "id: a slash is not allowed in this part of the path"),
        ("path", ["a", "b\\c"], "a slash is not allowed"),
        ("path", {"a/b": "c"}, "a slash is not allowed"),
        ("header", "a\r\nb", "control characters are not allowed in a header"),
        ("header", "a\x7f", "control characters"),
        ("header", "☃", "only Latin-1 characters are allowed in a header"),
        ("query", [[1]], "a list inside a list or an object cannot be sent in this style"),
        ("query", {"a": {}}, "an object inside"),
        ("cookie", {"a": [1]}, "a list inside"),
    ],
)
def test_a_value_that_must_not_be_sent(location: str, value: Any, message: str) -> None:
    path = "/{id}" if location == "path" else "/x"
    with pytest.raises(BadArgumentError) as caught:
        request({"id": value}, parameter("id", location), path=path)
    assert message in str(caught.value)


def test_the_name_of_a_cookie_in_an_object_is_checked() -> None:
    with pytest.raises(BadArgumentError, match="is not a valid name of a cookie"):
        request({"c": {"a=b": "x"}}, parameter("c", "cookie"))


def test_missing_values() -> None:
    rows = [parameter("a", required=True), parameter("b")]
    assert request({"a": "1", "b": None}, *rows).target == "/x?a=1"
    with pytest.raises(BadArgumentError, match="a: a value is required"):
        request({"b": "1"}, *rows)


def test_slashes_are_kept_where_they_are_allowed() -> None:
    operation = read_one(document({"/f/{p}": get(parameter("p", "path"))}))
    allowed = tuple(msgspec.structs.replace(row, allow_slashes=True) for row in operation.parameters)
    operation = msgspec.structs.replace(operation, parameters=allowed)
    assert build_request(operation, {"p": "a b/c"}).target == "/f/a%20b/c"
    with pytest.raises(BadArgumentError, match="not allowed in a path"):
        build_request(operation, {"p": "a/../b"})


def test_an_operation_replaces_parameters_of_its_path() -> None:
    item = {
        **get(parameter("a", description="own"), parameter("X-H", "header")),
        "parameters": [parameter("a"), parameter("b"), parameter("x-h", "header")],
    }
    found = read_one(document({"/x": item}))
    assert [(row.name, row.description) for row in found.parameters] == [("a", "own"), ("b", ""), ("X-H", "")]


def test_headers_of_the_message_are_no_parameters() -> None:
    names = ("Accept", "content-type", "Authorization", "Host", "Transfer-Encoding")
    assert read_one(document({"/x": get(*(parameter(name, "header") for name in names))})).parameters == ()


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"in": "query"}, "a parameter must have a name (at #/paths/~1x/get/parameters/0)"),
        ({"name": "a", "in": "body"}, "'in' must be one of 'path', 'query', 'header', 'cookie', not 'body'"),
        (parameter("a", style="simple"), "the style of a query parameter must be one of 'form'"),
        (parameter("a", explode="yes"), "explode must be true or false, not 'yes'"),
        (parameter("a b", "header"), "'a b' is not a valid name of a header"),
        (parameter("a b", "cookie"), "'a b' is not a valid name of a cookie"),
        (parameter("Host", "header", required=True), "the header 'Host' cannot be a parameter"),
        (parameter("a", content={"a/b": {}, "c/d": {}}), "content must have one media type"),
        (parameter("a", content={"application/xml": {}}), "'application/xml' is not supported"),
        (parameter("a", "path"), "the path has no variable for the parameter 'a'"),
        ({"$ref": "#/components/parameters/none"}, "does not exist"),
    ],
)
def test_a_parameter_that_cannot_be_served(row: dict[str, Any], message: str) -> None:
    problem = read_problem(document({"/x": get(row)}))
    assert message in str(problem)
    assert problem.operation == "GET /x"
