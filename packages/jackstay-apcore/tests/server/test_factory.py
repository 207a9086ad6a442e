"""F-005, F-013, F-015, F-018, F-020: from a catalogue to a server."""

import asyncio
import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from apcore import Executor, ModuleAnnotations, Registry

from apcore_mcp.catalogue import Catalogue
from apcore_mcp.server import ExecutionRouter, MCPServerFactory
from apcore_mcp.server.factory import Offer
from jackstay.client import connect
from jackstay.errors import JsonRpcError
from jackstay.server import Server
from jackstay.transport import memory_pair
from jackstay.types import ElicitResult

factory = MCPServerFactory()


def offered(registry: Registry, **filters: Any) -> tuple[Server, Catalogue, Offer]:
    server = factory.create_server()
    catalogue = factory.build_catalogue(registry, **filters)
    router = ExecutionRouter(Executor(registry), catalogue=catalogue)
    return server, catalogue, factory.register_catalogue(server, catalogue, router)


def test_a_server_has_the_seeds_defaults_and_checks_its_name() -> None:
    """Seed 6.5."""
    server = factory.create_server()
    assert (server.name, server.options.version) == ("apcore-mcp", "0.1.0")
    for bad in ({"name": ""}, {"name": "x" * 256}, {"version": ""}):
        with pytest.raises(ValueError, match=r"name|version"):
            factory.create_server(**bad)
    assert factory.create_server("x" * 255).name == "x" * 255


def test_a_module_is_a_tool(registry: Registry) -> None:
    """Seed 6.5: every field."""
    tool = factory.build_tool(registry.get_definition("math.add"))
    assert tool.name == "math.add"
    assert tool.description == "Add two numbers"
    assert tool.input_schema["required"] == ["a"]
    assert tool.output_schema is not None
    assert tool.annotations is not None
    assert tool.annotations.read_only_hint is True


def test_hints_that_nobody_declared_are_left_out(descriptor: Callable[..., Any]) -> None:
    """Settled: an explicit `destructiveHint: false` would assert what nobody declared."""
    tool = factory.build_tool(descriptor())
    assert tool.annotations is None
    assert tool.output_schema is None
    assert tool.description == ""
    declared = factory.build_tool(descriptor(annotations=ModuleAnnotations()))
    assert declared.annotations is not None
    with pytest.raises(ValueError, match="module_id"):
        factory.build_tool(descriptor(module_id=""))


def test_all_modules_or_those_that_pass(registry: Registry, caplog: pytest.LogCaptureFixture) -> None:
    """Seed 6.5, F-018."""
    assert [tool.name for tool in factory.build_tools(registry)] == [
        "math.add", "math.later", "text.count", "user.remove",
    ]  # fmt: skip
    assert [tool.name for tool in factory.build_tools(registry, prefix="text.")] == ["text.count"]
    with caplog.at_level(logging.WARNING):
        assert factory.build_tools(Registry()) == []
    assert "No modules registered" in caplog.text


def serve(server: Server, does: Callable[[Any], Any], **options: Any) -> Any:
    """Run `does(client)` with a client of this server."""

    async def main() -> Any:
        here, there = memory_pair()
        serving = asyncio.ensure_future(server.serve(there))
        try:
            async with connect(here, **options) as client:
                return await does(client)
        finally:
            await serving

    return asyncio.run(main())


def test_tools_can_be_registered_one_by_one(registry: Registry, executor: Executor) -> None:
    """Seed 6.5: register_handlers."""
    server = factory.create_server()
    factory.register_handlers(
        server, factory.build_tools(registry, prefix="math."), ExecutionRouter(executor)
    )

    async def look(client: Any) -> Any:
        tools = await client.tools.list()
        result = await client.tools.call("math.add", {"a": 1})
        return [tool.name for tool in tools], result.structured_content

    assert serve(server, look) == (["math.add", "math.later"], {"total": 3})


def test_the_catalogue_is_listed_and_called_by_every_name(registry: Registry, kinds: SimpleNamespace) -> None:
    """Section 4: an alias is listed but not callable; a filter is not enforced on calls."""
    alias = {"display": {"mcp": {"alias": "free"}}}
    registry.register("disk.free", kinds.Plain(lambda i, c: {"ok": 1}, metadata=alias))
    server, _, _ = offered(registry, prefix="disk.")

    async def look(client: Any) -> Any:
        assert [tool.name for tool in await client.tools.list()] == ["free"]
        for name in ("free", "disk.free", "disk-free"):
            assert (await client.tools.call(name, {})).text == '{"ok": 1}'
        for name in ("math.add", "nothing"):
            with pytest.raises(JsonRpcError, match=f"Module not found: {name}") as caught:
                await client.tools.call(name, {"a": 1})
            assert caught.value.code == -32602

    serve(server, look)


def test_documentation_is_a_resource_while_its_module_is_there(
    registry: Registry, kinds: SimpleNamespace
) -> None:
    """F-020."""
    server, catalogue, _ = offered(registry)

    async def look(client: Any) -> None:
        (resource,) = await client.resources.list()
        assert (resource.uri, resource.name, resource.mime_type) == (
            "docs://math.add",
            "math.add",
            "text/markdown",
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

    serve(server, look)


def test_changes_are_followed_until_the_offer_ends(registry: Registry, kinds: SimpleNamespace) -> None:
    """F-015: an alias that changes takes its old name along."""
    server, catalogue, offer = offered(registry)
    module = kinds.Plain(lambda i, c: {})
    registry.register("disk.free", module, metadata={"display": {"mcp": {"alias": "free"}}})
    catalogue.update("disk.free")
    assert "free" in server.catalogue.tools
    registry.unregister("disk.free")
    registry.register("disk.free", module)
    catalogue.update("disk.free")
    assert "free" not in server.catalogue.tools
    assert "disk.free" in server.catalogue.tools
    offer.end()
    registry.unregister("disk.free")
    catalogue.update("disk.free")
    assert "disk.free" in server.catalogue.tools


def test_what_the_server_cannot_list_is_skipped_with_its_reason(
    registry: Registry, kinds: SimpleNamespace
) -> None:
    """Faults stay where they are."""
    deep: dict[str, Any] = {"type": "object"}
    for _ in range(200):
        deep = {"type": "object", "properties": {"x": deep}}
    registry.register("disk.deep", kinds.Plain(lambda i, c: {}, input_schema=deep))
    server, catalogue, _ = offered(registry)
    assert "deeper" in catalogue.skipped()["disk.deep"]
    assert "disk.deep" not in server.catalogue.tools
    assert len(server.catalogue.tools) == 4


def test_a_thousand_modules_come_in_pages(kinds: SimpleNamespace) -> None:
    """Section 4: 1,000 tools in one page."""
    registry = Registry()
    module = kinds.Plain(lambda i, c: {})
    for number in range(1000):
        registry.register(f"m.x{number}", module)
    server, _, _ = offered(registry)

    async def look(client: Any) -> int:
        return len({tool.name for tool in await client.tools.list()})

    assert serve(server, look) == 1000
    import json

    from jackstay.server import Kind

    first = json.loads(server.catalogue.page(Kind.TOOLS, "2025-06-18"))
    assert len(first["tools"]) == 500
    assert "nextCursor" in first


def test_nothing_but_modules_is_listed(registry: Registry) -> None:
    """Section 4: meta-tools always in the list."""
    server, catalogue, _ = offered(registry)
    assert set(server.catalogue.tools) == {entry.name for entry in catalogue.tools()}


@pytest.mark.parametrize("version", ["2024-11-05", "2025-06-18", "2025-11-25", "2026-07-28"])
def test_every_revision_is_spoken(registry: Registry, version: str) -> None:
    """Both eras; structure only where the revision has it."""
    server, _, _ = offered(registry)

    async def look(client: Any) -> Any:
        return await client.tools.call("math.add", {"a": 1})

    result = serve(server, look, versions=(version,))
    assert result.text == '{"total": 3}'
    assert (result.structured_content is not None) is (version >= "2025-06-18")


WHO = {"user": "ann", "password": "hunter2"}


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("answer", ["accept", "decline"])
def test_approval_is_asked_in_both_eras(registry: Registry, version: str, answer: str) -> None:
    """Settled; in the stateless era the question is a result, and the handler is run again with the answer."""
    server, _, _ = offered(registry)
    asked: list[str] = []

    async def look(client: Any) -> Any:
        return await client.tools.call("user.remove", WHO)

    async def main() -> Any:
        here, there = memory_pair()
        serving = asyncio.ensure_future(server.serve(there))
        client = connect(here, versions=(version,))

        @client.elicitation.handle
        def ask(params: Any) -> Any:
            asked.append(params.message)
            return ElicitResult(action=answer, content={} if answer == "accept" else None)

        try:
            async with client:
                return await look(client)
        finally:
            await serving

    result = asyncio.run(main())
    assert (result.is_error is True) is (answer == "decline")
    (message,) = asked
    assert "hunter2" not in message
    assert registry.get("user.remove").ran == (answer == "accept")


def test_a_client_of_the_stateless_era_that_cannot_be_asked_is_refused_in_words(registry: Registry) -> None:
    """Settled: without, refuse with a clear text."""
    server, _, _ = offered(registry)

    async def look(client: Any) -> Any:
        return await client.tools.call("user.remove", WHO)

    result = serve(server, look, versions=("2026-07-28",))
    assert result.is_error
    assert "cannot be asked" in result.text
    assert registry.get("user.remove").ran == 0


def test_the_oldest_revision_gets_progress_without_words(registry: Registry) -> None:
    """F-024: 2024-11-05 has no message member."""
    server, _, _ = offered(registry)
    heard: dict[str, list[Any]] = {}

    for version in ("2024-11-05", "2025-06-18"):

        async def look(client: Any, version: str = version) -> Any:
            told = heard.setdefault(version, [])
            return await client.tools.call("text.count", {}, on_progress=lambda *event: told.append(event))

        assert serve(server, look, versions=(version,)).text.startswith("{")
    # Our client tells the newest of those that came together.
    assert all("progress=3" in str(told[-1]) for told in heard.values())
    assert '"text"' not in str(heard["2024-11-05"])
    assert '"text"' in str(heard["2025-06-18"])
