"""The suite is passed by every transport of ours, and fails one that breaks a duty."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from tempfile import TemporaryDirectory

import pytest

from jackstay.errors import McpError
from jackstay.testing import Peer, Recorder, TransportSuite, memory_pair, recorded
from jackstay.testing.transport_suite import FRAME_LIMIT, opened, run
from jackstay.transport import Owner, Target, Transport, stdio
from scripted.places import TESTS

PEER = TESTS / "chaos" / "servers" / "peer.py"


class MemoryPeer:
    """The other end of a pair in memory, which pulls when it is asked to."""

    def __init__(self, owner: Recorder, transport: Transport) -> None:
        self._owner = owner
        self._transport = transport
        self._sent = 0

    async def receive(self) -> bytes:
        while (frame := self._transport.next_frame()) is None:
            await self._owner.until(partial(self._has_arrived_since, self._owner.arrivals))
        assert isinstance(frame, bytes)
        return frame

    def _has_arrived_since(self, arrivals: int) -> bool:
        return self._owner.arrivals > arrivals

    async def send(self, frame: bytes) -> None:
        self._sent += 1
        assert self._transport.send(frame, self._sent)
        await self._owner.until(lambda: self._owner.through == self._sent)

    async def leave(self) -> None:
        await self._transport.close()


@asynccontextmanager
async def memory_peer(target: Target) -> AsyncIterator[MemoryPeer]:
    owner = Recorder()
    owner.pulls = False
    transport = await target.open(owner, 2 * FRAME_LIMIT, 1.0)
    yield MemoryPeer(owner, transport)
    await transport.close()


class ChildPeer:
    """A child that is told over a socket what to do."""

    def __init__(self) -> None:
        self._streams: asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Future()

    def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._streams.set_result((reader, writer))

    async def _ask(self, command: bytes, size: int, data: bytes = b"") -> asyncio.StreamReader:
        reader, writer = await self._streams
        writer.write(command + b"%08x" % size + data)
        await writer.drain()
        return reader

    async def receive(self) -> bytes:
        reader = await self._ask(b"r", 0)
        size = int(await reader.readexactly(8), 16)
        return (await reader.readexactly(size)).removesuffix(b"\n")

    async def send(self, frame: bytes) -> None:
        reader = await self._ask(b"w", len(frame) + 1, frame + b"\n")
        await reader.readexactly(8)

    async def leave(self) -> None:
        await self._ask(b"x", 3)

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
            server = await asyncio.start_unix_server(
                peer.connected, f"{folder}/control", limit=2 * FRAME_LIMIT
            )
            async with server:
                yield stdio(sys.executable, "-I", "-S", str(PEER), f"{folder}/control"), peer
                peer.close()


# --- the proof that the suite can fail --------------------------------------------------------------------------------


class Broken:
    """A pair in memory whose client end breaks one duty."""

    is_http = False
    name = "broken"
    init_timeout = 1.0

    def __init__(self, target: Target, defect: str) -> None:
        self._target = target
        self.defect = defect

    async def open(self, owner: Owner, max_frame_bytes: int, close_step: float) -> "BrokenTransport":
        if self.defect == "leaks a task":
            self.task = asyncio.create_task(asyncio.Event().wait())
        told = BrokenOwner(owner, self.defect)
        told.transport = BrokenTransport(
            await self._target.open(told, max_frame_bytes, close_step), owner, self.defect
        )
        return told.transport


class BrokenOwner:
    transport: "BrokenTransport"

    def __init__(self, owner: Owner, defect: str) -> None:
        self._owner = owner
        self._defect = defect

    def frames_arrived(self) -> None:
        if self._defect != "loses what came last":
            self._owner.frames_arrived()

    def wrote(self, through: int) -> None:
        self._owner.wrote(through)
        if self._defect == "tells writes twice":
            self._owner.wrote(through)

    def room_made(self) -> None:
        is_kept = self._defect == "keeps the room of what was withdrawn" and self.transport.has_withdrawn
        if self._defect != "never has room" and not is_kept:
            self._owner.room_made()
        if self._defect == "has room twice":
            self._owner.room_made()

    def went_down(self, error: McpError, exit_code: int | None, was_silent: bool) -> None:
        if self._defect != "never ends":
            self._owner.went_down(error, exit_code, was_silent)
        if self._defect == "ends twice":
            self._owner.went_down(error, exit_code, was_silent)


class BrokenTransport:
    def __init__(self, transport: Transport, owner: Owner, defect: str) -> None:
        self._transport = transport
        self._owner = owner
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
        return self.next_frame() if self._defect == "hides faults" and isinstance(found, McpError) else found

    async def flush(self) -> bool:
        if self._defect == "does not wait for the last byte":
            return True
        if self._defect == "never knows that all is written":
            await asyncio.Event().wait()
        is_written = await self._transport.flush()
        return is_written or self._defect == "calls what was dropped written"

    def stop_writing(self) -> None:
        if self._defect != "writes on until it is closed":
            self._transport.stop_writing()

    async def close(self) -> None:
        await self._transport.close()
        if self._defect == "reports our own end":
            self._owner.went_down(McpError("closed"), None, False)


DEFECTS = [
    "tells writes twice",
    "never has room",
    "has room twice",
    "never ends",
    "ends twice",
    "is never busy",
    "changes frames",
    "withdraws anything",
    "hides faults",
    "reports our own end",
    "loses what came last",
    "leaks a task",
    "does not wait for the last byte",
    "never knows that all is written",
    "calls what was dropped written",
    "keeps the room of what was withdrawn",
    "writes on until it is closed",
]
TESTS = sorted(name for name in dir(TransportSuite) if name.startswith("test_"))


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_broken_transport_fails_the_suite(defect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jackstay.testing.transport_suite.GUARD_SECONDS", 0.5)

    class Suite(TransportSuite):
        @asynccontextmanager
        async def pair(self) -> AsyncIterator[tuple[Target, Peer]]:
            pair = memory_pair()
            async with memory_peer(pair.server) as peer:
                yield Broken(pair.client, defect), peer

    failed = []
    for name in TESTS:
        try:
            getattr(Suite(), name)()
        except (AssertionError, TimeoutError):
            failed.append(name)
    assert failed, f"nothing noticed a transport that {defect}"


def test_the_suite_needs_to_be_told_what_to_test() -> None:
    with pytest.raises(NotImplementedError):
        TransportSuite().pair()


def test_a_recorder_that_has_no_transport_yet_leaves_frames_where_they_are() -> None:
    async def test() -> None:
        pair = memory_pair()
        owner, other = Recorder(), Recorder()
        async with opened(pair.server, other) as sender:
            transport = await pair.client.open(owner, 100, 1.0)
            sender.send(b"1", 1)
            await owner.until(lambda: owner.arrivals)
            assert owner.frames == []
            owner.transport = transport
            owner.pull()
            assert owner.frames == [b"1"]
            await transport.close()

    run(test)
