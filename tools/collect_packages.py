"""Collect facts about libraries from the metadata of packages, for tools/make_registry.py.

    python tools/collect_packages.py --wheels FOLDER [--npm MANIFESTS.json] --into FACTS.json

A package becomes a row if its own metadata names a documentation site; the names of the others are `undocumented`.
"""

# MANIFESTS.json maps names of npm packages to their manifests, or to null.

import argparse
import json
import sys
import zipfile
from collections.abc import Iterator
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

ROOT = Path(__file__).parent.parent
for source in (ROOT / "packages").glob("*/src"):
    sys.path.insert(0, str(source))

from procontext.registry import BUNDLED  # noqa: E402  # from this tree, wherever it is run
from procontext.registry._installed import documentation_url, library_id_of  # noqa: E402
from procontext.resolve import canonical  # noqa: E402

# Hosts that a package may name and that are not its documentation.
OTHER_HOSTS = (
    "crates.io",
    "discord.gg",
    "docs.google.com",
    "gist.github.com",
    "git.io",
    "gitee.com",
    "launchpad.net",
    "linkedin.com",
    "medium.com",
    "mths.be",
    "npm.im",
    "npmjs.com",
    "opencollective.com",
    "patreon.com",
    "pypi.org",
    "pypi.python.org",
    "raw.githubusercontent.com",
    "slack.com",
    "sourceforge.net",
    "sr.ht",
    "twitter.com",
    "x.com",
    "youtube.com",
)


class Package(NamedTuple):
    """What the metadata of a package states."""

    source: str
    name: str
    language: str
    docs_url: str | None
    repo_url: str | None


def from_wheels(folder: Path) -> Iterator[Package]:
    """Read the metadata of each wheel."""
    for file in sorted(folder.glob("*.whl")):
        with zipfile.ZipFile(file) as archive:
            names = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
            metadata: Message = message_from_bytes(archive.read(names[0])) if names else Message()
        if metadata["Name"]:
            urls = metadata.get_all("Project-URL") or []
            repository = next((url for url in map(_address, urls) if _is_repository(url)), None)
            docs_url = usable(documentation_url(urls, metadata["Home-page"]))
            yield Package("pypi", metadata["Name"], "python", docs_url, repository)


def from_manifests(file: Path) -> Iterator[Package]:
    """Read the manifests of npm packages."""
    manifests: dict[str, dict[str, Any] | None] = json.loads(file.read_bytes())
    for name, manifest in sorted(manifests.items()):
        if manifest is not None and not name.startswith("@types/"):
            repository = str(manifest.get("repository") or "").removeprefix("git+").removesuffix(".git")
            docs_url = usable(documentation_url((), manifest.get("homepage")))
            is_repository = _is_repository(repository)
            yield Package("npm", name, "javascript", docs_url, repository if is_repository else None)


def _address(entry: str) -> str:
    return entry.partition(",")[2].strip()


def _is_repository(url: str) -> bool:
    return url.startswith(("https://github.com/", "https://gitlab.com/")) and url.count("/") >= 4


def usable(url: str | None) -> str | None:
    """Return the address of a documentation site without its fragment, or None if it is not one."""
    if url is None:
        return None
    try:
        parts = urlsplit(url)
        is_plain = parts.scheme == "https" and parts.port is None and parts.username is None
    except ValueError:
        return None
    host = (parts.hostname or "").removeprefix("www.")
    is_other = any(host == other or host.endswith(f".{other}") for other in OTHER_HOSTS)
    if not is_plain or "." not in host or is_other or any(character in url for character in " <>{}|\\\"'"):
        return None
    path = parts.path.rstrip("/") if parts.path in ("", "/") else parts.path
    return f"https://{parts.netloc}{path}"


def rows(packages: list[Package], known: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the new rows, one for each site, and the names of packages without a site.

    A package whose site is that of a row that exists is added to that row. A name that a row already has is left out.
    """
    used = {
        canonical(name.lower())
        for row in known
        for names in (*row.get("packages", {}).values(), row.get("aliases", ()), (row["id"], row["name"]))
        for name in names
    }
    owners = {_site(row["docs_url"]): row for row in known if row.get("docs_url")}
    made: dict[str, dict[str, Any]] = {}
    undocumented: set[str] = set()
    # The shortest name of those with the same site is that of the library.
    for package in sorted(packages, key=lambda package: (len(package.name), package.name)):
        name = canonical(package.name.lower())
        if name in used:
            continue
        used.add(name)
        library_id = library_id_of(package.name)
        owner = None if package.docs_url is None else _owner(package, owners)
        if owner is not None:
            row = made.setdefault(owner["id"], {"id": owner["id"], "packages": {}})
            row["packages"].setdefault(package.source, []).append(package.name)
        elif package.docs_url is None or library_id in used - {name}:
            undocumented.add(name)
        else:
            used.add(library_id)
            row = {"id": library_id, "name": package.name, "docs_url": package.docs_url}
            row |= {"repo_url": package.repo_url} if package.repo_url else {}
            row |= {"languages": [package.language], "packages": {package.source: [package.name]}}
            made[library_id] = owners[_site(package.docs_url)] = row
    return list(made.values()), sorted(undocumented)


def _site(url: str) -> str:
    """Return an address without what makes no difference."""
    return url.partition("://")[2].removeprefix("www.").rstrip("/").lower()


def _owner(package: Package, owners: dict[str, dict[str, Any]]) -> dict[str, Any] | None:
    """Return the row with the same site; also that of the whole host if the package belongs to its family."""
    site = _site(package.docs_url or "")
    found = owners.get(site)
    host = owners.get(site.partition("/")[0])
    if found is None and host is not None and package.name.lower().startswith(host["id"]):
        found = host
    # The same site may be about two languages; then each has its own row.
    return found if found is not None and found.get("packages", {}).get(package.source) else None


def main(arguments: list[str] | None = None) -> int:
    """Collect, and print how much was found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--wheels", type=Path, action="append", default=[])
    parser.add_argument("--npm", type=Path, action="append", default=[])
    parser.add_argument("--registry", type=Path, default=BUNDLED, help="the rows that exist")
    parser.add_argument("--into", type=Path, required=True)
    given = parser.parse_args(arguments)
    packages = [package for folder in given.wheels for package in from_wheels(folder)]
    packages += [package for file in given.npm for package in from_manifests(file)]
    known = json.loads(given.registry.read_bytes())["libraries"]
    made, undocumented = rows(packages, known)
    given.into.write_text(json.dumps({"libraries": made, "undocumented": undocumented}, ensure_ascii=False, indent=1))
    print(f"{len(packages)} packages: {len(made)} new libraries, {len(undocumented)} without documentation")
    return 0


if __name__ == "__main__":
    sys.exit(main())
