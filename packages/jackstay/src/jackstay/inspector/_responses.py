"""HTTP over ASGI for web pages: responses, streams, and request bodies with a size limit.

Every response forbids caching and content sniffing. An error response is JSON.
"""

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

import msgspec

from jackstay.protocol.http import ErrorResponse, error_response
from jackstay.types import DECODE_ERRORS

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable

    from jackstay.server.http import Receive, Send

# The headers of every response.
PLAIN_HEADERS: Final = (
    ("cache-control", "no-store"),
    ("x-content-type-options", "nosniff"),
    ("cross-origin-resource-policy", "same-origin"),
    ("referrer-policy", "no-referrer"),
)

# The timeout for a request body, in seconds. Bodies are small and come from the same page.
BODY_SECONDS: Final = 30.0


class RequestRejected(Exception):
    """The request is rejected; `response` is the error response to send."""

    def __init__(self, response: ErrorResponse) -> None:
        super().__init__(response.message)
        self.response = response


async def start_response(
    send: "Send", status: int, kind: str, more: "Iterable[tuple[str, str]]" = (), size: int | None = None
) -> None:
    """Send the status and headers; `size` is the size of the body, if known."""
    pairs = [("content-type", kind), *PLAIN_HEADERS, *more]
    if size is not None:
        pairs.append(("content-length", str(size)))
    headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in pairs]
    await send({"type": "http.response.start", "status": status, "headers": headers})


async def write_body(send: "Send", body: bytes, *, is_last: bool = False) -> None:
    """Send a part of the body."""
    await send({"type": "http.response.body", "body": body, "more_body": not is_last})


async def respond(send: "Send", status: int, kind: str, body: bytes, more: "Iterable[tuple[str, str]]" = ()) -> None:
    """Send a complete response."""
    await start_response(send, status, kind, more, len(body))
    await write_body(send, body, is_last=True)


async def respond_json(send: "Send", value: object, status: int = 200, more: "Iterable[tuple[str, str]]" = ()) -> None:
    """Send a complete response in JSON."""
    await respond(send, status, "application/json", msgspec.json.encode(value), more)


async def respond_error(send: "Send", response: ErrorResponse) -> None:
    """Send an error response as `{"error": ...}` with its headers."""
    await respond_json(send, {"error": response.message}, response.status, response.headers)


async def read_json(receive: "Receive", limit: int) -> dict[str, Any]:
    """Read the body of a request, which must be a JSON object.

    Raises: RequestRejected if the body is too large, too slow, incomplete or not a JSON object.
    """
    try:
        async with asyncio.timeout(BODY_SECONDS):
            body = await _read(receive, limit)
    except TimeoutError as error:
        raise RequestRejected(error_response(408, "timeout while reading the body")) from error
    try:
        found: dict[str, Any] = msgspec.json.decode(body, type=dict[str, Any])
    except DECODE_ERRORS as error:
        raise RequestRejected(error_response(400, "the body must be a JSON object")) from error
    return found


async def _read(receive: "Receive", limit: int) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise RequestRejected(error_response(400, "the body is incomplete"))
        body += message.get("body", b"")
        if len(body) > limit:
            raise RequestRejected(error_response(413, f"the body is larger than {limit} bytes"))
        if not message.get("more_body", False):
            return bytes(body)


async def wait_for_disconnect(receive: "Receive") -> None:
    """Return when the client has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def stream_body(receive: "Receive", send: "Send", kind: str, parts: "AsyncGenerator[bytes, None]") -> None:
    """Send a response whose body is produced by a generator. If the client disconnects, the generator is cancelled."""
    await start_response(send, 200, kind, (("x-accel-buffering", "no"),))
    writing = asyncio.ensure_future(_write_parts(send, parts))
    gone = asyncio.ensure_future(wait_for_disconnect(receive))
    try:
        await asyncio.wait((writing, gone), return_when=asyncio.FIRST_COMPLETED)
    finally:
        gone.cancel()
        writing.cancel()
        # `wait()` and not `await`: it does not raise what the task raises, and a cancellation of this task ends it.
        await asyncio.wait((writing,))
    if not writing.cancelled():
        writing.result()


async def _write_parts(send: "Send", parts: "AsyncGenerator[bytes, None]") -> None:
    try:
        async with aclosing(parts):
            async for part in parts:
                await write_body(send, part)
        await write_body(send, b"", is_last=True)
    except OSError:
        pass  # ASGI: a server may raise OSError when the client has disconnected
