"""Collect facts about libraries from the metadata of packages, for tools/make_registry.py.

    python tools/collect_packages.py [--wheels FOLDER] [--npm MANIFESTS.json] [--debian FOLDER] --into FACTS.json

A package is a row if its metadata names a site, or a repository with a README; else its name is `undocumented`.
"""

# MANIFESTS.json maps names of npm packages to their manifests, or to null. `--debian` downloads Debian's packages of
# crates, Go modules, Maven artifacts and gems into the folder, each once.

import argparse
import collections
import hashlib
import io
import json
import lzma
import re
import sys
import tarfile
import time
import tomllib
import urllib.request
import xml.etree.ElementTree as ET
import zipfile
from collections.abc import Callable, Iterable, Iterator
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
    "archive.org",
    "codehaus.org",
    "crates.io",
    "debian.org",
    "discord.gg",
    "docs.google.com",
    "gist.github.com",
    "git.io",
    "gitee.com",
    "googlesource.com",
    "java.net",
    "launchpad.net",
    "linkedin.com",
    "medium.com",
    "mths.be",
    "mvnrepository.com",
    "npm.im",
    "npmjs.com",
    "opencollective.com",
    "osdn.jp",
    "patreon.com",
    "pypi.org",
    "pypi.python.org",
    "raw.githubusercontent.com",
    "rubygems.org",
    "sf.net",
    "sites.google.com",
    "slack.com",
    "sourceforge.net",
    "sr.ht",
    "svn.apache.org",
    "twitter.com",
    "x.com",
    "youtube.com",
)


# Without a site, the README of the repository is the page of a package of these indexes. Packages on PyPI and npm have
# it in their own metadata.
README_SOURCES = ("crates", "maven", "rubygems")


class Package(NamedTuple):
    """What the metadata of a package states."""

    source: str
    name: str
    language: str
    docs_url: str | None
    repo_url: str | None
    title: str = ""  # the short name, if the name on the index is a path or a coordinate


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
            docs_url = usable(documentation_url((), manifest.get("homepage")))
            yield Package("npm", name, "javascript", docs_url, _repository(manifest.get("repository")))


# --- Debian -----------------------------------------------------------------------------------------------------------

# A stable release: its files stay.
DEBIAN = "http://deb.debian.org/debian"
SUITE = "trixie"
MAX_DEB_BYTES = 3_000_000
# Seconds between two downloads, to limit the load on the mirror.
PAUSE = 0.05


class Origin(NamedTuple):
    """The packages of a language in Debian: names, metadata files in them, what reads one, and how many are read."""

    debian: re.Pattern[str]
    file: re.Pattern[str]
    read: Callable[[bytes, str], Package | None]
    most: int


def read_crate(data: bytes, _homepage: str) -> Package | None:
    """Read a Cargo.toml."""
    found = tomllib.loads(data.decode())["package"]
    docs_url = documentation_url([f"docs,{found.get('documentation', '')}"], found.get("homepage"))
    # The newest version, not the one that an old release names.
    docs_url = re.sub(r"^(https://docs\.rs/)(?:crate/)?([\w-]+).*", r"\1\2", docs_url or "")
    return Package("crates", found["name"], "rust", usable(docs_url), _repository(found.get("repository")))


def read_go_module(data: bytes, _homepage: str) -> Package | None:
    """Read a go.mod. pkg.go.dev has the documentation of every public module under its path."""
    found = re.search(r"^module\s+\"?([\w.~/-]+)", data.decode(), re.MULTILINE)
    if found is None or "." not in found[1].partition("/")[0]:
        return None
    path = found[1]
    owner, _, title = re.sub(r"/v\d+$|\.v\d+$", "", path).rpartition("/")
    title = title if title != "go" else f"{owner.rpartition('/')[2]}-go"
    repository = _repository("https://" + "/".join(path.split("/")[:3]))
    return Package("go", path, "go", usable(f"https://pkg.go.dev/{path}"), repository, title)


def read_pom(data: bytes, homepage: str) -> Package | None:
    """Read a POM; Debian moves the address from it to the package. The group may be that of its parent."""
    root = ET.fromstring(re.sub(rb"\sxmlns=\"[^\"]*\"", b"", data, count=1))
    artifact = root.findtext("artifactId", "").strip()
    group = (root.findtext("groupId") or root.findtext("parent/groupId") or "").strip()
    if not artifact or not group or "$" in artifact + group or root.findtext("packaging", "jar").strip() == "pom":
        return None
    docs_url = usable(documentation_url((), homepage))
    return Package("maven", f"{group}:{artifact}", "java", docs_url, _repository(homepage), artifact)


_GEM_VALUE = r"s\.{}\s*=\s*\"([^\"]+)\""


def read_gemspec(data: bytes, _homepage: str) -> Package | None:
    """Read the specification of an installed gem, as RubyGems writes it."""
    text = data.decode(errors="replace")
    name, homepage = (re.search(_GEM_VALUE.format(key), text) for key in ("name", "homepage"))
    uris = dict(re.findall(r"\"(\w+)_uri\"\s*=>\s*\"([^\"]+)\"", text))
    if name is None:
        return None
    entries = [f"{label},{url}" for label, url in uris.items() if label in ("documentation", "homepage")]
    docs_url = documentation_url(entries, homepage and homepage[1])
    # The newest version, not the one that an old release names.
    docs_url = re.sub(r"^(https://(?:www\.)?rubydoc\.info/gems/[\w-]+)/.*", r"\1", docs_url or "")
    repository = _repository(uris.get("source_code") or (homepage and homepage[1]))
    return Package("rubygems", name[1], "ruby", usable(docs_url), repository)


_SHARE = "usr/share"
ORIGINS = (
    Origin(re.compile(r"librust-.+-dev"), re.compile(rf"{_SHARE}/cargo/registry/[^/]+/Cargo\.toml"), read_crate, 700),
    Origin(
        re.compile(r"golang-.+-dev"), re.compile(rf"{_SHARE}/gocode/src/([^/]+/){{2,4}}go\.mod"), read_go_module, 700
    ),
    # Few artifacts and gems have a site of their own.
    Origin(re.compile(r"lib.+-java|junit[45]|testng"), re.compile(rf"{_SHARE}/maven-repo/.+\.pom"), read_pom, 2_000),
    Origin(
        re.compile(r"ruby-.+|bundler|jekyll|puma|rake|rubocop|thin|unicorn"),
        re.compile(rf"{_SHARE}/rubygems-integration/.+\.gemspec"),
        read_gemspec,
        2_000,
    ),
)
# Debian's names of packages that are on an index under the same name: nobody who writes one means another.
_SAME_NAMES = re.compile(r"(?:python3|node|ruby)-([a-z0-9.-]+)|librust-([a-z0-9.-]+?)(?:-[\d.]+)?-dev")


def from_debian(folder: Path) -> tuple[list[Package], set[str]]:
    """Read the packages that most others depend on, and return them with the names of all packages."""
    folder.mkdir(parents=True, exist_ok=True)
    index = folder / f"{SUITE}-Packages.xz"
    if not index.exists():
        download(f"{DEBIAN}/dists/{SUITE}/main/binary-amd64/Packages.xz", index)
    with lzma.open(index, "rt", encoding="utf-8") as lines:
        stanzas = list(read_stanzas(lines))
    found: list[Package] = []
    for origin in ORIGINS:
        for stanza in chosen(stanzas, origin):
            file = folder / stanza["Filename"].rpartition("/")[2]
            if not file.exists():
                download(f"{DEBIAN}/{stanza['Filename']}", file, stanza["SHA256"])
            files = [data for path, data in sorted(files_of(file, origin.file), key=lambda item: item[0].count("/"))]
            # A Go module may contain others, such as examples; the first is its own.
            for data in files[:1] if origin.read is read_go_module else files:
                try:
                    package = origin.read(data, stanza.get("Homepage", ""))
                except (ValueError, KeyError, ET.ParseError):
                    continue  # malformed
                found += [package] if package is not None else []
    names = (_SAME_NAMES.fullmatch(stanza["Package"]) for stanza in stanzas)
    return _with_titles(found), {canonical(name[1] or name[2]) for name in names if name is not None}


def _with_titles(packages: list[Package]) -> list[Package]:
    """Return the packages; of Maven artifacts with one site or README, the title is the common beginning: `log4j`."""
    titles: dict[str | None, str] = {}
    for package in packages:
        address = package.docs_url or package.repo_url
        if package.source == "maven" and address is not None:
            own, other = package.title.split("-"), titles.get(address, package.title).split("-")
            titles[address] = "-".join(word for at, word in enumerate(own) if own[: at + 1] == other[: at + 1])
    return [
        package._replace(title=titles.get(package.docs_url or package.repo_url) or package.title)
        if package.source == "maven"
        else package
        for package in packages
    ]


def read_stanzas(lines: Iterable[str]) -> Iterator[dict[str, str]]:
    """Read an index of packages; of fields with several lines, the first."""
    stanza: dict[str, str] = {}
    for line in lines:
        if line.isspace():
            yield stanza
            stanza = {}
        elif not line[0].isspace():
            key, _, value = line.partition(":")
            stanza[key] = value.strip()
    if stanza:
        yield stanza


def chosen(stanzas: list[dict[str, str]], origin: Origin) -> list[dict[str, str]]:
    """Return the packages of a language on which most others depend."""
    own = [row for row in stanzas if origin.debian.fullmatch(row["Package"]) and int(row["Size"]) <= MAX_DEB_BYTES]
    providers = {name: row["Package"] for row in own for name in (*_names(row, "Provides"), row["Package"])}
    users: collections.Counter[str] = collections.Counter()
    for row in stanzas:
        needed = {providers.get(name) for name in _names(row, "Depends")}
        users.update(name for name in needed if name is not None and name != row["Package"])
    return sorted(own, key=lambda row: (-users[row["Package"]], row["Package"]))[: origin.most]


def _names(stanza: dict[str, str], field: str) -> list[str]:
    return [name.split()[0].partition(":")[0] for name in re.split(r"[,|]", stanza.get(field, "")) if name.strip()]


def download(url: str, file: Path, digest: str | None = None) -> None:
    """Store a file whose SHA-256 digest is known, or any.

    Raises: ValueError if the digest differs.
    """
    time.sleep(PAUSE)
    with urllib.request.urlopen(url, timeout=60) as response:
        data: bytes = response.read()
    if digest is not None and hashlib.sha256(data).hexdigest() != digest:
        raise ValueError(f"{url}: the digest differs from that of the index")
    part = file.with_suffix(".part")
    part.write_bytes(data)
    part.rename(file)


def files_of(deb: Path, wanted: re.Pattern[str]) -> Iterator[tuple[str, bytes]]:
    """Return the wanted files of a Debian package: an ar archive with the member data.tar.xz."""
    with deb.open("rb") as archive:
        archive.seek(8)
        while header := archive.read(60):
            size = int(header[48:58])
            data = archive.read(size + size % 2)
            if header.startswith(b"data.tar"):
                with tarfile.open(fileobj=io.BytesIO(data[:size])) as files:
                    for member in files:
                        path = member.name.removeprefix("./")
                        content = files.extractfile(member) if member.isfile() and wanted.fullmatch(path) else None
                        if content is not None:
                            yield path, content.read()


# --- addresses --------------------------------------------------------------------------------------------------------


def _repository(url: object) -> str | None:
    """Return the address of a repository, or None if it is not one."""
    address = str(url or "").removeprefix("git+").removesuffix("/").removesuffix(".git")
    parts = address.replace("http://", "https://", 1).split("/")
    return "/".join(parts[:5]) if _is_repository("/".join(parts)) else None


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
    """Return the new rows, one for each site or README, and the names of packages without either.

    A package whose site is that of a row that exists is added to that row. A package that a row already has is left
    out; one with the name of another library gets a row with its language in the id.
    """
    used = {
        (source, canonical(name.lower()))
        for row in known
        for source, names in row.get("packages", {}).items()
        for name in names
    }
    ids = {
        canonical(name.lower()) for row in known for name in (*row.get("aliases", ()), row["id"], row["name"]) if name
    }
    ids |= {name for _, name in used}
    owners = {_site(row["docs_url"]): row for row in known if row.get("docs_url")}
    owners |= {_site(row["repo_url"]): row for row in known if row.get("repo_url") and not row.get("docs_url")}
    titles: set[tuple[str, str]] = set()
    made: dict[str, dict[str, Any]] = {}
    undocumented: set[str] = set()
    # The shortest name of those with the same site is that of the library.
    for package in sorted(packages, key=lambda package: (len(package.title or package.name), package.name)):
        name = canonical(package.name.lower())
        if (package.source, name) in used:
            continue
        used.add((package.source, name))
        address = package.docs_url or (package.repo_url if package.source in README_SOURCES else None)
        owner = None if address is None else _owner(package, _site(address), owners)
        title = package.title or package.name
        title = title if (package.language, title) not in titles else package.name  # one of two versions, or a namesake
        library_id = library_id_of(title)
        if library_id in ids:
            library_id = f"{library_id}-{package.language}"
        if owner is not None:
            row = made.setdefault(owner["id"], {"id": owner["id"], "packages": {}})
            row["packages"].setdefault(package.source, []).append(package.name)
        elif address is None or library_id in ids:
            undocumented.add(name)
        else:
            ids.add(library_id)
            titles.add((package.language, title))
            row = {"id": library_id, "name": title}
            row |= {"docs_url": package.docs_url} if package.docs_url else {}
            row |= {"repo_url": package.repo_url} if package.repo_url else {}
            row |= {"languages": [package.language], "packages": {package.source: [package.name]}}
            made[library_id] = owners[_site(address)] = row
        titles.add((package.language, package.name.rpartition(":")[2]))
    return list(made.values()), sorted(undocumented)


def _site(url: str) -> str:
    """Return an address without what makes no difference."""
    return url.partition("://")[2].removeprefix("www.").rstrip("/").lower()


def _owner(package: Package, site: str, owners: dict[str, dict[str, Any]]) -> dict[str, Any] | None:
    """Return the row with the same site; also that of the whole host if the package belongs to its family."""
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
    parser.add_argument("--debian", type=Path, help="where files of Debian are kept; they are downloaded once")
    parser.add_argument("--registry", type=Path, default=BUNDLED, help="the rows that exist")
    parser.add_argument("--into", type=Path, required=True)
    given = parser.parse_args(arguments)
    packages = [package for folder in given.wheels for package in from_wheels(folder)]
    packages += [package for file in given.npm for package in from_manifests(file)]
    names: set[str] = set()
    if given.debian is not None:
        found, names = from_debian(given.debian)
        packages += found
    known = json.loads(given.registry.read_bytes())["libraries"]
    made, undocumented = rows(packages, known)
    undocumented = sorted(names.union(undocumented))
    given.into.write_text(json.dumps({"libraries": made, "undocumented": undocumented}, ensure_ascii=False, indent=1))
    print(f"{len(packages)} packages: {len(made)} new libraries, {len(undocumented)} without documentation")
    return 0


if __name__ == "__main__":
    sys.exit(main())
