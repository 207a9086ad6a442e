"""The era of the connection to the server: that of the client, if the server supports it."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
import uvicorn

from jackstay.client import Client, Notification, connect
from jackstay.errors import JsonRpcError, McpError, TransportError
from jackstay.protocol import VERSIONS
from jackstay.proxy import Proxy, ProxyOptions, _eras
from jackstay.server import Context, Server
from jackstay.testing import on_fake_clock
from jackstay.transport import Target, memory_pair
from jackstay.transport.http import http
from jackstay.types import CreateMessageResult, ElicitResult, Root, TextContent
from scripted.between import ERAS, FAST, HANDSHAKE, STATELESS

SERVERS = {"handshake only": (HANDSHAKE,), "stateless only": (STATELESS,), "both": VERSIONS}
TRANSPORTS = ("stdio", "http")
FORM = {"type": "object", "properties": {"name": {"type": "string"}}}


def make_server(versions: tuple[str, ...]) -> Server:
    """A server with a tool that uses all client features, and a resource that changes."""
    server = Server("behind", versions=versions)

    @server.tool
    async def everything(ctx: Context) -> dict[str, Any]:
        ctx.log("info", "at work")
        answer = await ctx.elicit("who?", FORM, key="who")
        sampled = await ctx.sample("a poem", max_tokens=10, key="poem")
        roots = await ctx.list_roots(key="roots")
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

    async def open(self, handler: Any, max_frame_bytes: int, close_step: float) -> Any:
        pair = memory_pair("behind")
        self.serving.append(asyncio.ensure_future(self.server.serve(pair.server)))
        return await pair.client.open(handler, max_frame_bytes, close_step)

    @property
    def running(self) -> int:
        return sum(not task.done() for task in self.serving)


@asynccontextmanager
async def serve_http(proxy: Server) -> AsyncIterator[Target]:
    """Serve a proxy or server on a free port."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    config = uvicorn.Config(proxy.asgi(sessions=True), lifespan="off", log_config=None, timeout_graceful_shutdown=2)
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
async def serve_stdio(proxy: Proxy) -> AsyncIterator[Target]:
    """Serve a proxy on one connection in memory."""
    pair = memory_pair("front")
    task = asyncio.ensure_future(proxy.serve(pair.server))
    yield pair.client
    await task


def full_client(target: Target, version: str) -> tuple[Client, list[Any]]:
    """A client with all features, and the log messages that it receives."""
    client = connect(target, versions=(version,))
    client.elicitation.handle(lambda _: ElicitResult(action="accept", content={"name": "Ada"}))
    client.sampling.handle(lambda _: CreateMessageResult(role="assistant", content=TextContent("rain"), model="m"))
    client.roots.set([Root(uri="file:///root")])
    logs: list[Any] = []

    def on_notification(notification: Notification) -> None:
        if notification.method == "notifications/message":
            logs.append(notification.params)

    client.on_notification(on_notification)
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
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("version", ERAS)
async def test_every_pair_of_eras_supports_client_features(
    version: str, server: str, transport: str, per_client: bool
) -> None:
    """Sampling, elicitation, roots, log messages; the result has no members of the other era."""
    versions = SERVERS[server]
    async with AsyncExitStack() as stack:
        proxy, _ = await stack.enter_async_context(proxied(versions, per_client=per_client))
        serve = serve_http if transport == "http" else serve_stdio
        target = await stack.enter_async_context(serve(proxy))
        client, logs = full_client(target, version)
        await stack.enter_async_context(client)
        level = {"io.modelcontextprotocol/logLevel": "info"} if version == STATELESS else None
        result = await client.tools.call("everything", meta=level)
        assert not result.is_error, result.error_text
        content = result.structured_content
        assert content is not None
        assert content["name"] == {"name": "Ada"}
        assert content["roots"] == ["file:///root"]
        assert [entry["data"] for entry in logs][:1] == ["at work"]
        if version == HANDSHAKE:
            assert "resultType" not in result.raw
            assert "_meta" not in result.raw
        upstreams = proxy._dedicated.values() if per_client and version == HANDSHAKE else proxy._eras.all
        expected = version if version in versions else versions[0]
        assert expected in {upstream.facts.version for upstream in upstreams}


async def test_a_dual_server_gets_one_connection_for_each_era() -> None:
    async with proxied(VERSIONS) as (proxy, target), AsyncExitStack() as stack:
        clients = []
        for version in (STATELESS, HANDSHAKE, HANDSHAKE):
            endpoint = await stack.enter_async_context(serve_stdio(proxy))
            client, _ = full_client(endpoint, version)
            clients.append(await stack.enter_async_context(client))
        assert target.running == 2
        assert [upstream.is_stateless for upstream in proxy._eras.all] == [True, False]
        changes: list[int] = []
        for number, client in enumerate(clients):
            await client.resources.subscribe("a:b", lambda _, number=number: changes.append(number))
            assert (await client.resources.read("a:b")).contents[0].raw["text"] == "text"
        target.server.notify_resource_updated("a:b")
        while len(changes) < 3:
            await asyncio.sleep(0.01)
        await clients[0].tools.list()
        assert sorted(changes) == [0, 1, 2], "each once, although the server sends it on both connections"


async def test_over_stdio_the_connection_of_the_other_era_is_closed() -> None:
    """There is one client: a second process would be unused."""
    async with proxied(VERSIONS) as (proxy, target):
        proxy._eras.has_one_client = True
        async with serve_stdio(proxy) as endpoint:
            client, _ = full_client(endpoint, HANDSHAKE)
            async with client:
                assert not (await client.tools.call("everything")).is_error
                while target.running > 1:
                    await asyncio.sleep(0.01)
                assert [upstream.facts.version for upstream in proxy._eras.all] == [HANDSHAKE]
                assert "Eras" in repr(proxy)


async def test_with_per_client_no_shared_connection_is_kept_for_the_handshake() -> None:
    async with proxied(VERSIONS, per_client=True) as (proxy, target), serve_stdio(proxy) as endpoint:
        client, _ = full_client(endpoint, HANDSHAKE)
        async with client:
            await client.tools.list()
            while target.running > 2:
                await asyncio.sleep(0.01)
            assert proxy._eras.second is None
            assert proxy._eras.is_dual
            assert proxy._eras.find(is_stateless=False) is proxy._eras.second, "created on demand"


async def test_a_server_that_rejects_initialize_is_probed_once_until_a_restart() -> None:
    async with proxied((STATELESS,)) as (proxy, target), AsyncExitStack() as stack:
        for _ in range(2):
            endpoint = await stack.enter_async_context(serve_stdio(proxy))
            client, _ = full_client(endpoint, HANDSHAKE)
            await stack.enter_async_context(client)
        assert len(target.serving) == 2
        assert proxy._eras.is_dual is False
        first = proxy._eras.first
        assert first is not None
        proxy._eras.reconnected(first)
        assert proxy._eras.is_dual is None


async def test_versions_without_a_handshake_make_no_second_connection() -> None:
    target = InMemory(make_server(VERSIONS))
    proxy = Proxy(target, settings={**FAST, "versions": (STATELESS,)})
    await proxy.open()
    async with serve_stdio(proxy) as endpoint:
        client, _ = full_client(endpoint, HANDSHAKE)
        async with client:
            assert not (await client.tools.call("everything")).is_error
    assert len(target.serving) == 1
    await proxy.shutdown()


class Silent(InMemory):
    """A server whose second connection never responds."""

    async def open(self, handler: Any, max_frame_bytes: int, close_step: float) -> Any:
        if self.serving:
            return await memory_pair("silent").client.open(handler, max_frame_bytes, close_step)
        return await super().open(handler, max_frame_bytes, close_step)


@on_fake_clock
async def test_a_server_that_never_responds_to_initialize_delays_its_client_only_briefly() -> None:
    target = Silent(make_server(VERSIONS))
    proxy = Proxy(target, settings=FAST)
    await proxy.open()
    loop = asyncio.get_running_loop()
    async with serve_stdio(proxy) as endpoint:
        client, _ = full_client(endpoint, HANDSHAKE)
        started_at = loop.time()
        async with client:
            assert loop.time() - started_at <= _eras.MIN_PROBE_TIMEOUT + 1
            assert [tool.name for tool in await client.tools.list()] == ["everything"]
    await proxy.shutdown()


@on_fake_clock
async def test_a_client_that_disconnects_during_the_probe_is_removed_at_once() -> None:
    """Input ends while the second connection is being opened."""
    target = Silent(make_server(VERSIONS))
    proxy = Proxy(target, settings=FAST)
    await proxy.open()
    pair = memory_pair("front")
    serving = asyncio.ensure_future(proxy.serve(pair.server))
    client = connect(pair.client, versions=(HANDSHAKE,))
    opening = asyncio.ensure_future(client.open())
    while proxy._eras._probe is None:
        await asyncio.sleep(0.001)
    started_at = asyncio.get_running_loop().time()
    await client.stop()
    with pytest.raises(McpError):
        await opening
    await serving
    await proxy.shutdown()
    assert asyncio.get_running_loop().time() - started_at < 1.5
    assert proxy._eras._probe is None


class Restarting(InMemory):
    """A server that is another version after its first two starts."""

    async def open(self, handler: Any, max_frame_bytes: int, close_step: float) -> Any:
        if len(self.serving) >= 2:
            self.server = make_server((STATELESS,))
        return await super().open(handler, max_frame_bytes, close_step)


@on_fake_clock
async def test_a_server_that_restarts_without_the_handshake_serves_clients_in_the_other_era() -> None:
    target = Restarting(make_server(VERSIONS))
    proxy = Proxy(target, settings=FAST)
    await proxy.open()
    async with serve_stdio(proxy) as endpoint:
        client, _ = full_client(endpoint, HANDSHAKE)
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
async def test_over_http_messages_are_attributed_to_their_call(version: str, server: str) -> None:
    """Messages in the HTTP response to a call reach only the client of that call."""
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
        upstream = await stack.enter_async_context(serve_http(behind))
        proxy = Proxy(upstream, settings={**FAST, "versions": SERVERS[server]})
        await proxy.open()
        target = await stack.enter_async_context(serve_http(proxy))
        stack.push_async_callback(proxy.shutdown)
        calls, logs = [], {}
        for name in names:
            client, logs[name] = full_client(target, version)
            client.elicitation.handle(lambda _, name=name: ElicitResult(action="accept", content={"name": name}))
            await stack.enter_async_context(client)
            level = {"io.modelcontextprotocol/logLevel": "info"} if version == STATELESS else None
            calls.append(client.tools.call("work", {"name": name}, meta=level))
        results = await asyncio.gather(*calls)
        assert [result.text for result in results] == [f"{name}: {name}" for name in names]
        for name in names:
            assert {entry["data"] for entry in logs[name]} == {f"secret of {name}"}
