"""Programs that connect the factory, the router and the transport themselves."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
from apcore import Executor, Registry
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from apcore_mcp.compat.approvals import ApprovalBridge, InMemoryApprovalStore, StorageBackedApprovalHandler
from apcore_mcp.compat.tasks import AsyncTaskBridge
from apcore_mcp.server import ExecutionRouter, MCPServerFactory, TransportManager
from jackstay.client import connect
from jackstay.server import Server
from peers.asgi import request_app

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


async def test_app_with_routes() -> None:
    async def hello(_: Any) -> Any:
        return PlainTextResponse("hello")

    manager, server = TransportManager(), factory.create_server("x", "1")
    async with manager.build_streamable_http_app(server, extra_routes=[Route("/hello", hello)]) as app:
        response = await request_app(app, "GET", "/hello")
        assert (response.status, response.body) == (200, b"hello")
        assert (await request_app(app, "GET", "/other")).status == 404
        client = {"name": "c", "version": "1"}
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
        message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
        response = await request_app(app, body=message, accept="application/json, text/event-stream")
        assert (response.status, b'"name":"x"' in response.body) == (200, True)


@pytest.mark.parametrize("strategy", ["standard", "minimal"])
async def test_bridges_of_tasks_and_approvals(registry: Registry, kinds: SimpleNamespace, strategy: str) -> None:
    """Their tools, and modules that run in the background; never without a required approval."""
    remove = kinds.Remove()
    registry.register("x.background", kinds.Add(), metadata={"async": True})
    registry.register("x.remove", remove, metadata={"async": True})
    executor = Executor(registry, strategy=strategy)
    tasks = AsyncTaskBridge.with_limits(executor)
    approvals = ApprovalBridge(StorageBackedApprovalHandler(InMemoryApprovalStore()))
    server = factory.create_server()
    given: Any = {"async_bridge": tasks, "approval_bridge": approvals, "descriptor_lookup": registry.get_definition}
    factory.register_handlers(server, factory.build_tools(registry), ExecutionRouter(executor), **given)
    async with connect(server) as client:

        async def call(name: str, arguments: Any) -> Any:
            result = await client.tools.call(name, arguments, raise_on_error=False)
            text = result.error_text or result.text
            return json.loads(text) if text.startswith("{") else text

        async def result_of(task: Any) -> Any:
            status = task
            while status["status"] in ("pending", "running"):
                status = await call("__apcore_task_status", {"task_id": task["task_id"]})
            return status

        assert (await result_of(await call("x.background", {"a": 1, "b": 2})))["result"] == {"total": 3}
        assert await call("math.add", {"a": 1}) == {"total": 3}
        assert (await call("__apcore_approval_check", {"approval_id": "none"}))["status"] == "rejected"
        arguments = {"user": "a", "password": "b"}
        assert "pproval" in await call("x.remove", arguments)
        submitted = await call("__apcore_task_submit", {"module_id": "x.remove", "arguments": arguments})
        if strategy == "minimal":
            assert submitted == "Approval required: a task cannot run x.remove."
        else:
            assert (await result_of(submitted))["status"] == "failed"
    assert remove.ran == 0
    direct = ExecutionRouter(executor, async_bridge=tasks, descriptor_lookup=registry.get_definition)
    ((part,), is_error, _) = await direct.handle_call("x.background", {"a": 1, "b": 2})
    assert (json.loads(part["text"])["status"], is_error) == ("pending", False)
    await tasks.shutdown()


async def test_refusals() -> None:
    manager = TransportManager()
    with pytest.raises(TypeError, match="AsyncTaskBridge"):
        manager.set_async_task_bridge(None)
    for run in (manager.run_streamable_http, manager.run_sse):
        with pytest.raises(TypeError, match="build_streamable_http_app"):
            await run(factory.create_server(), extra_routes=[object()])
    for given in ((SimpleNamespace(export_prometheus=str),), {"metrics_collector": object()}):
        with pytest.raises(TypeError, match="serve"):
            TransportManager(*given) if isinstance(given, tuple) else TransportManager(**given)
