"""ASGI helpers: types of the three arguments, reading a request body, and sending a complete response."""

import asyncio
from collections.abc import Awaitable, Callable, Generator, Iterable, MutableMapping
from typing import Any, Final, TypeAlias

# ASGI messages are dicts with values of any type.
Scope: TypeAlias = MutableMapping[str, Any]
AsgiMessage: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[AsgiMessage]]
Send: TypeAlias = Callable[[AsgiMessage], Awaitable[None]]

# An ASGI 3 application.
Asgi: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

HeaderLines: TypeAlias = list[tuple[bytes, bytes]]

# nginx's status for a request that the client closed; HTTP defines none.
CLIENT_CLOSED_REQUEST: Final = 499


class ClientDisconnected(Exception):
    """The client disconnected before the request was complete."""


class BodyTooLarge(Exception):
    """The body is larger than the limit."""


class BodyTimeout(Exception):
    """The body did not arrive in time."""


BODY_ERRORS: Final = (ClientDisconnected, BodyTooLarge, BodyTimeout)


def encode_headers(pairs: Iterable[tuple[str, str]]) -> HeaderLines:
    """Encode headers for ASGI: lower-case names, both parts as bytes."""
    return [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in pairs]


async def respond(send: Send, status: int, headers: HeaderLines, body: bytes = b"") -> None:
    """Send a complete response, with `Content-Length` unless the status forbids a body."""
    if status != 204:
        headers = [*headers, (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def respond_client_closed(send: Send) -> None:
    """Send a response to a client that disconnected: middleware around the app expects one, and logs its status."""
    try:
        await respond(send, CLIENT_CLOSED_REQUEST, [])
    except OSError:
        pass  # an ASGI server may raise OSError when the client has disconnected


async def read_body(receive: Receive, limit: int, timeout: float) -> bytes:
    """Read the body of a request, keeping at most `limit` bytes in memory.

    Raises: ClientDisconnected, BodyTooLarge, BodyTimeout.
    """
    # Most bodies arrive together with the head, and a timer for each would cost more than reading it. So the first step
    # of the awaitable is driven by hand; the timer starts only if it has to wait or if more of the body follows.
    steps = receive().__await__()
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
            return await _read_rest(message, receive, limit)
    except TimeoutError as error:
        raise BodyTimeout from error


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
    """Return the part of the body in this message. Raises: ClientDisconnected, BodyTooLarge."""
    if message["type"] != "http.request":
        raise ClientDisconnected
    part: bytes = message.get("body", b"")
    if size + len(part) > limit:
        raise BodyTooLarge
    return part


async def wait_for_disconnect(receive: Receive) -> None:
    """Return when the client has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass
