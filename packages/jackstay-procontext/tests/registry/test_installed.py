"""Packages of the project's environment: versions, metadata, and where they are found."""

import json
from pathlib import Path

import pytest

from procontext.models import Library, Packages
from procontext.registry import Installed, Registry
from procontext.registry._installed import read_text, site_packages

METADATA = """Metadata-Version: 2.1
Name: Harbour-Kit
Version: 2.3
Summary: Moors boats.
Home-page: https://github.com/harbour/kit
Project-URL: Documentation, https://harbour.example/docs/

# Harbour kit

A kit for harbours.
"""
MODULE = '''"""Boats and piers."""
raise RuntimeError("never imported")


class Boat(object):
    """A boat."""

    def __init__(self, name: str) -> None: ...

    def moor(self, pier: int = 1, *, lines=2) -> bool:
        """Tie the boat up."""

    def _hidden(self): ...


async def launch(boat):
    """Launch a boat."""


def _private():
    """Hidden."""
'''


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a virtual environment and node_modules."""
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    root = tmp_path / "project"
    packages = root / ".venv" / "lib" / "python3.11" / "site-packages"
    info = packages / "harbour_kit-2.3.dist-info"
    info.mkdir(parents=True)
    (root / ".venv" / "pyvenv.cfg").write_text("")
    (info / "METADATA").write_text(METADATA)
    names = ("harbour/__init__.py", "harbour/boats.py", "harbour/tests/test_x.py", "harbour/broken.py", "../../x.py")
    (info / "RECORD").write_text("".join(f"{name},,\n" for name in names))
    (packages / "harbour" / "tests").mkdir(parents=True)
    (packages / "harbour" / "__init__.py").write_text("")
    (packages / "harbour" / "boats.py").write_text(MODULE)
    (packages / "harbour" / "broken.py").write_text("def (")
    (packages / "harbour" / "tests" / "test_x.py").write_text(MODULE)
    node = root / "node_modules" / "@sea" / "rope"
    node.mkdir(parents=True)
    manifest = {"version": "4.0.1", "homepage": "https://rope.example/", "types": "rope.d.ts"}
    (node / "package.json").write_text(json.dumps(manifest))
    (node / "README.md").write_text("# Rope\n\nTies things.\n")
    (node / "rope.d.ts").write_text("export declare function tie(a: string): void;\nexport interface Knot { x: 1 }\n")
    return root


def test_python_package(project: Path, tmp_path: Path) -> None:
    installed = Installed(project, tmp_path / "pages")
    assert not installed.is_listed
    found = installed.find("harbour.kit")
    assert found is not None
    assert (found.id, found.name, found.version) == ("harbour-kit", "Harbour-Kit", "2.3")
    assert (found.docs_url, found.description) == ("https://harbour.example/docs/", "Moors boats.")
    assert found.path is not None
    pages = {file.name: file.read_text() for file in Path(found.path).iterdir()}
    assert set(pages) == {"README.md", "harbour.boats.md"}
    assert "A kit for harbours." in pages["README.md"]
    assert "### Boat.moor(self, pier: int=1, *, lines=2) -> bool\n\nTie the boat up." in pages["harbour.boats.md"]
    assert "## launch(boat)" in pages["harbour.boats.md"]
    assert "hidden" not in pages["harbour.boats.md"].lower()
    assert installed.find("Harbour_Kit") == found
    assert installed.find("absent") is None
    assert installed.is_listed


def test_javascript_package(project: Path, tmp_path: Path) -> None:
    installed = Installed(project, tmp_path / "pages")
    found = installed.find("@sea/rope")
    assert found is not None
    assert (found.id, found.version, found.docs_url) == ("sea-rope", "4.0.1", "https://rope.example/")
    assert found.path is not None
    assert "Ties things." in (Path(found.path) / "README.md").read_text()
    assert "## Knot" in (Path(found.path) / "types.md").read_text()
    assert installed.find("../../etc") is None
    (project / "node_modules" / "@sea" / "rope" / "package.json").write_text("{")
    assert installed.find("@sea/rope") is None


def test_version_of_a_known_library(project: Path, tmp_path: Path) -> None:
    installed = Installed(project, tmp_path / "pages")
    assert installed.version(Library(id="x", name="X", packages=Packages(pypi=("harbour-kit",)))) == "2.3"
    assert installed.version(Library(id="x", name="X", packages=Packages(npm=("@sea/rope",)))) == "4.0.1"
    assert installed.version(Library(id="x", name="X")) is None


def test_changes_are_seen(project: Path, tmp_path: Path) -> None:
    """A lock file that is written, edited or removed, and a package that is installed, count at the next call."""
    installed = Installed(project, tmp_path / "pages")
    library = Library(id="x", name="X", packages=Packages(pypi=("harbour-kit",), crates=("rope",)))
    assert installed.version(library) == "2.3"
    lock = project / "uv.lock"
    for version in ("2.9", "2.10"):
        lock.write_text(f'[[package]]\nname = "harbour-kit"\nversion = "{version}"\n')
        assert not installed.is_listed
        assert not installed.is_quick("harbour-kit")
        assert installed.version(library) == version
        assert installed.is_listed
    lock.unlink()
    assert installed.version(library) == "2.3"
    (project / ".venv" / "lib" / "python3.11" / "site-packages" / "rope-1.0.dist-info").mkdir()
    assert installed.version(Library(id="y", name="Y", packages=Packages(pypi=("rope",)))) == "1.0"


def test_environment_that_is_created_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    installed = Installed(tmp_path, tmp_path / "pages")
    library = Library(id="x", name="X", packages=Packages(pypi=("rope",)))
    assert installed.version(library) is None
    (tmp_path / ".venv" / "lib" / "python3.11" / "site-packages" / "rope-1.0.dist-info").mkdir(parents=True)
    (tmp_path / ".venv" / "pyvenv.cfg").write_text("")
    assert installed.version(library) == "1.0"


def test_project_without_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    assert site_packages(tmp_path) == []
    assert Installed(tmp_path, tmp_path / "pages").find("harbour-kit") is None


def test_large_and_missing_files_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "large").write_text("xx")
    assert read_text(tmp_path / "large") == "xx"
    monkeypatch.setattr("procontext.registry._installed.MAX_FILE_BYTES", 1)
    assert read_text(tmp_path / "large") == read_text(tmp_path / "absent") == ""


async def test_project_decides_between_languages(project: Path, tmp_path: Path) -> None:
    """An installed package comes before a crate of that name, and a crate of the lock file before other libraries."""
    rows = [
        {"id": "harbour-kit", "name": "harbour-kit", "languages": ["rust"], "packages": {"crates": ["harbour-kit"]}},
        {"id": "sail", "name": "Sail", "languages": ["python"], "packages": {"pypi": ["sail"]}},
        {"id": "sail-rust", "name": "sail", "languages": ["rust"], "packages": {"crates": ["sail"]}},
    ]
    for row in rows:
        row["docs_url"] = "https://docs.example/"
    (tmp_path / "registry.json").write_text(json.dumps({"version": "1", "libraries": rows}))
    registry = Registry(path=str(tmp_path / "registry.json"), installed=Installed(project, tmp_path / "pages"))
    registry.load()
    assert [match.library_id for match in await registry.find("sail")] == ["sail", "sail-rust"]
    (project / "Cargo.lock").write_text('[[package]]\nname = "sail"\nversion = "1.2.3"\n')
    first, second = await registry.find("sail")
    assert (first.library_id, first.version, second.version) == ("sail-rust", "1.2.3", None)
    assert [match.matched_via for match in await registry.find("harbour-kit")] == ["package_name"]
    rows[0]["id"] = "harbour-kit-rust"
    (tmp_path / "registry.json").write_text(json.dumps({"version": "1", "libraries": rows}))
    registry.load()
    assert [match.matched_via for match in await registry.find("harbour-kit")] == ["installed"]


async def test_registry_finds_installed_packages(project: Path, tmp_path: Path) -> None:
    registry = Registry(installed=Installed(project, tmp_path / "pages"))
    registry.load()
    (match,) = await registry.find("harbour-kit>=2")
    assert (match.library_id, match.matched_via, match.version) == ("harbour-kit", "installed", "2.3")
    assert registry.get("harbour-kit") is not None
    assert "harbour-kit" not in {library.id for library in registry}  # its hosts are not allowed
    (known, *_) = await registry.find("fastapi")
    assert (known.library_id, known.matched_via, known.version) == ("fastapi", "package_name", None)
    assert await registry.find("nonexistent-package-name") == []
    other = Registry(installed=Installed(project, tmp_path / "pages"))
    other.load()
    assert await other.lookup("harbour-kit") == registry.get("harbour-kit")
    assert await other.lookup("absent") is None
