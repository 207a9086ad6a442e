"""Input schemas that every host accepts: the rules, each with its source, for tools of every kind of parameter."""

import datetime
import decimal
import enum
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Optional, TypedDict

import msgspec
import pydantic
import pytest
from jsonschema.validators import Draft202012Validator

from jackstay import Server, connect
from jackstay.server import _portable_schema
from jackstay.server._portable_schema import make_portable
from jackstay.server._tools import tool_from_function
from scripted.ways import HANDSHAKE, STATELESS


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Size(enum.IntEnum):
    SMALL = 1


@dataclass
class Leg:
    to: str
    color: Color = Color.RED


class Trip(msgspec.Struct):
    legs: list[Leg]
    best: Leg | None = None


class Cat(msgspec.Struct, tag=True):
    lives: int


class Dog(msgspec.Struct, tag=True):
    name: str


class Node(msgspec.Struct):
    value: int
    next: Optional["Node"] = None


class Options(TypedDict, total=False):
    deep: dict[str, list[Leg]]


class Shade(enum.Enum):
    DARK = "dark"


class Inner(pydantic.BaseModel):
    color: Shade
    mode: Literal["a", "b"] = "a"


class Model(pydantic.BaseModel):
    inner: Inner
    others: list[Inner] = []
    kind: Literal["only"] = "only"


def plain(a: str, b: int = 1, c: float = 0.5, d: bool = False) -> None: ...
def enums(a: Color, b: Size, c: Literal["x", "y"], d: Literal[1, "x", None] = None, e: Color | None = None) -> None: ...
def objects(a: Trip, b: list[Trip], c: Options, d: Leg) -> None: ...
def tagged(a: Cat | Dog) -> None: ...
def arrays(a: list, b: list[list[Any]], c: tuple[int, str], d: tuple[int, ...], e: set[str]) -> None: ...  # type: ignore[type-arg]
def models(a: Model, b: Inner | None = None) -> None: ...
def dates(a: datetime.datetime, b: datetime.date, c: decimal.Decimal, d: bytes) -> None: ...
def limits(a: Annotated[int, msgspec.Meta(ge=1, description="n")], b: dict[str, int]) -> None: ...
def nothing() -> None: ...


TOOLS = [plain, enums, objects, tagged, arrays, models, dates, limits, nothing]


def schemas(schema: Any) -> Iterator[dict[str, Any]]:
    """Every schema inside a schema."""
    if not isinstance(schema, dict):
        return
    yield schema
    for key in ("properties", "patternProperties", "$defs"):
        for inner in schema.get(key, {}).values():
            yield from schemas(inner)
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        for inner in schema.get(key, []):
            yield from schemas(inner)
    for key in ("items", "additionalProperties", "not", "contains"):
        yield from schemas(schema.get(key))


def root_is_an_object(schema: dict[str, Any]) -> bool:
    return schema["type"] == "object"


def no_references(schema: dict[str, Any]) -> bool:
    return not any("$ref" in inner or "$defs" in inner for inner in schemas(schema))


def no_alternatives_at_the_root(schema: dict[str, Any]) -> bool:
    return not {"anyOf", "oneOf", "allOf", "enum", "not"} & schema.keys()


def enums_have_a_type(schema: dict[str, Any]) -> bool:
    return all("type" in inner for inner in schemas(schema) if "enum" in inner or "const" in inner)


def arrays_have_items(schema: dict[str, Any]) -> bool:
    return all(isinstance(inner.get("items"), dict) for inner in schemas(schema) if inner.get("type") == "array")


def types_are_strings(schema: dict[str, Any]) -> bool:
    return all(isinstance(inner.get("type", ""), str) for inner in schemas(schema))


def no_other_arguments(schema: dict[str, Any]) -> bool:
    return schema["additionalProperties"] is False


def root_has_properties(schema: dict[str, Any]) -> bool:
    return isinstance(schema.get("properties"), dict)


def schemas_are_objects(schema: dict[str, Any]) -> bool:
    inner = [
        value for found in schemas(schema) for value in (*found.get("properties", {}).values(), found.get("items"))
    ]
    return not any(isinstance(value, bool) for value in inner)


def names_are_plain(schema: dict[str, Any]) -> bool:
    return all(re.fullmatch("[a-zA-Z0-9_-]{1,64}", name) for name in schema.get("properties", {}))


# Not a rule here, because it would change the type of an argument: the field `parameters` of the Gemini API accepts an
# enum of strings only (`parametersJsonSchema` accepts others): github.com/withceleste/celeste-python/issues/262,
# github.com/google-gemini/gemini-cli/issues/4127. `docs/server.md` advises to use strings.
RULES: list[tuple[str, Callable[[dict[str, Any]], bool], str]] = [
    ("MCP", root_is_an_object, "2025-11-25 server/tools: inputSchema MUST be an object with type object"),
    ("Gemini", no_references, "github.com/google-gemini/gemini-cli/issues/13326, anomalyco/opencode/issues/12295"),
    ("Copilot CLI", no_references, "github.com/github/copilot-cli/issues/1876"),
    ("Copilot in VS Code", no_references, "github.com/PrefectHQ/fastmcp/issues/2807"),
    ("Bedrock AgentCore", no_references, "github.com/awslabs/mcp/issues/2442"),
    ("Anthropic and Bedrock", no_alternatives_at_the_root, "github.com/langchain-ai/langchain/issues/39271"),
    ("Gemini", enums_have_a_type, "github.com/google-gemini/gemini-cli/issues/4400"),
    ("Gemini", types_are_strings, "github.com/nanbingxyz/5ire/issues/218"),
    ("Gemini in Copilot CLI", schemas_are_objects, "github.com/github/copilot-cli/issues/4623"),
    ("VS Code", arrays_have_items, "github.com/microsoft/vscode/issues/246119"),
    ("OpenAI and Copilot CLI", root_has_properties, "github.com/langchain-ai/langchain-mcp-adapters/issues/137"),
    ("OpenAI strict mode", no_other_arguments, "platform.openai.com/docs/guides/structured-outputs: supported schemas"),
    ("Anthropic", names_are_plain, "github.com/anthropics/claude-code/issues/79418"),
    ("Bedrock", names_are_plain, "github.com/aaif-goose/goose/issues/1804"),
]


@pytest.mark.parametrize(("host", "rule", "source"), RULES)
def test_the_schemas_of_functions_follow_the_rules_of_hosts(
    host: str, rule: Callable[[dict[str, Any]], bool], source: str, subtests: pytest.Subtests
) -> None:
    for function in TOOLS:
        with subtests.test(function.__name__, host=host, source=source):
            schema: Any = tool_from_function(function).body.input_schema
            Draft202012Validator.check_schema(schema)
            assert rule(schema), schema


def test_a_recursive_type_keeps_its_reference_and_no_other() -> None:
    def tree(root: Node, leg: Leg) -> None: ...

    schema: Any = tool_from_function(tree).body.input_schema
    assert schema["$defs"].keys() == {"Node"}
    assert schema["properties"]["root"] == {"$ref": "#/$defs/Node"}
    assert schema["properties"]["leg"]["properties"]["color"] == {
        "title": "Color", "type": "string", "enum": ["blue", "red"], "default": "red",
    }  # fmt: skip
    validator = Draft202012Validator(schema)
    assert validator.is_valid({"root": {"value": 1, "next": {"value": 2}}, "leg": {"to": "x"}})
    assert not validator.is_valid({"root": {"value": 1, "next": {"value": "2"}}, "leg": {"to": "x"}})


def test_types_that_would_grow_exponentially_keep_their_references() -> None:
    definitions: dict[str, Any] = {"D0": {"type": "object", "description": "x" * 100}}
    for level in range(1, 20):
        inner = {"$ref": f"#/$defs/D{level - 1}"}
        definitions[f"D{level}"] = {"type": "object", "properties": {"a": inner, "b": inner}}
    schema = {"type": "object", "properties": {"x": {"$ref": "#/$defs/D19"}}, "$defs": definitions}
    made = make_portable(schema)
    assert len(msgspec.json.encode(made)) < _portable_schema.MAX_BYTES
    assert made["$defs"] == definitions


def test_values_of_several_types_become_alternatives() -> None:
    schema: Any = tool_from_function(enums).body.input_schema
    assert schema["properties"]["d"]["anyOf"][0]["anyOf"] == [
        {"type": "null", "enum": [None]}, {"type": "integer", "enum": [1]}, {"type": "string", "enum": ["x"]},
    ]  # fmt: skip
    odd: Any = {"type": "object", "properties": {"a": {"enum": [[1], [2]]}, "b": {"const": True}, "c": True}}
    assert make_portable(odd)["properties"] == {
        "a": {"enum": [[1], [2]], "type": "array", "items": {}}, "b": {"const": True, "type": "boolean"}, "c": True,
    }  # fmt: skip


@pytest.mark.parametrize("version", [HANDSHAKE, STATELESS])
async def test_arguments_are_decoded_as_before(version: str) -> None:
    server = Server("x")

    @server.tool
    async def trip(a: Trip, b: Cat | Dog, c: tuple[int, str], d: Model) -> str:
        return f"{a.legs[0].color.value} {type(b).__name__} {c} {d.inner.color.value}"

    async with connect(server, versions=(version,)) as client:
        arguments = {
            "a": {"legs": [{"to": "x", "color": "blue"}]},
            "b": {"type": "Dog", "name": "d"},
            "c": [1, "a"],
            "d": {"inner": {"color": "dark"}},
        }
        (tool,) = await client.tools.list()
        Draft202012Validator(dict(tool.input_schema)).validate(arguments)
        assert (await client.tools.call("trip", arguments)).text == "blue Dog (1, 'a') dark"
