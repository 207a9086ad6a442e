"""Lists: all pages, cached for as long as the server allows."""

import asyncio
from typing import Any

import pytest

from jackstay.client import Cache
from jackstay.client._lists import INVALIDATES, MAX_PAGES
from jackstay.errors import ProtocolError
from jackstay.protocol import METHODS
from jackstay.protocol.client import Settings
from jackstay.testing import on_fake_clock
from scripted.peer import STATELESS, opened, tool

# The API of the client, and the lists that it fetches.
LISTS = [
    ("tools", "list", "tools/list", "tools"),
    ("resources", "list", "resources/list", "resources"),
    ("resources", "templates", "resources/templates/list", "resourceTemplates"),
    ("prompts", "list", "prompts/list", "prompts"),
]


@pytest.mark.parametrize(("namespace", "verb", "method", "member"), LISTS)
@on_fake_clock
async def test_a_list_is_cached_for_its_ttl(namespace: str, verb: str, method: str, member: str) -> None:
    async with opened(STATELESS) as (client, peer):
        fetch = getattr(getattr(client, namespace), verb)
        peer.on[method] = {"resultType": "complete", member: [], "ttlMs": 5000, "cacheScope": "private"}
        assert await fetch() == await fetch() == []
        assert len(peer.got(method)) == 1
        await asyncio.sleep(4.9)
        await fetch()
        assert len(peer.got(method)) == 1
        await asyncio.sleep(0.2)
        await fetch()
        assert len(peer.got(method)) == 2


@pytest.mark.parametrize("ttl", [None, 0, -1])
@on_fake_clock
async def test_without_a_ttl_nothing_is_cached(ttl: int | None) -> None:
    async with opened(STATELESS) as (client, peer):
        peer.on["tools/list"] = {"tools": []} | ({} if ttl is None else {"ttlMs": ttl})
        await client.tools.list()
        await client.tools.list()
        assert len(peer.got("tools/list")) == 2
        assert repr(client.cache) == "<Cache of nothing>"


@on_fake_clock
async def test_the_shortest_time_of_all_pages_counts() -> None:
    async with opened(STATELESS) as (client, peer):
        first = {"tools": [tool("a")], "nextCursor": "2", "ttlMs": 60_000}
        peer.on["tools/list"] = lambda params: {"tools": [], "ttlMs": 1000} if params.get("cursor") else first
        await client.tools.list()
        await asyncio.sleep(2)
        await client.tools.list()
        assert len(peer.got("tools/list")) == 4


@pytest.mark.parametrize("notification", sorted({METHODS[method].changed_by for _, _, method, _ in LISTS}))
@on_fake_clock
async def test_a_list_change_invalidates_only_its_lists(notification: str) -> None:
    async with opened(STATELESS) as (client, peer):
        for _, _, method, member in LISTS:
            peer.on[method] = {member: [], "ttlMs": 60_000}

        async def fetch_all() -> None:
            for namespace, verb, _, _ in LISTS:
                await getattr(getattr(client, namespace), verb)()

        await fetch_all()
        assert repr(client.cache).startswith("<Cache of tools/list, ")
        peer.notify(notification)
        await client.ping()  # everything that was sent before its response has arrived
        await fetch_all()
        fetched_again = {method for _, _, method, _ in LISTS if len(peer.got(method)) == 2}
        assert fetched_again == set(INVALIDATES[notification])


@on_fake_clock
async def test_clear_and_reconnect_empty_the_cache() -> None:
    async with opened(STATELESS, wait_for_ready=True) as (client, peer):
        peer.on["tools/list"] = {"tools": [], "ttlMs": 60_000}
        await client.tools.list()
        client.cache.clear()
        await client.tools.list()
        assert len(peer.got("tools/list")) == 2
        peer.crash()
        await peer.until(lambda: peer.connections == 2)
        await client.tools.list()
        assert len(peer.got("tools/list")) == 3


@on_fake_clock
async def test_a_list_that_changed_while_it_was_fetched_is_not_cached() -> None:
    async with opened(STATELESS) as (client, peer):

        def turn(params: dict[str, Any]) -> dict[str, Any]:
            if params.get("cursor"):
                peer.notify("notifications/tools/list_changed")
                return {"tools": [], "ttlMs": 60_000}
            return {"tools": [], "nextCursor": "2", "ttlMs": 60_000}

        peer.on["tools/list"] = turn
        await client.tools.list()
        assert repr(client.cache) == "<Cache of nothing>"


@on_fake_clock
async def test_a_call_with_meta_bypasses_the_cache() -> None:
    async with opened(STATELESS) as (client, peer):
        peer.on["tools/list"] = {"tools": [], "ttlMs": 60_000}
        await client.tools.list(meta={"tenant": "a"})
        await client.tools.list()
        await client.tools.list(meta={"tenant": "b"})
        assert [message["params"]["_meta"].get("tenant") for message in peer.got("tools/list")] == [
            "a",
            None,
            "b",
        ]


@on_fake_clock
async def test_repeated_cursors_and_endless_lists_are_refused() -> None:
    async with opened() as (client, peer):
        peer.on["tools/list"] = {"tools": [], "nextCursor": "again"}
        with pytest.raises(ProtocolError, match="same cursor twice"):
            await client.tools.list()
        count = 0

        def more(params: Any) -> dict[str, Any]:
            nonlocal count
            count += 1
            return {"tools": [], "nextCursor": str(count)}

        peer.on["tools/list"] = more
        with pytest.raises(ProtocolError, match="more than 1000 pages"):
            await client.tools.list()
        assert count == MAX_PAGES


def test_every_cacheable_list_has_a_notification_that_invalidates_it() -> None:
    lists = {name for name, row in METHODS.items() if row.is_cacheable and name.endswith("/list")}
    assert {method for methods in INVALIDATES.values() for method in methods} >= lists


def test_an_empty_list_of_pages_is_not_cached() -> None:
    cache = Cache()
    cache.put("tools/list", [], 0.0, cache.version("tools/list"))
    assert cache.get("tools/list", 0.0) is None


# --- the total size of a list -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("namespace", "verb", "method", "member"), LISTS)
@on_fake_clock
async def test_a_list_is_bounded_as_a_whole_by_entries_and_bytes(
    namespace: str, verb: str, method: str, member: str
) -> None:
    entry = {
        "name": "x" * 100,
        "uri": "file:///a",
        "uriTemplate": "file:///{a}",
        "inputSchema": {"type": "object"},
    }
    async with opened(max_list_entries=25, max_list_bytes=10_000) as (client, peer):
        fetch = getattr(getattr(client, namespace), verb)
        count = 10

        def page(params: dict[str, Any]) -> dict[str, Any]:
            cursor = int(params.get("cursor", 0)) + 1
            more = {} if cursor == 3 else {"nextCursor": str(cursor)}
            return {member: [entry] * (count if cursor < 3 else 5), **more}

        peer.on[method] = page
        assert len(await fetch()) == 25  # the maximum
        count = 11
        with pytest.raises(ProtocolError, match=r"more than 25 entries \(max_list_entries\)") as caught:
            await fetch()
        assert caught.value.method == method
        entry["name"] = "x" * 1000
        count = 10
        with pytest.raises(ProtocolError, match=r"larger than 10000 bytes \(max_list_bytes\)"):
            await fetch()
        entry["name"] = "x"
        assert len(await fetch()) == 25  # the next fetch starts from zero


def test_the_limits_of_lists_by_default() -> None:
    assert (Settings().max_list_bytes, Settings().max_list_entries) == (64 * 2**20, 100_000)
