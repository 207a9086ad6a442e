"""Operations of a document: what is read, what is left out, and the complete request."""

from typing import Any

import pytest

from jackstay.openapi import Document, OpenApiError, Operation, Reader, Request, build_request
from jackstay.openapi import _operations as module
from jackstay.openapi._parameters import Written
from scripted.openapi_documents import document, get, parameter, read, read_one, read_problem


def test_every_method_is_read_and_extensions_are_not() -> None:
    item = {method: {"responses": {}} for method in module.METHODS}
    found = read(document({"/x": {**item, "x-other": 1, "summary": "s"}, "x-note": {"get": {}}}))
    assert [str(row) for row in found] == [f"{method.upper()} /x" for method in module.METHODS]


def test_descriptions() -> None:
    operation = read_one(
        document({"/x": get(summary="Find.", description="Find", deprecated=True, tags=["a", 1], operationId="f")})
    )
    assert (operation.title, operation.description) == ("Find.", "Find\n\nDeprecated.")
    assert (operation.tags, str(operation)) == (("a",), "GET /x (f)")
    assert len(read_one(document({"/x": get(description="x" * 9999)})).description) == module.MAX_DESCRIPTION
    assert read_one(document({"/x": {**get(tags="no"), "summary": "S"}})).description == "S"


def test_a_path_item_may_be_a_reference() -> None:
    root = document({"/x": {"$ref": "#/components/pathItems/X"}}, components={"pathItems": {"X": get()}})
    assert read_one(root).path == "/x"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("x", "'x' is not a valid path"),
        ("/x?y", "is not a valid path"),
        ("/x\n", "is not a valid path"),
        ("/{a", "is not a valid path"),
        ("/{id}/{id}", "a variable occurs twice"),
        ("/{id}", "the path variable 'id' has no parameter"),
    ],
)
def test_a_path_that_cannot_be_served(path: str, message: str) -> None:
    problem = read_problem(document({path: get()}))
    assert message in str(problem)


def test_a_problem_costs_only_its_operation() -> None:
    paths = {
        "/a": {"get": {"responses": {}}, "post": 3},
        "/b": {"$ref": "https://example.org"},
        "/c": get(parameter("x", schema={"type": "strin"}), operationId="broken"),
        "/d": get(),
    }
    found = read(document(paths))
    assert [isinstance(row, Operation) for row in found] == [True, False, False, False, True]
    assert [str(row) for row in found if isinstance(row, OpenApiError)] == [
        "POST /a: post must be an object, not int (at #/paths/~1a/post)",
        "/b: $ref 'https://example.org': remote references are not fetched; bundle the document first "
        "(at #/paths/~1b/$ref)",
        "GET /c (broken): type must be one of array, boolean, integer, null, number, object, string, not 'strin' "
        "(at #/paths/~1c/get/parameters/0/schema/type)",
    ]


def test_recursion_without_end_is_a_problem_of_the_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise RecursionError

    monkeypatch.setattr(module, "read_body", fail)
    assert "nested too deeply" in str(read_problem(document({"/x": {"post": {}}})))


def test_the_input_schema() -> None:
    rows = [parameter("a", required=True, description="d"), parameter("b", schema=True, description="e")]
    assert read_one(document({"/x": get(*rows)})).input_schema == {
        "type": "object",
        "properties": {"a": {"type": "string", "description": "d"}, "b": {"description": "e"}},
        "additionalProperties": False,
        "required": ["a"],
    }


def test_what_the_author_adds_comes_last_and_replaces_headers() -> None:
    operation = read_one(document({"/x": get(parameter("q"), parameter("X-Key", "header"), parameter("c", "cookie"))}))
    more = Written(query=[("key", "s")], headers=[("x-key", "own")], cookies=[("sid", "1")])
    made = build_request(operation, {"q": "1", "X-Key": "caller", "c": "2"}, more)
    assert made == Request("GET", "/x?q=1&key=s", (("x-key", "own"), ("Cookie", "c=2; sid=1")), None)


def test_json_is_requested_where_the_document_promises_it() -> None:
    responses = {"200": {"content": {"application/json": {"schema": {"type": "object"}}}}}
    operation = read_one(document({"/x": get(responses=responses)}))
    assert build_request(operation, {}).headers == (("Accept", "application/json"),)


def test_a_document_without_paths_has_no_operations() -> None:
    assert list(Reader(Document({"openapi": "3.1.0"})).operations()) == []
