"""`Server`: registration, removal, serving and shutdown."""

import asyncio
import logging
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from chaos.redirected_stdio import redirected_stdio
from chaos.servers_own.conversation import STATELESS, connected
from jackstay.errors import JsonRpcError, UsageError
from jackstay.server import Context, Kind, Server, _lifetime, find_server
from jackstay.transport import memory_pair
from jackstay.types import PromptReference, ResourceTemplateReference

SCHEMA: Any = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


def test_the_public_names_of_a_server() -> None:
    # What the proxy, the transports and backends use besides is private to the package.
    assert {name for name in dir(Server) if not name.startswith("_")} == {
        *("tool", "resource", "prompt", "completion", "add_tool", "add_resource", "tool_from_schema", "add_extensions"),
        *(
            "remove_tool",
            "remove_resource",
            "remove_prompt",
            "add_middleware",
            "mount",
            "override",
            "enable",
            "disable",
        ),
        *("visible", "search_tools", "from_openapi", "from_fastapi", "name", "on_startup", "on_shutdown"),
        *(
            "run",
            "serve",
            "serve_stdio",
            "asgi",
            "startup",
            "drain",
            "shutdown",
            "subscribe",
            "call_tool",
            "list_tools",
        ),
        "notify_resource_updated",
    }


# --- registration -----------------------------------------------------------------------------------------------------


def test_decorators_work_with_and_without_options_and_return_the_function() -> None:
    server = Server("x")

    @server.tool
    def first() -> str:
        """The first."""
        return "1"

    @server.tool(name="second", title="Second", read_only=True, blocking=False)
    def renamed() -> str:
        return "2"

    @server.prompt
    async def third() -> str:
        return "3"

    @server.prompt(title="Fourth")
    def fourth() -> str:
        return "4"

    @server.resource("x://fifth", mime_type="text/plain")
    def fifth() -> str:
        return "5"

    assert (first(), renamed(), fourth(), fifth()) == ("1", "2", "4", "5")
    assert list(server.catalogue.tools) == ["first", "second"]
    assert server.catalogue.tools["first"].body.description == "The first."
    assert server.catalogue.tools["second"].body.annotations.read_only_hint is True  # type: ignore[union-attr]  # not None
    assert list(server.catalogue.prompts) == ["third", "fourth"]
    assert list(server.catalogue.resources) == ["x://fifth"]
    assert repr(server) == "<Server x <Catalogue 2 tools, 1 resources, 0 resourceTemplates, 2 prompts> 0 connections>"
    assert server.name == "x"


async def test_wrong_arguments_are_rejected() -> None:
    server = Server("x")
    with pytest.raises(UsageError, match=r"bad\(z\)"):

        @server.tool
        def bad(z: complex) -> None: ...

    with pytest.raises(UsageError, match="unexpected option 'colour'"):
        Server("x", colour="red")  # type: ignore[call-arg]  # wrong on purpose
    with pytest.raises(UsageError, match="requires a URI"):
        server.resource(lambda: "")  # type: ignore[arg-type]  # wrong on purpose
    for decorator in (server.tool, server.prompt):
        with pytest.raises(UsageError, match=rf"@server\.{decorator.__name__}\(name='greet'\)"):
            decorator("greet")  # type: ignore[call-overload]  # wrong on purpose
    for name, method in (
        ("middleware", server.add_middleware),
        ("on_startup", server.on_startup),
        ("on_shutdown", server.on_shutdown),
        ("subscribe", server.subscribe),
    ):
        with pytest.raises(UsageError, match=f"{name} must be callable, not 5"):
            method(5)  # type: ignore[operator]  # wrong on purpose
    with pytest.raises(UsageError, match=r"expected a target such as memory_pair\(\)\.server"):
        await server.serve(memory_pair())  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(UsageError, match="on_invalid_arguments must be callable, not 'no'"):
        Server("x", on_invalid_arguments="no")  # type: ignore[arg-type]  # wrong on purpose

    async def shape(tool: str, invalid: object) -> None: ...

    with pytest.raises(UsageError, match="on_invalid_arguments must be a plain function"):
        Server("x", on_invalid_arguments=shape)


def test_a_completion_is_for_a_prompt_or_a_template(subtests: pytest.Subtests) -> None:
    cases: list[tuple[Any, str]] = [
        ("greet", "ref/prompt"),
        ("x://{a}", "ref/resource"),
        (PromptReference(name="greet"), "ref/prompt"),
        (ResourceTemplateReference(uri="x://{a}"), "ref/resource"),
    ]
    for of, kind in cases:
        with subtests.test(of=of, kind=kind):
            server = Server("x")
            server.completion(of, "a", blocking=False)(lambda value: [])
            ((found, _, argument),) = server.catalogue.completions
            assert (found, argument) == (kind, "a")


async def test_add_tool() -> None:
    server = Server("x")

    async def handler(arguments: dict[str, Any], ctx: Context) -> dict[str, Any]:
        return {"a": arguments["a"], "method": ctx.method}

    out: Any = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    server.add_tool("checked", input_schema=SCHEMA, output_schema=out, handler=handler, read_only=True)
    server.add_tool("bare", input_schema=SCHEMA, handler=lambda arguments: str(arguments), validate=False)
    with pytest.raises(UsageError, match="duplicate"):
        server.add_tool("bare", input_schema=SCHEMA, handler=handler)
    async with connected(server) as peer:
        result = await peer.call("checked", a=1)
        assert result["structuredContent"] == {"a": 1, "method": "tools/call"}
        assert (await peer.call("checked", a="x"))["isError"] is True
        assert await peer.text("bare", b=2) == "{'b': 2}"
        server.add_tool("bare", input_schema=SCHEMA, handler=lambda arguments: "new", replace=True)
        assert await peer.text("bare", a=2) == "new"


def test_many_tools_are_registered_with_one_change() -> None:
    """A bridge with a thousand tools sends one notification."""
    server = Server("x")
    entries = [
        server.tool_from_schema(f"t{number}", input_schema=SCHEMA, handler=lambda arguments: "") for number in range(3)
    ]
    assert list(server.catalogue.tools) == []
    server.catalogue.add_tools(*entries)
    assert list(server.catalogue.tools) == ["t0", "t1", "t2"]
    assert server.catalogue.version(Kind.TOOLS) == 1
    with pytest.raises(UsageError, match="object"):
        server.tool_from_schema("bad", input_schema={"type": "string"}, handler=lambda arguments: "")


async def test_listed_name_resolves_aliases() -> None:
    """`catalogue.listed_name` may also raise the error for the caller."""
    server = Server("x")
    server.add_tool("a.b", input_schema=SCHEMA, handler=lambda arguments: "found", validate=False)

    def listed_name(name: str) -> str | None:
        if name == "secret":
            raise JsonRpcError(-32602, "Module not found: secret")
        return {"a-b": "a.b", "gone": "gone.tool"}.get(name)

    server.catalogue.listed_name = listed_name
    async with connected(server) as peer:
        assert await peer.text("a.b") == "found"
        assert await peer.text("a-b") == "found"
        for name, message in (
            ("gone", "unknown tool: gone"),
            ("c", "unknown tool: c"),
            ("secret", "Module not found"),
        ):
            error = await peer.error("tools/call", {"name": name})
            assert error["code"] == -32602
            assert message in error["message"]


# --- serving ----------------------------------------------------------------------------------------------------------


async def test_connections_are_numbered_and_removed_in_the_end() -> None:
    server = Server("x")
    async with connected(server), connected(server):
        assert list(server._connections) == [1, 2]
    assert server._connections == {}


async def test_pool_threads_end_with_the_last_connection() -> None:
    server = Server("x")
    server.tool(name="t")(lambda: threading.current_thread().name)
    for _ in range(2):
        async with connected(server) as first, connected(server) as second:
            assert await first.text("t") == await second.text("t") == "jackstay-pool"
            threads = list(server._pool._threads)
        for thread in threads:
            thread.join(120)
        assert threads
        assert not server._pool._threads


def test_configurations_are_cached() -> None:
    server = Server("x")
    before = server._current_config()
    assert server._current_config() is before
    server.tool(name="t")(lambda: "")
    assert server._current_config()[0] is not before[0]


def test_everything_registered_is_declared() -> None:
    server = Server("x")
    server.resource("x://{a}")(lambda a: a)
    server.prompt(name="p")(lambda: "")
    server.completion("p", "a")(lambda value: [])
    server.tool(name="t")(lambda: "")
    assert server._current_config()[1] == {"tools", "resources", "prompts", "completions"}
    assert server._key_ring is server._key_ring


async def test_a_connection_that_cannot_be_opened_is_removed() -> None:
    class Refusing:
        name, is_http, init_timeout = "x", False, 1.0

        async def open(self, *_: object) -> Any:
            raise UsageError("no")

    server = Server("x")
    with pytest.raises(UsageError, match="no"):
        await server.serve(Refusing())
    assert server._connections == {}


async def test_shutdown_hooks_run_in_order_and_each_has_a_timeout(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a busy machine starting a thread may take longer than the default minimum.
    monkeypatch.setattr(_lifetime, "MIN_HOOK_TIMEOUT", 0.5)

    server, ran = Server("x"), []

    @server.on_shutdown
    def plain() -> None:
        ran.append("plain")

    @server.on_shutdown
    async def waiting() -> None:
        ran.append("async")
        await asyncio.Event().wait()

    @server.on_shutdown
    def failing() -> None:
        raise ValueError("x")

    class Hook:
        async def __call__(self) -> None:
            ran.append("object")

    server.on_shutdown(Hook())

    @server.on_shutdown
    async def last() -> None:
        ran.append("last")

    with caplog.at_level(logging.ERROR):
        assert await server.startup()
        await server.shutdown(timeout=0.0)
        await server.shutdown(timeout=0.0)
    assert ran == ["plain", "async", "object", "last"]
    assert len(caplog.records) == 2


async def test_serve_stdio_ends_with_its_input_and_reports_running_threads(
    caplog: pytest.LogCaptureFixture, tmp_path: Any
) -> None:
    gate = threading.Event()
    server = Server("x", drain_timeout=0.05)

    @server.tool
    def hang() -> None:
        gate.wait(300)

    requests = tmp_path / "requests"
    call = '{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"hang","_meta":{%s}}}\n'
    meta = '"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}'
    requests.write_text(call % (1, meta))
    before = set(threading.enumerate())

    with (
        requests.open("rb") as stdin,
        (tmp_path / "responses").open("wb") as stdout,
        redirected_stdio(stdin.fileno(), stdout.fileno()),
        caplog.at_level(logging.WARNING, "jackstay.server"),
    ):
        assert await server.serve_stdio() == 1  # while the thread still waits
    assert "1 blocking functions still run" in caplog.text
    gate.set()
    for thread in set(threading.enumerate()) - before:
        thread.join(120)
        assert not thread.is_alive()


# --- other ------------------------------------------------------------------------------------------------------------


def test_find_server() -> None:
    server = Server("x")
    module = SimpleNamespace(__name__="m", app=server, alias=server, other=3)
    assert find_server(module) is server
    assert find_server(module, "app") is server
    with pytest.raises(UsageError, match=r"no Server named 'other' in 'm'; it has app, alias$"):
        find_server(module, "other")
    with pytest.raises(UsageError, match=r"several Servers found in .*: app, second; choose one with FILE:NAME"):
        find_server(SimpleNamespace(app=server, second=Server("y")))
    with pytest.raises(UsageError, match=r"no Server named 'app' in 'empty'$"):
        find_server(SimpleNamespace(__name__="empty"), "app")
    with pytest.raises(UsageError, match="no Server found"):
        find_server(SimpleNamespace())


async def test_a_stateless_server_rejects_the_handshake() -> None:
    server = Server("x", versions=(STATELESS,))
    async with connected(server, STATELESS) as peer:
        peer.version = "2025-11-25"
        error = await peer.error("initialize", {"protocolVersion": "2025-11-25"})
        assert error["code"] == -32022


async def test_entries_can_be_removed_and_clients_are_notified() -> None:
    async def passing(ctx: Context, call_next: Any) -> bytes:
        return await call_next()  # type: ignore[no-any-return]  # untyped on purpose

    server, events = Server("x"), []
    server.tool(name="t", blocking=False)(lambda: "t")
    server.prompt(name="p")(lambda: "p")
    server.resource("x://r")(lambda: "r")
    server.add_middleware(passing)
    unsubscribe = server.subscribe(lambda name, fields: events.append(name))
    async with connected(server) as peer:
        await peer.result("resources/subscribe", {"uri": "x://r"})
        server.remove_tool("t")
        server.remove_prompt("p")
        server.remove_resource("x://r")
        server.notify_resource_updated("x://r")
        for name in ("tools/list_changed", "prompts/list_changed", "resources/updated"):
            await peer.notification(f"notifications/{name}")
        assert (await peer.result("tools/list"))["tools"] == []
        assert "jackstay.server.request.stop" in events
        unsubscribe()
        server.drain()
    with pytest.raises(UsageError, match="no such entry in tools: 't'"):
        server.remove_tool("t")


async def test_cancelling_serve_closes_the_connection() -> None:
    server = Server("x")
    serving = asyncio.create_task(server.serve(memory_pair().server))
    await asyncio.sleep(0)
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    assert server._connections == {}


async def test_run_is_rejected_inside_an_event_loop() -> None:
    with pytest.raises(UsageError, match="serve_stdio"):
        Server("x").run()


async def test_serve_stdio_without_running_threads(tmp_path: Any) -> None:
    (tmp_path / "in").write_bytes(b"")
    with (
        (tmp_path / "in").open("rb") as stdin,
        (tmp_path / "out").open("wb") as stdout,
        redirected_stdio(stdin.fileno(), stdout.fileno()),
    ):
        assert await Server("x").serve_stdio() == 0


PUBLIC = """
    add_extensions add_middleware add_resource add_tool asgi call_tool catalogue completion disable drain enable
    from_fastapi from_openapi list_tools mount name notify_resource_updated on_shutdown on_startup options override
    prompt remove_prompt remove_resource remove_tool resource run search_tools serve serve_stdio shutdown startup
    subscribe tool tool_from_schema visible
"""


def test_the_public_names_are_those_for_users() -> None:
    assert {name for name in dir(Server("x")) if not name.startswith("_")} == set(PUBLIC.split())
