"""tools/make_registry.py, check_registry.py, collect_packages.py and check_packages.py."""

import hashlib
import importlib.util
import io
import json
import lzma
import tarfile
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
        "x of pypi belongs to a, b",
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


def deb(folder: Path, name: str, files: dict[str, str], **fields: str) -> str:
    """Write a Debian package, and return its lines of the index."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:xz") as archive:
        for path, content in files.items():
            member = tarfile.TarInfo(f"./usr/share/{path}")
            member.size = len(content.encode())
            archive.addfile(member, io.BytesIO(content.encode()))
    parts = b""
    for member_name, data in (("debian-binary", b"2.0"), ("data.tar.xz", packed.getvalue())):
        parts += (
            f"{member_name:16}{0:<12}{0:<6}{0:<6}{644:<8}{len(data):<10}`\n".encode() + data + b"\n" * (len(data) % 2)
        )
    content = b"!<arch>\n" + parts
    (folder / f"{name}.deb").write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    values = {"Package": name, "Filename": f"pool/{name}.deb", "Size": str(len(content)), "SHA256": digest} | fields
    return "".join(f"{key}: {value}\n" for key, value in values.items()) + "Description: one\n more\n\n"


POM = """<?xml version="1.0"?>
<project xmlns="http://maven.apache.org/POM/4.0.0"><parent><groupId>org.sea</groupId></parent><artifactId>{}</artifactId>
</project>"""
GEM = """Gem::Specification.new do |s|
  s.name = "{}".freeze
  s.metadata = {{ "documentation_uri" => "{}", "source_code_uri" => "https://github.com/sea/{}" }}
  s.homepage = "https://github.com/sea/x".freeze
end"""


def test_collecting_from_debian(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Crates, Go modules, Maven artifacts and gems, of which those that others depend on come first."""
    cargo = '[package]\nname = "{}"\nversion = "1"\n'
    crates = "cargo/registry"
    index = [
        deb(
            tmp_path,
            "librust-sail-dev",
            {f"{crates}/sail-1/Cargo.toml": cargo.format("sail") + 'documentation = "https://docs.rs/sail/1.0/sail/"'},
            Provides="librust-sail+default-dev (= 1)",
        ),
        deb(
            tmp_path,
            "librust-fastapi-dev",
            {f"{crates}/fastapi-1/Cargo.toml": cargo.format("fastapi") + 'repository = "https://github.com/sea/f.git"'},
            Depends="librust-sail+default-dev (>= 1), libc6",
        ),
        deb(tmp_path, "librust-bad-dev", {f"{crates}/bad-1/Cargo.toml": "[package"}),
        deb(
            tmp_path,
            "golang-github-sea-rope-dev",
            {"gocode/src/github.com/sea/rope/go.mod": "module github.com/sea/rope/v2\n\ngo 1.20\n"},
        ),
        deb(
            tmp_path,
            "libknot-java",
            {f"maven-repo/org/sea/{name}/1/{name}-1.pom": POM.format(name) for name in ("knot-core", "knot-io")},
            Homepage="https://knot.example/",
        ),
        deb(
            tmp_path,
            "ruby-buoy",
            {
                f"rubygems-integration/all/specifications/{name}-1.gemspec": GEM.format(name, docs, name)
                for name, docs in (
                    ("buoy", "https://www.rubydoc.info/gems/buoy/1.0"),
                    ("tide", "https://github.com/x/y"),
                )
            },
        ),
        "Package: python3-sails\nFilename: x\nSize: 1\n\n",
    ]
    with lzma.open(tmp_path / "trixie-Packages.xz", "wt") as file:
        file.write("".join(index))
    collect = tool("collect_packages")
    monkeypatch.setattr(collect, "PAUSE", 0)
    into = tmp_path / "made.json"
    options = ["--registry", str(facts(tmp_path, FASTAPI)), "--into", str(into)]
    assert collect.main(["--debian", str(tmp_path), *options]) == 0
    assert capsys.readouterr().out.startswith("7 packages: 6 new libraries")
    found = {row["id"]: row for row in json.loads(into.read_bytes())["libraries"]}
    assert found["sail"]["docs_url"] == "https://docs.rs/sail"
    assert (found["fastapi-rust"]["repo_url"], "docs_url" in found["fastapi-rust"]) == (
        "https://github.com/sea/f",
        False,
    )
    assert found["rope"]["docs_url"] == "https://pkg.go.dev/github.com/sea/rope/v2"
    assert found["knot"]["packages"] == {"maven": ["org.sea:knot-core", "org.sea:knot-io"]}
    assert found["knot"]["docs_url"] == "https://knot.example"
    assert found["buoy"]["docs_url"] == "https://www.rubydoc.info/gems/buoy"
    assert found["tide"]["repo_url"] == "https://github.com/sea/tide"
    registry = tmp_path / "registry.json"
    tool("make_registry").main(
        ["--facts", str(facts(tmp_path, FASTAPI)), "--facts", str(into), "--into", str(registry)]
    )
    document = read_document(registry.read_bytes(), "registry")
    assert document.undocumented == ("sails",)
    names = {"knot-core": ["knot"], "org.sea:knot-io:1.0": ["knot"], "rope": ["rope"], "sails": []}
    index_of_names = Index(document.libraries, document.undocumented)
    for query, ids in names.items():
        assert [match.library_id for match in index_of_names.resolve(query)] == ids, query


def test_download_with_another_digest_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    collect = tool("collect_packages")
    monkeypatch.setattr(collect, "PAUSE", 0)
    monkeypatch.setattr(collect.urllib.request, "urlopen", lambda url, timeout: io.BytesIO(b"other"))
    with pytest.raises(ValueError, match="the digest differs"):
        collect.download("http://deb.example/x.deb", tmp_path / "x.deb", "0" * 64)
    assert not (tmp_path / "x.deb").exists()
    collect.download("http://deb.example/x.deb", tmp_path / "x.deb", hashlib.sha256(b"other").hexdigest())
    assert (tmp_path / "x.deb").read_bytes() == b"other"
