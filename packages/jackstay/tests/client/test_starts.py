"""Slots for starts: bounded, one for each server, returned whatever happens."""

import asyncio

import pytest

from jackstay.client._starts import PacedTarget, Starts
from jackstay.errors import TransportError
from jackstay.testing import on_fake_clock
from peers.answering import Answering, with_tools


@on_fake_clock
async def test_a_start_waits_until_another_is_ready_or_has_failed() -> None:
    starts = Starts(1)
    for state in ("ready", "backoff", "closing", "closed"):
        await starts.take("a")
        await starts.take("a")  # it has one
        other = asyncio.ensure_future(starts.take("b"))
        for kept in ("starting", "initializing"):
            starts.changed("a", kept)
        await asyncio.sleep(1)
        assert not other.done()
        starts.changed("a", state)
        await other
        starts.changed("b", state)
        starts.changed("b", state)  # returned once
    assert not starts._slots.locked()


@on_fake_clock
async def test_a_slot_is_kept_for_all_attempts_of_an_opening() -> None:
    starts = Starts(1)

    async def open_in_vain() -> None:
        async with starts.opening("a"):
            for _ in range(2):
                try:
                    async with starts.spawning("a"):
                        raise TransportError("no")
                except TransportError:
                    starts.changed("a", "backoff")
                assert starts._slots.locked()
            raise TransportError("no")

    with pytest.raises(TransportError):
        await open_in_vain()
    assert not starts._slots.locked()


@on_fake_clock
async def test_a_start_that_is_given_up_returns_its_slot_when_it_has_ended() -> None:
    starts = Starts(1)

    async def spawn(seconds: float) -> None:
        async with starts.spawning("a"):
            await asyncio.sleep(seconds)

    cancelled = asyncio.ensure_future(spawn(10))
    await asyncio.sleep(1)
    starts.changed("a", "backoff")
    cancelled.cancel()
    assert starts._slots.locked(), "it has not ended yet"
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    assert not starts._slots.locked()
    late = asyncio.ensure_future(spawn(10))  # a process that is made after nobody wants it any more
    await asyncio.sleep(1)
    starts.changed("a", "backoff")
    await late
    assert not starts._slots.locked()
    await spawn(1)
    assert starts._slots.locked(), "it is there, and becomes ready"
    starts.changed("a", "ready")
    assert not starts._slots.locked()


@on_fake_clock
async def test_who_is_cancelled_while_waiting_has_no_slot() -> None:
    starts = Starts(1)
    await starts.take("a")
    waiting = asyncio.ensure_future(starts.take("b"))
    await asyncio.sleep(1)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    starts.give_back("a")
    starts.give_back("b")
    await starts.take("c")
    assert starts._slots.locked()


@on_fake_clock
async def test_a_paced_target_is_the_target_but_for_the_wait() -> None:
    starts = Starts(1)
    target: Answering = with_tools("one", "add")
    paced = PacedTarget(target, "server", starts)
    assert (paced.name, paced.is_http, paced.init_timeout) == ("one", False, 10.0)
    assert repr(paced).startswith("<PacedTarget <")
    await starts.take("other")
    opening = asyncio.ensure_future(paced.open(target, 1024, 1.0))  # type: ignore[arg-type]  # an owner of some kind
    await asyncio.sleep(1)
    assert target.opened == 0
    starts.give_back("other")
    transport = await opening
    assert target.opened == 1
    await transport.close()
