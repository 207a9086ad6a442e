"""`jackstay tools`: table, one tool, JSON."""

from collections.abc import Callable

import pytest

from jackstay.cli._tools import _show, find, signature
from jackstay.errors import UsageError
from jackstay.types import JsonObject, Tool, ToolAnnotations


def tool(name: str = "t", **schema: object) -> Tool:
    return Tool(name=name, input_schema=dict(schema))  # type: ignore[arg-type] # JSON of every kind


def test_table(jackstay: Callable) -> None:
    done = jackstay("tools")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0].split() == ["NAME", "ARGUMENTS", "DESCRIPTION"]
    assert lines[1].split(maxsplit=2) == ["greet", "who:str", "Greets somebody."]
    assert lines[2].split("  ")[0] == "echo"
    assert "text:str [count:int] [ratio:float] [flag:bool] [tags:list] [more:str]" in lines[2]
    assert "Fails, \\x1b[31mred\\x1b[0m." in lines[3], "control characters are escaped"
    assert lines[4] == "refuse"


def test_long_arguments_are_wrapped_on_a_terminal(
    jackstay: Callable, terminal: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal(100)
    lines = jackstay("tools").out.splitlines()
    assert "text:str [count:int]              Gives back" in lines[2]
    assert "[ratio:float] [flag:bool]" in lines[3]
    monkeypatch.setattr("jackstay.cli._tools.MAX_SIGNATURE", 25)
    assert "text:str [count:int] [ra…  Gives back" in jackstay("tools").out
    assert lines[1].startswith("\x1b[32mgreet")
    assert all(len(line) < 120 for line in lines)


def test_json_output(jackstay: Callable) -> None:
    tools = jackstay("tools", "--json").json["tools"]
    assert tools[0]["name"] == "greet"
    assert tools[0]["inputSchema"]["required"] == ["who"]
    assert jackstay("tools", "--json", "greet").json == tools[0]


def test_one_tool(jackstay: Callable) -> None:
    done = jackstay("tools", "greet")
    assert done.code == 0
    assert done.out.splitlines() == [
        "greet who:str",
        "",
        "Greets somebody.",
        "",
        "In a few words.",
        "",
        "ARGUMENT  TYPE    REQUIRED  DESCRIPTION",
        "who       string  yes",
    ]


def test_a_long_description_is_wrapped_on_a_terminal(jackstay: Callable, terminal: Callable[[int], None]) -> None:
    terminal(60)
    done = jackstay("tools", "echo").out
    assert "without a change\nof any kind" in done
    assert all(len(line) <= 60 for line in done.splitlines() if "\x1b" not in line)


def test_the_schema_of_an_argument_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    schema: JsonObject = {
        "properties": {
            "a": {"type": "string", "description": "First.\nMore.", "enum": ["x", "y"], "default": "x"},
            "b": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "c": True,
        },
        "required": ["c"],
    }
    hints = ToolAnnotations(read_only_hint=True, idempotent_hint=True, destructive_hint=False)
    _show(Tool(name="t", input_schema=schema, annotations=hints), as_json=False)
    assert capsys.readouterr().out.splitlines() == [
        "t c [a:str] [b:int]",
        "",
        "ARGUMENT  TYPE             REQUIRED  DESCRIPTION",
        "a         string           no        First.; one of x, y; default: x",
        "b         integer or null  no",
        "c         any              yes",
        "",
        "Hints of the server: read-only, idempotent.",
    ]


def test_a_tool_without_description_and_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    _show(Tool(name="t", input_schema={}, annotations=ToolAnnotations()), as_json=False)
    assert capsys.readouterr().out == "t\n"


def test_an_empty_list(jackstay: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jackstay.client.Tools.list", lambda self: _nothing())
    assert jackstay("tools").out == "no tools\n"


async def _nothing() -> list[Tool]:
    return []


def test_signature() -> None:
    schemas: list[tuple[dict[str, object], str]] = [
        ({}, ""),
        ({"properties": []}, ""),
        ({"properties": {"a": {}, "b": {}}, "required": ["b"]}, "b [a]"),
        (
            {
                "properties": {
                    "a": {"type": ["integer", "null"]},
                    "b": {"anyOf": [{"type": "string"}, {"type": "number"}]},
                }
            },
            "[a:int] [b:float|str]",
        ),
        ({"properties": {"a\x1b": {}}, "required": "a"}, "[a\\x1b]"),
    ]
    for schema, text in schemas:
        assert signature(tool(**schema)) == text


MANY = [tool(f"tool_{number}") for number in range(12)]
MISSES = [
    ([tool("forecast"), tool("other")], "forcast", "unknown tool 'forcast'; did you mean 'forecast'?"),
    ([tool("a"), tool("b")], "zzz", "available tools: a, b"),
    (MANY, "zzz", "tool_8, tool_9, ..."),
    ([], "zzz", "the server has no tools"),
]


def test_an_unknown_tool() -> None:
    for tools, name, message in MISSES:
        with pytest.raises(UsageError) as raised:
            find(tools, name)
        assert str(raised.value).endswith(message)


def test_an_unexpected_argument_is_a_usage_error(jackstay: Callable) -> None:
    done = jackstay("tools", "greet", "echo")
    assert (done.code, done.out) == (2, "")
    assert "unexpected argument 'echo'" in done.err


def test_a_server_without_the_tools_capability(jackstay: Callable) -> None:
    done = jackstay("tools", more=("--without=tools",))
    assert (done.code, done.out) == (1, "")
    assert done.err == "jackstay: tools/list: the server did not declare the capability 'tools'\n"
