"""The cache on the event loop: the same operations, in a thread of their own."""

import asyncio
import random
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
        cache = await Cache.open(tmp_path, 2**40)
        assert str(tmp_path) in repr(cache)
        assert await cache.get("k") is None
        assert await cache.put(document(), ("lib",), [Section(1, ("Rope",), "long")], ["https://x.example/"])
        assert await cache.get("k") == document()
        assert (await cache.holds("k"), await cache.holds("other")) == (True, False)
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
        cache = await Cache.open(tmp_path, 2**40)
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
    def broken(self: Store, *given: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(Store, "__init__", broken)

    @timed
    async def scenario() -> None:
        with pytest.raises(RuntimeError, match="a defect"):
            await Cache.open(tmp_path, 2**40)

    scenario()


def test_a_cache_in_memory_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")

    @timed
    async def scenario() -> None:
        cache = await Cache.open(tmp_path / "file", 2**40)
        assert repr(cache) == "<Cache :memory:>"
        await cache.close()

    scenario()


def page(key: str, words: int = 3000) -> tuple[Document, list[Section]]:
    text = " ".join(random.Random(key).choices([f"w{number}" for number in range(500)], k=words))
    made = Document(key=key, kind="page", url=key, text=text, fetched_at=1.0, checked_at=1.0)
    return made, [Section(1, ("Heading",), text)]


def test_a_cache_that_grows_too_large_makes_room_behind_the_callers_back(tmp_path: Path) -> None:
    """`cache.max_bytes`; what is asked meanwhile is answered between two pieces, and closing does not wait for the end."""

    @timed
    async def scenario() -> None:
        cache = await Cache.open(tmp_path, 1_000_000)
        number = 0
        while cache._making_room is None:
            made, parts = page(f"k{number}")
            assert await cache.put(made, ("lib",), parts)
            cache.touch("k0")
            number += 1
        made, parts = page("one more")
        assert await cache.put(made, ("lib",), parts)
        while cache._making_room is not None:
            assert await cache.get("k0") is not None
        assert (await cache.status()).bytes <= 1_000_000
        assert (await cache.status()).documents < number
        assert await cache.get("k1") is None
        while cache._making_room is None:
            several = [page(f"k{number + one}") for one in range(3)]
            await asyncio.gather(*(cache.put(made, ("lib",), parts) for made, parts in several))
            number += 3
        await cache.close()
        again = await Cache.open(tmp_path, 1_000_000)
        assert await again.clean(0.0) == 0
        while again._making_room is not None:
            await again.get("k0")
        assert (await again.status()).bytes <= 1_000_000
        await again.close()

    scenario()
