"""What sessions may cost, and whose end when there are too many: nobody loses theirs to a caller who opens more."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from jackstay.server import Server
from jackstay.server.http import App, MemorySessions, keys
from jackstay.testing import run_on_fake_clock
from scripted.asgi import Http, asking, initialize, request, run, stateless

KEYS = {name: f"{name}-0123456789abcdef" for name in ("alice", "bob", "carol")}
LIMIT = 40


def serving() -> Server:
    server = Server("fair")
    server.resource("test://{name}", blocking=False)(lambda name: name)
    return server


def caller(name: str, way: str) -> dict[str, Any]:
    """How this caller is told from others: by a key, or by address."""
    if way == "keys":
        return {"headers": {"authorization": f"Bearer {KEYS[name]}"}}
    return {"scope": {"client": (f"10.0.0.{len(name)}", 1)}}


def app_for(way: str, **options: Any) -> App:
    return serving().asgi(sessions=True, **({"auth": keys(KEYS)} if way == "keys" else {}), **options)


async def opened(http: Http, who: Mapping[str, Any], *, is_used: bool = False) -> str:
    """The id of a new session."""
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
def test_a_flood_of_sessions_ends_only_its_own(way: str, is_used: bool) -> None:
    async def test() -> None:
        app = app_for(way, max_sessions=LIMIT)
        async with asking(app) as http:
            alice, bob = caller("alice", way), caller("bob", way)
            hers = [await opened(http, alice, is_used=is_used) for _ in range(3)]
            for _ in range(5 * LIMIT):
                await opened(http, bob, is_used=is_used)
            assert app.sessions == LIMIT
            assert [await ping(http, alice, id) for id in hers] == [200] * 3

    run_on_fake_clock(test())


def test_two_that_flood_share_what_there_is() -> None:
    async def test() -> None:
        app = app_for("keys", max_sessions=LIMIT)
        async with asking(app) as http:
            who = {name: caller(name, "keys") for name in KEYS}
            hers = await opened(http, who["alice"])
            for _ in range(3 * LIMIT):
                await opened(http, who["bob"])
            for _ in range(3 * LIMIT):
                await opened(http, who["carol"])
            counts = [session.principal for session in app._all_sessions()]
            assert await ping(http, who["alice"], hers) == 200
            assert counts.count("bob") >= LIMIT // 4
            assert counts.count("carol") >= LIMIT // 4

    run_on_fake_clock(test())


def test_what_was_never_used_ends_before_what_was() -> None:
    async def test() -> None:
        app = app_for("keys", max_sessions=4)
        async with asking(app) as http:
            bob = caller("bob", "keys")
            used = [await opened(http, bob, is_used=True) for _ in range(2)]
            unused = [await opened(http, bob) for _ in range(2)]
            for _ in range(2):
                await opened(http, bob)
            assert [await ping(http, bob, id) for id in (*used, *unused)] == [200, 200, 404, 404]

    run_on_fake_clock(test())


def test_many_callers_with_one_session_each_lose_the_one_idle_longest() -> None:
    async def test() -> None:
        app = app_for("addresses", max_sessions=10)
        async with asking(app) as http:
            ids = []
            for number in range(15):
                who = {"scope": {"client": (f"10.0.{number}.1", 1)}}
                ids.append((who, await opened(http, who)))
            assert [await ping(http, who, id) for who, id in ids] == [404] * 5 + [200] * 10

    run_on_fake_clock(test())


# --- subscriptions -----------------------------------------------------------------------------------------------------


async def subscribe(http: Http, who: Mapping[str, Any], id: str, uri: str) -> bool:
    headers = {**who.get("headers", {}), "mcp-session-id": id}
    message = request("resources/subscribe", {"uri": uri})
    return "result" in (await http.post(message, **{**who, "headers": headers})).json


def test_subscriptions_are_bounded_in_bytes_for_one_and_for_all() -> None:
    async def test() -> None:
        app = app_for("addresses", max_subscription_bytes=4096, max_all_subscription_bytes=6144)
        async with asking(app) as http:
            who = caller("bob", "addresses")
            one, other = await opened(http, who), await opened(http, who)
            uris = [f"test://{number}".ljust(1024, "x") for number in range(6)]
            assert [await subscribe(http, who, one, uri) for uri in uris] == [True] * 4 + [False] * 2
            assert [await subscribe(http, who, other, uri) for uri in uris] == [True] * 2 + [False] * 4
            headers = {"mcp-session-id": one}
            assert (
                await http.ask("DELETE", headers=headers)
            ).status == 204  # what ends gives back what it had
            assert await subscribe(http, who, other, uris[5])
            assert app._quota.used == 3 * 1024

    run(test)


def test_a_post_without_session_leaves_no_subscription_behind() -> None:
    async def test() -> None:
        app = serving().asgi()
        async with asking(app) as http:
            for number in range(3):
                message = request("resources/subscribe", {"uri": f"test://{number}"})
                assert (await http.post(message)).json["result"] == {}
            assert app._quota.used == 0

    run(test)


def test_a_stream_that_ends_gives_back_what_it_had() -> None:
    async def test() -> None:
        app = serving().asgi()
        async with asking(app) as http:
            wanted = {"notifications": {"resourceSubscriptions": ["test://1", "test://2"]}}
            stream = await http.open("POST", stateless("subscriptions/listen", wanted))
            await stream.message()
            assert app._quota.used == 16
            stream.leave()
            await stream.end()
            assert app._quota.used == 0

    run(test)


def test_a_session_that_is_made_again_has_the_limits_of_its_worker(caplog: pytest.LogCaptureFixture) -> None:
    """What does not fit is dropped, with a line in the log; the session goes on."""

    async def test() -> None:
        store = MemorySessions()
        wide = serving().asgi(sessions=True, session_store=store)
        narrow = serving().asgi(sessions=True, session_store=store, max_subscription_bytes=2048)
        async with asking(wide) as http:
            who: dict[str, Any] = {}
            id = await opened(http, who)
            for number in range(4):
                assert await subscribe(http, who, id, f"test://{number}".ljust(1000, "x"))
            http.app = narrow
            assert await ping(http, who, id) == 200
            assert narrow._quota.used == 2000

    run(test)
    assert "no room for the subscriptions of its record" in caplog.text
