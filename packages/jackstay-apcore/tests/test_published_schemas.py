"""Listed and exported schemas, checked with the meta-schema of JSON Schema and the rules of OpenAI."""

import json
import re
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from apcore import Registry
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # no types
from pydantic import AnyUrl, BaseModel, Field

from apcore_mcp import to_anthropic_tools, to_openai_responses_tools, to_openai_tools
from apcore_mcp.catalogue import Catalogue
from apcore_mcp.server.factory import MCPServerFactory
from scripted.places import ROOT

EXTENSIONS = ROOT / "examples" / "apcore_demo" / "extensions"


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int = Field(default=9, ge=0, multiple_of=1)


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    friends: "list[Dog]" = []


class Rare(BaseModel):
    """A model with many kinds of fields."""

    pet: Annotated[Cat | Dog, Field(discriminator="kind")]
    pair: tuple[int, str] = (1, "a")
    labels: set[str] = set()
    money: Decimal = Decimal(1)
    day: date | None = None
    key: UUID
    link: AnyUrl | None = None
    raw: bytes = b""
    table: dict[str, list[dict[str, int]]] = {}
    either: int | str | None = None
    fixed: Literal[1, "two", None] = None
    short: Annotated[str, Field(min_length=1, max_length=3, pattern="^[a-z]+$")] = "a"
    anything: Any = None


LINKS = {f"L{number}": {"$ref": f"#/$defs/L{number + 1}"} for number in range(30)}

# Unusual input schemas.
ODD: dict[str, Any] = {
    "empty": {},
    "no_type": {"properties": {"a": {"type": "string"}}},
    "any_property": {"type": "object", "properties": {"a": True, "b": {}}},
    "no_property": {"type": "object", "properties": {"a": False}},
    "named_ref": {"type": "object", "properties": {"$ref": {"type": "string"}, "$defs": {"type": "integer"}}},
    "literal_ref": {"type": "object", "properties": {"a": {"default": {"$ref": "#/nowhere"}}}},
    "cycle": {
        "type": "object",
        "properties": {"next": {"$ref": "#/$defs/Node"}},
        "$defs": {"Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}},
    },
    "root_cycle": {"type": "object", "properties": {"again": {"$ref": "#"}}},
    "two_step_cycle": {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/A"}},
        "$defs": {
            "A": {"type": "object", "properties": {"b": {"$ref": "#/$defs/B"}}},
            "B": {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}},
        },
    },
    "root_ref": {
        "$ref": "#/$defs/In",
        "$defs": {"In": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}},
    },
    "long_chain": {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/L0"}},
        "$defs": {**LINKS, "L30": {"type": "string"}},
    },
    "escaped_names": {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/x~1y~0z"}},
        "$defs": {"x/y~z": {"type": "boolean"}},
    },
    "definitions": {
        "type": "object",
        "properties": {"a": {"$ref": "#/definitions/A"}},
        "definitions": {"A": {"enum": [1, None, "x"]}},
    },
    "open_map": {"type": "object", "additionalProperties": {"type": "integer"}},
    "odd_names": {
        "type": "object",
        "properties": {"": {"type": "string"}, "a b\n<script>": {"type": "string"}, "ключ": {"type": "null"}},
    },
    "conditions": {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "if": {"required": ["a"]},
        "then": {"required": ["b"]},
        "dependentRequired": {"b": ["a"]},
    },
    "deep": {"type": "object", "properties": {"a": json.loads('{"type":"array","items":' * 60 + "{}" + "}" * 60)}},
}  # fmt: skip

# Values that both schemas must accept or both must reject.
VALUES: list[Any] = [
    {},
    {"a": 1},
    {"a": "x"},
    {"a": None},
    {"a": True, "b": "y"},
    {"a": "x", "b": "y"},
    {"a": [[]]},
    {"a": {"b": {"a": {}}}},
    {"next": {"next": {"next": 1}}},
    {"next": {"next": {}}},
    {"again": {"again": []}},
    {"$ref": "x", "$defs": 1},
    {"$ref": 1},
    {"": 1},
    {"ключ": None},
    {"pet": {"kind": "dog", "friends": [{"kind": "dog"}]}, "key": "0" * 32},
    {"pet": {"kind": "cow"}, "key": "0" * 32},
]


class Module:
    description = "Odd"

    def __init__(self, input_schema: Any) -> None:
        self.input_schema = input_schema
        self.output_schema: Any = {}

    def execute(self, inputs: dict[str, Any], context: Any) -> dict[str, Any]:
        return inputs


@pytest.fixture(scope="module")
def registries() -> list[Registry]:
    """The demo, and modules with unusual schemas."""
    demo = Registry(extensions_dir=str(EXTENSIONS))
    demo.discover()
    odd = Registry()
    odd.register("odd.rare", Module(Rare))
    for name, schema in ODD.items():
        odd.register(f"odd.{name}", Module(schema))
    return [demo, odd]


def test_listed_schemas_match_the_meta_schema(registries: list[Registry]) -> None:
    """Every module is listed."""
    for registry in registries:
        tools = MCPServerFactory().build_tools(registry)
        assert len(tools) == len(registry.list())
        for tool in tools:
            for schema in (tool.input_schema, tool.output_schema or {"type": "object"}):
                Draft202012Validator.check_schema(schema)
                assert schema["type"] == "object"
                # MCP 2025-06-18, `Tool`: properties are objects, not booleans.
                assert all(isinstance(part, dict) for part in schema.get("properties", {}).values())
                json.dumps(schema, allow_nan=False)


@pytest.mark.parametrize("name", ["rare", *ODD])
def test_listed_schema_accepts_the_same_values(registries: list[Registry], name: str) -> None:
    """The conversion does not change which values are valid."""
    original = Rare.model_json_schema() if name == "rare" else {"type": "object", **ODD[name]}
    catalogue = Catalogue(registries[1])
    catalogue.refresh()
    entry = catalogue.find(f"odd.{name}")
    assert entry is not None
    before, after = Draft202012Validator(original), Draft202012Validator(entry.input_schema)
    assert [after.is_valid(value) for value in VALUES] == [before.is_valid(value) for value in VALUES]


def exports(registry: Registry, *, strict: bool) -> Iterator[tuple[str, Any]]:
    """Yield the name and the schema of every tool in every shape."""
    for tool in to_openai_tools(registry, strict=strict):
        yield tool["function"]["name"], tool["function"]["parameters"]
    for tool in to_openai_responses_tools(registry, strict=strict):
        yield tool["name"], tool["parameters"]
    for tool in to_anthropic_tools(registry, strict=strict):
        yield tool["name"], tool["input_schema"]


@pytest.mark.parametrize("strict", [False, True])
def test_exported_schemas_match_the_meta_schema(registries: list[Registry], strict: bool) -> None:
    for registry in registries:
        found = list(exports(registry, strict=strict))
        assert len(found) == 3 * len(registry.list())
        for name, schema in found:
            assert re.fullmatch("[a-zA-Z0-9_-]{1,64}", name)
            Draft202012Validator.check_schema(schema)
            json.dumps(schema, allow_nan=False)


# platform.openai.com, guides/structured-outputs, "Supported schemas".
UNSUPPORTED = {
    "allOf", "oneOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas", "patternProperties",
    "unevaluatedProperties", "propertyNames", "unevaluatedItems", "contains", "minContains", "maxContains",
    "uniqueItems", "prefixItems", "default", "title",
}  # fmt: skip
FORMATS = {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}


def check_published_rules(schema: Any, path: str) -> None:
    """Check the rules at every level."""
    assert isinstance(schema, dict), path
    assert {"type", "anyOf", "enum", "const", "$ref"} & schema.keys(), path
    assert not UNSUPPORTED & schema.keys(), path
    assert not [key for key in schema if key.startswith("x-")], path
    assert schema.get("format", "date") in FORMATS, path
    if "properties" in schema or schema.get("type") == "object":
        assert schema["additionalProperties"] is False, path
        assert sorted(schema["required"]) == sorted(schema["properties"]), path
    for key in ("properties", "$defs", "definitions"):
        for name, part in schema.get(key, {}).items():
            check_published_rules(part, f"{path}.{name}")
    if "array" in schema.get("type", ()):
        check_published_rules(schema["items"], f"{path}[]")
    for part in schema.get("anyOf", ()):
        check_published_rules(part, f"{path}|")


def test_strict_schemas_follow_the_rules_of_openai(registries: list[Registry]) -> None:
    """An object at the root, closed objects, required properties, no unsupported keywords."""
    for registry in registries:
        for name, schema in exports(registry, strict=True):
            assert schema["type"] == "object", name
            assert "anyOf" not in schema, name
            check_published_rules(schema, name)
