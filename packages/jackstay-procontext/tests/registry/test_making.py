"""tools/make_registry.py, check_registry.py, collect_packages.py and check_packages.py."""

import importlib.util
import json
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from procontext.models import Library
from procontext.registry import BUNDLED, read_document
from procontext.resolve import Index
from scripted.places import ROOT

TOOLS = ROOT / "tools"


def tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def facts(folder: Path, *rows: dict[str, Any], name: str = "facts.json") -> Path:
    file = folder / name
    file.write_text(json.dumps({"libraries": rows, "note": "ignored"}))
    return file


FASTAPI: dict[str, Any] = {
    "id": "fastapi",
    "name": "FastAPI",
    "languages": ["python"],
    "packages": {"pypi": ["fastapi"], "npm": []},
    "aliases": [],
    "docs_url": "https://fastapi.tiangolo.com/",
    "llms_txt_url": None,
    "provenance": {"docs_url": "pypi"},
}


def test_facts_become_rows(tmp_path: Path) -> None:
    """Rows have no provenance and no nulls. The URL of the root of a site has no final slash."""
    into = tmp_path / "registry.json"
    assert tool("make_registry").main(["--facts", str(facts(tmp_path, FASTAPI)), "--into", str(into)]) == 0
    (row,) = json.loads(into.read_bytes())["libraries"]
    assert row == {
        "id": "fastapi",
        "name": "FastAPI",
        "docs_url": "https://fastapi.tiangolo.com",
        "languages": ["python"],
        "packages": {"pypi": ["fastapi"]},
    }


def test_later_facts_override_and_output_is_reproducible(tmp_path: Path) -> None:
    """Libraries are added or corrected by further facts."""
    more = {
        "id": "fastapi",
        "aliases": ["fast"],
        "packages": {"pypi": ["fastapi", "fastapi-slim"]},
        "docs_url": "https://x/y/",
    }
    other = {"id": "other", "name": "Other", "languages": ["python"], "docs_url": "https://other.dev"}
    into = tmp_path / "registry.json"
    options = ["--into", str(into), "--version", "1"]
    make = tool("make_registry").main
    make(["--facts", str(facts(tmp_path, FASTAPI)), *options])
    second = facts(tmp_path, more, other, name="more.json")
    make(["--facts", str(second), *options])
    first, last = json.loads(into.read_bytes())["libraries"]
    assert (first["docs_url"], first["aliases"]) == ("https://x/y/", ["fast"])
    assert first["packages"] == {"pypi": ["fastapi", "fastapi-slim"]}
    assert last["id"] == "other"
    replacing = facts(tmp_path, {**other, "id": "fastapi", "replace": True}, name="replacing.json")
    make(["--facts", str(replacing), *options])
    assert json.loads(into.read_bytes())["libraries"][0]["docs_url"] == "https://other.dev"
    assert "aliases" not in json.loads(into.read_bytes())["libraries"][0]
    make(["--facts", str(second), *options])
    written = into.read_bytes()
    make(["--facts", str(second), *options])
    assert into.read_bytes() == written


def test_bundled_registry_is_reproducible(tmp_path: Path) -> None:
    """It was not edited by hand, and contains the additions in the repository."""
    copy = tmp_path / "copy.json"
    copy.write_bytes(BUNDLED.read_bytes())
    version = json.loads(BUNDLED.read_bytes())["version"]
    additions = str(TOOLS / "registry_additions.json")
    tool("make_registry").main(["--facts", additions, "--into", str(copy), "--version", version])
    assert copy.read_bytes() == BUNDLED.read_bytes()


def test_bundled_registry_has_no_flaws(capsys: pytest.CaptureFixture[str]) -> None:
    """Every name resolves to its library, no package belongs to two, and there are at least 2,000 libraries."""
    assert tool("check_registry").main(["--facts", str(TOOLS / "registry_additions.json")]) == 0
    assert "0 flaws" in capsys.readouterr().out


# (rows, error)
FLAWS: list[tuple[list[dict[str, Any]], str]] = [
    ([{"id": "a", "name": "A", "languages": ["python"]}], "a: no address at all"),
    ([{"id": "a", "name": "A", "docs_url": "https://a.dev"}], "a: no language"),
    (
        [
            {
                "id": "a",
                "name": "A",
                "languages": ["python"],
                "docs_url": "https://a",
                "packages": {"pypi": ["x"]},
            },
            {
                "id": "b",
                "name": "B",
                "languages": ["python"],
                "docs_url": "https://b",
                "packages": {"pypi": ["x"]},
            },
        ],
        "x of PyPI belongs to a, b",
    ),
    (
        [
            {
                "id": "a",
                "name": "A",
                "languages": ["python"],
                "docs_url": "https://a",
                "packages": {"pypi": ["xyz"]},
            },
            {"id": "b", "name": "B", "languages": ["python"], "docs_url": "https://b", "aliases": ["xyz"]},
        ],
        "b: its name xyz leads to ['a']",
    ),
    ([{"id": "A"}], "not a registry"),
]


@pytest.mark.parametrize(("rows", "problem"), FLAWS)
def test_flaws_are_reported(
    rows: list[dict[str, Any]], problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code is 1."""
    file = tmp_path / "registry.json"
    file.write_text(json.dumps({"version": "1", "libraries": rows}))
    assert tool("check_registry").main([str(file), "--least", "1"]) == 1
    assert problem in capsys.readouterr().err


def test_missing_facts_and_too_few_libraries(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The check reports missing facts and fewer libraries than required."""
    file = tmp_path / "registry.json"
    row = {"id": "a", "name": "A", "languages": ["python"], "docs_url": "https://a"}
    file.write_text(json.dumps({"version": "1", "libraries": [row]}))
    assert tool("check_registry").main([str(file), "--facts", str(facts(tmp_path, FASTAPI))]) == 1
    errors = capsys.readouterr().err
    assert "fastapi: missing" in errors
    assert "fastapi: its package fastapi leads to []" in errors
    assert "1 libraries; 2000 are wanted" in errors


# --- package metadata -------------------------------------------------------------------------------------------------

# (docs_url, URLs of the metadata, sites of the README, outcome)
VERDICTS = [
    ("https://docs.a.dev", ["https://a.dev"], [], "agrees"),
    ("https://a.readthedocs.io", ["https://a.readthedocs.io/en/latest"], [], "agrees"),
    ("https://a.readthedocs.io", ["https://b.readthedocs.io"], [], "differs"),
    ("https://a.readthedocs.io", ["http://a.rtfd.org/"], [], "agrees"),
    ("https://owner.github.io/a/", ["https://github.com/Owner/a"], [], "agrees"),
    ("https://owner.github.io/a/", ["https://github.com/other/a"], [], "silent"),
    ("https://a.dev", ["https://github.com/owner/a"], ["a.dev"], "mentions"),
    ("https://a.dev", ["https://github.com/owner/a"], ["b.dev"], "silent"),
    ("https://a.dev", ["https://b.dev"], [], "differs"),
    ("https://a.dev", [], [], "silent"),
    (None, ["https://github.com/owner/a"], [], "undocumented"),
]


def test_docs_url_is_compared_with_package_metadata(subtests: pytest.Subtests) -> None:
    """A repository does not confirm a documentation site; a page below an owner's name belongs to the owner."""
    for docs_url, urls, sites, outcome in VERDICTS:
        with subtests.test(docs_url=docs_url):
            library = Library(id="a", name="A", docs_url=docs_url)
            answer = {"exists": True, "urls": urls, "sites": sites}
            assert tool("check_packages").judge(library, "PyPI", "a", answer).outcome == outcome


REPOSITORIES: list[tuple[str, str]] = [
    ("git+https://github.com/a/b.git", "https://github.com/a/b"),
    ("git+ssh://git@github.com/a/b.git", "https://github.com/a/b"),
    ("git@github.com:a/b.git", "https://github.com/a/b"),
    ("github:a/b", "https://github.com/a/b"),
    ("a/b", "https://github.com/a/b"),
    ("", ""),
]


def test_repository_urls_are_normalized() -> None:
    for repository, address in REPOSITORIES:
        assert tool("check_packages").readable(repository) == address, repository


def test_sites_of_a_readme() -> None:
    text = "[docs](https://docs.a.dev/x) https://a.dev <https://img.shields.io/b> https://github.com/a/b"
    assert tool("check_packages").sites_in(text) == ["a.dev"]


def test_package_metadata_is_fetched_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The metadata is stored and not fetched again."""
    check = tool("check_packages")
    requested: list[str] = []

    def answer(name: str) -> dict[str, Any]:
        requested.append(name)
        return {"exists": name != "gone", "urls": ["https://a.dev"], "sites": []}

    for name in ("query_pip", "query_npm"):
        monkeypatch.setattr(check, name, answer)
    monkeypatch.setattr(check, "PAUSE", 0)
    row = {"id": "a", "name": "A", "docs_url": "https://a.dev", "packages": {"pypi": ["a"], "npm": ["gone"]}}
    other = {**row, "id": "b", "packages": {"pypi": ["b"]}}
    file = tmp_path / "registry.json"
    file.write_text(json.dumps({"version": "1", "libraries": [row, other]}))
    options = [str(file), "--answers", str(tmp_path / "answers.json"), "--only", "a"]
    assert check.main(options) == 1
    assert check.main(options) == 1
    assert requested == ["a", "gone"]
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "missing a npm:gone https://a.dev https://a.dev",
        "1 agrees, 1 missing",
    ]
    chosen = str(facts(tmp_path, other))
    assert check.main([str(file), "--answers", str(tmp_path / "answers.json"), "--facts", chosen]) == 0
    assert requested[-1] == "b"


def wheel(folder: Path, name: str, *lines: str) -> None:
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{name}-1.0.dist-info/METADATA", "\n".join((f"Name: {name}", *lines, "", "text")))


def test_collecting_from_package_metadata(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A row for each site that a package names; the other names are known to be undocumented."""
    wheel(tmp_path, "knots", "Project-URL: Documentation, https://knots.example/docs/#start")
    wheel(tmp_path, "knots_extra", "Project-URL: Docs, https://knots.example/docs/")
    wheel(
        tmp_path, "rope", "Home-page: https://github.com/sea/rope", "Project-URL: Source, https://github.com/sea/rope"
    )
    wheel(tmp_path, "knotz", "Home-page: https://github.com/sea/knotz")
    wheel(tmp_path, "odd", "Project-URL: Docs, https://user:secret@odd.example/")
    wheel(tmp_path, "port", "Project-URL: Docs, https://odd.example:bad/")
    wheel(tmp_path, "fastapi", "Project-URL: Docs, https://elsewhere.example/")
    manifests = {
        "@sea/sail": {"homepage": "https://sail.example/", "repository": "git+https://github.com/sea/sail.git"},
        "tide": {"homepage": "https://www.npmjs.com/package/tide"},
        "@types/tide": {"homepage": "https://types.example/"},
        "gone": None,
    }
    (tmp_path / "npm.json").write_text(json.dumps(manifests))
    into = tmp_path / "facts.json"
    options = ["--npm", str(tmp_path / "npm.json"), "--registry", str(facts(tmp_path, FASTAPI)), "--into", str(into)]
    assert tool("collect_packages").main(["--wheels", str(tmp_path), *options]) == 0
    assert capsys.readouterr().out == "9 packages: 2 new libraries, 5 without documentation\n"
    found = json.loads(into.read_bytes())
    knots, sail = found["libraries"]
    assert (knots["docs_url"], knots["packages"]) == ("https://knots.example/docs/", {"pypi": ["knots", "knots_extra"]})
    assert (sail["id"], sail["repo_url"]) == ("sea-sail", "https://github.com/sea/sail")
    assert found["undocumented"] == ["knotz", "odd", "port", "rope", "tide"]
    registry = tmp_path / "registry.json"
    tool("make_registry").main(["--facts", str(into), "--into", str(registry), "--version", "1"])
    document = read_document(registry.read_bytes(), "registry")
    assert document.undocumented == ("knotz",)  # the others are similar to no library
    index = Index(document.libraries, document.undocumented)
    assert [match.library_id for match in index.resolve("knotss")] == ["knots"]
    assert [index.resolve("knotz"), index.resolve("rope")] == [[], []]
