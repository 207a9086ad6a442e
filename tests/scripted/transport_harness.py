"""A harness for the client's driver: a fake transport, and a connection that can be brought into any state.

`Watched` is the core, which records every branch of its table that was taken.
"""

import asyncio
import json
from collections import deque
from collections.abc import Callable
from typing import Any

from jackstay.client._call import Call
from jackstay.client._driver import Driver
from jackstay.client._telemetry import Telemetry
from jackstay.errors import McpError, TransportError
from jackstay.protocol.client import ClientConnection, ClientState, Settings
from jackstay.protocol.client import events as e
from jackstay.protocol.client._table import CELLS

S = ClientState
Edge = tuple[type[e.Event], ClientState, int]

LOST = TransportError("lost")
LEGACY = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}
MODERN = {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {}}
SUBSCRIBED = e.Subscribed("k", ("resources/subscribe", b'{"uri":"x:y"}'), None)


class Watched(ClientConnection):
    """The core, which records every branch that it takes."""

    __slots__ = ()
    seen: set[Edge]  # of the running scenario

    def fire(self, event: e.Event) -> None:
        kind = type(event)
        cell, branch = CELLS[kind][self.state], 0
        while cell.guard is not None and not cell.guard(self, event):
            assert cell.otherwise is not None
            cell, branch = cell.otherwise, branch + 1
        self.seen.add((kind, self.state, branch))
        super().fire(event)


class FakeTransport:
    """A transport controlled by the harness, which can send callbacks even after `close()`."""

    def __init__(self, harness: "TransportHarness", handler: Any) -> None:
        self.harness = harness
        self.handler = handler
        self.inbox: deque[bytes | McpError] = deque()

    def send(self, frame: bytes, number: int) -> bool:
        if self.harness.is_busy(frame):
            return False
        self.harness.sent.append(json.loads(frame))
        self.harness.number = number
        return True

    def withdraw(self, number: int) -> bool:
        return True

    def next_frame(self) -> bytes | McpError | None:
        return self.inbox.popleft() if self.inbox else None

    async def flush(self) -> bool:
        return True

    def stop_writing(self) -> None:
        pass

    async def close(self) -> None:
        await self.harness.closing.wait()


class FakeHttpTransport(FakeTransport):
    """A fake HTTP transport."""

    def abort(self, id: int) -> None:
        pass

    def renew(self, handler: Any) -> None:
        self.handler = handler
        self.harness.handlers.append(handler)


class TransportHarness:
    """A target and its connection. `go(state)` brings it into a state."""

    init_timeout = None
    name = "harness"

    def __init__(self, *, is_http: bool = False, **options: Any) -> None:
        self.is_http = is_http
        self.sent: list[dict[str, Any]] = []
        self.number = 0
        self.is_busy: Callable[[bytes], bool] = lambda frame: False
        self.open_results: deque[Exception | asyncio.Event] = deque()  # for the next calls of `open()`
        self.closing = asyncio.Event()
        self.transports: list[FakeTransport] = []
        self.handlers: list[Any] = []
        options = {
            "versions": ("2025-11-25",),
            "tombstone_sweep": 1_000.0,
            "close_step": 30.0,
            "max_attempts": 5,
            **options,
        }
        self.connection = Driver(self, Settings(**options), Telemetry("harness"))
        self.connection.on_request = self.handle
        self.respond_to_server = asyncio.Event()
        self.tasks: list[asyncio.Task[Any]] = []

    async def open(self, handler: Any, max_frame_bytes: int, close_step: float) -> Any:
        self.handlers.append(handler)
        if self.open_results:
            result = self.open_results.popleft()
            if isinstance(result, Exception):
                raise result
            try:
                await result.wait()
            except asyncio.CancelledError:
                if not getattr(result, "ignores_cancellation", False):
                    raise
                await result.wait()
        self.transports.append((FakeHttpTransport if self.is_http else FakeTransport)(self, handler))
        return self.transports[-1]

    async def handle(self, method: str, params: Any) -> bytes:
        await self.respond_to_server.wait()
        return b"{}"

    # --- used by scenarios --------------------------------------------------------------------------------------------

    @property
    def state(self) -> ClientState:
        return self.connection.core.state

    @property
    def handler(self) -> Any:
        return self.handlers[-1]

    async def turn(self, count: int = 6) -> None:
        for _ in range(count):
            await asyncio.sleep(0)

    async def receive(self, **message: Any) -> None:
        await self.receive_frame(json.dumps({"jsonrpc": "2.0", **message}).encode())

    async def receive_frame(self, frame: bytes | McpError) -> None:
        transport = self.transports[-1]
        transport.inbox.append(frame)
        transport.handler.frames_arrived()
        await self.turn()

    def id_of(self, method: str) -> int:
        return next(int(message["id"]) for message in reversed(self.sent) if message.get("method") == method)

    def wrote(self) -> None:
        self.handler.wrote(self.number)

    def down(self, code: int | None = None, *, is_silent: bool = False) -> None:
        self.handler.went_down(LOST, code, is_silent)

    def call(self, **options: Any) -> Call[Any]:
        call: Call[Any] = self.connection.submit("tools/call", b"{}", bytes, **options)
        call.future.add_done_callback(lambda future: future.cancelled() or future.exception())
        return call

    def later(self, work: Any) -> None:
        async def ignoring_errors() -> None:
            try:
                await work
            except (McpError, TimeoutError):
                pass

        self.tasks.append(asyncio.ensure_future(ignoring_errors()))

    async def agree(self) -> None:
        await self.receive(id=self.id_of("initialize"), result=LEGACY)
        assert self.state is S.READY

    async def go(self, state: ClientState) -> "TransportHarness":
        """Bring the connection into a state. In closing and backoff the old transport stays until `closing` is set."""
        if state is S.STARTING:
            self.open_results.append(asyncio.Event())
        self.connection.start()
        await self.turn()
        if state in (S.READY, S.BACKOFF, S.CLOSING, S.CLOSED):
            await self.agree()
        if state is S.BACKOFF:
            self.down()
        if state in (S.CLOSING, S.CLOSED):
            self.later(self.connection.stop())
            await self.turn()
        if state is S.CLOSED:
            self.closing.set()
            await self.turn()
        assert self.state is state, self.connection
        return self

    async def end(self) -> None:
        for result in self.open_results:
            if isinstance(result, asyncio.Event):
                result.set()
        self.closing.set()
        self.respond_to_server.set()
        await self.connection.stop()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
