"""A reverse proxy that sends each HTTP request to the next server in turn, whatever its connection or session.

It runs on a thread of its own, so that tests and client programs can both use it.
"""

import asyncio
import contextlib
import itertools
import threading
from types import TracebackType
from typing import Self

GUARD = 200.0


class RoundRobin:
    """The proxy. `log` has the index of the server and the request line of each request, in order."""

    def __init__(self, *ports: int) -> None:
        self._ports = ports
        self._turns = itertools.cycle(range(len(ports)))
        self.log: list[tuple[int, str]] = []
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._tasks: set[asyncio.Task[object]] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        starting = asyncio.run_coroutine_threadsafe(asyncio.start_server(self._accept, "127.0.0.1", 0), self._loop)
        self._server = starting.result(GUARD)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(GUARD)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(GUARD)
        self._loop.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    async def _close(self) -> None:
        self._server.close()
        while self._tasks:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A task of its own: Python 3.12 logs an error if the one that `start_server` makes is cancelled.
        task = self._loop.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._forward(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass  # one of the two ends has closed its connection
        finally:
            await _close(writer)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Send one request to the next server, and its response back. The connection then ends."""
        first, *lines = (await reader.readuntil(b"\r\n\r\n"))[:-4].split(b"\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines)}
        body = await reader.readexactly(int(headers.get(b"content-length", b"0")))
        kept = [line for line in lines if not line.lower().startswith(b"connection:")]
        for turn in itertools.islice(self._turns, len(self._ports)):
            try:
                upstream, sending = await asyncio.open_connection("127.0.0.1", self._ports[turn])
            except OSError:
                continue  # it does not accept the connection: the next one gets the request, as with nginx
            break
        else:
            return
        self.log.append((turn, first.decode()))
        sending.write(b"\r\n".join((first, *kept, b"connection: close", b"", body)))
        ends = (asyncio.ensure_future(_copy(upstream, writer)), asyncio.ensure_future(reader.read(1)))
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for end in ends:
                end.cancel()
            try:
                await asyncio.gather(*ends, return_exceptions=True)
            finally:  # also if this task is cancelled now
                await _close(sending)


async def _close(writer: asyncio.StreamWriter) -> None:
    """Close a connection and wait until its socket is closed."""
    writer.close()
    try:
        await writer.wait_closed()
    except OSError:
        pass  # the other end has closed it
    except asyncio.CancelledError:
        writer.transport.abort()
        raise


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while chunk := await source.read(65_536):
        target.write(chunk)
        await target.drain()
    with contextlib.suppress(OSError):
        target.write_eof()
