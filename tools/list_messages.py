"""Collect the messages that users can see: texts of raised exceptions and of log records, from the source.

`tools/make_docs.py` writes them to docs/messages.md, so that a changed text is a visible change in review.
"""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

LOG_METHODS = {"debug", "info", "warning", "error", "exception", "critical"}
LOG_OBJECTS = {"logger", "log", "_log", "_logger", "LOG", "LOGGER"}


@dataclass(frozen=True, order=True)
class Message:
    """One text with its placeholders, and what raises or logs it."""

    text: str
    kind: str
    module: str


def messages(module: str, source: str) -> Iterator[Message]:
    """Yield the messages of one module."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            call, kind = node.exc, ast.unparse(node.exc.func).rpartition(".")[2]
        elif isinstance(node, ast.Call) and _is_log(node.func):
            call, kind = node, f"log, {ast.unparse(node.func).rpartition('.')[2]}"
        else:
            continue
        for argument in call.args[:2]:
            text = template(argument)
            if text and " " in text:
                yield Message(" ".join(text.split()), kind, module)
                break


def _is_log(function: ast.expr) -> bool:
    return (
        isinstance(function, ast.Attribute)
        and function.attr in LOG_METHODS
        and ast.unparse(function.value).rpartition(".")[2] in LOG_OBJECTS
    )


def template(node: ast.expr) -> str | None:
    """Return the text of an expression with `{...}` for its variable parts; None if it has no literal text."""
    match node:
        case ast.Constant(value=str(value)):
            return value
        case ast.JoinedStr(values=values):
            return "".join(
                str(part.value) if isinstance(part, ast.Constant) else f"{{{_name(part)}}}" for part in values
            )
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            parts = [template(side) or f"{{{ast.unparse(side)}}}" for side in (left, right)]
            return "".join(parts)
        case ast.IfExp(body=body, orelse=other):
            parts = [text for text in (template(body), template(other)) if text]
            return " | ".join(parts) or None
    return None


def _name(part: ast.expr) -> str:
    return ast.unparse(part.value) if isinstance(part, ast.FormattedValue) else ast.unparse(part)


def collect(sources: Iterable[Path]) -> list[Message]:
    """Return every message below these directories, each once for each module, sorted."""
    found: set[Message] = set()
    for source in sources:
        for path in sorted(source.rglob("*.py")):
            relative = path.relative_to(source).with_suffix("")
            module = ".".join(relative.parts).removesuffix(".__init__")
            found.update(messages(module, path.read_text(encoding="utf-8")))
    return sorted(found, key=lambda message: (message.module, message.text, message.kind))


def page(found: Iterable[Message]) -> str:
    """Return the Markdown of docs/messages.md, without its first comment."""
    lines = [
        "# Messages\n\n",
        "Every text of an exception or a log record, by module, with placeholders in braces.\n",
        "[errors.md](errors.md) explains the classes.\n",
    ]
    module = ""
    for message in found:
        if message.module != module:
            module = message.module
            lines.append(f"\n## {module}\n\n| message | raised or logged as |\n|---|---|\n")
        text = message.text.replace("|", "\\|").replace("`", "'")
        lines.append(f"| `{text}` | {message.kind} |\n")
    return "".join(lines)
