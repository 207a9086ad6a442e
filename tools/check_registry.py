"""Check a registry: it can be read, every name resolves to its library, and no two libraries share a name.

    python tools/check_registry.py [FILE] [--facts FACTS.json] [--least 2000]

With --facts, every library and package name of that file must resolve. Exit code 1 with a line for each problem.
"""

import argparse
import collections
import json
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
for source in (ROOT / "packages").glob("*/src"):
    sys.path.insert(0, str(source))

from procontext.errors import RegistryError  # noqa: E402  # from this tree, wherever it is run
from procontext.models import Library  # noqa: E402
from procontext.registry import BUNDLED, read_document  # noqa: E402
from procontext.resolve import Index  # noqa: E402


def flaws(libraries: tuple[Library, ...]) -> Iterator[str]:
    """Return the problems in the rows of a registry."""
    index = Index(libraries)
    owners: dict[tuple[str, str], list[str]] = collections.defaultdict(list)
    for library in libraries:
        if library.docs_url is None and library.llms_txt_url is None and library.repo_url is None:
            yield f"{library.id}: no address at all"
        if not library.languages:
            yield f"{library.id}: no language"
        for place, name in library.packages.names():
            owners[place, name.lower()].append(library.id)
            found = index.resolve(name)
            if library.id not in [match.library_id for match in found if match.matched_via == "package_name"]:
                yield f"{library.id}: its package {name} leads to {[match.library_id for match in found]}"
        for name in (library.id, library.name, *library.aliases):
            found = index.resolve(name)
            if library.id not in [match.library_id for match in found if match.relevance == 1.0]:
                yield f"{library.id}: its name {name} leads to {[match.library_id for match in found]}"
    for (place, name), ids in owners.items():
        if len(ids) > 1:
            yield f"{name} of {place} belongs to {', '.join(ids)}"


def missing(libraries: tuple[Library, ...], facts: Path) -> Iterator[str]:
    """Return facts that are not in the registry."""
    index = Index(libraries)
    for fact in json.loads(facts.read_bytes())["libraries"]:
        if index.get(fact["id"]) is None:
            yield f"{fact['id']}: missing"
        for names in (fact.get("packages") or {}).values():
            for name in names:
                found = {match.library_id for match in index.resolve(name) if match.matched_via == "package_name"}
                if fact["id"] not in found:
                    yield f"{fact['id']}: its package {name} leads to {sorted(found)}"


def main(arguments: list[str] | None = None) -> int:
    """Check a registry and print each problem. Returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", nargs="?", type=Path, default=BUNDLED)
    parser.add_argument("--facts", type=Path)
    parser.add_argument("--least", type=int, default=2000, help="the minimum number of libraries")
    given = parser.parse_args(arguments)
    try:
        document = read_document(given.file.read_bytes(), str(given.file))
    except RegistryError as error:
        print(error, file=sys.stderr)
        return 1
    found = list(flaws(document.libraries))
    if given.facts is not None:
        found += missing(document.libraries, given.facts)
    if len(document.libraries) < given.least:
        found.append(f"{len(document.libraries)} libraries; {given.least} are wanted")
    for flaw in found:
        print(flaw, file=sys.stderr)
    print(f"{given.file}: version {document.version}, {len(document.libraries)} libraries, {len(found)} flaws")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
