"""Input of the user at the terminal: arguments that are missing, and elicitations of the server.

Only if standard input and standard error are terminals and the output is not JSON.
"""

import asyncio
import re
import sys
from argparse import Namespace
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from jackstay.cli._values import parse_value, properties_of, schema_types, typed_text
from jackstay.errors import Json, UsageError, did_you_mean
from jackstay.shell import BOLD, DIM, Screen, escape_controls, first_line, hidden_status
from jackstay.types import ElicitRequestFormParams, ElicitRequestParams, ElicitRequestURLParams, ElicitResult, Tool


class NoAnswerError(Exception):
    """The user ended the input (Ctrl-D)."""


def is_interactive(arguments: Namespace) -> bool:
    """Return whether a user can type."""
    return not arguments.json and sys.stdin.isatty() and sys.stderr.isatty()


async def read_line(question: str) -> str:
    """Print a question to standard error and return the line that is typed. Raises: NoAnswerError at the end."""
    # Not in a thread: it could not be interrupted, and would keep the program from ending after Ctrl-C.
    loop = asyncio.get_running_loop()
    is_readable = asyncio.Event()
    with hidden_status():
        sys.stderr.write(question)
        sys.stderr.flush()
        loop.add_reader(sys.stdin.fileno(), is_readable.set)
        try:
            await is_readable.wait()
        except asyncio.CancelledError:
            sys.stderr.write("\n")  # what the shell prints next begins in a line of its own
            raise
        finally:
            loop.remove_reader(sys.stdin.fileno())
        line = sys.stdin.readline()
    if not line:
        sys.stderr.write("\n")
        raise NoAnswerError
    return line.rstrip("\r\n")


async def read_value(name: str, schema: Json, *, is_required: bool) -> Json:
    """Prompt for one value until it is valid. An empty line is the default, or leaves out an optional value (None).

    Raises: NoAnswerError.
    """
    screen = Screen(sys.stderr)
    members: Mapping[str, Any] = schema if isinstance(schema, dict) else {}
    choices, listed = choices_of(schema), choices_of(members.get("items"))
    notes = [" or ".join(sorted(schema_types(schema))) or "any"]
    if choices:
        notes = [f"one of {_named(choices)}"]
    elif listed:
        notes = [f"any of {_named(listed)}, separated by commas"]
    if "default" in members:
        notes.append(f"default: {typed_text(members['default'])}")
    elif not is_required:
        notes.append("optional")
    description = first_line(str(members.get("description") or members.get("title") or ""))
    if description:
        screen.print_line(screen.paint(f"  {description}", DIM))
    question = f"{screen.paint(escape_controls(name), BOLD)} ({escape_controls('; '.join(notes))}): "
    while True:
        text = await read_line(question)
        if not text and "default" in members:
            default: Json = members["default"]
            return default
        if not text and not is_required:
            return None
        try:
            if choices:
                return _choose(text, choices)
            if listed and not text.startswith("["):
                return [_choose(part, listed) for part in text.split(",") if part.strip()]
            return _parse(name, text, schema)
        except UsageError as error:
            screen.print_line(f"  {escape_controls(error.message)}")


def choices_of(schema: Json) -> dict[str, Json]:
    """Return the values to choose from, by their titles: `enum`, or alternatives that are all constants. May be empty.

    2025-11-25 client/elicitation has titles; 2025-06-18 has `enumNames`.
    """
    if not isinstance(schema, dict):
        return {}
    values, names = schema.get("enum"), schema.get("enumNames")
    if isinstance(values, list):
        titles = names if isinstance(names, list) and len(names) == len(values) else values
        return {typed_text(title): value for title, value in zip(titles, values, strict=True)}
    parts = schema.get("oneOf") or schema.get("anyOf")
    if not isinstance(parts, list) or not all(isinstance(part, dict) and "const" in part for part in parts):
        return {}
    rows = [part for part in parts if isinstance(part, dict)]
    return {typed_text(part.get("title") or part["const"]): part["const"] for part in rows}


def _named(choices: Mapping[str, Json]) -> str:
    """Return the choices as they are offered: `r (Red), g (Green)`."""
    typed = [(typed_text(value), title) for title, value in choices.items()]
    return ", ".join(value if value == title else f"{value} ({title})" for value, title in typed)


def _choose(text: str, choices: Mapping[str, Json]) -> Json:
    """Return the choice with this value or title. Raises: UsageError."""
    wanted = text.strip()
    for title, value in choices.items():
        if wanted == typed_text(value) or wanted.casefold() == title.casefold():
            return value
    names = [name for title, value in choices.items() for name in (title, typed_text(value))]
    raise UsageError(f"expected one of {_named(choices)}{did_you_mean(wanted, names)}")


def _parse(name: str, text: str, schema: Json) -> Json:
    if schema_types(schema) == {"boolean"} and text.lower() in ("y", "yes", "n", "no"):
        return text.lower().startswith("y")
    return parse_value(name, text, schema)


async def read_missing(tool: Tool, values: dict[str, Json]) -> None:
    """Prompt for the required arguments of a tool that are not given.

    Raises: UsageError if the user ends the input.
    """
    properties, required = properties_of(tool.input_schema)
    for name in required:
        if isinstance(name, str) and name not in values:
            values[name] = await read_argument(name, properties.get(name))


async def read_argument(name: str, schema: Json) -> Json:
    """Prompt for an argument that is required. Raises: UsageError if the user ends the input."""
    try:
        return await read_value(name, schema, is_required=True)
    except NoAnswerError:
        raise UsageError(f"argument {name!r} is missing; pass {name}=VALUE", path=name) from None


async def answer_elicitation(params: ElicitRequestParams) -> ElicitResult:
    """Show an elicitation and return the user's response. Ctrl-D cancels."""
    screen = Screen(sys.stderr)
    screen.print_line(f"{screen.paint('Request of the server:', BOLD)} {escape_controls(params.message)}")
    try:
        if isinstance(params, ElicitRequestURLParams):
            screen.print_line(f"  {escape_controls(params.url)}")
            screen.print_line(f"  {escape_controls(describe_host(params.url))}")
            answer = await read_line("Will you open this page yourself? [y/N] ")
            return ElicitResult(action="accept" if answer.lower() in ("y", "yes") else "decline")
        if not isinstance(params, ElicitRequestFormParams):
            return ElicitResult(action="decline")
        schema: Mapping[str, Any] = params.requested_schema.raw
        required = schema.get("required") or []
        content: dict[str, Any] = {}
        for name, part in schema.get("properties", {}).items():
            value = await read_value(name, part, is_required=name in required)
            if value is not None:
                content[name] = value
        if not content and await _is_declined():
            return ElicitResult(action="decline")
        return ElicitResult(action="accept", content=content)
    except NoAnswerError:
        return ElicitResult(action="cancel")


# Sharp s, final sigma and the joiners.
_KEPT_LETTERS = frozenset("\u00df\u03c2\u200c\u200d")


def describe_host(url: str) -> str:
    """Return a line with the host of a URL, in ASCII: a URL can look like that of another host.

    2025-11-25 client/elicitation, "Safe URL Handling".
    """
    try:
        # A browser reads a backslash as a slash (WHATWG URL, special schemes).
        parts = urlsplit(url.replace("\\", "/"))
        host = parts.hostname or ""
        ascii_host = host if host.isascii() else _to_ascii(host)
    except ValueError:  # UnicodeError is one
        ascii_host = ""
    if not ascii_host or parts.scheme not in ("http", "https"):
        return "This is not the address of a web page."
    is_foreign = any(label.startswith("xn--") for label in ascii_host.split("."))
    warning = ". Its name has letters outside ASCII and can look like another name." if is_foreign else ""
    return f"Host: {ascii_host}{warning}" + (" (not encrypted)" if parts.scheme == "http" else "")


def _to_ascii(host: str) -> str:
    """Return the name as browsers resolve it (UTS 46, nontransitional). Python's codec replaces four letters."""
    if not _KEPT_LETTERS & {*host}:
        return host.encode("idna").decode()
    labels = re.split("[.\u3002\uff0e\uff61]", host)
    return ".".join(
        "xn--" + label.lower().encode("punycode").decode()
        if _KEPT_LETTERS & {*label}
        else label.encode("idna").decode()
        for label in labels
    )


async def _is_declined() -> bool:
    """A form without fields, or with empty answers only, is a question of yes or no."""
    return (await read_line("Accept? [y/N] ")).lower() not in ("y", "yes")
