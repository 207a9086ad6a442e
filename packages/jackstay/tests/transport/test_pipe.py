"""Reading from and writing to real pipes; both ends are in this process."""

import asyncio
import os
import pty
from collections.abc import Iterator
from contextlib import contextmanager

from jackstay.transport._pipe import DRAIN_BYTES, READ_BYTES, UNWAITING_BYTES, ReadPipe, WritePipe


@contextmanager
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    try:
        yield reader, writer
    finally:
        for fd in (reader, writer):
            try:
                os.close(fd)
            except OSError:
                pass  # closed by the test


class Received:
    def __init__(self) -> None:
        self.data = bytearray()
        self.ends = 0
        self.changed = asyncio.Event()

    def received(self, data: bytes) -> None:
        self.data += data
        self.changed.set()

    def ended(self) -> None:
        self.ends += 1
        self.changed.set()

    def reading(self, fd: int) -> ReadPipe:
        return ReadPipe(asyncio.get_running_loop(), fd, self.received, self.ended)

    async def until(self, size: int) -> None:
        while len(self.data) < size:
            self.changed.clear()
            await self.changed.wait()


async def test_bytes_are_received_and_then_the_end_once() -> None:
    received = Received()
    with pipe() as (reader, writer):
        reading = received.reading(reader)
        assert not reading.is_reading
        reading.resume()
        reading.resume()
        assert reading.is_reading
        os.write(writer, b"hello")
        await received.until(5)
        os.close(writer)
        while not received.ends:
            await asyncio.sleep(0)
        reading.resume()
        reading.drain()
        assert (received.data, received.ends, reading.has_ended) == (b"hello", 1, True)
        assert reading.has_ended


async def test_a_paused_pipe_is_not_read_until_it_is_resumed() -> None:
    received = Received()
    with pipe() as (reader, writer):
        reading = received.reading(reader)
        reading.resume()
        reading.pause()
        reading.pause()
        os.write(writer, b"hello")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert received.data == b""
        reading.resume()
        await received.until(5)
        reading.stop()


async def test_a_drain_reads_the_available_data_up_to_its_limit() -> None:
    received = Received()
    with pipe() as (reader, writer):
        reading = received.reading(reader)
        os.write(writer, b"x" * 60_000)
        reading.drain()
        assert len(received.data) == 60_000
        reading.drain()
        assert received.ends == 0, "open and empty"
    received = Received()
    endless = os.open("/dev/zero", os.O_RDONLY)
    received.reading(endless).drain()
    os.close(endless)
    assert DRAIN_BYTES <= len(received.data) <= DRAIN_BYTES + READ_BYTES


async def test_a_read_error_ends_the_pipe() -> None:
    received = Received()
    controller, terminal = pty.openpty()
    reading = received.reading(terminal)
    reading.resume()
    os.close(controller)
    while not received.ends:
        await asyncio.sleep(0)
    os.close(terminal)
    folder = os.open("/", os.O_RDONLY)  # reading a directory fails with EISDIR
    received.reading(folder).drain()
    os.close(folder)
    assert received.ends == 2


async def test_write_returns_the_accepted_size_and_watch_calls_back_once() -> None:
    with pipe() as (reader, writer):
        writing = WritePipe(asyncio.get_running_loop(), writer)
        assert writing.write(b"x" * 1_000_000) == 65_536
        assert writing.write(b"x") == 0
        has_room = asyncio.Event()
        writing.watch(has_room.set)
        writing.watch(has_room.set)
        assert writing._is_watched
        await asyncio.sleep(0)
        assert not has_room.is_set()
        os.read(reader, 65_536)
        await has_room.wait()
        assert not writing._is_watched
        writing.unwatch()


async def test_a_watch_can_be_renewed_in_its_callback() -> None:
    with pipe() as (_, writer):
        writing = WritePipe(asyncio.get_running_loop(), writer)
        calls = []
        is_done = asyncio.Event()

        def again() -> None:
            calls.append(1)
            if len(calls) < 3:
                writing.watch(again)
            else:
                is_done.set()

        writing.watch(again)
        await is_done.wait()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert len(calls) == 3


async def test_a_due_callback_is_not_called_after_unwatch() -> None:
    with pipe() as (_, writer):
        writing = WritePipe(asyncio.get_running_loop(), writer)
        calls: list[int] = []
        writing.watch(lambda: calls.append(1))
        writing.unwatch()
        writing._became_writable()
        assert calls == []


async def test_a_blocking_descriptor_is_written_only_when_writable_and_in_small_parts() -> None:
    with pipe() as (reader, writer):
        os.set_blocking(writer, True)
        writing = WritePipe(asyncio.get_running_loop(), writer, must_not_wait=True)
        assert writing.write(b"x" * 1_000_000) == 0, "not known to be writable"
        total = 0
        while total < 65_536:
            is_writable = asyncio.Event()
            writing.watch(is_writable.set)
            await is_writable.wait()
            total += writing.write(b"x" * 1_000_000)
            assert writing.write(b"x") == 0
        assert total == 65_536
        assert total % UNWAITING_BYTES == 0
        full = asyncio.Event()
        writing.watch(full.set)
        await asyncio.sleep(0)
        assert not full.is_set()
        writing.unwatch()
        os.read(reader, 65_536)
