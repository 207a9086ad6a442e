"""The pair in memory: it meets, it moves the same objects, it stalls and is cut. The contract itself: test_transport_suite."""

import asyncio

import pytest

from jackstay.errors import FrameTooLargeError, TransportError, UsageError
from jackstay.testing.transport_suite import Recorder, run
from jackstay.transport import MAX_QUEUED_FRAMES, MemoryTransport, memory_pair
from jackstay.transport._memory import CAPACITY_BYTES, MemoryTarget


async def opened(target: MemoryTarget, limit: int = 1_000_000) -> tuple[Recorder, MemoryTransport]:
    owner = Recorder()
    transport = await target.open(owner, limit, 1.0)
    owner.transport = transport
    return owner, transport


def test_the_same_object_arrives_in_the_next_turn() -> None:
    async def test() -> None:
        pair = memory_pair()
        _, client = await opened(pair.client)
        owner, _ = await opened(pair.server)
        frame = b'{"some":"frame"}'
        client.send(frame, 1)
        assert owner.frames == []
        await asyncio.sleep(0)
        assert owner.frames[0] is frame

    run(test)


def test_what_is_sent_before_the_other_end_is_open_waits_and_can_be_withdrawn() -> None:
    async def test() -> None:
        pair = memory_pair("x")
        sender, client = await opened(pair.client)
        for number in (1, 2, 3):
            assert client.send(b"%d" % number, number)
        await asyncio.sleep(0)
        assert sender.through == 0
        assert client.withdraw(2)
        owner, _ = await opened(pair.server)
        await asyncio.sleep(0)
        assert owner.frames == [b"1", b"3"]
        assert sender.writes == [3]

    run(test)


def test_each_opening_meets_one_of_the_other_end_in_order() -> None:
    async def test() -> None:
        pair = memory_pair()
        client_target, server_target = pair
        clients = [await opened(client_target) for _ in range(2)]
        servers = [await opened(server_target) for _ in range(3)]
        clients.append(await opened(client_target))
        for number, (_, transport) in enumerate(clients):
            transport.send(b"%d" % number, 1)
        await asyncio.sleep(0)
        assert [owner.frames for owner, _ in servers] == [[b"0"], [b"1"], [b"2"]]
        assert "3 open" in repr(pair)

    run(test)


def test_a_closed_end_that_was_alone_meets_nobody() -> None:
    async def test() -> None:
        pair = memory_pair()
        _, gone = await opened(pair.client)
        await gone.close()
        _, server = await opened(pair.server)
        owner, client = await opened(pair.client)
        server.send(b"1", 1)
        await asyncio.sleep(0)
        assert owner.frames == [b"1"]
        assert "closed" in repr(gone)
        assert "open" in repr(client)

    run(test)


def test_a_stalled_end_keeps_its_frames_until_it_is_busy_and_then_moves_them() -> None:
    async def test() -> None:
        pair = memory_pair()
        sender, client = await opened(pair.client)
        receiver, server = await opened(pair.server)
        pair.client.stall()
        assert "stalled" in repr(pair.client)
        number = 0
        while client.send(b"x", number + 1):
            number += 1
            await asyncio.sleep(0)
        assert number == MAX_QUEUED_FRAMES
        assert server.send(b"answer", 1)
        await asyncio.sleep(0)
        assert sender.frames == [b"answer"], "the other direction moves"
        pair.client.resume()
        await asyncio.sleep(0)
        assert len(receiver.frames) == number
        assert sender.rooms == 1

    run(test)


def test_a_peer_that_does_not_pull_is_felt_as_over_a_pipe() -> None:
    async def test() -> None:
        pair = memory_pair()
        sender, client = await opened(pair.client)
        receiver, _ = await opened(pair.server)
        receiver.pulls = False
        for number in range(1, 11):
            assert client.send(bytes(CAPACITY_BYTES // 4), number)
        await asyncio.sleep(0)
        assert sender.writes == [4]
        receiver.pull()
        await asyncio.sleep(0)
        assert sender.writes == [4, 8]
        assert receiver.arrivals == 2, "told again, because it had pulled everything"
        await asyncio.sleep(0)
        assert sender.writes == [4, 8]
        receiver.pull()
        await asyncio.sleep(0)
        assert sender.through == 10

    run(test)


def test_a_cut_ends_both_and_what_was_received_can_still_be_pulled() -> None:
    async def test() -> None:
        pair = memory_pair()
        sender, client = await opened(pair.client)
        receiver, server = await opened(pair.server)
        receiver.pulls = False
        client.send(b"1", 1)
        await asyncio.sleep(0)
        client.send(b"2", 2)
        pair.cut()
        pair.cut()
        assert not client.send(b"3", 3)
        await asyncio.sleep(0)
        for owner, was_silent in ((sender, True), (receiver, False)):
            ((error, code, silence),) = owner.ends
            assert isinstance(error, TransportError)
            assert (code, silence) == (None, was_silent)
        receiver.pull()
        assert receiver.frames == [b"1"]
        assert sender.through == 1
        assert "down" in repr(server)
        await client.close()
        await server.close()
        await asyncio.sleep(0)
        assert len(receiver.ends) == 1

    run(test)


def test_a_cut_says_why_if_it_is_told() -> None:
    async def test() -> None:
        pair = memory_pair()
        owner, _ = await opened(pair.client)
        why = TransportError("lightning")
        pair.cut(why)
        await asyncio.sleep(0)
        assert owner.ends[0][0] is why

    run(test)


def test_an_end_that_is_closed_before_it_is_told_of_a_cut_hears_nothing() -> None:
    async def test() -> None:
        pair = memory_pair()
        owner, client = await opened(pair.client)
        pair.cut()
        await client.close()
        await asyncio.sleep(0)
        assert owner.ends == []

    run(test)


def test_an_end_that_closes_the_other_while_it_is_told_of_a_write_is_harmless() -> None:
    async def test() -> None:
        pair = memory_pair()
        sender, client = await opened(pair.client)
        receiver, server = await opened(pair.server)

        def close_the_other(through: int) -> None:
            with pytest.raises(StopIteration):
                server.close().send(None)

        sender.wrote = close_the_other
        client.send(b"1", 1)
        await asyncio.sleep(0)
        assert receiver.arrivals == 0
        await asyncio.sleep(0)
        assert len(sender.ends) == 1

    run(test)


def test_limits_are_each_ends_own() -> None:
    async def test() -> None:
        pair = memory_pair()
        _, client = await opened(pair.client, limit=10)
        receiver, _ = await opened(pair.server, limit=5)
        with pytest.raises(FrameTooLargeError):
            client.send(bytes(11), 1)
        client.send(bytes(10), 2)
        client.send(bytes(5), 3)
        await asyncio.sleep(0)
        fault, frame = receiver.frames
        assert isinstance(fault, FrameTooLargeError)
        assert frame == bytes(5)

    run(test)


def test_both_ends_must_be_on_one_loop() -> None:
    pair = memory_pair()
    asyncio.run(opened(pair.client))

    async def test() -> None:
        with pytest.raises(UsageError, match="one loop"):
            await opened(pair.server)

    run(test)
