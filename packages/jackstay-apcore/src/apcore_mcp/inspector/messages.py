"""Messages of the endpoint and log lines of the server for the page, from the first time that it is opened.

A page sees the messages of its own principal. If the endpoint has no keys, and for the log, it must be on this machine.
Sensitive arguments of tools are redacted. `jackstay.inspector` keeps the messages and shows them.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec

from apcore_mcp.access import check_host_and_origin
from apcore_mcp.inspector.calls import Line, encode
from apcore_mcp.redaction import redact
from apcore_mcp.tracing import TraceFilter
from jackstay.inspector import EventLog, Request, RequestRejected, Transcript
from jackstay.protocol import REVISIONS
from jackstay.protocol.http import ErrorResponse, encode_header_value, error_response
from jackstay.server.http import ANONYMOUS, Guard, Principal
from jackstay.types import DECODE_ERRORS

if TYPE_CHECKING:
    from apcore_mcp.catalogue import Catalogue
    from jackstay.server.http import App, Asgi, Receive, Scope, Send

# The side that sent a message.
Sender: TypeAlias = Literal["client", "server"]

# Pages of more principals than this replace the longest unused; each may keep this size of messages, and of events.
MAX_VIEWS: Final = 16
MAX_KEPT_BYTES: Final = 4_194_304

# Sessions whose messages are shown as one connection.
MAX_SESSIONS: Final = 1000

# Tools whose argument `arguments` is that of the module `module_id`.
_TOOLS_WITH_ARGUMENTS: Final = ("__apcore_task_submit", "__apcore_module_preview")

_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class View:
    """What the pages of one principal are shown."""

    def __init__(self, name: str) -> None:
        self.events = EventLog(MAX_KEPT_BYTES)
        self.transcript = Transcript(name, self.events, max_kept_bytes=MAX_KEPT_BYTES)

    def __repr__(self) -> str:
        return f"<View {self.transcript!r}>"


class LogLines(logging.Handler):
    """Publishes log lines, of any thread, on the event loop of the pages."""

    def __init__(self, publish: Callable[[str], None]) -> None:
        super().__init__()
        self.addFilter(TraceFilter())
        self.setFormatter(logging.Formatter(_FORMAT))
        self._loop = asyncio.get_running_loop()
        self._publish = publish

    def emit(self, record: logging.LogRecord) -> None:
        """Publish a record."""
        try:
            line = self.format(record)
        except Exception:  # noqa: BLE001  # as in the handlers of `logging`, a bad log call does not fail
            self.handleError(record)
            return
        try:
            self._loop.call_soon_threadsafe(self._publish, line)
        except RuntimeError:
            pass  # the event loop is closed


class Messages:
    """The messages of one endpoint. `close()` ends the log."""

    def __init__(self, app: "App", catalogue: "Catalogue") -> None:
        self._app = app
        self._catalogue = catalogue
        self._endpoint: Asgi = app
        # By principal, and whether the page is on this machine.
        self._views: dict[tuple[str, bool], View] = {}
        self._numbers = count(1)
        self._sessions: dict[str, int] = {}
        self._log: LogLines | None = None

    def __repr__(self) -> str:
        return f"<Messages for {len(self._views)} principals>"

    def close(self) -> None:
        """Stop following the log."""
        if self._log is not None:
            logging.getLogger().removeHandler(self._log)
            self._log = None

    def may_see(self, request: Request) -> bool:
        """Return whether a page may see messages: by its principal; if the endpoint has no keys, on this machine."""
        return request.is_local if self._app.guard is None else bool(request.principal.id)

    def view(self, request: Request) -> View | None:
        """Return what a page is shown, or None if it may not see messages."""
        if not self.may_see(request):
            return None
        key = (request.principal.id, request.is_local)
        found = self._views.pop(key, None)
        if found is None:
            if len(self._views) >= MAX_VIEWS:
                self._views.pop(next(iter(self._views))).events.close()  # its open pages connect again
            found = View(self._app.server.name)
        self._views[key] = found  # the last that was used
        if request.is_local and self._log is None:
            self._log = LogLines(self._publish_line)
            logging.getLogger().addHandler(self._log)
        return found

    def _publish_line(self, line: str) -> None:
        for (_, is_local), view in self._views.items():
            if is_local:
                view.events.publish("stderr", {"line": line})

    # --- recording ----------------------------------------------------------------------------------------------------

    def record(self, app: "Asgi") -> "Asgi":
        """Return the endpoint `app` with its messages recorded while there are pages for them."""

        async def recorded(scope: "Scope", receive: "Receive", send: "Send") -> None:
            if not self._views or scope["type"] != "http":
                await app(scope, receive, send)
                return
            exchange = Exchange(self, scope, receive, send)
            reset = _EXCHANGE.set(exchange)
            try:
                if self._app.guard is None:
                    exchange.principal = _principal_without_guard(self._app, scope)
                await app(scope, exchange.receive, exchange.send)
            finally:
                _EXCHANGE.reset(reset)

        if self._app.guard is not None:
            self._app.guard = _Observed(self._app.guard)
        self._endpoint = recorded
        return recorded

    def frame(self, principal: str, sender: Sender, connection: int, frame: bytes) -> None:
        """Add the messages of a frame: one, or those of a batch."""
        try:
            found = msgspec.json.decode(frame)
        except DECODE_ERRORS:
            found = None
        parts = [self._redact(frame, found)]
        if isinstance(found, list):
            parts = [self._redact(msgspec.json.encode(part), part) for part in found]
        for (id, _), view in self._views.items():
            for part in parts if id == principal else ():
                view.transcript.frame(sender, connection, part)

    def _redact(self, frame: bytes, message: Any) -> bytes:
        params = message.get("params") if isinstance(message, dict) else None
        if not isinstance(params, dict) or message.get("method") != "tools/call":
            return frame
        name, arguments = params.get("name"), params.get("arguments")
        if not isinstance(arguments, dict):
            return frame
        if name in _TOOLS_WITH_ARGUMENTS and isinstance(arguments.get("arguments"), dict):
            redacted = {**arguments, "arguments": self._redact_of(arguments.get("module_id"), arguments["arguments"])}
        else:
            redacted = self._redact_of(name, arguments)
        return (
            frame if redacted == arguments else encode({**message, "params": {**params, "arguments": redacted}}).strip()
        )

    def _redact_of(self, name: Any, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of a module without its sensitive values and those of the names that apcore hides."""
        entry = self._catalogue.find(name) if isinstance(name, str) else None
        return redact(arguments, {}) if entry is None else entry.redact(arguments)

    def connection_of(self, session: str) -> int:
        """Return the number of a session; without one, of a new connection."""
        return self._sessions.get(session) or next(self._numbers)

    def keep_session(self, session: str, connection: int) -> None:
        """Show the messages of a session as this connection."""
        self._sessions[session] = connection
        if len(self._sessions) > MAX_SESSIONS:
            del self._sessions[next(iter(self._sessions))]

    def record_call(self, principal: str, tool: str, arguments: Mapping[str, Any]) -> Callable[[Line | None], None]:
        """Return a function that adds the lines of a call of the page as the messages of a client."""
        id = next(self._numbers)

        def add(sender: Sender, message: dict[str, Any]) -> None:
            if self._views:
                self.frame(principal, sender, id, encode({"jsonrpc": "2.0", **message}).strip())

        def record(line: Line | None) -> None:
            kind = None if line is None else line["type"]
            if line is None or kind == "question":
                return
            if kind == "progress":
                shown = {key: line[key] for key in ("progress", "total", "message")}
                add("server", {"method": "notifications/progress", "params": {"progressToken": id, **shown}})
            elif kind == "cancelled":
                add("client", {"method": "notifications/cancelled", "params": {"requestId": id}})
            elif kind == "result":
                content = [{"type": "text", "text": text} for text in line["texts"]]
                structured = {"structuredContent": line["structured"]} if "structured" in line else {}
                add("server", {"id": id, "result": {"content": content, **structured, "isError": line["is_error"]}})
            else:
                add("client", {"id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments}})

        return record

    # --- requests of the page -----------------------------------------------------------------------------------------

    async def send(self, request: Request, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request to the endpoint with the key of the page. Return {"raw": result} or {"failed": error}."""
        version = max(REVISIONS)
        id = next(self._numbers)
        meta = {
            "io.modelcontextprotocol/protocolVersion": version,
            "io.modelcontextprotocol/clientInfo": {"name": "inspector", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        body = msgspec.json.encode({"jsonrpc": "2.0", "id": id, "method": method, "params": {**params, "_meta": meta}})
        # A stateless request (2026-07-28 basic/transports/streamable-http).
        headers = {key: value for key, value in request.headers.items() if not key.startswith(("content-", "sec-"))}
        headers |= {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        headers |= {"mcp-protocol-version": version, "mcp-method": method, "content-length": str(len(body))}
        if "uri" in params:
            headers["mcp-name"] = encode_header_value(params["uri"])
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": self._app.options.path,
            "raw_path": self._app.options.path.encode(),
            "root_path": "",
            "query_string": b"",
            "headers": [(key.encode("latin-1"), value.encode("utf-8")) for key, value in headers.items()],
            "client": request.client,
        }
        pending = [{"type": "http.request", "body": body, "more_body": False}]
        response = Frames()

        async def receive() -> Any:
            if pending:
                return pending.pop()
            return await asyncio.get_running_loop().create_future()  # the page does not disconnect

        async def collect(message: Any) -> None:
            response.add(message)

        await self._endpoint(scope, receive, collect)
        for frame in response.frames:
            message = msgspec.json.decode(frame)
            if isinstance(message, dict) and "result" in message:
                return {"raw": message["result"]}
            if isinstance(message, dict) and isinstance(message.get("error"), dict):
                error = message["error"]
                shown = {"error": "JsonRpcError", "message": error.get("message", ""), "code": error.get("code")}
                return {"failed": {**shown, "may_have_run": None, "details": {}}}
        raise RequestRejected(error_response(502, f"the endpoint responded with HTTP {response.status}"))


class Frames:
    """The messages in a response, from its JSON or its event stream."""

    def __init__(self) -> None:
        self.status = 0
        self.session = ""
        self.frames: list[bytes] = []
        self._is_stream = False
        self._body = bytearray()

    def add(self, message: Any) -> None:
        """Read an ASGI event of the response."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = {bytes(key).lower(): bytes(value) for key, value in message.get("headers", ())}
            self.session = headers.get(b"mcp-session-id", b"").decode("latin-1")
            self._is_stream = headers.get(b"content-type", b"").startswith(b"text/event-stream")
            return
        chunk = bytes(message.get("body", b""))
        self._body += chunk
        if self._is_stream:
            if b"\n" not in chunk:  # a large event comes in many chunks, without an end of line
                return
            *events, self._body = self._body.replace(b"\r\n", b"\n").split(b"\n\n")
            for event in events:
                lines = [line[5:].strip() for line in event.split(b"\n") if line.startswith(b"data:")]
                self.frames += [b"\n".join(lines)] if any(lines) else []
        elif not message.get("more_body", False) and self._body:
            self.frames.append(bytes(self._body))
            self._body.clear()


class Exchange:
    """Records one exchange with the endpoint."""

    def __init__(self, messages: Messages, scope: "Scope", receive: "Receive", send: "Send") -> None:
        headers = {bytes(key).lower(): bytes(value) for key, value in scope["headers"]}
        # HTTP+SSE (MCP 2024-11-05) has the session in the query.
        session = headers.get(b"mcp-session-id", b"") or scope.get("query_string", b"").rpartition(b"=")[2]
        self._messages = messages
        # Its id, once the endpoint has admitted the request. What it refuses is not recorded.
        self.principal: str | None = None
        self._connection = messages.connection_of(session.decode("latin-1"))
        self._receive = receive
        self._send = send
        self._request = bytearray()
        self._response = Frames()

    async def receive(self) -> Any:
        """Receive an ASGI event of the client."""
        message = await self._receive()
        if message["type"] == "http.request":
            self._request += bytes(message.get("body", b""))
            if self._request and not message.get("more_body", False):
                self._add("client", bytes(self._request))
                self._request.clear()
        return message

    async def send(self, message: Any) -> None:
        """Send an ASGI event to the client."""
        self._response.add(message)
        if self._response.session:
            self._messages.keep_session(self._response.session, self._connection)
            self._response.session = ""
        for frame in self._response.frames:
            if frame.startswith(b"/"):  # the first event of HTTP+SSE: the path for messages, with the session
                self._messages.keep_session(frame.rpartition(b"=")[2].decode("latin-1"), self._connection)
            else:
                self._add("server", frame)
        self._response.frames.clear()
        await self._send(message)

    def _add(self, sender: Sender, frame: bytes) -> None:
        if self.principal is not None and b'"jsonrpc"' in frame:
            self._messages.frame(self.principal, sender, self._connection, frame)


class _Observed:
    """The guard of the endpoint, which authenticates each request once; the exchange learns the principal from it."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    async def authenticate(self, method: str, path: str, headers: Mapping[str, str]) -> Principal | ErrorResponse:
        """Return what the guard returns."""
        admitted = await self._guard.authenticate(method, path, headers)
        exchange = _EXCHANGE.get()
        if exchange is not None:
            _EXCHANGE.set(None)  # tasks of the session, which start later, need not keep it
            exchange.principal = admitted.id if isinstance(admitted, Principal) else None
        return admitted


# The exchange whose request is authenticated next.
_EXCHANGE: Final[ContextVar[Exchange | None]] = ContextVar("apcore_mcp_exchange", default=None)


def _principal_without_guard(app: "App", scope: "Scope") -> str | None:
    try:
        check_host_and_origin(app, scope)
    except RequestRejected:
        return None
    return ANONYMOUS.id


__all__ = [
    "MAX_KEPT_BYTES",
    "MAX_SESSIONS",
    "MAX_VIEWS",
    "Exchange",
    "Frames",
    "LogLines",
    "Messages",
    "Sender",
    "View",
]
