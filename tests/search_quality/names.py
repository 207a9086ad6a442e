"""How many names of real projects are known: by rows, by installed metadata, and by the package index.

    python tests/search_quality/names.py                    the packages of names.json
    python tests/search_quality/names.py --collect FILE     write names.json again, for the names in a file

`make bench ONLY=procontext` runs it. The package index is a copy on loopback. Exits with 1 if fewer than 90 % of the
Python packages are known with their metadata, or at least 0.5 % of either language are guessed.
"""

# names.json has the packages that `uv pip compile` and `npm install` choose for the projects in its first lines, and of
# each what its page on PyPI or npm states about documentation; of a README, the number of characters. The registry is
# not extended by these names, so that they measure what it knows of any environment. A line of FILE is `pypi NAME` or
# `npm NAME`; the projects are kept.

import argparse
import asyncio
import json
import random
import string
import sys
import tempfile
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from email.message import EmailMessage
from pathlib import Path
from urllib.parse import quote

import msgspec

from procontext.config import FetcherSettings, PackagesSettings
from procontext.registry import Installed, PackageIndexes, Registry

NAMES = Path(__file__).with_name("names.json")
MIN_KNOWN = 0.90
MAX_GUESSED = 0.005
# Of the lines of inputs.txt with a library, and of those without one.
MIN_RESOLVED = 0.97
MAX_WRONG = 0.005
# Of one random typing error in each id of five letters or more.
MIN_SLIP_LENGTH = 5
MIN_SLIPS = 0.9
ROWS_ALONE = "rows alone"


class Package(msgspec.Struct, omit_defaults=True):
    """What the page of a package on its index states about documentation."""

    index: str
    name: str
    version: str
    homepage: str = ""
    urls: dict[str, str] = {}
    readme: int = 0

    def page(self) -> dict[str, object]:
        """Return the page of a Python package as PyPI's JSON interface has it."""
        readme = "text " * (self.readme // 5)
        names = {"name": self.name, "version": self.version}
        return {"info": {**names, "home_page": self.homepage, "project_urls": self.urls, "description": readme}}

    def install(self, project: Path) -> None:
        """Write the metadata of the installed package."""
        if self.index == "npm":
            folder = project / "node_modules" / self.name
            data = json.dumps({"name": self.name, "version": self.version, "homepage": self.homepage})
        else:
            site = project / ".venv" / "lib" / "python3.11" / "site-packages"
            folder = site / f"{self.name.replace('-', '_')}-{self.version}.dist-info"
            metadata = EmailMessage()
            metadata["Name"], metadata["Version"], metadata["Home-page"] = self.name, self.version, self.homepage
            for label, url in self.urls.items():
                metadata.add_header("Project-URL", f"{label}, {url}")
            metadata.set_payload("text " * (self.readme // 5))
            data = metadata.as_string()
        folder.mkdir(parents=True)
        (folder / ("package.json" if self.index == "npm" else "METADATA")).write_text(data)


class Names(msgspec.Struct):
    """The content of names.json."""

    projects: dict[str, list[str]]
    packages: list[Package]


async def serve(pages: dict[str, bytes]) -> tuple[asyncio.Server, str]:
    """Serve the pages on loopback, and return the server and its URL."""

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        body = pages.get(head.split(b" ", 2)[1].decode().lower())
        status = "200 OK" if body is not None else "404 Not Found"
        writer.write(f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n".encode())
        writer.write(f"Content-Length: {len(body or b'')}\r\nConnection: close\r\n\r\n".encode() + (body or b""))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(respond, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    return server, f"http://{host}:{port}"


async def measure(packages: list[Package], folder: Path) -> int:
    """Resolve every name with each of the sources, print the shares, and return the exit code."""
    (folder / ".venv").mkdir()
    (folder / ".venv" / "pyvenv.cfg").touch()
    for package in packages:
        package.install(folder)
    python = [package for package in packages if package.index == "pypi"]
    server, url = await serve({f"/pypi/{each.name.lower()}/json": msgspec.json.encode(each.page()) for each in python})
    urls = dict.fromkeys(("pypi_url", "npm_url", "crates_url", "go_url"), url)
    fetcher = FetcherSettings(allowed_private_hosts=(url.removeprefix("http://"),))
    indexes = [PackageIndexes(PackagesSettings(lookup=True, **urls), fetcher, folder / name) for name in ("one", "all")]
    installed = Installed(folder, folder / "pages")
    indexed = Registry(open_indexes=lambda: indexes[0])
    complete = Registry(installed=installed, open_indexes=lambda: indexes[1])
    registries = {
        ROWS_ALONE: Registry(),
        "rows, environment": Registry(installed=installed),
        "rows, package index": indexed,
        "rows, environment, index": complete,
    }
    code = 0
    for what, registry in registries.items():
        registry.load()
        # The README of an npm package is on a page of megabytes, which names.json does not have.
        languages = ("pypi",) if registry in (indexed, complete) else ("pypi", "npm")
        for language in languages:
            names = [package.name for package in packages if package.index == language]
            code |= await count(f"{language}: {what}", registry, names, is_complete=what != ROWS_ALONE)
    for each in indexes:
        await each.close()
    server.close()
    return code


async def count(what: str, registry: Registry, names: list[str], *, is_complete: bool) -> int:
    """Resolve the names, print how many are known and how, and return the exit code."""
    first = {name: found[0] for name in names if (found := await registry.find(name))}
    guesses = [f"{name} -> {match.library_id}" for name, match in first.items() if match.matched_via == "fuzzy"]
    known = len(first) - len(guesses)
    via = Counter(match.matched_via for match in first.values())
    outside = {"installed": via["installed"], "package_metadata": via["package_metadata"]}
    sites = sum(match.docs_url is not None for match in first.values())
    print(f"{what:30}{known:5} of {len(names)} known ({known / len(names):.1%}), {len(guesses)} guessed")
    print(f"{'':31}rows {known - sum(outside.values())}, environment {outside['installed']},", end=" ")
    print(f"index {outside['package_metadata']}; {sites} of them with a site", *guesses, sep=", ")
    return int(len(guesses) >= MAX_GUESSED * len(names) or (is_complete and known < MIN_KNOWN * len(names)))


def collect(lines: list[str]) -> None:
    """Write names.json for these packages, from their pages on PyPI and npm."""
    with ThreadPoolExecutor(6) as pool:
        packages = list(pool.map(_collected, sorted(set(lines))))
    names = msgspec.json.decode(NAMES.read_bytes(), type=Names)
    projects = json.dumps(names.projects, indent=1)
    rows = ",\n".join(msgspec.json.encode(package).decode() for package in packages if package is not None)
    NAMES.write_text(f'{{"projects":{projects},"packages":[\n{rows}\n]}}\n')


def _collected(line: str) -> Package | None:
    index, _, name = line.partition(" ")
    url = (
        f"https://pypi.org/pypi/{name}/json" if index == "pypi" else f"https://registry.npmjs.org/{quote(name)}/latest"
    )
    try:
        with urllib.request.urlopen(url, timeout=60) as response:
            page = json.loads(response.read())
    except OSError as error:
        print(f"{line}: {error}", file=sys.stderr)
        return None
    if index == "npm":
        homepage = page.get("homepage")
        return Package(index, name, page["version"], homepage if isinstance(homepage, str) else "")
    info = page["info"]
    urls = {label: url for label, url in (info["project_urls"] or {}).items() if label and url}
    readme = len(info["description"] or "")
    return Package(index, info["name"], info["version"], info["home_page"] or "", urls, readme)


def measure_inputs() -> int:
    """Resolve what developers type, with the rows of the registry alone, and return the exit code."""
    registry = Registry()
    registry.load()
    right = wrong = known = unknown = guessed = 0
    for line in (Path(__file__).parent / "inputs.txt").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        query, _, meant = (part.strip() for part in line.rpartition("|"))
        found = registry.resolve(query)
        first = found[0].library_id if found else ""
        known, unknown = known + bool(meant), unknown + (not meant)
        right += bool(meant) and first == meant
        wrong += bool(meant and first) and first != meant
        guessed += bool(first) and not meant
        if first != meant:
            print(f"  {query!r}: {first or 'nothing'} instead of {meant or 'nothing'}")
    print(f"{known} inputs of known libraries: {right} right, {wrong} wrong, {known - right - wrong} empty")
    print(f"{unknown} inputs of other packages: {unknown - guessed} empty, {guessed} wrong")
    return int(right < MIN_RESOLVED * known or wrong > MAX_WRONG * known or guessed > MAX_WRONG * unknown)


def measure_slips() -> int:
    """Make one typing error in the id of each library, print how many are found first, and return the exit code."""
    registry = Registry()
    registry.load()
    rng = random.Random(1)
    ids = [library.id for library in registry if len(library.id) >= MIN_SLIP_LENGTH]
    first = other = 0
    for name in ids:
        slip = one_slip(name, rng)
        found = registry.resolve(slip)
        first += bool(found) and found[0].library_id == name
        # Another library with this name is no guess: `six` for `sixx`.
        other += bool(found) and found[0].library_id != name and found[0].matched_via == "fuzzy"
    print(
        f"{len(ids)} ids with one random typing error: {first} first ({first / len(ids):.1%}), {other} another library"
    )
    return int(first < MIN_SLIPS * len(ids))


def one_slip(name: str, rng: random.Random) -> str:
    """Return a name with one character left out, doubled or replaced, or two exchanged, after the first."""
    at = rng.randrange(1, len(name) - 1)
    before, character, after = name[:at], name[at], name[at + 1 :]
    letter = rng.choice(string.ascii_lowercase)
    return rng.choice(
        (
            before + after,
            before + 2 * character + after,
            before + letter + after,
            before + after[0] + character + after[1:],
        )
    )


def main() -> int:
    """Parse the arguments, and measure or collect."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--collect", type=Path, metavar="FILE")
    given = parser.parse_args()
    if given.collect is not None:
        collect(given.collect.read_text().splitlines())
        return 0
    packages = msgspec.json.decode(NAMES.read_bytes(), type=Names).packages
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(measure(packages, Path(folder))) | measure_inputs() | measure_slips()


if __name__ == "__main__":
    sys.exit(main())
