"""A small server for tests of the client: it says what a test tells it to, in either era, and remembers what it heard.

It sits at the other end of a pair in memory. Methods it has an answer for are answered at once; others stay unanswered until
the test answers them. When the connection ends it waits for the next one, as a server that is started again does.
"""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from mooring.client import Client, connect
from mooring.errors import McpError
from mooring.transport import MemoryPair, MemoryTransport, memory_pair

HANDSHAKE, STATELESS = "2025-11-25", "2026-07-28"
ERAS = (HANDSHAKE, STATELESS)

# Everything that a server can offer.
EVERYTHING: dict[str, Any] = {
    "tools": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "prompts": {"listChanged": True},
    "completions": {},
    "logging": {},
}


class Refusal(Exception):
    """An answer that is an error."""

    def __init__(self, code: int, message: str = "no", data: Any = None) -> None:
        super().__init__(code)
        self.error = {"code": code, "message": message} | ({} if data is None else {"data": data})


Script = Callable[[dict[str, Any]], Any]


class Peer:
    """The other end. `on[method]` is the result, or a function from params to it; None: no answer."""

    def __init__(self, version: str = HANDSHAKE, capabilities: dict[str, Any] | None = None) -> None:
        self.pair: MemoryPair = memory_pair("scripted")
        self.version = version
        self.capabilities = EVERYTHING if capabilities is None else capabilities
        self.heard: list[dict[str, Any]] = []
        self.frames: list[bytes] = []
        self.on: dict[str, Any] = {}
        self.connections = 0
        self.is_reopened = True
        self._transport: MemoryTransport | None = None
        self._opening: asyncio.Task[None] | None = None
        self._number = 0
        self._unsent: deque[bytes] = deque()
        self._changed = asyncio.Event()

    # --- what a test does ---------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Wait for a client."""
        self._transport = await self.pair.server.open(self, 1 << 26, 1.0)

    async def close(self) -> None:
        """Go away for good."""
        self.is_reopened = False
        if self._opening is not None:
            await self._opening
        if self._transport is not None:
            await self._transport.close()

    def cut(self, error: McpError | None = None) -> None:
        """End the connection."""
        self.pair.cut(error)

    def send(self, message: Any) -> None:
        """Send a message, or bytes as they are."""
        self._unsent.append(message if isinstance(message, bytes) else json.dumps(message).encode())
        self.room_made()

    def answer(self, id: Any, result: Any = None, **more: Any) -> None:
        """Answer a request."""
        self.send({"jsonrpc": "2.0", "id": id, "result": {} if result is None else result, **more})

    def refuse(self, id: Any, code: int, message: str = "no") -> None:
        """Answer a request with an error."""
        self.send({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})

    def notify(self, method: str, **params: Any) -> None:
        """Send a notification."""
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def ask(self, id: Any, method: str, params: Any = None) -> None:
        """Send a request."""
        self.send({"jsonrpc": "2.0", "id": id, "method": method, "params": {} if params is None else params})

    def got(self, method: str) -> list[dict[str, Any]]:
        """What came with this method."""
        return [message for message in self.heard if message.get("method") == method]

    def answers(self, id: Any) -> list[dict[str, Any]]:
        """What our request with this id was answered with."""
        return [message for message in self.heard if message.get("id") == id and "method" not in message]

    async def until(self, holds: Callable[[], object]) -> None:
        """Wait until this is so, after something was heard."""
        while not holds():
            self._changed.clear()
            await self._changed.wait()

    async def next(self, method: str, count: int = 1) -> dict[str, Any]:
        """The message with this method, or the last of so many, when it came."""
        await self.until(lambda: len(self.got(method)) >= count)
        return self.got(method)[count - 1]

    async def next_answer(self, id: Any) -> dict[str, Any]:
        """The answer to our request, when it came."""
        await self.until(lambda: self.answers(id))
        return self.answers(id)[0]

    # --- the owner of a transport -------------------------------------------------------------------------------------

    def frames_arrived(self) -> None:
        while self._transport is not None and (frame := self._transport.next_frame()) is not None:
            assert isinstance(frame, bytes)
            self.frames.append(frame)
            message = json.loads(frame)
            self.heard.append(message)
            if "method" in message and "id" in message:
                self._serve(message)
        self._changed.set()

    def wrote(self, through: int) -> None:
        pass

    def room_made(self) -> None:
        assert self._transport is not None, "there is nobody to send to"
        while self._unsent and self._transport.send(self._unsent[0], self._number + 1):
            self._number += 1
            self._unsent.popleft()

    def went_down(self, error: McpError, exit_code: int | None, was_silent: bool) -> None:
        self._transport, self._number = None, 0
        self._unsent.clear()
        self._changed.set()
        if self.is_reopened:
            self._opening = asyncio.ensure_future(self.open())

    def _serve(self, message: dict[str, Any]) -> None:
        method, params = message["method"], message.get("params", {})
        script = self.on.get(method, getattr(self, "_" + method.replace("/", "_"), None))
        if script is None:
            return
        try:
            result = script(params) if callable(script) else script
        except Refusal as refusal:
            self.send({"jsonrpc": "2.0", "id": message["id"], "error": refusal.error})
            return
        if result is not None:
            self.answer(message["id"], result)

    def _initialize(self, params: dict[str, Any]) -> dict[str, Any]:
        if self.version == STATELESS:
            raise Refusal(-32022, "not any more", {"supported": [STATELESS], "requested": HANDSHAKE})
        self.connections += 1
        return {
            "protocolVersion": self.version,
            "capabilities": self.capabilities,
            "serverInfo": {"name": "scripted", "version": "1"},
            "instructions": "ask nicely",
        }

    def _server_discover(self, params: dict[str, Any]) -> dict[str, Any]:
        if self.version != STATELESS:
            raise Refusal(-32601)
        self.connections += 1
        return {
            "resultType": "complete",
            "supportedVersions": [STATELESS],
            "capabilities": self.capabilities,
            "instructions": "ask nicely",
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "scripted", "version": "1"}},
        }

    def _ping(self, params: dict[str, Any]) -> dict[str, Any]:
        return {}


@asynccontextmanager
async def peered(version: str = HANDSHAKE, **options: Any) -> AsyncIterator[tuple[Client, Peer]]:
    """A client that is not open yet, and its peer; both are ended at the end."""
    capabilities = options.pop("offers", None)
    peer = Peer(version, capabilities)
    await peer.open()
    client = connect(peer.pair.client, **options)
    try:
        yield client, peer
    finally:
        await client.stop()
        await peer.close()


@asynccontextmanager
async def opened(version: str = HANDSHAKE, **options: Any) -> AsyncIterator[tuple[Client, Peer]]:
    """A client that is ready, and its peer."""
    async with peered(version, **options) as (client, peer):
        await client.open()
        yield client, peer


def tool(name: str, **more: Any) -> dict[str, Any]:
    """A tool as a server lists it."""
    return {"name": name, "inputSchema": {"type": "object"}, **more}


def said(text: str, **more: Any) -> dict[str, Any]:
    """The result of a tool that says this."""
    return {"content": [{"type": "text", "text": text}], **more}
