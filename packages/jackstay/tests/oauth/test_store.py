"""`MemoryStore` and the entries of a store."""

import asyncio

import msgspec
import pytest

from jackstay.errors import TransportError
from jackstay.oauth import FileStore, MemoryStore, TokenStore
from jackstay.oauth import _store as stores
from jackstay.oauth._store import client_key, load_entry, save_entry, server_key, tokens_key
from jackstay.testing import on_fake_clock, store_suites


class Entry(msgspec.Struct):
    """An entry of a test."""

    number: int


@on_fake_clock
async def test_the_last_value_is_returned_until_it_is_deleted() -> None:
    store = MemoryStore()
    assert await store.load("k") is None
    await store.save("k", b"1")
    await store.save("k", b"2")
    assert await store.load("k") == b"2"
    assert repr(store) == "MemoryStore(1 entries)"
    await store.save("k", None)
    await store.save("k", None)
    assert await store.load("k") is None


def test_both_stores_implement_the_protocol() -> None:
    assert isinstance(MemoryStore(), TokenStore)
    assert isinstance(FileStore("x"), TokenStore)


def test_keys_of_different_kinds_are_different() -> None:
    assert len({client_key("i"), server_key("i"), tokens_key("i", "r"), tokens_key("r", "i")}) == 4


@on_fake_clock
async def test_an_invalid_entry_is_none() -> None:
    store = MemoryStore()
    await save_entry(store, "k", Entry(3))
    assert await load_entry(store, "k", Entry) == Entry(3)
    assert await load_entry(store, "other", Entry) is None
    for value in (b'{"of": "another version"}', b'{"x":' + b"[" * 50_000):
        await store.save("k", value)
        assert await load_entry(store, "k", Entry) is None


class TestMemoryStore(store_suites.TokenStoreSuite):
    def make(self) -> tuple[TokenStore, TokenStore]:
        store = MemoryStore()
        return store, store


def test_waiting_for_a_lock_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """On any event loop, because several threads may use the store."""
    monkeypatch.setattr(stores, "LOCK_SECONDS", 5.0)
    store = MemoryStore()

    @on_fake_clock
    async def second() -> None:
        with pytest.raises(TransportError, match="has held the lock for 5 s") as raised:
            async with store.lock("k"):
                raise AssertionError("two at a time")
        assert raised.value.retryable
        assert asyncio.get_running_loop().time() < 6

    async def first() -> None:
        async with store.lock("k"):
            await asyncio.to_thread(second)

    asyncio.run(first())
