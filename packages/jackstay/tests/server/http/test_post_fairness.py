"""Callers take turns on the threads of blocking tools, however many POSTs or sessions each of them has."""

import asyncio
import threading
from collections.abc import Mapping
from typing import Any

import pytest

from jackstay.server import Server
from jackstay.server.http import keys
from scripted.asgi import Http, http_client, initialize, stateless, tool

FLOOD = 40
KEYS = {"alice": "alice-0123456789", "bob": "bob-0123456789ab"}


def bearer(name: str) -> dict[str, str]:
    return {"authorization": f"Bearer {KEYS[name]}"}


class OneThread:
    """A server with one thread, which is busy until `release`; `order` lists the callers served after that."""

    def __init__(self) -> None:
        self.order: list[str] = []
        self.is_busy = threading.Event()
        self.release = threading.Event()
        self.server = Server("fair", threads=1)

        @self.server.tool(blocking=True)
        def work(who: str) -> str:
            if who == "first":
                self.is_busy.set()
                self.release.wait(120)
            self.order.append(who)
            return who

    async def queued(self, count: int) -> None:
        while self.server._dispatch.pool.queued < count:
            await asyncio.sleep(0)


def call(era: str, who: str, id: int) -> dict[str, Any]:
    if era == "stateless":
        return stateless("tools/call", {"name": "work", "arguments": {"who": who}}, id)
    return tool("work", id, who=who)


async def flooded(fixture: OneThread, http: Http, era: str, bob: Mapping[str, Any], alice: Mapping[str, Any]) -> int:
    """Return after how many of bob's calls alice's single call was served, which was sent last."""
    first = http.start("POST", call(era, "first", 1), **bob)
    while not fixture.is_busy.is_set():
        await asyncio.sleep(0)
    flood = [http.start("POST", call(era, "bob", 2 + n), **bob) for n in range(FLOOD)]
    await fixture.queued(FLOOD)
    single = http.start("POST", call(era, "alice", 1000), **alice)
    await fixture.queued(FLOOD + 1)
    fixture.release.set()
    for response in (first, *flood, single):
        await response.until(lambda response=response: response.is_over)
        assert response.status == 200, response.body
    return fixture.order.index("alice")


@pytest.mark.parametrize("era", ["handshake", "stateless"])
async def test_principals_take_turns(era: str) -> None:
    fixture = OneThread()
    async with http_client(fixture.server.asgi(auth=keys(KEYS))) as http:
        bob, alice = {"headers": bearer("bob")}, {"headers": bearer("alice")}
        assert await flooded(fixture, http, era, bob, alice) <= 2


@pytest.mark.parametrize("era", ["handshake", "stateless"])
async def test_without_authentication_addresses_take_turns(era: str) -> None:
    fixture = OneThread()
    async with http_client(fixture.server.asgi()) as http:
        bob, alice = {"scope": {"client": ("10.0.0.1", 1)}}, {"scope": {"client": ("10.0.0.2", 1)}}
        assert await flooded(fixture, http, era, bob, alice) <= 2


async def test_all_sessions_of_a_principal_share_one_turn() -> None:
    fixture = OneThread()
    async with http_client(fixture.server.asgi(sessions=True, auth=keys(KEYS))) as http:

        async def session(name: str) -> dict[str, str]:
            opened = await http.post(initialize(), headers=bearer(name))
            return {"mcp-session-id": opened.headers["mcp-session-id"], **bearer(name)}

        first = http.start("POST", call("handshake", "first", 1), headers=await session("bob"))
        while not fixture.is_busy.is_set():
            await asyncio.sleep(0)
        for _ in range(10):
            http.start("POST", call("handshake", "bob", 1), headers=await session("bob"))
        await fixture.queued(10)
        single = http.start("POST", call("handshake", "alice", 1), headers=await session("alice"))
        await fixture.queued(11)
        fixture.release.set()
        for response in (first, single):
            await response.until(lambda response=response: response.is_over)
        assert fixture.order.index("alice") <= 2
