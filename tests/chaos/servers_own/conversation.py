"""A scripted client that is connected to a real server in memory, on the same loop."""

import asyncio
import itertools
import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any

from jackstay.errors import McpError
from jackstay.server import Server
from jackstay.transport import MemoryPair, Transport, memory_pair

GUARD = 120.0
STATELESS = "2026-07-28"
HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
ALL = (*HANDSHAKE, STATELESS)

Message = dict[str, Any]


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a test on a new event loop, with a time limit."""

    async def guarded() -> None:
        async with asyncio.timeout(120):
            await test()

    asyncio.run(guarded())


def meta(capabilities: Message | None = None, **more: Any) -> Message:
    """Return the `_meta` of a stateless request."""
    return {
        "io.modelcontextprotocol/protocolVersion": STATELESS,
        "io.modelcontextprotocol/clientCapabilities": capabilities or {},
        **more,
    }


class Peer:
    """The client. Responses are found by their id; notifications and requests of the server are kept in order."""

    def __init__(self, version: str = "2025-11-25", capabilities: Message | None = None) -> None:
        self.version = version
        self.capabilities = capabilities or {}
        self.transport: Transport
        self.frames: deque[Message] = deque()
        # All messages in order. Awaited messages are removed from the other collections, not from this one.
        self.received: list[Message | list[Message]] = []
        self.notifications: list[Message] = []
        self.server_requests: deque[Message] = deque()
        self.is_down = False
        self.is_reading = True
        self._arrived = asyncio.Event()
        self._room = asyncio.Event()
        self._numbers = itertools.count(1)
        self._ids = itertools.count(1)

    def frames_arrived(self) -> None:
        while self.is_reading and (frame := self.transport.next_frame()) is not None:
            assert isinstance(frame, bytes), frame
            message = json.loads(frame)
            if isinstance(message, dict) and "method" in message and "id" in message:
                self.server_requests.append(message)
            elif isinstance(message, dict) and "method" in message:
                self.notifications.append(message)
            self.frames.append(message)
            self.received.append(message)
        self._arrived.set()

    def wrote(self, through: int) -> None:
        pass

    def room_made(self) -> None:
        self._room.set()

    def went_down(self, error: McpError, exit_code: int | None, was_silent: bool) -> None:
        self.is_down = True
        self._arrived.set()

    def send(self, message: Message | list[Any] | bytes) -> None:
        frame = message if isinstance(message, bytes) else json.dumps(message).encode()
        assert self.transport.send(frame, next(self._numbers)), "busy"

    async def send_all(self, messages: Iterable[Message | bytes]) -> None:
        """Send all messages, as fast as the transport accepts them."""
        for message in messages:
            frame = message if isinstance(message, bytes) else json.dumps(message).encode()
            while not self.transport.send(frame, next(self._numbers)):
                self._room.clear()
                async with asyncio.timeout(GUARD):
                    await self._room.wait()

    def notify(self, method: str, params: Message | None = None) -> None:
        self.send({"jsonrpc": "2.0", "method": method, **({} if params is None else {"params": params})})

    def send_request(self, method: str, params: Message | None = None, *, id: Any = None) -> Any:
        """Send a request and return its id."""
        id = f"r{next(self._ids)}" if id is None else id
        params = dict(params or {})
        if self.version == STATELESS:
            params["_meta"] = {**meta(self.capabilities), **params.get("_meta", {})}
        message: Message = {"jsonrpc": "2.0", "id": id, "method": method}
        self.send({**message, "params": params} if params else message)
        return id

    async def until(self, found: Callable[[], Any]) -> Any:
        async with asyncio.timeout(GUARD):
            while not (value := found()):
                assert not self.is_down, f"the server closed the connection; received {list(self.frames)}"
                self._arrived.clear()
                await self._arrived.wait()
        return value

    async def ended(self) -> None:
        """Wait until the server has closed the connection."""
        async with asyncio.timeout(GUARD):
            while not self.is_down:
                self._arrived.clear()
                await self._arrived.wait()

    async def answer(self, id: Any) -> Message:
        """Wait for the response to that request."""

        def found() -> Message | None:
            return next(
                (f for f in self.frames if isinstance(f, dict) and f.get("id") == id and "method" not in f),
                None,
            )

        answer: Message = await self.until(found)
        self.frames.remove(answer)
        return answer

    async def request(self, method: str, params: Message | None = None, *, id: Any = None) -> Message:
        return await self.answer(self.send_request(method, params, id=id))

    async def result(self, method: str, params: Message | None = None) -> Any:
        answer = await self.request(method, params)
        assert "result" in answer, answer
        return answer["result"]

    async def error(self, method: str, params: Message | None = None) -> Any:
        answer = await self.request(method, params)
        assert "error" in answer, answer
        return answer["error"]

    async def call(self, name: str, /, **arguments: Any) -> Any:
        return await self.result("tools/call", {"name": name, "arguments": arguments})

    async def text(self, name: str, /, **arguments: Any) -> str:
        result = await self.call(name, **arguments)
        assert not result.get("isError"), result
        return str(result["content"][0]["text"])

    async def server_request(self) -> Message:
        """Wait for the next request of the server."""
        await self.until(lambda: self.server_requests)
        return self.server_requests.popleft()

    async def notification(self, method: str) -> Message:
        """Wait for the next notification of this method and return its params."""
        found = await self.until(lambda: [note for note in self.notifications if note["method"] == method])
        self.notifications.remove(found[0])
        params: Message = found[0].get("params", {})
        return params

    async def initialize(self) -> Message:
        """Perform the handshake, in the revisions that have one."""
        if self.version == STATELESS:
            return {}
        params = {
            "protocolVersion": self.version,
            "capabilities": self.capabilities,
            "clientInfo": {"name": "peer", "version": "1"},
        }
        answer = await self.request("initialize", params)
        self.notify("notifications/initialized")
        result: Message = answer["result"]
        assert result["protocolVersion"] == self.version
        return result


@asynccontextmanager
async def connected(
    server: Server,
    version: str = "2025-11-25",
    capabilities: Message | None = None,
    *,
    is_fresh: bool = False,
) -> AsyncIterator[Peer]:
    """Connect a client, with its handshake unless `is_fresh`. The connection ends with the block."""
    pair: MemoryPair = memory_pair()
    peer = Peer(version, capabilities)
    serving = asyncio.create_task(server.serve(pair.server))
    peer.transport = await pair.client.open(peer, 32 * 1024 * 1024, 1.0)
    if not is_fresh:
        await peer.initialize()
    try:
        yield peer
    finally:
        await peer.transport.close()
        async with asyncio.timeout(GUARD):
            await serving
