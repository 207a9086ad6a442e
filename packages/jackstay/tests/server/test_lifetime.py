"""Startup and shutdown hooks: before the first user of a server and after the last."""

import asyncio
import logging
import threading

import pytest

from jackstay import connect
from jackstay.server import Server, _lifetime
from jackstay.server._lifetime import Lifetime
from jackstay.testing import memory_pair, on_fake_clock


def hooked() -> tuple[Server, list[str]]:
    server, order = Server("x"), list[str]()
    server.tool(name="echo", blocking=False)(lambda: order.append("served"))
    server.on_startup(lambda: order.append("started"))

    @server.on_shutdown
    async def stop() -> None:
        order.append("stopped")

    return server, order


async def served_once(server: Server) -> None:
    pair = memory_pair()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(server.serve(pair.server))
        async with connect(pair.client) as client:
            await client.tools.call("echo")


@on_fake_clock
async def test_hooks_run_each_time_that_the_server_is_served() -> None:
    server, order = hooked()
    await served_once(server)
    await served_once(server)
    assert order == ["started", "served", "stopped"] * 2


@on_fake_clock
async def test_concurrent_connections_share_the_hooks() -> None:
    server, order = hooked()
    started = asyncio.Event()

    @server.on_startup
    async def wait() -> None:
        await started.wait()

    together = asyncio.gather(*(served_once(server) for _ in range(3)))
    await asyncio.sleep(0)
    started.set()
    await together
    assert order == ["started", *["served"] * 3, "stopped"]


@on_fake_clock
async def test_an_exception_of_a_startup_hook_is_raised_to_all_waiting_users() -> None:
    server, order = hooked()
    failures = [ValueError("not available")]

    @server.on_startup
    async def fail_once() -> None:
        await asyncio.sleep(0)
        if failures:
            raise failures.pop()

    serving = [asyncio.ensure_future(server.serve(memory_pair().server)) for _ in range(2)]
    for failed in await asyncio.gather(*serving, return_exceptions=True):
        assert isinstance(failed, ValueError)
    assert order == ["started"]
    await served_once(server)
    assert order == ["started", "served", "stopped"], "only the hook that failed was called again"


@on_fake_clock
async def test_a_waiting_user_runs_the_hooks_if_the_first_one_is_cancelled() -> None:
    lifetime, began = Lifetime(), list[int]()

    async def start() -> None:
        began.append(1)
        await asyncio.sleep(len(began) == 1)

    lifetime.startup_hooks.append(start)
    first = asyncio.ensure_future(lifetime.enter("first"))
    await asyncio.sleep(0.5)
    second = asyncio.ensure_future(lifetime.enter("second"))
    await asyncio.sleep(0)
    first.cancel()
    assert await second
    assert first.cancelled()
    assert began == [1, 1]


@on_fake_clock
async def test_a_new_user_waits_for_running_shutdown_hooks() -> None:
    server, order = hooked()

    @server.on_shutdown
    async def slowly() -> None:
        await asyncio.sleep(1)
        order.append("closed")

    assert await server.startup("first")
    ending = asyncio.ensure_future(server.shutdown("first"))
    await asyncio.sleep(0.5)
    assert await server.startup("second")
    await asyncio.gather(ending, server.shutdown("second"))
    assert order == ["started", "stopped", "closed"] * 2


@on_fake_clock
async def test_a_shutdown_without_a_user_is_for_all_users() -> None:
    server, order = hooked()
    assert await server.startup("first")
    assert await server.startup("second")
    await server.shutdown("first")
    assert order == ["started"]
    await server.shutdown()
    await server.shutdown("second")
    assert order == ["started", "stopped"]


@on_fake_clock
async def test_hooks_share_a_timeout_and_each_has_a_minimum(caplog: pytest.LogCaptureFixture) -> None:
    server, order = Server("x", shutdown_timeout=3), list[str]()

    @server.on_shutdown
    async def slow() -> None:
        await asyncio.sleep(2)
        order.append("slow")

    @server.on_shutdown
    async def too_slow() -> None:
        await asyncio.sleep(2)
        order.append("never")

    @server.on_shutdown
    async def quick() -> None:
        await asyncio.sleep(_lifetime.MIN_HOOK_TIMEOUT / 2)
        order.append("quick")

    assert await server.startup()
    with caplog.at_level(logging.ERROR):
        await server.shutdown()
    assert order == ["slow", "quick"]
    assert "took more than the 1 s left of Server(shutdown_timeout=...)" in caplog.text


def test_event_loops_of_several_threads_share_the_hooks() -> None:
    server, order = hooked()
    inside, gate = threading.Barrier(3), threading.Event()

    async def serve(user: str) -> None:
        assert await server.startup(user)
        inside.wait(60)
        gate.wait(60)
        await server.shutdown(user)

    threads = [threading.Thread(target=asyncio.run, args=(serve(user),)) for user in ("a", "b")]
    for thread in threads:
        thread.start()
    inside.wait(60)
    assert order == ["started"]
    gate.set()
    for thread in threads:
        thread.join(60)
    assert order == ["started", "stopped"]
