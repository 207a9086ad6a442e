"""The faulty transport: each fault occurs, reproducibly, and faults can be stopped."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from jackstay.errors import TransportError
from jackstay.testing import Faults, FaultyTarget, FaultyTransport, RecordingHandler, memory_pair, run_on_fake_clock
from jackstay.testing._faulty import GARBAGE
from jackstay.transport import Transport

LIMIT = 1 << 20
Drive = Callable[
    [FaultyTarget, FaultyTransport, RecordingHandler, Transport, RecordingHandler], Coroutine[Any, Any, None]
]


def run_with(faults: Faults, drive: Drive, seed: int = 1) -> RecordingHandler:
    """Run `drive` with a faulty and a normal transport. Returns the handler of the faulty one."""

    async def main() -> RecordingHandler:
        pair = memory_pair()
        target = FaultyTarget(pair.client, faults, seed)
        near, far = RecordingHandler(), RecordingHandler()
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
    target: FaultyTarget, transport: FaultyTransport, near: RecordingHandler, other: Transport, far: RecordingHandler
) -> None:
    for number in range(10):
        assert other.send(b"%d" % number, number + 1)
        await asyncio.sleep(0)


def test_without_faults_frames_are_forwarded_unchanged() -> None:
    near = run_with(Faults(), send_ten)
    assert near.frames == [b"%d" % number for number in range(10)]
    assert near.ends == []


def test_after_stop_writing_nothing_is_written_nor_room_reported() -> None:
    async def stop(
        target: FaultyTarget,
        transport: FaultyTransport,
        near: RecordingHandler,
        other: Transport,
        far: RecordingHandler,
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
        assert (far.frames, near.through, near.room_calls) == ([], 0, 0)

    run_with(Faults(), stop)


def test_frames_arrive_twice() -> None:
    assert run_with(Faults(repeat=1.0), send_ten).frames == [b"%d" % number for number in range(10) for _ in range(2)]


def test_garbage_arrives_between_frames() -> None:
    assert run_with(Faults(garble=1.0), send_ten).frames[:2] == [GARBAGE, b"0"]


def test_delayed_frames_all_arrive() -> None:
    frames = run_with(Faults(delay=0.5, max_delay=5.0), send_ten).frames
    assert frames != [b"%d" % number for number in range(10)]
    assert sorted(map(bytes, frames)) == [b"%d" % number for number in range(10)]  # type: ignore[arg-type]


def test_frames_are_truncated() -> None:
    async def drive(
        target: FaultyTarget,
        transport: FaultyTransport,
        near: RecordingHandler,
        other: Transport,
        far: RecordingHandler,
    ) -> None:
        for number in range(10):
            assert other.send(b"0123456789", number + 1)

    frames = run_with(Faults(truncate=1.0), drive).frames
    assert len(frames) == 10
    for frame in frames:
        assert isinstance(frame, bytes)
        assert 0 < len(frame) < 10
        assert b"0123456789".startswith(frame)


def test_stalled_frames_arrive_later_in_order() -> None:
    seen: list[int] = []

    async def drive(
        target: FaultyTarget,
        transport: FaultyTransport,
        near: RecordingHandler,
        other: Transport,
        far: RecordingHandler,
    ) -> None:
        await send_ten(target, transport, near, other, far)
        seen.append(len(near.frames))
        assert transport.next_frame() is None

    frames = run_with(Faults(stall=1.0, max_delay=5.0), drive).frames
    assert seen == [0]
    assert frames == [b"%d" % number for number in range(10)]


def test_stalled_frames_are_delivered_before_went_down() -> None:
    async def drive(
        target: FaultyTarget,
        transport: FaultyTransport,
        near: RecordingHandler,
        other: Transport,
        far: RecordingHandler,
    ) -> None:
        await send_ten(target, transport, near, other, far)
        await asyncio.sleep(0)
        await other.close()

    near = run_with(Faults(stall=1.0, max_delay=500.0), drive)
    assert (len(near.frames), near.frames_at_end, len(near.ends)) == (10, 10, 1)


def test_a_cut_is_reported_once_and_nothing_arrives_after_it() -> None:
    near = run_with(Faults(cut=1.0), send_ten)
    assert near.frames == []
    assert [str(error) for error, _, _ in near.ends] == ["connection cut (injected fault)"]


def test_the_same_seed_gives_the_same_faults() -> None:
    faults = Faults(repeat=0.3, garble=0.3, delay=0.3)
    assert run_with(faults, send_ten, 7).frames == run_with(faults, send_ten, 7).frames
    assert run_with(faults, send_ten, 7).frames != run_with(faults, send_ten, 8).frames


def test_busy_is_followed_by_room() -> None:
    async def drive(
        target: FaultyTarget,
        transport: FaultyTransport,
        near: RecordingHandler,
        other: Transport,
        far: RecordingHandler,
    ) -> None:
        assert not transport.send(b"x", 1)
        await asyncio.sleep(0)
        assert near.room_calls == 1
        target.faults = Faults()
        assert transport.send(b"x", 1)
        assert transport.withdraw(1)
        assert transport.send(b"y", 2)
        await asyncio.sleep(1)
        assert far.frames == [b"y"]
        assert near.through == 2

    run_with(Faults(busy=1.0), drive)


def test_open_fails_until_the_faults_are_stopped() -> None:
    async def main() -> None:
        pair = memory_pair("peer")
        target = FaultyTarget(pair.client, Faults(refuse=1.0), 3)
        assert (target.name, target.init_timeout, repr(target)) == (
            "peer",
            None,
            "<FaultyTarget peer seed=3>",
        )
        with pytest.raises(TransportError, match="injected fault"):
            await target.open(RecordingHandler(), LIMIT, 1.0)
        target.faults = Faults()
        await (await target.open(RecordingHandler(), LIMIT, 1.0)).close()

    run_on_fake_clock(main())


def test_a_closed_transport_accepts_and_reports_nothing() -> None:
    async def drive(
        target: FaultyTarget,
        transport: FaultyTransport,
        near: RecordingHandler,
        other: Transport,
        far: RecordingHandler,
    ) -> None:
        target.faults = Faults(delay=1.0, max_delay=9.0)
        assert other.send(b"late", 1)
        await asyncio.sleep(0.01)
        await transport.close()
        assert not transport.send(b"x", 1)
        transport.wrote(1)
        transport.room_made()
        transport.went_down(TransportError("x"), None, True)

    near = run_with(Faults(), drive)
    assert (near.frames, near.through, near.room_calls, near.ends) == ([], 0, 0, [])


def test_the_end_of_the_real_transport_is_forwarded() -> None:
    async def drive(
        target: FaultyTarget,
        transport: FaultyTransport,
        near: RecordingHandler,
        other: Transport,
        far: RecordingHandler,
    ) -> None:
        await other.close()
        await asyncio.sleep(1)
        assert len(near.ends) == 1

    run_with(Faults(), drive)


def test_room_made_is_forwarded() -> None:
    async def drive(
        target: FaultyTarget,
        transport: FaultyTransport,
        near: RecordingHandler,
        other: Transport,
        far: RecordingHandler,
    ) -> None:
        transport.room_made()
        assert near.room_calls == 1
        near.room_calls = 0
        target.faults = Faults(busy=1.0)
        assert not transport.send(b"x", 1)
        assert not transport.send(b"x", 1)
        await asyncio.sleep(0)
        assert near.room_calls == 1  # once for both

    run_with(Faults(), drive)


def test_a_flush_waits_for_room_made_after_an_injected_rejection() -> None:
    async def drive(
        target: FaultyTarget,
        transport: FaultyTransport,
        near: RecordingHandler,
        other: Transport,
        far: RecordingHandler,
    ) -> None:
        target.faults = Faults(busy=1.0)
        assert not transport.send(b"x", 1)
        assert await transport.flush()
        assert near.room_calls == 1
        await transport.close()
        assert not await transport.flush()

    run_with(Faults(), drive)
