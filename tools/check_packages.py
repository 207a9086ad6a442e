"""Compare the packages of the registry with PyPI and npm. Run by hand before a release; it needs the network.

    python tools/check_packages.py [FILE] [--only ID ...] [--facts FACTS.json] [--answers ANSWERS.json]

Exit code 1 if a package does not exist. An address that differs is reported for review.
"""

import argparse
import json
import re
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import urlsplit

ROOT = Path(__file__).parent.parent
for source in (ROOT / "packages").glob("*/src"):
    sys.path.insert(0, str(source))

from procontext.fetch import registrable_domain  # noqa: E402  # from this tree, wherever it is run
from procontext.models import Library  # noqa: E402
from procontext.registry import BUNDLED, read_document  # noqa: E402

# The data of a registry: whether the package `exists`, the `urls` of its metadata, and the `sites` in its README.
Answer: TypeAlias = dict[str, Any]

# Seconds between two queries, to limit the load on the registries.
PAUSE = 0.2
MAX_SECONDS = 180

# Hosts with pages of many projects; the first label is the owner.
PAGES = re.compile(r"([a-z0-9-]+)\.(?:github|gitlab)\.io")
READ_THE_DOCS = re.compile(r"\.(rtfd\.(io|org)|readthedocs\.org)$")
HOSTS_OF_CODE = ("github.com", "gitlab.com", "www.github.com")


class Verdict(NamedTuple):
    """The result for one package.

    `missing`; `agrees`: its metadata has our site; `mentions`: its README has our site; `differs`: it has another site;
    `silent`: it has only its repository or nothing; `undocumented`: our registry has no site.
    """

    library: Library
    registry: str
    package: str
    outcome: str
    urls: tuple[str, ...] = ()


def query_pip(name: str) -> Answer:
    """Return the metadata of the newest wheel. Nothing is installed or run."""
    done = run(
        sys.executable,
        *("-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--quiet", "--dry-run"),
        *("--no-deps", "--ignore-installed", "--only-binary", ":all:", "--report", "-", name),
    )
    if done.returncode == 0:
        metadata = json.loads(done.stdout)["install"][0]["metadata"]
        labelled = [entry.rpartition(",")[2].strip() for entry in metadata.get("project_url", ())]
        urls = [url for url in (metadata.get("home_page"), *labelled) if url]
        return {"exists": True, "urls": urls, "sites": sites_in(metadata.get("description") or "")}
    # No wheel for this Python: check at least that the package exists.
    done = run(sys.executable, *("-m", "pip", "index", "versions", "--pre", "--ignore-requires-python", name))
    return {"exists": done.returncode == 0, "urls": [], "sites": []}


def query_npm(name: str) -> Answer:
    """Return the homepage and repository of the newest version."""
    done = run("npm", "view", name, "name", "homepage", "repository", "--json")
    if done.returncode != 0:
        return {"exists": False, "urls": [], "sites": []}
    metadata = json.loads(done.stdout or "{}")
    if not isinstance(metadata, dict):  # npm prints a single member as a plain value
        return {"exists": True, "urls": [], "sites": []}
    repository = metadata.get("repository") or ""
    address = repository.get("url", "") if isinstance(repository, dict) else str(repository)
    urls = [url for url in (metadata.get("homepage") or "", readable(address)) if url]
    # The package is downloaded only if its metadata has no address, because some are large.
    readme = npm_readme(name) if all(is_code(url) for url in urls) else ""
    return {"exists": True, "urls": urls, "sites": sites_in(readme)}


def npm_readme(name: str) -> str:
    """Download a package, without unpacking it, and return its README; empty if there is none."""
    with tempfile.TemporaryDirectory() as folder:
        done = run("npm", "pack", name, "--silent", "--ignore-scripts", "--pack-destination", folder)
        packed = next(Path(folder).glob("*.tgz"), None) if done.returncode == 0 else None
        if packed is None:
            return ""
        with tarfile.open(packed) as archive:
            for member in archive:
                if re.fullmatch(r"[^/]+/readme(\.\w+)?", member.name, re.IGNORECASE):
                    opened = archive.extractfile(member)
                    return "" if opened is None else opened.read().decode("utf-8", "replace")
    return ""


def run(*command: str) -> "subprocess.CompletedProcess[str]":
    """Run a command and wait for it."""
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=MAX_SECONDS,
        check=False,
    )


def readable(repository: str) -> str:
    """Convert `git+ssh://git@github.com/a/b.git`, `github:a/b` and `a/b` to URLs."""
    if re.fullmatch(r"(github:)?[\w.-]+/[\w.-]+", repository):
        return "https://github.com/" + repository.removeprefix("github:")
    found = re.search(r"([\w.-]+\.[a-z]+)[/:](.+?)(\.git)?/?$", repository)
    return f"https://{found[1]}/{found[2]}" if found else ""


def sites_in(text: str) -> list[str]:
    """Return the sites in a README, without those of badges."""
    found = {site(url) for url in re.findall(r"https?://[^\s()\[\]<>\"'`]+", text)}
    return sorted(found - {"", "github.com", "shields.io", "githubusercontent.com"})


def site(url: str) -> str:
    """Return the registrable domain of an address, or its host."""
    host = (urlsplit(url).hostname or "").lower()
    host = READ_THE_DOCS.sub(".readthedocs.io", host)
    return registrable_domain(host) or host


def is_code(url: str) -> bool:
    """True if an address is that of a repository, which is not documentation."""
    return (urlsplit(url).hostname or "").lower() in HOSTS_OF_CODE


def is_same_site(docs_url: str, urls: Iterable[str]) -> bool:
    """Return whether an address in the metadata belongs to the owner of the documentation."""
    host = (urlsplit(docs_url).hostname or "").lower()
    owner = PAGES.fullmatch(host)
    for url in urls:
        if site(url) == site(docs_url):
            return True
        if owner is not None and is_code(url) and urlsplit(url).path.lower().startswith(f"/{owner[1]}/"):
            return True
    return False


def judge(library: Library, place: str, package: str, answer: Answer) -> Verdict:
    """Return the verdict for a package."""
    urls = tuple(answer["urls"])
    docs_url = library.docs_url or library.llms_txt_url
    if not answer["exists"]:
        outcome = "missing"
    elif docs_url is None:
        outcome = "undocumented"
    elif is_same_site(docs_url, urls):
        outcome = "agrees"
    elif site(docs_url) in answer["sites"]:
        outcome = "mentions"
    else:
        outcome = "silent" if all(is_code(url) for url in urls) else "differs"
    return Verdict(library, place, package, outcome, urls)


def answered(libraries: Iterable[Library], file: Path) -> Iterator[Verdict]:
    """Return a verdict for every package. Unknown packages are queried and stored."""
    kept: dict[str, Answer] = json.loads(file.read_bytes()) if file.exists() else {}
    for library in libraries:
        for registry, names, query in (
            ("PyPI", library.packages.pypi, query_pip),
            ("npm", library.packages.npm, query_npm),
        ):
            for name in names:
                key = f"{registry} {name}"
                if "sites" not in kept.get(key, {}):
                    kept[key] = query(name)
                    file.write_text(json.dumps(kept, indent=1), encoding="utf-8")
                    time.sleep(PAUSE)
                yield judge(library, registry, name, kept[key])


def main(arguments: list[str] | None = None) -> int:
    """Query the registries and print the differences. Returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", nargs="?", type=Path, default=BUNDLED)
    parser.add_argument("--only", nargs="+", default=[], metavar="ID", help="check only these libraries")
    parser.add_argument("--facts", type=Path, help="check only the libraries in this file")
    parser.add_argument("--answers", type=Path, default=Path("package-answers.json"), help="results of earlier runs")
    given = parser.parse_args(arguments)
    wanted = set(given.only)
    if given.facts is not None:
        wanted |= {fact["id"] for fact in json.loads(given.facts.read_bytes())["libraries"]}
    libraries = read_document(given.file.read_bytes(), str(given.file)).libraries
    counts: dict[str, int] = {}
    for verdict in answered((row for row in libraries if not wanted or row.id in wanted), given.answers):
        counts[verdict.outcome] = counts.get(verdict.outcome, 0) + 1
        if verdict.outcome not in ("agrees", "mentions"):
            docs_url = verdict.library.docs_url or verdict.library.llms_txt_url or "-"
            print(
                verdict.outcome,
                verdict.library.id,
                f"{verdict.registry}:{verdict.package}",
                docs_url,
                *verdict.urls,
            )
    print(", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())))
    return 1 if counts.get("missing") else 0


if __name__ == "__main__":
    sys.exit(main())
