"""Files that no loop can watch are read by a thread, one piece ahead and no more."""

import asyncio
import os
from pathlib import Path

from jackstay.testing.transport_suite import run
from jackstay.transport._pipe import READ_BYTES
from jackstay.transport._reading_thread import ReadingThread


class Heard:
    def __init__(self, path: str | Path) -> None:
        fd = os.open(path, os.O_RDONLY)
        self.pieces: list[bytes] = []
        self.ends = 0
        self.changed = asyncio.Event()
        self.reading = ReadingThread(asyncio.get_running_loop(), fd, self.received, self.ended)
        os.close(fd)  # it reads a descriptor of its own

    def received(self, data: bytes) -> None:
        self.pieces.append(data)
        self.changed.set()

    def ended(self) -> None:
        self.ends += 1
        self.changed.set()

    async def until_changed(self) -> None:
        self.changed.clear()
        await self.changed.wait()


def test_a_file_is_read_to_its_end_which_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * (3 * READ_BYTES + 5))

    async def test() -> None:
        heard = Heard(tmp_path / "file")
        assert "paused" in repr(heard.reading)
        heard.reading.resume()
        heard.reading.resume()
        assert "reading" in repr(heard.reading)
        while not heard.ends:
            await heard.until_changed()
        assert list(map(len, heard.pieces)) == [READ_BYTES] * 3 + [5]
        heard.reading.resume()
        heard.reading.stop()
        assert (heard.ends, heard.reading.has_ended) == (1, True)
        assert "ended" in repr(heard.reading)

    run(test)


def test_dev_null_ends_at_once_and_a_folder_too() -> None:
    async def test() -> None:
        for path in (os.devnull, "/"):
            heard = Heard(path)
            heard.reading.resume()
            while not heard.ends:
                await heard.until_changed()
            assert heard.pieces == []

    run(test)


def test_a_paused_thread_reads_nothing_more_until_it_is_resumed() -> None:
    async def test() -> None:
        heard = Heard("/dev/zero")
        heard.reading.resume()
        await heard.until_changed()
        heard.reading.pause()
        await heard.until_changed()  # the one that was ahead
        count = len(heard.pieces)
        assert heard.reading._turn._value == 0, "no read may be made"
        heard.reading.resume()
        await heard.until_changed()
        assert len(heard.pieces) == count + 1
        heard.reading.stop()

    run(test)


def test_a_thread_that_is_stopped_ends_and_tells_nobody() -> None:
    async def test() -> None:
        heard = Heard("/dev/zero")
        heard.reading.resume()
        await heard.until_changed()
        heard.reading.stop()
        thread = heard.reading._thread
        assert thread is not None
        await asyncio.to_thread(thread.join, 20)
        count = len(heard.pieces)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert (len(heard.pieces), heard.ends) == (count, 0)

    run(test)


def test_one_that_was_never_started_lets_go_of_its_file() -> None:
    async def test() -> None:
        Heard("/dev/zero").reading.stop()

    run(test)


def test_a_loop_that_has_gone_ends_the_thread() -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    fd = os.open("/dev/zero", os.O_RDONLY)
    reading = ReadingThread(loop, fd, lambda data: None, lambda: None)
    os.close(fd)
    reading.resume()
    assert reading._thread is not None
    reading._thread.join(20)
    assert not reading._thread.is_alive()
