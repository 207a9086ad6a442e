"""A scripted MCP server for tests of clients: the server side of an in-memory connection.

It supports both eras. `initialize`, `server/discover` and `ping` are answered automatically, methods in `on` as set
there, and other requests by the test. When the connection ends, it accepts the next one, like a restarted server. It
checks nothing: a test can make it violate the protocol.
"""

import asyncio
import json
from collections import deque
from collections.abc import Callable
from typing import Any, Self

from jackstay.errors import McpError, UsageError
from jackstay.protocol import REVISIONS, VERSIONS, Era
from jackstay.transport import MemoryPair, MemoryTarget, MemoryTransport, memory_pair

# All capabilities of a server.
EVERYTHING: dict[str, Any] = {
    "tools": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "prompts": {"listChanged": True},
    "completions": {},
    "logging": {},
}


class ScriptedError(Exception):
    """Raised in a function in `on`, it becomes the error response to the request."""

    def __init__(self, code: int, message: str = "no", data: Any = None) -> None:
        super().__init__(code, message, data)
        self.error = {"code": code, "message": message} | ({} if data is None else {"data": data})


class ReceivedMessage(dict[str, Any]):
    """A received message as plain JSON, with methods to respond to a request."""

    __slots__ = ("_peer",)

    def __init__(self, message: dict[str, Any], peer: "ScriptedPeer") -> None:
        super().__init__(message)
        self._peer = peer

    @property
    def id(self) -> Any:
        """The id of a request; None for a notification."""
        return self.get("id")

    @property
    def params(self) -> dict[str, Any]:
        """The params; empty if there are none."""
        params: dict[str, Any] = self.get("params") or {}
        return params

    def respond(self, result: Any = None) -> None:
        """Respond with a result. Responding twice is possible."""
        self._peer.respond(self.id, result)

    def respond_error(self, code: int, message: str = "no", data: Any = None) -> None:
        """Respond with an error."""
        self._peer.respond_error(self.id, code, message, data)

    def progress(self, progress: float, total: float | None = None, message: str = "") -> None:
        """Send a progress notification. Raises: UsageError if the request has no progress token."""
        more = ({} if total is None else {"total": total}) | ({"message": message} if message else {})
        token = self.params.get("_meta", {}).get("progressToken")
        if token is None:
            raise UsageError("the request has no progress token; pass on_progress to the call", path="_meta")
        self._peer.notify("notifications/progress", progressToken=token, progress=progress, **more)


class ScriptedPeer:
    """A scripted server. Pass `target` to the code under test.

    `on[method]` is the result for requests with this method, or a function from their params to the result, which may
    raise `ScriptedError`; None leaves them to the test. `received` are all messages, `frames` the same as bytes;
    `connections` counts the handshakes. With `reopens = False` it accepts no further connection when one has ended.
    """

    def __init__(
        self, version: str = "2025-11-25", capabilities: dict[str, Any] | None = None, *, name: str = "scripted"
    ) -> None:
        if version not in REVISIONS:
            known = ", ".join(VERSIONS)
            raise UsageError(f"version must be one of {known}, not {version!r}", path="version")
        self.pair: MemoryPair = memory_pair(name)
        self.version = version
        self.capabilities = EVERYTHING if capabilities is None else capabilities
        self.name = name
        self.on: dict[str, Any] = {}
        self.received: list[ReceivedMessage] = []
        self.frames: list[bytes] = []
        self.connections = 0
        self.reopens = True
        self._expected: dict[str, int] = {}
        self._transport: MemoryTransport | None = None
        self._opening: asyncio.Task[None] | None = None
        self._number = 0
        self._unsent: deque[bytes] = deque()
        self._changed = asyncio.Event()

    def __repr__(self) -> str:
        state = "closed" if self._transport is None else "open"
        return f"<ScriptedPeer {self.name} {self.version} {state}, received {len(self.received)}>"

    @property
    def target(self) -> MemoryTarget:
        """The target for `connect()`."""
        return self.pair.client

    # --- opening and closing ------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Accept a client."""
        self._transport = await self.pair.server.open(self, 1 << 26, 1.0)

    async def close(self) -> None:
        """Close permanently."""
        self.reopens = False
        if self._opening is not None:
            await self._opening
        transport, self._transport = self._transport, None
        if transport is not None:
            await transport.close()

    def crash(self, error: McpError | None = None) -> None:
        """End the connection now, like a crash; what was sent before still arrives. Then accept the next connection."""
        self.pair.cut(error)

    # --- sending ------------------------------------------------------------------------------------------------------

    def send(self, message: Any) -> None:
        """Send a message, or bytes exactly as they are."""
        self._unsent.append(message if isinstance(message, bytes) else json.dumps(message).encode())
        self.room_made()

    def respond(self, id: Any, result: Any = None, **more: Any) -> None:
        """Respond to a request."""
        self.send({"jsonrpc": "2.0", "id": id, "result": {} if result is None else result, **more})

    def respond_error(self, id: Any, code: int, message: str = "no", data: Any = None) -> None:
        """Respond to a request with an error."""
        self.send({"jsonrpc": "2.0", "id": id, "error": ScriptedError(code, message, data).error})

    def notify(self, method: str, **params: Any) -> None:
        """Send a notification."""
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def request(self, id: Any, method: str, params: Any = None) -> None:
        """Send a request; `response_to(id)` waits for the response."""
        self.send({"jsonrpc": "2.0", "id": id, "method": method, "params": {} if params is None else params})

    # --- receiving ----------------------------------------------------------------------------------------------------

    async def expect(self, method: str, count: int | None = None) -> ReceivedMessage:
        """Wait for the next message with this method and return it, each once.

        With `count`, the message of that number.
        """
        count = self._expected.get(method, 0) + 1 if count is None else count
        self._expected[method] = count
        await self.until(lambda: len(self.got(method)) >= count)
        return self.got(method)[count - 1]

    async def response_to(self, id: Any) -> ReceivedMessage:
        """Wait for the response to the peer's request with this id, and return it."""
        await self.until(lambda: self.responses(id))
        return self.responses(id)[0]

    def got(self, method: str) -> list[ReceivedMessage]:
        """Return the messages with this method so far."""
        return [message for message in self.received if message.get("method") == method]

    def responses(self, id: Any) -> list[ReceivedMessage]:
        """Return the responses to the peer's request with this id so far."""
        return [message for message in self.received if message.get("id") == id and "method" not in message]

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until the condition is true. It is checked after every message, and when the connection ends."""
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    # --- the handler of a transport -----------------------------------------------------------------------------------

    def frames_arrived(self) -> None:
        """See `TransportHandler.frames_arrived`."""
        while self._transport is not None and (frame := self._transport.next_frame()) is not None:
            if isinstance(frame, McpError):
                raise frame  # the code under test sent a frame over the limit
            self.frames.append(frame)
            message = ReceivedMessage(json.loads(frame), self)
            self.received.append(message)
            if "method" in message and "id" in message:
                self._serve(message)
        self._changed.set()

    def wrote(self, through: int) -> None:
        """See `TransportHandler.wrote`."""

    def room_made(self) -> None:
        """See `TransportHandler.room_made`."""
        assert self._transport is not None, "no client is connected to this peer"
        while self._unsent and self._transport.send(self._unsent[0], self._number + 1):
            self._number += 1
            self._unsent.popleft()

    def went_down(self, error: McpError, exit_code: int | None, was_silent: bool) -> None:  # noqa: ARG002
        """See `TransportHandler.went_down`."""
        self._transport, self._number = None, 0
        self._unsent.clear()
        self._changed.set()
        if self.reopens:
            self._opening = asyncio.ensure_future(self.open())

    # --- automatic responses ------------------------------------------------------------------------------------------

    def handshake_result(self) -> dict[str, Any]:
        """Return the result of `initialize`, or of `server/discover` in the stateless era."""
        info = {"name": self.name, "version": "1"}
        common = {"capabilities": self.capabilities, "instructions": "be polite"}
        if self._is_stateless:
            meta = {"io.modelcontextprotocol/serverInfo": info}
            return {"resultType": "complete", "supportedVersions": [self.version], **common, "_meta": meta}
        return {"protocolVersion": self.version, "serverInfo": info, **common}

    def _serve(self, request: ReceivedMessage) -> None:
        scripts = {"initialize": self._initialize, "server/discover": self._discover, "ping": lambda _: {}, **self.on}
        script = scripts.get(request["method"])
        try:
            result = script(request.params) if callable(script) else script
        except ScriptedError as refusal:
            self.send({"jsonrpc": "2.0", "id": request.id, "error": refusal.error})
            return
        if result is not None:
            request.respond(result)

    @property
    def _is_stateless(self) -> bool:
        return REVISIONS[self.version].era is Era.STATELESS

    def _initialize(self, params: dict[str, Any]) -> dict[str, Any]:
        if self._is_stateless:
            requested = params.get("protocolVersion")
            raise ScriptedError(-32022, "unsupported", {"supported": [self.version], "requested": requested})
        self.connections += 1
        return self.handshake_result()

    def _discover(self, _: dict[str, Any]) -> dict[str, Any]:
        if not self._is_stateless:
            raise ScriptedError(-32601)
        self.connections += 1
        return self.handshake_result()
