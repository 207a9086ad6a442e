"""A transport that misbehaves by a seed: each fault happens, the same way every time, and it can heal."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from jackstay.errors import TransportError
from jackstay.testing import Faults, FaultyTarget, FaultyTransport, Recorder, memory_pair, run_on_fake_clock
from jackstay.testing._faulty import RUBBISH
from jackstay.transport import Transport

LIMIT = 1 << 20
Drive = Callable[[FaultyTarget, FaultyTransport, Recorder, Transport, Recorder], Coroutine[Any, Any, None]]


def storm(faults: Faults, drive: Drive, seed: int = 1) -> Recorder:
    """Open a faulty end and a sound one in memory, and let `drive` do things; what the faulty end's owner was told."""

    async def main() -> Recorder:
        pair = memory_pair()
        target = FaultyTarget(pair.client, faults, seed)
        near, far = Recorder(), Recorder()
        transport = await target.open(near, LIMIT, 1.0)
        near.transport = transport
        far.transport = other = await pair.server.open(far, LIMIT, 1.0)
        await drive(target, transport, near, other, far)
        await asyncio.sleep(10)
        await transport.close()
        await other.close()
        return near

    return run_on_fake_clock(main())


async def send_ten(
    target: FaultyTarget, transport: FaultyTransport, near: Recorder, other: Transport, far: Recorder
) -> None:
    for number in range(10):
        assert other.send(b"%d" % number, number + 1)
        await asyncio.sleep(0)


def test_without_faults_it_is_the_transport_behind_it() -> None:
    near = storm(Faults(), send_ten)
    assert near.frames == [b"%d" % number for number in range(10)]
    assert near.ends == []


def test_after_stop_writing_nothing_is_written_nor_room_reported() -> None:
    async def stop(
        target: FaultyTarget, transport: FaultyTransport, near: Recorder, other: Transport, far: Recorder
    ) -> None:
        assert transport.send(b"queued", 1)
        target.faults = Faults(busy=1.0)
        assert not transport.send(b"refused", 2)
        target.faults = Faults()
        transport.stop_writing()
        assert not transport.send(b"late", 3)
        assert not transport.withdraw(1)
        assert not await transport.flush()
        await asyncio.sleep(1)
        assert (far.frames, near.through, near.rooms) == ([], 0, 0)

    storm(Faults(), stop)


def test_frames_come_twice() -> None:
    assert storm(Faults(repeat=1.0), send_ten).frames == [
        b"%d" % number for number in range(10) for _ in range(2)
    ]


def test_rubbish_comes_between() -> None:
    assert storm(Faults(garble=1.0), send_ten).frames[:2] == [RUBBISH, b"0"]


def test_frames_come_late_and_all_of_them() -> None:
    frames = storm(Faults(delay=0.5, longest_delay=5.0), send_ten).frames
    assert frames != [b"%d" % number for number in range(10)]
    assert sorted(map(bytes, frames)) == [b"%d" % number for number in range(10)]  # type: ignore[arg-type]


def test_parts_of_frames_are_lost() -> None:
    async def drive(
        target: FaultyTarget, transport: FaultyTransport, near: Recorder, other: Transport, far: Recorder
    ) -> None:
        for number in range(10):
            assert other.send(b"0123456789", number + 1)

    frames = storm(Faults(truncate=1.0), drive).frames
    assert len(frames) == 10
    for frame in frames:
        assert isinstance(frame, bytes)
        assert 0 < len(frame) < 10
        assert b"0123456789".startswith(frame)


def test_everything_stalls_and_then_flows_in_order() -> None:
    seen: list[int] = []

    async def drive(
        target: FaultyTarget, transport: FaultyTransport, near: Recorder, other: Transport, far: Recorder
    ) -> None:
        await send_ten(target, transport, near, other, far)
        seen.append(len(near.frames))
        assert transport.next_frame() is None

    frames = storm(Faults(stall=1.0, longest_delay=5.0), drive).frames
    assert seen == [0]
    assert frames == [b"%d" % number for number in range(10)]


def test_what_stalls_is_delivered_before_the_end_is_told() -> None:
    async def drive(
        target: FaultyTarget, transport: FaultyTransport, near: Recorder, other: Transport, far: Recorder
    ) -> None:
        await send_ten(target, transport, near, other, far)
        await asyncio.sleep(0)
        await other.close()

    near = storm(Faults(stall=1.0, longest_delay=500.0), drive)
    assert (len(near.frames), near.frames_at_end, len(near.ends)) == (10, 10, 1)


def test_a_cut_is_told_once_and_nothing_comes_after_it() -> None:
    near = storm(Faults(cut=1.0), send_ten)
    assert near.frames == []
    assert [str(error) for error, _, _ in near.ends] == ["cut, by chance"]


def test_the_same_seed_gives_the_same_faults() -> None:
    faults = Faults(repeat=0.3, garble=0.3, delay=0.3)
    assert storm(faults, send_ten, 7).frames == storm(faults, send_ten, 7).frames
    assert storm(faults, send_ten, 7).frames != storm(faults, send_ten, 8).frames


def test_busy_is_followed_by_room() -> None:
    async def drive(
        target: FaultyTarget, transport: FaultyTransport, near: Recorder, other: Transport, far: Recorder
    ) -> None:
        assert not transport.send(b"x", 1)
        await asyncio.sleep(0)
        assert near.rooms == 1
        target.faults = Faults()
        assert transport.send(b"x", 1)
        assert transport.withdraw(1)
        assert transport.send(b"y", 2)
        await asyncio.sleep(1)
        assert far.frames == [b"y"]
        assert near.through == 2

    storm(Faults(busy=1.0), drive)


def test_an_opening_is_refused_until_it_heals() -> None:
    async def main() -> None:
        pair = memory_pair("peer")
        target = FaultyTarget(pair.client, Faults(refuse=1.0), 3)
        assert (target.name, target.init_timeout, repr(target)) == (
            "peer",
            None,
            "<FaultyTarget peer seed=3>",
        )
        with pytest.raises(TransportError, match="refused, by chance"):
            await target.open(Recorder(), LIMIT, 1.0)
        target.faults = Faults()
        await (await target.open(Recorder(), LIMIT, 1.0)).close()

    run_on_fake_clock(main())


def test_after_its_end_it_takes_and_tells_nothing() -> None:
    async def drive(
        target: FaultyTarget, transport: FaultyTransport, near: Recorder, other: Transport, far: Recorder
    ) -> None:
        target.faults = Faults(delay=1.0, longest_delay=9.0)
        assert other.send(b"late", 1)
        await asyncio.sleep(0.01)
        await transport.close()
        assert not transport.send(b"x", 1)
        transport.wrote(1)
        transport.room_made()
        transport.went_down(TransportError("x"), None, True)

    near = storm(Faults(), drive)
    assert (near.frames, near.through, near.rooms, near.ends) == ([], 0, 0, [])


def test_the_end_of_the_transport_behind_it_is_passed_on() -> None:
    async def drive(
        target: FaultyTarget, transport: FaultyTransport, near: Recorder, other: Transport, far: Recorder
    ) -> None:
        await other.close()
        await asyncio.sleep(1)
        assert len(near.ends) == 1

    storm(Faults(), drive)


def test_room_is_passed_on() -> None:
    async def drive(
        target: FaultyTarget, transport: FaultyTransport, near: Recorder, other: Transport, far: Recorder
    ) -> None:
        transport.room_made()
        assert near.rooms == 1
        near.rooms = 0
        target.faults = Faults(busy=1.0)
        assert not transport.send(b"x", 1)
        assert not transport.send(b"x", 1)
        await asyncio.sleep(0)
        assert near.rooms == 1  # once for both

    storm(Faults(), drive)


def test_a_flush_waits_until_room_is_told_after_a_refusal_by_chance() -> None:
    async def drive(
        target: FaultyTarget, transport: FaultyTransport, near: Recorder, other: Transport, far: Recorder
    ) -> None:
        target.faults = Faults(busy=1.0)
        assert not transport.send(b"x", 1)
        assert await transport.flush()
        assert near.rooms == 1
        await transport.close()
        assert not await transport.flush()

    storm(Faults(), drive)
