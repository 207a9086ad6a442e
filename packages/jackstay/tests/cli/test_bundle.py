"""Bundles: their files, the manifest and server.json by the official schemas, and the same bytes each time."""

import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from jackstay.cli import _bundle as bundle
from jackstay.errors import UsageError
from scripted.places import ROOT, TESTS

PROJECT = """
[project]
name = "weather"
version = "1.2.0"
description = "Weather for three cities."
authors = [{email = "x@example.org"}, {name = "Ann", email = "ann@example.org"}]
license = "MIT"
keywords = ["weather"]
requires-python = ">=3.11"
[project.urls]
Source = "https://github.com/ann/weather-mcp.git"
Homepage = "https://example.org"
Documentation = "none yet"
"Issue tracker" = "https://github.com/ann/weather-mcp/issues"
"""


def problems(schema: str, value: Any) -> list[str]:
    document = json.loads((TESTS / "schemas" / schema).read_text(encoding="utf-8"))
    Draft7Validator.check_schema(document)
    return [error.message for error in Draft7Validator(document).iter_errors(value)]


MANIFEST = "mcpb-manifest-v0.4.schema.json"
SERVER = "server-2025-12-11.schema.json"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "weather"
    for name in ("server.py", "src/data/a.txt", ".env.example", "src/server.json"):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text(name)
    (made / "pyproject.toml").write_text(PROJECT)
    return made


def test_the_manifest_follows_the_official_schema(folder: Path) -> None:
    project = bundle.read_project(folder)
    least = bundle.manifest({**project, "urls": {}, "license": {"text": "x"}}, "server.py", (), has_icon=False)
    full = bundle.manifest(project, "server.py", ["API_KEY"], has_icon=True)
    assert problems(MANIFEST, least) == problems(MANIFEST, full) == []
    assert full["author"] == {"name": "Ann", "email": "ann@example.org"}
    assert full["support"] == "https://github.com/ann/weather-mcp/issues"
    assert full["server"]["mcp_config"]["env"] == {"API_KEY": "${user_config.api_key}"}
    assert full["user_config"]["api_key"]["sensitive"] is True
    assert "documentation" not in full
    assert "license" not in least
    assert problems(MANIFEST, {**least, "server": {}}) != []


def test_server_json_follows_the_official_schema(folder: Path) -> None:
    project = {**bundle.read_project(folder), "description": "word " * 40}
    entry = bundle.registry_entry(project, b"x", "w.mcpb", variables=["A"], name=None, url=None)
    assert isinstance(entry, dict)
    assert problems(SERVER, entry) == []
    assert entry["name"] == "io.github.ann/weather"
    assert entry["packages"][0]["identifier"].endswith("ann/weather-mcp/releases/download/v1.2.0/w.mcpb")
    assert len(entry["description"]) <= 100
    assert problems(SERVER, {**entry, "name": "weather"}) != []
    other = {**project, "urls": {}}
    found = bundle.registry_entry(other, b"x", "w.mcpb", variables=(), name="org.x/w", url="https://x.example/w.mcpb")
    assert isinstance(found, dict)
    assert problems(SERVER, found) == []
    reason = bundle.registry_entry(other, b"x", "w.mcpb", variables=(), name="org.x/w", url=None)
    assert reason == "project.urls has no Repository at GitHub; use --registry-name and --url"
    for name, url in {"weather": "https://x.example", "org.x/w": "http://x.example"}.items():
        with pytest.raises(UsageError):
            bundle.registry_entry(other, b"x", "w.mcpb", variables=(), name=name, url=url)


@pytest.mark.parametrize("distribution", ["jackstay-apcore", "jackstay-procontext"])
def test_our_own_entries_follow_the_official_schema(distribution: str) -> None:
    path = ROOT / "packages" / distribution / "server.json"
    assert problems(SERVER, json.loads(path.read_text(encoding="utf-8"))) == []


def test_secrets_and_caches_are_left_out(folder: Path) -> None:
    left_out = (
        ".git/config",
        ".venv/x.py",
        "src/__pycache__/a.pyc",
        "dist/a.whl",
        "old.mcpb",
        "server.json",
        "notes.md",
    )
    secrets = (".env", "src/.env.local", "certificate.PEM", "id_rsa", "src/credentials.json")
    for name in (*left_out, *secrets):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(name)
    (folder / ".mcpbignore").write_text("# a comment\n\n*.md\n")
    found = bundle.find_files(folder)
    assert list(found.packed) == [".env.example", "pyproject.toml", "server.py", "src/data/a.txt", "src/server.json"]
    assert sorted(found.secrets) == sorted(secrets)


def test_a_private_key_a_manifest_and_a_link_to_the_outside_are_refused(folder: Path) -> None:
    key = folder / "settings.py"
    key.write_text("K = '''-----BEGIN RSA " + "PRIVATE KEY-----'''")
    with pytest.raises(UsageError, match=r"settings\.py has a private key"):
        bundle.find_files(folder)
    key.unlink()
    (folder.parent / "passwords").write_text("x")
    (folder / "link").symlink_to(folder.parent / "passwords")
    with pytest.raises(UsageError, match="link is a link to a file outside"):
        bundle.find_files(folder)
    (folder / "manifest.json").touch()
    with pytest.raises(UsageError, match=r"has a manifest\.json"):
        bundle.find_files(folder)


def test_the_same_files_give_the_same_bytes(folder: Path) -> None:
    def packed() -> bytes:
        return bundle.make_bundle(bundle.find_files(folder).packed, {"name": "é"})

    first = packed()
    for path in folder.rglob("*.*"):
        os.utime(path, (1, 1))
        path.chmod(0o700)
    assert packed() == first
    with zipfile.ZipFile(io.BytesIO(first)) as archive:
        assert archive.namelist()[:2] == ["manifest.json", ".env.example"]
        assert archive.read("server.py") == b"server.py"
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('name = "weather"', "has no project.name"),
        ('version = "1.2.0"', "has no project.version, and the project is not installed here"),
        ('description = "Weather for three cities."', "has no project.description"),
        ("[project]", "has no project.name"),
        ('{name = "Ann", email = "ann@example.org"}', "has no author"),
        ('"MIT"', "cannot read"),
    ],
)
def test_what_is_missing_is_named(folder: Path, line: str, reason: str) -> None:
    (folder / "pyproject.toml").write_text(PROJECT.replace(line, ""))
    with pytest.raises(UsageError, match=reason):
        bundle.read_project(folder)


def test_a_version_that_is_not_written_is_that_of_the_installed_project(folder: Path) -> None:
    text = PROJECT.replace('version = "1.2.0"', "").replace('name = "weather"', 'name = "msgspec"')
    (folder / "pyproject.toml").write_text(text)
    assert bundle.read_project(folder)["version"]
    (folder / "pyproject.toml").unlink()
    with pytest.raises(UsageError, match=r"there is no .*pyproject\.toml"):
        bundle.read_project(folder)


def test_the_program_is_found(folder: Path) -> None:
    assert bundle.find_entry(folder, None) == "server.py"
    assert bundle.find_entry(folder, "src/../server.py") == "server.py"
    for entry in ("no.py", "../weather.py", "src"):
        with pytest.raises(UsageError, match="is not a file in"):
            bundle.find_entry(folder, entry)
    (folder / "server.py").unlink()
    with pytest.raises(UsageError, match="use --entry FILE"):
        bundle.find_entry(folder, None)
