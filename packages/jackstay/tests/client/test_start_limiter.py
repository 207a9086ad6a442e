"""The slots of starting servers: limited, one per server, always released."""

import asyncio

import pytest

from jackstay.client._start_limiter import StartLimiter, ThrottledTarget
from jackstay.errors import TransportError
from jackstay.testing import on_fake_clock
from peers.in_memory_server import InMemoryServer, with_tools


@on_fake_clock
async def test_a_start_waits_until_another_is_ready_or_has_failed() -> None:
    limiter = StartLimiter(1)
    for state in ("ready", "backoff", "closing", "closed"):
        await limiter.acquire("a")
        await limiter.acquire("a")  # it has one already
        other = asyncio.ensure_future(limiter.acquire("b"))
        for starting in ("starting", "initializing"):
            limiter.on_state("a", starting)
        await asyncio.sleep(1)
        assert not other.done()
        limiter.on_state("a", state)
        await other
        limiter.on_state("b", state)
        limiter.on_state("b", state)  # released once
    assert not limiter._slots.locked()


@on_fake_clock
async def test_a_slot_is_kept_for_all_attempts_of_an_opening() -> None:
    limiter = StartLimiter(1)

    async def fail_to_open() -> None:
        async with limiter.opening("a"):
            for _ in range(2):
                try:
                    async with limiter.spawning("a"):
                        raise TransportError("no")
                except TransportError:
                    limiter.on_state("a", "backoff")
                assert limiter._slots.locked()
            raise TransportError("no")

    with pytest.raises(TransportError):
        await fail_to_open()
    assert not limiter._slots.locked()


@on_fake_clock
async def test_an_abandoned_start_releases_its_slot_when_it_has_ended() -> None:
    limiter = StartLimiter(1)

    async def spawn(seconds: float) -> None:
        async with limiter.spawning("a"):
            await asyncio.sleep(seconds)

    cancelled = asyncio.ensure_future(spawn(10))
    await asyncio.sleep(1)
    limiter.on_state("a", "backoff")
    cancelled.cancel()
    assert limiter._slots.locked(), "it has not ended yet"
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    assert not limiter._slots.locked()
    late = asyncio.ensure_future(spawn(10))  # a process that is spawned after the start was abandoned
    await asyncio.sleep(1)
    limiter.on_state("a", "backoff")
    await late
    assert not limiter._slots.locked()
    await spawn(1)
    assert limiter._slots.locked(), "it is spawned and becomes ready"
    limiter.on_state("a", "ready")
    assert not limiter._slots.locked()


@on_fake_clock
async def test_a_cancelled_waiter_has_no_slot() -> None:
    limiter = StartLimiter(1)
    await limiter.acquire("a")
    waiting = asyncio.ensure_future(limiter.acquire("b"))
    await asyncio.sleep(1)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    limiter.release("a")
    limiter.release("b")
    await limiter.acquire("c")
    assert limiter._slots.locked()


@on_fake_clock
async def test_a_throttled_target_delegates_after_the_wait() -> None:
    limiter = StartLimiter(1)
    target: InMemoryServer = with_tools("one", "add")
    throttled = ThrottledTarget(target, "server", limiter)
    assert (throttled.name, throttled.is_http, throttled.init_timeout) == ("one", False, 10.0)
    assert repr(throttled).startswith("<ThrottledTarget <")
    await limiter.acquire("other")
    opening = asyncio.ensure_future(throttled.open(target, 1024, 1.0))  # type: ignore[arg-type]  # any handler
    await asyncio.sleep(1)
    assert target.opened == 0
    limiter.release("other")
    transport = await opening
    assert target.opened == 1
    await transport.close()
