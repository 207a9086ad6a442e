"""`Proxy`: dedicated servers, start and shutdown, stdio and HTTP."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from chaos.redirected_stdio import redirected_stdio
from jackstay.client import connect
from jackstay.errors import JsonRpcError, UsageError
from jackstay.proxy import Proxy, ProxyOptions, _proxy, _upstream
from jackstay.server import Server
from jackstay.testing import ScriptedPeer, on_fake_clock
from jackstay.transport import memory_pair
from jackstay.types import ElicitResult
from scripted.between import ERAS, FAST, STATELESS, Between, between


class Spawning:
    """A target that starts a new scripted server for every connection, like a command."""

    def __init__(self, **options: Any) -> None:
        self.name, self.is_http, self.init_timeout = "spawning", False, None
        self.options = options
        self.peers: list[ScriptedPeer] = []

    async def open(self, *args: Any) -> Any:
        peer = ScriptedPeer(**self.options)
        peer.reopens = False
        self.peers.append(peer)
        await peer.open()
        return await peer.target.open(*args)


class Several(Between):
    """A proxy with several upstream servers."""

    def __init__(self, proxy: Proxy, target: Spawning, stack: Any) -> None:
        super().__init__(target.peers[0], proxy, stack)
        self.peers = target.peers


@asynccontextmanager
async def several(server: dict[str, Any] | None = None, **options: Any) -> AsyncIterator[Several]:
    """An open proxy with `per_client`."""
    target = Spawning(**(server or {}))
    proxy = Proxy(target, ProxyOptions(per_client=True, **options), settings=FAST)
    await proxy.open()
    try:
        async with AsyncExitStack() as stack:
            yield Several(proxy, target, stack)
    finally:
        await proxy.shutdown()


@on_fake_clock
async def test_per_client_servers_get_the_capabilities_of_their_client() -> None:
    async with several() as harness:
        one = await harness.join(
            capabilities={"roots": {"listChanged": True}}, client_info={"name": "one", "version": "1"}
        )
        two = await harness.join()
        calls = [client.submit("tools/call", {"name": name}) for client, name in ((one, "one"), (two, "two"))]
        while len(harness.peers) < 3 or not all(peer.got("tools/call") for peer in harness.peers[1:]):
            await asyncio.sleep(0.01)
        first, second = harness.peers[1:]
        params = first.got("initialize")[0].params
        assert params["capabilities"] == {"roots": {"listChanged": True}}
        assert params["clientInfo"]["name"] == "one"
        assert second.got("initialize")[0].params["capabilities"] == {}
        for peer, name in ((first, "one"), (second, "two")):
            (call,) = peer.got("tools/call")
            assert call.params["name"] == name
            call.respond({"content": []})
        await asyncio.gather(*calls)
        assert harness.peers[0].got("tools/call") == []


@on_fake_clock
async def test_a_dedicated_server_reaches_only_its_client() -> None:
    """Also while several clients have calls in flight."""
    async with several() as harness:
        clients, notified = [], []
        for number in range(2):
            client = harness.make()
            client.elicitation.handle(lambda _, number=number: ElicitResult(action="accept", content={"n": number}))
            received: list[Any] = []
            client.on_notification(lambda message, received=received: received.append(message.method))
            notified.append(received)
            await client.open()
            clients.append(client)
        calls = [client.submit("tools/call", {"name": "t"}) for client in clients]
        while len(harness.peers) < 3 or not all(peer.got("tools/call") for peer in harness.peers[1:]):
            await asyncio.sleep(0.01)
        form = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}
        for number, peer in enumerate(harness.peers[1:]):
            peer.request("in a call", "elicitation/create", form)
            assert (await peer.response_to("in a call"))["result"]["content"] == {"n": number}
            peer.got("tools/call")[0].respond({"content": []})
        await asyncio.gather(*calls)
        peer = harness.peers[2]
        peer.request("outside", "elicitation/create", form)
        assert (await peer.response_to("outside"))["result"]["content"] == {"n": 1}
        for method in ("tools/list_changed", "message", "elicitation/complete", "of/its/own"):
            peer.notify(f"notifications/{method}", level="info", data=1, elicitationId="e")
        await asyncio.sleep(0.1)
        assert notified[0] == []
        assert len(notified[1]) == 4
        clients[1].forwarding.notify("notifications/of/my/own", b"{}")
        await peer.expect("notifications/of/my/own")


@on_fake_clock
async def test_tasks_are_forwarded_to_a_dedicated_server() -> None:
    async with several(server={"capabilities": {"tasks": {"list": {}}, "logging": {}}}) as harness:
        client = await harness.join()
        assert client.server_capabilities.raw["tasks"] == {"list": {}}
        call = client.forwarding.call("tasks/list", b"{}")
        while len(harness.peers) < 2:
            await asyncio.sleep(0.01)
        harness.peers[1].on["logging/setLevel"] = {}
        (await harness.peers[1].expect("tasks/list")).respond({"tasks": []})
        assert await call.future == b'{"tasks": []}'
        await client.logging.set_level("error")
        assert harness.peers[1].got("logging/setLevel")
        assert not harness.peers[0].got("logging/setLevel")


@on_fake_clock
async def test_notifications_before_the_first_request_reach_a_dedicated_server() -> None:
    """They start the server, and are sent before the first request."""
    async with several() as harness:
        client = harness.make(capabilities={"roots": {"listChanged": True}})
        await client.open()
        for _ in range(_upstream.MAX_UNSENT + 5):
            client.forwarding.notify("notifications/roots/list_changed", b"{}")
        call = client.submit("tools/call", {"name": "t"})
        while len(harness.peers) < 2 or not harness.peers[1].got("tools/call"):
            await asyncio.sleep(0.01)
        methods = [message["method"] for message in harness.peers[1].received]
        assert methods.count("notifications/roots/list_changed") == _upstream.MAX_UNSENT
        assert methods[-1] == "tools/call"
        harness.peers[1].got("tools/call")[0].respond({"content": []})
        await call


@on_fake_clock
async def test_a_dedicated_server_stops_with_its_client() -> None:
    async with several() as harness:
        client = await harness.join()
        call = client.submit("tools/call", {"name": "t"})
        while len(harness.peers) < 2:
            await asyncio.sleep(0.01)
        (await harness.peers[1].expect("tools/call")).respond({"content": []})
        await call
        await client.stop()
        await harness.peers[1].until(lambda: "closed" in repr(harness.peers[1]))
        assert "open" in repr(harness.peers[0])


@on_fake_clock
async def test_a_dedicated_server_is_restarted() -> None:
    async with several() as harness:
        client = await harness.join()
        first = client.submit("tools/call", {"name": "t"})
        while len(harness.peers) < 2:
            await asyncio.sleep(0.01)
        await harness.peers[1].expect("tools/call")
        harness.peers[1].crash()
        with pytest.raises(JsonRpcError, match="may have run"):
            await first
        second = client.submit("tools/call", {"name": "t"})
        while len(harness.peers) < 3:
            await asyncio.sleep(0.01)
        (await harness.peers[2].expect("tools/call")).respond({"content": []})
        await second


@on_fake_clock
async def test_the_number_of_dedicated_servers_is_limited() -> None:
    async with several(max_children=1) as harness:
        one, two = await harness.join(), await harness.join()
        one.submit("tools/call", {"name": "t"})
        with pytest.raises(JsonRpcError) as caught:
            await two.submit("tools/call", {"name": "t"})
        assert caught.value.data == {"reason": "busy", "mayHaveRun": False, "retryable": True}
        two.forwarding.notify("notifications/roots/list_changed", b"{}")
        await one.stop()
        await harness.peers[1].until(lambda: "closed" in repr(harness.peers[1]))
        await asyncio.sleep(1)
        two.submit("tools/call", {"name": "t"})
        while len(harness.peers) < 3:
            await asyncio.sleep(0.01)
        await harness.peers[2].expect("tools/call")


@on_fake_clock
async def test_a_server_that_is_being_stopped_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that connect and disconnect must not start more processes than allowed."""
    is_over, stop = asyncio.Event(), _upstream.Upstream.stop

    async def stop_slowly(upstream: _upstream.Upstream) -> None:
        await is_over.wait()
        await stop(upstream)

    monkeypatch.setattr(_upstream.Upstream, "stop", stop_slowly)
    async with several(max_children=1) as harness:
        one, two = await harness.join(), await harness.join()
        one.submit("tools/call", {"name": "t"})
        await asyncio.sleep(1)
        await one.stop()
        with pytest.raises(JsonRpcError, match="overloaded"):
            await two.submit("tools/call", {"name": "t"})
        assert len(harness.peers) == 2
        is_over.set()
        await asyncio.sleep(60)
        two.submit("tools/call", {"name": "t"})
        await asyncio.sleep(60)
        assert harness.peers[2].got("tools/call")


@on_fake_clock
async def test_clients_without_a_session_share_the_first_server() -> None:
    async with several() as harness:
        client = await harness.join(STATELESS)
        harness.peers[0].on["tools/call"] = {"content": []}
        await client.tools.call("t")
        assert len(harness.peers) == 1


# --- start and shutdown -----------------------------------------------------------------------------------------------


@on_fake_clock
async def test_an_unknown_setting_raises_before_the_server_is_started() -> None:
    async with ScriptedPeer() as peer:
        with pytest.raises(UsageError, match="no_such"):
            await Proxy(peer.target, settings={"no_such": 1}).open()
        assert peer.received == []


@on_fake_clock
async def test_prepare_runs_before_the_server_is_started() -> None:
    async with ScriptedPeer() as peer:
        done: list[int] = []

        async def prepare() -> None:
            done.append(len(peer.received))

        proxy = Proxy(peer.target, prepare=prepare)
        await proxy.open()
        assert done == [0]
        await proxy.shutdown()
        assert "Proxy" in repr(proxy)


@on_fake_clock
async def test_a_server_without_a_name_gets_the_name_of_the_target() -> None:
    async with between(STATELESS) as harness:
        result = harness.peer.handshake_result()
        del result["_meta"]
        harness.peer.on["server/discover"] = result
        harness.peer.crash()
        await asyncio.sleep(3)
        client = await harness.join()
        assert client.server_info is not None
        assert client.server_info.name == "behind"


@on_fake_clock
async def test_shutdown_without_open() -> None:
    proxy = Proxy(memory_pair("never").client)
    await proxy.shutdown()
    assert proxy._param_headers("t") == ()


@pytest.mark.parametrize("version", ERAS)
async def test_a_jackstay_server_in_the_same_process(version: str) -> None:
    server = Server("real", versions=(version,))

    @server.tool
    def add(a: int, b: int) -> int:
        return a + b

    @server.resource("a:{name}")
    def read(name: str) -> str:
        return f"about {name}"

    upstream, downstream = memory_pair("upstream"), memory_pair("downstream")
    tasks = [asyncio.ensure_future(server.serve(upstream.server))]
    proxy = Proxy(upstream.client)
    await proxy.open()
    tasks.append(asyncio.ensure_future(proxy.serve(downstream.server)))
    async with connect(downstream.client) as client:
        assert (await client.tools.call("add", {"a": 1, "b": 2})).structured_content == {"result": 3}
        assert [tool.name for tool in await client.tools.list()] == ["add"]
        assert (await client.resources.read("a:x")).contents[0].raw["text"] == "about x"
    await proxy.shutdown()
    await asyncio.gather(*tasks)


def test_run_over_stdio_ends_with_the_input(tmp_path: Path) -> None:
    target = Spawning()
    proxy = Proxy(target)
    (tmp_path / "in").write_text('{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    with (
        (tmp_path / "in").open("rb") as stdin,
        (tmp_path / "out").open("wb") as stdout,
        redirected_stdio(stdin.fileno(), stdout.fileno()),
    ):
        assert proxy.run() == 0
    assert b'"result":{}' in (tmp_path / "out").read_bytes()
    assert [peer.connections for peer in target.peers] == [1]
    assert proxy._current_config()[0].options.drain_timeout == _proxy.STDIO_DRAIN


def test_run_over_http_has_sessions_and_ends_on_a_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    target = Spawning()
    proxy = Proxy(target)
    apps: list[Any] = []
    asgi = proxy.asgi

    def keep_app(**options: Any) -> Any:
        apps.append(asgi(**options))
        return apps[0]

    async def interrupt() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(60)

    monkeypatch.setattr(proxy, "asgi", keep_app)
    proxy.on_startup(interrupt)
    assert proxy.run(transport="http", port=0) == 130
    assert apps[0].options.sessions is True
    assert [peer.connections for peer in target.peers] == [1]
    assert "closed" in repr(target.peers[0])


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_children_are_killed_before_the_process_exits_at_once(transport: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a second signal, or when the shutdown takes too long."""
    done: list[object] = []
    monkeypatch.setattr(_proxy, "kill_children", lambda: done.append("killed"))
    monkeypatch.setattr(Server, "run", lambda self, *, exit_process, **options: exit_process(7))
    proxy = Proxy(Spawning())
    proxy.run(transport=transport, exit_process=done.append)
    assert done == ["killed", 7]


def test_a_url_and_a_path_are_accepted_and_anything_else_is_refused() -> None:
    assert Proxy("https://example.org/mcp").name == "example.org"
    with pytest.raises(UsageError, match=r"Proxy\(\) found no file 'nowhere.py'"):
        Proxy("nowhere.py")


def test_asgi_has_sessions_by_default() -> None:
    proxy = Proxy(memory_pair("never").client)
    assert proxy.asgi().options.sessions is True
    assert proxy.asgi(sessions=False).options.sessions is False
