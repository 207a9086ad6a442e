"""Translation of schemas: dialects, references, directions, limits."""

import json
from typing import Any

import pytest

from jackstay.openapi import Document, OpenApiError, _schemas
from jackstay.openapi._schemas import MAX_INLINE_BYTES, Schemas
from jackstay.server._json_schema import compile_validator
from scripted.openapi_documents import document


def translate(schema: Any, version: str = "3.1.0", direction: Any = "request", **components: Any) -> Any:
    root = document({}, version, components={"schemas": components})
    found = Schemas(Document(root), direction).translate(
        {"x": (schema, "#/x")}, lambda parts: {"type": "object", "properties": dict(parts)}, "#/x"
    )
    compile_validator(found, "test")  # every result is a valid schema
    properties: Any = found["properties"]
    return {**properties["x"], "$defs": found["$defs"]} if "$defs" in found else properties["x"]


def ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        ({"type": "string", "nullable": True, "enum": ["a"]}, {"type": ["string", "null"], "enum": ["a", None]}),
        ({"enum": ["a", None], "nullable": True, "type": "string"}, {"enum": ["a", None], "type": ["string", "null"]}),
        ({"nullable": True}, {}),
        (
            {"nullable": True, "description": "d", "allOf": [ref("A")]},
            {"description": "d", "anyOf": [{"allOf": [{"type": "integer"}]}, {"type": "null"}]},
        ),
        ({"minimum": 1, "exclusiveMinimum": True}, {"exclusiveMinimum": 1}),
        ({"maximum": 1, "exclusiveMaximum": False}, {"maximum": 1}),
        ({"exclusiveMaximum": True}, {}),
        ({**ref("A"), "title": "ignored"}, {"type": "integer"}),
        ({**ref("A"), "description": "kept"}, {"type": "integer", "description": "kept"}),
        ({"type": "string", "example": "x"}, {"type": "string", "examples": ["x"]}),
    ],
)
def test_the_dialect_of_30(schema: Any, expected: Any) -> None:
    assert translate(schema, "3.0.3", A={"type": "integer"}) == expected


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (True, True),
        ({"enum": ["a", 1, 1.5, None, True, [], {}]}, ["array", "boolean", "null", "number", "object", "string"]),
        ({"enum": [1, 2]}, "integer"),
        ({"const": "x"}, "string"),
        ({"type": ["string"]}, "string"),
        ({"type": ["string", "string", "null"]}, ["string", "null"]),
    ],
)
def test_every_enum_has_a_type(schema: Any, expected: Any) -> None:
    found = translate({"items": schema})["items"]
    assert (found if schema is True else found["type"]) == expected


def test_siblings_of_a_reference_apply_in_31() -> None:
    components = {"A": {"type": "integer", "minimum": 1, "title": "A"}}
    assert translate({**ref("A"), "title": "B"}, **components) == {"type": "integer", "minimum": 1, "title": "B"}
    assert translate({**ref("A"), "maximum": 9}, **components)["maximum"] == 9
    assert translate({**ref("A"), "minimum": 5}, **components) == {"allOf": [components["A"]], "minimum": 5}
    assert translate({**ref("A"), "x-note": 5}, **components) == components["A"]


def test_everything_else_is_left_out_or_kept() -> None:
    kept = {
        "type": "object",
        "properties": {"a": True},
        "additionalProperties": False,
        "required": ["a"],
        "dependentRequired": {"a": ["b"]},
        "minProperties": 1,
        "patternProperties": {"^a": {}},
        "propertyNames": {"maxLength": 3},
        "if": {},
        "then": {},
        "else": {},
        "not": {"const": 1, "type": "integer"},
        "uniqueItems": True,
        "multipleOf": 0.5,
        "default": {"a": 1},
        "prefixItems": [{}],
        "format": "x",
    }
    dropped = {
        "discriminator": {"propertyName": "x"},
        "xml": {},
        "externalDocs": {},
        "x-any": 1,
        "$id": "https://example.org/",
        "$schema": "x",
        "$comment": "c",
        "$anchor": "a",
        "$defs": {"a": {}},
        "readOnly": True,
        "pattern": r"^\p{L}+$",
        "examples": {"not": "a list"},
    }
    assert translate({**kept, **dropped}) == kept
    assert translate({"patternProperties": {r"\p{L}": {}}}) == {}
    assert translate({"required": ["a", "a"]}) == {"required": ["a"]}
    assert translate({"default": {"$ref": "http://example.org"}, "examples": ["x" * 300]}) == {}


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("x", "a schema must be an object, not str (at #/x)"),
        ({"type": "strin"}, "type must be one of array, boolean"),
        ({"type": []}, "type must be one of"),
        ({"properties": []}, "properties must be an object with schemas (at #/x/properties)"),
        ({"properties": {"a": 3}}, "(at #/x/properties/a)"),
        ({"required": True}, "required must be a list of strings, not True"),
        ({"dependentRequired": {"a": 1}}, "dependentRequired must be an object with lists of strings"),
        ({"allOf": []}, "allOf must be a list of schemas"),
        ({"allOf": {}}, "allOf must be a list of schemas"),
        ({"minimum": "1"}, "minimum must be a number"),
        ({"multipleOf": 0}, "multipleOf must be a number above 0"),
        ({"multipleOf": "x"}, "multipleOf must be a number"),
        ({"minLength": -1}, "minLength must be an integer of at least 0"),
        ({"uniqueItems": 1}, "uniqueItems must be true or false"),
        ({"enum": "a"}, "enum must be a list"),
        ({"title": 1}, "title must be a string"),
        ({"$dynamicRef": "#x"}, "dynamic references are not supported"),
        ({"$ref": "#/components/schemas/None"}, "does not exist"),
    ],
)
def test_an_invalid_schema_names_its_place(schema: Any, message: str) -> None:
    with pytest.raises(OpenApiError) as caught:
        translate(schema)
    assert message in str(caught.value)


def test_only_recursive_schemas_use_definitions() -> None:
    tree = {"type": "object", "properties": {"kids": {"type": "array", "items": ref("Tree")}, "leaf": ref("Leaf")}}
    found = translate({"anyOf": [ref("Tree"), ref("Leaf")]}, Tree=tree, Leaf={"type": "string"})
    assert found["anyOf"] == [{"$ref": "#/$defs/Tree"}, {"type": "string"}]
    assert found["$defs"]["Tree"]["properties"] == {
        "kids": {"type": "array", "items": {"$ref": "#/$defs/Tree"}},
        "leaf": {"type": "string"},
    }
    assert list(found["$defs"]) == ["Tree"]


def test_recursive_schemas_with_the_same_last_name_are_distinct() -> None:
    inner = {"type": "array", "items": {"$ref": "#/components/schemas/A/properties/B-1"}}
    outer = {"type": "array", "items": ref("B-1")}
    found = translate({"anyOf": [ref("B-1"), ref("A")]}, A={"properties": {"B-1": inner}}, **{"B-1": outer})
    assert sorted(found["$defs"]) == ["B_1", "B_1_2"]


@pytest.mark.parametrize(("direction", "hidden"), [("request", "made"), ("response", "password")])
def test_properties_of_the_other_direction_are_hidden(direction: str, hidden: str) -> None:
    schema = {
        "properties": {"made": {"readOnly": True}, "password": ref("Secret"), "name": {}, "any": True},
        "required": ["made", "password", "name"],
    }
    found = translate(schema, direction=direction, Secret={"writeOnly": True, "type": "string"})
    assert hidden not in found["properties"]
    assert len(found["properties"]) == 3
    assert hidden not in found["required"]


def test_a_schema_that_grows_exponentially_is_shared() -> None:
    components: dict[str, Any] = {"S0": {"type": "string", "description": "x" * 50}}
    for number in range(1, 40):
        components[f"S{number}"] = {"properties": {"a": ref(f"S{number - 1}"), "b": ref(f"S{number - 1}")}}
    found = translate(ref("S39"), **components)
    assert found["$ref"] == "#/$defs/S39"
    assert len(found["$defs"]) == 40
    assert len(json.dumps(found)) < MAX_INLINE_BYTES


def test_a_named_schema_is_measured_once_for_all_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    """A document with hundreds of operations whose schemas all refer to each other is read in seconds."""
    components: dict[str, Any] = {
        f"S{number}": {"properties": {"next": ref(f"S{(number + 1) % 50}"), "text": {"type": "string"}}}
        for number in range(50)
    }
    measured: list[Any] = []
    measure = _schemas._measure
    monkeypatch.setattr(_schemas, "_measure", lambda schema: measured.append(schema) or measure(schema))
    schemas = Schemas(Document(document({}, "3.1.0", components={"schemas": components})), "response")
    for number in range(20):
        found = schemas.translate({"x": (ref(f"S{number}"), "#/x")}, lambda parts: dict(parts), "#/x")
        assert len(found["$defs"]) == 50  # type: ignore[arg-type]
    assert len(measured) == 20 + 50


def test_a_schema_that_is_too_large_or_too_deep_is_refused() -> None:
    with pytest.raises(OpenApiError, match=r"the schema is too large: .* the limit is 1048576"):
        translate({"enum": ["x" * 1000] * 1100})
    deep: Any = {}
    for _ in range(70):
        deep = {"items": deep}
    with pytest.raises(OpenApiError, match="nested too deeply: the limit is 64"):
        translate(deep)
    wide = {"type": "array", "default": 1, "enum": [[[[[1]]]]]}
    for _ in range(61):
        wide = {"items": wide}
    with pytest.raises(OpenApiError, match=r"nested too deeply: \d+ levels"):
        translate(wide)


def test_a_long_chain_of_references_is_shared() -> None:
    chain: dict[str, Any] = {f"S{n}": {"items": ref(f"S{n + 1}")} for n in range(200)}
    assert len(translate(ref("S0"), **chain, S200={})["$defs"]) == 201
