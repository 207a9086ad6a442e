"""ASGI's words: bodies are read up to a limit and within a time, and whole answers have their length."""

import asyncio
from typing import Any

import pytest

from jackstay.server.http._asgi import (
    Gone,
    TooLarge,
    TooSlow,
    lines,
    read_body,
    respond,
    respond_to_nobody,
    until_gone,
)
from scripted.asgi import Response, run


def receiving(*messages: dict[str, Any]) -> Any:
    waiting = list(messages)

    async def receive() -> dict[str, Any]:
        if not waiting:
            await asyncio.Event().wait()
        return waiting.pop(0)

    return receive


def piece(body: bytes, *, more: bool = False) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


def test_a_body_is_read_whole_or_in_pieces() -> None:
    async def test() -> None:
        assert await read_body(receiving(piece(b"abc")), 3, 1) == b"abc"
        assert await read_body(receiving({"type": "http.request"}), 3, 1) == b""
        pieces = (piece(b"a", more=True), piece(b"", more=True), piece(b"bc"))
        assert await read_body(receiving(*pieces), 3, 1) == b"abc"

    run(test)


@pytest.mark.parametrize(
    ("messages", "error"),
    [
        ((piece(b"abcd"),), TooLarge),
        ((piece(b"ab", more=True), piece(b"cd", more=True)), TooLarge),
        (({"type": "http.disconnect"},), Gone),
        ((piece(b"ab", more=True), {"type": "http.disconnect"}), Gone),
        ((piece(b"ab", more=True),), TooSlow),
        ((), TooSlow),  # a head that promises a body, and nothing more
    ],
)
def test_a_body_that_cannot_be_had_says_why(messages: tuple[Any, ...], error: type[Exception]) -> None:
    """Limits hold while reading; a body that trickles for ever holds a place for ever."""

    async def test() -> None:
        with pytest.raises(error):
            await read_body(receiving(*messages), 3, 0.01)

    run(test)


def test_a_body_that_is_not_here_yet_is_waited_for() -> None:
    """The first step of `receive` is taken by hand: what it waits for, and what is thrown into it, is its own affair."""

    async def test() -> None:
        arrived = asyncio.Event()
        heard: list[str] = []

        async def receive() -> dict[str, Any]:
            try:
                await arrived.wait()
                await asyncio.sleep(0)  # a second step, and a third
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                heard.append("cancelled")
                raise
            return piece(b"abc")

        reading = asyncio.create_task(read_body(receive, 3, 60))
        await asyncio.sleep(0)
        assert not reading.done()
        arrived.set()
        assert await reading == b"abc"
        arrived.clear()
        reading = asyncio.create_task(read_body(receive, 3, 60))
        await asyncio.sleep(0)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert heard == ["cancelled"]

    run(test)


def test_a_whole_answer_says_its_length_unless_it_can_have_no_body() -> None:
    async def test() -> None:
        response = Response()
        await respond(response.send, 200, lines((("X-Word", "yes"),)), b"abc")
        assert response.headers == {"x-word": "yes", "content-length": "3"}
        assert response.is_complete
        empty = Response()
        await respond(empty.send, 204, [])
        assert empty.headers == {}

    run(test)


def test_a_client_that_is_gone_is_answered_for_those_around_us() -> None:
    """Starlette's BaseHTTPMiddleware raises where an app ends without an answer."""

    async def test() -> None:
        response = Response()
        await respond_to_nobody(response.send)
        assert response.status == 499

        async def broken(_: Any) -> None:
            raise BrokenPipeError

        await respond_to_nobody(broken)

    run(test)


def test_the_clients_leaving_is_waited_for() -> None:
    async def test() -> None:
        await until_gone(receiving(piece(b"late"), {"type": "http.disconnect"}))

    run(test)
