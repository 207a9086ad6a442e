"""Make the registry that ships inside the package from files of facts.

    python tools/make_registry.py --facts FACTS.json [--facts MORE.json ...] [--version 2026.11.15]

It begins with the registry there is, and lays each file over it: a row with a new id is added, one with a known id gives its
values to the row that is there (lists are joined; with `"replace": true` nothing of the old row is kept). So a library is
added by writing a row into tools/registry_additions.json and running this with it. The same facts give the same bytes. A fact
is a name, a package, an address; no text is taken from anywhere. tools/check_registry.py says whether the result is sound.
"""

import argparse
import datetime
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
REGISTRY = (
    ROOT / "packages" / "jackstay-procontext" / "src" / "procontext" / "registry" / "known-libraries.json"
)

TEXTS = ("name", "description", "docs_url", "llms_txt_url", "repo_url")
LISTS = ("languages", "aliases")


def bare(url: str) -> str:
    """`https://host/` is `https://host`: one spelling for the root of a site."""
    return url.rstrip("/") if url.count("/") == 3 and url.endswith("/") else url


def joined(old: list[str], new: list[str]) -> list[str]:
    """Both, each once, the old ones first."""
    return list(dict.fromkeys((*old, *new)))


def lay(row: dict[str, Any], fact: dict[str, Any]) -> dict[str, Any]:
    """A row with the values of a fact over it, and nothing else of the fact: no provenance, no notes."""
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
        for place in ("pypi", "npm")
    }
    made["packages"] = {place: names for place, names in packages.items() if names}
    return made


def build(rows: list[dict[str, Any]], facts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All rows, in the order in which they were first named."""
    made = {row["id"]: lay({}, row) for row in rows}
    for fact in facts:
        old = {} if fact.get("replace") else made.get(fact["id"], {})
        made[fact["id"]] = lay(old, fact)
    return list(made.values())


def write(file: Path, version: str, rows: list[dict[str, Any]]) -> None:
    """One library a line: a change reads as a change."""
    lines = ",\n".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in rows)
    file.write_text(f'{{"version":{json.dumps(version)},"libraries":[\n{lines}\n]}}\n')


def main(arguments: list[str] | None = None) -> int:
    """Build, write, and say what there is now."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--facts", action="append", type=Path, default=[], help="a JSON file with `libraries`"
    )
    parser.add_argument("--into", type=Path, default=REGISTRY, help="the registry to begin with and to write")
    parser.add_argument("--version", default=datetime.datetime.now(datetime.UTC).strftime("%Y.%m.%d"))
    given = parser.parse_args(arguments)
    rows = json.loads(given.into.read_bytes())["libraries"] if given.into.exists() else []
    for file in given.facts:
        rows = build(rows, json.loads(file.read_bytes())["libraries"])
    write(given.into, given.version, rows)
    print(f"{given.into}: version {given.version}, {len(rows)} libraries")
    return 0


if __name__ == "__main__":
    sys.exit(main())
