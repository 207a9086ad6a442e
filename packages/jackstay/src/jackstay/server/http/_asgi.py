"""The few words of ASGI that are spoken here: the types of its three arguments, and whole answers.

ASGI 3 hands an application a scope and two functions. Everything that is said through them is built here, so that the rest
of the room speaks of statuses and bytes.

Must never know MCP. Above: everything in this room. Below: nothing.
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator, Iterable, MutableMapping
from typing import Any, Final, TypeAlias

# ASGI's own shapes: its messages are dicts of anything.
Scope: TypeAlias = MutableMapping[str, Any]
AsgiMessage: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[AsgiMessage]]
Send: TypeAlias = Callable[[AsgiMessage], Awaitable[None]]

# An ASGI 3 application.
Asgi: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

HeaderLines: TypeAlias = list[tuple[bytes, bytes]]

# nginx's number for a request whose client closed it; HTTP has none.
CLIENT_GONE: Final = 499


class Gone(Exception):  # it is no error: clients go
    """The client went before its request was all there."""


class TooLarge(Exception):  # the same: it is an answer
    """The body is over the limit."""


class TooSlow(Exception):  # the same
    """The body did not come in time."""


def lines(pairs: Iterable[tuple[str, str]]) -> HeaderLines:
    """Headers as ASGI wants them."""
    return [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in pairs]


async def respond(send: Send, status: int, headers: HeaderLines, body: bytes = b"") -> None:
    """A whole response. Its length is said unless there can be no body."""
    if status != 204:
        headers = [*headers, (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def respond_to_nobody(send: Send) -> None:
    """Answer a client that is gone. Nobody reads it, but middleware around an app wants an answer, and logs its status."""
    try:
        await respond(send, CLIENT_GONE, [])
    except OSError:
        pass  # ASGI: how a server may say so


async def read_body(receive: Receive, limit: int, timeout: float) -> bytes:
    """The body of a request, never more of it than the limit in memory.

    Raises: Gone, TooLarge, TooSlow.
    """
    # Most bodies are here with their head, and a clock for each would cost more than reading them. So the first step is
    # taken by hand: only where it has to wait, or brings a part, is there a clock.
    steps = receive().__await__()
    try:
        waited_for = next(steps)
    except StopIteration as here:
        message: AsgiMessage | None = here.value
        assert message is not None  # ASGI: what `receive` returns
        if not message.get("more_body", False):
            return _piece(message, 0, limit)
    else:
        message = None
    try:
        async with asyncio.timeout(timeout):
            if message is None:
                message = await _Begun(steps, waited_for)
            return await _read_on(message, receive, limit)
    except TimeoutError as error:
        raise TooSlow from error


class _Begun:
    """An awaitable whose first step is taken: `await` it in the same task."""

    def __init__(self, steps: Generator[Any, Any, AsgiMessage], waited_for: object) -> None:
        self._steps = steps
        self._waited_for = waited_for

    def __await__(self) -> Generator[Any, Any, AsgiMessage]:
        waited_for = self._waited_for
        while True:
            try:
                try:
                    sent = yield waited_for
                except BaseException as error:  # noqa: BLE001  # a cancellation above all: it is for who waits
                    waited_for = self._steps.throw(error)
                else:
                    waited_for = self._steps.send(sent)
            except StopIteration as done:
                message: AsgiMessage = done.value
                return message


async def _read_on(message: AsgiMessage, receive: Receive, limit: int) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while True:
        pieces.append(_piece(message, size, limit))
        size += len(pieces[-1])
        if not message.get("more_body", False):
            return b"".join(pieces)
        message = await receive()


def _piece(message: AsgiMessage, size: int, limit: int) -> bytes:
    """What this message brings of a body. Raises: Gone, TooLarge."""
    if message["type"] != "http.request":
        raise Gone
    piece: bytes = message.get("body", b"")
    if size + len(piece) > limit:
        raise TooLarge
    return piece


async def until_gone(receive: Receive) -> None:
    """Returns when the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass
