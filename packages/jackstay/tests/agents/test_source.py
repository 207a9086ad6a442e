"""The tools of a server for agents: opened once, used from any event loop or thread."""

import asyncio
import logging
import sys
import threading
from pathlib import Path

import pytest

from jackstay import (
    ClosedError,
    Context,
    Fleet,
    Server,
    StateError,
    ToolError,
    TransportError,
    UsageError,
    connect,
    stdio,
    sync,
)
from jackstay.agents import CallEvent, ToolSource

# A wait that ends here has failed.
GUARD = 60.0
# A server as a program.
SHOP = """
from jackstay import Server

server = Server("shop")

@server.tool
def add(a: int, b: int) -> int:
    return a + b

server.run()
"""


def make_server() -> Server:
    server = Server("shop")

    @server.tool(read_only=True)
    def add(a: int, b: int) -> dict[str, int]:
        """Add."""
        return {"sum": a + b}

    @server.tool(name="shelf.fail")
    def fail() -> str:
        raise ToolError("empty")

    @server.tool
    async def work(ctx: Context) -> str:
        ctx.progress(1, 2, "half")
        for level in ("debug", "info", "notice", "alert"):
            ctx.log(level, level)
        return threading.current_thread().name

    return server


async def test_tools_have_names_and_schemas_for_models() -> None:
    async with ToolSource(make_server()) as source:
        tools = {tool.tool.name: tool for tool in await source.list_tools()}
    assert list(tools) == ["add", "shelf.fail", "work"]
    assert tools["add"].description == "Add."
    assert tools["add"].annotations == {"readOnlyHint": True}
    assert tools["work"].annotations is None
    renamed = tools["shelf.fail"]
    assert renamed.name.startswith("shelf_fail_")
    assert renamed.to_json() == {"name": renamed.name, "inputSchema": renamed.parameters}
    assert renamed.parameters["properties"] == {}


async def test_only_selects_tools() -> None:
    async with ToolSource(make_server(), only=lambda tool: tool.name == "add") as source:
        assert [tool.name for tool in await source.list_tools()] == ["add"]
        assert "unknown tool 'work'" in (await source.call("work", {})).text


async def test_results_and_errors_are_outcomes() -> None:
    async with ToolSource(make_server()) as source:
        failed = next(tool.name for tool in await source.list_tools() if tool.tool.name == "shelf.fail")
        outcome = await source.call("add", {"a": 1, "b": 2})
        assert outcome.result is not None
        assert outcome.result.structured_content == {"sum": 3}
        assert [(await source.call(failed, {})).text, (await source.call(failed, {})).is_error] == ["empty", True]


async def test_a_connection_of_its_own_runs_on_another_thread() -> None:
    async with ToolSource(make_server()) as source:
        assert "jackstay" in (await source.call("work", {})).text
    assert not any(thread.name == "jackstay-sync" for thread in threading.enumerate())


def test_it_can_be_used_without_an_event_loop_and_from_several() -> None:
    with ToolSource(make_server()) as source:
        assert len(source.wait_list_tools()) == 3
        assert source.wait_call("add", {"a": 1, "b": 2}).text == '{"sum":3}'
        for _ in range(2):
            assert asyncio.run(source.call("add", {"a": 1, "b": 2})).text == '{"sum":3}'


async def test_an_open_client_stays_on_its_event_loop_and_open() -> None:
    async with connect(make_server()) as client:
        async with ToolSource(client) as source:
            assert (await source.call("add", {"a": 1, "b": 2})).text == '{"sum":3}'
            with pytest.raises(StateError, match="would wait forever"):
                source.wait_list_tools()
            # From other threads, with an event loop and without.
            assert len(await asyncio.to_thread(source.wait_list_tools)) == 3
            assert len(await asyncio.to_thread(lambda: asyncio.run(source.list_tools()))) == 3
            with pytest.raises(UsageError):
                await asyncio.to_thread(source.wait_call, "add", {}, timeout="soon")
        assert client.state == "ready"


def test_an_open_blocking_client_is_used() -> None:
    with sync.connect(make_server()) as client:
        with ToolSource(client) as source:
            assert source.wait_call("add", {"a": 1, "b": 2}).text == '{"sum":3}'
        assert client.state == "ready"


async def test_a_fleet_is_opened_and_closed() -> None:
    fleet = Fleet({"one": make_server(), "two": make_server()})
    async with ToolSource(fleet) as source:
        assert source.name == "one, two"
        assert (await source.call("two__add", {"a": 1, "b": 2})).text == '{"sum":3}'
        with pytest.raises(UsageError, match="prompts/list needs one server"):
            await source.request("prompts/list")
    assert fleet.states == {"one": "closed", "two": "closed"}


async def test_any_request_can_be_sent_to_one_server() -> None:
    async with ToolSource(make_server()) as source:
        assert len((await source.request("tools/list"))["tools"]) == 3


async def test_events_of_a_call_arrive_in_order_on_the_loop_of_the_caller(caplog: pytest.LogCaptureFixture) -> None:
    events: list[CallEvent] = []
    loop = asyncio.get_running_loop()

    async def on_event(event: CallEvent) -> None:
        assert asyncio.get_running_loop() is loop
        events.append(event)
        if event.kind == "progress":
            raise RuntimeError("a mistake of the program")

    with caplog.at_level(logging.INFO, "jackstay.agents"):
        async with ToolSource(make_server()) as source:
            await source.call("work", {}, on_event)
            await source.call("work", {})
    assert events[0] == CallEvent("progress", {"progress": 1, "total": 2, "message": "half"})
    assert [event.data["data"] for event in events[1:]] == ["info", "notice", "alert"]
    logged = [(record.levelname, record.getMessage()) for record in caplog.records if record.name == "jackstay.agents"]
    assert logged.count(("CRITICAL", "shop: alert")) == 2
    assert ("ERROR", "a callback for progress events raised an exception") in logged


def test_events_of_a_blocking_call_arrive_on_the_thread_of_the_connection() -> None:
    threads: list[str] = []
    with ToolSource(make_server()) as source:
        source.wait_call("work", {}, lambda event: threads.append(threading.current_thread().name))
    assert threads == ["jackstay-sync"] * 4


async def test_a_cancelled_call_is_cancelled_at_the_server() -> None:
    server = Server("slow")
    started, cancelled = threading.Event(), threading.Event()

    @server.tool
    async def wait() -> str:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return "never"

    async def on_event(event: CallEvent) -> None:
        raise AssertionError

    async with ToolSource(server) as source:
        for handler in (None, on_event):
            started.clear()
            cancelled.clear()
            call = asyncio.create_task(source.call("wait", {}, handler))
            assert await asyncio.to_thread(started.wait, GUARD)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert await asyncio.to_thread(cancelled.wait, GUARD)


async def test_options_belong_to_the_connection() -> None:
    with pytest.raises(UsageError, match="'keepalive' is an option of Client"):
        ToolSource(connect(make_server()), keepalive=1)
    with pytest.raises(TypeError, match="time_out"):
        ToolSource(make_server(), time_out=1)
    source = ToolSource(make_server(), request_timeout=0.5)
    assert repr(source) == "<ToolSource of <Client shop new>>"


async def test_a_server_that_cannot_be_started_leaves_nothing_running() -> None:
    source = ToolSource(stdio("/nonexistent/program"))
    with pytest.raises(TransportError):
        await source.open()
    with pytest.raises(TransportError):
        ToolSource(stdio("/nonexistent/program")).wait_open()
    assert not any(thread.name == "jackstay-sync" for thread in threading.enumerate())


def test_it_can_be_closed_twice() -> None:
    """Frameworks close a source whose `open()` failed; the event loop of the portal has ended meanwhile."""
    source = ToolSource(stdio("/nonexistent/program"))
    with pytest.raises(TransportError):
        source.wait_open()
    source.wait_close()
    source = ToolSource(connect(make_server()))
    source.wait_open()
    source.wait_close()
    source.wait_close()
    with pytest.raises(StateError):
        source.wait_open()


async def test_it_can_be_opened_again(tmp_path: Path) -> None:
    """Frameworks open a source at each use until that succeeds, and again after they closed it."""
    program = tmp_path / "server.py"
    source = ToolSource(stdio(sys.executable, program), open_timeout=GUARD)
    failures = await asyncio.gather(source.open(), source.open(), return_exceptions=True)
    assert [type(failure) for failure in failures] == [TransportError, TransportError]
    with pytest.raises(TransportError):
        await asyncio.to_thread(source.wait_open)
    program.write_text(SHOP, encoding="utf-8")
    async with source:
        assert [tool.name for tool in await source.list_tools()] == ["add"]
    with source:
        assert source.wait_call("add", {"a": 1, "b": 2}).text == "3"
    assert not any(thread.name == "jackstay-sync" for thread in threading.enumerate())


async def test_a_failed_attempt_does_not_close_a_later_one() -> None:
    """Another task may have opened the source again before the task of the failed attempt cleans up."""
    async with ToolSource(make_server()) as source:
        failed = asyncio.get_running_loop().create_task(asyncio.sleep(0))
        await source._run(source._close, failed)
        source._unregister()
        assert len(await source.list_tools()) == 3
        await failed


async def test_the_last_list_is_used_while_the_server_cannot_be_reached(caplog: pytest.LogCaptureFixture) -> None:
    async with connect(make_server(), request_timeout=GUARD) as client:
        source = ToolSource(client)
        listed = await source.list_tools()
        await client.stop()
        assert await source.list_tools() == listed
        assert "the last list is used" in caplog.text
        fresh = ToolSource(client)
        with pytest.raises(ClosedError):
            await fresh.list_tools()
