"""An HTTP client without a network, for tests of ASGI apps.

    async with http_client(app) as http:
        response = await http.post({"jsonrpc": "2.0", ...})
        stream = await http.open("GET", headers={...})     # returns with the headers
        event = await stream.event()
        stream.disconnect()                                  # the client closes the response

`disconnect()` closes the response; `pause()` makes the app's `send` wait, as an ASGI server does for a slow client.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

from jackstay.protocol.wire import EventReader, ServerSentEvent

GUARD = 200.0
STATELESS = "2026-07-28"


def run(test: Callable[[], Coroutine[object, object, None]]) -> None:
    """Run a test on a new loop, with a time limit."""

    async def guarded() -> None:
        async with asyncio.timeout(GUARD):
            await test()

    asyncio.run(guarded())


def meta(**more: Any) -> dict[str, Any]:
    """The `_meta` of a request of the stateless era."""
    return {
        "io.modelcontextprotocol/protocolVersion": STATELESS,
        "io.modelcontextprotocol/clientCapabilities": {},
        **more,
    }


def request(method: str, params: Mapping[str, Any] | None = None, id: Any = 1) -> dict[str, Any]:
    """A request of the handshake era."""
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": id, "method": method}
    if params is not None:
        message["params"] = dict(params)
    return message


def tool(name: str, id: Any = 1, **arguments: Any) -> dict[str, Any]:
    """A call of a tool, handshake era."""
    return request("tools/call", {"name": name, "arguments": arguments}, id)


def stateless(method: str, params: Mapping[str, Any] | None = None, id: Any = 1, **more: Any) -> dict[str, Any]:
    """A request of the stateless era; `more` goes into `_meta`."""
    return request(method, {**(params or {}), "_meta": meta(**more)}, id)


def initialize(version: str = "2025-11-25", capabilities: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The handshake."""
    info = {"name": "test", "version": "1"}
    params = {"protocolVersion": version, "capabilities": dict(capabilities or {}), "clientInfo": info}
    return request("initialize", params, 0)


def mirrored(message: Any) -> dict[str, str]:
    """The headers that the stateless era requires for a message."""
    meta = message.get("params", {}).get("_meta", {}) if isinstance(message, dict) else {}
    if "io.modelcontextprotocol/protocolVersion" not in meta:
        return {}
    headers = {"mcp-protocol-version": STATELESS, "mcp-method": message["method"]}
    name = message["params"].get("name", message["params"].get("uri"))
    return headers if name is None else {**headers, "mcp-name": name}


class Response:
    """A response as it is written."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = b""
        self.is_complete = False
        self.task: asyncio.Task[None] | None = None
        self._disconnected = asyncio.Event()
        self._can_write = asyncio.Event()
        self._can_write.set()
        self._changed = asyncio.Event()
        self._reader = EventReader()
        self._fed = 0

    @property
    def json(self) -> Any:
        """The body."""
        return json.loads(self.body)

    @property
    def kind(self) -> str:
        """The type of the body."""
        return self.headers.get("content-type", "")

    @property
    def events(self) -> list[ServerSentEvent]:
        """All events of the body so far."""
        reader = EventReader()
        reader.feed(self.body)
        found = []
        while (event := reader.next_event()) is not None:
            found.append(event)
        return found

    @property
    def messages(self) -> list[Any]:
        """The messages in the events so far."""
        return [json.loads(event.data) for event in self.events if event.data]

    def disconnect(self) -> None:
        """Close the response before its end, as a client does."""
        self._disconnected.set()

    def pause(self) -> None:
        """Stop reading."""
        self._can_write.clear()

    def resume(self) -> None:
        """Resume reading."""
        self._can_write.set()

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until the condition is true."""
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    async def event(self) -> ServerSentEvent:
        """The next event."""
        while (event := self._reader.next_event()) is None:
            if self._fed == len(self.body):
                await self.until(lambda: len(self.body) > self._fed or self.is_over)
            if self._fed == len(self.body):
                raise EOFError("the stream has ended")
            self._reader.feed(self.body[self._fed :])
            self._fed = len(self.body)
        return event

    async def message(self) -> Any:
        """The next message in an event."""
        while not (event := await self.event()).data:
            pass
        return json.loads(event.data)

    @property
    def is_over(self) -> bool:
        """True if the response is complete or closed."""
        return self.is_complete or (self.task is not None and self.task.done())

    async def end(self) -> None:
        """Wait until the app has finished the request."""
        assert self.task is not None
        await self.task

    # --- called by the app ---

    def receiving(self, chunks: list[bytes]) -> Callable[[], Coroutine[object, object, dict[str, Any]]]:
        async def receive() -> dict[str, Any]:
            if self._disconnected.is_set() or not chunks:
                await self._disconnected.wait()
                return {"type": "http.disconnect"}
            return {"type": "http.request", "body": chunks.pop(0), "more_body": bool(chunks)}

        return receive

    async def send(self, message: MutableMapping[str, Any]) -> None:
        await self._can_write.wait()
        if self._disconnected.is_set():
            return
        if message["type"] == "http.response.start":
            assert self.status == 0, "started twice"
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            assert self.status, "a body before the start"
            assert not self.is_complete, "more after the end"
            self.body += message.get("body", b"")
            self.is_complete = not message.get("more_body", False)
        self._changed.set()


class Http:
    """A client of an ASGI app."""

    def __init__(self, app: Any, path: str, headers: Mapping[str, str]) -> None:
        self.app = app
        self.path = path
        self.headers = dict(headers)
        self.responses: list[Response] = []

    async def open(
        self,
        method: str,
        body: Any = None,
        *,
        headers: Mapping[str, str | None] | None = None,
        path: str | None = None,
        chunks: list[bytes] | None = None,
        scope: Mapping[str, Any] | None = None,
    ) -> Response:
        """Send a request and return with the headers of the response. A header of None is omitted."""
        response = self.start(method, body, headers=headers, path=path, chunks=chunks, scope=scope)
        await response.until(lambda: response.status or response.is_over)
        return response

    def start(
        self,
        method: str,
        body: Any = None,
        *,
        headers: Mapping[str, str | None] | None = None,
        path: str | None = None,
        chunks: list[bytes] | None = None,
        scope: Mapping[str, Any] | None = None,
    ) -> Response:
        """Send a request without waiting."""
        response = Response()
        full: dict[str, str | None] = {"host": "localhost", **self.headers}
        if method == "POST":
            full = {"content-type": "application/json", **full, **mirrored(body)}
        full.update(headers or {})
        encoded = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        path_part, _, query = (path or self.path).partition("?")
        full_scope = {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "path": path_part,
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(n.encode(), v.encode("latin-1")) for n, v in full.items() if v is not None],
            **(scope or {}),
        }
        receive = response.receiving([encoded] if chunks is None else list(chunks))
        response.task = asyncio.get_running_loop().create_task(self.app(full_scope, receive, response.send))
        response.task.add_done_callback(lambda _: response._changed.set())
        self.responses.append(response)
        return response

    async def request(self, method: str, body: Any = None, **more: Any) -> Response:
        """Send a request and return the complete response."""
        response = await self.open(method, body, **more)
        await response.until(lambda: response.is_over)
        await response.end()
        return response

    async def post(self, body: Any = None, **more: Any) -> Response:
        """POST and return the complete response."""
        return await self.request("POST", body, **more)

    async def handshake(self, version: str = "2025-11-25", capabilities: Mapping[str, Any] | None = None) -> str:
        """Open a session; its id is sent with all further requests."""
        answer = await self.post(initialize(version, capabilities))
        assert answer.status == 200, answer.body
        id = answer.headers["mcp-session-id"]
        self.headers |= {"mcp-session-id": id, "mcp-protocol-version": version}
        accepted = await self.post({"jsonrpc": "2.0", "method": "notifications/initialized"})
        assert (accepted.status, accepted.body) == (202, b"")
        return id


@asynccontextmanager
async def http_client(app: Any, path: str = "/mcp", **headers: str) -> AsyncIterator[Http]:
    """A client of this app. Open responses are closed at the end, and no task may be left."""
    http = Http(app, path, {name.replace("_", "-"): value for name, value in headers.items()})
    try:
        yield http
    finally:
        for response in http.responses:
            response.disconnect()
            response.resume()
        for response in http.responses:
            assert response.task is not None
            if not response.task.done():
                await asyncio.wait([response.task], timeout=60)
            assert response.task.done(), "a request is still served although its client is gone"
            if not response.task.cancelled():
                response.task.result()
