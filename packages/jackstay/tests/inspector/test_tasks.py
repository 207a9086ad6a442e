"""Tasks of the page: every state is published, and they are cancelled by id."""

import asyncio
from typing import Any

from jackstay import Context, Server
from scripted.inspected import Inspected, inspecting


def building() -> Server:
    server = Server("building")

    @server.tool
    def add(a: int, b: int = 2) -> int:
        return a + b

    @server.tool(task=True)
    async def build(context: Context, target: str) -> str:
        schema = {"type": "object", "properties": {"name": {"type": "string"}}}
        answer = await context.elicit("Who builds it?", schema)
        return f"{target} by {(answer.content or {})['name']}"

    return server


async def states_of(inspected: Inspected, task: str, last: str) -> list[dict[str, Any]]:
    """Wait for an event with the status `last`, and return the events of the task."""
    events = inspected.inspection.events
    async for _ in events.follow():
        rows = [row for row in inspected.events("task") if row["task"] == task]
        if rows and rows[-1]["status"] == last:
            return rows
    raise AssertionError("the log was closed")


async def test_a_task_is_started_answered_and_completed() -> None:
    async with inspecting(building()) as inspected:
        task = (await inspected.post("start", tool="build", arguments={"target": "app"}))["task"]
        async for event in inspected.inspection.events.follow():
            if b"event: question" in event:
                break
        (question,) = inspected.events("question")
        await inspected.post("answer", question=question["question"], action="accept", content={"name": "Ada"})
        rows = await states_of(inspected, task, "completed")
        assert rows[0] == {"task": task, "tool": "build", "status": "working", "arguments": {"target": "app"}}
        assert "input_required" in [row["status"] for row in rows]
        assert rows[-1]["result"]["texts"] == ["app by Ada"]


async def test_a_task_is_cancelled_and_a_tool_without_tasks_is_done_at_once() -> None:
    async with inspecting(building()) as inspected:
        task = (await inspected.post("start", tool="build", arguments={"target": "app"}))["task"]
        await states_of(inspected, task, "input_required")
        await inspected.post("cancel-task", task=task)
        rows = await states_of(inspected, task, "cancelled")
        assert rows[-1]["failed"]["may_have_run"] is True
        assert (await inspected.post("cancel-task", task="other"))["failed"]["error"] == "UsageError"
        done = (await inspected.post("start", tool="add", arguments={"a": 1}))["task"]
        assert (await states_of(inspected, done, "completed"))[-1]["result"]["structured"] == {"result": 3}
        refused = await inspected.post("start", tool="none")
        assert refused["failed"]["code"] == -32602


async def test_another_connection_stops_the_wait() -> None:
    async with inspecting(building()) as inspected:
        await inspected.post("start", tool="build", arguments={"target": "app"})
        await inspected.inspection.connect()
        assert not inspected.inspection.tasks._waiting
        assert not [task for task in asyncio.all_tasks() if "StartedTasks" in repr(task)]
