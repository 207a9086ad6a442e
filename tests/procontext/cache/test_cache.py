"""The cache on the event loop: the same operations, in a thread of their own."""

import asyncio
import threading
from pathlib import Path

import pytest

from procontext.cache import Cache, Document, Section
from procontext.cache._store import Store
from scripted.loop import timed


def document(key: str = "k", at: float = 1.0) -> Document:
    return Document(key=key, kind="page", url=key, text="text", fetched_at=at, checked_at=at)


def test_everything_can_be_awaited(tmp_path: Path) -> None:
    @timed
    async def scenario() -> None:
        cache = await Cache.open(tmp_path)
        assert str(tmp_path) in repr(cache)
        assert await cache.get("k") is None
        assert await cache.put(document(), ("lib",), [Section(1, ("Rope",), "long")], ["https://x.example/"])
        assert await cache.get("k") == document()
        await cache.confirm("k", 5.0)
        await cache.join("other", "k")
        assert await cache.libraries_linking("https://x.example/") == ("lib",)
        assert [hit.line for hit in await cache.search("other", "rope", 3)] == [1]
        assert (await cache.status()).documents == 1
        assert await cache.clean(9.0) == 1
        await cache.close()

    scenario()


def test_a_slow_disk_holds_up_its_own_callers_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All SQL is off the loop: the loop turns while an operation stands still."""
    go = threading.Event()

    def slow(self: Store, key: str) -> None:
        assert threading.current_thread() is not threading.main_thread()
        go.wait(10)

    monkeypatch.setattr(Store, "get", slow)

    @timed
    async def scenario() -> None:
        cache = await Cache.open(tmp_path)
        waiting = asyncio.create_task(cache.get("k"))
        for _ in range(100):
            await asyncio.sleep(0)
        assert not waiting.done()
        go.set()
        await waiting
        await cache.close()

    scenario()


def test_a_cache_that_cannot_be_made_leaves_no_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: Store, directory: Path) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(Store, "__init__", broken)

    @timed
    async def scenario() -> None:
        with pytest.raises(RuntimeError, match="a defect"):
            await Cache.open(tmp_path)

    scenario()


def test_a_cache_in_memory_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")

    @timed
    async def scenario() -> None:
        cache = await Cache.open(tmp_path / "file")
        assert repr(cache) == "<Cache :memory:>"
        await cache.close()

    scenario()
