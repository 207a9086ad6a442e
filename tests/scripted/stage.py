"""A stage for the client's driver: a transport that does as it is told, and a connection that is brought into any state.

`Watched` is the core, with a note of every branch of its table that was taken.

Above: `scripted.edge_scenes`, tests of the client's table. Below: the driver and its core, as they are.
"""

import asyncio
import json
from collections import deque
from collections.abc import Callable
from typing import Any

from jackstay.client._call import Call
from jackstay.client._connection import Connection
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
    """The core, with a note of every branch that it takes."""

    __slots__ = ()
    seen: set[Edge]  # of the scene that runs

    def _fire(self, event: e.Event) -> None:
        kind = type(event)
        is_of_epoch = isinstance(event, e.TransportEvent) and kind not in (e.ExchangeLost, e.PostStarted)
        if is_of_epoch and event.epoch != self.epoch:  # type: ignore[attr-defined]  # as just seen
            kind = e.StaleHappened
        cell, branch = CELLS[kind][self.state], 0
        while cell.when is not None and not self.WHEN[cell.when](self, event):
            assert cell.otherwise is not None
            cell, branch = cell.otherwise, branch + 1
        self.seen.add((kind, self.state, branch))
        super()._fire(event)


class Wire:
    """A transport that does as the stage says, and that nothing stops from speaking after it was closed."""

    def __init__(self, stage: "Stage", owner: Any) -> None:
        self.stage = stage
        self.owner = owner
        self.inbox: deque[bytes | McpError] = deque()

    def send(self, frame: bytes, number: int) -> bool:
        if self.stage.is_busy(frame):
            return False
        self.stage.sent.append(json.loads(frame))
        self.stage.number = number
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
        await self.stage.closing.wait()


class HttpWire(Wire):
    """The same, where requests travel one by one."""

    def hang_up(self, id: int) -> None:
        pass

    def renew(self, owner: Any) -> None:
        self.owner = owner
        self.stage.owners.append(owner)


class Stage:
    """A target and the connection to it. `go(state)` brings it there."""

    init_timeout = None
    name = "stage"

    def __init__(self, *, is_http: bool = False, **options: Any) -> None:
        self.is_http = is_http
        self.sent: list[dict[str, Any]] = []
        self.number = 0
        self.is_busy: Callable[[bytes], bool] = lambda frame: False
        self.fates: deque[Exception | asyncio.Event] = deque()  # of the openings to come; then they succeed
        self.closing = asyncio.Event()
        self.wires: list[Wire] = []
        self.owners: list[Any] = []
        options = {
            "versions": ("2025-11-25",),
            "tombstone_sweep": 1_000.0,
            "close_step": 30.0,
            "max_attempts": 5,
            **options,
        }
        self.connection = Connection(self, Settings(**options), Telemetry("stage"))
        self.connection.on_request = self.handle
        self.answer_to_server = asyncio.Event()
        self.tasks: list[asyncio.Task[Any]] = []

    async def open(self, owner: Any, max_frame_bytes: int, close_step: float) -> Any:
        self.owners.append(owner)
        if self.fates:
            fate = self.fates.popleft()
            if isinstance(fate, Exception):
                raise fate
            try:
                await fate.wait()
            except asyncio.CancelledError:
                if not getattr(fate, "is_stubborn", False):
                    raise
                await fate.wait()
        self.wires.append((HttpWire if self.is_http else Wire)(self, owner))
        return self.wires[-1]

    async def handle(self, method: str, params: Any) -> bytes:
        await self.answer_to_server.wait()
        return b"{}"

    # --- what a scene does --------------------------------------------------------------------------------------------

    @property
    def state(self) -> ClientState:
        return self.connection.core.state

    @property
    def owner(self) -> Any:
        return self.owners[-1]

    async def turn(self, count: int = 6) -> None:
        for _ in range(count):
            await asyncio.sleep(0)

    async def say(self, **message: Any) -> None:
        await self.say_line(json.dumps({"jsonrpc": "2.0", **message}).encode())

    async def say_line(self, frame: bytes | McpError) -> None:
        wire = self.wires[-1]
        wire.inbox.append(frame)
        wire.owner.frames_arrived()
        await self.turn()

    def id_of(self, method: str) -> int:
        return next(int(message["id"]) for message in reversed(self.sent) if message.get("method") == method)

    def wrote(self) -> None:
        self.owner.wrote(self.number)

    def down(self, code: int | None = None, *, is_silent: bool = False) -> None:
        self.owner.went_down(LOST, code, is_silent)

    def call(self, **how: Any) -> Call[Any]:
        call: Call[Any] = self.connection.submit("tools/call", b"{}", bytes, **how)
        call.future.add_done_callback(lambda future: future.cancelled() or future.exception())
        return call

    def later(self, work: Any) -> None:
        async def quietly() -> None:
            try:
                await work
            except (McpError, TimeoutError):
                pass

        self.tasks.append(asyncio.ensure_future(quietly()))

    async def agree(self) -> None:
        await self.say(id=self.id_of("initialize"), result=LEGACY)
        assert self.state is S.READY

    async def go(self, state: ClientState) -> "Stage":
        """There, the plainest way; closing and backoff hold the old transport until `closing` is set."""
        if state is S.STARTING:
            self.fates.append(asyncio.Event())
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
        for fate in self.fates:
            if isinstance(fate, asyncio.Event):
                fate.set()
        self.closing.set()
        self.answer_to_server.set()
        await self.connection.stop()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
