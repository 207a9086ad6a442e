"""The proxy as a server: servers of one's own, its life, and HTTP in front."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from chaos.standing_in import standing_in
from jackstay.client import connect
from jackstay.errors import JsonRpcError, UsageError
from jackstay.proxy import Proxy, ProxyOptions, _back, _proxy
from jackstay.server import Server
from jackstay.testing import ScriptedPeer, on_fake_clock
from jackstay.transport import memory_pair
from jackstay.types import ElicitResult
from scripted.between import ERAS, FAST, STATELESS, Between, between


class Spawning:
    """A target that starts a new scripted server at every opening, as a command does."""

    def __init__(self, **options: Any) -> None:
        self.name, self.is_http, self.init_timeout = "spawning", False, None
        self.options = options
        self.peers: list[ScriptedPeer] = []

    async def open(self, *args: Any) -> Any:
        peer = ScriptedPeer(**self.options)
        peer.returns = False
        self.peers.append(peer)
        await peer.open()
        return await peer.target.open(*args)


class Several(Between):
    """A proxy in front of many."""

    def __init__(self, proxy: Proxy, target: Spawning, stack: Any) -> None:
        super().__init__(target.peers[0], proxy, stack)
        self.peers = target.peers


@asynccontextmanager
async def several(server: dict[str, Any] | None = None, **options: Any) -> AsyncIterator[Several]:
    """A proxy with `per_client`, opened."""
    target = Spawning(**(server or {}))
    proxy = Proxy(target, ProxyOptions(per_client=True, **options), settings=FAST)
    await proxy.open()
    try:
        async with AsyncExitStack() as stack:
            yield Several(proxy, target, stack)
    finally:
        await proxy.shutdown()


@on_fake_clock
async def test_with_per_client_every_client_has_a_server_that_knows_what_it_can() -> None:
    async with several() as made:
        one = await made.join(
            capabilities={"roots": {"listChanged": True}}, client_info={"name": "one", "version": "1"}
        )
        two = await made.join()
        calls = [client.submit("tools/call", {"name": name}) for client, name in ((one, "one"), (two, "two"))]
        while len(made.peers) < 3 or not all(peer.got("tools/call") for peer in made.peers[1:]):
            await asyncio.sleep(0.01)
        first, second = made.peers[1:]
        told = first.got("initialize")[0].params
        assert told["capabilities"] == {"roots": {"listChanged": True}}
        assert told["clientInfo"]["name"] == "one"
        assert second.got("initialize")[0].params["capabilities"] == {}
        for peer, name in ((first, "one"), (second, "two")):
            (call,) = peer.got("tools/call")
            assert call.params["name"] == name
            call.answer({"content": []})
        await asyncio.gather(*calls)
        assert made.peers[0].got("tools/call") == []


@on_fake_clock
async def test_a_server_of_ones_own_asks_and_tells_its_client_alone() -> None:
    """However many calls of however many clients are under way."""
    async with several() as made:
        clients, told = [], []
        for number in range(2):
            client = made.make()
            client.elicitation.handle(
                lambda _, number=number: ElicitResult(action="accept", content={"n": number})
            )
            mine: list[Any] = []
            client.on_notification(lambda one, mine=mine: mine.append(one.method))
            told.append(mine)
            await client.open()
            clients.append(client)
        calls = [client.submit("tools/call", {"name": "t"}) for client in clients]
        while len(made.peers) < 3 or not all(peer.got("tools/call") for peer in made.peers[1:]):
            await asyncio.sleep(0.01)
        form = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}
        for number, peer in enumerate(made.peers[1:]):
            peer.ask("in a call", "elicitation/create", form)
            assert (await peer.answer_to("in a call"))["result"]["content"] == {"n": number}
            peer.got("tools/call")[0].answer({"content": []})
        await asyncio.gather(*calls)
        peer = made.peers[2]
        peer.ask("outside", "elicitation/create", form)
        assert (await peer.answer_to("outside"))["result"]["content"] == {"n": 1}
        for method in ("tools/list_changed", "message", "elicitation/complete", "of/its/own"):
            peer.notify(f"notifications/{method}", level="info", data=1, elicitationId="e")
        await asyncio.sleep(0.1)
        assert told[0] == []
        assert len(told[1]) == 4
        clients[1].wire.notify("notifications/of/my/own", b"{}")
        await peer.expect("notifications/of/my/own")


@on_fake_clock
async def test_tasks_pass_to_a_server_of_ones_own() -> None:
    async with several(server={"capabilities": {"tasks": {"list": {}}, "logging": {}}}) as made:
        client = await made.join()
        assert client.server_capabilities.raw["tasks"] == {"list": {}}
        call = client.wire.call("tasks/list", b"{}")
        while len(made.peers) < 2:
            await asyncio.sleep(0.01)
        made.peers[1].on["logging/setLevel"] = {}
        (await made.peers[1].expect("tasks/list")).answer({"tasks": []})
        assert await call.future == b'{"tasks": []}'
        await client.logging.set_level("error")
        assert made.peers[1].got("logging/setLevel")
        assert not made.peers[0].got("logging/setLevel")


@on_fake_clock
async def test_notifications_before_the_first_request_reach_a_server_of_ones_own() -> None:
    """Its server is started by them, and gets them before the first request."""
    async with several() as made:
        client = made.make(capabilities={"roots": {"listChanged": True}})
        await client.open()
        for _ in range(_back.MAX_UNSENT + 5):
            client.wire.notify("notifications/roots/list_changed", b"{}")
        call = client.submit("tools/call", {"name": "t"})
        while len(made.peers) < 2 or not made.peers[1].got("tools/call"):
            await asyncio.sleep(0.01)
        methods = [one["method"] for one in made.peers[1].heard]
        assert methods.count("notifications/roots/list_changed") == _back.MAX_UNSENT
        assert methods[-1] == "tools/call"
        made.peers[1].got("tools/call")[0].answer({"content": []})
        await call


@on_fake_clock
async def test_a_server_of_ones_own_ends_with_its_client() -> None:
    async with several() as made:
        client = await made.join()
        call = client.submit("tools/call", {"name": "t"})
        while len(made.peers) < 2:
            await asyncio.sleep(0.01)
        (await made.peers[1].expect("tools/call")).answer({"content": []})
        await call
        await client.stop()
        await made.peers[1].until(lambda: "closed" in repr(made.peers[1]))
        assert "open" in repr(made.peers[0])


@on_fake_clock
async def test_a_server_of_ones_own_that_dies_is_started_again() -> None:
    async with several() as made:
        client = await made.join()
        first = client.submit("tools/call", {"name": "t"})
        while len(made.peers) < 2:
            await asyncio.sleep(0.01)
        await made.peers[1].expect("tools/call")
        made.peers[1].die()
        with pytest.raises(JsonRpcError, match="may have run"):
            await first
        second = client.submit("tools/call", {"name": "t"})
        while len(made.peers) < 3:
            await asyncio.sleep(0.01)
        (await made.peers[2].expect("tools/call")).answer({"content": []})
        await second


@on_fake_clock
async def test_there_are_not_more_servers_than_allowed() -> None:
    async with several(max_children=1) as made:
        one, two = await made.join(), await made.join()
        one.submit("tools/call", {"name": "t"})
        with pytest.raises(JsonRpcError) as told:
            await two.submit("tools/call", {"name": "t"})
        assert told.value.data == {"reason": "busy", "mayHaveRun": False, "retryable": True}
        two.wire.notify("notifications/roots/list_changed", b"{}")
        await one.stop()
        await made.peers[1].until(lambda: "closed" in repr(made.peers[1]))
        await asyncio.sleep(1)
        two.submit("tools/call", {"name": "t"})
        while len(made.peers) < 3:
            await asyncio.sleep(0.01)
        await made.peers[2].expect("tools/call")


@on_fake_clock
async def test_a_server_that_is_still_being_ended_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a process until it is gone: clients that come and go must not make more of them than allowed."""
    is_over, stop = asyncio.Event(), _back.Back.stop

    async def stop_slowly(back: _back.Back) -> None:
        await is_over.wait()
        await stop(back)

    monkeypatch.setattr(_back.Back, "stop", stop_slowly)
    async with several(max_children=1) as made:
        one, two = await made.join(), await made.join()
        one.submit("tools/call", {"name": "t"})
        await asyncio.sleep(1)
        await one.stop()
        with pytest.raises(JsonRpcError, match="too much to do"):
            await two.submit("tools/call", {"name": "t"})
        assert len(made.peers) == 2
        is_over.set()
        await asyncio.sleep(60)
        two.submit("tools/call", {"name": "t"})
        await asyncio.sleep(60)
        assert made.peers[2].got("tools/call")


@on_fake_clock
async def test_clients_without_a_session_share_the_first_server() -> None:
    async with several() as made:
        client = await made.join(STATELESS)
        made.peers[0].on["tools/call"] = {"content": []}
        await client.tools.call("t")
        assert len(made.peers) == 1


# --- its life ---------------------------------------------------------------------------------------------------------


@on_fake_clock
async def test_a_setting_that_is_none_is_refused_before_anything_is_started() -> None:
    async with ScriptedPeer() as peer:
        with pytest.raises(UsageError, match="no_such"):
            await Proxy(peer.target, settings={"no_such": 1}).open()
        assert peer.heard == []


@on_fake_clock
async def test_what_is_to_be_done_before_is_done_before() -> None:
    async with ScriptedPeer() as peer:
        done: list[int] = []

        async def prepare() -> None:
            done.append(len(peer.heard))

        proxy = Proxy(peer.target, prepare=prepare)
        await proxy.open()
        assert done == [0]
        await proxy.shutdown()
        assert "Proxy" in repr(proxy)


@on_fake_clock
async def test_a_server_without_a_name_gets_ours() -> None:
    async with between(STATELESS) as made:
        said = made.peer.introduction()
        del said["_meta"]
        made.peer.on["server/discover"] = said
        made.peer.die()
        await asyncio.sleep(3)
        client = await made.join()
        assert client.server_info is not None
        assert client.server_info.name == "behind"


@on_fake_clock
async def test_the_shutdown_of_one_that_was_never_opened_is_quiet() -> None:
    proxy = Proxy(memory_pair("never").client)
    await proxy.shutdown()
    assert proxy.param_headers("t") == ()


@pytest.mark.parametrize("version", ERAS)
def test_it_can_stand_in_front_of_a_server_of_ours_in_the_same_process(version: str) -> None:
    """Over the real clock, with our own server behind: list, call, read, prompt."""
    server = Server("real", versions=(version,))

    @server.tool
    def add(a: int, b: int) -> int:
        return a + b

    @server.resource("a:{name}")
    def read(name: str) -> str:
        return f"about {name}"

    async def test() -> None:
        behind, front = memory_pair("behind"), memory_pair("front")
        tasks = [asyncio.ensure_future(server.serve(behind.server))]
        proxy = Proxy(behind.client)
        await proxy.open()
        tasks.append(asyncio.ensure_future(proxy.serve(front.server)))
        async with connect(front.client) as client:
            assert (await client.tools.call("add", {"a": 1, "b": 2})).structured_content == {"result": 3}
            assert [tool.name for tool in await client.tools.list()] == ["add"]
            assert (await client.resources.read("a:x")).contents[0].raw["text"] == "about x"
        await proxy.shutdown()
        await asyncio.gather(*tasks)

    asyncio.run(test())


def test_it_serves_stdio_until_the_end_of_input(tmp_path: Path) -> None:
    target = Spawning()
    proxy = Proxy(target)
    (tmp_path / "in").write_text('{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    with (
        (tmp_path / "in").open("rb") as stdin,
        (tmp_path / "out").open("wb") as stdout,
        standing_in(stdin.fileno(), stdout.fileno()),
    ):
        assert proxy.run() == 0
    assert b'"result":{}' in (tmp_path / "out").read_bytes()
    assert [peer.connections for peer in target.peers] == [1]
    assert proxy.offering()[0].options.drain_timeout == _proxy.STDIO_DRAIN


def test_it_serves_http_with_sessions_until_a_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    target = Spawning()
    proxy = Proxy(target)
    made: list[Any] = []
    real = proxy.asgi

    def asgi(**options: Any) -> Any:
        made.append(real(**options))
        return made[0]

    async def interrupt() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(60)

    monkeypatch.setattr(proxy, "asgi", asgi)
    proxy.on_startup(interrupt)
    assert proxy.run(transport="http", port=0) == 130
    assert made[0].options.sessions is True
    assert [peer.connections for peer in target.peers] == [1]
    assert "closed" in repr(target.peers[0])


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_when_the_process_must_end_at_once_the_servers_behind_are_killed_first(
    transport: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second signal, or an end that takes too long. With real processes: packages/jackstay/tests/cli/test_proxy.py."""
    done: list[object] = []
    monkeypatch.setattr(_proxy, "kill_children", lambda: done.append("killed"))
    monkeypatch.setattr(Server, "run", lambda self, *, leave, **options: leave(7))
    proxy = Proxy(Spawning())
    proxy.run(transport=transport, leave=done.append)
    assert done == ["killed", 7]


def test_it_is_mounted_with_sessions_unless_it_is_said_otherwise() -> None:
    proxy = Proxy(memory_pair("never").client)
    assert proxy.asgi().options.sessions is True
    assert proxy.asgi(sessions=False).options.sessions is False
