"""The in-memory pair. Its transport contract is checked in test_transport_suite."""

import asyncio

import pytest

from jackstay.errors import FrameTooLargeError, TransportError, UsageError
from jackstay.testing.transport_suite import RecordingHandler
from jackstay.transport import MAX_QUEUED_FRAMES, MemoryTransport, memory_pair
from jackstay.transport._memory import CAPACITY_BYTES, MemoryTarget


async def opened(target: MemoryTarget, limit: int = 1_000_000) -> tuple[RecordingHandler, MemoryTransport]:
    handler = RecordingHandler()
    transport = await target.open(handler, limit, 1.0)
    handler.transport = transport
    return handler, transport


async def test_the_same_object_arrives_in_the_next_iteration() -> None:
    pair = memory_pair()
    _, client = await opened(pair.client)
    handler, _ = await opened(pair.server)
    frame = b'{"some":"frame"}'
    client.send(frame, 1)
    assert handler.frames == []
    await asyncio.sleep(0)
    assert handler.frames[0] is frame


async def test_frames_sent_before_the_other_end_is_open_are_queued() -> None:
    pair = memory_pair("x")
    sender, client = await opened(pair.client)
    for number in (1, 2, 3):
        assert client.send(b"%d" % number, number)
    await asyncio.sleep(0)
    assert sender.through == 0
    assert client.withdraw(2)
    handler, _ = await opened(pair.server)
    await asyncio.sleep(0)
    assert handler.frames == [b"1", b"3"]
    assert sender.writes == [3]


async def test_transports_are_paired_in_order() -> None:
    pair = memory_pair()
    client_target, server_target = pair
    clients = [await opened(client_target) for _ in range(2)]
    servers = [await opened(server_target) for _ in range(3)]
    clients.append(await opened(client_target))
    for number, (_, transport) in enumerate(clients):
        transport.send(b"%d" % number, 1)
    await asyncio.sleep(0)
    assert [handler.frames for handler, _ in servers] == [[b"0"], [b"1"], [b"2"]]
    assert "3 open" in repr(pair)


async def test_a_closed_unpaired_transport_is_not_paired() -> None:
    pair = memory_pair()
    _, gone = await opened(pair.client)
    await gone.close()
    _, server = await opened(pair.server)
    handler, client = await opened(pair.client)
    server.send(b"1", 1)
    await asyncio.sleep(0)
    assert handler.frames == [b"1"]
    assert "closed" in repr(gone)
    assert "open" in repr(client)


async def test_a_stalled_end_queues_frames_until_it_is_busy() -> None:
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
    assert sender.frames == [b"answer"], "the other direction is not stalled"
    pair.client.resume()
    await asyncio.sleep(0)
    assert len(receiver.frames) == number
    assert sender.room_calls == 1


async def test_a_peer_that_does_not_pull_causes_backpressure() -> None:
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
    assert receiver.arrivals == 2, "called again, because everything was pulled"
    await asyncio.sleep(0)
    assert sender.writes == [4, 8]
    receiver.pull()
    await asyncio.sleep(0)
    assert sender.through == 10


async def test_a_cut_ends_both_and_received_frames_can_be_pulled() -> None:
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
    for handler, was_silent in ((sender, True), (receiver, False)):
        ((error, code, silence),) = handler.ends
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


async def test_a_cut_can_have_an_error() -> None:
    pair = memory_pair()
    handler, _ = await opened(pair.client)
    error = TransportError("power failure")
    pair.cut(error)
    await asyncio.sleep(0)
    assert handler.ends[0][0] is error


async def test_an_end_that_is_closed_before_the_report_gets_no_callback() -> None:
    pair = memory_pair()
    handler, client = await opened(pair.client)
    pair.cut()
    await client.close()
    await asyncio.sleep(0)
    assert handler.ends == []


async def test_closing_the_other_end_in_a_callback_is_harmless() -> None:
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


async def test_each_end_has_its_own_limit() -> None:
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


async def test_both_ends_must_be_on_the_same_loop() -> None:
    pair = memory_pair()
    await asyncio.to_thread(lambda: asyncio.run(opened(pair.client)))
    with pytest.raises(UsageError, match="same event loop"):
        await opened(pair.server)
