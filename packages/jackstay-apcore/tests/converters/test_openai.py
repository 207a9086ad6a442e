"""F-008, F-011, F-012, F-017: tool definitions for model APIs."""

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


PLAIN = ("string", "number", "boolean", "null")


def strict(schema: Any) -> Any:
    return OpenAIConverter()._apply_strict_mode(schema)


def test_a_module_is_a_function_with_a_name_that_openai_takes(descriptor: Make) -> None:
    """F-008: the shape; not strict: the schema is unchanged."""
    tool = OpenAIConverter().convert_descriptor(descriptor(RESIZE, description="Resize"))
    assert tool == {
        "type": "function",
        "function": {"name": "image-resize", "description": "Resize", "parameters": RESIZE},
    }


def test_strict_mode_is_the_seeds_example(descriptor: Make) -> None:
    """F-012; seed 8.3, example 1."""
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


@pytest.mark.parametrize(
    ("optional", "nullable"),
    [
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
        # There is no word for anything at all: a plain value stands for it.
        (True, {"type": [*PLAIN]}),
        ({}, {"type": [*PLAIN]}),
        # One format that the API does not know makes it refuse every tool.
        ({"type": "string", "format": "uri"}, {"type": ["string", "null"]}),
        ({"type": "string", "format": "date"}, {"type": ["string", "null"], "format": "date"}),
        ({"type": "array"}, {"type": ["array", "null"], "items": {"type": [*PLAIN]}}),
        (
            {"type": "array", "prefixItems": [{"type": "null"}, {"type": "null"}], "minItems": 2},
            {"type": ["array", "null"], "items": {"type": "null"}, "minItems": 2},
        ),
        (
            {"type": ["array"], "prefixItems": [{"type": "null"}], "items": {"type": "string"}},
            {"type": ["array", "null"], "items": {"anyOf": [{"type": "null"}, {"type": "string"}]}},
        ),
    ],
)
def test_what_was_optional_may_be_null(optional: Any, nullable: Any) -> None:
    """F-012."""
    assert strict({"type": "object", "properties": {"a": optional}})["properties"]["a"] == nullable


def test_strict_mode_reaches_every_level_and_leaves_names_alone() -> None:
    """F-012: nested objects, arrays, choices; properties called title, default and x-y are properties."""
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


def test_what_must_not_be_there_is_left_out() -> None:
    made = strict({"type": "object", "properties": {"a": False, "b": {"type": "null"}}, "required": ["b"]})
    assert (made["properties"], made["required"]) == ({"b": {"type": "null"}}, ["b"])


def test_parts_of_all_are_merged() -> None:
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
def test_closing_an_open_object_warns(given: Any, warns: bool, caplog: pytest.LogCaptureFixture) -> None:
    """F-012, OQ-04."""
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


def test_a_recursive_schema_loses_no_tool(registry: Registry) -> None:
    """Section 4: one recursive schema loses the whole export; ours keeps all, strict or not."""
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


def hold_to_published_rules(schema: Any, *, is_root: bool = True) -> None:
    """OpenAI's structured outputs: the root an object, objects closed and complete, no refused keyword."""
    if isinstance(schema, list):
        for part in schema:
            hold_to_published_rules(part, is_root=False)
    if not isinstance(schema, dict):
        return
    assert not is_root or schema["type"] == "object"
    assert not {"allOf", "oneOf", "not", "if", "default", "title", "patternProperties"} & schema.keys()
    if "properties" in schema:
        assert schema["additionalProperties"] is False
        assert schema["required"] == sorted(schema["properties"])
    for key in ("properties", "$defs"):
        for part in schema.get(key, {}).values():
            hold_to_published_rules(part, is_root=False)
    for key in ("items", "anyOf"):
        hold_to_published_rules(schema.get(key), is_root=False)


def test_strict_schemas_keep_the_published_rules(registry: Registry) -> None:
    """F-012: every module of the registry, and a recursive one."""
    registry.register("tree.walk", Tree())
    for tool in to_openai_tools(registry, strict=True):
        hold_to_published_rules(tool["function"]["parameters"])


def test_annotations_are_embedded_only_if_asked_for(registry: Registry) -> None:
    """F-011."""
    by_name = {tool["function"]["name"]: tool["function"] for tool in to_openai_tools(registry)}
    assert by_name["math-add"]["description"] == "Add two numbers"
    told = {
        tool["function"]["name"]: tool["function"]
        for tool in to_openai_tools(registry, embed_annotations=True)
    }
    suffix = "\n\n[Annotations: readonly=true, idempotent=true, open_world=false]"
    assert told["math-add"]["description"] == "Add two numbers" + suffix
    assert told["math-later"]["description"] == "Adds, later"


def test_tags_and_prefix_filter_the_export(registry: Registry) -> None:
    """F-017."""
    names = [tool["function"]["name"] for tool in to_openai_tools(registry, tags=["math", "public"])]
    assert names == ["math-add"]
    assert [tool["function"]["name"] for tool in to_openai_tools(registry, prefix="text.")] == ["text-count"]
    assert to_openai_tools(registry, prefix="none.") == []
    for bad in ({"tags": [""]}, {"prefix": ""}):
        with pytest.raises(ValueError, match="empty"):
            to_openai_tools(registry, **bad)


def test_the_other_apis_get_their_own_shapes(registry: Registry) -> None:
    """Responses and Anthropic."""
    (tool,) = to_openai_responses_tools(registry, prefix="math.add")
    assert tool["type"] == "function"
    assert tool["name"] == "math-add"
    assert tool["strict"] is False
    assert tool["parameters"]["required"] == ["a"]
    assert to_openai_responses_tools(registry, prefix="math.add", strict=True)[0]["strict"] is True
    (tool,) = to_anthropic_tools(registry, prefix="math.add")
    assert tool.keys() == {"name", "description", "input_schema"}
    assert to_anthropic_tools(registry, prefix="math.add", strict=True)[0]["strict"] is True


def test_a_shape_that_is_none_is_refused(registry: Registry, descriptor: Make) -> None:
    converter = OpenAIConverter()
    with pytest.raises(ValueError, match="shape must be one of"):
        converter.convert_registry(registry, shape="soap")
    with pytest.raises(ValueError, match="shape must be one of"):
        converter.convert_descriptor(descriptor(), shape="soap")


@pytest.mark.parametrize("given", ["", ".", None, object()])
def test_what_is_no_registry_is_refused_and_nothing_is_imported(given: Any) -> None:
    """Section 4: `to_openai_tools("")` imports every file in the working directory."""
    with pytest.raises(TypeError, match="Registry or Executor"):
        to_openai_tools(given)


def test_a_name_leads_back_to_its_module(descriptor: Make) -> None:
    """For who runs the calls of a model."""
    converter = OpenAIConverter()
    long = ".".join(["segment"] * 20)
    name = converter.convert_descriptor(descriptor(module_id=long))["function"]["name"]
    assert len(name) == 64
    assert converter.module_id(name) == long


def test_an_empty_id_is_refused(descriptor: Make) -> None:
    with pytest.raises(ValueError, match="module_id"):
        OpenAIConverter().convert_descriptor(descriptor(module_id=""))


def test_one_module_that_fails_is_left_out_with_a_warning(
    registry: Registry, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-008: per-module failure is skipped."""
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


def test_descriptions_say_annotations_of_any_object(descriptor: Make) -> None:
    said = SimpleNamespace(annotations=ModuleAnnotations(destructive=True))
    tool = OpenAIConverter().convert_descriptor(
        descriptor(annotations=said.annotations, description="D"), embed_annotations=True
    )
    assert tool["function"]["description"] == "D\n\n[Annotations: destructive=true]"


def test_exporting_needs_no_client_library() -> None:
    """F-008: no openai import."""
    code = (
        "import sys; from apcore import Registry; from apcore_mcp import to_openai_tools;"
        "assert to_openai_tools(Registry()) == []; print([m for m in ('openai', 'anthropic', 'mcp') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=50
    )
    assert done.stdout.strip() == "[]"
