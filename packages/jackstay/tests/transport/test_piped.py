"""Copying files that the event loop cannot watch into a pipe, in a thread."""

import asyncio
import os
import threading
from pathlib import Path

from jackstay.transport._pipe import READ_BYTES, ReadPipe, piped


def open_piped(path: str | Path) -> int:
    fd = os.open(path, os.O_RDONLY)
    pipe = piped(fd)
    os.close(fd)  # it reads a duplicate
    return pipe


def copying() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "jackstay-stdin"]


def join_threads() -> None:
    for thread in copying():
        thread.join(120)
        assert not thread.is_alive()


async def read_all(pipe: int) -> bytes:
    chunks: list[bytes] = []
    has_ended = asyncio.Event()
    reading = ReadPipe(asyncio.get_running_loop(), pipe, chunks.append, has_ended.set)
    reading.resume()
    await has_ended.wait()
    os.close(pipe)
    return b"".join(chunks)


async def test_a_file_is_read_to_its_end(tmp_path: Path) -> None:
    content = os.urandom(3 * READ_BYTES + 5)
    (tmp_path / "file").write_bytes(content)
    assert await read_all(open_piped(tmp_path / "file")) == content
    join_threads()


async def test_dev_null_and_a_directory_end_at_once() -> None:
    for path in (os.devnull, "/"):
        assert await read_all(open_piped(path)) == b""
    join_threads()


def test_an_endless_file_is_read_only_as_far_as_the_pipe_is_until_the_pipe_is_closed() -> None:
    pipe = open_piped("/dev/zero")
    assert copying()
    os.close(pipe)
    join_threads()
