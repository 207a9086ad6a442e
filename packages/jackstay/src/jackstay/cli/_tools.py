"""`jackstay tools`: list the tools of a server, or show one tool in full."""

import inspect
from argparse import ArgumentParser, Namespace
from typing import Any, Final

from jackstay.cli import _target
from jackstay.cli._output import print_json
from jackstay.cli._running import with_client
from jackstay.cli._values import properties_of, schema_types, typed_text
from jackstay.client import Client
from jackstay.errors import UsageError
from jackstay.shell import BOLD, DIM, GREEN, Screen, StatusLine, escape_controls, first_line
from jackstay.types import Tool, ToolAnnotations

# The maximum length of the arguments on a terminal: three lines of their column.
MAX_SIGNATURE: Final = 96

# Types of JSON Schema, as they are listed.
SHORT_TYPES: Final = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "array": "list",
    "object": "dict",
}


# How many tools an error lists.
MAX_NAMES: Final = 10


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of this command."""
    _target.add_arguments(
        parser,
        "[TOOL]",
        "https://example.org/mcp",
        "--config mcp.json git git_log",
        "--json -- uvx mcp-server-git",
        more=" With TOOL, show that tool in full.",
    )


def run(arguments: Namespace) -> int:
    """Print the tools, or one tool."""
    selected, words = _target.select_server(arguments)
    name = words.pop(0) if words else None
    _target.expect_no_more(words)

    async def work(client: Client) -> None:
        with StatusLine("listing tools"):
            tools = await client.tools.list()
        if name is not None:
            _show(find(tools, name), arguments.json)
        elif arguments.json:
            print_json({"tools": [tool.raw for tool in tools]})
        else:
            _show_all(tools)

    return with_client(arguments, selected, work)


def find(tools: list[Tool], name: str) -> Tool:
    """Return the tool with this name. Raises: UsageError that suggests similar names."""
    for tool in tools:
        if tool.name == name:
            return tool
    from difflib import get_close_matches  # noqa: PLC0415  # only after a typing error

    names = [tool.name for tool in tools]
    close = get_close_matches(name, names, 3)
    if close:
        hint = f"; did you mean {' or '.join(repr(candidate) for candidate in close)}?"
    elif names:
        more = ", ..." if len(names) > MAX_NAMES else ""
        hint = f"; available tools: {escape_controls(', '.join(names[:MAX_NAMES]))}{more}"
    else:
        hint = "; the server has no tools"
    raise UsageError(f"unknown tool {name!r}{hint}")


def _show_all(tools: list[Tool]) -> None:
    screen = Screen()
    if not tools:
        screen.print_line("no tools")
        return
    rows = []
    for tool in tools:
        arguments = signature(tool)
        if screen.is_terminal and len(arguments) > MAX_SIGNATURE:
            arguments = f"{arguments[: MAX_SIGNATURE - 1]}…"
        rows.append((tool.name, arguments, first_line(tool.description or tool.title)))
    screen.table(("NAME", "ARGUMENTS", "DESCRIPTION"), rows)


def signature(tool: Tool) -> str:
    """Return the names and types of the arguments, as in `city:str [days:int]`; optional ones are in brackets."""
    properties, required = properties_of(tool.input_schema)
    # Required arguments first, otherwise in the server's order.
    ordered = sorted(properties, key=lambda name: name not in required)
    typed = {name: name + _short_type(properties[name]) for name in ordered}
    return escape_controls(" ".join(typed[name] if name in required else f"[{typed[name]}]" for name in ordered))


def _short_type(schema: Any) -> str:
    types = sorted(schema_types(schema) - {"null"})
    return ":" + "|".join(SHORT_TYPES.get(name, name) for name in types) if types else ""


def _show(tool: Tool, as_json: bool) -> None:
    if as_json:
        print_json(tool.raw)
        return
    screen = Screen()
    screen.print_line(f"{screen.paint(escape_controls(tool.name), f'{BOLD};{GREEN}')} {signature(tool)}".rstrip())
    if tool.description:
        screen.print_line()
        screen.print_wrapped(inspect.cleandoc(tool.description))
    properties, required = properties_of(tool.input_schema)
    if properties:
        screen.print_line()
        rows = [
            (name, _kind(schema), "yes" if name in required else "no", _describe_schema(schema))
            for name, schema in properties.items()
        ]
        screen.table(("ARGUMENT", "TYPE", "REQUIRED", "DESCRIPTION"), rows)
    if hints := _hints(tool):
        screen.print_line()
        screen.print_line(screen.paint(f"Hints of the server: {', '.join(hints)}.", DIM))


def _kind(schema: Any) -> str:
    return " or ".join(sorted(schema_types(schema))) or "any"


def _describe_schema(schema: Any) -> str:
    if not isinstance(schema, dict):
        return ""
    parts = [first_line(str(schema.get("description", "")))]
    if isinstance(schema.get("enum"), list):
        parts.append("one of " + ", ".join(str(value) for value in schema["enum"]))
    if "default" in schema:
        parts.append(f"default: {typed_text(schema['default'])}")
    return "; ".join(part for part in parts if part)


def _hints(tool: Tool) -> list[str]:
    hints = tool.annotations or ToolAnnotations()
    named = (
        ("read-only", hints.read_only_hint),
        ("destructive", hints.destructive_hint),
        ("idempotent", hints.idempotent_hint),
    )
    return [name for name, is_set in named if is_set]
