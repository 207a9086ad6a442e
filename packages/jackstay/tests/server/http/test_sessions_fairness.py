"""Limits of sessions: a caller that opens many of them does not evict the sessions of otown."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from jackstay.server import Server
from jackstay.server.http import App, MemorySessionStore, keys
from jackstay.testing import run_on_fake_clock
from scripted.asgi import Http, http_client, initialize, request, stateless

KEYS = {name: f"{name}-0123456789abcdef" for name in ("alice", "bob", "carol")}
LIMIT = 40


def serving() -> Server:
    server = Server("fair")
    server.resource("test://{name}", blocking=False)(lambda name: name)
    return server


def caller(name: str, way: str) -> dict[str, Any]:
    """Return what identifies this caller in a request: a key, or an address."""
    if way == "keys":
        return {"headers": {"authorization": f"Bearer {KEYS[name]}"}}
    return {"scope": {"client": (f"10.0.0.{len(name)}", 1)}}


def app_for(way: str, **options: Any) -> App:
    return serving().asgi(sessions=True, **({"auth": keys(KEYS)} if way == "keys" else {}), **options)


async def opened(http: Http, who: Mapping[str, Any], *, is_used: bool = False) -> str:
    """Open a session and return its id."""
    answer = await http.post(initialize(), **who)
    assert answer.status == 200, answer.body
    id = answer.headers["mcp-session-id"]
    if is_used:
        assert await ping(http, who, id) == 200
    await asyncio.sleep(0.01)
    return id


async def ping(http: Http, who: Mapping[str, Any], id: str) -> int:
    headers = {**who.get("headers", {}), "mcp-session-id": id}
    return (await http.post(request("ping"), **{**who, "headers": headers})).status


@pytest.mark.parametrize("way", ["keys", "addresses"])
@pytest.mark.parametrize("is_used", [False, True])
def test_a_flood_of_sessions_evicts_only_its_own(way: str, is_used: bool) -> None:
    async def test() -> None:
        app = app_for(way, max_sessions=LIMIT)
        async with http_client(app) as http:
            alice, bob = caller("alice", way), caller("bob", way)
            own = [await opened(http, alice, is_used=is_used) for _ in range(3)]
            for _ in range(5 * LIMIT):
                await opened(http, bob, is_used=is_used)
            assert app.sessions == LIMIT
            assert [await ping(http, alice, id) for id in own] == [200] * 3

    run_on_fake_clock(test())


def test_two_flooding_callers_share_the_limit() -> None:
    async def test() -> None:
        app = app_for("keys", max_sessions=LIMIT)
        async with http_client(app) as http:
            who = {name: caller(name, "keys") for name in KEYS}
            own = await opened(http, who["alice"])
            for _ in range(3 * LIMIT):
                await opened(http, who["bob"])
            for _ in range(3 * LIMIT):
                await opened(http, who["carol"])
            counts = [session.principal for session in app._sessions.all]
            assert await ping(http, who["alice"], own) == 200
            assert counts.count("bob") >= LIMIT // 4
            assert counts.count("carol") >= LIMIT // 4

    run_on_fake_clock(test())


def test_unused_sessions_are_evicted_first() -> None:
    async def test() -> None:
        app = app_for("keys", max_sessions=4)
        async with http_client(app) as http:
            bob = caller("bob", "keys")
            used = [await opened(http, bob, is_used=True) for _ in range(2)]
            unused = [await opened(http, bob) for _ in range(2)]
            for _ in range(2):
                await opened(http, bob)
            assert [await ping(http, bob, id) for id in (*used, *unused)] == [200, 200, 404, 404]

    run_on_fake_clock(test())


def test_among_callers_with_one_session_the_longest_idle_is_evicted() -> None:
    async def test() -> None:
        app = app_for("addresses", max_sessions=10)
        async with http_client(app) as http:
            ids = []
            for number in range(15):
                who = {"scope": {"client": (f"10.0.{number}.1", 1)}}
                ids.append((who, await opened(http, who)))
            assert [await ping(http, who, id) for who, id in ids] == [404] * 5 + [200] * 10

    run_on_fake_clock(test())


# --- subscriptions ----------------------------------------------------------------------------------------------------


async def subscribe(http: Http, who: Mapping[str, Any], id: str, uri: str) -> bool:
    headers = {**who.get("headers", {}), "mcp-session-id": id}
    message = request("resources/subscribe", {"uri": uri})
    return "result" in (await http.post(message, **{**who, "headers": headers})).json


async def test_subscriptions_are_bounded_in_bytes_per_session_and_in_total() -> None:
    app = app_for("addresses", max_subscription_bytes=4096, max_all_subscription_bytes=6144)
    async with http_client(app) as http:
        who = caller("bob", "addresses")
        first, second = await opened(http, who), await opened(http, who)
        uris = [f"test://{number}".ljust(1024, "x") for number in range(6)]
        assert [await subscribe(http, who, first, uri) for uri in uris] == [True] * 4 + [False] * 2
        assert [await subscribe(http, who, second, uri) for uri in uris] == [True] * 2 + [False] * 4
        headers = {"mcp-session-id": first}
        assert (await http.request("DELETE", headers=headers)).status == 204  # releases its quota
        assert await subscribe(http, who, second, uris[5])
        assert app._quota.used == 3 * 1024


async def test_a_post_without_a_session_keeps_no_subscription() -> None:
    app = serving().asgi()
    async with http_client(app) as http:
        for number in range(3):
            message = request("resources/subscribe", {"uri": f"test://{number}"})
            assert (await http.post(message)).json["result"] == {}
        assert app._quota.used == 0


async def test_a_stream_that_ends_releases_its_quota() -> None:
    app = serving().asgi()
    async with http_client(app) as http:
        params = {"notifications": {"resourceSubscriptions": ["test://1", "test://2"]}}
        stream = await http.open("POST", stateless("subscriptions/listen", params))
        await stream.message()
        assert app._quota.used == 16
        stream.disconnect()
        await stream.end()
        assert app._quota.used == 0


async def test_a_restored_session_has_the_limits_of_its_worker(caplog: pytest.LogCaptureFixture) -> None:
    """Subscriptions above the limit are dropped, which is logged; the session continues."""
    store = MemorySessionStore()
    wide = serving().asgi(sessions=True, session_store=store)
    narrow = serving().asgi(sessions=True, session_store=store, max_subscription_bytes=2048)
    async with http_client(wide) as http:
        who: dict[str, Any] = {}
        id = await opened(http, who)
        for number in range(4):
            assert await subscribe(http, who, id, f"test://{number}".ljust(1000, "x"))
        http.app = narrow
        assert await ping(http, who, id) == 200
        assert narrow._quota.used == 2000
    assert "not all subscriptions of the session were restored" in caplog.text
