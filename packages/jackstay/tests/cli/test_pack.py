"""`jackstay pack`: what it prints, writes and refuses."""

import hashlib
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

PROJECT = """
[project]
name = "weather"
version = "1.2.0"
description = "Weather."
authors = [{name = "Ann"}]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "server.py").write_text("x" * 2000)
    (tmp_path / ".env").write_text("KEY=1")
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_bundle_and_server_json_are_written(jackstay: Callable, folder: Path) -> None:
    trial = jackstay("pack", "--dry-run", peer=False).out.splitlines()
    assert trial[-3:-1] == ["    2.0 kB  server.py", "left out, because it may be a secret: .env"]
    assert trial[-1].startswith("weather-1.2.0.mcpb: 2 files, ")
    assert trial[-1].endswith(" bytes; nothing was written (--dry-run)")
    assert not list(folder.glob("*.mcpb"))
    without = jackstay("pack", peer=False).out
    assert "wrote weather-1.2.0.mcpb: 2 files, " in without
    assert "server.json was not written: project.urls has no Repository at GitHub" in without
    words = ["--env", "API_KEY", "--registry-name", "org.x/weather", "--url", "https://x.example/w.mcpb"]
    done = jackstay("pack", *words, "--output", "out.mcpb", ".", peer=False)
    assert "wrote server.json: org.x/weather, for https://x.example/w.mcpb" in done.out
    package = json.loads((folder / "server.json").read_text())["packages"][0]
    assert package["fileSha256"] == hashlib.sha256((folder / "out.mcpb").read_bytes()).hexdigest()
    with zipfile.ZipFile("out.mcpb") as archive:
        assert archive.namelist() == ["manifest.json", "pyproject.toml", "server.py"]
        assert json.loads(archive.read("manifest.json"))["user_config"]["api_key"]["title"] == "API_KEY"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("no-such-directory", "'no-such-directory' is not a directory"),
        ("--env KEY=secret", "--env expects the name of a variable, got 'KEY'; the host prompts for its value"),
        ("--entry .env", "'.env' is left out of the bundle"),
        ("--entry x.py", "'x.py' is not a file in ."),
        ("--output no/x.mcpb", "cannot write no/x.mcpb: No such file or directory"),
    ],
)
def test_wrong_words_are_refused(jackstay: Callable, words: str, reason: str) -> None:
    done = jackstay("pack", *words.split(), peer=False)
    assert (done.code, reason in done.err, "secret" in done.err) == (2, True, False)
