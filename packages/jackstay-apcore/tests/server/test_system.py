"""apcore's system modules as resources."""

import json
from collections.abc import Iterator

import pytest
from apcore import Config, Executor, Registry
from apcore.sys_modules.registration import register_sys_modules

from apcore_mcp.options import make_options
from apcore_mcp.server import MCPServerFactory
from apcore_mcp.server.management import MANAGEMENT
from apcore_mcp.server.system import SYSTEM_RESOURCES, is_readonly_system_module
from apcore_mcp.serving import open_bridge
from jackstay.client import connect
from jackstay.errors import McpError

CONFIG = {"sys_modules": {"enabled": True, "events": {"enabled": True}}}


@pytest.fixture
def governed(registry: Registry) -> Iterator[Executor]:
    executor = Executor(registry)
    made = register_sys_modules(registry=registry, executor=executor, config=Config(data=CONFIG))
    yield executor
    made["event_emitter"].shutdown()


async def test_read_only_modules_are_resources(governed: Executor) -> None:
    with open_bridge(governed, make_options(dynamic=True), owns_loop=False) as bridge:
        async with connect(bridge.server) as client:
            declared = (client.server_capabilities.extensions or {})[MANAGEMENT]
            assert declared["surfaces"] == ["health", "usage", "manifest", "control"]
            tools = {tool.name for tool in await client.tools.list()}
            assert {name for name in tools if name.startswith("system.")} == {
                "system.control.reload_module",
                "system.control.toggle_feature",
                "system.control.update_config",
            }
            uris = {resource.uri for resource in await client.resources.list() if resource.uri.startswith("apcore:")}
            assert uris == {f"apcore://system.{name}" for name in ("health.summary", "usage.summary", "manifest.full")}
            templates = {row.uri_template for row in await client.resources.templates()}
            assert "apcore://system.usage.module/{module_id}{?period}" in templates
            await client.tools.call("math.add", {"a": 1})
            for uri in ("apcore://system.health.summary", "apcore://system.health.module/math.add"):
                (part,) = (await client.resources.read(uri)).contents
                assert part.mime_type == "application/json"
                assert "math.add" in part.text
            for query in ("", "?period=7d"):
                (part,) = (await client.resources.read(f"apcore://system.usage.summary{query}")).contents
                assert json.loads(part.text)["period"] == (query.partition("=")[2] or "24h")
            for query in ("", "?period=1h"):
                (part,) = (await client.resources.read(f"apcore://system.usage.module/math.add{query}")).contents
                assert json.loads(part.text)["module_id"] == "math.add"
            with pytest.raises(McpError, match=r"no\.such"):
                await client.resources.read("apcore://system.health.module/no.such")
            governed.registry.unregister("system.health.summary")
            with pytest.raises(McpError):
                await client.resources.read("apcore://system.health.summary")


def test_open_control_surface_is_logged(governed: Executor, caplog: pytest.LogCaptureFixture) -> None:
    with open_bridge(governed, make_options()):
        assert "system.control" not in caplog.text  # each call needs the approval of the client's user
    governed.set_approval_handler(None)
    with open_bridge(governed, make_options(approval="allow")):
        assert "No ACL is configured (acl= or mcp.acl). No approval handler is configured" in caplog.text


def test_tools_of_a_factory(governed: Executor) -> None:
    names = {tool.name for tool in MCPServerFactory().build_tools(governed.registry)}
    assert not names & SYSTEM_RESOURCES.keys()
    assert is_readonly_system_module("system.manifest.full")
    assert not is_readonly_system_module("system.health.other")
