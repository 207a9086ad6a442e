"""A TCP proxy that injects one fault into each connection between a real client and a real server.

A fault occurs after a number of bytes in one direction: the connection is closed, reset, half-closed or stalled, or
data is forwarded byte by byte or twice. Faults are drawn from a seed and recorded in `history`.
"""

import asyncio
import contextlib
import random
import socket
import struct
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import NamedTuple, Self

CHUNK = 65_536
RESET = struct.pack("ii", 1, 0)  # SO_LINGER with no time: close() sends RST


class Fault(NamedTuple):
    """A fault of a connection: `kind`, after `after` bytes of the client or of the server.

    "idle-timeout" closes the connection after `after` milliseconds of silence, as many proxies do.
    """

    kind: str
    after: int = 0
    is_of_client: bool = False
    # A connection that survives its fault is closed after so many bytes, or all calls would end up on healthy ones.
    life: float = float("inf")

    def __str__(self) -> str:
        return f"{self.kind} after {self.after} bytes of the {'client' if self.is_of_client else 'server'}"


CLEAN = Fault("clean")
KINDS = ("cut", "reset", "half-close", "stall", "trickle", "duplicate", "drop", "refuse", "clean")


def draw(rng: random.Random, max_bytes: int = 3_000) -> Fault:
    """Return a random fault: early enough to occur, late enough for some calls to succeed."""
    kind = rng.choices(KINDS, [1 if kind == "stall" else 2 for kind in KINDS])[0]
    after = rng.randint(0, max_bytes)
    return Fault(kind, after, rng.random() < 0.5, after + rng.randint(0, max_bytes))


class FaultProxy:
    """Forwards connections to `port`, each with the fault that `faults()` returns."""

    def __init__(self, port: int, faults: Callable[[], Fault]) -> None:
        self.faults = faults
        self.history: list[Fault] = []
        self.port = 0
        self._to = port
        self._server: asyncio.Server | None = None
        self._open: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def __aenter__(self) -> Self:
        await self.listen()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.refuse()
        await self.drop_all()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    async def listen(self) -> None:
        """Accept connections, always on the same port."""
        listening = socket.socket()
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", self.port))
        self.port = listening.getsockname()[1]
        self._server = await asyncio.start_server(self._accepted, sock=listening)

    async def refuse(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()
            self._server = None

    async def drop_all(self) -> None:
        """Reset all connections."""
        tasks = list(self._open)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        fault = self.faults()
        self.history.append(fault)
        task = asyncio.get_running_loop().create_task(self._forward(fault, reader, writer))
        self._open[task] = writer
        task.add_done_callback(self._forget)

    def _forget(self, task: "asyncio.Task[None]") -> None:
        transport = self._open.pop(task).transport
        if not transport.is_closing():  # the task was cancelled before its first step
            transport.abort()
        if not task.cancelled() and task.exception() is not None:
            raise task.exception() or AssertionError

    async def _forward(self, fault: Fault, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer):
            if fault.kind == "refuse":
                reset(writer)
                return
            try:
                server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self._to)
            except ConnectionError:  # the server is being restarted
                reset(writer)
                return
            with closing(server_writer):
                directions = (
                    Direction(fault, reader, server_writer, other=writer, has_fault=fault.is_of_client),
                    Direction(fault, server_reader, writer, other=server_writer, has_fault=not fault.is_of_client),
                )
                running = {asyncio.get_running_loop().create_task(direction.run()) for direction in directions}
                try:
                    # The end of one direction ends both, except for a half-closed connection.
                    done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                    if fault.kind == "half-close" and all(task.result() for task in done):
                        await asyncio.wait(running)
                finally:
                    for task in running:
                        task.cancel()
                    await asyncio.gather(*running, return_exceptions=True)


class Direction:
    """One direction of one connection."""

    def __init__(
        self,
        fault: Fault,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        other: asyncio.StreamWriter,
        has_fault: bool,
    ) -> None:
        self._fault = fault
        self._reader = reader
        self._writer = writer
        self._other = other
        self._has_fault = has_fault
        self._passed = 0

    async def run(self) -> bool:
        """Forward data until it ends or the fault occurs. Returns whether the other direction may continue."""
        with contextlib.suppress(ConnectionError):
            while data := await self._read():
                remaining = self._fault.after - self._passed
                if self._has_fault and self._passed >= self._fault.life:
                    return False
                if not self._has_fault or self._fault.kind in ("clean", "idle-timeout") or len(data) < remaining:
                    self._passed += len(data)
                    await self._pass(data)
                    continue
                self._passed += len(data)
                if await self._apply_fault(data[: max(remaining, 0)], data[max(remaining, 0) :]):
                    return self._fault.kind == "half-close"
        return False

    async def _read(self) -> bytes:
        if self._fault.kind != "idle-timeout" or not self._has_fault:
            return await self._reader.read(CHUNK)
        try:
            async with asyncio.timeout(self._fault.after / 1000):
                return await self._reader.read(CHUNK)
        except TimeoutError:
            return b""

    async def _pass(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def _apply_fault(self, before: bytes, after: bytes) -> bool:
        """Apply the fault. Returns whether this direction has ended."""
        kind = self._fault.kind
        if kind == "drop":
            return True  # the current chunk is lost completely
        if kind == "duplicate" and not self._fault.is_of_client:
            await self._pass(before + after)
            if b"HTTP/1.1 " in before + after:  # the response, or the rest of it
                await self._pass((before + after)[(before + after).rindex(b"HTTP/1.1 ") :])
            return False
        await self._pass(before)
        if kind == "trickle":
            for byte in after:
                await self._pass(bytes([byte]))
                await asyncio.sleep(0)
            return False
        if kind == "stall":
            await asyncio.Event().wait()  # until a peer closes the connection
        if kind == "reset":
            reset(self._writer)
            reset(self._other)
        if kind == "half-close":
            self._writer.write_eof()
        if kind == "duplicate":  # requests of the client must not be duplicated
            await self._pass(after)
            return False
        return True


def reset(writer: asyncio.StreamWriter) -> None:
    """Close with RST."""
    found = writer.get_extra_info("socket")
    with contextlib.suppress(OSError):
        found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    writer.transport.abort()


@contextlib.contextmanager
def closing(writer: asyncio.StreamWriter) -> Iterator[None]:
    try:
        yield
    finally:
        writer.transport.abort() if writer.transport.is_closing() else writer.close()
