"""`procontext doctor` looks at every source of the settings. Nothing leaves this machine, and nothing is stored."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from procontext.cli import _doctor
from procontext.cli._source_check import SourceState, check_sources
from procontext.config import Config, FetcherSettings, Source
from scripted.documentation import LoopbackNetwork, Site, status, text


def checked(site_of: Callable[[int], Config]) -> list[SourceState]:
    """The states of the sources, with a site that runs meanwhile on a loop of its own."""
    ready, done = threading.Event(), threading.Event()
    ports: list[int] = []

    async def serve() -> None:
        routes = {
            "/llms.txt": text("[a](/a)"),
            "/": text("front"),
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
        assert ready.wait(20)
        return list(check_sources(site_of(ports[0]), LoopbackNetwork()))
    finally:
        done.set()
        thread.join(20)


def test_every_source_is_read_once(tmp_path: Path) -> None:
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

    found = {one.id: one for one in checked(config)}
    assert {name: one.state for name, one in found.items()} == {
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


def test_offline_sends_nothing_and_no_sources_are_no_work() -> None:
    config = Config(
        sources=(Source(id="a", docs_url="http://127.0.0.1:9/"),), fetcher=FetcherSettings(offline=True)
    )
    assert check_sources(config) == [SourceState("a", "warning", "not checked: offline is set")]
    assert check_sources(Config()) == ()


def test_doctor_has_a_line_for_each_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "settings.yaml").write_text("sources: [{id: mine, path: docs}]\nfetcher: {offline: true}")
    for kind in ("CACHE", "DATA", "CONFIG"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path / kind))
    findings = {one.what: one for one in _doctor.examine(str(tmp_path / "settings.yaml"))}
    assert findings["source mine"].state == "failed"
    (tmp_path / "docs" / "a.md").write_text("# A")
    findings = {one.what: one for one in _doctor.examine(str(tmp_path / "settings.yaml"))}
    assert findings["source mine"].state == "ok"
