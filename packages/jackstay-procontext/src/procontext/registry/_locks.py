"""The versions that a project's lock files pin, by ecosystem and package. Functions block."""

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from procontext.resolve import numbers

# A lock file of a large project has some megabytes.
MAX_BYTES: Final = 50_000_000
_SEPARATORS = re.compile(r"[-_.]+")
_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][\w.-]*)\s*(?:\[[^\]]*\])?\s*(===?\s*[^\s;\\#]+|[<>~!][^;\\#]+)")
_GO_MODULE = re.compile(r"^\s*(?:require\s+)?([\w.-]+\.[\w./~-]+)\s+(v[\w.+-]+)", re.MULTILINE)
# `/react@18.2.0(peer@1):`, `react@18.2.0:` or, in old files, `/react/18.2.0:`
_PNPM_PACKAGE = re.compile(r"^  '?/?(@?[^@'\s(]+?)[@/](\d[^'\s(:_]*)[^:]*:", re.MULTILINE)
_NPM_FOLDER: Final = "node_modules/"
_GEM = re.compile(r"^    ([\w.-]+) \((\d[\w.]*)[^)]*\)$", re.MULTILINE)
_GRADLE = re.compile(r"^([\w.-]+:[\w.-]+):([^=\s]+)=", re.MULTILINE)


class Locked(NamedTuple):
    """One entry of a lock file. `is_direct`: the version that the project itself uses, if there are several."""

    ecosystem: str
    name: str
    version: str
    is_direct: bool = False


def locked_versions(project: Path) -> dict[tuple[str, str], str]:
    """Return the version of each package in the lock files of a project, by ecosystem and name.

    The files are those of the nearest folder that has any, from the project up to the root of its repository.
    """
    for folder in _folders(project):
        found = _read_folder(folder)
        if found:
            return found
    return {}


def lock_files(project: Path) -> list[Path]:
    """Return all lock files that `locked_versions` reads, whether they exist or not."""
    found: list[Path] = []
    for folder in _folders(project):
        files = [folder / name for name in _FILES]
        found += files
        if any(file.exists() for file in files):
            break
    return found


def _folders(project: Path) -> list[Path]:
    """Return the project and the folders above it, up to the root of its repository."""
    found: list[Path] = []
    for folder in (project, *project.parents):
        found.append(folder)
        if (folder / ".git").exists():
            break
    return found


def _read_folder(folder: Path) -> dict[tuple[str, str], str]:
    chosen: dict[tuple[str, str], Locked] = {}
    for name, read in _FILES.items():
        file = folder / name
        try:
            if not file.is_file() or file.stat().st_size > MAX_BYTES:
                continue
            entries = list(read(file.read_text(encoding="utf-8", errors="replace")))
        except (OSError, ValueError, TypeError, AttributeError, KeyError, RecursionError):
            continue  # unreadable or malformed
        for entry in entries:
            key = (entry.ecosystem, package_key(entry.ecosystem, entry.name))
            old = chosen.get(key)
            rank = (entry.is_direct, numbers(entry.version))
            if old is None or rank > (old.is_direct, numbers(old.version)):
                chosen[key] = entry
    return {key: entry.version for key, entry in chosen.items()}


def package_key(ecosystem: str, name: str) -> str:
    """Return the spelling of a package name by which it is found; on PyPI and crates.io, separators are equal."""
    return _SEPARATORS.sub("-", name).lower() if ecosystem in ("pypi", "crates") else name.lower()


def _from_toml(ecosystem: str) -> Callable[[str], Iterator[Locked]]:
    """Return a reader of `[[package]]` tables: uv.lock, poetry.lock and Cargo.lock."""

    def read(text: str) -> Iterator[Locked]:
        for package in tomllib.loads(text).get("package", ()):
            if isinstance(package.get("version"), str):
                yield Locked(ecosystem, str(package["name"]), package["version"])

    return read


def _from_requirements(text: str) -> Iterator[Locked]:
    for line in text.splitlines():
        found = _REQUIREMENT.match(line)
        if found is not None:
            version = "".join(found[2].split())
            yield Locked("pypi", found[1], version.lstrip("=") if version.startswith("==") else version)


def _from_npm(text: str) -> Iterator[Locked]:
    data = msgspec.json.decode(text)
    packages: Mapping[str, Any] = data.get("packages") or {
        f"{_NPM_FOLDER}{name}": row for name, row in (data.get("dependencies") or {}).items()
    }
    for path, row in packages.items():
        folder, _, name = path.rpartition(_NPM_FOLDER)
        if name and isinstance(row.get("version"), str):
            yield Locked("npm", name, row["version"], is_direct=not folder)


def _from_pnpm(text: str) -> Iterator[Locked]:
    _, _, packages = text.partition("\npackages:")
    for name, version in _PNPM_PACKAGE.findall(packages):
        yield Locked("npm", name, version)
    importers = re.compile(r"^ {4,8}'?(@?[\w./-]+)'?:\n +specifier:.*\n +version: '?(\d[^\s('_]*)", re.MULTILINE)
    for name, version in importers.findall(text.partition("\npackages:")[0]):
        yield Locked("npm", name, version, is_direct=True)


def _from_go(text: str) -> Iterator[Locked]:
    for name, version in _GO_MODULE.findall(text):
        yield Locked("go", name, version)


def _from_gems(text: str) -> Iterator[Locked]:
    for name, version in _GEM.findall(text):
        yield Locked("rubygems", name, version)


def _from_gradle(text: str) -> Iterator[Locked]:
    for name, version in _GRADLE.findall(text):
        yield Locked("maven", name, version)


def _from_nuget(text: str) -> Iterator[Locked]:
    for packages in msgspec.json.decode(text)["dependencies"].values():
        for name, row in packages.items():
            if isinstance(row.get("resolved"), str):
                yield Locked("nuget", name, row["resolved"], is_direct=row.get("type") == "Direct")


_FILES: Final[Mapping[str, Callable[[str], Iterator[Locked]]]] = {
    "uv.lock": _from_toml("pypi"),
    "poetry.lock": _from_toml("pypi"),
    "requirements.txt": _from_requirements,
    "package-lock.json": _from_npm,
    "pnpm-lock.yaml": _from_pnpm,
    "Cargo.lock": _from_toml("crates"),
    "go.mod": _from_go,
    "Gemfile.lock": _from_gems,
    "gradle.lockfile": _from_gradle,
    "packages.lock.json": _from_nuget,
}

__all__ = ["lock_files", "locked_versions", "package_key"]
