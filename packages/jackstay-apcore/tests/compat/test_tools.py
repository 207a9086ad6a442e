"""Tools that are not modules, through a client."""

import json
from types import SimpleNamespace
from typing import Any

from apcore import Registry

from apcore_mcp.compat.tasks import META_TOOL_NAMES
from apcore_mcp.serving import open_bridge, read_options
from jackstay.client import connect


async def test_task_tools(registry: Registry, kinds: SimpleNamespace) -> None:
    remove = kinds.Remove()
    registry.register("x.background", kinds.Add(), metadata={"async": True})
    registry.register("x.remove", remove, metadata={"async": True})
    options = read_options({"async_tasks": True, "async_max_tasks": 9})
    with open_bridge(registry, options, owns_loop=False) as bridge:
        async with connect(bridge.server) as client:
            names = {tool.name for tool in await client.tools.list()}
            assert set(META_TOOL_NAMES) <= names

            async def call(name: str, **arguments: Any) -> Any:
                result = await client.tools.call(name, arguments, raise_on_error=False)
                text = result.error_text or result.text
                return json.loads(text) if text[:1] == "{" else text

            async def run(module_id: str, arguments: dict[str, Any]) -> Any:
                task = await call("__apcore_task_submit", module_id=module_id, arguments=arguments)
                while True:
                    state = await call("__apcore_task_status", task_id=task["task_id"])
                    if state["status"] not in ("pending", "running"):
                        return state

            assert (await run("x.background", {"a": 1}))["result"] == {"total": 3}
            failed = await run("x.remove", {"user": "a", "password": "b"})
            assert (failed["status"], remove.ran) == ("failed", 0)
            assert "not run" not in str(failed.get("result"))
            assert (await call("__apcore_task_submit", module_id="math.add"))["error"] == "ASYNC_MODULE_NOT_ASYNC"
            assert await call("__apcore_module_preview", module_id="x.none") == "Module not found: x.none"
            assert (await call("__apcore_module_preview", module_id="math.add", arguments={"a": 1}))["valid"] is True


async def test_without_the_keyword_there_are_no_such_tools(registry: Registry) -> None:
    with open_bridge(registry, read_options({"async_tasks": False}), owns_loop=False) as bridge:
        async with connect(bridge.server) as client:
            assert not set(META_TOOL_NAMES) & {tool.name for tool in await client.tools.list()}
