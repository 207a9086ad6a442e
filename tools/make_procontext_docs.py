"""Write the generated tables of docs/procontext.md: settings, errors, commands, registry.

`--check` writes nothing, and fails if a table would change.
"""

import argparse
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
for source in (ROOT / "packages").glob("*/src"):
    sys.path.insert(0, str(source))

from procontext.cli._commands import COMMANDS  # noqa: E402  # from this tree, wherever it is run
from procontext.config import settings  # noqa: E402
from procontext.errors import ROWS  # noqa: E402
from procontext.registry import BUNDLED  # noqa: E402

PAGE = ROOT / "docs" / "procontext.md"


def table(head: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def settings_table() -> str:
    """Return a table of all settings."""
    rows = [
        [
            f"`{row.key}`",
            f"`{row.variable}`",
            f"`{row.default}`",
            "yes" if row.is_local else "no",
            row.help,
        ]
        for row in settings()
    ]
    return table(["key", "environment variable", "default", "in the working directory", ""], rows)


def errors_table() -> str:
    """Return a table of all error codes."""
    rows = [
        [
            f"`{row.code}`",
            ", ".join(f"`{name}`" for name in row.raised_by),
            row.message.format("..."),
            "yes" if row.recoverable else "no",
        ]
        for row in ROWS
    ]
    return table(["code", "raised by", "message", "may pass"], rows)


def commands_table() -> str:
    """Return a table of all commands."""
    return table(["command", ""], [[f"`procontext {row.name}`", row.summary] for row in COMMANDS])


def registry_table() -> str:
    """Return a table of the registry's contents."""
    document = json.loads(BUNDLED.read_bytes())
    libraries = document["libraries"]
    packages = [row.get("packages", {}) for row in libraries]
    rows = [
        ["version", document["version"]],
        ["libraries", str(len(libraries))],
        ["packages on PyPI", str(sum(len(row.get("pypi", ())) for row in packages))],
        ["packages on npm", str(sum(len(row.get("npm", ())) for row in packages))],
        ["with an llms.txt", str(sum("llms_txt_url" in row for row in libraries))],
    ]
    return table(["", ""], rows)


TABLES: dict[str, Callable[[], str]] = {
    "settings": settings_table,
    "errors": errors_table,
    "commands": commands_table,
    "registry": registry_table,
}


def filled(text: str) -> str:
    """Return the page with all tables."""
    for name, make in TABLES.items():
        begin, end = f"<!-- {name}: made by tools/make_procontext_docs.py -->\n", f"<!-- end of {name} -->"
        pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
        if pattern.search(text) is None:
            raise SystemExit(f"{PAGE}: there is no place for {name}")
        made = begin + make() + end
        text = pattern.sub(made.replace("\\", "\\\\"), text)
    return text


def main(arguments: list[str] | None = None) -> int:
    """Write the tables, or check them. Returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a table would change")
    given = parser.parse_args(arguments)
    before = PAGE.read_text(encoding="utf-8")
    after = filled(before)
    if given.check:
        if after != before:
            print(f"{PAGE} is out of date; run tools/make_procontext_docs.py", file=sys.stderr)
        return int(after != before)
    PAGE.write_text(after, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
