"""A request of an ASGI server, reading its body, and sending a complete response; the types of the three arguments."""

import asyncio
from collections.abc import Awaitable, Callable, Generator, Iterable, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from jackstay.protocol.http import error_response, too_large
from jackstay.server.http._refusals import unread

if TYPE_CHECKING:
    from jackstay.server.http._exchange import Exchange

# ASGI messages are dicts with values of any type.
Scope: TypeAlias = MutableMapping[str, Any]
AsgiMessage: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[AsgiMessage]]
Send: TypeAlias = Callable[[AsgiMessage], Awaitable[None]]

# An ASGI 3 application.
Asgi: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

HeaderLines: TypeAlias = Sequence[tuple[bytes, bytes]]

# nginx's status for a request that the client closed; HTTP defines none.
CLIENT_CLOSED_REQUEST: Final = 499


class ClientDisconnected(Exception):
    """The client disconnected before the request was complete."""


def encode_headers(pairs: Iterable[tuple[str, str]]) -> tuple[tuple[bytes, bytes], ...]:
    """Encode headers for ASGI: lower-case names, both parts as bytes."""
    return tuple((name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in pairs)


class AsgiRequest:
    """A request of an ASGI server. `Exchange`, a request of our own server, has the same attributes and methods.

    The names in `lines`, the headers, are in lower case. `peer` is the address of the client; empty if it is unknown.
    `receive` and `send` are as in ASGI.
    """

    __slots__ = ("lines", "loop", "method", "path", "peer", "query", "receive", "root_path", "send")

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.root_path: str = scope.get("root_path", "").rstrip("/")
        self.query: bytes = scope.get("query_string", b"")
        self.lines: HeaderLines = scope["headers"]
        client = scope.get("client")
        self.peer: str = client[0] if client else ""
        self.loop = asyncio.get_running_loop()
        self.receive = receive
        self.send = send

    async def respond(self, status: int, headers: HeaderLines, body: bytes = b"") -> None:
        """Send a complete response."""
        await respond(self.send, status, headers, body)

    def take_body(self) -> bytes | None:
        """Return the body if it has arrived completely and was not read, else None: then `receive` it."""
        return None

    def add_headers(self, lines: HeaderLines) -> None:
        """Add these headers to the response."""
        send = self.send

        async def send_with_headers(message: AsgiMessage) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *lines]
            await send(message)

        self.send = send_with_headers


# A request as the app reads it: from an ASGI server, or directly from our own.
HttpRequest: TypeAlias = "AsgiRequest | Exchange"


async def respond(send: Send, status: int, headers: HeaderLines, body: bytes = b"") -> None:
    """Send a complete response, with `Content-Length` unless the status forbids a body."""
    if status != 204:
        headers = [*headers, (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def respond_client_closed(request: HttpRequest) -> None:
    """Send a response to a client that disconnected: middleware around the app expects one, and logs its status."""
    try:
        await request.respond(CLIENT_CLOSED_REQUEST, [])
    except OSError:
        pass  # an ASGI server may raise OSError when the client has disconnected


async def read_body(request: HttpRequest, limit: int, timeout: float) -> bytes:
    """Receive the body of a request, keeping at most `limit` bytes in memory.

    Raises: ClientDisconnected, or RequestRefused if it is too large or late.
    """
    # Most bodies arrive together with the head, and a timer for each would cost more than reading it. So the first step
    # of the awaitable is driven by hand; the timer starts only if it has to wait or if more of the body follows.
    steps: Generator[Any, Any, AsgiMessage] = request.receive().__await__()
    try:
        waited_for = next(steps)
    except StopIteration as here:
        message: AsgiMessage | None = here.value
        assert message is not None  # ASGI: `receive` returns a message
        if not message.get("more_body", False):
            return _body_part(message, 0, limit)
    else:
        message = None
    try:
        async with asyncio.timeout(timeout):
            if message is None:
                message = await _StartedAwaitable(steps, waited_for)
            return await _read_rest(message, request.receive, limit)
    except TimeoutError as error:
        raise unread(error_response(408, "timed out while reading the request body")) from error


class _StartedAwaitable:
    """An awaitable whose first step has already run. Await it in the same task."""

    def __init__(self, steps: Generator[Any, Any, AsgiMessage], waited_for: object) -> None:
        self._steps = steps
        self._waited_for = waited_for

    def __await__(self) -> Generator[Any, Any, AsgiMessage]:
        waited_for = self._waited_for
        while True:
            try:
                try:
                    sent = yield waited_for
                except BaseException as error:  # noqa: BLE001  # passed on, a cancellation above all
                    waited_for = self._steps.throw(error)
                else:
                    waited_for = self._steps.send(sent)
            except StopIteration as done:
                message: AsgiMessage = done.value
                return message


async def _read_rest(message: AsgiMessage, receive: Receive, limit: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        parts.append(_body_part(message, size, limit))
        size += len(parts[-1])
        if not message.get("more_body", False):
            return b"".join(parts)
        message = await receive()


def _body_part(message: AsgiMessage, size: int, limit: int) -> bytes:
    """Return the part of the body in this message. Raises: ClientDisconnected, RequestRefused."""
    if message["type"] != "http.request":
        raise ClientDisconnected
    part: bytes = message.get("body", b"")
    if size + len(part) > limit:
        raise unread(too_large(limit))
    return part


async def wait_for_disconnect(receive: Receive) -> None:
    """Return when the client has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass
