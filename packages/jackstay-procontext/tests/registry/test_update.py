"""The update protocol: described, fetched, checked, put in place; and the refresh that never gives up."""

import itertools
import json
import logging
from pathlib import Path

import pytest

from procontext.errors import RegistryError, failure
from procontext.registry import Store, checksum, delays, keep_fresh, update
from scripted.loop import timed

URL = "https://example.com/registry/latest.json"


def registry(version: str) -> bytes:
    return json.dumps({"version": version, "libraries": [{"id": "a", "name": "A"}]}).encode()


class World:
    """What is published, and what was asked for."""

    def __init__(self, **pages: bytes | Exception) -> None:
        self.pages = {
            f"https://example.com/registry/{name.replace('_', '.')}": page for name, page in pages.items()
        }
        self.asked: list[str] = []

    async def download(self, url: str) -> bytes:
        self.asked.append(url)
        found = self.pages[url]
        if isinstance(found, Exception):
            raise found
        return found


def described(data: bytes, url: str = "libraries.json", version: str = "2") -> bytes:
    return json.dumps({"version": version, "url": url, "sha256": checksum(data).upper()}).encode()


@timed
async def test_a_newer_registry_is_fetched_checked_and_put_in_place(tmp_path: Path) -> None:
    """Reference, section 8: `procontext setup`."""
    world = World(latest_json=described(registry("2")), libraries_json=registry("2"))
    store = Store(tmp_path)
    state = await update(store, URL, world.download)
    assert state is not None
    assert (state.version, state.url) == ("2", "https://example.com/registry/libraries.json")
    assert store.load() is not None


@timed
async def test_what_is_there_is_not_fetched_again(tmp_path: Path) -> None:
    """Only the description is read."""
    world = World(latest_json=described(registry("2")), libraries_json=registry("2"))
    store = Store(tmp_path)
    await update(store, URL, world.download)
    world.asked.clear()
    assert await update(store, URL, world.download) is None
    assert world.asked == [URL]


@pytest.mark.parametrize(("stored", "in_use"), [("3", "unknown"), (None, "2026.11.15")])
@timed
async def test_an_older_one_is_not_put_over_what_is_there(
    stored: str | None, in_use: str, tmp_path: Path
) -> None:
    """A mirror that is behind: never a worse file over a good one, downloaded or of the package."""
    world = World(latest_json=described(registry("2")), libraries_json=registry("2"))
    store = Store(tmp_path)
    if stored is not None:
        store.replace(registry(stored))
    assert await update(store, URL, world.download, in_use) is None
    assert world.asked == [URL]
    loaded = store.load()
    assert (None if loaded is None else loaded.version) == stored


@timed
async def test_a_damaged_pair_is_fetched_again(tmp_path: Path) -> None:
    """The state file alone is no proof."""
    world = World(latest_json=described(registry("2")), libraries_json=registry("2"))
    store = Store(tmp_path)
    state = await update(store, URL, world.download)
    assert state is not None
    (tmp_path / state.file).write_bytes(b"")
    assert await update(store, URL, world.download) is not None
    assert store.load() is not None


# (what is published, what is said)
WRONG = [
    (World(latest_json=b"<html>"), "is not the description of a registry"),
    (World(latest_json=b'{"version": "2"}'), "is not the description of a registry"),
    (World(latest_json=b'{"version": "2", "url": "x", "sha256": "1"}'), "gives no SHA-256 checksum"),
    (World(latest_json=OSError("no route")), "cannot be fetched: no route"),
    (World(latest_json=TimeoutError()), "cannot be fetched: TimeoutError"),
    (World(latest_json=failure("PAGE_FETCH_FAILED", "x")), "cannot be fetched: The page 'x'"),
    (World(latest_json=described(b"", "http://example.com/x")), "leads from https to http"),
    (World(latest_json=described(b""), libraries_json=OSError("cut")), "cannot be fetched: cut"),
    (World(latest_json=described(b"other"), libraries_json=registry("2")), "does not have the checksum"),
    (World(latest_json=described(b"{}"), libraries_json=b"{}"), "is not a registry"),
    (World(latest_json=described(registry("0")), libraries_json=registry("0")), "is version 0, not 2 as was"),
]


@pytest.mark.parametrize(("world", "said"), WRONG)
@timed
async def test_what_is_wrong_leaves_the_registry_in_place(world: World, said: str, tmp_path: Path) -> None:
    """A bad download never replaces a good one."""
    store = Store(tmp_path)
    store.replace(registry("1"))
    with pytest.raises(RegistryError, match=said):
        await update(store, URL, world.download)
    loaded = store.load()
    assert loaded is not None
    assert loaded.version == "1"


@timed
async def test_a_disk_that_is_full_is_told(tmp_path: Path) -> None:
    """A file where the directory should be."""
    (tmp_path / "registry").write_text("")
    world = World(latest_json=described(registry("2")), libraries_json=registry("2"))
    with pytest.raises(RegistryError, match="cannot be written"):
        await update(Store(tmp_path / "registry"), URL, world.download)


def test_delays_double_up_to_an_hour() -> None:
    """Backoff."""
    found = list(itertools.islice(delays(), 30))
    assert found[:4] == [60, 120, 240, 480]
    assert found[-1] == 3600


@timed
async def test_a_failure_is_tried_again_sooner_and_a_success_ends_the_backoff(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Background refresh with backoff; it never ends the server."""
    results = iter([RegistryError(URL, "down"), RegistryError(URL, "down"), None, RegistryError(URL, "down")])
    slept: list[float] = []

    class EnoughError(Exception):
        pass

    async def refresh() -> None:
        result = next(results, EnoughError())
        if result is not None:
            raise result

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    with caplog.at_level(logging.WARNING), pytest.raises(EnoughError):
        await keep_fresh(refresh, every=86_400, sleep=sleep)
    assert slept == [60, 120, 86_400, 60]
    assert caplog.text.count("registry_refresh_failed") == 3
