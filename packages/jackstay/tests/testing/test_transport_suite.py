"""Jackstay's transports pass the suite, and defective ones fail it."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from tempfile import TemporaryDirectory

import pytest

from jackstay.errors import McpError
from jackstay.testing import Peer, RecordingHandler, TransportSuite, memory_pair, recorded
from jackstay.testing.transport_suite import FRAME_LIMIT, opened
from jackstay.transport import Target, Transport, TransportHandler, stdio
from scripted.places import TESTS

PEER = TESTS / "chaos" / "servers" / "peer.py"


class MemoryPeer:
    """The other end of an in-memory pair, which pulls in `receive()`."""

    def __init__(self, handler: RecordingHandler, transport: Transport) -> None:
        self._handler = handler
        self._transport = transport
        self._sent = 0

    async def receive(self) -> bytes:
        while (frame := self._transport.next_frame()) is None:
            await self._handler.until(partial(self._has_arrived_since, self._handler.arrivals))
        assert isinstance(frame, bytes)
        return frame

    def _has_arrived_since(self, arrivals: int) -> bool:
        return self._handler.arrivals > arrivals

    async def send(self, frame: bytes) -> None:
        self._sent += 1
        assert self._transport.send(frame, self._sent)
        await self._handler.until(lambda: self._handler.through == self._sent)

    async def disconnect(self) -> None:
        await self._transport.close()


@asynccontextmanager
async def memory_peer(target: Target) -> AsyncIterator[MemoryPeer]:
    handler = RecordingHandler()
    handler.pulls = False
    transport = await target.open(handler, 2 * FRAME_LIMIT, 1.0)
    yield MemoryPeer(handler, transport)
    await transport.close()


class ChildPeer:
    """A child process that is controlled over a socket."""

    def __init__(self) -> None:
        self._streams: asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Future()

    def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._streams.set_result((reader, writer))

    async def _command(self, command: bytes, size: int, data: bytes = b"") -> asyncio.StreamReader:
        reader, writer = await self._streams
        writer.write(command + b"%08x" % size + data)
        await writer.drain()
        return reader

    async def receive(self) -> bytes:
        reader = await self._command(b"r", 0)
        size = int(await reader.readexactly(8), 16)
        return (await reader.readexactly(size)).removesuffix(b"\n")

    async def send(self, frame: bytes) -> None:
        reader = await self._command(b"w", len(frame) + 1, frame + b"\n")
        await reader.readexactly(8)

    async def disconnect(self) -> None:
        await self._command(b"x", 3)

    def close(self) -> None:
        if self._streams.done():
            self._streams.result()[1].close()


class TestMemory(TransportSuite):
    @asynccontextmanager
    async def pair(self) -> AsyncIterator[tuple[Target, Peer]]:
        pair = memory_pair()
        async with memory_peer(pair.server) as peer:
            yield pair.client, peer


class TestMemoryServer(TransportSuite):
    @asynccontextmanager
    async def pair(self) -> AsyncIterator[tuple[Target, Peer]]:
        pair = memory_pair()
        async with memory_peer(pair.client) as peer:
            yield pair.server, peer


class TestRecorded(TransportSuite):
    @asynccontextmanager
    async def pair(self) -> AsyncIterator[tuple[Target, Peer]]:
        pair = memory_pair()
        async with memory_peer(pair.server) as peer:
            yield recorded(pair.client, os.devnull, overwrite=True), peer


class TestStdio(TransportSuite):
    @asynccontextmanager
    async def pair(self) -> AsyncIterator[tuple[Target, Peer]]:
        peer = ChildPeer()
        with TemporaryDirectory() as folder:
            server = await asyncio.start_unix_server(peer.connected, f"{folder}/control", limit=2 * FRAME_LIMIT)
            async with server:
                yield stdio(sys.executable, "-I", "-S", str(PEER), f"{folder}/control"), peer
                peer.close()


# --- defective transports ---------------------------------------------------------------------------------------------


class Broken:
    """An in-memory target with one defect."""

    is_http = False
    name = "broken"
    init_timeout = 1.0

    def __init__(self, target: Target, defect: str) -> None:
        self._target = target
        self.defect = defect

    async def open(self, handler: TransportHandler, max_frame_bytes: int, close_step: float) -> "BrokenTransport":
        if self.defect == "leaks a task":
            self.task = asyncio.create_task(asyncio.Event().wait())
        broken = BrokenHandler(handler, self.defect)
        broken.transport = BrokenTransport(
            await self._target.open(broken, max_frame_bytes, close_step), handler, self.defect
        )
        return broken.transport


class BrokenHandler:
    transport: "BrokenTransport"

    def __init__(self, handler: TransportHandler, defect: str) -> None:
        self._handler = handler
        self._defect = defect

    def frames_arrived(self) -> None:
        if self._defect != "loses the last frames":
            self._handler.frames_arrived()

    def wrote(self, through: int) -> None:
        self._handler.wrote(through)
        if self._defect == "reports writes twice":
            self._handler.wrote(through)

    def room_made(self) -> None:
        is_lost = self._defect == "reports no room after withdrawals" and self.transport.has_withdrawn
        if self._defect != "never has room" and not is_lost:
            self._handler.room_made()
        if self._defect == "has room twice":
            self._handler.room_made()

    def went_down(self, error: McpError, exit_code: int | None, was_silent: bool) -> None:
        if self._defect != "never ends":
            self._handler.went_down(error, exit_code, was_silent)
        if self._defect == "ends twice":
            self._handler.went_down(error, exit_code, was_silent)


class BrokenTransport:
    def __init__(self, transport: Transport, handler: TransportHandler, defect: str) -> None:
        self._transport = transport
        self._handler = handler
        self._defect = defect
        self._extra: list[bytes] = []
        self.has_withdrawn = False

    def send(self, frame: bytes, number: int) -> bool:
        if self._defect == "is never busy":
            if self._extra or not self._transport.send(frame, number):
                self._extra.append(frame)
            return True
        if self._defect == "changes frames":
            frame = frame[:-2] + b'?"'
        return self._transport.send(frame, number)

    def withdraw(self, number: int) -> bool:
        self.has_withdrawn = True
        return True if self._defect == "withdraws anything" else self._transport.withdraw(number)

    def next_frame(self) -> bytes | McpError | None:
        found = self._transport.next_frame()
        return self.next_frame() if self._defect == "hides errors" and isinstance(found, McpError) else found

    async def flush(self) -> bool:
        if self._defect == "does not wait for the last byte":
            return True
        if self._defect == "never finishes a flush":
            await asyncio.Event().wait()
        is_written = await self._transport.flush()
        return is_written or self._defect == "reports dropped frames as written"

    def stop_writing(self) -> None:
        if self._defect != "ignores stop_writing":
            self._transport.stop_writing()

    async def close(self) -> None:
        await self._transport.close()
        if self._defect == "reports its own close":
            self._handler.went_down(McpError("closed"), None, False)


DEFECTS = [
    "reports writes twice",
    "never has room",
    "has room twice",
    "never ends",
    "ends twice",
    "is never busy",
    "changes frames",
    "withdraws anything",
    "hides errors",
    "reports its own close",
    "loses the last frames",
    "leaks a task",
    "does not wait for the last byte",
    "never finishes a flush",
    "reports dropped frames as written",
    "reports no room after withdrawals",
    "ignores stop_writing",
]
TESTS = sorted(name for name in dir(TransportSuite) if name.startswith("test_"))


class BrokenSuite(TransportSuite):
    def __init__(self, defect: str) -> None:
        self.defect = defect

    @asynccontextmanager
    async def pair(self) -> AsyncIterator[tuple[Target, Peer]]:
        pair = memory_pair()
        async with memory_peer(pair.server) as peer:
            yield Broken(pair.client, self.defect), peer


def fails(suite: BrokenSuite, name: str) -> bool:
    try:
        getattr(suite, name)()
    except (AssertionError, TimeoutError):
        return True
    return False


def test_a_broken_transport_fails_the_suite(monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests) -> None:
    monkeypatch.setattr("jackstay.testing._guarded.GUARD_SECONDS", 0.5)
    for defect in DEFECTS:
        with subtests.test(defect):
            assert any(fails(BrokenSuite(defect), name) for name in TESTS), f"not detected: {defect}"


def test_pair_must_be_implemented() -> None:
    with pytest.raises(NotImplementedError):
        TransportSuite().pair()


async def test_a_recording_handler_without_a_transport_does_not_pull() -> None:
    pair = memory_pair()
    handler, other = RecordingHandler(), RecordingHandler()
    async with opened(pair.server, other) as sender:
        transport = await pair.client.open(handler, 100, 1.0)
        sender.send(b"1", 1)
        await handler.until(lambda: handler.arrivals)
        assert handler.frames == []
        handler.transport = transport
        handler.pull()
        assert handler.frames == [b"1"]
        await transport.close()
