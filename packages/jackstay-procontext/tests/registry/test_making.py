"""The builder and the checker of the registry, in tools/: facts in, the same bytes out, flaws named."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from procontext.models import Library
from procontext.registry import BUNDLED
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
    file.write_text(json.dumps({"libraries": rows, "note": "not taken"}))
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


def test_facts_become_rows_and_nothing_else_of_them_is_taken(tmp_path: Path) -> None:
    """No provenance, no nulls; the root of a site has one spelling."""
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


def test_later_facts_are_laid_over_and_the_same_facts_give_the_same_bytes(tmp_path: Path) -> None:
    """How a library is added or corrected."""
    more = {
        "id": "fastapi",
        "aliases": ["fast"],
        "packages": {"pypi": ["fastapi", "fastapi-slim"]},
        "docs_url": "https://x/y/",
    }
    other = {"id": "other", "name": "Other", "languages": ["python"], "docs_url": "https://other.dev"}
    into = tmp_path / "registry.json"
    words = ["--into", str(into), "--version", "1"]
    make = tool("make_registry").main
    make(["--facts", str(facts(tmp_path, FASTAPI)), *words])
    second = facts(tmp_path, more, other, name="more.json")
    make(["--facts", str(second), *words])
    first, last = json.loads(into.read_bytes())["libraries"]
    assert (first["docs_url"], first["aliases"]) == ("https://x/y/", ["fast"])
    assert first["packages"] == {"pypi": ["fastapi", "fastapi-slim"]}
    assert last["id"] == "other"
    replacing = facts(tmp_path, {**other, "id": "fastapi", "replace": True}, name="replacing.json")
    make(["--facts", str(replacing), *words])
    assert json.loads(into.read_bytes())["libraries"][0]["docs_url"] == "https://other.dev"
    assert "aliases" not in json.loads(into.read_bytes())["libraries"][0]
    make(["--facts", str(second), *words])
    written = into.read_bytes()
    make(["--facts", str(second), *words])
    assert into.read_bytes() == written


def test_the_bundled_registry_is_what_the_builder_makes_of_it(tmp_path: Path) -> None:
    """It was not edited by hand, and the additions in the repository are in it."""
    copy = tmp_path / "copy.json"
    copy.write_bytes(BUNDLED.read_bytes())
    version = json.loads(BUNDLED.read_bytes())["version"]
    additions = str(TOOLS / "registry_additions.json")
    tool("make_registry").main(["--facts", additions, "--into", str(copy), "--version", version])
    assert copy.read_bytes() == BUNDLED.read_bytes()


def test_the_bundled_registry_is_sound(capsys: pytest.CaptureFixture[str]) -> None:
    """Every name leads to its library, no package belongs to two, at least 400 libraries."""
    assert tool("check_registry").main(["--facts", str(TOOLS / "registry_additions.json")]) == 0
    assert "0 flaws" in capsys.readouterr().out


# (rows, what is said)
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
    ([{"id": "A"}], "is not a registry"),
]


@pytest.mark.parametrize(("rows", "said"), FLAWS)
def test_a_flaw_is_named(
    rows: list[dict[str, Any]], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 1."""
    file = tmp_path / "registry.json"
    file.write_text(json.dumps({"version": "1", "libraries": rows}))
    assert tool("check_registry").main([str(file), "--least", "1"]) == 1
    assert said in capsys.readouterr().err


def test_missing_facts_and_too_few_libraries_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A fact that the registry does not know; fewer than promised."""
    file = tmp_path / "registry.json"
    row = {"id": "a", "name": "A", "languages": ["python"], "docs_url": "https://a"}
    file.write_text(json.dumps({"version": "1", "libraries": [row]}))
    assert tool("check_registry").main([str(file), "--facts", str(facts(tmp_path, FASTAPI))]) == 1
    said = capsys.readouterr().err
    assert "fastapi: missing" in said
    assert "fastapi: its package fastapi leads to []" in said
    assert "1 libraries; 400 are wanted" in said


# --- what the package registries say, without asking them ---------------------------------------------------------------

# (documentation, the addresses of the metadata, the sites of the README, the outcome)
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


@pytest.mark.parametrize(("docs_url", "urls", "sites", "outcome"), VERDICTS)
def test_an_address_is_compared_with_what_a_package_says_of_itself(
    docs_url: str | None, urls: list[str], sites: list[str], outcome: str
) -> None:
    """A repository says nothing about documentation; a page under an owner's name belongs to the owner."""
    library = Library(id="a", name="A", docs_url=docs_url)
    answer = {"exists": True, "urls": urls, "sites": sites}
    assert tool("check_packages").judge(library, "PyPI", "a", answer).outcome == outcome


@pytest.mark.parametrize(
    ("repository", "address"),
    [
        ("git+https://github.com/a/b.git", "https://github.com/a/b"),
        ("git+ssh://git@github.com/a/b.git", "https://github.com/a/b"),
        ("git@github.com:a/b.git", "https://github.com/a/b"),
        ("github:a/b", "https://github.com/a/b"),
        ("a/b", "https://github.com/a/b"),
        ("", ""),
    ],
)
def test_the_ways_to_write_a_repository_are_one_address(repository: str, address: str) -> None:
    assert tool("check_packages").readable(repository) == address


def test_the_sites_of_a_readme_are_named_once_without_badges() -> None:
    text = "[docs](https://docs.a.dev/x) https://a.dev <https://img.shields.io/b> https://github.com/a/b"
    assert tool("check_packages").sites_in(text) == ["a.dev"]


def test_packages_are_asked_for_once_and_what_is_missing_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answers are kept as they come; nothing is asked again."""
    check = tool("check_packages")
    asked: list[str] = []

    def answer(name: str) -> dict[str, Any]:
        asked.append(name)
        return {"exists": name != "gone", "urls": ["https://a.dev"], "sites": []}

    for name in ("ask_pip", "ask_npm"):
        monkeypatch.setattr(check, name, answer)
    monkeypatch.setattr(check, "PAUSE", 0)
    row = {"id": "a", "name": "A", "docs_url": "https://a.dev", "packages": {"pypi": ["a"], "npm": ["gone"]}}
    other = {**row, "id": "b", "packages": {"pypi": ["b"]}}
    file = tmp_path / "registry.json"
    file.write_text(json.dumps({"version": "1", "libraries": [row, other]}))
    words = [str(file), "--answers", str(tmp_path / "answers.json"), "--only", "a"]
    assert check.main(words) == 1
    assert check.main(words) == 1
    assert asked == ["a", "gone"]
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "missing a npm:gone https://a.dev https://a.dev",
        "1 agrees, 1 missing",
    ]
    chosen = str(facts(tmp_path, other))
    assert check.main([str(file), "--answers", str(tmp_path / "answers.json"), "--facts", chosen]) == 0
    assert asked[-1] == "b"
