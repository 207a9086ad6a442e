"""The client waits for tasks behind an ordinary call, whatever happens to the connection."""

import asyncio
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jackstay import Client, Context, Server, connect
from jackstay.client import FileTaskLog, LoggedTask
from jackstay.errors import (
    ClosedError,
    JsonRpcError,
    McpError,
    OutcomeUnknownError,
    ProtocolError,
    TimeoutError,
    ToolCallError,
)
from jackstay.extensions import Extension
from jackstay.server import MemoryTaskStore, Tasks, ToolError
from jackstay.server import _task_store as rules
from jackstay.testing import on_fake_clock
from jackstay.types import ElicitResult, GetTaskResult


class LoopStore(MemoryTaskStore):
    async def now(self) -> float:
        return 1_000_000_000.0 + asyncio.get_running_loop().time()


class Name(msgspec.Struct):
    name: str


class Working:
    """A server with tasks. `starts` are the tools that ran; `lose_after` drops the connection after so many calls."""

    def __init__(self, tasks: Tasks | None = None) -> None:
        self.store = LoopStore()
        self.server = Server("working", middleware=self._drop, extensions=[tasks or Tasks(self.store)])
        self.starts: list[str] = []
        self.drops: list[str] = []

        @self.server.tool(task=True)
        async def sleep(seconds: float) -> str:
            self.starts.append("sleep")
            await asyncio.sleep(seconds)
            return f"slept {seconds:g} s"

        @self.server.tool(task=True)
        async def count(to: int) -> int:
            return to

        @self.server.tool(task=True)
        async def fail(how: str) -> str:
            if how == "tool":
                raise ToolError("it broke")
            raise JsonRpcError(-32000, "refused", {"why": "no"})

        @self.server.tool(task=True)
        async def meet(ctx: Context) -> str:
            one = await ctx.elicit("first?", Name)
            other = await ctx.elicit("second?", Name)
            return f"{one.data.name} meets {other.data.name}"

        @self.server.tool(task="deferred")
        async def order(ctx: Context) -> str:
            named = await ctx.elicit("who?", Name)
            await ctx.background()
            return f"{named.data.name} pays"

        @self.server.tool
        async def plain() -> str:
            self.starts.append("plain")
            return "plain"

    async def _drop(self, ctx: Context, call_next: Any) -> bytes:
        """Lose the response of the next request with one of these methods, and the connection with it."""
        result: bytes = await call_next()
        if ctx.method in self.drops:
            self.drops.remove(ctx.method)
            self.disconnect()
        return result

    def disconnect(self) -> None:
        for connection in list(self.server._connections.values()):
            connection.stop()

    def connect(self, **options: Any) -> Client:
        client = connect(self.server, backoff_min=0.1, **options)
        client.elicitation.handle(_enter)
        return client


answers: list[str] = []


async def _enter(params: Any) -> ElicitResult:
    answers.append(params.message)
    return ElicitResult(
        action="accept", content={"name": {"first?": "Ada", "second?": "Bob"}.get(params.message, "Eve")}
    )


@on_fake_clock
async def test_a_call_returns_the_result_of_its_task() -> None:
    async with Working().connect() as client:
        assert (await client.tools.call("sleep", {"seconds": 20})).text == "slept 20 s"
        assert (await client.tools.call("sleep", {"seconds": 200}, timeout=300)).text == "slept 200 s"
        assert (await client.tools.call("count", {"to": 3})).data == 3
        assert (await client.tools.call("plain")).text == "plain"
        assert (await client.tools.call("plain", replay="safe")).text == "plain"
        assert (await client.tools.call("sleep", {"seconds": 1}, replay="safe")).text == "slept 1 s"


@on_fake_clock
async def test_a_call_that_is_made_before_the_connection_is_ready_returns_it_too() -> None:
    client = Working().connect()
    await client.open(wait=False)
    assert (await client.tools.call("sleep", {"seconds": 1})).text == "slept 1 s"
    await client.stop()


@on_fake_clock
async def test_failures_of_a_task_are_those_of_a_call() -> None:
    async with Working().connect() as client:
        with pytest.raises(ToolCallError, match="it broke"):
            await client.tools.call("fail", {"how": "tool"})
        assert (await client.tools.call("fail", {"how": "tool"}, raise_on_error=False)).is_error
        with pytest.raises(JsonRpcError, match="refused") as failed:
            await client.tools.call("fail", {"how": "protocol"})
        assert (failed.value.code, failed.value.data) == (-32000, {"why": "no"})


@on_fake_clock
async def test_a_task_that_requires_input_gets_it_from_the_same_handlers_once() -> None:
    answers.clear()
    working = Working()
    async with working.connect() as client:
        working.drops.append("tasks/update")
        assert (await client.tools.call("meet")).text == "Ada meets Bob"
        assert answers == ["first?", "second?"]
        assert (await client.tools.call("order")).text == "Eve pays"


@pytest.mark.parametrize("method", ["tasks/get", "tools/call"])
def test_a_lost_connection_does_not_lose_the_outcome(method: str) -> None:
    """G22 and G23: also if the response was lost that had the task."""

    @on_fake_clock
    async def test() -> None:
        working = Working()
        await working.server.startup(test)  # it runs on while no client is connected
        async with working.connect() as client:
            working.drops += [method] * 3
            assert (await client.tools.call("sleep", {"seconds": 5})).text == "slept 5 s"
            assert working.starts == ["sleep"]
            assert working.drops == []
        await working.server.shutdown(test)

    test()


@on_fake_clock
async def test_a_lost_call_of_another_tool_is_not_sent_again() -> None:
    """G23: only calls that the server keeps are sent again."""
    working = Working()
    async with working.connect() as client:
        working.drops.append("tools/call")
        with pytest.raises(OutcomeUnknownError):
            await client.tools.call("plain")
        assert working.starts == ["plain"]
        working.drops.append("tools/call")
        with pytest.raises(OutcomeUnknownError):
            await client.tools.call("sleep", {"seconds": 1}, wait_for_ready=False)


@on_fake_clock
async def test_a_call_whose_responses_are_lost_is_sent_again_less_and_less_often() -> None:
    """A proxy without a server responds to every attempt at once: the client must not send thousands of them."""
    working = Working()
    loop, sent_at = asyncio.get_running_loop(), []

    async def lose(ctx: Context, call_next: Any) -> bytes:
        if ctx.method == "tools/call":
            sent_at.append(loop.time())
            raise JsonRpcError(-32603, "bad gateway")
        result: bytes = await call_next()
        return result

    working.server.add_middleware(lose)
    async with working.connect() as client:
        submit = client.tools._tasks._requests.request

        async def request(*arguments: Any, **options: Any) -> Any:
            assert len(sent_at) < 100
            try:
                return await submit(*arguments, **options)
            except JsonRpcError as error:
                raise OutcomeUnknownError("HTTP 502: the server or a proxy failed") from error

        client.tools._tasks._requests.request = request  # type: ignore[method-assign]
        with pytest.raises(TimeoutError) as late:
            await client.tools.call("sleep", {"seconds": 1}, timeout=10)
        assert late.value.may_have_run
    pauses = [after - before for before, after in pairwise(sent_at)]
    assert pauses[:3] == pytest.approx([0.02, 0.04, 0.08], abs=0.01)
    assert pauses[-1] == pytest.approx(1.0, abs=0.01)
    assert len(sent_at) < 20


class Unreliable(LoopStore):
    """A store that fails while it is down."""

    is_down = False

    async def load(self, id: str) -> Any:
        if self.is_down:
            raise ConnectionError("down")
        return await super().load(id)


@on_fake_clock
async def test_an_outage_of_the_store_does_not_end_the_wait() -> None:
    store = Unreliable()
    async with Working(Tasks(store)).connect() as client:
        call = asyncio.ensure_future(client.tools.call("sleep", {"seconds": 15}))
        await asyncio.sleep(2)
        store.is_down = True
        await asyncio.sleep(5)
        store.is_down = False
        assert (await call).text == "slept 15 s"


@on_fake_clock
async def test_a_server_without_the_task_makes_its_outcome_unknown() -> None:
    working = Working()

    async def refuse(ctx: Context, call_next: Any) -> bytes:
        if ctx.method == "tasks/get":
            raise JsonRpcError(-32601, "no such method")
        result: bytes = await call_next()
        return result

    working.server.add_middleware(refuse)
    async with working.connect() as client:
        with pytest.raises(OutcomeUnknownError, match="refused a request about task"):
            await client.tools.call("sleep", {"seconds": 1})


@pytest.mark.parametrize(
    ("data", "expected"), [(None, JsonRpcError), ({"retryable": True, "mayHaveRun": False}, OutcomeUnknownError)]
)
def test_a_call_that_is_sent_again_and_refused(data: Any, expected: type[McpError]) -> None:
    """G23: the error of the second attempt is that of the call, unless it states that this attempt did not run."""

    @on_fake_clock
    async def test() -> None:
        working = Working()
        is_lost = False

        async def lose(ctx: Context, call_next: Any) -> bytes:
            nonlocal is_lost
            if ctx.method == "tools/call":
                if is_lost:
                    raise JsonRpcError(-32000, "maintenance", data)
                is_lost = True
                working.disconnect()
            result: bytes = await call_next()
            return result

        working.server.add_middleware(lose)
        async with working.connect() as client:
            with pytest.raises(expected) as refused:
                await client.tools.call("sleep", {"seconds": 1})
            assert refused.value.may_have_run is not False

    test()


@on_fake_clock
async def test_a_call_that_times_out_or_is_cancelled_cancels_its_task() -> None:
    """G22: a call ends at its deadline."""
    working = Working()
    async with working.connect() as client:
        with pytest.raises(TimeoutError) as late:
            await client.tools.call("sleep", {"seconds": 1000}, timeout=10)
        assert late.value.may_have_run
        call = asyncio.ensure_future(client.tools.call("sleep", {"seconds": 1000}, timeout=500))
        await asyncio.sleep(5)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await asyncio.sleep(1)
        states = {row.state for row in working.store._records.values()}
        assert states == {"cancelled"}


@on_fake_clock
async def test_a_handle_outlives_its_wait_and_its_client() -> None:
    working = Working()
    async with working.connect() as client:
        handle = await client.tools.start("sleep", {"seconds": 100})
        assert await handle.status() == "working"
        assert "sleep" in repr(handle)
        with pytest.raises(TimeoutError):
            await handle.result(timeout=5)
        assert working.starts == ["sleep"]
        async with working.connect() as other:
            again = other.tasks.attach(handle.id, "sleep")
            assert (await again).text == "slept 100 s"
            assert (await again.result()).text == "slept 100 s"
        assert await handle.status() == "completed"
        done = await client.tools.start("plain")
        assert (done.id, await done.status(), (await done).text) == ("", "completed", "plain")
        await done.cancel()
        assert (await (await client.tools.start("count", {"to": 3}))).data == 3
        broken = await client.tools.start("fail", {"how": "tool"})
        assert (await broken.result(raise_on_error=False)).is_error
        with pytest.raises(ToolCallError):
            await broken


@on_fake_clock
async def test_a_cancelled_or_lost_task_has_no_known_outcome() -> None:
    """G24: the worker died, the task was cancelled, or the server has forgotten it."""
    working = Working(Tasks(store := LoopStore(), ttl=100))
    async with working.connect() as client:
        cancelled = await client.tools.start("sleep", {"seconds": 1000})
        await cancelled.cancel()
        with pytest.raises(OutcomeUnknownError, match="was cancelled"):
            await cancelled
        lost = await client.tools.start("sleep", {"seconds": 1000})
        await asyncio.sleep(1)
        record = await store.load(lost.id)
        assert record is not None
        given_up = rules.lose(record, record.due_at)
        assert given_up is not None
        assert await store.replace(given_up)
        with pytest.raises(OutcomeUnknownError, match="worker that ran the task was lost"):
            await lost
        expired = await client.tools.start("sleep", {"seconds": 1})
        await asyncio.sleep(200)
        with pytest.raises(OutcomeUnknownError, match="does not know task"):
            await expired


@on_fake_clock
async def test_a_client_that_is_closed_ends_the_wait() -> None:
    client = Working().connect()
    await client.open()
    handle = await client.tools.start("sleep", {"seconds": 1000})
    waiting = asyncio.ensure_future(handle.result())
    await asyncio.sleep(5)
    await client.stop()
    with pytest.raises(ClosedError) as ended:
        await waiting
    assert ended.value.may_have_run


async def test_another_process_finds_the_tasks_of_the_log(tmp_path: Path) -> None:
    """G25: the id of a task is stored before anything is awaited."""
    working, log = Working(), FileTaskLog(tmp_path / "tasks.log")
    async with working.connect(task_log=log) as client:
        handle = await client.tools.start("sleep", {"seconds": 0})
        await client.tools.call("sleep", {"seconds": 0})
        assert [row.id for row in log.pending()] == [handle.id]
    async with working.connect(task_log=FileTaskLog(tmp_path / "tasks.log")) as client:
        (found,) = await client.tasks.pending()
        assert (found.id, found.tool, (await found).text) == (handle.id, "sleep", "slept 0 s")
        assert await client.tasks.pending() == []
    async with working.connect(name="other", task_log=log) as client:
        log.began(LoggedTask("x", "working", "sleep"))
        assert await client.tasks.pending() == []
    async with working.connect() as client:
        assert await client.tasks.pending() == []


@on_fake_clock
async def test_the_extension_is_declared_only_to_servers_that_have_it() -> None:
    """A call to a server without tasks has the same frame as before."""
    seen: list[Any] = []

    async def note(ctx: Context, call_next: Any) -> bytes:
        seen.append(ctx.client_capabilities.extensions)
        result: bytes = await call_next()
        return result

    server = Server("plain", middleware=note)

    @server.tool
    async def echo() -> str:
        return "echo"

    async with connect(server) as client:
        await client.tools.call("echo")
    working = Working()
    working.server.add_middleware(note)
    async with working.connect() as client:
        await client.tools.call("plain")
    async with working.connect(capabilities={}) as client:
        await client.tools.call("sleep", {"seconds": 1})
    assert seen == [None, {"io.modelcontextprotocol/tasks": {}}, None]


@on_fake_clock
async def test_a_task_without_an_outcome_is_a_protocol_error() -> None:
    class Empty(Tasks):
        def _members(self, record: Any) -> dict[str, Any]:
            status = {} if record.state == "queued" else {"status": "cancelled" if record.is_cancelled else "failed"}
            return {**super()._members(record), **status}

    working = Working(Empty(LoopStore()))
    async with working.connect() as client:
        with pytest.raises(ProtocolError, match="is failed, but has no outcome"):
            await client.tools.call("sleep", {"seconds": 5})


@on_fake_clock
async def test_an_extension_completes_results() -> None:
    counting = Extension("com.example/parts", settings={"a": 1})

    @counting.result("parts")
    async def join(client: Client, result: dict[str, Any]) -> dict[str, Any]:
        assert client.state == "ready"
        return {"content": [{"type": "text", "text": "".join(result["parts"])}]}

    offered = Extension("com.example/parts")

    @offered.intercept("tools/call")
    async def split(ctx: Context, call_next: Any) -> bytes:
        if ctx.params["name"] == "whole":
            result: bytes = await call_next()
            return result
        kind = b"parts" if ctx.params["name"] == "split" else b"pieces"
        return b'{"resultType":"%b","parts":["a","b"]}' % kind

    server = Server("parts", extensions=[offered])
    for name in ("split", "whole", "broken"):
        server.tool(name=name, blocking=False)(lambda: "whole")
    async with connect(server, extensions=[counting]) as client:
        assert (await client.tools.call("split")).text == "ab"
        assert (await client.tools.call("whole")).text == "whole"
        with pytest.raises(ProtocolError, match="invalid resultType"):
            await client.tools.call("broken")
    async with connect(server) as client:
        assert (await client.tools.call("split")).text == "whole"


@on_fake_clock
async def test_a_handle_reports_every_state_of_its_task() -> None:
    working = Working()
    async with working.connect() as client:
        handle = await client.tools.start("meet", {})
        seen: list[str] = []

        async def note(task: GetTaskResult) -> None:
            seen.append(task.status)

        assert (await handle.result(on_status=note)).text == "Ada meets Bob"
        assert seen[-1] == "completed"
        assert seen.count("input_required") == 2
        assert not client.tasks._listeners
        slow = await client.tools.start("sleep", {"seconds": 100})
        began_at = asyncio.get_running_loop().time()
        slept = await slow.result(on_status=lambda task: seen.append(task.status))
        assert slept.text == "slept 100 s"
        assert asyncio.get_running_loop().time() - began_at < 101  # by a notification, not by the next poll
