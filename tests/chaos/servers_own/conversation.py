"""A client that says exactly what a test wants, over memory, to a real server on the same loop."""

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

GUARD = 20.0
STATELESS = "2026-07-28"
HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
ALL = (*HANDSHAKE, STATELESS)

Message = dict[str, Any]


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a test on a loop of its own, under a guard."""

    async def guarded() -> None:
        async with asyncio.timeout(30):
            await test()

    asyncio.run(guarded())


def meta(capabilities: Message | None = None, **more: Any) -> Message:
    """`_meta` of a stateless request."""
    return {
        "io.modelcontextprotocol/protocolVersion": STATELESS,
        "io.modelcontextprotocol/clientCapabilities": capabilities or {},
        **more,
    }


class Peer:
    """The client's end. Answers are found by their id; everything else is kept in `notes`, in order."""

    def __init__(self, version: str = "2025-11-25", capabilities: Message | None = None) -> None:
        self.version = version
        self.capabilities = capabilities or {}
        self.transport: Transport
        self.frames: deque[Message] = deque()
        self.heard: list[
            Message | list[Message]
        ] = []  # all of it, in order; what is awaited is taken out of the others
        self.notes: list[Message] = []
        self.asked: deque[Message] = deque()
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
                self.asked.append(message)
            elif isinstance(message, dict) and "method" in message:
                self.notes.append(message)
            self.frames.append(message)
            self.heard.append(message)
        self._arrived.set()

    def wrote(self, through: int) -> None:
        pass

    def room_made(self) -> None:
        self._room.set()

    def went_down(self, error: McpError, exit_code: int | None, was_silent: bool) -> None:
        self.is_down = True
        self._arrived.set()

    def say(self, message: Message | list[Any] | bytes) -> None:
        frame = message if isinstance(message, bytes) else json.dumps(message).encode()
        assert self.transport.send(frame, next(self._numbers)), "busy"

    async def say_all(self, messages: Iterable[Message | bytes]) -> None:
        """Say as many as there are, as fast as they are taken."""
        for message in messages:
            frame = message if isinstance(message, bytes) else json.dumps(message).encode()
            while not self.transport.send(frame, next(self._numbers)):
                self._room.clear()
                async with asyncio.timeout(GUARD):
                    await self._room.wait()

    def notify(self, method: str, params: Message | None = None) -> None:
        self.say({"jsonrpc": "2.0", "method": method, **({} if params is None else {"params": params})})

    def ask(self, method: str, params: Message | None = None, *, id: Any = None) -> Any:
        """Send a request and return its id."""
        id = f"r{next(self._ids)}" if id is None else id
        params = dict(params or {})
        if self.version == STATELESS:
            params["_meta"] = {**meta(self.capabilities), **params.get("_meta", {})}
        message: Message = {"jsonrpc": "2.0", "id": id, "method": method}
        self.say({**message, "params": params} if params else message)
        return id

    async def until(self, found: Callable[[], Any]) -> Any:
        async with asyncio.timeout(GUARD):
            while not (what := found()):
                assert not self.is_down, f"the server is gone; it said {list(self.frames)}"
                self._arrived.clear()
                await self._arrived.wait()
        return what

    async def ended(self) -> None:
        """The server has closed the connection."""
        async with asyncio.timeout(GUARD):
            while not self.is_down:
                self._arrived.clear()
                await self._arrived.wait()

    async def answer(self, id: Any) -> Message:
        """The answer to that request."""

        def found() -> Message | None:
            return next(
                (f for f in self.frames if isinstance(f, dict) and f.get("id") == id and "method" not in f),
                None,
            )

        answer: Message = await self.until(found)
        self.frames.remove(answer)
        return answer

    async def request(self, method: str, params: Message | None = None, *, id: Any = None) -> Message:
        return await self.answer(self.ask(method, params, id=id))

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

    async def question(self) -> Message:
        """The next request of the server's."""
        await self.until(lambda: self.asked)
        return self.asked.popleft()

    async def note(self, method: str) -> Message:
        """The next notification of this method."""
        found = await self.until(lambda: [note for note in self.notes if note["method"] == method])
        self.notes.remove(found[0])
        params: Message = found[0].get("params", {})
        return params

    async def initialize(self) -> Message:
        """The handshake, in the eras that have one."""
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
async def talking(
    server: Server,
    version: str = "2025-11-25",
    capabilities: Message | None = None,
    *,
    is_fresh: bool = False,
) -> AsyncIterator[Peer]:
    """A client that is connected, with the handshake done unless `is_fresh`; the server ends with the block."""
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
