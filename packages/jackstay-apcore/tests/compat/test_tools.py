"""Tools that are not modules, through a client."""

import asyncio
import json
import logging
from types import SimpleNamespace
from typing import Any

import pytest
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


async def test_call_of_a_background_module_returns_a_task(registry: Registry, kinds: SimpleNamespace) -> None:
    """As in apcore-mcp; unless it needs approval, which a task cannot request."""
    registry.register("x.background", kinds.Add(), metadata={"async": True})
    registry.register("x.remove", kinds.Remove(), metadata={"async": True})
    options = read_options({"async_tasks": True, "dynamic": True})
    with open_bridge(registry, options, owns_loop=False) as bridge:
        async with connect(bridge.server) as client:
            registry.register("x.later", kinds.Add(), metadata={"async": True})
            tools = {tool.name: tool for tool in await client.tools.list()}
            for name in ("x.background", "x.later"):
                assert tools[name].output_schema is None
                started = await client.tools.call(name, {"a": 1})
                assert started.structured_content == json.loads(started.text)
                task = started.structured_content
                assert task["status"] == "pending"
                status: Any = task
                while status["status"] in ("pending", "running"):
                    found = await client.tools.call("__apcore_task_status", {"task_id": task["task_id"]})
                    status = json.loads(found.text)
                assert status["result"] == {"total": 3}
            assert "docs://x.background" in {resource.uri for resource in await client.resources.list()}
            refused = await client.tools.call("x.remove", {"user": "a", "password": "b"}, raise_on_error=False)
            assert (refused.error_text or "").startswith("Approval")
    assert not bridge.catalogue.skipped()


async def test_without_the_keyword_there_are_no_such_tools(registry: Registry) -> None:
    with open_bridge(registry, read_options({"async_tasks": False}), owns_loop=False) as bridge:
        async with connect(bridge.server) as client:
            assert not set(META_TOOL_NAMES) & {tool.name for tool in await client.tools.list()}


@pytest.mark.parametrize("approval", ["elicit", "deny"])
async def test_task_without_the_approval_gate(registry: Registry, kinds: SimpleNamespace, approval: str) -> None:
    """A strategy without the gate of apcore does not let a task run what needs approval."""
    remove = kinds.Remove()
    registry.register("x.remove", remove, metadata={"async": True})
    options = read_options({"async_tasks": True, "strategy": "minimal", "approval": approval})
    with open_bridge(registry, options, owns_loop=False) as bridge:
        async with connect(bridge.server) as client:
            inputs = {"module_id": "x.remove", "arguments": {"user": "a", "password": "b"}}
            result = await client.tools.call("__apcore_task_submit", inputs, raise_on_error=False)
            assert result.error_text == "Approval required: a task cannot run x.remove."
    assert remove.ran == 0


async def test_failed_task_hides_secrets_and_has_a_trace_id(
    registry: Registry, kinds: SimpleNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(inputs: dict[str, Any], _: Any) -> Any:
        logging.getLogger("apcore_mcp.a.module").warning("failing")
        raise OSError(f"bad password {inputs['password']}")

    module = kinds.Plain(fail)
    module.input_schema = kinds.Login
    registry.register("x.fail", module, metadata={"async": True})
    with open_bridge(registry, read_options({"async_tasks": True}), owns_loop=False) as bridge:
        async with connect(bridge.server) as client:
            inputs = {"module_id": "x.fail", "arguments": {"user": "ann", "password": "hunter2-hunter2"}}
            task = json.loads((await client.tools.call("__apcore_task_submit", inputs)).text)
            state = {"status": "pending"}
            while state["status"] in ("pending", "running"):
                result = await client.tools.call("__apcore_task_status", {"task_id": task["task_id"]})
                state = json.loads(result.text)
    assert (state["status"], state["error"]) == ("failed", "Internal error occurred")
    lines = [record.getMessage() for record in caplog.records if record.name == "apcore_mcp.tasks"]
    assert lines
    assert all(state["trace_id"] in line and "hunter2" not in line for line in lines)


async def test_tasks_end_with_the_server(registry: Registry, kinds: SimpleNamespace) -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    class Wait(kinds.Later):  # type: ignore[misc, name-defined]  # a fixture
        async def execute(self, inputs: Any, context: Any) -> Any:
            started.set()
            while not context.cancel_token.is_cancelled:
                await asyncio.sleep(0)
            ended.set()
            return {"total": 0}

    registry.register("x.wait", Wait(), metadata={"async": True})
    with open_bridge(registry, read_options({"async_tasks": True}), owns_loop=False) as bridge:
        async with connect(bridge.server) as client:
            await client.tools.call("__apcore_task_submit", {"module_id": "x.wait", "arguments": {"a": 1}})
            await started.wait()
        await bridge.server.shutdown()
        await ended.wait()
