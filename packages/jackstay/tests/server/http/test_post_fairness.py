"""Blocking tools are served in turn by caller, however many POSTs or sessions each of them sends."""

import asyncio
import threading
from collections.abc import Mapping
from typing import Any

import pytest

from jackstay.server import Server
from jackstay.server.http import keys
from scripted.asgi import Http, asking, initialize, run, stateless, tool

FLOOD = 40
KEYS = {"alice": "alice-0123456789", "bob": "bob-0123456789ab"}


def bearer(name: str) -> dict[str, str]:
    return {"authorization": f"Bearer {KEYS[name]}"}


class Scene:
    """One thread, which is busy until the test lets it go; `order` is who was served after that."""

    def __init__(self) -> None:
        self.order: list[str] = []
        self.is_busy = threading.Event()
        self.may_go_on = threading.Event()
        self.server = Server("fair", threads=1)

        @self.server.tool(blocking=True)
        def work(who: str) -> str:
            if who == "first":
                self.is_busy.set()
                self.may_go_on.wait(10)
            self.order.append(who)
            return who

    async def queued(self, count: int) -> None:
        while self.server.dispatch.pool.queued < count:
            await asyncio.sleep(0)


def call(era: str, who: str, id: int) -> dict[str, Any]:
    if era == "stateless":
        return stateless("tools/call", {"name": "work", "arguments": {"who": who}}, id)
    return tool("work", id, who=who)


async def flooded(
    scene: Scene, http: Http, era: str, bob: Mapping[str, Any], alice: Mapping[str, Any]
) -> int:
    """After how many of bob's calls alice's one was served, sent after all of them."""
    first = http.start("POST", call(era, "first", 1), **bob)
    while not scene.is_busy.is_set():
        await asyncio.sleep(0)
    flood = [http.start("POST", call(era, "bob", 2 + n), **bob) for n in range(FLOOD)]
    await scene.queued(FLOOD)
    one = http.start("POST", call(era, "alice", 1000), **alice)
    await scene.queued(FLOOD + 1)
    scene.may_go_on.set()
    for response in (first, *flood, one):
        await response.until(lambda response=response: response.is_over)
        assert response.status == 200, response.body
    return scene.order.index("alice")


@pytest.mark.parametrize("era", ["handshake", "stateless"])
def test_posts_take_turns_by_principal(era: str) -> None:
    async def test() -> None:
        scene = Scene()
        async with asking(scene.server.asgi(auth=keys(KEYS))) as http:
            bob, alice = {"headers": bearer("bob")}, {"headers": bearer("alice")}
            assert await flooded(scene, http, era, bob, alice) <= 2

    run(test)


@pytest.mark.parametrize("era", ["handshake", "stateless"])
def test_posts_without_authentication_take_turns_by_address(era: str) -> None:
    async def test() -> None:
        scene = Scene()
        async with asking(scene.server.asgi()) as http:
            bob, alice = {"scope": {"client": ("10.0.0.1", 1)}}, {"scope": {"client": ("10.0.0.2", 1)}}
            assert await flooded(scene, http, era, bob, alice) <= 2

    run(test)


def test_a_principal_has_one_turn_with_all_its_sessions() -> None:
    async def test() -> None:
        scene = Scene()
        async with asking(scene.server.asgi(sessions=True, auth=keys(KEYS))) as http:

            async def session(name: str) -> dict[str, str]:
                opened = await http.post(initialize(), headers=bearer(name))
                return {"mcp-session-id": opened.headers["mcp-session-id"], **bearer(name)}

            first = http.start("POST", call("handshake", "first", 1), headers=await session("bob"))
            while not scene.is_busy.is_set():
                await asyncio.sleep(0)
            for _ in range(10):
                http.start("POST", call("handshake", "bob", 1), headers=await session("bob"))
            await scene.queued(10)
            one = http.start("POST", call("handshake", "alice", 1), headers=await session("alice"))
            await scene.queued(11)
            scene.may_go_on.set()
            for response in (first, one):
                await response.until(lambda response=response: response.is_over)
            assert scene.order.index("alice") <= 2

    run(test)
