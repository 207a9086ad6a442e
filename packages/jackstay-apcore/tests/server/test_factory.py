"""Servers from catalogues."""

import asyncio
import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from apcore import Executor, ModuleAnnotations, Registry

from apcore_mcp.catalogue import Catalogue
from apcore_mcp.server import ExecutionRouter, MCPServerFactory
from apcore_mcp.server.factory import PAGE_SIZE, CatalogueSync
from jackstay.client import connect
from jackstay.errors import JsonRpcError
from jackstay.server import Server
from jackstay.transport import memory_pair
from jackstay.types import ElicitResult

factory = MCPServerFactory()


def served(registry: Registry, **filters: Any) -> tuple[Server, Catalogue, CatalogueSync]:
    server = factory.create_server()
    catalogue = factory.build_catalogue(registry, **filters)
    router = ExecutionRouter(Executor(registry), catalogue=catalogue)
    return server, catalogue, factory.register_catalogue(server, catalogue, router)


def test_create_server() -> None:
    server = factory.create_server()
    assert (server.name, server.options.version) == ("apcore-mcp", "0.1.0")
    for bad in ({"name": ""}, {"name": "x" * 256}, {"version": ""}):
        with pytest.raises(ValueError, match=r"name|version"):
            factory.create_server(**bad)
    assert factory.create_server("x" * 255).name == "x" * 255


def test_build_tool(registry: Registry) -> None:
    tool = factory.build_tool(registry.get_definition("math.add"))
    assert tool.name == "math.add"
    assert tool.description == "Add two numbers"
    assert tool.input_schema["required"] == ["a"]
    assert tool.output_schema is not None
    assert tool.annotations is not None
    assert tool.annotations.read_only_hint is True


def test_undeclared_hints_are_omitted(descriptor: Callable[..., Any]) -> None:
    """An explicit `destructiveHint: false` would be a declaration that the module did not make."""
    tool = factory.build_tool(descriptor())
    assert tool.annotations is None
    assert tool.output_schema is None
    assert tool.description == ""
    declared = factory.build_tool(descriptor(annotations=ModuleAnnotations()))
    assert declared.annotations is not None
    with pytest.raises(ValueError, match="module_id"):
        factory.build_tool(descriptor(module_id=""))


def test_build_tools(registry: Registry, caplog: pytest.LogCaptureFixture) -> None:
    assert [tool.name for tool in factory.build_tools(registry)] == [
        "math.add", "math.later", "text.count", "user.remove",
    ]  # fmt: skip
    assert [tool.name for tool in factory.build_tools(registry, prefix="text.")] == ["text.count"]
    with caplog.at_level(logging.WARNING):
        assert factory.build_tools(Registry()) == []
    assert "No modules registered" in caplog.text


async def serve(server: Server, function: Callable[[Any], Any], **options: Any) -> Any:
    """Run `function(client)` with a client of this server."""
    client_end, server_end = memory_pair()
    serving = asyncio.ensure_future(server.serve(server_end))
    try:
        async with connect(client_end, **options) as client:
            return await function(client)
    finally:
        await serving


async def test_register_handlers(registry: Registry, executor: Executor) -> None:
    server = factory.create_server()
    factory.register_handlers(server, factory.build_tools(registry, prefix="math."), ExecutionRouter(executor))

    async def use(client: Any) -> Any:
        tools = await client.tools.list()
        result = await client.tools.call("math.add", {"a": 1}, raise_on_error=False)
        return [tool.name for tool in tools], result.structured_content

    assert await serve(server, use) == (["math.add", "math.later"], {"total": 3})


async def test_modules_are_callable_by_every_name(registry: Registry, kinds: SimpleNamespace) -> None:
    """A module has an alias, an id and an OpenAI name. Filters also apply to calls."""
    alias = {"display": {"mcp": {"alias": "free"}}}
    registry.register("disk.free", kinds.Plain(lambda i, c: {"ok": 1}, metadata=alias))
    server, _, _ = served(registry, prefix="disk.")

    async def use(client: Any) -> Any:
        assert [tool.name for tool in await client.tools.list()] == ["free"]
        for name in ("free", "disk.free", "disk-free"):
            assert (await client.tools.call(name, {}, raise_on_error=False)).text == '{"ok": 1}'
        for name in ("math.add", "nothing"):
            with pytest.raises(JsonRpcError, match=f"Module not found: {name}") as caught:
                await client.tools.call(name, {"a": 1}, raise_on_error=False)
            assert caught.value.code == -32602

    await serve(server, use)


async def test_documentation_is_a_resource(registry: Registry, kinds: SimpleNamespace) -> None:
    server, catalogue, _ = served(registry)

    async def use(client: Any) -> None:
        (resource,) = await client.resources.list()
        assert (resource.uri, resource.name, resource.mime_type) == (
            "docs://math.add",
            "math.add documentation",
            "text/plain",
        )
        (contents,) = (await client.resources.read("docs://math.add")).contents
        assert contents.text == "# Add\n\nAdds `a` and `b`."
        registry.unregister("math.add")
        registry.register("math.add", kinds.Plain(lambda i, c: {}, documentation="other"))
        catalogue.update("math.add")
        (contents,) = (await client.resources.read("docs://math.add")).contents
        assert contents.text == "other"
        registry.unregister("math.add")
        catalogue.update("math.add")
        assert list(await client.resources.list()) == []

    await serve(server, use)


def test_changes_are_followed_until_stop(registry: Registry, kinds: SimpleNamespace) -> None:
    """A changed alias removes the old name."""
    server, catalogue, sync = served(registry)
    module = kinds.Plain(lambda i, c: {})
    registry.register("disk.free", module, metadata={"display": {"mcp": {"alias": "free"}}})
    catalogue.update("disk.free")
    assert "free" in server.catalogue.tools
    registry.unregister("disk.free")
    registry.register("disk.free", module)
    catalogue.update("disk.free")
    assert "free" not in server.catalogue.tools
    assert "disk.free" in server.catalogue.tools
    sync.stop()
    registry.unregister("disk.free")
    catalogue.update("disk.free")
    assert "disk.free" in server.catalogue.tools


def test_unlistable_module_is_skipped(registry: Registry, kinds: SimpleNamespace) -> None:
    deep: dict[str, Any] = {"type": "object"}
    for _ in range(200):
        deep = {"type": "object", "properties": {"x": deep}}
    registry.register("disk.deep", kinds.Plain(lambda i, c: {}, input_schema=deep))
    server, catalogue, _ = served(registry)
    assert "too deeply" in catalogue.skipped()["disk.deep"]
    assert "disk.deep" not in server.catalogue.tools
    assert len(server.catalogue.tools) == 4


async def test_pagination_of_many_tools(kinds: SimpleNamespace) -> None:
    registry = Registry()
    module = kinds.Plain(lambda i, c: {})
    for number in range(PAGE_SIZE + 1):
        registry.register(f"m.x{number}", module)
    server, _, _ = served(registry)

    async def use(client: Any) -> int:
        return len({tool.name for tool in await client.tools.list()})

    assert await serve(server, use) == PAGE_SIZE + 1
    import json

    from jackstay.server import Kind

    first = json.loads(server.catalogue.page(Kind.TOOLS, "2025-06-18"))
    assert len(first["tools"]) == PAGE_SIZE
    assert "nextCursor" in first


def test_only_modules_are_listed(registry: Registry) -> None:
    server, catalogue, _ = served(registry)
    assert set(server.catalogue.tools) == {entry.name for entry in catalogue.tools()}


@pytest.mark.parametrize("version", ["2024-11-05", "2025-06-18", "2025-11-25", "2026-07-28"])
async def test_every_revision_is_supported(registry: Registry, version: str) -> None:
    """Revisions before 2025-06-18 have no structured content."""
    server, _, _ = served(registry)

    async def use(client: Any) -> Any:
        return await client.tools.call("math.add", {"a": 1}, raise_on_error=False)

    result = await serve(server, use, versions=(version,))
    assert result.text == '{"total": 3}'
    assert (result.structured_content is not None) is (version >= "2025-06-18")


USER = {"user": "ann", "password": "hunter2"}


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("answer", ["accept", "decline"])
async def test_approval_on_every_revision(registry: Registry, version: str, answer: str) -> None:
    """On a stateless revision, the elicitation is a result, and the client repeats the request with the answer."""
    server, _, _ = served(registry)
    elicited: list[str] = []

    async def use(client: Any) -> Any:
        return await client.tools.call("user.remove", USER, raise_on_error=False)

    async def main() -> Any:
        client_end, server_end = memory_pair()
        serving = asyncio.ensure_future(server.serve(server_end))
        client = connect(client_end, versions=(version,))

        @client.elicitation.handle
        def answer_elicitation(params: Any) -> Any:
            elicited.append(params.message)
            return ElicitResult(action=answer, content={} if answer == "accept" else None)

        try:
            async with client:
                return await use(client)
        finally:
            await serving

    result = await main()
    assert (result.is_error is True) is (answer == "decline")
    (message,) = elicited
    assert "hunter2" not in message
    assert registry.get("user.remove").ran == (answer == "accept")


async def test_approval_without_elicitation_on_a_stateless_revision(registry: Registry) -> None:
    server, _, _ = served(registry)

    async def use(client: Any) -> Any:
        return await client.tools.call("user.remove", USER, raise_on_error=False)

    result = await serve(server, use, versions=("2026-07-28",))
    assert result.is_error
    assert "does not support elicitation" in result.error_text
    assert registry.get("user.remove").ran == 0


async def test_oldest_revision_gets_progress_without_message(registry: Registry) -> None:
    """MCP 2024-11-05 has no `message` in progress."""
    server, _, _ = served(registry)
    progress_updates: dict[str, list[Any]] = {}

    for version in ("2024-11-05", "2025-06-18"):

        async def use(client: Any, version: str = version) -> Any:
            updates = progress_updates.setdefault(version, [])
            return await client.tools.call(
                "text.count", {}, on_progress=lambda *event: updates.append(event), raise_on_error=False
            )

        assert (await serve(server, use, versions=(version,))).text.startswith("{")
    # The client reports the newest of several updates.
    assert all("progress=3" in str(updates[-1]) for updates in progress_updates.values())
    assert '"text"' not in str(progress_updates["2024-11-05"])
    assert '"text"' in str(progress_updates["2025-06-18"])


async def test_modules_that_run_in_the_background_are_tasks(kinds: SimpleNamespace) -> None:
    registry = Registry()
    registry.register("slow.report", kinds.Plain(lambda *_: {"pages": 3}, metadata={"async": True}))
    registry.register("quick.report", kinds.Plain(lambda *_: {"pages": 1}))
    server, _, sync = served(registry)
    async with connect(server) as client:
        task = await client.tools.start("slow.report", {})
        assert task.id
        assert (await task.result()).text == '{"pages": 3}'
        assert (await client.tools.call("slow.report", {})).text == '{"pages": 3}'
        assert not (await client.tools.start("quick.report", {})).id
    sync.stop()


async def test_a_module_that_is_added_to_a_running_server_without_tasks_is_none(kinds: SimpleNamespace) -> None:
    registry = Registry()
    registry.register("quick.report", kinds.Plain(lambda *_: {"pages": 1}))
    server, catalogue, sync = served(registry)
    async with connect(server) as client:
        registry.register("slow.report", kinds.Plain(lambda *_: {"pages": 3}, metadata={"async": True}))
        catalogue.update("slow.report")
        assert (await client.tools.call("slow.report", {})).text == '{"pages": 3}'
        assert not catalogue.skipped()
    sync.stop()


def test_build_tool_keeps_what_cannot_be_inlined(descriptor: Callable[..., Any]) -> None:
    """As in a served catalogue: inputs stay as they are; an output that no client could resolve is not listed."""
    anchored = {"type": "object", "properties": {"n": {"$ref": "#n"}}, "$defs": {"n": {"$anchor": "other"}}}
    tool = factory.build_tool(descriptor(input_schema=anchored, output_schema=anchored))
    assert (tool.input_schema, tool.output_schema) == (anchored, None)
    assert factory.build_tool(descriptor(output_schema={"type": "array"})).output_schema is None


def test_output_schema_of_a_module_in_the_background_is_not_listed(registry: Registry, kinds: SimpleNamespace) -> None:
    """Such a tool returns the id of a task, in programs with an `AsyncTaskBridge`."""
    registry.register("x.later", kinds.Add(), metadata={"async": True})
    listed = {tool.name: tool.output_schema for tool in factory.build_tools(registry)}
    assert (listed["x.later"], listed["math.add"] is None) == (None, False)
    assert factory.build_tool(registry.get_definition("x.later")).output_schema is None


async def test_tools_of_the_official_sdk_are_accepted(registry: Registry) -> None:
    hints = SimpleNamespace(model_dump=lambda **_: {"readOnlyHint": True})
    more = {"title": "T", "outputSchema": None, "meta": None, "annotations": hints}
    tool = SimpleNamespace(name="x", description="d", inputSchema={"type": "object"}, **more)
    server = factory.create_server()
    factory.register_handlers(server, [cast(Any, tool)], ExecutionRouter(Executor(registry)))
    async with connect(server) as client:
        (listed,) = await client.tools.list()
    assert listed.title == "T"
    assert listed.annotations is not None
    assert listed.annotations.read_only_hint is True


def test_build_tool_has_the_meta_of_a_served_tool(descriptor: Callable[..., Any]) -> None:
    annotations = ModuleAnnotations(requires_approval=True, streaming=True)
    assert factory.build_tool(descriptor(annotations=annotations)).meta == {"requiresApproval": True, "streaming": True}
    assert factory.build_tool(descriptor(annotations=ModuleAnnotations())).meta is None


def test_alias_with_a_reserved_name_is_not_used(descriptor: Callable[..., Any]) -> None:
    display = {"display": {"mcp": {"alias": "__apcore_task_submit"}}}
    assert factory.build_tool(descriptor(module_id="x.y", metadata=display)).name == "x.y"
    with pytest.raises(ValueError, match="reserved prefix"):
        factory.build_tool(descriptor(module_id="__apcore_task_submit"))
