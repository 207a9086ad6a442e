"""Reading files that the event loop cannot watch, in a thread."""

import asyncio
import os
from pathlib import Path

from jackstay.transport._pipe import READ_BYTES, ReadingThread


class Received:
    def __init__(self, path: str | Path) -> None:
        fd = os.open(path, os.O_RDONLY)
        self.chunks: list[bytes] = []
        self.ends = 0
        self.changed = asyncio.Event()
        self.reading = ReadingThread(asyncio.get_running_loop(), fd, self.received, self.ended)
        os.close(fd)  # it reads a duplicate

    def received(self, data: bytes) -> None:
        self.chunks.append(data)
        self.changed.set()

    def ended(self) -> None:
        self.ends += 1
        self.changed.set()

    async def until_changed(self) -> None:
        self.changed.clear()
        await self.changed.wait()


async def test_a_file_is_read_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * (3 * READ_BYTES + 5))
    received = Received(tmp_path / "file")
    assert not received.reading.is_reading
    received.reading.resume()
    received.reading.resume()
    assert received.reading.is_reading
    while not received.ends:
        await received.until_changed()
    assert list(map(len, received.chunks)) == [READ_BYTES] * 3 + [5]
    received.reading.resume()
    received.reading.stop()
    assert (received.ends, received.reading.has_ended) == (1, True)
    assert received.reading.has_ended


async def test_dev_null_and_a_directory_end_at_once() -> None:
    for path in (os.devnull, "/"):
        received = Received(path)
        received.reading.resume()
        while not received.ends:
            await received.until_changed()
        assert received.chunks == []


async def test_a_paused_thread_reads_nothing_more_until_it_is_resumed() -> None:
    received = Received("/dev/zero")
    received.reading.resume()
    await received.until_changed()
    received.reading.pause()
    await received.until_changed()  # the chunk that was read ahead
    count = len(received.chunks)
    assert received.reading._turn._value == 0, "no permit to read"
    received.reading.resume()
    await received.until_changed()
    assert len(received.chunks) == count + 1
    received.reading.stop()


async def test_a_stopped_thread_ends_without_a_callback() -> None:
    received = Received("/dev/zero")
    received.reading.resume()
    await received.until_changed()
    received.reading.stop()
    thread = received.reading._thread
    assert thread is not None
    await asyncio.to_thread(thread.join, 20)
    count = len(received.chunks)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert (len(received.chunks), received.ends) == (count, 0)


async def test_a_reader_that_was_never_started_closes_its_descriptor() -> None:
    Received("/dev/zero").reading.stop()


def test_a_closed_loop_ends_the_thread() -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    fd = os.open("/dev/zero", os.O_RDONLY)
    reading = ReadingThread(loop, fd, lambda data: None, lambda: None)
    os.close(fd)
    reading.resume()
    assert reading._thread is not None
    reading._thread.join(120)
    assert not reading._thread.is_alive()
