"""`jackstay tools`: every tool of a server in a table, or one in full.

Above: `_main`. Below: `_running`.
"""

import textwrap
from argparse import ArgumentParser, Namespace
from typing import Any, Final

from jackstay.cli import _target
from jackstay.cli._exits import DONE
from jackstay.cli._output import print_json
from jackstay.cli._running import with_client
from jackstay.cli._screen import BOLD, DIM, GREEN, Screen, clean, first_line
from jackstay.cli._values import types_of
from jackstay.client import Client
from jackstay.errors import UsageError
from jackstay.types import Tool

# How much of a tool's arguments a table shows on a terminal; one tool shows them all.
MOST_ARGUMENTS: Final = 32


def add_arguments(parser: ArgumentParser) -> None:
    """Which server, and which tool."""
    _target.add_arguments(
        parser,
        "[TOOL]",
        "https://example.org/mcp",
        "--config mcp.json git git_log",
        "--json -- uvx mcp-server-git",
        more="With TOOL, that one in full.",
    )


def run(arguments: Namespace) -> int:
    """List them, or show one."""
    chosen, words = _target.choose(arguments)
    name = words.pop(0) if words else None
    _target.take_no_more(words)

    async def work(client: Client) -> int:
        tools = await client.tools.list()
        if name is not None:
            _show(find(tools, name), arguments.json)
        elif arguments.json:
            print_json({"tools": [tool.raw for tool in tools]})
        else:
            _show_all(tools)
        return DONE

    return with_client(arguments, chosen, work)


def find(tools: list[Tool], name: str) -> Tool:
    """The tool of that name. Raises: UsageError, with names that are like it."""
    for tool in tools:
        if tool.name == name:
            return tool
    from difflib import get_close_matches  # noqa: PLC0415  # only for who mistyped

    names = [tool.name for tool in tools]
    close = get_close_matches(name, names, 3) or names[:10]
    more = ", ..." if len(close) < len(names) and close == names[:10] else ""
    hint = f"; there is {clean(', '.join(close))}{more}" if names else "; it has none"
    raise UsageError(f"the server has no tool {name!r}{hint}")


def _show_all(tools: list[Tool]) -> None:
    screen = Screen()
    if not tools:
        screen.say("no tools")
        return
    most = MOST_ARGUMENTS if screen.is_terminal else None
    rows = [
        (clean(tool.name), _cut(signature(tool), most), first_line(tool.description or tool.title))
        for tool in tools
    ]
    screen.table(("NAME", "ARGUMENTS", "DESCRIPTION"), rows)


def _cut(text: str, most: int | None) -> str:
    return text if most is None or len(text) <= most else f"{text[: most - 1]}…"


def signature(tool: Tool) -> str:
    """The names of its arguments, those that may be left out in brackets."""
    properties, required = _properties(tool)
    # The required ones first, each kind in the server's order.
    ordered = sorted(properties, key=lambda name: name not in required)
    return clean(" ".join(name if name in required else f"[{name}]" for name in ordered))


def _properties(tool: Tool) -> tuple[dict[str, Any], list[Any]]:
    properties, required = tool.input_schema.get("properties"), tool.input_schema.get("required")
    return (
        properties if isinstance(properties, dict) else {},
        required if isinstance(required, list) else [],
    )


def _show(tool: Tool, as_json: bool) -> None:
    if as_json:
        print_json(tool.raw)
        return
    screen = Screen()
    screen.say(f"{screen.paint(clean(tool.name), f'{BOLD};{GREEN}')} {signature(tool)}".rstrip())
    if tool.description:
        screen.say()
        for line in clean(_indent_alike(tool.description)).strip().splitlines():
            screen.say(line if screen.width is None else textwrap.fill(line, screen.width))
    properties, required = _properties(tool)
    if properties:
        screen.say()
        rows = [
            (clean(name), _kind(schema), "yes" if name in required else "no", _said_of(schema))
            for name, schema in properties.items()
        ]
        screen.table(("ARGUMENT", "TYPE", "NEEDED", "DESCRIPTION"), rows)
    hints = _hints(tool)
    if hints:
        screen.say()
        screen.say(screen.paint(f"The server says it is {', '.join(hints)}.", DIM))


def _indent_alike(text: str) -> str:
    """A docstring begins on its first line, so that only the others are indented."""
    first, newline, rest = text.partition("\n")
    return f"{first.strip()}{newline}{textwrap.dedent(rest)}"


def _kind(schema: Any) -> str:
    return clean(" or ".join(sorted(types_of(schema))) or "any")


def _said_of(schema: Any) -> str:
    if not isinstance(schema, dict):
        return ""
    said = [first_line(str(schema.get("description", "")))]
    if isinstance(schema.get("enum"), list):
        said.append(clean("one of " + ", ".join(str(value) for value in schema["enum"])))
    if "default" in schema:
        said.append(clean(f"default: {schema['default']}"))
    return "; ".join(part for part in said if part)


def _hints(tool: Tool) -> list[str]:
    hints = tool.annotations
    if hints is None:
        return []
    words = {
        "read-only": hints.read_only_hint,
        "destructive": hints.destructive_hint,
        "idempotent": hints.idempotent_hint,
    }
    return [word for word, is_so in words.items() if is_so]
