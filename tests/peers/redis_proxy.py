"""A proxy between one machine and its Redis, which stalls, slows down, loses or cuts connections: a partition.

It runs on a thread of its own, so that tests and server processes can both use it.
"""

import asyncio
import shutil
import tempfile
import threading
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, TypeAlias

GUARD = 200.0
SLOW_SECONDS = 0.1

# `stall`: what is sent arrives when the fault is over. `slow`: it arrives a little later. `lose`: it never arrives, and
# no connection is closed, as when a cable is unplugged. `cut`: connections are closed, and new ones, too.
Fault: TypeAlias = Literal["", "stall", "slow", "lose", "cut"]


class RedisProxy:
    """The proxy, on a Unix socket in a directory of its own, in front of the Unix socket `target`."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._fault: Fault = ""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._passes = asyncio.Event()
        self._tasks: set[asyncio.Task[object]] = set()

    def __enter__(self) -> Self:
        self._directory = Path(tempfile.mkdtemp(prefix="redis-"))
        self._thread.start()
        self.set("")
        starting = asyncio.start_unix_server(self._accept, self._directory / "s")
        self._server = asyncio.run_coroutine_threadsafe(starting, self._loop).result(GUARD)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(GUARD)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(GUARD)
        self._loop.close()
        shutil.rmtree(self._directory)

    @property
    def url(self) -> str:
        return f"unix://{self._directory / 's'}"

    def set(self, fault: Fault, target: Path | None = None) -> None:
        """Begin a fault, or end it with an empty string. With `target` connect to that socket from now on."""
        asyncio.run_coroutine_threadsafe(self._set(fault, target), self._loop).result(GUARD)

    async def _set(self, fault: Fault, target: Path | None) -> None:
        # The bytes of these connections are lost, so they are of no use afterwards.
        is_broken = fault == "cut" or self._fault == "lose" or target is not None
        self._target, self._fault = target or self._target, fault
        if fault == "stall":
            self._passes.clear()
        else:
            self._passes.set()
        if is_broken:
            await self._end_connections()

    async def _close(self) -> None:
        self._server.close()
        await self._end_connections()

    async def _end_connections(self) -> None:
        while self._tasks:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A task of its own: Python 3.12 logs an error if the one that `start_unix_server` makes is cancelled.
        task = self._loop.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers, copies = [writer], []
        try:
            if self._fault == "cut":
                return
            upstream, sending = await asyncio.open_unix_connection(self._target)
            writers.append(sending)
            copies = [asyncio.ensure_future(self._copy(*ends)) for ends in ((reader, sending), (upstream, writer))]
            await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
        except OSError:
            pass  # Redis is down
        finally:
            for copy in copies:
                copy.cancel()
            for each in writers:
                each.transport.abort()
            await asyncio.gather(*copies, *(each.wait_closed() for each in writers), return_exceptions=True)

    async def _copy(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while chunk := await source.read(65_536):
                if self._fault == "slow":
                    await asyncio.sleep(SLOW_SECONDS)
                await self._passes.wait()
                if self._fault != "lose":
                    target.write(chunk)
                    await target.drain()
        except OSError:
            pass  # one of the two ends has closed its connection


__all__ = ["Fault", "RedisProxy"]
