"""References, cycles and limits."""

from typing import Any

import pytest

from jackstay.openapi import Document, OpenApiError
from jackstay.openapi import _document as module
from jackstay.openapi._document import Node, flag
from jackstay.openapi._problems import join

INFO = {"info": {"title": "t", "version": "1"}, "paths": {}}


def make(**more: Any) -> Document:
    return Document({"openapi": "3.0.3", **INFO, **more})


@pytest.mark.parametrize(("version", "is_30"), [("3.0.0", True), ("3.0.4", True), ("3.1.0", False), ("3.1.1", False)])
def test_supported_versions(version: str, is_30: bool) -> None:
    assert Document({"openapi": version, **INFO}).is_30 is is_30


@pytest.mark.parametrize(
    ("root", "message"),
    [
        ({"swagger": "2.0"}, "Swagger 2.0 is not supported: convert the document"),
        ({}, "'openapi' must be 3.0.x or 3.1.x, not None"),
        ({"openapi": "4.0"}, "not '4.0' (at #/openapi)"),
        ({"openapi": 3.1}, "not 3.1"),
    ],
)
def test_other_versions_are_refused(root: dict[str, Any], message: str) -> None:
    with pytest.raises(OpenApiError) as caught:
        Document(root)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("other.yaml#/x", "remote references are not fetched; bundle the document first"),
        ("http://example.org/x", "remote references are not fetched"),
        ("#/components/nothing", "'#/components/nothing' does not exist (at #/here/$ref)"),
        ("#/list/9", "does not exist"),
        ("#/list/0", "is not an object"),
        ("#anchor", "anchors are not supported"),
        (7, "$ref must be a string, not int"),
        ("#/loop", "cycle"),
    ],
)
def test_a_bad_reference_names_its_place(reference: Any, message: str) -> None:
    loaded = make(list=["x"], loop={"$ref": "#/pool"}, pool={"$ref": "#/loop"})
    with pytest.raises(OpenApiError) as caught:
        loaded.resolve(Node({"$ref": reference}, "#/here"))
    assert message in str(caught.value)


def test_references_are_decoded() -> None:
    loaded = make(**{"a/b~c d": {"list": [{"x": 1}]}})
    assert loaded.resolve(Node({"$ref": "#/a~1b~0c%20d/list/0"}, "#")).value == {"x": 1}
    assert loaded.target("#", "#").value is loaded.root
    assert join("#", "a/b~c", 3) == "#/a~1b~0c/3"


def test_members_and_items_have_the_right_types() -> None:
    loaded = make(object={"inner": 3}, list=[1], text="x")
    root = Node(loaded.root, "#")
    assert loaded.member(root, "missing", "more").value == {}
    assert list(loaded.items(root, "missing")) == []
    with pytest.raises(OpenApiError, match="inner must be an object, not int"):
        loaded.member(root, "object", "inner")
    with pytest.raises(OpenApiError, match="text must be a list, not str"):
        list(loaded.items(root, "text"))
    with pytest.raises(OpenApiError, match=r"list\[0\] must be an object, not int"):
        list(loaded.items(root, "list"))
    with pytest.raises(OpenApiError, match="text must be true or false, not 'x'"):
        flag(root, "text")


def test_a_cycle_is_found_through_other_schemas() -> None:
    schemas = {
        "A": {"properties": {"b": {"$ref": "#/components/schemas/B"}}},
        "B": {"items": [{"$ref": "#/components/schemas/A"}, {"$ref": "#/nowhere"}]},
        "C": {"$ref": "#/components/schemas/A"},
    }
    loaded = make(components={"schemas": schemas})
    cyclic = {name: loaded.is_cyclic(f"#/components/schemas/{name}") for name in schemas}
    assert cyclic == {"A": True, "B": True, "C": False}


def test_a_document_that_is_too_deep_or_contains_itself_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    deep: Any = {}
    for _ in range(module.MAX_DEPTH):
        deep = [deep]
    with pytest.raises(OpenApiError, match="nested too deeply"):
        make(deep=deep)
    endless: dict[str, Any] = {}
    endless["x"] = endless
    with pytest.raises(OpenApiError, match="nested too deeply"):
        make(endless=endless)
    monkeypatch.setattr(module, "MAX_DOCUMENT_BYTES", 3)
    with pytest.raises(OpenApiError, match="too large"):
        make(wide=[[], [], [], []])
