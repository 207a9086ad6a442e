"""The text of a typed client: names and texts of any server, and every kind of schema.

`make types` checks `tests/typed/generated_client.py`, which is what these tools give.
"""

import ast
import asyncio
import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from jackstay import ProtocolError, Server, connect
from jackstay.cli._typed_client import MARK, typed_client
from jackstay.types import Tool
from scripted.places import TESTS

GOLDEN = TESTS / "typed" / "generated_client.py"

DEFINITIONS: dict[str, Any] = {
    "Node": {
        "type": "object",
        "description": 'A """ tree\\',
        "properties": {
            "value": {"type": "string", "description": "the\nvalue"},
            "kind": {"enum": ["Node", 'a"b', 1, None, True]},
            "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
            "from": {"type": "integer"},
        },
        "required": ["value"],
    },
    "Loop": {"anyOf": [{"$ref": "#/$defs/Loop"}, {"type": "null"}]},
    "Json": {"type": ["array", "string"], "items": {"$ref": "#/$defs/Json"}},
    "Circle": {
        "type": "object",
        "description": "A circle.",
        "properties": {"kind": {"const": "circle"}, "r": {"type": "number", "description": "The radius."}},
        "required": ["kind", "r"],
    },
    "Square": {
        "type": "object",
        "properties": {"kind": {"const": "square"}, "a": {"type": "number"}},
        "required": ["kind", "a"],
    },
}
SHAPE = {"oneOf": [{"$ref": "#/$defs/Circle"}, {"$ref": "#/$defs/Square"}]}
ARGUMENTS: dict[str, Any] = {
    "node": {"$ref": "#/$defs/Node"},
    "timeout": {"type": "number", "default": 3},
    "from": {"type": "string"},
    "__x": {"type": "integer"},
    "a-b": {"type": "boolean"},
    "a_b": {"type": "boolean"},
    "1": {"type": "string"},
    "": {"type": "string"},
    "str": {"type": "string"},
    "result": {"type": "string"},
    "GetThingResult": {"type": "string"},
    "Any": {},
    "list": {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "list": {"type": "array", "items": {"type": "string"}},
                "str": {"type": "string"},
                "NodeKind": {"type": "string"},
            },
        },
    },
    "loop": {"$ref": "#/$defs/Loop"},
    "json": {"$ref": "#/$defs/Json"},
    "shape": SHAPE,
    "optional": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    "many": {"enum": ["a" * 30, "b" * 30, "c" * 30, "é\u202e\n'\""]},
    "pair": {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}]},
    "map": {"type": "object", "additionalProperties": {"type": "integer"}},
    "merged": {"allOf": [{"$ref": "#/$defs/Circle"}, {"properties": {"colour": {"type": "string"}}}]},
    "lists": {
        "anyOf": [{"type": "array", "items": {"type": kind}} for kind in ("string", "integer")] + [{"type": "null"}]
    },
    "far": {"$ref": "https://example.org/schema"},
    "self": {"type": "string"},
}
WRAPPED = {"type": "object", "required": ["result"], "x-fastmcp-wrap-result": True}
TOOLS = [
    Tool(
        name="get-thing",
        description='First """ line\\\n\n   indented: "quoted"',
        input_schema={"type": "object", "$defs": DEFINITIONS, "properties": ARGUMENTS, "required": ["node", "from"]},
        output_schema={"type": "object", "$defs": DEFINITIONS, "properties": {"node": {"$ref": "#/$defs/Node"}}},
    ),
    Tool(
        name="get.thing",
        description='it ends with "',
        input_schema={"type": "object"},
        output_schema={"type": "object", "$defs": DEFINITIONS, "properties": {"shape": SHAPE}},
    ),
    Tool(name="list", input_schema={"type": "object", "additionalProperties": True}),
    Tool(
        name="class",
        input_schema={"type": "object", "properties": {}},
        output_schema={"type": "object", "additionalProperties": {"type": "string"}},
    ),
    Tool(
        name="client",
        input_schema={"type": "object", "oneOf": [{"required": ["a"]}]},
        output_schema={**WRAPPED, "$defs": DEFINITIONS, "properties": {"result": SHAPE}},
    ),
    Tool(name="_call", input_schema={"type": "object", "$ref": "#/$defs/Node", "$defs": DEFINITIONS}),
    Tool(
        name="日本",
        input_schema={"type": "object"},
        output_schema={**WRAPPED, "properties": {"result": {"type": ["integer", "null"]}}},
    ),
    Tool(name="!", input_schema={"type": "object"}, output_schema={"$ref": "#/nowhere"}),
]


def test_the_text_is_the_checked_file(tmp_path: Path) -> None:
    text = typed_client('io.x/we\'ird """ 1', TOOLS)
    assert typed_client('io.x/we\'ird """ 1', TOOLS) == text
    (tmp_path / "generated_client.py").write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8"), f"compare with {tmp_path}"
    assert text.startswith(f"{MARK}\n")


@pytest.mark.parametrize("name", ['"""\nimport os', "a\\", "\ud800", "x" * 300, "", "None", "self", "__init__", "１ｂ"])
def test_no_name_leaves_its_place(name: str) -> None:
    schema = {"type": "object", "description": name, "properties": {name: {"enum": [name], "description": name}}}
    tool = Tool(
        name=name, description=name, input_schema={**schema, "properties": {name: schema}}, output_schema=schema
    )
    tree = ast.parse(typed_client(name, [tool, tool]).encode("utf-8", "backslashreplace"))
    kinds = [type(node).__name__ for node in tree.body]
    assert set(kinds) == {"Expr", "ImportFrom", "AnnAssign", "ClassDef"} or "Assign" in kinds
    assert sum(isinstance(node, ast.ImportFrom) for node in ast.walk(tree)) == 5 - (
        "EllipsisType" not in ast.dump(tree)
    )


def test_deep_schemas_are_refused_by_the_interpreter() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(sys.getrecursionlimit()):
        schema = {"type": "array", "items": schema}
    with pytest.raises(RecursionError):
        typed_client("x", [Tool(name="a", input_schema={"type": "object", "properties": {"b": schema}})])


def test_references_to_each_other_take_no_time() -> None:
    definitions = {str(i): {"anyOf": [{"$ref": f"#/$defs/{i + 1}"}] * 2} for i in range(40)}
    schema = {"type": "object", "$defs": definitions, "properties": {"a": {"$ref": "#/$defs/0"}}}
    assert "a: Any | EllipsisType = ..." in typed_client("x", [Tool(name="t", input_schema=schema)])


def test_calls_through_the_generated_class(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arguments that are not given are not sent, options are those of the call, and output is checked."""
    server = Server("tree")
    received: list[Any] = []
    outputs: list[Any] = [{"node": {"value": "a", "children": [{"value": "b", "from": 1}]}}, {"node": {}}]
    shape = {"kind": "circle", "r": 1}

    async def get_thing(arguments: dict[str, Any]) -> dict[str, Any]:
        received.append(arguments)
        return outputs.pop(0)

    async def get_shape(arguments: dict[str, Any]) -> dict[str, Any]:
        return {"result": shape}

    for name, handler in {"get-thing": get_thing, "client": get_shape}.items():
        output = next(tool.output_schema for tool in TOOLS if tool.name == name)
        server.add_tool(name, handler=handler, input_schema={"type": "object"}, output_schema=output, validate=False)
    monkeypatch.syspath_prepend(GOLDEN.parent)
    generated = importlib.import_module("generated_client")

    async def main() -> None:
        async with connect(server) as client:
            tree = generated.IoXWeIrd1Client(client)
            found = await tree.get_thing(node={"value": "x"}, from_="y", timeout_=None, timeout=60)
            assert found["node"]["children"][0]["from"] == 1
            assert received == [{"node": {"value": "x"}, "from": "y", "timeout": None}]
            assert await tree.client_({"a": 1}) == shape
            with pytest.raises(ProtocolError, match="does not match"):
                await tree.get_thing(node={"value": "x"}, from_="y")

    asyncio.run(main())
