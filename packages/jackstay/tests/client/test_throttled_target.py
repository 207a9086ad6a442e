"""The slots of starting servers: limited, one per server, always released."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from jackstay.client._throttled_target import ThrottledTarget
from jackstay.errors import TransportError
from jackstay.testing import on_fake_clock
from peers.in_memory_server import InMemoryServer, with_tools


class _Server:
    """A target that starts as `spawn` does."""

    is_http = False
    init_timeout = None

    def __init__(self, spawn: Callable[[], Awaitable[Any]] = lambda: asyncio.sleep(0)) -> None:
        self.name = "server"
        self._spawn = spawn

    async def open(self, *_: object) -> Any:
        return await self._spawn()


async def _start(target: ThrottledTarget) -> None:
    await target.open(None, 1024, 1.0)  # type: ignore[arg-type]  # no handler


@on_fake_clock
async def test_a_start_waits_until_another_is_ready_or_has_failed() -> None:
    slots = asyncio.Semaphore(1)
    first, second = ThrottledTarget(_Server(), slots), ThrottledTarget(_Server(), slots)
    for state in ("ready", "backoff", "closing", "closed"):
        await _start(first)
        await _start(first)  # it has a slot already
        other = asyncio.ensure_future(_start(second))
        for starting in ("starting", "initializing"):
            first.on_state(starting)
        await asyncio.sleep(1)
        assert not other.done()
        first.on_state(state)
        await other
        second.on_state(state)
        second.on_state(state)  # released once
    assert not slots.locked()
    await slots.acquire()
    assert slots.locked()


@on_fake_clock
async def test_a_slot_is_kept_for_all_attempts_of_an_opening() -> None:
    async def fail() -> None:
        raise TransportError("no")

    slots = asyncio.Semaphore(1)
    target = ThrottledTarget(_Server(fail), slots)

    async def fail_to_open() -> None:
        async with target.opening():
            for _ in range(2):
                try:
                    await _start(target)
                except TransportError:
                    target.on_state("backoff")
                assert slots.locked()
            raise TransportError("no")

    with pytest.raises(TransportError):
        await fail_to_open()
    assert not slots.locked()


@on_fake_clock
async def test_an_abandoned_start_releases_its_slot_when_it_has_ended() -> None:
    slots = asyncio.Semaphore(1)
    target = ThrottledTarget(_Server(lambda: asyncio.sleep(10)), slots)
    cancelled = asyncio.ensure_future(_start(target))
    await asyncio.sleep(1)
    target.on_state("backoff")
    cancelled.cancel()
    assert slots.locked(), "it has not ended yet"
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    assert not slots.locked()
    late = asyncio.ensure_future(_start(target))  # a process that is spawned after the start was abandoned
    await asyncio.sleep(1)
    target.on_state("backoff")
    await late
    assert not slots.locked()
    await _start(target)
    assert slots.locked(), "it is spawned and becomes ready"
    target.on_state("ready")
    assert not slots.locked()


@on_fake_clock
async def test_a_cancelled_waiter_has_no_slot() -> None:
    slots = asyncio.Semaphore(1)
    first, second = ThrottledTarget(_Server(), slots), ThrottledTarget(_Server(), slots)
    await _start(first)
    waiting = asyncio.ensure_future(_start(second))
    await asyncio.sleep(1)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    first.on_state("ready")
    second.on_state("ready")
    await slots.acquire()
    assert slots.locked()


@on_fake_clock
async def test_a_throttled_target_delegates_after_the_wait() -> None:
    slots = asyncio.Semaphore(1)
    target: InMemoryServer = with_tools("one", "add")
    throttled = ThrottledTarget(target, slots)
    assert (throttled.name, throttled.is_http, throttled.init_timeout) == ("one", False, 10.0)
    assert repr(throttled).startswith("<ThrottledTarget <")
    await slots.acquire()
    opening = asyncio.ensure_future(throttled.open(target, 1024, 1.0))  # type: ignore[arg-type]  # any handler
    await asyncio.sleep(1)
    assert target.opened == 0
    slots.release()
    transport = await opening
    assert target.opened == 1
    await transport.close()
