"""F-001: schemas ready for MCP and OpenAI."""

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


def test_a_schema_without_references_is_the_same_and_another_object(descriptor: Make) -> None:
    """F-001; seed 8.3 example 1: title and x-* stay."""
    schema = {"type": "object", "title": "T", "properties": {"w": {"type": "integer", "x-unit": {"px": [1]}}}}
    made = converter.convert_input_schema(descriptor(schema))
    assert made == schema
    made["properties"]["w"]["x-unit"]["px"].append(2)
    assert schema["properties"]["w"]["x-unit"] == {"px": [1]}  # type: ignore[index]  # a literal


def test_references_are_inlined_level_by_level_and_the_original_is_untouched(descriptor: Make) -> None:
    """F-001: A -> B -> C, array items."""
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


@pytest.mark.parametrize("word", ["$defs", "definitions"])
def test_both_words_for_definitions_are_inlined_and_dropped(descriptor: Make, word: str) -> None:
    """F-001; unused ones are dropped, even if they contain themselves."""
    unused = {"type": "object", "properties": {"x": {"$ref": f"#/{word}/Unused"}}}
    schema = {
        "type": "object",
        "properties": {"a": {"anyOf": [{"$ref": f"#/{word}/A"}, {"type": "null"}]}},
        word: {"A": {"type": "string"}, "Unused": unused},
    }
    made = converter.convert_input_schema(descriptor(schema))
    assert made == {
        "type": "object",
        "properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
    }


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ({}, {"type": "object", "properties": {}}),
        (
            {"properties": {"a": {"properties": {}}}},
            {"type": "object", "properties": {"a": {"properties": {}}}},
        ),
        ({"type": "object"}, {"type": "object"}),
        ({"anyOf": [{"required": ["a"]}]}, {"type": "object", "anyOf": [{"required": ["a"]}]}),
        ({"type": "string"}, {"type": "string"}),
    ],
)
def test_only_the_root_is_given_a_type(descriptor: Make, given: Any, made: Any) -> None:
    """F-001; seed 8.3 example 3."""
    assert converter.convert_input_schema(descriptor(given)) == made


def test_an_empty_output_schema_stays_empty(descriptor: Make) -> None:
    """F-001, F-013."""
    assert converter.convert_output_schema(descriptor()) == {}
    assert converter.convert_output_schema(descriptor(None, {"properties": {}})) == {
        "type": "object",
        "properties": {},
    }


@pytest.mark.parametrize("keyword", ["default", "const", "enum", "examples", "x-note"])
def test_literals_are_never_walked(descriptor: Make, keyword: str) -> None:
    """F-001: what looks like a reference in data is data."""
    literal: Any = {"$ref": "#/$defs/Gone"}
    literal = [literal] if keyword in ("enum", "examples") else literal
    schema = {"type": "object", "properties": {"a": {keyword: literal}}}
    assert converter.convert_input_schema(descriptor(schema)) == schema


def test_a_property_may_be_called_ref(descriptor: Make) -> None:
    """F-001."""
    schema = {"type": "object", "properties": {"$ref": {"type": "string"}, "$defs": {"type": "integer"}}}
    assert converter.convert_input_schema(descriptor(schema)) == schema


def test_what_stands_beside_a_reference_wins(descriptor: Make) -> None:
    schema = {
        "properties": {"a": {"$ref": "#/$defs/A", "description": "here"}},
        "$defs": {"A": {"type": "string", "description": "there"}},
    }
    made = converter.convert_input_schema(descriptor(schema))
    assert made["properties"]["a"] == {"type": "string", "description": "here"}


def test_a_discriminator_does_not_name_what_is_gone(descriptor: Make) -> None:
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


@pytest.mark.parametrize(
    "reference", ["#/$defs/Gone", "#/$defs/A/properties/gone", "other.json#/a", "#/properties/list/9"]
)
def test_a_reference_that_leads_nowhere_is_named(descriptor: Make, reference: str) -> None:
    """F-001: KeyError naming it, also where cycles are kept."""
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


def test_a_schema_that_contains_itself_is_refused_with_its_path(descriptor: Make) -> None:
    """F-001, settled point: asked to inline strictly."""
    with pytest.raises(ValueError, match=r"circular .*#/\$defs/Node -> #/\$defs/Node"):
        converter.convert_input_schema(descriptor(CYCLE))
    with pytest.raises(ValueError, match="circular"):
        converter.convert_output_schema(descriptor(None, CYCLE))


def test_a_schema_that_contains_itself_can_keep_its_definitions(descriptor: Make) -> None:
    """Settled point: kept with $defs; the root says that it is an object."""
    made = converter.convert_input_schema(descriptor(CYCLE), keeps_cycles=True)
    assert made["type"] == "object"
    assert "$ref" not in made
    assert made["$defs"] == CYCLE["$defs"]
    assert made["properties"]["next"] == {"$ref": "#/$defs/Node"}


def test_a_reference_to_nothing_but_itself_is_refused_either_way(descriptor: Make) -> None:
    schema = {"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}}
    with pytest.raises(ValueError, match="circular"):
        converter.convert_input_schema(descriptor(schema), keeps_cycles=True)


def chain(length: int) -> dict[str, Any]:
    definitions: dict[str, Any] = {
        f"D{at}": {"properties": {"x": {"$ref": f"#/$defs/D{at + 1}"}}} for at in range(length)
    }
    return {
        "properties": {"x": {"$ref": "#/$defs/D0"}},
        "$defs": {**definitions, f"D{length}": {"type": "null"}},
    }


def test_references_are_followed_to_a_depth_of_32_and_no_deeper(descriptor: Make) -> None:
    """F-001: depth limit 32."""
    assert "$defs" not in converter.convert_input_schema(descriptor(chain(MAX_DEPTH - 1)))
    with pytest.raises(ValueError, match="deeper than 32"):
        converter.convert_input_schema(descriptor(chain(MAX_DEPTH)))
    assert "$defs" in converter.convert_input_schema(descriptor(chain(MAX_DEPTH)), keeps_cycles=True)


def test_a_small_schema_cannot_become_an_endless_one(descriptor: Make) -> None:
    """Twenty-five models that each use the next twice would be 33 million."""
    definitions: dict[str, Any] = {
        f"D{at}": {"properties": {"x": {"$ref": f"#/$defs/D{at + 1}"}, "y": {"$ref": f"#/$defs/D{at + 1}"}}}
        for at in range(25)
    }
    schema = {"properties": {"x": {"$ref": "#/$defs/D0"}}, "$defs": {**definitions, "D25": {}}}
    with pytest.raises(ValueError, match="more than 20000 parts"):
        converter.convert_input_schema(descriptor(schema))
    assert converter.convert_input_schema(descriptor(schema), keeps_cycles=True)["$defs"] == schema["$defs"]


def test_one_reference_can_be_resolved_by_a_subclass() -> None:
    """Seed 6.1: `_resolve_ref`."""
    definitions = {"A": {"items": {"$ref": "#/$defs/B"}, "not": {"$ref": "#/$defs/C"}}, "B": True, "C": False}
    assert converter._resolve_ref("#/$defs/A", definitions, set()) == {"items": {}, "not": {"not": {}}}
    with pytest.raises(ValueError, match="circular"):
        converter._resolve_ref("#/$defs/A", definitions, {"#/$defs/A"})
