"""`procontext doctor`, with a fake `getaddrinfo`."""

import json
import os
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from procontext.cache import FILE_NAME, Document
from procontext.cache._store import Store as PageStore
from procontext.cli import _doctor as module
from procontext.cli import main
from procontext.cli._doctor import cache_directory, run_checks
from procontext.config import CacheSettings, Config
from procontext.registry import Store


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory that contains the directories of the platform."""
    monkeypatch.chdir(tmp_path)
    for kind in ("CACHE", "DATA", "CONFIG"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path / kind))
    for name in [name for name in os.environ if name.startswith("PROCONTEXT__")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [])
    return tmp_path


def found() -> dict[str, Any]:
    return {finding.what: finding for finding in run_checks()}


def test_healthy_installation(capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code is 0."""
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert out.count("ok ") == 5
    assert main(["doctor", "--json"]) == 0
    assert {row["state"] for row in json.loads(capsys.readouterr().out)} == {"ok"}


def test_wrong_setting_ends_the_checks(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code is 1."""
    (folder / "procontext.yaml").write_text("casche: {}")
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "casche: unknown setting; did you mean 'cache'?" in out
    assert "Correct or remove this setting." in out
    assert len(found()) == 1


def test_invalid_registry_path_fails(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`registry.path` names a file that is not a registry."""
    (folder / "registry.json").write_text("{}")
    monkeypatch.setenv("PROCONTEXT__REGISTRY__PATH", "registry.json")
    assert found()["registry"].state == "failed"


def test_corrupt_download_is_a_warning(folder: Path) -> None:
    """The bundled registry is used instead."""
    store = Store(folder / "DATA" / "procontext" / "registry")
    state = store.replace(b'{"version": "2999.1.1", "libraries": [{"id": "a", "name": "A"}]}')
    (store.directory / state.file).write_text("torn")
    rows = found()
    assert rows["downloaded registry"].state == "warning"
    assert "procontext setup" in rows["downloaded registry"].advice
    assert rows["registry"].state == "ok"


def test_unwritable_cache_fails(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The parent of the directory is a file."""
    (folder / "taken").write_text("")
    monkeypatch.setenv("PROCONTEXT__CACHE__DIR", "taken/cache")
    assert found()["cache"].state == "failed"
    assert cache_directory(Config(cache=CacheSettings(dir="/x"))) == Path("/x")


def test_cache_size_is_reported(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check shows the size on disk."""
    (folder / "cache").mkdir()
    (folder / "cache" / "file").write_bytes(b"x" * 2_097_152)
    monkeypatch.setenv("PROCONTEXT__CACHE__DIR", "cache")
    assert found()["cache"].detail.endswith("2.0 MB of at most 1024; no page is stored yet")
    (folder / "cache" / "file").unlink()
    store = PageStore(folder / "cache")
    store.put(Document(key="k", kind="page", url="u", text="", fetched_at=0.0, checked_at=0.0), ("lib",))
    store.close()
    assert found()["cache"].detail.endswith("; 1 documents with 0 sections of 1 libraries")
    (folder / "cache" / FILE_NAME).write_bytes(b"no database" * 1000)
    unreadable = found()["cache"]
    assert (unreadable.state, "It is replaced" in unreadable.advice) == ("warning", True)
    monkeypatch.setattr(module, "MIN_FREE_BYTES", 2**63)
    assert "Free some space" in found()["cache"].advice


def test_missing_network_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    """Offline use is supported, so this is not a failure."""

    def fail(name: str, *_: Any, **__: Any) -> Any:
        raise socket.gaierror(-2, f"{name} is not known")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    assert "--offline" in found()["network"].advice
    monkeypatch.setenv("PROCONTEXT__FETCHER__PROXY", "http://proxy.corp:3128")
    assert "the proxy proxy.corp cannot be resolved" in found()["network"].detail
    monkeypatch.setenv("PROCONTEXT__FETCHER__OFFLINE", "true")
    assert "offline is set" in found()["network"].detail


def test_dns_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """`getaddrinfo` cannot be interrupted, so it runs on a thread."""
    resolved = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: resolved.wait(50))
    monkeypatch.setattr(module, "DNS_TIMEOUT", 0.01)
    try:
        assert found()["network"].detail.endswith("cannot be resolved: no response within 0.01 s")
    finally:
        resolved.set()


def test_missing_extra_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """HTTP is optional."""
    monkeypatch.setattr(module, "missing_modules", lambda extra: ("uvicorn",))
    assert found()["http"].advice == "pip install 'jackstay[http]'"
