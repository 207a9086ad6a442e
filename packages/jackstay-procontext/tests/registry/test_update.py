"""Updates of the registry, and the background refresh."""

import itertools
import json
import logging
from pathlib import Path

import pytest

from procontext.errors import RegistryError, failure
from procontext.registry import Store, checksum, delays, keep_fresh, update

URL = "https://example.com/registry/latest.json"


def registry(version: str) -> bytes:
    return json.dumps({"version": version, "libraries": [{"id": "a", "name": "A"}]}).encode()


class Publisher:
    """Serves published files and records the requests."""

    def __init__(self, **pages: bytes | Exception) -> None:
        self.pages = {f"https://example.com/registry/{name.replace('_', '.')}": page for name, page in pages.items()}
        self.requested: list[str] = []

    async def download(self, url: str) -> bytes:
        self.requested.append(url)
        found = self.pages[url]
        if isinstance(found, Exception):
            raise found
        return found


def described(data: bytes, url: str = "libraries.json", version: str = "2") -> bytes:
    return json.dumps({"version": version, "url": url, "sha256": checksum(data).upper()}).encode()


async def test_newer_registry_is_installed(tmp_path: Path) -> None:
    publisher = Publisher(latest_json=described(registry("2")), libraries_json=registry("2"))
    store = Store(tmp_path)
    state = await update(store, URL, publisher.download)
    assert state is not None
    assert (state.version, state.url) == ("2", "https://example.com/registry/libraries.json")
    assert store.load() is not None


async def test_installed_version_is_not_fetched_again(tmp_path: Path) -> None:
    """Only the description is read."""
    publisher = Publisher(latest_json=described(registry("2")), libraries_json=registry("2"))
    store = Store(tmp_path)
    await update(store, URL, publisher.download)
    publisher.requested.clear()
    assert await update(store, URL, publisher.download) is None
    assert publisher.requested == [URL]


@pytest.mark.parametrize(("stored", "current_version"), [("3", "unknown"), (None, "2026.11.15")])
async def test_older_version_is_not_installed(stored: str | None, current_version: str, tmp_path: Path) -> None:
    """A mirror may be outdated."""
    publisher = Publisher(latest_json=described(registry("2")), libraries_json=registry("2"))
    store = Store(tmp_path)
    if stored is not None:
        store.replace(registry(stored))
    assert await update(store, URL, publisher.download, current_version) is None
    assert publisher.requested == [URL]
    loaded = store.load()
    assert (None if loaded is None else loaded.version) == stored


async def test_corrupt_pair_is_fetched_again(tmp_path: Path) -> None:
    """The state file alone is not sufficient."""
    publisher = Publisher(latest_json=described(registry("2")), libraries_json=registry("2"))
    store = Store(tmp_path)
    state = await update(store, URL, publisher.download)
    assert state is not None
    (tmp_path / state.file).write_bytes(b"")
    assert await update(store, URL, publisher.download) is not None
    assert store.load() is not None


# (published files, error)
FAILURES = [
    (Publisher(latest_json=b"<html>"), "not a description of a registry"),
    (Publisher(latest_json=b'{"x": ' + b"[" * 3000 + b"]" * 3000 + b"}"), "not a description of a registry"),
    (Publisher(latest_json=b'{"version": "2"}'), "not a description of a registry"),
    (Publisher(latest_json=b'{"version": "2", "url": "x", "sha256": "1"}'), "invalid SHA-256 checksum '1'"),
    (Publisher(latest_json=OSError("no route")), "cannot fetch: no route"),
    (Publisher(latest_json=TimeoutError()), "cannot fetch: TimeoutError"),
    (Publisher(latest_json=failure("PAGE_FETCH_FAILED", "x")), "cannot fetch: The page 'x'"),
    (Publisher(latest_json=described(b"", "http://example.com/x")), "downgrade from https to http"),
    (Publisher(latest_json=described(b""), libraries_json=OSError("cut")), "cannot fetch: cut"),
    (Publisher(latest_json=described(b"other"), libraries_json=registry("2")), "the checksum does not match"),
    (Publisher(latest_json=described(b"{}"), libraries_json=b"{}"), "not a registry"),
    (
        Publisher(latest_json=described(registry("0")), libraries_json=registry("0")),
        "the version is '0', but '2' was published",
    ),
]


async def test_failures_leave_the_registry_unchanged(tmp_path: Path, subtests: pytest.Subtests) -> None:
    store = Store(tmp_path)
    store.replace(registry("1"))
    for publisher, problem in FAILURES:
        with subtests.test(problem=problem):
            with pytest.raises(RegistryError, match=problem):
                await update(store, URL, publisher.download)
            loaded = store.load()
            assert loaded is not None
            assert loaded.version == "1"


async def test_unwritable_directory(tmp_path: Path) -> None:
    """A file has the name of the directory."""
    (tmp_path / "registry").write_text("")
    publisher = Publisher(latest_json=described(registry("2")), libraries_json=registry("2"))
    with pytest.raises(RegistryError, match="cannot write the registry"):
        await update(Store(tmp_path / "registry"), URL, publisher.download)


def test_delays() -> None:
    found = list(itertools.islice(delays(), 30))
    assert found[:4] == [60, 120, 240, 480]
    assert found[-1] == 3600


async def test_keep_fresh_backs_off_after_failures(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A success resets the delay."""
    results = iter([RegistryError(URL, "down"), RegistryError(URL, "down"), None, RegistryError(URL, "down")])
    slept: list[float] = []

    class StopRefreshError(Exception):
        pass

    async def refresh() -> None:
        result = next(results, StopRefreshError())
        if result is not None:
            raise result

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    with caplog.at_level(logging.WARNING), pytest.raises(StopRefreshError):
        await keep_fresh(refresh, every=86_400, sleep=sleep)
    assert slept == [60, 120, 86_400, 60]
    assert caplog.text.count("registry_refresh_failed") == 3
