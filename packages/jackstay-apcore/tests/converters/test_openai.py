"""Tool definitions for model APIs."""

import logging
import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from apcore import ModuleAnnotations, Registry
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # no types
from pydantic import BaseModel

from apcore_mcp import OpenAIConverter, to_anthropic_tools, to_openai_responses_tools, to_openai_tools

Make = Callable[..., Any]

RESIZE = {
    "type": "object",
    "title": "ImageResizeInput",
    "properties": {
        "width": {"type": "integer", "description": "Target width in pixels"},
        "height": {"type": "integer", "description": "Target height in pixels"},
        "format": {"type": "string", "default": "png", "enum": ["png", "jpg", "webp"]},
    },
    "required": ["width", "height"],
}


SCALARS = ("string", "number", "boolean", "null")


def strict(schema: Any) -> Any:
    return OpenAIConverter()._apply_strict_mode(schema)


def test_module_as_function(descriptor: Make) -> None:
    """Without strict mode, the schema is unchanged."""
    tool = OpenAIConverter().convert_descriptor(descriptor(RESIZE, description="Resize"))
    assert tool == {
        "type": "function",
        "function": {"name": "image-resize", "description": "Resize", "parameters": RESIZE},
    }


def test_strict_mode(descriptor: Make) -> None:
    function = OpenAIConverter().convert_descriptor(descriptor(RESIZE), strict=True)["function"]
    assert function["strict"] is True
    assert function["parameters"] == {
        "type": "object",
        "properties": {
            "width": {"type": "integer", "description": "Target width in pixels"},
            "height": {"type": "integer", "description": "Target height in pixels"},
            "format": {"type": ["string", "null"], "enum": ["png", "jpg", "webp", None]},
        },
        "required": ["format", "height", "width"],
        "additionalProperties": False,
    }


OPTIONAL: list[tuple[Any, Any]] = [
    ({"type": ["string", "integer"]}, {"type": ["string", "integer", "null"]}),
    ({"type": ["string", "null"]}, {"type": ["string", "null"]}),
    ({"const": "a"}, {"enum": ["a", None]}),
    ({"const": 1, "type": "integer"}, {"type": ["integer", "null"], "enum": [1, None]}),
    ({"enum": [1, None]}, {"enum": [1, None]}),
    ({"anyOf": [{"type": "string"}]}, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
    ({"anyOf": [{"type": "null"}]}, {"anyOf": [{"type": "null"}]}),
    ({"oneOf": [{"type": "string"}]}, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
    ({"$ref": "#/$defs/A"}, {"anyOf": [{"$ref": "#/$defs/A"}, {"type": "null"}]}),
    ({"allOf": [{"type": "string"}]}, {"type": ["string", "null"]}),
    # Strict mode has no schema for any value, so the scalar types are listed.
    (True, {"type": [*SCALARS]}),
    ({}, {"type": [*SCALARS]}),
    # The API rejects a request with an unknown format.
    ({"type": "string", "format": "uri"}, {"type": ["string", "null"]}),
    ({"type": "string", "format": "date"}, {"type": ["string", "null"], "format": "date"}),
    ({"type": "array"}, {"type": ["array", "null"], "items": {"type": [*SCALARS]}}),
    (
        {"type": "array", "prefixItems": [{"type": "null"}, {"type": "null"}], "minItems": 2},
        {"type": ["array", "null"], "items": {"type": "null"}, "minItems": 2},
    ),
    (
        {"type": ["array"], "prefixItems": [{"type": "null"}], "items": {"type": "string"}},
        {"type": ["array", "null"], "items": {"anyOf": [{"type": "null"}, {"type": "string"}]}},
    ),
]


def test_optional_properties_become_nullable() -> None:
    for optional, nullable in OPTIONAL:
        assert strict({"type": "object", "properties": {"a": optional}})["properties"]["a"] == nullable, optional


def test_strict_mode_at_every_level() -> None:
    """Nested objects, arrays and `anyOf`; properties named title, default and x-y are kept."""
    inner = {
        "type": "object",
        "properties": {"title": {"type": "string", "title": "T", "x-a": 1}, "x-y": {"type": "null"}},
    }
    made = strict(
        {
            "type": "object",
            "properties": {
                "list": {"type": "array", "items": inner},
                "choice": {"anyOf": [inner, {"type": "null"}]},
                "default": {"type": "string", "minLength": 1},
            },
            "required": ["list", "choice", "default"],
        }
    )
    closed = {
        "type": "object",
        "properties": {"title": {"type": ["string", "null"]}, "x-y": {"type": ["null"]}},
        "required": ["title", "x-y"],
        "additionalProperties": False,
    }
    assert made["properties"]["list"]["items"] == closed
    assert made["properties"]["choice"]["anyOf"][0] == closed
    assert made["properties"]["default"] == {"type": "string"}


def test_unsupported_keywords_are_removed() -> None:
    made = strict({"type": "object", "properties": {"a": False, "b": {"type": "null"}}, "required": ["b"]})
    assert (made["properties"], made["required"]) == ({"b": {"type": "null"}}, ["b"])


def test_all_of_is_merged() -> None:
    made = strict(
        {
            "allOf": [
                {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
                {"properties": {"b": {"type": "string"}}, "required": ["b"]},
                True,
            ]
        }
    )
    assert made["properties"] == {"a": {"type": "string"}, "b": {"type": "string"}}
    assert made["required"] == ["a", "b"]


@pytest.mark.parametrize(("given", "warns"), [(True, True), ({"type": "integer"}, True), (False, False)])
def test_closing_an_open_object_is_logged(given: Any, warns: bool, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "apcore_mcp"):
        made = strict({"type": "object", "properties": {}, "additionalProperties": given})
    assert made["additionalProperties"] is False
    assert bool(caplog.records) is warns


class Node(BaseModel):
    name: str = "x"
    children: list["Node"] = []


class Tree:
    input_schema = Node
    output_schema = Node
    description = "A schema that contains itself"

    def execute(self, inputs: dict[str, Any], context: Any) -> dict[str, Any]:
        return inputs


def test_recursive_schema_is_exported(registry: Registry) -> None:
    """The export succeeds with and without strict mode."""
    registry.register("tree.walk", Tree())
    for is_strict in (False, True):
        tools = to_openai_tools(registry, strict=is_strict)
        assert [tool["function"]["name"] for tool in tools] == [
            "math-add", "math-later", "text-count", "tree-walk", "user-remove",
        ]  # fmt: skip
        for tool in tools:
            Draft202012Validator.check_schema(tool["function"]["parameters"])
    tree = tools[3]["function"]["parameters"]
    assert tree["$defs"]["Node"]["required"] == ["children", "name"]
    assert Draft202012Validator(tree).is_valid({"name": None, "children": [{"name": "a", "children": None}]})


def check_published_rules(schema: Any, *, is_root: bool = True) -> None:
    """Check the rules of structured outputs of OpenAI."""
    if isinstance(schema, list):
        for part in schema:
            check_published_rules(part, is_root=False)
    if not isinstance(schema, dict):
        return
    assert not is_root or schema["type"] == "object"
    assert not {"allOf", "oneOf", "not", "if", "default", "title", "patternProperties"} & schema.keys()
    if "properties" in schema:
        assert schema["additionalProperties"] is False
        assert schema["required"] == sorted(schema["properties"])
    for key in ("properties", "$defs"):
        for part in schema.get(key, {}).values():
            check_published_rules(part, is_root=False)
    for key in ("items", "anyOf"):
        check_published_rules(schema.get(key), is_root=False)


def test_strict_schemas_follow_the_rules_of_openai(registry: Registry) -> None:
    """Every module of the registry, and a recursive one."""
    registry.register("tree.walk", Tree())
    for tool in to_openai_tools(registry, strict=True):
        check_published_rules(tool["function"]["parameters"])


def test_embed_annotations(registry: Registry) -> None:
    by_name = {tool["function"]["name"]: tool["function"] for tool in to_openai_tools(registry)}
    assert by_name["math-add"]["description"] == "Add two numbers"
    described = {
        tool["function"]["name"]: tool["function"] for tool in to_openai_tools(registry, embed_annotations=True)
    }
    suffix = "\n\n[Annotations: readonly=true, idempotent=true, open_world=false]"
    assert described["math-add"]["description"] == "Add two numbers" + suffix
    assert described["math-later"]["description"] == "Adds, later"


def test_tags_and_prefix(registry: Registry) -> None:
    names = [tool["function"]["name"] for tool in to_openai_tools(registry, tags=["math", "public"])]
    assert names == ["math-add"]
    assert [tool["function"]["name"] for tool in to_openai_tools(registry, prefix="text.")] == ["text-count"]
    assert to_openai_tools(registry, prefix="none.") == []
    for bad in ({"tags": [""]}, {"prefix": ""}):
        with pytest.raises(ValueError, match="empty"):
            to_openai_tools(registry, **bad)


def test_other_shapes(registry: Registry) -> None:
    """The shapes of the OpenAI Responses API and of Anthropic."""
    (tool,) = to_openai_responses_tools(registry, prefix="math.add")
    assert tool["type"] == "function"
    assert tool["name"] == "math-add"
    assert tool["strict"] is False
    assert tool["parameters"]["required"] == ["a"]
    assert to_openai_responses_tools(registry, prefix="math.add", strict=True)[0]["strict"] is True
    (tool,) = to_anthropic_tools(registry, prefix="math.add")
    assert tool.keys() == {"name", "description", "input_schema"}
    assert to_anthropic_tools(registry, prefix="math.add", strict=True)[0]["strict"] is True


def test_unknown_shape_is_rejected(registry: Registry, descriptor: Make) -> None:
    converter = OpenAIConverter()
    with pytest.raises(ValueError, match="shape must be one of"):
        converter.convert_registry(registry, shape="soap")
    with pytest.raises(ValueError, match="shape must be one of"):
        converter.convert_descriptor(descriptor(), shape="soap")


def test_other_types_are_rejected(subtests: pytest.Subtests) -> None:
    """A string is not imported as a module."""
    for given in ["", ".", None, object()]:
        with subtests.test(given=given), pytest.raises(TypeError, match="Registry or Executor"):
            to_openai_tools(given)


def test_module_id_of_a_name(descriptor: Make) -> None:
    """The id is needed to run the calls of a model."""
    converter = OpenAIConverter()
    long = ".".join(["segment"] * 20)
    name = converter.convert_descriptor(descriptor(module_id=long))["function"]["name"]
    assert len(name) == 64
    assert converter.module_id(name) == long


def test_empty_id_is_rejected(descriptor: Make) -> None:
    with pytest.raises(ValueError, match="module_id"):
        OpenAIConverter().convert_descriptor(descriptor(module_id=""))


def test_failing_module_is_skipped(
    registry: Registry, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A warning names the module."""
    converter = OpenAIConverter()

    def fail(schema: Any, module_id: str) -> Any:
        if module_id == "math.add":
            raise KeyError("odd")
        return schema

    monkeypatch.setattr(converter, "_apply_strict_mode", fail)
    with caplog.at_level(logging.WARNING, "apcore_mcp"):
        names = [tool["function"]["name"] for tool in converter.convert_registry(registry, strict=True)]
    assert names == ["math-later", "text-count", "user-remove"]
    assert "math.add" in caplog.text


def test_annotations_of_any_type(descriptor: Make) -> None:
    description = SimpleNamespace(annotations=ModuleAnnotations(destructive=True))
    tool = OpenAIConverter().convert_descriptor(
        descriptor(annotations=description.annotations, description="D"), embed_annotations=True
    )
    assert tool["function"]["description"].startswith("D\n\nWARNING: DESTRUCTIVE.")
    assert tool["function"]["description"].endswith("\n\n[Annotations: destructive=true]")


def test_export_needs_no_client_library() -> None:
    """The packages of the model APIs are not imported."""
    code = (
        "import sys; from apcore import Registry; from apcore_mcp import to_openai_tools;"
        "assert to_openai_tools(Registry()) == []; "
        "print([m for m in ('openai', 'anthropic', 'mcp') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=240)
    assert done.stdout.strip() == "[]"


def test_description_for_models_replaces_the_other(descriptor: Any) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "description": "x", "x-llm-description": "y"}}}
    converter = OpenAIConverter()
    tool = converter.convert_descriptor(descriptor(schema, description="Short", metadata={}), strict=True)
    assert tool["function"]["parameters"]["properties"]["a"]["description"] == "y"
    rich = converter.convert_descriptor(descriptor(schema, description="Short", metadata={}), rich_description=True)
    assert rich["function"]["description"].startswith("# image.resize\n\nShort")
