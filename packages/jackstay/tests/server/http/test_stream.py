"""A stream of events: its limits, how chunks are joined into writes, and how it is aborted."""

import asyncio
from typing import Any

import pytest

from jackstay.server.http._stream import MAX_RESPONSE_BYTES, STREAM_LINES, WRITE_BYTES, Stream
from scripted.asgi import Response


async def test_queued_chunks_are_joined_into_one_write() -> None:
    stream = Stream()
    writes: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        writes.append(message)

    assert stream.put(b"a")
    assert stream.put(b"b")
    assert stream.waiting == 2
    stream.end(b"c")
    assert not stream.put(b"late")
    stream.end(b"later")
    assert await stream.pump(send, STREAM_LINES, 0)
    assert [write.get("body") for write in writes] == [None, b"abc"]
    assert writes[-1]["more_body"] is False
    assert stream.waiting == 0


async def test_a_large_queue_is_written_in_several_writes() -> None:
    """An ASGI server buffers a whole write, so no write is large unless a single message is."""
    stream = Stream()
    writes: list[bytes] = []

    async def send(message: Any) -> None:
        writes.append(message.get("body", b""))
        is_last.append(not message.get("more_body", True))

    is_last: list[bool] = []
    items = [b"x" * 6000] * 4 + [b"y" * (WRITE_BYTES + 1)] + [b"z"] * 3
    for item in items:
        assert stream.put(item)
    stream.end(b"!")
    assert await stream.pump(send, STREAM_LINES, 0)
    assert b"".join(writes) == b"".join(items) + b"!"
    assert [len(write) for write in writes] == [0, 12_000, 12_000, WRITE_BYTES + 1, 4]
    assert is_last == [False, False, False, False, True]
    assert stream.waiting == 0


async def test_a_stream_may_end_without_events() -> None:
    stream, response = Stream(), Response()
    task = asyncio.get_running_loop().create_task(stream.pump(response.send, STREAM_LINES, 0))
    await response.until(lambda: response.status)
    stream.end()
    assert await task
    assert (response.body, response.is_complete) == (b"", True)


async def test_first_is_written_before_the_queue() -> None:
    stream, response = Stream(), Response()
    stream.end(b"last")
    await stream.pump(response.send, STREAM_LINES, 0, (b"one ", b"two "))
    assert response.body == b"one two last"


async def test_keepalives_are_sent_on_a_silent_stream() -> None:
    """docs/guarantees.md G17."""
    stream, response = Stream(), Response()
    task = asyncio.get_running_loop().create_task(stream.pump(response.send, STREAM_LINES, 0.02))
    await response.until(lambda: response.body.count(b": keep-alive\n\n") == 2)
    stream.end(b"x")
    assert await task


async def test_the_stream_of_a_slow_reader_is_aborted() -> None:
    stream, response = Stream(limit=100), Response()
    task = asyncio.get_running_loop().create_task(stream.pump(response.send, STREAM_LINES, 0))
    await response.until(lambda: response.status)
    response.pause()
    assert stream.put(b"x" * 80)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert stream.put(b"x" * 100), "the burst before the writer was blocked is not counted"
    assert not stream.put(b"x")
    assert stream.is_aborted
    assert stream.is_over
    assert "aborted" in repr(stream)
    assert await task is False
    assert stream.unsent() == [b"x" * 100]


async def test_a_burst_does_not_abort_the_stream() -> None:
    """The handler does not yield to the loop, so the client had no chance to read."""
    stream, response = Stream(limit=100), Response()
    task = asyncio.get_running_loop().create_task(stream.pump(response.send, STREAM_LINES, 0))
    await response.until(lambda: response.status)
    response.pause()
    for _ in range(50):
        assert stream.put(b"x" * 100)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert stream.put(b"y" * 100)
    response.resume()
    stream.end()
    assert await task
    assert response.body == b"x" * 5000 + b"y" * 100


async def test_an_empty_queue_accepts_a_message_of_any_size() -> None:
    stream = Stream(limit=100)
    assert stream.put(b"x" * 2 * MAX_RESPONSE_BYTES)
    assert not stream.put(b"answer", is_response=True)
    stream = Stream(limit=100)
    assert stream.put(b"x" * 1000)
    assert stream.put(b"answer", is_response=True)
    assert not stream.put(b"x" * MAX_RESPONSE_BYTES, is_response=True)


async def test_abort_ends_a_waiting_writer() -> None:
    stream, response = Stream(), Response()
    task = asyncio.get_running_loop().create_task(stream.pump(response.send, STREAM_LINES, 0))
    await response.until(lambda: response.status)
    stream.abort()
    stream.abort()
    assert await task is False
    assert not response.is_complete


async def test_a_stream_aborted_before_it_is_written_sends_no_event() -> None:
    stream, response = Stream(), Response()
    stream.put(b"x")
    stream.abort()
    assert await stream.pump(response.send, STREAM_LINES, 0) is False
    assert response.body == b""


async def test_oserror_of_send_aborts_the_stream() -> None:
    """ASGI 2.4: `send` raises OSError after a disconnect."""

    async def send(_: Any) -> None:
        raise BrokenPipeError

    stream = Stream()
    assert await stream.pump(send, STREAM_LINES, 0) is False
    assert stream.is_aborted


async def test_a_cancellation_propagates() -> None:
    stream, response = Stream(), Response()
    response.pause()
    task = asyncio.get_running_loop().create_task(stream.pump(response.send, STREAM_LINES, 0))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not stream.is_aborted


async def test_a_cancellation_propagates_beside_an_abort() -> None:
    stream, response = Stream(), Response()
    response.pause()
    task = asyncio.get_running_loop().create_task(stream.pump(response.send, STREAM_LINES, 0))
    await asyncio.sleep(0)
    stream.abort()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
