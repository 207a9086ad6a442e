"""Which era a server behind a proxy is connected in: that of the client, wherever the server supports it."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
import uvicorn

from jackstay.client import Client, connect
from jackstay.errors import JsonRpcError, McpError, TransportError
from jackstay.protocol import VERSIONS
from jackstay.proxy import Proxy, ProxyOptions, _eras
from jackstay.server import Context, Server
from jackstay.testing import on_fake_clock
from jackstay.transport import Target, memory_pair
from jackstay.transport.http import http
from jackstay.types import CreateMessageResult, ElicitResult, Root, TextContent
from scripted.between import ERAS, FAST, HANDSHAKE, STATELESS
from scripted.loop import timed

SERVERS = {"handshake only": (HANDSHAKE,), "stateless only": (STATELESS,), "both": VERSIONS}
FRONTS = ("stdio", "http")
FORM = {"type": "object", "properties": {"name": {"type": "string"}}}


def make_server(versions: tuple[str, ...]) -> Server:
    """A server with a tool that uses all that clients can be requested for, and a resource that changes."""
    server = Server("behind", versions=versions)

    @server.tool
    async def everything(ctx: Context) -> dict[str, Any]:
        ctx.log("info", "at work")
        answer = await ctx.elicit("who?", FORM, key="who")
        sampled = await ctx.sample("a poem", max_tokens=10, key="poem")
        roots = await ctx.roots(key="roots")
        return {
            "name": answer.content,
            "poem": sampled.raw["content"],
            "roots": [str(root.uri) for root in roots],
        }

    @server.resource("a:b")
    def read() -> str:
        return "text"

    return server


class InMemory:
    """A target that starts this server for every connection."""

    def __init__(self, server: Server) -> None:
        self.name, self.is_http, self.init_timeout = "behind", False, None
        self.server = server
        self.serving: list[asyncio.Task[None]] = []

    async def open(self, owner: Any, max_frame_bytes: int, close_step: float) -> Any:
        pair = memory_pair("behind")
        self.serving.append(asyncio.ensure_future(self.server.serve(pair.server)))
        return await pair.client.open(owner, max_frame_bytes, close_step)

    @property
    def running(self) -> int:
        return sum(not task.done() for task in self.serving)


@asynccontextmanager
async def http_front(proxy: Server) -> AsyncIterator[Target]:
    """The proxy, or a server, on a port of the system's choice."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    config = uvicorn.Config(
        proxy.asgi(sessions=True), lifespan="off", log_config=None, timeout_graceful_shutdown=2
    )
    server = uvicorn.Server(config)
    task = asyncio.get_running_loop().create_task(server._serve([listening]))
    while not server.started:
        await asyncio.sleep(0.005)
    try:
        yield http(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp")
    finally:
        server.should_exit = True
        await task
        listening.close()


@asynccontextmanager
async def stdio_front(proxy: Proxy) -> AsyncIterator[Target]:
    """The proxy on a connection that is one stream each way."""
    pair = memory_pair("front")
    task = asyncio.ensure_future(proxy.serve(pair.server))
    yield pair.client
    await task


def answering(target: Target, version: str) -> tuple[Client, list[Any]]:
    """A client that answers whatever it is requested for, and the log messages that it receives."""
    client = connect(target, versions=(version,))
    client.elicitation.handle(lambda _: ElicitResult(action="accept", content={"name": "Ada"}))
    client.sampling.handle(
        lambda _: CreateMessageResult(role="assistant", content=TextContent("rain"), model="m")
    )
    client.roots.set([Root(uri="file:///mine")])
    logs: list[Any] = []
    client.on_notification(
        lambda one: logs.append(one.params) if one.method == "notifications/message" else None
    )
    return client, logs


@asynccontextmanager
async def proxied(versions: tuple[str, ...], **options: Any) -> AsyncIterator[tuple[Proxy, InMemory]]:
    target = InMemory(make_server(versions))
    proxy = Proxy(target, ProxyOptions(**options), settings=FAST)
    await proxy.open()
    try:
        yield proxy, target
    finally:
        await proxy.shutdown()
        await asyncio.gather(*target.serving)


@pytest.mark.parametrize("per_client", [False, True], ids=["shared", "per client"])
@pytest.mark.parametrize("front", FRONTS)
@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("version", ERAS)
@timed
async def test_a_client_of_any_era_keeps_what_its_era_has(
    version: str, server: str, front: str, per_client: bool
) -> None:
    """Sampling, elicitation, roots, log messages; and nothing of the other era is in the result."""
    versions = SERVERS[server]
    async with AsyncExitStack() as stack:
        proxy, _ = await stack.enter_async_context(proxied(versions, per_client=per_client))
        fronted = http_front if front == "http" else stdio_front
        target = await stack.enter_async_context(fronted(proxy))
        client, logs = answering(target, version)
        await stack.enter_async_context(client)
        level = {"io.modelcontextprotocol/logLevel": "info"} if version == STATELESS else None
        result = await client.tools.call("everything", meta=level)
        assert not result.is_error, result.text
        told = result.structured_content
        assert told is not None
        assert told["name"] == {"name": "Ada"}
        assert told["roots"] == ["file:///mine"]
        assert [one["data"] for one in logs][:1] == ["at work"]
        if version == HANDSHAKE:
            assert "resultType" not in result.raw
            assert "_meta" not in result.raw
        backs = proxy._own.values() if per_client and version == HANDSHAKE else proxy._eras.all
        expected = version if version in versions else versions[0]
        assert expected in {back.facts.version for back in backs}


@timed
async def test_clients_of_both_eras_at_one_server_have_a_connection_for_each() -> None:
    async with proxied(VERSIONS) as (proxy, target), AsyncExitStack() as stack:
        clients = []
        for version in (STATELESS, HANDSHAKE, HANDSHAKE):
            place = await stack.enter_async_context(stdio_front(proxy))
            client, _ = answering(place, version)
            clients.append(await stack.enter_async_context(client))
        assert target.running == 2
        assert [back.is_stateless for back in proxy._eras.all] == [True, False]
        changes: list[int] = []
        for number, client in enumerate(clients):
            await client.resources.subscribe("a:b", lambda _, number=number: changes.append(number))
            assert (await client.resources.read("a:b")).contents[0].raw["text"] == "text"
        target.server.notify_resource_updated("a:b")
        while len(changes) < 3:
            await asyncio.sleep(0.01)
        await clients[0].tools.list()
        assert sorted(changes) == [0, 1, 2], "each once, though the server reports it on both connections"


@timed
async def test_over_stdio_the_connection_of_the_other_era_is_closed() -> None:
    """There is one client: a second process would be for nobody."""
    async with proxied(VERSIONS) as (proxy, target):
        proxy._eras.has_one_client = True
        async with stdio_front(proxy) as place:
            client, _ = answering(place, HANDSHAKE)
            async with client:
                assert not (await client.tools.call("everything")).is_error
                while target.running > 1:
                    await asyncio.sleep(0.01)
                assert [back.facts.version for back in proxy._eras.all] == [HANDSHAKE]
                assert "Eras" in repr(proxy)


@timed
async def test_with_per_client_no_shared_connection_is_kept_for_the_handshake() -> None:
    async with proxied(VERSIONS, per_client=True) as (proxy, target), stdio_front(proxy) as place:
        client, _ = answering(place, HANDSHAKE)
        async with client:
            await client.tools.list()
            while target.running > 2:
                await asyncio.sleep(0.01)
            assert proxy._eras.second is None
            assert proxy._eras.is_dual
            assert proxy._eras.find(is_stateless=False) is proxy._eras.second, "made when it is needed"


@timed
async def test_a_server_that_refuses_the_handshake_is_tried_once_until_it_was_restarted() -> None:
    async with proxied((STATELESS,)) as (proxy, target), AsyncExitStack() as stack:
        for _ in range(2):
            place = await stack.enter_async_context(stdio_front(proxy))
            client, _ = answering(place, HANDSHAKE)
            await stack.enter_async_context(client)
        assert len(target.serving) == 2
        assert proxy._eras.is_dual is False
        first = proxy._eras.first
        assert first is not None
        proxy._eras.came_back(first)
        assert proxy._eras.is_dual is None


@timed
async def test_settings_without_a_handshake_make_no_second_connection() -> None:
    target = InMemory(make_server(VERSIONS))
    proxy = Proxy(target, settings={**FAST, "versions": (STATELESS,)})
    await proxy.open()
    async with stdio_front(proxy) as place:
        client, _ = answering(place, HANDSHAKE)
        async with client:
            assert not (await client.tools.call("everything")).is_error
    assert len(target.serving) == 1
    await proxy.shutdown()


class Silent(InMemory):
    """Its second connection never answers."""

    async def open(self, owner: Any, max_frame_bytes: int, close_step: float) -> Any:
        if self.serving:
            return await memory_pair("silent").client.open(owner, max_frame_bytes, close_step)
        return await super().open(owner, max_frame_bytes, close_step)


@on_fake_clock
async def test_a_server_that_never_answers_initialize_delays_its_client_by_a_bounded_time() -> None:
    target = Silent(make_server(VERSIONS))
    proxy = Proxy(target, settings=FAST)
    await proxy.open()
    loop = asyncio.get_running_loop()
    async with stdio_front(proxy) as place:
        client, _ = answering(place, HANDSHAKE)
        began = loop.time()
        async with client:
            assert loop.time() - began <= _eras.MIN_START + 1
            assert [tool.name for tool in await client.tools.list()] == ["everything"]
    await proxy.shutdown()


@on_fake_clock
async def test_a_client_that_leaves_before_its_handshake_is_answered_is_gone_at_once() -> None:
    """Input ends while the second connection is being made: the end does not wait for it."""
    target = Silent(make_server(VERSIONS))
    proxy = Proxy(target, settings=FAST)
    await proxy.open()
    pair = memory_pair("front")
    serving = asyncio.ensure_future(proxy.serve(pair.server))
    client = connect(pair.client, versions=(HANDSHAKE,))
    opening = asyncio.ensure_future(client.open())
    while proxy._eras._learning is None:
        await asyncio.sleep(0.001)
    began = asyncio.get_running_loop().time()
    await client.stop()
    with pytest.raises(McpError):
        await opening
    await serving
    await proxy.shutdown()
    assert asyncio.get_running_loop().time() - began < 1.5
    assert proxy._eras._learning is None


class Restarting(InMemory):
    """A server that is another version after its first two starts."""

    async def open(self, owner: Any, max_frame_bytes: int, close_step: float) -> Any:
        if len(self.serving) >= 2:
            self.server = make_server((STATELESS,))
        return await super().open(owner, max_frame_bytes, close_step)


@on_fake_clock
async def test_a_server_that_comes_back_without_the_handshake_serves_its_clients_in_the_other_era() -> None:
    target = Restarting(make_server(VERSIONS))
    proxy = Proxy(target, settings=FAST)
    await proxy.open()
    async with stdio_front(proxy) as place:
        client, _ = answering(place, HANDSHAKE)
        async with client:
            assert not (await client.tools.call("everything")).is_error
            second = proxy._eras.second
            assert second is not None
            assert not second.is_stateless
            target.serving[1].cancel()
            while True:
                try:
                    result = await client.tools.call("everything", timeout=60)
                    break
                except (JsonRpcError, TransportError):
                    await asyncio.sleep(0.1)
            assert not result.is_error
            assert second.is_stateless
    await proxy.shutdown()


@pytest.mark.parametrize("server", ["handshake only", "stateless only"])
@pytest.mark.parametrize("version", ERAS)
@timed
async def test_over_http_what_belongs_to_a_call_is_known_however_many_clients_there_are(
    version: str, server: str
) -> None:
    """It arrives in the HTTP response to that call: log messages and requests reach their own client alone."""
    names = ("one", "two", "three")
    behind = Server("behind", versions=SERVERS[server])
    arrived, all_there = [], asyncio.Event()

    @behind.tool
    async def work(ctx: Context, name: str) -> str:
        arrived.append(name)
        if set(arrived) == set(names):
            all_there.set()
        await all_there.wait()
        ctx.log("info", f"secret of {name}")
        answer = await ctx.elicit(f"for {name}", FORM, key="who")
        return f"{name}: {(answer.content or {}).get('name')}"

    async with AsyncExitStack() as stack:
        back = await stack.enter_async_context(http_front(behind))
        proxy = Proxy(back, settings={**FAST, "versions": SERVERS[server]})
        await proxy.open()
        front = await stack.enter_async_context(http_front(proxy))
        stack.push_async_callback(proxy.shutdown)
        calls, logs = [], {}
        for name in names:
            client, logs[name] = answering(front, version)
            client.elicitation.handle(
                lambda _, name=name: ElicitResult(action="accept", content={"name": name})
            )
            await stack.enter_async_context(client)
            level = {"io.modelcontextprotocol/logLevel": "info"} if version == STATELESS else None
            calls.append(client.tools.call("work", {"name": name}, meta=level))
        results = await asyncio.gather(*calls)
        assert [result.text for result in results] == [f"{name}: {name}" for name in names]
        for name in names:
            assert {one["data"] for one in logs[name]} == {f"secret of {name}"}
