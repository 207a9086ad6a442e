"""Generate the registry in the package from files of facts.

    python tools/make_registry.py --facts FACTS.json [--facts MORE.json ...] [--version 2026.11.15]

Add a library as a row in tools/registry_additions.json. tools/check_registry.py checks the result.
"""

import argparse
import datetime
import json
import sys
from pathlib import Path
from typing import Any

import msgspec

ROOT = Path(__file__).parent.parent
for source in (ROOT / "packages").glob("*/src"):
    sys.path.insert(0, str(source))

from procontext.models import Library  # noqa: E402  # from this tree, wherever it is run
from procontext.resolve import Index  # noqa: E402

REGISTRY = ROOT / "packages" / "jackstay-procontext" / "src" / "procontext" / "registry" / "known-libraries.json"

TEXTS = ("name", "description", "docs_url", "llms_txt_url", "repo_url")
LISTS = ("languages", "aliases")


def bare(url: str) -> str:
    """Return `https://host/` as `https://host`: one spelling for the root of a site."""
    return url.rstrip("/") if url.count("/") == 3 and url.endswith("/") else url


def joined(old: list[str], new: list[str]) -> list[str]:
    """Return both lists without duplicates, the old values first."""
    return list(dict.fromkeys((*old, *new)))


def merge(row: dict[str, Any], fact: dict[str, Any]) -> dict[str, Any]:
    """Return a row updated with the values of a fact; lists are joined, unless the fact has `"replace": true`."""
    made: dict[str, Any] = {"id": fact["id"]}
    for key in TEXTS:
        value = fact.get(key) or row.get(key)
        if value:
            made[key] = bare(value) if key == "docs_url" else value
    for key in LISTS:
        values = joined(row.get(key, []), fact.get(key) or [])
        if values:
            made[key] = values
    packages = {
        place: joined(row.get("packages", {}).get(place, []), (fact.get("packages") or {}).get(place) or [])
        for place in ("pypi", "npm", "crates", "go", "maven", "rubygems", "nuget")
    }
    made["packages"] = {place: names for place, names in packages.items() if names}
    return made


def build(rows: list[dict[str, Any]], facts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return all rows, in the order of their first occurrence."""
    made = {row["id"]: merge({}, row) for row in rows}
    for fact in facts:
        old = {} if fact.get("replace") else made.get(fact["id"], {})
        made[fact["id"]] = merge(old, fact)
    return list(made.values())


def write(file: Path, version: str, rows: list[dict[str, Any]], undocumented: set[str]) -> None:
    """Write one library per line, for readable diffs, and the names of undocumented packages, one per line."""
    lines = ",\n".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in rows)
    names = ",\n".join(map(json.dumps, sorted(near(rows, undocumented))))
    file.write_text(f'{{"version":{json.dumps(version)},"libraries":[\n{lines}\n],"undocumented":[\n{names}\n]}}\n')


def near(rows: list[dict[str, Any]], names: set[str]) -> set[str]:
    """Return the names that would be taken for other libraries. The others need not be listed."""
    index = Index(msgspec.convert(rows, tuple[Library, ...]))
    return {name for name in names if any(match.matched_via != "package_name" for match in index.resolve(name))}


def main(arguments: list[str] | None = None) -> int:
    """Build and write the registry, and print its size."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--facts", action="append", type=Path, default=[], help="a JSON file with `libraries`")
    parser.add_argument("--into", type=Path, default=REGISTRY, help="the registry to update")
    parser.add_argument("--version", default=datetime.datetime.now(datetime.UTC).strftime("%Y.%m.%d"))
    given = parser.parse_args(arguments)
    old = json.loads(given.into.read_bytes()) if given.into.exists() else {"libraries": []}
    rows, undocumented = old["libraries"], set(old.get("undocumented", ()))
    for file in given.facts:
        facts = json.loads(file.read_bytes())
        rows = build(rows, facts["libraries"])
        undocumented |= set(facts.get("undocumented", ()))
    write(given.into, given.version, rows, undocumented)
    print(f"{given.into}: version {given.version}, {len(rows)} libraries")
    return 0


if __name__ == "__main__":
    sys.exit(main())
