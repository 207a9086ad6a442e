"""`procontext doctor`: what is wrong, and what to do. The name service is a test's own: nothing is asked of the network."""

import json
import os
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from procontext.cli import _doctor as home
from procontext.cli import main
from procontext.cli._doctor import cache_directory, examine
from procontext.config import CacheSettings, Config
from procontext.registry import Store


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, with everything of the platform's inside it."""
    monkeypatch.chdir(tmp_path)
    for kind in ("CACHE", "DATA", "CONFIG"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path / kind))
    for name in [name for name in os.environ if name.startswith("PROCONTEXT__")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [])
    return tmp_path


def found() -> dict[str, Any]:
    return {finding.what: finding for finding in examine()}


def test_a_sound_installation_is_all_well(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 0."""
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert out.count("ok ") == 5
    assert main(["doctor", "--json"]) == 0
    assert {row["state"] for row in json.loads(capsys.readouterr().out)} == {"ok"}


def test_a_wrong_setting_is_all_that_is_said(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing else can be looked at; exit code 1."""
    (place / "procontext.yaml").write_text("casche: {}")
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "casche: is no setting" in out
    assert "Correct or remove this setting." in out
    assert len(found()) == 1


def test_a_broken_registry_of_the_settings_fails(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`registry.path`."""
    (place / "mine.json").write_text("{}")
    monkeypatch.setenv("PROCONTEXT__REGISTRY__PATH", "mine.json")
    assert found()["registry"].state == "failed"


def test_a_broken_download_is_a_warning_with_its_cure(place: Path) -> None:
    """The bundled one is used meanwhile."""
    store = Store(place / "DATA" / "procontext" / "registry")
    state = store.replace(b'{"version": "2999.1.1", "libraries": [{"id": "a", "name": "A"}]}')
    (store.directory / state.file).write_text("torn")
    rows = found()
    assert rows["downloaded registry"].state == "warning"
    assert "procontext setup" in rows["downloaded registry"].advice
    assert rows["registry"].state == "ok"


def test_a_cache_that_cannot_be_written_fails(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file where a directory should be."""
    (place / "taken").write_text("")
    monkeypatch.setenv("PROCONTEXT__CACHE__DIR", "taken/cache")
    assert found()["cache"].state == "failed"
    assert cache_directory(Config(cache=CacheSettings(dir="/x"))) == Path("/x")


def test_a_cache_is_told_with_its_size(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it takes on disk."""
    (place / "cache").mkdir()
    (place / "cache" / "file").write_bytes(b"x" * 2_097_152)
    monkeypatch.setenv("PROCONTEXT__CACHE__DIR", "cache")
    assert found()["cache"].detail.endswith("2.0 MB of at most 1024")


def test_a_network_that_is_not_there_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    """Offline use is a way to work."""

    def fail(name: str, *_: Any, **__: Any) -> Any:
        raise socket.gaierror(-2, f"{name} is not known")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    assert "--offline" in found()["network"].advice
    monkeypatch.setenv("PROCONTEXT__FETCHER__PROXY", "http://proxy.corp:3128")
    assert "the proxy proxy.corp cannot be resolved" in found()["network"].detail
    monkeypatch.setenv("PROCONTEXT__FETCHER__OFFLINE", "true")
    assert "offline is set" in found()["network"].detail


def test_a_name_service_that_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system's own look-up cannot be interrupted."""
    answered = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answered.wait(50))
    monkeypatch.setattr(home, "PATIENCE", 0.01)
    try:
        assert found()["network"].detail.endswith("cannot be resolved: no answer within 0.01 s")
    finally:
        answered.set()


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """HTTP is optional."""
    monkeypatch.setattr(home, "missing_modules", lambda extra: ("uvicorn",))
    assert found()["http"].advice == "pip install 'jackstay[http]'"
