"""Sends requests to an ASGI application in this process, without sockets, and runs its lifespan."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias
from urllib.parse import unquote, urlsplit

from jackstay.openapi._operations import Request
from jackstay.openapi._responses import Response
from jackstay.openapi._sender import SendError

# An event of ASGI 3, and an application that receives and sends them.
Message: TypeAlias = MutableMapping[str, Any]
Application: TypeAlias = Callable[
    [MutableMapping[str, Any], Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]
]

logger = logging.getLogger("jackstay.openapi")


class AsgiSender:
    """Calls an application. A task that still runs after its response, such as a background task, may finish."""

    def __init__(self, app: Application) -> None:
        self._app = app
        self._lifespan: _Lifespan | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Run the startup of the application's lifespan. Raises: RuntimeError, if it failed."""
        self._lifespan = _Lifespan(self._app)
        await self._lifespan.start()

    async def close(self) -> None:
        """Cancel tasks that still run, and run the shutdown of the lifespan, if it was started."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        lifespan, self._lifespan = self._lifespan, None
        if lifespan is not None:
            await lifespan.stop()

    async def send(self, url: str, request: Request, limit: int) -> Response:
        """See `Sender.send`."""
        exchange = _Exchange(request, limit)
        scope = _scope(url, request)
        if self._lifespan is not None:
            scope["state"] = dict(self._lifespan.state)
        task = asyncio.ensure_future(self._app(scope, exchange.receive, exchange.send))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(exchange.ended)
        try:
            return await exchange.response
        except BaseException:
            task.cancel()
            raise
        finally:
            exchange.disconnected.set()


def _scope(url: str, request: Request) -> dict[str, Any]:
    parts = urlsplit(url)
    headers = [("host", parts.netloc.rpartition("@")[2]), *request.headers]
    if request.body is not None:
        headers.append(("content-length", str(len(request.body))))
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": parts.scheme,
        "path": unquote(parts.path) or "/",
        "raw_path": parts.path.encode() or b"/",
        "query_string": parts.query.encode(),
        "root_path": "",
        "headers": [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers],
        "server": (parts.hostname or "localhost", parts.port or 80),
        "client": ("127.0.0.1", 0),
    }


class _Exchange:
    """One request and its response. `response` is set when the body is complete or too large."""

    def __init__(self, request: Request, limit: int) -> None:
        self._body: bytes | None = request.body or b""
        self._limit = limit
        self._status = 0
        self._headers: dict[str, str] = {}
        self._received = bytearray()
        self.disconnected = asyncio.Event()
        self.response: asyncio.Future[Response] = asyncio.get_running_loop().create_future()

    async def receive(self) -> Message:
        body, self._body = self._body, None
        if body is not None:
            return {"type": "http.request", "body": body, "more_body": False}
        await self.disconnected.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            for name, value in message.get("headers", ()):
                self._headers[bytes(name).decode("latin-1").lower()] = bytes(value).decode("latin-1")
            return
        if message["type"] != "http.response.body" or self.response.done():
            return
        self._received += message.get("body", b"")
        if len(self._received) > self._limit:
            self._fail(f"HTTP {self._status}, but the body is larger than {self._limit} bytes")
        elif not message.get("more_body", False):
            self.response.set_result(Response(self._status, self._headers, bytes(self._received)))

    def ended(self, task: "asyncio.Task[None]") -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            logger.error("the application failed", exc_info=error)
        self._fail("the application failed; see the server's log" if error is not None else "there is no response")

    def _fail(self, message: str) -> None:
        if not self.response.done():
            self.response.set_exception(SendError(message))


class _Lifespan:
    """The lifespan of an application, in a task of its own. An application without one is left alone."""

    def __init__(self, app: Application) -> None:
        self.state: dict[str, Any] = {}
        self._app = app
        self._messages: asyncio.Queue[Message] = asyncio.Queue()
        self._replies: asyncio.Queue[Message] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": self.state}
        self._task = asyncio.ensure_future(self._run(scope))
        reply = await self._request("lifespan.startup")
        if reply.get("type") == "lifespan.startup.failed":
            raise RuntimeError(f"the startup of the application failed: {str(reply.get('message', ''))[:500]}")

    async def stop(self) -> None:
        assert self._task is not None
        if not self._task.done():
            reply = await self._request("lifespan.shutdown")
            if reply.get("type") == "lifespan.shutdown.failed":
                logger.error("the shutdown of the application failed: %s", reply.get("message", ""))
        await self._task

    async def _run(self, scope: dict[str, Any]) -> None:
        try:
            await self._app(scope, self._messages.get, self._replies.put)
        except Exception as error:  # noqa: BLE001  # an application without a lifespan raises anything
            logger.debug("the application has no lifespan: %s", error)
        finally:
            self._replies.put_nowait({})

    async def _request(self, kind: str) -> Message:
        self._messages.put_nowait({"type": kind})
        return await self._replies.get()
