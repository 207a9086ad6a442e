"""The source checks of `procontext doctor`, against a local server."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from procontext.cli import _doctor
from procontext.cli._source_check import SourceState, check_sources
from procontext.config import Config, FetcherSettings, Source
from scripted.documentation import LoopbackNetwork, Site, status, text


def check_with_site(config_of: Callable[[int], Config]) -> list[SourceState]:
    """Check the sources while a site runs on the event loop of another thread."""
    ready, done = threading.Event(), threading.Event()
    ports: list[int] = []

    async def serve() -> None:
        routes = {
            "/llms.txt": text("[a](/a)"),
            "/": text("front page"),
            "/broken": status(500),
            "/gone": status(404),
        }
        async with Site(routes) as site:
            ports.append(site.port)
            ready.set()
            await asyncio.to_thread(done.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert ready.wait(120)
        return list(check_sources(config_of(ports[0]), LoopbackNetwork()))
    finally:
        done.set()
        thread.join(120)


def test_check_sources(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "empty").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# A")

    def config(port: int) -> Config:
        url = f"http://127.0.0.1:{port}"
        return Config(
            sources=(
                Source(id="good", llms_txt_url=f"{url}/llms.txt"),
                Source(id="second", llms_txt_url=f"{url}/gone", docs_url=f"{url}/"),
                Source(id="gone", docs_url=f"{url}/gone"),
                Source(id="broken", docs_url=f"{url}/broken"),
                Source(id="private", docs_url="http://10.0.0.5:8041/"),
                Source(id="folder", path=str(tmp_path / "docs")),
                Source(id="empty", path=str(tmp_path / "empty")),
            ),
            fetcher=FetcherSettings(allowed_private_hosts=(f"127.0.0.1:{port}",)),
        )

    found = {result.id: result for result in check_with_site(config)}
    assert {name: result.state for name, result in found.items()} == {
        "good": "ok",
        "second": "ok",
        "gone": "failed",
        "broken": "warning",
        "private": "failed",
        "folder": "ok",
        "empty": "failed",
    }
    assert 'allowed_private_hosts: ["10.0.0.5:8041"]' in found["private"].advice
    assert found["folder"].detail.endswith("has 1 file")


def test_offline_and_without_sources() -> None:
    config = Config(sources=(Source(id="a", docs_url="http://127.0.0.1:9/"),), fetcher=FetcherSettings(offline=True))
    assert check_sources(config) == [SourceState("a", "warning", "not checked: fetcher.offline is set")]
    assert check_sources(Config()) == ()


def test_doctor_reports_each_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "settings.yaml").write_text("sources: [{id: local, path: docs}]\nfetcher: {offline: true}")
    for kind in ("CACHE", "DATA", "CONFIG"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path / kind))
    findings = {finding.what: finding for finding in _doctor.run_checks(str(tmp_path / "settings.yaml"))}
    assert findings["source local"].state == "failed"
    (tmp_path / "docs" / "a.md").write_text("# A")
    findings = {finding.what: finding for finding in _doctor.run_checks(str(tmp_path / "settings.yaml"))}
    assert findings["source local"].state == "ok"
