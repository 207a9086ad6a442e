"""ASGI helpers: bodies are read up to a limit and a timeout, and complete responses have a length."""

import asyncio
from typing import Any

import pytest

from jackstay.protocol.http import RequestRefused
from jackstay.server.http._asgi import (
    AsgiRequest,
    ClientDisconnected,
    encode_headers,
    read_body,
    respond,
    respond_client_closed,
    wait_for_disconnect,
)
from jackstay.server.http._refusals import CLOSE_HEADERS
from scripted.asgi import Response


def request_of(receive: Any = None, send: Any = None) -> AsgiRequest:
    return AsgiRequest({"method": "POST", "path": "/mcp", "headers": []}, receive, send)


def receiving(*messages: dict[str, Any]) -> Any:
    waiting = list(messages)

    async def receive() -> dict[str, Any]:
        if not waiting:
            await asyncio.Event().wait()
        return waiting.pop(0)

    return receive


def part(body: bytes, *, more: bool = False) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


async def test_a_body_is_read_in_one_or_several_parts() -> None:
    assert await read_body(request_of(receiving(part(b"abc"))), 3, 1) == b"abc"
    assert await read_body(request_of(receiving({"type": "http.request"})), 3, 1) == b""
    parts = (part(b"a", more=True), part(b"", more=True), part(b"bc"))
    assert await read_body(request_of(receiving(*parts)), 3, 1) == b"abc"


async def test_an_incomplete_or_large_body_raises(subtests: pytest.Subtests) -> None:
    """The limits apply while the body is read."""
    cases: list[tuple[tuple[Any, ...], int]] = [
        ((part(b"abcd"),), 413),
        ((part(b"ab", more=True), part(b"cd", more=True)), 413),
        ((part(b"ab", more=True),), 408),
        ((), 408),  # the body never arrives
    ]
    for messages, status in cases:
        with subtests.test(messages=messages, status=status), pytest.raises(RequestRefused) as refused:
            await read_body(request_of(receiving(*messages)), 3, 0.01)
        assert refused.value.response.status == status
        assert refused.value.response.headers == CLOSE_HEADERS  # the rest of the body stays unread
    for messages in (({"type": "http.disconnect"},), (part(b"ab", more=True), {"type": "http.disconnect"})):
        with subtests.test(messages=messages), pytest.raises(ClientDisconnected):
            await read_body(request_of(receiving(*messages)), 3, 0.01)


async def test_a_late_body_is_awaited_and_the_read_can_be_cancelled() -> None:
    """`read_body` drives the first step of `receive` by hand, so later steps and exceptions must be passed through."""
    arrived = asyncio.Event()
    seen: list[str] = []

    async def receive() -> dict[str, Any]:
        try:
            await arrived.wait()
            await asyncio.sleep(0)  # a second step, and a third
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise
        return part(b"abc")

    reading = asyncio.create_task(read_body(request_of(receive), 3, 60))
    await asyncio.sleep(0)
    assert not reading.done()
    arrived.set()
    assert await reading == b"abc"
    arrived.clear()
    reading = asyncio.create_task(read_body(request_of(receive), 3, 60))
    await asyncio.sleep(0)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert seen == ["cancelled"]


async def test_a_response_has_a_content_length_unless_it_has_no_body() -> None:
    response = Response()
    await respond(response.send, 200, encode_headers((("X-Word", "yes"),)), b"abc")
    assert response.headers == {"x-word": "yes", "content-length": "3"}
    assert response.is_complete
    empty = Response()
    await respond(empty.send, 204, [])
    assert empty.headers == {}


async def test_a_disconnected_client_gets_a_response_for_middleware() -> None:
    """Starlette's BaseHTTPMiddleware raises if an app returns without a response."""
    response = Response()
    await respond_client_closed(request_of(send=response.send))
    assert response.status == 499

    async def broken(_: Any) -> None:
        raise BrokenPipeError

    await respond_client_closed(request_of(send=broken))


async def test_headers_are_added_to_a_response_and_to_a_stream() -> None:
    for is_whole in (True, False):
        response = Response()
        request = request_of(send=response.send)
        request.add_headers([(b"vary", b"Origin")])
        if is_whole:
            await request.respond(200, (), b"abc")
        else:
            await request.send({"type": "http.response.start", "status": 200})
        assert response.headers["vary"] == "Origin"


async def test_wait_for_disconnect() -> None:
    await wait_for_disconnect(receiving(part(b"late"), {"type": "http.disconnect"}))
