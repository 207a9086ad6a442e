"""`lifespan=`: entered before the first client, left after the last, in one task; `ctx.state`; `ctx.info()`."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from jackstay import Context, Server, connect, sync
from jackstay.errors import TransportError, UsageError
from jackstay.server._lifespan import Lifespan
from jackstay.testing import run_on_fake_clock
from jackstay.transport import memory_pair
from scripted.asgi import http_client, tool


def server_with(log: list[str], lifespan: Any = None) -> Server:
    @asynccontextmanager
    async def default(server: Server) -> AsyncIterator[dict[str, str]]:
        log.append(f"enter {server.name}")
        async with asyncio.TaskGroup():  # can be left only in the task that entered it
            yield {"pool": "a pool"}
        log.append("leave")

    server = Server("orders", lifespan=lifespan or default)
    server.on_startup(lambda: log.append("startup"))

    @server.on_shutdown
    async def stop() -> None:
        log.append("shutdown")

    @server.tool
    async def state(ctx: Context) -> str:
        return str(ctx.state)

    return server


async def test_the_lifespan_surrounds_the_hooks_and_yields_the_state() -> None:
    log: list[str] = []
    server = server_with(log)
    for _ in range(2):
        async with connect(server) as first, connect(server) as second:
            assert (await first.tools.call("state")).text == "{'pool': 'a pool'}"
            assert (await second.tools.call("state")).text == "{'pool': 'a pool'}"
    assert log == ["enter orders", "startup", "shutdown", "leave"] * 2


async def test_without_a_lifespan_the_state_is_none() -> None:
    server = Server("x")

    @server.tool
    def state(ctx: Context) -> bool:
        return ctx.state is None

    async with connect(server) as client:
        assert (await client.tools.call("state")).text == "true"


async def test_a_lifespan_that_fails_is_reported_and_tried_again() -> None:
    log: list[str] = []
    has_database = False

    @asynccontextmanager
    async def lifespan(server: Server) -> AsyncIterator[None]:
        if not has_database:
            raise ValueError("no database")
        yield

    server = server_with(log, lifespan)
    with pytest.raises(TransportError, match="no database"):
        await connect(server, max_attempts=1).open()
    has_database = True
    async with connect(server) as client:
        assert (await client.tools.call("state")).text == "None"


async def test_a_lifespan_must_be_a_context_manager() -> None:
    async def lifespan(server: Server) -> AsyncIterator[None]:
        yield

    with pytest.raises(TransportError, match=r"decorate it with contextlib\.asynccontextmanager"):
        await connect(server_with([], lifespan), max_attempts=1).open()
    with pytest.raises(UsageError):
        Server("x", lifespan=5)  # type: ignore[arg-type]


def manager_of(log: list[str], waits: asyncio.Event | None = None) -> AbstractAsyncContextManager[int]:
    @asynccontextmanager
    async def manager() -> AsyncIterator[int]:
        try:
            if waits is not None:
                waits.set()
                await asyncio.Event().wait()
            yield 1
            log.append("left")
        except asyncio.CancelledError:
            log.append("cancelled")
            raise

    return manager()


async def unused() -> None:
    raise AssertionError


async def test_cancelling_enter_cancels_the_context_manager() -> None:
    log: list[str] = []
    waits = asyncio.Event()
    entering = asyncio.create_task(Lifespan(lambda: manager_of(log, waits), unused).enter())
    await waits.wait()
    entering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await entering
    assert log == ["cancelled"]


async def test_cancelling_leave_cancels_the_context_manager() -> None:
    ended = asyncio.Event()

    @asynccontextmanager
    async def manager() -> AsyncIterator[None]:
        yield
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    lifespan = Lifespan(manager, unused)
    await lifespan.enter()
    leaving = asyncio.create_task(lifespan.leave())
    await asyncio.sleep(0)
    leaving.cancel()
    await ended.wait()
    await asyncio.wait([leaving])
    await lifespan.leave()  # nothing is left to do


async def test_a_lifespan_that_fails_while_the_server_runs_is_logged_at_once(caplog: pytest.LogCaptureFixture) -> None:
    must_fail, has_failed = asyncio.Event(), asyncio.Event()

    async def watch() -> None:
        await must_fail.wait()
        raise ValueError("the pool died")

    @asynccontextmanager
    async def manager() -> AsyncIterator[None]:
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(watch())
                yield
        finally:
            has_failed.set()

    lifespan = Lifespan(manager, unused)
    await lifespan.enter()
    must_fail.set()
    await has_failed.wait()
    await lifespan.leave()
    assert "the lifespan ended while the server runs" in caplog.text
    assert "the pool died" in caplog.text


async def test_it_can_be_left_from_another_event_loop() -> None:
    log: list[str] = []
    lifespan = Lifespan(lambda: manager_of(log), unused)
    await lifespan.enter()
    assert lifespan.state == 1
    thread = threading.Thread(target=asyncio.run, args=(lifespan.leave(),))
    thread.start()
    await asyncio.to_thread(thread.join)
    assert (log, lifespan.state) == (["left"], None)


async def test_log_methods_send_with_and_without_await() -> None:
    server = Server("x")

    @server.tool
    async def talk(ctx: Context) -> None:
        await ctx.debug("one")
        ctx.info({"two": 2})
        await ctx.warning("three", logger="l")
        ctx.error("four")

    seen: list[tuple[Any, Any]] = []
    async with connect(server, versions=("2025-11-25",)) as client:
        client.on_notification(lambda sent: seen.append((sent.params["level"], sent.params["data"])))
        await client.logging.set_level("debug")
        await client.tools.call("talk")
    assert seen == [("debug", "one"), ("info", {"two": 2}), ("warning", "three"), ("error", "four")]


async def in_memory(server: Server) -> str:
    async with connect(server) as client:
        return (await client.tools.call("state")).text


async def in_process(server: Server) -> str:
    return (await server.call_tool("state")).text


async def over_a_pair(server: Server) -> str:
    pair = memory_pair()
    serving = asyncio.create_task(server.serve(pair.server))
    async with connect(pair.client) as client:
        text = (await client.tools.call("state")).text
    await serving
    return text


async def without_asyncio(server: Server) -> str:
    def call() -> str:
        with sync.connect(server) as client:
            return str(client.tools.call("state").text)

    return await asyncio.to_thread(call)


async def over_asgi(server: Server) -> str:
    app = server.asgi()
    async with app.lifespan(), http_client(app) as http:
        text: str = (await http.post(tool("state"))).json["result"]["content"][0]["text"]
        return text


@pytest.mark.parametrize("way", [in_memory, in_process, over_a_pair, without_asyncio, over_asgi])
async def test_the_lifespan_runs_in_every_way_to_test_a_server(way: Callable[[Server], Awaitable[str]]) -> None:
    log: list[str] = []
    assert await way(server_with(log)) == "{'pool': 'a pool'}"
    assert log == ["enter orders", "startup", "shutdown", "leave"]


def test_on_the_fake_clock_the_lifespan_runs_too() -> None:
    log: list[str] = []
    assert run_on_fake_clock(in_memory(server_with(log))) == "{'pool': 'a pool'}"
    assert log == ["enter orders", "startup", "shutdown", "leave"]


def test_a_loop_that_ends_runs_the_shutdown_hooks_before_the_lifespan_is_left() -> None:
    """`asyncio.run()` cancels all tasks, also that of the lifespan."""
    log: list[str] = []

    async def main() -> None:
        assert await server_with(log).startup()

    asyncio.run(main())
    assert log == ["enter orders", "startup", "shutdown", "leave"]
