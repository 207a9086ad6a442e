"""Hooks before the first who serves and after the last, whoever that is."""

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
async def test_in_memory_hooks_run_around_each_time_that_it_is_served() -> None:
    server, order = hooked()
    await served_once(server)
    await served_once(server)
    assert order == ["started", "served", "stopped"] * 2


@on_fake_clock
async def test_connections_at_the_same_time_share_them() -> None:
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
async def test_what_a_startup_hook_raises_is_raised_to_all_who_wait_and_nobody_is_served() -> None:
    server, order = hooked()
    failures = [ValueError("not today")]

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
    assert order == ["started", "served", "stopped"], (
        "the hook that failed was tried again, the other was not"
    )


@on_fake_clock
async def test_who_waits_takes_over_from_one_that_is_cancelled() -> None:
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
    assert repr(lifetime) == "<Lifetime of 1 users>"


@on_fake_clock
async def test_one_that_begins_while_hooks_shut_down_waits_for_them() -> None:
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
async def test_a_shutdown_of_nobody_in_particular_ends_it_for_all() -> None:
    server, order = hooked()
    assert await server.startup("one")
    assert await server.startup("two")
    await server.shutdown("one")
    assert order == ["started"]
    await server.shutdown()
    await server.shutdown("two")
    assert order == ["started", "stopped"]


@on_fake_clock
async def test_hooks_share_their_time_and_each_has_a_moment(caplog: pytest.LogCaptureFixture) -> None:
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
        await asyncio.sleep(_lifetime.HOOKS_TIMEOUT / 2)
        order.append("quick")

    assert await server.startup()
    with caplog.at_level(logging.ERROR):
        await server.shutdown()
    assert order == ["slow", "quick"]
    assert "took more than 1 s" in caplog.text


def test_loops_of_several_threads_share_them() -> None:
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
