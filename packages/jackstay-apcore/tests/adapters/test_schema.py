"""Conversion of schemas for MCP and OpenAI."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from apcore_mcp.adapters import SchemaConverter
from apcore_mcp.adapters.schema import MAX_DEPTH

Make = Callable[..., Any]
converter = SchemaConverter()

NESTED = {
    "type": "object",
    "properties": {"a": {"$ref": "#/$defs/A"}},
    "required": ["a"],
    "$defs": {
        "A": {"type": "object", "properties": {"b": {"$ref": "#/$defs/B"}}},
        "B": {"type": "array", "items": {"$ref": "#/$defs/C"}},
        "C": {"type": "integer", "minimum": 1},
    },
}


def test_schema_without_references_is_copied(descriptor: Make) -> None:
    """`title` and `x-*` are kept."""
    schema = {"type": "object", "title": "T", "properties": {"w": {"type": "integer", "x-unit": {"px": [1]}}}}
    made = converter.convert_input_schema(descriptor(schema))
    assert made == schema
    made["properties"]["w"]["x-unit"]["px"].append(2)
    assert schema["properties"]["w"]["x-unit"] == {"px": [1]}  # type: ignore[index]  # a literal


def test_references_are_inlined(descriptor: Make) -> None:
    """Nested references and array items. The original is not changed."""
    before = copy.deepcopy(NESTED)
    assert converter.convert_input_schema(descriptor(NESTED)) == {
        "type": "object",
        "properties": {
            "a": {
                "type": "object",
                "properties": {"b": {"type": "array", "items": {"type": "integer", "minimum": 1}}},
            }
        },
        "required": ["a"],
    }
    assert before == NESTED


def test_defs_and_definitions_are_inlined(descriptor: Make) -> None:
    """Unused definitions are removed, even if they are recursive."""
    for keyword in ("$defs", "definitions"):
        unused = {"type": "object", "properties": {"x": {"$ref": f"#/{keyword}/Unused"}}}
        schema = {
            "type": "object",
            "properties": {"a": {"anyOf": [{"$ref": f"#/{keyword}/A"}, {"type": "null"}]}},
            keyword: {"A": {"type": "string"}, "Unused": unused},
        }
        assert converter.convert_input_schema(descriptor(schema)) == {
            "type": "object",
            "properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
        }


ROOTS: list[tuple[Any, Any]] = [
    ({}, {"type": "object", "properties": {}}),
    ({"properties": {"a": {"properties": {}}}}, {"type": "object", "properties": {"a": {"properties": {}}}}),
    ({"type": "object"}, {"type": "object"}),
    ({"anyOf": [{"required": ["a"]}]}, {"type": "object", "anyOf": [{"required": ["a"]}]}),
    ({"type": "string"}, {"type": "string"}),
    ({"type": "string", "properties": {}}, {"type": "object", "properties": {}}),
    ({"type": ["object", "null"], "properties": {}}, {"type": ["object", "null"], "properties": {}}),
]


def test_only_the_root_gets_a_type(descriptor: Make) -> None:
    for schema, converted in ROOTS:
        assert converter.convert_input_schema(descriptor(schema)) == converted, schema


def test_empty_output_schema(descriptor: Make) -> None:
    assert converter.convert_output_schema(descriptor()) == {}
    assert converter.convert_output_schema(descriptor(None, {"properties": {}})) == {
        "type": "object",
        "properties": {},
    }


def test_literals_are_not_visited(descriptor: Make) -> None:
    """Data that looks like a reference is data."""
    for keyword in ("default", "const", "enum", "examples", "x-note"):
        literal: Any = {"$ref": "#/$defs/Gone"}
        literal = [literal] if keyword in ("enum", "examples") else literal
        schema = {"type": "object", "properties": {"a": {keyword: literal}}}
        assert converter.convert_input_schema(descriptor(schema)) == schema, keyword


def test_property_named_ref(descriptor: Make) -> None:
    schema = {"type": "object", "properties": {"$ref": {"type": "string"}, "$defs": {"type": "integer"}}}
    assert converter.convert_input_schema(descriptor(schema)) == schema


def test_keywords_beside_a_reference_take_precedence(descriptor: Make) -> None:
    schema = {
        "properties": {"a": {"$ref": "#/$defs/A", "description": "here"}},
        "$defs": {"A": {"type": "string", "description": "there"}},
    }
    made = converter.convert_input_schema(descriptor(schema))
    assert made["properties"]["a"] == {"type": "string", "description": "here"}


def test_discriminator_mapping_is_removed(descriptor: Make) -> None:
    schema = {
        "properties": {
            "pet": {
                "discriminator": {"propertyName": "kind", "mapping": {"cat": "#/$defs/Cat"}},
                "oneOf": [{"$ref": "#/$defs/Cat"}],
            }
        },
        "$defs": {"Cat": {"properties": {"kind": {"const": "cat"}}}},
    }
    made = converter.convert_input_schema(descriptor(schema))
    assert made["properties"]["pet"]["discriminator"] == {"propertyName": "kind"}


def test_unresolvable_references(descriptor: Make) -> None:
    """A KeyError names the reference, also with `keeps_cycles`."""
    for reference in ("#/$defs/Gone", "#/$defs/A/properties/gone", "other.json#/a", "#/properties/list/9"):
        schema = {
            "properties": {"a": {"$ref": reference}, "list": {"enum": [1]}},
            "$defs": {"A": {"properties": {}}},
        }
        with pytest.raises(KeyError) as caught:
            converter.convert_input_schema(descriptor(schema), keeps_cycles=True)
        assert reference.rpartition("/")[2] in str(caught.value) or reference in str(caught.value)


CYCLE = {
    "$ref": "#/$defs/Node",
    "$defs": {
        "Node": {
            "type": "object",
            "properties": {"next": {"$ref": "#/$defs/Node"}, "leaf": {"$ref": "#/$defs/Leaf"}},
        },
        "Leaf": {"type": "string"},
    },
}


def test_recursive_schema_is_rejected(descriptor: Make) -> None:
    with pytest.raises(ValueError, match=r"Circular .*#/\$defs/Node -> #/\$defs/Node"):
        converter.convert_input_schema(descriptor(CYCLE))
    with pytest.raises(ValueError, match="Circular"):
        converter.convert_output_schema(descriptor(None, CYCLE))


def test_recursive_schema_can_keep_its_definitions(descriptor: Make) -> None:
    """The root is an object."""
    made = converter.convert_input_schema(descriptor(CYCLE), keeps_cycles=True)
    assert made["type"] == "object"
    assert "$ref" not in made
    assert made["$defs"] == CYCLE["$defs"]
    assert made["properties"]["next"] == {"$ref": "#/$defs/Node"}


def test_self_reference_is_always_rejected(descriptor: Make) -> None:
    schema = {"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}}
    with pytest.raises(ValueError, match="Circular"):
        converter.convert_input_schema(descriptor(schema), keeps_cycles=True)


def chain(length: int) -> dict[str, Any]:
    definitions: dict[str, Any] = {
        f"D{at}": {"properties": {"x": {"$ref": f"#/$defs/D{at + 1}"}}} for at in range(length)
    }
    return {
        "properties": {"x": {"$ref": "#/$defs/D0"}},
        "$defs": {**definitions, f"D{length}": {"type": "null"}},
    }


def test_depth_limit(descriptor: Make) -> None:
    """References may be nested 32 deep."""
    assert "$defs" not in converter.convert_input_schema(descriptor(chain(MAX_DEPTH - 1)))
    with pytest.raises(ValueError, match="deeper than 32"):
        converter.convert_input_schema(descriptor(chain(MAX_DEPTH)))
    assert "$defs" in converter.convert_input_schema(descriptor(chain(MAX_DEPTH)), keeps_cycles=True)


def test_size_limit(descriptor: Make) -> None:
    """Twenty-five models that each use the next one twice would have 33 million subschemas."""
    definitions: dict[str, Any] = {
        f"D{at}": {"properties": {"x": {"$ref": f"#/$defs/D{at + 1}"}, "y": {"$ref": f"#/$defs/D{at + 1}"}}}
        for at in range(25)
    }
    schema = {"properties": {"x": {"$ref": "#/$defs/D0"}}, "$defs": {**definitions, "D25": {}}}
    with pytest.raises(ValueError, match="more than 20000 subschemas"):
        converter.convert_input_schema(descriptor(schema))
    assert converter.convert_input_schema(descriptor(schema), keeps_cycles=True)["$defs"] == schema["$defs"]


def test_resolve_ref() -> None:
    """The private method that resolves a reference."""
    definitions = {"A": {"items": {"$ref": "#/$defs/B"}, "not": {"$ref": "#/$defs/C"}}, "B": True, "C": False}
    assert converter._resolve_ref("#/$defs/A", definitions, set()) == {"items": True, "not": False}
    with pytest.raises(ValueError, match="Circular"):
        converter._resolve_ref("#/$defs/A", definitions, {"#/$defs/A"})


def test_strict_converter_closes_objects(descriptor: Any) -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"properties": {}}, "b": {"type": "object", "additionalProperties": True}},
    }
    converted = SchemaConverter(strict=True).convert_input_schema(descriptor(schema))
    assert converted["additionalProperties"] is False
    assert converted["properties"]["a"]["additionalProperties"] is False
    assert converted["properties"]["b"]["additionalProperties"] is True
    assert "additionalProperties" not in SchemaConverter().convert_input_schema(descriptor(schema))


def test_anchors_and_absolute_references_are_inlined(descriptor: Any) -> None:
    """They are references inside the schema, which every client can read after inlining."""
    for reference in ("#count", "http://example.test/schema#count", "http://example.test/schema#/$defs/count"):
        schema = {
            "$id": "http://example.test/schema",
            "type": "object",
            "$defs": {"count": {"$anchor": "count", "type": "integer"}},
            "properties": {"a": {"$ref": reference}, "b": {"$ref": reference}},
        }
        converted = SchemaConverter().convert_output_schema(descriptor({"type": "object"}, output_schema=schema))
        assert converted["properties"] == {"a": {"type": "integer"}, "b": {"type": "integer"}}, reference
    foreign = {"$defs": {"x": {"$id": "http://other.test", "$defs": {"y": {"$anchor": "y"}}}}, "$ref": "#y"}
    with pytest.raises(KeyError, match="#y"):
        SchemaConverter().convert_output_schema(descriptor({"type": "object"}, output_schema=foreign))


def test_draft_7_ignores_keywords_beside_a_reference(descriptor: Any) -> None:
    """But not annotations, and never `x-sensitive`: it protects a value."""
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "definitions": {"count": {"type": "number"}},
        "properties": {"n": {"$ref": "#/definitions/count", "maximum": 5, "x-sensitive": True, "title": "N"}},
    }
    converted = SchemaConverter().convert_output_schema(descriptor({"type": "object"}, output_schema=schema))
    assert converted["properties"]["n"] == {"type": "number", "x-sensitive": True, "title": "N"}


def test_draft_7_with_a_reference_at_the_root_keeps_its_dialect(descriptor: Any) -> None:
    """As zod-to-json-schema writes it."""
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$ref": "#/definitions/Order",
        "definitions": {"Order": {"type": "object", "properties": {"n": {"type": "number"}}}},
    }
    assert SchemaConverter().convert_input_schema(descriptor(schema)) == {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"n": {"type": "number"}},
    }
