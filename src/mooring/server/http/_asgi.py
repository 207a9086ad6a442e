"""The few words of ASGI that are spoken here: the types of its three arguments, and whole answers.

ASGI 3 hands an application a scope and two functions. Everything that is said through them is built here, so that the rest
of the room speaks of statuses and bytes.

Must never know MCP. Above: everything in this room. Below: nothing.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
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
    message = await receive()
    if message["type"] != "http.request":
        raise Gone
    body: bytes = message.get("body", b"")
    if len(body) > limit:
        raise TooLarge
    if not message.get("more_body", False):
        return body
    # Most bodies come in one piece: the clock is for those that do not.
    try:
        async with asyncio.timeout(timeout):
            return await _read_on(receive, [body], len(body), limit)
    except TimeoutError as error:
        raise TooSlow from error


async def _read_on(receive: Receive, pieces: list[bytes], size: int, limit: int) -> bytes:
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise Gone
        piece: bytes = message.get("body", b"")
        size += len(piece)
        if size > limit:
            raise TooLarge
        pieces.append(piece)
        if not message.get("more_body", False):
            return b"".join(pieces)


async def until_gone(receive: Receive) -> None:
    """Returns when the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass
