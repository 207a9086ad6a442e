"""Notifications of the status of tasks, by `subscriptions/listen` with `taskIds`."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from jackstay import Client, Context, Server, connect
from jackstay.errors import JsonRpcError
from jackstay.server import MemoryTaskStore, Tasks
from jackstay.testing import on_fake_clock
from jackstay.types import META_SUBSCRIPTION_ID, TASKS_EXTENSION

DECLARED: dict[str, Any] = {"elicitation": {}, "extensions": {TASKS_EXTENSION: {}}}


class LoopStore(MemoryTaskStore):
    """A store with the clock of the loop, whose next `load` calls fail."""

    failures = 0

    async def now(self) -> float:
        return 1_000_000_000.0 + asyncio.get_running_loop().time()

    async def load(self, id: str) -> Any:
        if self.failures:
            self.failures -= 1
            raise OSError("no store")
        return await super().load(id)


class Working:
    """A server whose task ends when `may_end` is set, and a client with its notifications."""

    def __init__(self, **options: Any) -> None:
        self.store = LoopStore()
        self.tasks = Tasks(self.store, poll_interval=60.0)
        self.server = Server("working", extensions=[self.tasks], **options)
        self.may_end = asyncio.Event()
        self.received: list[dict[str, Any]] = []
        self.arrived = asyncio.Condition()

        @self.server.tool(task=True)
        async def work(ctx: Context) -> str:
            await ctx.elicit("go on?", {"type": "object", "properties": {"yes": {"type": "boolean"}}}, key="go")
            await self.may_end.wait()
            return "done"

    def connect(self, capabilities: Any = DECLARED) -> Client:
        client = connect(self.server, capabilities=capabilities)

        @client.on_notification
        async def note(notification: Any) -> None:
            if notification.method == "notifications/tasks":
                async with self.arrived:
                    self.received.append(notification.params)
                    self.arrived.notify_all()

        return client

    async def states(self, count: int) -> list[str]:
        async with self.arrived:
            await self.arrived.wait_for(lambda: len(self.received) >= count)
        return [row["status"] for row in self.received]


async def start(client: Client) -> str:
    return str((await client.submit("tools/call", {"name": "work", "arguments": {}}))["taskId"])


def listen(client: Client, *ids: str) -> Any:
    return client.submit("subscriptions/listen", {"notifications": {"taskIds": list(ids)}}, timeout=None)


@on_fake_clock
async def test_a_listener_gets_every_state_of_its_task() -> None:
    working = Working()
    async with working.connect() as client:
        id = await start(client)
        call = listen(client, id, "unknown")
        assert (await working.states(1))[-1] in ("working", "input_required")
        while working.received[-1]["status"] != "input_required":
            await working.states(len(working.received) + 1)
        assert list(working.received[-1]["inputRequests"]) == ["go"]
        response = {"go": {"action": "accept", "content": {"yes": True}}}
        await client.submit("tasks/update", {"taskId": id, "inputResponses": response})
        while working.received[-1]["status"] != "working":
            await working.states(len(working.received) + 1)
        working.may_end.set()
        while working.received[-1]["status"] != "completed":
            await working.states(len(working.received) + 1)
        last = working.received[-1]
        assert last["result"]["content"][0]["text"] == "done"
        assert last["_meta"] == {META_SUBSCRIPTION_ID: call.id}
        got = await client.submit("tasks/get", {"taskId": id})
        assert {**last, "_meta": None, "resultType": "complete"} == {**got, "_meta": None}
        call.cancel()


@on_fake_clock
async def test_changes_by_another_worker_and_after_an_outage_are_found_by_polling() -> None:
    working = Working()
    async with working.connect() as client:
        id = await start(client)
        call = listen(client, id)
        while "input_required" not in await working.states(1):
            await working.states(len(working.received) + 1)
        working.store.failures = 1
        record = await MemoryTaskStore.load(working.store, id)
        assert record is not None
        await working.store.replace(replace(record, revision=record.revision + 1, state="cancelled"))
        assert (await working.states(len(working.received) + 1))[-1] == "cancelled"
        call.cancel()
        assert not working.tasks._listeners._open


@on_fake_clock
async def test_who_may_not_listen_is_refused_and_closed_subscriptions_end() -> None:
    working = Working()
    async with working.connect({}) as client:
        with pytest.raises(JsonRpcError) as refused:
            await listen(client, "any")
        assert refused.value.code == -32021
    async with working.connect() as client:
        listen(client, await start(client))
        await working.states(1)
        assert len(working.tasks._listeners._open) == 1
    assert not working.tasks._listeners._open


@on_fake_clock
async def test_a_task_that_is_too_large_for_a_notification_is_left_to_tasks_get() -> None:
    store = LoopStore()
    server = Server("large", extensions=[Tasks(store)], max_frame_bytes=4096)

    @server.tool(task=True)
    async def work() -> str:
        return "x" * 3900

    seen: list[str] = []
    async with connect(server, capabilities=DECLARED) as client:

        @client.on_notification
        def note(notification: Any) -> None:
            seen.append(notification.params["status"])

        id = await start(client)
        call = listen(client, id)
        await asyncio.sleep(5)  # of the fake clock
        record = await store.load(id)
        assert record is not None
        assert record.has_ended
        assert "completed" not in seen
        call.cancel()
        await client.ping()
