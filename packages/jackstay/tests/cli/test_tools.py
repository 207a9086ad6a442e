"""`jackstay tools`: the table, one tool in full, and the same as JSON."""

from collections.abc import Callable

import pytest

from jackstay.cli._tools import _show, find, signature
from jackstay.errors import UsageError
from jackstay.types import JsonObject, Tool, ToolAnnotations


def tool(name: str = "t", **schema: object) -> Tool:
    return Tool(name=name, input_schema=dict(schema))  # type: ignore[arg-type] # JSON of every kind


def test_the_table_has_names_arguments_and_first_lines(jackstay: Callable) -> None:
    shown = jackstay("tools")
    assert (shown.code, shown.err) == (0, "")
    lines = shown.out.splitlines()
    assert lines[0].split() == ["NAME", "ARGUMENTS", "DESCRIPTION"]
    assert lines[1].split(maxsplit=2) == ["greet", "who", "Greets somebody."]
    assert lines[2].split("  ")[0] == "echo"
    assert "text [count] [ratio] [flag] [tags] [more]" in lines[2]
    assert "Fails, \\x1b[31mred\\x1b[0m." in lines[3], "a server's escape was not shown as text"
    assert lines[4] == "refuse"


def test_on_a_terminal_long_arguments_are_cut(jackstay: Callable, terminal: Callable[[int], None]) -> None:
    terminal(100)
    lines = jackstay("tools").out.splitlines()
    assert "text [count] [ratio] [flag] [ta…  Gives back" in lines[2]
    assert lines[1].startswith("\x1b[32mgreet")
    assert all(len(line) < 120 for line in lines)


def test_json_is_what_the_server_sent(jackstay: Callable) -> None:
    tools = jackstay("tools", "--json").json["tools"]
    assert tools[0]["name"] == "greet"
    assert tools[0]["inputSchema"]["required"] == ["who"]
    assert jackstay("tools", "--json", "greet").json == tools[0]


def test_one_tool_is_shown_in_full(jackstay: Callable) -> None:
    shown = jackstay("tools", "greet")
    assert shown.code == 0
    assert shown.out.splitlines() == [
        "greet who",
        "",
        "Greets somebody.",
        "",
        "In a few words.",
        "",
        "ARGUMENT  TYPE    NEEDED  DESCRIPTION",
        "who       string  yes",
    ]


def test_a_long_description_is_broken_on_a_terminal(
    jackstay: Callable, terminal: Callable[[int], None]
) -> None:
    terminal(60)
    shown = jackstay("tools", "echo").out
    assert "without a change\nof any kind" in shown
    assert all(len(line) <= 60 for line in shown.splitlines() if "\x1b" not in line)


def test_everything_a_schema_says_of_an_argument_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
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
        "t c [a] [b]",
        "",
        "ARGUMENT  TYPE             NEEDED  DESCRIPTION",
        "a         string           no      First.; one of x, y; default: x",
        "b         integer or null  no",
        "c         any              yes",
        "",
        "The server says it is read-only, idempotent.",
    ]


def test_a_tool_of_which_nothing_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    _show(Tool(name="t", input_schema={}, annotations=ToolAnnotations()), as_json=False)
    assert capsys.readouterr().out == "t\n"


def test_a_server_without_tools_is_said_to_have_none(
    jackstay: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jackstay.client.Tools.list", lambda self: _nothing())
    assert jackstay("tools").out == "no tools\n"


async def _nothing() -> list[Tool]:
    return []


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({}, ""),
        ({"properties": []}, ""),
        ({"properties": {"a": {}, "b": {}}, "required": ["b"]}, "b [a]"),
        ({"properties": {"a\x1b": {}}, "required": "a"}, "[a\\x1b]"),
    ],
)
def test_a_signature_survives_any_schema(schema: dict[str, object], said: str) -> None:
    assert signature(tool(**schema)) == said


MANY = [tool(f"tool_{number}") for number in range(12)]
MISSES = [
    ([tool("forecast"), tool("other")], "forcast", "no tool 'forcast'; there is forecast"),
    ([tool("a"), tool("b")], "zzz", "there is a, b"),
    (MANY, "zzz", "tool_8, tool_9, ..."),
    ([], "zzz", "it has none"),
]


@pytest.mark.parametrize(("tools", "name", "said"), MISSES)
def test_a_tool_that_is_not_there_is_refused_with_those_that_are(
    tools: list[Tool], name: str, said: str
) -> None:
    with pytest.raises(UsageError) as raised:
        find(tools, name)
    assert str(raised.value).endswith(said)


def test_a_word_too_many_is_a_misuse(jackstay: Callable) -> None:
    shown = jackstay("tools", "greet", "echo")
    assert (shown.code, shown.out) == (2, "")
    assert "'echo' is one word too many" in shown.err


def test_a_server_that_offers_no_tools_is_a_failure(jackstay: Callable) -> None:
    shown = jackstay("tools", more=("--without=tools",))
    assert (shown.code, shown.out) == (1, "")
    assert shown.err == "jackstay: tools/list: the server does not offer tools\n"
