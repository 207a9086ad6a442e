"""A stream of events: bounded, written in as few pieces as are ready, cut without harm to who holds the response."""

import asyncio
from typing import Any

import pytest

from jackstay.server.http._stream import MAX_ANSWER_BYTES, STREAM_LINES, WRITE_BYTES, Stream
from scripted.asgi import Response, run


def test_what_is_ready_goes_out_in_one_write() -> None:
    """performance.md: join what is ready in one turn of the loop into one write."""

    async def test() -> None:
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

    run(test)


def test_much_goes_out_in_several_writes() -> None:
    """An ASGI server takes the whole of a write, whatever it holds already: none is large unless a message is."""

    async def test() -> None:
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

    run(test)


def test_a_stream_may_end_without_a_word() -> None:
    async def test() -> None:
        stream, response = Stream(), Response()
        task = asyncio.get_running_loop().create_task(stream.pump(response.send, STREAM_LINES, 0))
        await response.until(lambda: response.status)
        stream.end()
        assert await task
        assert (response.body, response.is_complete) == (b"", True)

    run(test)


def test_what_comes_first_is_written_before_anything_else() -> None:
    async def test() -> None:
        stream, response = Stream(), Response()
        stream.end(b"last")
        await stream.pump(response.send, STREAM_LINES, 0, (b"one ", b"two "))
        assert response.body == b"one two last"

    run(test)


def test_silence_is_filled_and_noise_is_not() -> None:
    """G17: keep-alive comments after a while of silence."""

    async def test() -> None:
        stream, response = Stream(), Response()
        task = asyncio.get_running_loop().create_task(stream.pump(response.send, STREAM_LINES, 0.02))
        await response.until(lambda: response.body.count(b": keep-alive\n\n") == 2)
        stream.end(b"x")
        assert await task

    run(test)


def test_a_reader_that_is_too_slow_is_cut_off() -> None:
    async def test() -> None:
        stream, response = Stream(limit=100), Response()
        task = asyncio.get_running_loop().create_task(stream.pump(response.send, STREAM_LINES, 0))
        await response.until(lambda: response.status)
        response.hold()
        assert stream.put(b"x" * 80)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert stream.put(b"x" * 100), "what is being written counts, and was said before anybody was slow"
        assert not stream.put(b"x")
        assert stream.is_cut
        assert stream.is_over
        assert "cut" in repr(stream)
        assert await task is False
        assert stream.left() == [b"x" * 100]

    run(test)


def test_what_is_said_in_one_breath_is_no_readers_fault() -> None:
    """A handler that says much without letting go of the loop: nobody could have read it. Then the client reads, slowly."""

    async def test() -> None:
        stream, response = Stream(limit=100), Response()
        task = asyncio.get_running_loop().create_task(stream.pump(response.send, STREAM_LINES, 0))
        await response.until(lambda: response.status)
        response.hold()
        for _ in range(50):
            assert stream.put(b"x" * 100)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert stream.put(b"y" * 100)
        response.flow()
        stream.end()
        assert await task
        assert response.body == b"x" * 5000 + b"y" * 100

    run(test)


def test_one_message_of_any_size_is_taken_where_nothing_waits() -> None:
    async def test() -> None:
        stream = Stream(limit=100)
        assert stream.put(b"x" * 2 * MAX_ANSWER_BYTES)
        assert not stream.put(b"answer", is_answer=True)
        stream = Stream(limit=100)
        assert stream.put(b"x" * 1000)
        assert stream.put(b"answer", is_answer=True)
        assert not stream.put(b"x" * MAX_ANSWER_BYTES, is_answer=True)

    run(test)


def test_a_stream_that_is_cut_while_it_waits_ends() -> None:
    async def test() -> None:
        stream, response = Stream(), Response()
        task = asyncio.get_running_loop().create_task(stream.pump(response.send, STREAM_LINES, 0))
        await response.until(lambda: response.status)
        stream.cut()
        stream.cut()
        assert await task is False
        assert not response.is_complete

    run(test)


def test_a_stream_that_was_cut_before_it_is_written_says_nothing() -> None:
    async def test() -> None:
        stream, response = Stream(), Response()
        stream.put(b"x")
        stream.cut()
        assert await stream.pump(response.send, STREAM_LINES, 0) is False
        assert response.body == b""

    run(test)


def test_a_server_that_says_the_client_is_gone_is_believed() -> None:
    """ASGI 2.4: `send` raises OSError once the client has left."""

    async def test() -> None:
        async def send(_: Any) -> None:
            raise BrokenPipeError

        stream = Stream()
        assert await stream.pump(send, STREAM_LINES, 0) is False
        assert stream.is_cut

    run(test)


def test_somebody_elses_cancel_comes_through() -> None:
    async def test() -> None:
        stream, response = Stream(), Response()
        response.hold()
        task = asyncio.get_running_loop().create_task(stream.pump(response.send, STREAM_LINES, 0))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not stream.is_cut

    run(test)


def test_somebody_elses_cancel_comes_through_beside_our_own() -> None:
    async def test() -> None:
        stream, response = Stream(), Response()
        response.hold()
        task = asyncio.get_running_loop().create_task(stream.pump(response.send, STREAM_LINES, 0))
        await asyncio.sleep(0)
        stream.cut()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(test)
