"""Packages of the project's own environment, read without a network and without importing anything.

For a package that the registry does not know, its README and what its modules (docstrings and signatures of `.py` and
`.pyi`) or types (`.d.ts`) declare are written as Markdown into a folder, which is then a source like any other. The
files are data of the project: its addresses are shown, but do not become fetchable. Functions block.
"""

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from procontext.models import Library, Packages
from procontext.registry._locks import lock_files, locked_versions, package_key

MAX_FILE_BYTES: Final = 1_000_000
# Changes with the pages that are written, so that those of an older release are not used.
_FORMAT: Final = "1"

_SEPARATORS = re.compile(r"[-_.]+")
_NPM_NAME = re.compile(r"(?:@[a-z0-9_.-]+/)?[a-z0-9_.-]+")
_NO_ID = re.compile(r"[^a-z0-9_-]+")
_REPOSITORY = re.compile(r"https?://(?:www\.)?(?:github|gitlab|bitbucket|codeberg)\.")


class Installed:
    """The packages of a project. `folder` is where their pages are written."""

    def __init__(self, project: Path, folder: Path) -> None:
        self._project = project
        self._folder = folder
        self._distributions: dict[str, Path] | None = None
        self._locked: dict[tuple[str, str], str] = {}
        # An agent installs packages and edits lock files while the server runs.
        self._watched: list[Path] = []
        self._stamps: list[tuple[int, int]] = []

    def find(self, name: str) -> Library | None:
        """Return the installed package with this name, or None. Writes its pages at the first call."""
        try:
            return self._python(name) or self._javascript(name)
        except (OSError, ValueError, RecursionError):
            return None  # unreadable or malformed files

    @property
    def is_listed(self) -> bool:
        """Whether the environment was listed, and has not changed; then `version` takes microseconds."""
        return self._distributions is not None and self._stamps == _stamps(self._watched)

    def is_quick(self, name: str | None) -> bool:
        """Return whether `version`, and `find` of this name if there is one, take microseconds."""
        if self._distributions is None or not self.is_listed or name is None:
            return self.is_listed
        return _canonical(name) not in self._distributions and not (self._project / "node_modules").is_dir()

    def version(self, library: Library) -> str | None:
        """Return the version of a library that the project's lock files or its environment have, or None."""
        installed = self._by_name()
        for index, name in library.packages.names() if self._locked else ():
            if (version := self._locked.get((index, package_key(index, name)))) is not None:
                return version
        for name in library.packages.pypi:
            found = installed.get(_canonical(name))
            if found is not None:
                return _version(found)
        for name in library.packages.npm if (self._project / "node_modules").is_dir() else ():
            data = self._manifest(name.lower())
            if data is not None:
                return str(data.get("version") or "") or None
        return None

    # --- Python -------------------------------------------------------------------------------------------------------

    def _by_name(self) -> dict[str, Path]:
        """Return the metadata folder of each package, and read the lock files. The folders' names have the versions.

        They are read again after a change.
        """
        if self._distributions is None or not self.is_listed:
            folders = site_packages(self._project)
            environments = [self._project / name / "pyvenv.cfg" for name in (".venv", "venv")]
            self._watched = [*lock_files(self._project), *environments, *folders]
            self._stamps = _stamps(self._watched)  # before reading: a change meanwhile is seen next time
            found: dict[str, Path] = {}
            for folder in folders:
                for path in sorted(folder.glob("*.dist-info")):
                    found.setdefault(_canonical(path.name.partition("-")[0]), path)
            self._locked = locked_versions(self._project)
            self._distributions = found
        return self._distributions

    def _python(self, name: str) -> Library | None:
        path = self._by_name().get(_canonical(name))
        if path is None:
            return None
        from importlib.metadata import PathDistribution  # noqa: PLC0415  # slow, and seldom needed

        distribution, version = PathDistribution(path), _version(path)
        metadata = distribution.metadata
        own = str(metadata["Name"])
        library_id = library_id_of(own)
        target = self._target(f"pypi-{library_id}-{version}")
        if target is not None:
            from procontext.registry._package_pages import python_pages, write_pages  # noqa: PLC0415

            write_pages(target, python_pages(distribution))
        return Library(
            id=library_id,
            name=own,
            languages=("python",),
            packages=Packages(pypi=(own,)),
            description=str(metadata["Summary"] or ""),
            docs_url=documentation_url(metadata.get_all("Project-URL") or (), metadata["Home-page"]),
            path=str(self._path(f"pypi-{library_id}-{version}")),
            version=version,
        )

    # --- JavaScript ---------------------------------------------------------------------------------------------------

    def _manifest(self, name: str) -> dict[str, object] | None:
        if _NPM_NAME.fullmatch(name) is None or ".." in name:
            return None
        data = read_text(self._project / "node_modules" / name / "package.json")
        found = json.loads(data) if data else None
        return found if isinstance(found, dict) else None

    def _javascript(self, name: str) -> Library | None:
        manifest = self._manifest(name)
        if manifest is None:
            return None
        version = str(manifest.get("version") or "unknown")
        library_id = library_id_of(name)
        target = self._target(f"npm-{library_id}-{version}")
        folder = self._project / "node_modules" / name
        if target is not None:
            from procontext.registry._package_pages import javascript_pages, write_pages  # noqa: PLC0415

            write_pages(target, javascript_pages(folder, name, version, manifest))
        return Library(
            id=library_id,
            name=name,
            languages=("javascript",),
            packages=Packages(npm=(name,)),
            description=str(manifest.get("description") or ""),
            docs_url=documentation_url((), manifest.get("homepage")),
            path=str(self._path(f"npm-{library_id}-{version}")),
            version=version,
        )

    def _path(self, name: str) -> Path:
        return self._folder.resolve() / f"{re.sub(r'[^A-Za-z0-9_.+-]', '_', name)}-{_FORMAT}"

    def _target(self, name: str) -> Path | None:
        """Return the folder to write, or None if it is written."""
        path = self._path(name)
        return None if path.exists() else path


def _stamps(files: Sequence[Path]) -> list[tuple[int, int]]:
    """Return the time of change and the size of each file; zeros if it is missing."""
    found: list[tuple[int, int]] = []
    for file in files:
        try:
            state = os.stat(file)  # Path.stat takes twice as long
        except OSError:
            found.append((0, 0))
        else:
            found.append((state.st_mtime_ns, state.st_size))
    return found


def site_packages(project: Path) -> list[Path]:
    """Return the folders of installed Python packages: of the active environment, or of `.venv` or `venv`."""
    found: list[Path] = []
    for root in (os.environ.get("VIRTUAL_ENV"), project / ".venv", project / "venv"):
        if root and (Path(root) / "pyvenv.cfg").is_file():
            found += sorted(Path(root).glob("lib/python3*/site-packages"))
            found += [path for path in (Path(root) / "Lib" / "site-packages",) if path.is_dir()]
    return list(dict.fromkeys(path.resolve() for path in found))


def documentation_url(project_urls: Sequence[str], homepage: object) -> str | None:
    """Return the address of the documentation, or of a home page that is not a repository."""
    urls = dict(_label(entry) for entry in project_urls)
    candidates = [url for label, url in urls.items() if "doc" in label]  # also "Read the Docs" and "API documentation"
    candidates += [url for label, url in urls.items() if label in ("homepage", "home")]
    candidates += [homepage] if isinstance(homepage, str) else []
    return next((url for url in candidates if url.startswith("https://") and not _REPOSITORY.match(url)), None)


def library_id_of(name: str) -> str:
    """Return the identifier of a package without a row: `scope-name` for `@scope/name`."""
    return _NO_ID.sub("-", _canonical(name)).strip("-")


def _label(entry: str) -> tuple[str, str]:
    label, _, url = entry.partition(",")
    return label.strip().lower(), url.strip()


def _canonical(name: str) -> str:
    return _SEPARATORS.sub("-", name).lower()


def _version(path: Path) -> str:
    return path.name.removesuffix(".dist-info").partition("-")[2]


def read_text(file: Path) -> str:
    """Return the text of a file, or "" if it is missing or too large."""
    try:
        if file.stat().st_size > MAX_FILE_BYTES:
            return ""
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


__all__ = ["MAX_FILE_BYTES", "Installed", "documentation_url", "library_id_of", "read_text", "site_packages"]
