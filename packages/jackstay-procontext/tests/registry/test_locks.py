"""Versions in lock files."""

from pathlib import Path

import pytest

from procontext.registry._locks import locked_versions

TOML = '[[package]]\nname = "{}"\nversion = "4.2.11"\n\n[[package]]\nname = "local"\nsource = {{ virtual = "." }}\n'
FILES = [
    ("uv.lock", TOML.format("django"), "pypi", "django", "4.2.11"),
    ("poetry.lock", TOML.format("Typing_Extensions"), "pypi", "typing-extensions", "4.2.11"),
    (
        "requirements.txt",
        "# pins\n-r more.txt\nDjango[argon2]==4.2.11 ; python_version > '3'\n",
        "pypi",
        "django",
        "4.2.11",
    ),
    ("requirements.txt", "django >= 4.2, <5  # range\n", "pypi", "django", ">=4.2,<5"),
    (
        "package-lock.json",
        '{"packages": {"": {"version": "1.0.0"}, "node_modules/react": {"version": "18.2.0"},'
        ' "node_modules/x/node_modules/react": {"version": "19.0.0"}}}',
        "npm",
        "react",
        "18.2.0",
    ),
    ("package-lock.json", '{"dependencies": {"@a/b": {"version": "1.2.3"}}}', "npm", "@a/b", "1.2.3"),
    (
        "pnpm-lock.yaml",
        "lockfileVersion: '9.0'\nimporters:\n  .:\n    dependencies:\n      react:\n        specifier: ^18\n"
        "        version: 18.2.0(peer@1.0.0)\npackages:\n  react@19.0.0:\n    resolution: {}\n",
        "npm",
        "react",
        "18.2.0",
    ),
    ("pnpm-lock.yaml", "lockfileVersion: 5.4\npackages:\n  /@a/b/1.2.3_x@1:\n    dev: false\n", "npm", "@a/b", "1.2.3"),
    ("Cargo.lock", TOML.format("serde_json"), "crates", "serde-json", "4.2.11"),
    (
        "go.mod",
        "module x\n\nrequire (\n\tgithub.com/Gin-gonic/gin v1.9.1\n)\n",
        "go",
        "github.com/gin-gonic/gin",
        "v1.9.1",
    ),
    (
        "Gemfile.lock",
        "GEM\n  remote: https://rubygems.org/\n  specs:\n    nokogiri (1.16.0-x86_64-linux)\n      racc (~> 1.4)\n",
        "rubygems",
        "nokogiri",
        "1.16.0",
    ),
    ("gradle.lockfile", "# made\norg.a:b-c:1.2.3=compileClasspath\nempty=\n", "maven", "org.a:b-c", "1.2.3"),
    (
        "packages.lock.json",
        '{"version": 1, "dependencies": {"net8.0": {"Serilog": {"type": "Direct", "resolved": "3.1.1"},'
        ' "own": {"type": "Project"}}}}',
        "nuget",
        "serilog",
        "3.1.1",
    ),
]


@pytest.mark.parametrize(("file", "text", "key", "version"), [(*row[:2], row[2:4], row[4]) for row in FILES])
def test_lock_file(tmp_path: Path, file: str, text: str, key: tuple[str, str], version: str) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / file).write_text(text)
    below = tmp_path / "src"
    below.mkdir()
    assert locked_versions(tmp_path)[key] == version
    assert locked_versions(below) == locked_versions(tmp_path)  # a folder of the same repository


def test_newest_of_several_versions(tmp_path: Path) -> None:
    (tmp_path / "Cargo.lock").write_text(
        "".join(f'[[package]]\nname = "syn"\nversion = "{version}"\n' for version in ("1.0.9", "2.0.10", "2.0.9"))
    )
    assert locked_versions(tmp_path) == {("crates", "syn"): "2.0.10"}


def test_malformed_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".git").mkdir()
    for name, text in (("uv.lock", "[[package]"), ("package-lock.json", "[1]"), ("poetry.lock", "package = [1]")):
        (tmp_path / name).write_text(text)
    assert locked_versions(tmp_path) == {}
    (tmp_path / "requirements.txt").write_text("django==4.2")
    assert locked_versions(tmp_path) == {("pypi", "django"): "4.2"}
    monkeypatch.setattr("procontext.registry._locks.MAX_BYTES", 1)
    assert locked_versions(tmp_path) == {}
