"""The tools that run modules in the background."""

import json
import threading
from types import SimpleNamespace
from typing import Any

from apcore import Executor, Identity, Registry

from apcore_mcp.compat.tasks import META_TOOL_NAMES, AsyncTaskBridge

ASYNC = SimpleNamespace(metadata={"async": True}, annotations=None)


async def query(bridge: AsyncTaskBridge, name: str, arguments: Any = None, **more: Any) -> tuple[Any, bool]:
    content, is_error, _ = await bridge.handle_meta_tool(name, arguments, **more)
    text = content[0]["text"]
    return (json.loads(text) if text[:1] == "{" else text), is_error


def test_hints() -> None:
    extra = SimpleNamespace(metadata={}, annotations=SimpleNamespace(extra={"mcp_async": "true"}))
    assert AsyncTaskBridge.is_async_module(ASYNC)
    assert AsyncTaskBridge.is_async_module(extra)
    assert not AsyncTaskBridge.is_async_module(SimpleNamespace(metadata={"async": "no"}))
    assert not AsyncTaskBridge.is_async_module(None)
    assert AsyncTaskBridge.is_meta_tool("__apcore_task_list")


async def test_task_from_start_to_end(kinds: SimpleNamespace) -> None:
    release = threading.Event()

    def wait(inputs: Any, context: Any) -> dict[str, Any]:
        release.wait(120)
        return {"token": "secret"}

    registry = Registry()
    registry.register("x.wait", kinds.Plain(wait))
    bridge = AsyncTaskBridge.with_limits(
        Executor(registry), max_tasks=5, redactor=lambda _, result: {**result, "token": "***"}
    )
    started, is_error = await query(bridge, "__apcore_task_submit", {"module_id": "x.wait", "arguments": {}})
    assert (started["status"], is_error) == ("pending", False)
    task = {"task_id": started["task_id"]}
    listed, _ = await query(bridge, "__apcore_task_list", {})
    assert [row["task_id"] for row in listed["tasks"]] == [started["task_id"]]
    running = bridge.manager._async_tasks[started["task_id"]]
    release.set()
    await running
    assert (await query(bridge, "__apcore_task_status", task))[0]["result"] == {"token": "***"}
    assert (await query(bridge, "__apcore_task_cancel", task))[0]["cancelled"] is False
    await bridge.shutdown()


async def test_tasks_of_a_session_are_cancelled(kinds: SimpleNamespace) -> None:
    release = threading.Event()
    registry = Registry()
    registry.register("x.wait", kinds.Plain(lambda inputs, context: release.wait(120) and {}))
    bridge = AsyncTaskBridge.with_limits(Executor(registry))
    await bridge.submit("x.wait", {}, None, session_key="s")
    assert await bridge.cancel_session_tasks("s") == 1
    assert await bridge.cancel_session_tasks("s") == 0
    release.set()
    await bridge.shutdown()


async def test_bad_arguments(executor: Executor) -> None:
    bridge = AsyncTaskBridge.with_limits(executor)
    for name, arguments, text in (
        ("__apcore_task_submit", {}, "module_id is required"),
        ("__apcore_task_submit", {"module_id": "__apcore_x"}, "Reserved module id"),
        ("__apcore_task_submit", {"module_id": "math.add", "arguments": []}, "arguments must be an object"),
        ("__apcore_task_status", {}, "task_id is required"),
        ("__apcore_task_list", {"status": "odd"}, "status must be one of"),
        ("other", {}, "Unknown meta-tool: other"),
    ):
        found, is_error = await query(bridge, name, arguments)
        assert is_error
        assert found.startswith(text)
    assert await query(bridge, "__apcore_task_status", {"task_id": "x"}) == (
        {"error": "ASYNC_TASK_NOT_FOUND", "task_id": "x"},
        True,
    )
    submit = {"module_id": "math.add"}
    refused, _ = await query(bridge, "__apcore_task_submit", submit, resolve_descriptor=lambda _: None)
    assert refused["error"] == "ASYNC_MODULE_NOT_ASYNC"
    assert {tool.name for tool in bridge.build_meta_tools()} == set(META_TOOL_NAMES)


async def test_preview_runs_nothing(executor: Executor) -> None:
    bridge = AsyncTaskBridge.with_limits(executor)
    found, is_error = await query(
        bridge, "__apcore_module_preview", {"module_id": "user.remove", "arguments": {"user": "a", "password": "b"}}
    )
    assert (found["valid"], found["requires_approval"], is_error) == (True, True, False)
    assert found["checks"]
    wrong, _ = await query(bridge, "__apcore_module_preview", {"module_id": "math.add", "arguments": {"a": "x"}})
    assert wrong["valid"] is False


async def test_tasks_belong_to_their_caller(kinds: SimpleNamespace) -> None:
    registry = Registry()
    registry.register("x.add", kinds.Add())
    bridge = AsyncTaskBridge.with_limits(Executor(registry))
    ann, bob = ({"identity": Identity(id=name)} for name in ("ann", "bob"))
    inputs = {"module_id": "x.add", "arguments": {"a": 1, "b": 2}}
    task, _ = await query(bridge, "__apcore_task_submit", inputs, router_extra=ann)
    found = {"task_id": task["task_id"]}
    for extra in (bob, {}):
        assert (await query(bridge, "__apcore_task_list", {}, router_extra=extra))[0] == {"tasks": []}
        for name in ("__apcore_task_status", "__apcore_task_cancel"):
            answer, is_error = await query(bridge, name, found, router_extra=extra)
            assert (answer["error"], is_error) == ("ASYNC_TASK_NOT_FOUND", True)
    listed, _ = await query(bridge, "__apcore_task_list", {}, router_extra=ann)
    assert [row["task_id"] for row in listed["tasks"]] == [task["task_id"]]
    await bridge.shutdown()
