"""The text of results: JSON by default, CSV, JSON lines, or what a function of the program makes of an output.

Structured content is always JSON. If a format does not fit an output, its text is JSON.
"""

import csv
import io
import json
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from apcore_mcp.tracing import traced

_logger = traced("apcore_mcp.formats")

# Makes the text of a result from the output as JSON.
Formatter: TypeAlias = Callable[[str], str]


def make_formatter(name: str | None, function: Callable[[Any], str] | None = None) -> Formatter | None:
    """Return the formatter, or None for JSON. `function` gets the output; it is used for "json" and without a name."""
    write = _WRITERS.get(name or "json", function)
    if write is None:
        return None

    def format_output(text: str) -> str:
        try:
            shown = write(json.loads(text))
        except Exception:  # a formatter must not lose the result of a call
            _logger.warning("an output could not be formatted, so it is JSON", exc_info=True)
            return text
        return str(shown)

    return format_output


def to_csv(output: Any) -> str:
    """Return rows of CSV with a header (RFC 4180); nested values are JSON. Raises: ValueError if there are no rows."""
    rows = _rows(output)
    columns = list(dict.fromkeys(name for row in rows for name in row))
    made = io.StringIO()
    writer = csv.writer(made)
    writer.writerow(columns)
    writer.writerows([_cell(row.get(name)) for name in columns] for row in rows)
    return made.getvalue()


def to_jsonl(output: Any) -> str:
    """Return one line of JSON for each row. Raises: ValueError if there are no rows."""
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in _rows(output))


def _rows(output: Any) -> list[dict[str, Any]]:
    """Return the rows of an output: a list of objects, the only list of objects in an object, or the object itself."""
    if isinstance(output, dict):
        lists = [value for value in output.values() if isinstance(value, list) and value]
        output = lists[0] if len(output) == 1 and lists and _are_rows(lists[0]) else [output]
    if not isinstance(output, list) or not _are_rows(output):
        raise ValueError("the output has no rows")
    return output


def _are_rows(values: list[Any]) -> bool:
    return all(isinstance(value, dict) for value in values)


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list | bool) else value


_WRITERS: Final[dict[str, Callable[[Any], str]]] = {"csv": to_csv, "jsonl": to_jsonl}

__all__ = ["Formatter", "make_formatter", "to_csv", "to_jsonl"]
