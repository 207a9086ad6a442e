"""The tasks extension of a server, on the wire."""

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from jackstay import Client, Context, Server, connect
from jackstay.errors import BackpressureError, JsonRpcError, ToolCallError, UsageError
from jackstay.server import MemoryTaskStore, TaskRecord, Tasks, ToolError
from jackstay.server._tasks import META_KEY, META_RESENT
from jackstay.server.http import keys
from jackstay.testing import on_fake_clock
from jackstay.types import TASKS_EXTENSION
from scripted.asgi import http_client, stateless

ADA, BOB = "a" * 32, "b" * 32
DECLARED: dict[str, Any] = {"elicitation": {}, "extensions": {TASKS_EXTENSION: {}}}


class LoopStore(MemoryTaskStore):
    """A store with the clock of the loop, which may be a fake one."""

    async def now(self) -> float:
        return 1_000_000_000.0 + asyncio.get_running_loop().time()


class Name(msgspec.Struct):
    name: str


def working(tasks: Tasks | None = None, **options: Any) -> Server:
    server = Server("working", extensions=[tasks or Tasks(LoopStore())], **options)

    @server.tool(task=True)
    async def sleep(seconds: float, ctx: Context) -> str:
        ctx.progress(1, 2, "asleep")
        ctx.log("info", "dropped")
        await asyncio.sleep(seconds)
        return f"slept {seconds:g} s as {ctx.principal or 'nobody'}"

    @server.tool(task="required")
    async def fail() -> str:
        raise ToolError("it broke")

    @server.tool(task=True)
    async def refuse() -> str:
        raise JsonRpcError(-32000, "refused", {"why": "no"})

    @server.tool(task=True)
    async def meet(ctx: Context) -> str:
        one, other = await asyncio.gather(
            ctx.elicit("first?", Name, key="first"), ctx.elicit("second?", Name, key="second")
        )
        return f"{one.data.name} meets {other.data.name}"

    @server.tool(task="deferred")
    async def order(ctx: Context) -> str:
        named = await ctx.elicit("who?", Name, key="who")
        price = await ctx.once("price", lambda: 3)
        await ctx.background()
        return f"{named.data.name} pays {price}"

    @server.tool
    async def plain() -> str:
        return "plain"

    return server


async def get(client: Client, id: Any) -> dict[str, Any]:
    return await client.submit("tasks/get", {"taskId": id})


async def ended(client: Client, id: Any, *statuses: str) -> dict[str, Any]:
    """Poll until the task has one of these statuses; by default, until it has ended."""
    while True:
        task = await get(client, id)
        if task["status"] in (statuses or ("completed", "failed", "cancelled")):
            return task
        await asyncio.sleep(0.1)


async def start(client: Client, tool: str, arguments: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return await client.submit("tools/call", {"name": tool, "arguments": arguments or {}, **more})


def text(task: Mapping[str, Any]) -> str:
    return str(task["result"]["content"][0]["text"])


@on_fake_clock
async def test_a_call_becomes_a_task_whose_result_is_in_tasks_get() -> None:
    async with connect(working(), capabilities=DECLARED) as client:
        created = await start(client, "sleep", {"seconds": 5})
        assert created["resultType"] == "task"
        assert created["status"] == "working"
        assert (created["ttlMs"], created["pollIntervalMs"]) == (3_600_000, 1000)
        assert not created.keys() & {"task", "result", "error", "inputRequests", "requestState"}
        task = await ended(client, created["taskId"])
        assert (task["resultType"], task["status"], text(task)) == ("complete", "completed", "slept 5 s as nobody")
        assert task["createdAt"] == created["createdAt"] < task["lastUpdatedAt"]
        assert task["statusMessage"] == "asleep (1 of 2)"


@on_fake_clock
async def test_a_status_message_that_cannot_be_sent_is_corrected() -> None:
    """Else the lease could not be renewed, and the task would count as lost."""
    server = Server("status", extensions=[Tasks(LoopStore(), lease=1)])

    @server.tool(task=True)
    async def report(ctx: Context) -> str:
        ctx.progress(1, message="a\ud800" + "x" * 100_000)
        await asyncio.sleep(60)
        return "done"

    async with connect(server, capabilities=DECLARED) as client:
        created = await start(client, "report")
        task = await ended(client, created["taskId"])
        assert text(task) == "done"
        assert task["statusMessage"] == "a?" + "x" * 998 + " (1)"


@on_fake_clock
async def test_the_end_of_a_task_fits_into_a_response() -> None:
    """Whatever the size of the result: one that is too large is a failure, which `tasks/get` reports."""
    server = Server("large", extensions=[Tasks(LoopStore())], max_frame_bytes=100_000)

    @server.tool(task=True, output_schema=None)
    async def large(size: int) -> str:
        return "x" * size

    async with connect(server, capabilities=DECLARED) as client:
        statuses = []
        for size in (*range(90_000, 100_200, 100), 200_000):
            task = await ended(client, (await start(client, "large", {"size": size}))["taskId"])
            statuses.append(task["status"])
            if task["status"] == "failed":
                assert "response too large" in task["error"]["message"]
        assert statuses == sorted(statuses)
        assert set(statuses) == {"completed", "failed"}


@on_fake_clock
async def test_a_client_without_the_extension_waits_for_the_result() -> None:
    async with connect(working(), capabilities={}) as client:
        assert (await start(client, "plain"))["resultType"] == "complete"
        assert (await client.tools.call("sleep", {"seconds": 1})).text == "slept 1 s as nobody"
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            with pytest.raises(JsonRpcError) as refused:
                await client.submit(method, {"taskId": "x"})
            assert refused.value.code == -32021
        with pytest.raises(JsonRpcError) as required:
            await start(client, "fail")
        assert isinstance(required.value.data, dict)
        assert required.value.data["requiredCapabilities"] == {"extensions": {TASKS_EXTENSION: {}}}
    server = working()
    with pytest.raises(ToolCallError, match="it broke"):
        await server.call_tool("fail")  # a call in the process has no client that could poll
    async with connect(server, versions=("2025-11-25",)) as client:
        assert client.server_capabilities.extensions is None
        assert (await client.tools.call("sleep", {"seconds": 1})).text == "slept 1 s as nobody"


@on_fake_clock
async def test_a_tool_error_completes_a_task_and_a_protocol_error_fails_it() -> None:
    async with connect(working(), capabilities=DECLARED) as client:
        broken = await ended(client, (await start(client, "fail"))["taskId"])
        assert (broken["status"], broken["result"]["isError"], text(broken)) == ("completed", True, "it broke")
        refused = await ended(client, (await start(client, "refuse"))["taskId"])
        assert refused["status"] == "failed"
        assert refused["error"] == {"code": -32000, "message": "refused", "data": {"why": "no"}}
        assert "result" not in refused
        invalid = await ended(client, (await start(client, "sleep", {"seconds": "x"}))["taskId"])
        assert invalid["result"]["isError"] is True


@on_fake_clock
async def test_a_task_requires_input_and_continues_with_it() -> None:
    def entered(name: str) -> dict[str, Any]:
        return {"action": "accept", "content": {"name": name}}

    async with connect(working(), capabilities=DECLARED) as client:
        id = (await start(client, "meet"))["taskId"]
        parked = await ended(client, id, "input_required")
        assert sorted(parked["inputRequests"]) == ["first", "second"]
        assert parked["inputRequests"]["first"]["method"] == "elicitation/create"
        await client.submit("tasks/update", {"taskId": id, "inputResponses": {"first": entered("Ada"), "no": {}}})
        assert list((await get(client, id))["inputRequests"]) == ["second"]
        await client.submit("tasks/update", {"taskId": id, "inputResponses": {"second": entered("Bob")}})
        assert text(await ended(client, id)) == "Ada meets Bob"
        late = await client.submit("tasks/update", {"taskId": id, "inputResponses": {"second": entered("Eve")}})
        assert late["resultType"] == "complete"


@on_fake_clock
async def test_a_deferred_call_requires_input_first_and_becomes_a_task_then() -> None:
    entered: dict[str, Any] = {"who": {"action": "accept", "content": {"name": "Ada"}}}
    async with connect(working(), capabilities=DECLARED) as client:
        first = await start(client, "order")
        assert first["resultType"] == "input_required"
        state = first["requestState"]
        second = await start(client, "order", inputResponses=entered, requestState=state)
        assert second["resultType"] == "task"
        assert not second.keys() & {"requestState", "inputRequests"}
        assert text(await ended(client, second["taskId"])) == "Ada pays 3"
    async with connect(working(), capabilities={"elicitation": {}}) as client:
        first = await start(client, "order")
        done = await start(client, "order", inputResponses=entered, requestState=first["requestState"])
        assert done["content"][0]["text"] == "Ada pays 3"  # without tasks, `background()` changes nothing


@on_fake_clock
async def test_a_task_is_cancelled() -> None:
    async with connect(working(), capabilities=DECLARED) as client:
        running = (await start(client, "sleep", {"seconds": 1000}))["taskId"]
        parked = (await start(client, "meet"))["taskId"]
        await ended(client, parked, "input_required")
        for id in (running, parked, running):
            acknowledged = await client.submit("tasks/cancel", {"taskId": id})
            assert not acknowledged.keys() & {"taskId", "status"}
            task = await ended(client, id)
            assert task["status"] == "cancelled"
            assert not task.keys() & {"result", "error"}


async def test_the_task_of_another_principal_is_unknown() -> None:
    store = LoopStore()
    server = working(Tasks(store))
    async with connect(server, capabilities=DECLARED) as client:
        id = (await start(client, "sleep", {"seconds": 0}))["taskId"]
        done = await ended(client, id)
        assert text(done) == "slept 0 s as nobody"
        record = await store.load(id)
        assert record is not None
        assert await store.replace(msgspec.structs.replace(record, principal="bob", revision=record.revision + 1))
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            for unknown in (id, "x" * 1000):
                with pytest.raises(JsonRpcError, match="unknown task") as refused:
                    await client.submit(method, {"taskId": unknown})
                assert refused.value.code == -32602
        with pytest.raises(JsonRpcError, match="invalid params for tasks/get"):
            await client.submit("tasks/get", {})


@on_fake_clock
async def test_a_task_expires() -> None:
    """G26."""
    async with connect(working(Tasks(LoopStore(), ttl=100, lease=3)), capabilities=DECLARED) as client:
        done = await start(client, "sleep", {"seconds": 1})
        endless = await start(client, "sleep", {"seconds": 1000})
        parked = await start(client, "meet")
        await asyncio.sleep(90)
        assert (await get(client, done["taskId"]))["status"] == "completed"
        await asyncio.sleep(20)
        for task in (done, endless, parked):
            with pytest.raises(JsonRpcError, match="unknown task"):
                await get(client, task["taskId"])


@on_fake_clock
async def test_a_principal_has_a_limited_number_of_tasks() -> None:
    async with connect(working(Tasks(LoopStore(), max_tasks=2)), capabilities=DECLARED) as client:
        await start(client, "sleep", {"seconds": 10})
        await start(client, "sleep", {"seconds": 10})
        with pytest.raises(JsonRpcError, match="too many tasks") as refused:
            await start(client, "sleep", {"seconds": 10})
        assert refused.value.data == {"retryable": True, "mayHaveRun": False, "reason": "busy"}


@on_fake_clock
async def test_a_call_that_is_sent_again_with_its_key_is_one_task() -> None:
    """G23."""
    store = LoopStore()
    async with connect(working(Tasks(store)), capabilities=DECLARED) as client:
        meta: dict[str, Any] = {META_KEY: "random"}
        first = await client.submit("tools/call", {"name": "sleep", "arguments": {"seconds": 1}}, meta=meta)
        again = {**meta, META_RESENT: True}
        second = await client.submit("tools/call", {"arguments": {"seconds": 1}, "name": "sleep"}, meta=again)
        assert first["taskId"] == second["taskId"]
        with pytest.raises(JsonRpcError, match="belongs to another call"):
            await client.submit("tools/call", {"name": "sleep", "arguments": {"seconds": 2}}, meta=again)
        for name in ("plain", "order"):  # tools whose calls are not kept
            with pytest.raises(JsonRpcError, match="not kept") as refused:
                await client.submit("tools/call", {"name": name, "arguments": {}}, meta=again)
            assert refused.value.data == {"outcome": "unknown", "mayHaveRun": True}
        with pytest.raises(JsonRpcError, match="longer than"):
            await client.submit("tools/call", {"name": "sleep", "arguments": {}}, meta={META_KEY: "x" * 300})


class Failing(LoopStore):
    """A store that fails for a number of times, before or after it has stored the task."""

    def __init__(self, failures: int, *, after: bool) -> None:
        super().__init__()
        self._failures = failures
        self._after = after
        self.is_down = False

    async def create(self, record: TaskRecord, limit: int) -> TaskRecord | None:
        self._failures -= 1
        if self._failures < 0:
            return await super().create(record, limit)
        if self._after:
            await super().create(record, limit)
        raise ConnectionError("lost")

    async def now(self) -> float:
        if self.is_down:
            raise ConnectionError("down")
        return await super().now()

    async def load(self, id: str) -> TaskRecord | None:
        if self.is_down:
            raise ConnectionError("down")
        return await super().load(id)


@pytest.mark.parametrize("after", [False, True])
def test_a_store_that_fails_once_creates_one_task(after: bool) -> None:
    @on_fake_clock
    async def test() -> None:
        store = Failing(1, after=after)
        async with connect(working(Tasks(store)), capabilities=DECLARED) as client:
            created = await start(client, "sleep", {"seconds": 1})
            assert (await ended(client, created["taskId"]))["status"] == "completed"
            assert repr(store) == "<MemoryTaskStore of 1 tasks>"

    test()


@on_fake_clock
async def test_a_store_that_is_not_available_is_reported() -> None:
    store = Failing(2, after=False)
    async with connect(working(Tasks(store)), capabilities=DECLARED) as client:
        with pytest.raises(JsonRpcError, match="may run nevertheless") as unknown:
            await start(client, "sleep", {"seconds": 1})
        assert unknown.value.data == {"outcome": "unknown", "mayHaveRun": True}
        id = (await start(client, "sleep", {"seconds": 10}))["taskId"]
        store.is_down = True
        with pytest.raises(JsonRpcError, match="the call did not run") as refused:
            await start(client, "sleep", {"seconds": 1})
        assert refused.value.data == {"retryable": True, "mayHaveRun": False}
        for method in ("tasks/get", "tasks/cancel"):
            with pytest.raises(JsonRpcError, match="store is not available"):
                await client.submit(method, {"taskId": id})
        # It may have been created when it was sent for the first time, or a part of it has run.
        state = (await start(client, "order"))["requestState"]
        entered = {"who": {"action": "accept", "content": {"name": "Ada"}}}
        resent = {META_KEY: "random", META_RESENT: True}
        for begun in (
            client.submit("tools/call", {"name": "sleep", "arguments": {"seconds": 1}}, meta=resent),
            start(client, "order", inputResponses=entered, requestState=state),
        ):
            with pytest.raises(JsonRpcError, match="not available; the call may have run") as unknown:
                await begun
            assert unknown.value.data == {"outcome": "unknown", "mayHaveRun": True}
        store.is_down = False
        assert (await ended(client, id))["status"] == "completed"


@on_fake_clock
async def test_a_call_whose_task_the_store_refuses_did_not_run() -> None:
    class Full(LoopStore):
        async def create(self, record: TaskRecord, limit: int) -> TaskRecord | None:
            raise BackpressureError("full")

    async with connect(working(Tasks(Full())), capabilities=DECLARED) as client:
        with pytest.raises(JsonRpcError, match="the call did not run") as refused:
            await start(client, "sleep", {"seconds": 1})
        assert refused.value.data == {"retryable": True, "mayHaveRun": False}


async def test_the_caller_of_a_task_is_the_caller_of_the_request() -> None:
    server = working(Tasks())

    @server.tool(task=True, scopes="write")
    async def who(ctx: Context) -> dict[str, Any]:
        return {"principal": ctx.principal, "scopes": sorted(ctx.scopes), "claims": dict(ctx.claims)}

    app = server.asgi(auth=[keys({"ada": ADA}, scopes=["write"]), keys({"bob": BOB})])

    async def send(http: Any, token: str, method: str, name: str, params: Mapping[str, Any]) -> Any:
        message = stateless(method, params, **{"io.modelcontextprotocol/clientCapabilities": DECLARED})
        headers = {"authorization": f"Bearer {token}", "mcp-method": method, "mcp-name": name}
        headers["mcp-protocol-version"] = "2026-07-28"
        return (await http.post(message, headers=headers)).json

    async with http_client(app) as http:
        refused = await send(http, BOB, "tools/call", "who", {"name": "who", "arguments": {}})
        assert "scope" in str(refused)
        created = (await send(http, ADA, "tools/call", "who", {"name": "who", "arguments": {}}))["result"]
        id = created["taskId"]
        unknown = await send(http, BOB, "tasks/get", id, {"taskId": id})
        assert unknown["error"]["code"] == -32602
        task: dict[str, Any] = {"status": "working"}
        while task["status"] == "working":
            task = (await send(http, ADA, "tasks/get", id, {"taskId": id}))["result"]
        assert task["result"]["structuredContent"] == {"principal": "ada", "scopes": ["write"], "claims": {}}
    await server.shutdown()


async def test_mounted_servers_run_their_tools_at_once() -> None:
    host = working()
    child = Server("child")

    @child.tool(task="required")
    async def inner() -> str:
        return "inner"

    host.mount(child, prefix="child")
    async with connect(host, capabilities=DECLARED) as client:
        assert (await start(client, "child_inner"))["content"][0]["text"] == "inner"
        assert (await start(client, "sleep", {"seconds": 0}))["resultType"] == "task"


async def test_tools_with_task_enable_the_extension() -> None:
    server = Server("implicit")

    @server.tool(task=True)
    async def one() -> str:
        return "one"

    @server.tool(task=True)
    async def two() -> str:
        return "two"

    async with connect(server, capabilities=DECLARED) as client:
        assert TASKS_EXTENSION in (client.server_capabilities.extensions or {})
        assert text(await ended(client, (await start(client, "two"))["taskId"])) == "two"
    late = Server("late")
    async with connect(late):
        with pytest.raises(UsageError, match="running without tasks"):
            late.tool(task=True)(two)


def test_a_tool_that_cannot_be_a_task_is_refused() -> None:
    server = Server("x")

    async def tool() -> str:
        return ""

    with pytest.raises(UsageError, match="task must be True, 'optional'"):
        server.tool(task="always")(tool)  # type: ignore[call-overload]  # not a value
    with pytest.raises(UsageError, match="needs a Context parameter"):
        server.tool(task="deferred")(tool)
    server.tool(task=False)(tool)
    assert server.catalogue.tools["tool"].task is None


@pytest.mark.parametrize(
    ("name", "value"), [("ttl", 0), ("poll_interval", 0), ("slots", -1), ("lease", True), ("max_tasks", "many")]
)
def test_options_are_checked(name: str, value: Any) -> None:
    with pytest.raises(UsageError, match=f"{name} must be a number"):
        Tasks(**{name: value})


def test_tasks_belong_to_one_server() -> None:
    tasks = Tasks()
    with pytest.raises(UsageError, match="belongs to no server"):
        _ = tasks.store
    working(tasks)
    assert isinstance(tasks.store, MemoryTaskStore)
    with pytest.raises(UsageError, match="already belongs to a server"):
        working(tasks)


def test_tasks_in_memory_are_refused_with_several_workers() -> None:
    """Another worker would not know them. The port is not bound."""
    with pytest.raises(UsageError, match="tasks are in the memory of one process"):
        working(Tasks()).run(transport="http", port=0, workers=2)
