"""Programs that connect the factory, the router and the transport themselves."""

from types import SimpleNamespace
from typing import Any

import pytest
from apcore import Executor, Registry

from apcore_mcp.compat.tasks import AsyncTaskBridge
from apcore_mcp.server import ExecutionRouter, MCPServerFactory, TransportManager
from jackstay.client import connect
from jackstay.server import Server

SYSTEM = "apcore://system.health.summary"

factory = MCPServerFactory()


async def test_resources(registry: Registry, kinds: SimpleNamespace) -> None:
    documented = kinds.Add()
    documented.documentation = "How to add."
    registry.register("math.documented", documented)
    registry.register_internal("system.health.summary", kinds.Plain(lambda *_: {"status": "healthy"}))
    router = ExecutionRouter(Executor(registry))
    for given, uris in ((None, {"docs://math.documented"}), (router, {"docs://math.documented", SYSTEM})):
        server = factory.create_server()
        factory.register_resource_handlers(server, registry, given)
        async with connect(server) as client:
            listed = {resource.uri for resource in await client.resources.list()}
            assert uris <= listed
            assert (SYSTEM in listed) is (given is not None)
            read = await client.resources.read("docs://math.documented")
            assert "How to add." in str(read.contents)


async def test_init_options() -> None:
    assert await factory.prepare() is False
    server = factory.create_server("x", "1.2.3")
    assert factory.build_init_options(server, "x", "1.2.3").server_version == "1.2.3"
    with pytest.raises(ValueError, match=r"version='2' to create_server\(\)"):
        factory.build_init_options(server, "x", "2")
    surfaces = {"control": True, "health": True, "usage": False}
    capabilities = factory.build_init_options(server, "x", "1.2.3", management_surfaces=surfaces).capabilities
    assert capabilities.tools.listChanged is True
    assert capabilities.prompts is None
    other = factory.create_server("x", "1")
    assert capabilities == factory.build_init_options(other, "x", "1", management_surfaces=surfaces).capabilities
    async with connect(server) as client:
        declared = client.server_capabilities
    assert declared.extensions == capabilities.model_dump()["extensions"]
    assert declared.extensions["com.aiperceivable/management"]["surfaces"] == ["health", "control"]


async def test_app_with_middleware_and_tasks(registry: Registry) -> None:
    seen: list[str] = []

    class Middleware:
        def __init__(self, app: Any, *, name: str) -> None:
            self.app, self.name = app, name

        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            seen.append(self.name)
            await self.app(scope, receive, send)

    class Tasks(AsyncTaskBridge):
        async def shutdown(self) -> None:
            seen.append("tasks ended")
            await super().shutdown()

    manager = TransportManager()
    manager.set_module_count(3)
    manager.set_async_task_bridge(Tasks.with_limits(Executor(registry)))
    server: Server = factory.create_server("x", "1")
    init_options = factory.build_init_options(server, "x", "1")
    wrapped = [(Middleware, {"name": "outer"}), (Middleware, {"name": "inner"})]
    async with manager.build_streamable_http_app(server, init_options, middleware=wrapped) as app:
        messages: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            messages.append(message)

        scope = {"type": "http", "method": "GET", "path": "/none", "raw_path": b"/none", "query_string": b""}
        await app({**scope, "headers": [(b"host", b"localhost")], "client": ("127.0.0.1", 1)}, receive, send)
        assert messages[0]["status"] == 404
    assert seen == ["outer", "inner", "tasks ended"]


async def test_refusals() -> None:
    manager = TransportManager()
    with pytest.raises(TypeError, match="AsyncTaskBridge"):
        manager.set_async_task_bridge(None)
    with pytest.raises(TypeError, match="beside your routes"):
        async with manager.build_streamable_http_app(factory.create_server(), extra_routes=[object()]):
            raise AssertionError("not reached")
    for run in (manager.run_streamable_http, manager.run_sse):
        with pytest.raises(TypeError, match="build_streamable_http_app"):
            await run(factory.create_server(), extra_routes=[object()])
    with pytest.raises(TypeError, match="async_tasks=True"):
        ExecutionRouter(Executor(Registry()), async_bridge=object())
    for keyword, instead in (("async_bridge", "async_tasks"), ("approval_bridge", "approval_store")):
        bridges: Any = {keyword: object()}
        with pytest.raises(TypeError, match=instead):
            factory.register_handlers(factory.create_server(), [], ExecutionRouter(Executor(Registry())), **bridges)
    for given in ((SimpleNamespace(export_prometheus=str),), {"metrics_collector": object()}):
        with pytest.raises(TypeError, match="serve"):
            TransportManager(*given) if isinstance(given, tuple) else TransportManager(**given)
