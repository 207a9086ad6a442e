"""`may_have_run` agrees with what the server received when the connection closes.

Every way in which a client closes its transport, with calls whose frames were queued in the same iteration of the event
loop, against a ledger kept by the server: in memory and with a real child process, on both event loops.
"""

import asyncio
import sys
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import uvloop

from jackstay.client import Client, connect
from jackstay.client._call import Call
from jackstay.client._driver import Driver
from jackstay.errors import McpError
from jackstay.protocol.client import events as e
from jackstay.protocol.client._table import ROWS, ClientState
from jackstay.testing import ScriptedPeer, on_fake_clock
from jackstay.transport import MemoryTransport, Target, memory_pair, stdio
from jackstay.transport._child import ChildTransport
from peers import closing
from peers.closing import EXIT, LIMIT, ClosingServer

# How each closing row of the client's table is reached.
KINDS: dict[str, type[e.Event]] = {
    "stop": e.StopRequested,
    "reset": e.ResetReceived,
    "second initialize": e.InitializeReceived,
    "invalid frames": e.TooManyInvalidFrames,
    "oversize": e.OversizeReceived,
    "exit": e.WentDown,
    "keepalive missed": e.KeepaliveMissed,
    "check expired": e.CheckExpired,
    "connect expired": e.ConnectExpired,
    "negotiation failed": e.NegotiationFailed,
    "negotiation refused": e.NegotiationRefused,
}
# Stepped by the test, because it must not wait for a clock, and `stop()` flushes queued frames first.
STEPPED: dict[str, Callable[[], e.Event]] = {
    "stop": e.StopRequested,
    "keepalive missed": e.KeepaliveMissed,
    "check expired": e.CheckExpired,
    "connect expired": e.ConnectExpired,
}
# These close nothing: there is no transport yet, or no longer.
WITHOUT_TRANSPORT = {e.SpawnFailed, e.SpawnRefused, e.AttemptsExhausted}
# Each request is a separate POST: see packages/jackstay/tests/transport/http.
HTTP_ONLY = {e.SessionLost}

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.SelectorEventLoop,
    "uvloop": uvloop.new_event_loop,
}
IN_HANDSHAKE = ("connect expired", "negotiation failed", "negotiation refused")
FINAL = ("stop", "negotiation refused")


def test_every_closing_row_of_the_table_has_a_kind() -> None:
    ends = (ClientState.BACKOFF, ClientState.CLOSING, ClientState.CLOSED)
    closing_rows = set()
    for event, cells in ROWS.items():
        for state, first in zip(ClientState, cells, strict=True):
            cell: Any = first
            while cell is not None and state not in ends:
                if cell.to in ends:
                    closing_rows.add(event)
                cell = cell.otherwise
    assert closing_rows - WITHOUT_TRANSPORT - HTTP_ONLY == set(KINDS.values())


# --- the two transports -----------------------------------------------------------------------------------------------


class MemoryServer:
    """The server in memory: each connection is answered by a `ClosingServer`."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.pair = memory_pair()
        self.ledger: Counter[str] = Counter()
        self._transports: list[MemoryTransport] = []

    @property
    def target(self) -> Target:
        return self.pair.client

    async def __aenter__(self) -> "MemoryServer":
        await self._serve()
        return self

    async def __aexit__(self, *_: object) -> None:
        for transport in self._transports:
            await transport.close()

    async def _serve(self) -> None:
        server = ClosingServer(self.kind, self._record, is_first=not self._transports)
        connection = MemoryConnection(server, self._serve)
        connection.transport = await self.pair.server.open(connection, 1 << 24, 1.0)
        self._transports.append(connection.transport)
        connection.frames_arrived()

    def _record(self, name: str) -> None:
        self.ledger[name] += 1


class MemoryConnection:
    """The transport handler of the server."""

    def __init__(self, server: ClosingServer, next: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self.transport: MemoryTransport | None = None
        self._server = server
        self._next = next
        self._number = 0
        self._tasks: list[asyncio.Task[None]] = []

    def frames_arrived(self) -> None:
        while self.transport is not None and (frame := self.transport.next_frame()) is not None:
            assert isinstance(frame, bytes)
            for answer in self._server.receive(frame):
                if answer == EXIT:
                    self._tasks = [
                        asyncio.ensure_future(self.transport.close()),
                        asyncio.ensure_future(self._next()),
                    ]
                    return
                self._number += 1
                self.transport.send(answer, self._number)

    def wrote(self, through: int) -> None:
        pass

    def room_made(self) -> None:
        pass

    def went_down(self, error: McpError, exit_code: int | None, was_silent: bool) -> None:
        self.frames_arrived()  # frames that were written and not yet pulled were received
        self._tasks.append(asyncio.ensure_future(self._next()))


class StdioServer:
    """The server as a real child process."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.target: Target = stdio(sys.executable, "-I", "-S", closing.__file__, kind, str(folder))
        self._ledger = folder / "ledger"

    async def __aenter__(self) -> "StdioServer":
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    @property
    def ledger(self) -> Counter[str]:
        return Counter(self._ledger.read_text().split()) if self._ledger.exists() else Counter()


# --- calls in the same iteration --------------------------------------------------------------------------------------


class Caller:
    """Makes calls right before the driver handles frames or timers: their frames are queued in the same iteration."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.calls: dict[str, Call[Any]] = {}
        self.is_calling = False
        self.initializing = asyncio.Event()
        self.left = asyncio.Event()  # the state in which the server misbehaves
        client.on_event(self._listen)

    def call(self, name: str = "") -> Call[Any]:
        name = name or f"call-{len(self.calls)}"
        waits = len(self.calls) % 2 == 0
        options: dict[str, Any] = {"wait_for_ready": waits, "replay": "never", "timeout": 30}
        call = self.calls[name] = self.client.submit("tools/call", {"name": name}, **options)
        return call

    def before(self, method: Callable[..., None]) -> Callable[..., None]:
        """Wrap a method of the driver so that two calls are made before it."""

        def called(connection: Driver, *args: Any) -> None:
            if self.is_calling and len(self.calls) < 200:
                self.call()
                self.call()
            method(connection, *args)

        return called

    def _listen(self, name: str, fields: Mapping[str, Any]) -> None:
        if name != "jackstay.connection.transition":
            return
        if fields["to"] == "initializing":
            self.initializing.set()
        elif fields["to"] in ("backoff", "closing", "closed"):
            self.is_calling = False
            self.left.set()


async def contradictions(kind: str, server: Any) -> list[str]:
    """Return the outcomes that contradict the ledger, after the connection was closed in this way."""
    async with server:
        client = connect(
            server.target,
            versions=("2025-11-25",),
            max_frame_bytes=LIMIT,
            init_timeout=30.0,
            backoff_min=0.01,
            backoff_max=0.02,
        )
        caller = Caller(client)
        with pytest.MonkeyPatch.context() as patch:
            for method in (Driver.pull, Driver._tick):
                patch.setattr(Driver, method.__name__, caller.before(method))
            caller.is_calling = kind in IN_HANDSHAKE
            await client.open(wait=False)
            if kind in IN_HANDSHAKE:
                await caller.initializing.wait()
            else:
                await client.ready()
                caller.call("trigger")
                caller.is_calling = True
            if kind in STEPPED:
                caller.call()
                caller.call()
                connection = client._requests.connection
                if kind == "check expired":  # the newest frame is the check, and nothing was received since
                    connection.core.health.check = connection.core.calls.number
                connection.step(STEPPED[kind]())
            await caller.left.wait()
            if kind not in FINAL:
                await client.ready()
                await asyncio.gather(caller.call(), caller.call())
            await client.stop()
        outcomes = await asyncio.gather(*caller.calls.values(), return_exceptions=True)
        return compare(caller.calls, outcomes, server)


def compare(calls: dict[str, Call[Any]], outcomes: list[Any], server: Any) -> list[str]:
    ledger = server.ledger
    assert len(calls) > 2, "no call was made in the iteration of the close"
    found = []
    for name, outcome in zip(calls, outcomes, strict=True):
        times = ledger[name]
        if isinstance(outcome, McpError):
            is_consistent = times == 0 if outcome.may_have_run is False else times <= 1
        else:
            is_consistent = times == 1 and not isinstance(outcome, BaseException)
        if not is_consistent:
            found.append(f"{name}: {outcome!r}, and the server received it {times} times")
    return found


def server_for(where: str, kind: str, folder: Path) -> Any:
    return MemoryServer(kind) if where == "memory" else StdioServer(kind, folder)


def run(loop: str, work: Callable[[], Coroutine[Any, Any, list[str]]]) -> list[str]:
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        return runner.run(asyncio.wait_for(work(), 50))


def folder_for(kind: str, tmp_path: Path) -> Path:
    folder = tmp_path / kind.replace(" ", "-")
    folder.mkdir()
    return folder


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("where", ["memory", "stdio"])
def test_may_have_run_agrees_with_what_the_server_received(
    where: str, loop: str, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    for kind in KINDS:
        with subtests.test(kind=kind):
            server = server_for(where, kind, folder_for(kind, tmp_path))
            assert run(loop, partial(contradictions, kind, server)) == []


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("where", ["memory", "stdio"])
def test_frames_queued_before_stop_are_written_and_reported(where: str, loop: str, tmp_path: Path) -> None:
    async def stopped_at_once() -> list[str]:
        server = server_for(where, "none", tmp_path)
        async with server:
            client = connect(server.target, versions=("2025-11-25",))
            await client.open()
            caller = Caller(client)
            for _ in range(4):
                caller.call()
            await client.stop()
            outcomes: list[Any] = await asyncio.gather(*caller.calls.values(), return_exceptions=True)
            assert [outcome.may_have_run for outcome in outcomes] == [True] * 4
            assert server.ledger == dict.fromkeys(caller.calls, 1)
            return compare(caller.calls, outcomes, server)

    assert run(loop, stopped_at_once) == []


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("where", ["memory", "stdio"])
def test_a_transport_that_stops_writing_an_iteration_later_is_detected(
    where: str, loop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for transport in (MemoryTransport, ChildTransport):
        monkeypatch.setattr(transport, "stop_writing", lambda self: None)
    for kind in ("stop", "reset", "second initialize", "invalid frames", "oversize", "keepalive missed"):
        server = server_for(where, kind, folder_for(kind, tmp_path))
        assert run(loop, partial(contradictions, kind, server)) != [], kind


@on_fake_clock
async def test_a_cancelled_stop_still_closes_the_client() -> None:
    async with ScriptedPeer() as peer:
        client = connect(peer.target)
        await client.open()
        stopping = asyncio.ensure_future(client.stop())
        await asyncio.sleep(0)
        stopping.cancel()
        await asyncio.wait([stopping])
        assert client.state in ("closing", "closed")
        await client.stop()
        assert client.state == "closed"
