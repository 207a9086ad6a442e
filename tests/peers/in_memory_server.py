"""An in-memory server implemented by one function, as a target for `connect()` on any loop.

`InMemoryServer(name, answer)` calls `answer(method, params)` for every request. It returns the result, raises a
JsonRpcError, or returns None to send no response. `received` are the messages in order. The revision is 2025-11-25.
"""

import json
import threading
from collections.abc import Callable
from typing import Any

from jackstay.errors import JsonRpcError, McpError, TransportError
from jackstay.transport import TransportHandler, memory_pair

Answer = Callable[[str, dict[str, Any]], Any]


class InMemoryServer:
    """The target and its server."""

    is_http = False
    init_timeout = 10.0

    def __init__(self, name: str, answer: Answer, *, capabilities: dict[str, Any] | None = None) -> None:
        self.name = name
        self.answer = answer
        self.capabilities = {"tools": {}} if capabilities is None else capabilities
        self.received: list[dict[str, Any]] = []
        self.arrived = threading.Condition()
        self.refusal: TransportError | None = None
        self.opened = 0
        self.thread = 0
        self.pair = memory_pair(name)
        self._end: Any = None
        self._sent = 0

    async def open(self, handler: TransportHandler, max_frame_bytes: int, close_step: float) -> Any:
        if self.refusal is not None:
            raise self.refusal
        self.opened += 1
        self.thread = threading.get_ident()
        self._end = await self.pair.server.open(self, max_frame_bytes, close_step)
        return await self.pair.client.open(handler, max_frame_bytes, close_step)

    def methods(self) -> list[str]:
        """The methods of the received messages, without the handshake."""
        opening = ("initialize", "server/discover", "notifications/initialized")
        return [message["method"] for message in list(self.received) if message.get("method") not in opening]

    def wait_for(self, method: str) -> dict[str, Any]:
        """Wait for the first message with this method; not on the loop's thread."""
        with self.arrived:
            found = lambda: [message for message in self.received if message.get("method") == method]  # noqa: E731
            assert self.arrived.wait_for(found, 60), f"{method} did not arrive"
            return found()[0]

    def send(self, message: dict[str, Any]) -> None:
        """Send a message; on the loop's thread."""
        self._sent += 1
        assert self._end.send(json.dumps({"jsonrpc": "2.0", **message}).encode(), self._sent), "busy"

    def cut(self) -> None:
        """End the connection; on the loop's thread."""
        self.pair.cut()

    # --- the handler of the server's transport ------------------------------------------------------------------------

    def frames_arrived(self) -> None:
        while (frame := self._end.next_frame()) is not None:
            assert isinstance(frame, bytes)
            message = json.loads(frame)
            with self.arrived:
                self.received.append(message)
                self.arrived.notify_all()
            if "method" in message and "id" in message:
                self._reply(message)

    def _reply(self, message: dict[str, Any]) -> None:
        try:
            result = self._result(message["method"], message.get("params") or {})
        except JsonRpcError as error:
            self.send({"id": message["id"], "error": {"code": error.code, "message": error.message}})
        else:
            if result is not None:
                self.send({"id": message["id"], "result": result})

    def _result(self, method: str, params: dict[str, Any]) -> Any:
        if method == "server/discover":
            raise JsonRpcError(-32601, "no such method")
        if method == "initialize":
            return {
                "protocolVersion": "2025-11-25",
                "capabilities": self.capabilities,
                "serverInfo": {"name": self.name, "version": "1"},
                "instructions": "Be kind.",
            }
        return self.answer(method, params)

    def wrote(self, through: int) -> None: ...

    def room_made(self) -> None: ...

    def went_down(self, error: McpError, exit_code: int | None, was_silent: bool) -> None: ...


def with_tools(name: str, *tools: str, **options: Any) -> InMemoryServer:
    """A server whose tools return their name and their arguments."""

    def answer(method: str, params: dict[str, Any]) -> Any:
        if method == "tools/list":
            return {"tools": [{"name": tool, "inputSchema": {"type": "object"}} for tool in tools]}
        if method == "tools/call":
            text = f"{name}.{params['name']}({json.dumps(params['arguments'])})"
            return {"content": [{"type": "text", "text": text}]}
        raise JsonRpcError(-32601, f"no {method} here")

    return InMemoryServer(name, answer, **options)
