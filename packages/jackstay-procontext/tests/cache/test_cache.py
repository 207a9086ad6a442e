"""The asyncio API of the cache."""

import asyncio
import random
import threading
from pathlib import Path

import pytest

from procontext.cache import Cache, Document, Section
from procontext.cache._store import Store


def document(key: str = "k", at: float = 1.0) -> Document:
    return Document(key=key, kind="page", url=key, text="text", fetched_at=at, checked_at=at)


async def test_all_operations(tmp_path: Path) -> None:
    cache = await Cache.open(tmp_path, 2**40)
    assert str(tmp_path) in repr(cache)
    assert await cache.get("k") is None
    assert await cache.put(document(), ("lib",), [Section(1, ("Rope",), "long")], ["https://x.example/"])
    assert await cache.get("k") == document()
    assert (await cache.contains("k"), await cache.contains("other")) == (True, False)
    await cache.confirm("k", 5.0)
    await cache.join("other", "k")
    assert await cache.libraries_linking("https://x.example/") == ("lib",)
    assert [hit.line for hit in await cache.search("other", "rope", 3)] == [1]
    assert (await cache.status()).documents == 1
    assert await cache.clean(9.0) == 1
    await cache.close()


async def test_slow_disk_does_not_block_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All SQL runs in a thread: the event loop continues while an operation blocks."""
    resume = threading.Event()

    def slow(self: Store, key: str) -> None:
        assert threading.current_thread() is not threading.main_thread()
        resume.wait(120)

    monkeypatch.setattr(Store, "get", slow)

    cache = await Cache.open(tmp_path, 2**40)
    waiting = asyncio.create_task(cache.get("k"))
    for _ in range(100):
        await asyncio.sleep(0)
    assert not waiting.done()
    resume.set()
    await waiting
    await cache.close()


async def test_failed_open_leaves_no_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Store, *given: object) -> None:
        raise RuntimeError("bug")

    monkeypatch.setattr(Store, "__init__", broken)

    with pytest.raises(RuntimeError, match="bug"):
        await Cache.open(tmp_path, 2**40)


async def test_repr_in_memory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")

    cache = await Cache.open(tmp_path / "file", 2**40)
    assert repr(cache) == "<Cache :memory:>"
    await cache.close()


def page(key: str, words: int = 3000) -> tuple[Document, list[Section]]:
    text = " ".join(random.Random(key).choices([f"w{number}" for number in range(500)], k=words))
    document = Document(key=key, kind="page", url=key, text=text, fetched_at=1.0, checked_at=1.0)
    return document, [Section(1, ("Heading",), text)]


async def test_eviction_in_background(tmp_path: Path) -> None:
    """Other operations run between two steps, and `close` does not wait for the end."""

    cache = await Cache.open(tmp_path, 1_000_000)
    number = 0
    while cache._evicting is None:
        new, sections = page(f"k{number}")
        assert await cache.put(new, ("lib",), sections)
        cache.touch("k0")
        number += 1
    new, sections = page("one more")
    assert await cache.put(new, ("lib",), sections)
    while cache._evicting is not None:
        assert await cache.get("k0") is not None
    assert (await cache.status()).bytes <= 1_000_000
    assert (await cache.status()).documents < number
    assert await cache.get("k1") is None
    while cache._evicting is None:
        several = [page(f"k{number + offset}") for offset in range(3)]
        await asyncio.gather(*(cache.put(new, ("lib",), sections) for new, sections in several))
        number += 3
    await cache.close()
    again = await Cache.open(tmp_path, 1_000_000)
    assert await again.clean(0.0) == 0
    while again._evicting is not None:
        await again.get("k0")
    assert (await again.status()).bytes <= 1_000_000
    await again.close()
