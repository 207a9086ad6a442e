"""A peer that says what a test tells it to: the server's end of a connection in memory, for tests of code that calls one.

It speaks either era. `initialize`, `server/discover` and `ping` are answered by themselves; a method that has a row in `on` is
answered as that says; any other request stays unanswered until the test answers it. When the connection ends it waits for the
next one, as a server that is started again does. It checks nothing: a test may let it lie, repeat itself, ask nonsense or die.

Above: tests. Below: `jackstay.transport` (the pair in memory).
"""

import asyncio
import json
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from jackstay.errors import McpError, UsageError
from jackstay.protocol import REVISIONS, VERSIONS, Era
from jackstay.transport import MemoryPair, MemoryTarget, MemoryTransport, memory_pair

# Everything that a server can offer.
EVERYTHING: dict[str, Any] = {
    "tools": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "prompts": {"listChanged": True},
    "completions": {},
    "logging": {},
}


class Refusal(Exception):
    """Raise it in a function of `on`: the request is answered with this error."""

    def __init__(self, code: int, message: str = "no", data: Any = None) -> None:
        super().__init__(code, message)
        self.error = {"code": code, "message": message} | ({} if data is None else {"data": data})


class Heard(dict[str, Any]):
    """A message that arrived, as plain JSON. One that is a request can be answered here."""

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
        """Its params; empty where it has none."""
        params: dict[str, Any] = self.get("params") or {}
        return params

    def answer(self, result: Any = None) -> None:
        """Answer it. Nothing stops you from answering twice."""
        self._peer.answer(self.id, result)

    def refuse(self, code: int, message: str = "no", data: Any = None) -> None:
        """Answer it with an error."""
        self._peer.refuse(self.id, code, message, data)

    def progress(self, progress: float, total: float | None = None, message: str = "") -> None:
        """Report progress on it. Raises: UsageError, if the caller did not ask for reports."""
        more = ({} if total is None else {"total": total}) | ({"message": message} if message else {})
        token = self.params.get("_meta", {}).get("progressToken")
        if token is None:
            raise UsageError(
                "this request asks for no reports of progress; give the call `on_progress`", path="_meta"
            )
        self._peer.notify("notifications/progress", progressToken=token, progress=progress, **more)


class ScriptedPeer:
    """The other end: give `target` to what you test, and say here what happens.

    `on[method]` is the result that requests with this method get, or a function from their params to it, which may raise
    `Refusal`; None leaves them to the test. `heard` is everything that came, `frames` the same in bytes; `connections` counts
    the handshakes. With `returns` set to False it does not wait for another connection when one has ended.
    """

    def __init__(
        self,
        version: str = "2025-11-25",
        capabilities: dict[str, Any] | None = None,
        *,
        name: str = "scripted",
    ) -> None:
        if version not in REVISIONS:
            known = ", ".join(VERSIONS)
            raise UsageError(f"version must be one of {known}, not {version!r}", path="version")
        self.pair: MemoryPair = memory_pair(name)
        self.version = version
        self.capabilities = EVERYTHING if capabilities is None else capabilities
        self.name = name
        self.on: dict[str, Any] = {}
        self.heard: list[Heard] = []
        self.frames: list[bytes] = []
        self.connections = 0
        self.returns = True
        self._expected: dict[str, int] = {}
        self._transport: MemoryTransport | None = None
        self._opening: asyncio.Task[None] | None = None
        self._number = 0
        self._unsent: deque[bytes] = deque()
        self._changed = asyncio.Event()

    def __repr__(self) -> str:
        state = "closed" if self._transport is None else "open"
        return f"<ScriptedPeer {self.name} {self.version} {state}, heard {len(self.heard)}>"

    @property
    def target(self) -> MemoryTarget:
        """What to give to `connect()`."""
        return self.pair.client

    # --- being there --------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Be there for a client."""
        self._transport = await self.pair.server.open(self, 1 << 26, 1.0)

    async def close(self) -> None:
        """Go away for good."""
        self.returns = False
        if self._opening is not None:
            await self._opening
        transport, self._transport = self._transport, None
        if transport is not None:
            await transport.close()

    def die(self, error: McpError | None = None) -> None:
        """End the connection now, as a server that crashes does; what was sent before still arrives. Then come back."""
        self.pair.cut(error)

    # --- saying -------------------------------------------------------------------------------------------------------

    def send(self, message: Any) -> None:
        """Send a message, or bytes exactly as they are."""
        self._unsent.append(message if isinstance(message, bytes) else json.dumps(message).encode())
        self.room_made()

    def answer(self, id: Any, result: Any = None, **more: Any) -> None:
        """Answer a request."""
        self.send({"jsonrpc": "2.0", "id": id, "result": {} if result is None else result, **more})

    def refuse(self, id: Any, code: int, message: str = "no", data: Any = None) -> None:
        """Answer a request with an error."""
        self.send({"jsonrpc": "2.0", "id": id, "error": Refusal(code, message, data).error})

    def notify(self, method: str, **params: Any) -> None:
        """Send a notification."""
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def ask(self, id: Any, method: str, params: Any = None) -> None:
        """Send a request; `answer_to(id)` waits for what comes back."""
        self.send({"jsonrpc": "2.0", "id": id, "method": method, "params": {} if params is None else params})

    # --- hearing ------------------------------------------------------------------------------------------------------

    async def expect(self, method: str, count: int | None = None) -> Heard:
        """The next message with this method, when it has come: each is returned once. With `count`, that one of all."""
        count = self._expected.get(method, 0) + 1 if count is None else count
        self._expected[method] = count
        await self.until(lambda: len(self.got(method)) >= count)
        return self.got(method)[count - 1]

    async def answer_to(self, id: Any) -> Heard:
        """The answer to our request with this id, when it has come."""
        await self.until(lambda: self.answers(id))
        return self.answers(id)[0]

    def got(self, method: str) -> list[Heard]:
        """What came with this method so far."""
        return [message for message in self.heard if message.get("method") == method]

    def answers(self, id: Any) -> list[Heard]:
        """What our request with this id was answered with so far."""
        return [message for message in self.heard if message.get("id") == id and "method" not in message]

    async def until(self, holds: Callable[[], object]) -> None:
        """Wait until this is so; it is asked whenever something was heard, and when the connection ends."""
        while not holds():
            self._changed.clear()
            await self._changed.wait()

    # --- the owner of a transport -------------------------------------------------------------------------------------

    def frames_arrived(self) -> None:
        """As the contract says."""
        while self._transport is not None and (frame := self._transport.next_frame()) is not None:
            if isinstance(frame, McpError):
                raise frame  # what is tested sent more than anybody takes
            self.frames.append(frame)
            message = Heard(json.loads(frame), self)
            self.heard.append(message)
            if "method" in message and "id" in message:
                self._serve(message)
        self._changed.set()

    def wrote(self, through: int) -> None:
        """As the contract says."""

    def room_made(self) -> None:
        """As the contract says."""
        assert self._transport is not None, "nobody is connected to this peer"
        while self._unsent and self._transport.send(self._unsent[0], self._number + 1):
            self._number += 1
            self._unsent.popleft()

    def went_down(self, error: McpError, exit_code: int | None, was_silent: bool) -> None:  # noqa: ARG002  the contract's
        """As the contract says."""
        self._transport, self._number = None, 0
        self._unsent.clear()
        self._changed.set()
        if self.returns:
            self._opening = asyncio.ensure_future(self.open())

    # --- what it answers by itself ------------------------------------------------------------------------------------

    def introduction(self) -> dict[str, Any]:
        """The result that it answers `initialize` with, or `server/discover` where there is no handshake."""
        info = {"name": self.name, "version": "1"}
        said = {"capabilities": self.capabilities, "instructions": "ask nicely"}
        if self._is_stateless:
            meta = {"io.modelcontextprotocol/serverInfo": info}
            return {"resultType": "complete", "supportedVersions": [self.version], **said, "_meta": meta}
        return {"protocolVersion": self.version, "serverInfo": info, **said}

    def _serve(self, request: Heard) -> None:
        method = request["method"]
        script = self.on[method] if method in self.on else self._own(method)
        if script is None:
            return
        try:
            result = script(request.params) if callable(script) else script
        except Refusal as refusal:
            self.send({"jsonrpc": "2.0", "id": request.id, "error": refusal.error})
            return
        if result is not None:
            request.answer(result)

    def _own(self, method: str) -> Callable[[dict[str, Any]], Any] | None:
        own = {"initialize": self._initialize, "server/discover": self._discover, "ping": lambda _: {}}
        return own.get(method)

    @property
    def _is_stateless(self) -> bool:
        return REVISIONS[self.version].era is Era.STATELESS

    def _initialize(self, params: dict[str, Any]) -> dict[str, Any]:
        if self._is_stateless:
            asked = params.get("protocolVersion")
            raise Refusal(-32022, "not any more", {"supported": [self.version], "requested": asked})
        self.connections += 1
        return self.introduction()

    def _discover(self, _: dict[str, Any]) -> dict[str, Any]:
        if not self._is_stateless:
            raise Refusal(-32601)
        self.connections += 1
        return self.introduction()
