"""Requests and responses on a real connection of `Http1Server`: framing, bodies, and apps that misbehave."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from jackstay.server.http._exchange import MAX_JOINED_BYTES, MAX_UNREAD_BYTES, Exchange, encode_head
from scripted.connection import GET, mirror, mirrored, status, talked

Headers = Sequence[tuple[bytes, bytes]]


def sends(*bodies: bytes, headers: Headers = (), code: int = 200) -> Any:
    """Return an app that sends these parts of a body."""

    async def app(scope: dict, receive: Callable, send: Callable) -> None:
        await send({"type": "http.response.start", "status": code, "headers": list(headers)})
        for number, body in enumerate(bodies, start=1):
            await send({"type": "http.response.body", "body": body, "more_body": number < len(bodies)})

    return app


def response(app: Any, request: bytes = GET + b"connection: close\r\n\r\n", handle: Any = None) -> bytes:
    """Return everything that the server writes until it closes the connection."""
    received: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(request)
        received.append(await reader.read())

    talked(talk, app=app, handle=handle)
    return received[0]


# --- framing ----------------------------------------------------------------------------------------------------------


def test_a_response_without_a_length_is_chunked() -> None:
    head, _, body = response(sends(b"a", b"", b"bc", b"")).partition(b"\r\n\r\n")
    assert b"\r\ntransfer-encoding: chunked\r\n" in head
    assert body == b"1\r\na\r\n2\r\nbc\r\n0\r\n\r\n"


def test_a_response_has_a_date_and_lower_case_names() -> None:
    head = response(sends(b"hi", headers=[(b"Content-Length", b"2"), (b"X-Some", b"Thing")])).partition(b"\r\n\r\n")[0]
    lines = head.split(b"\r\n")
    assert lines[0] == b"HTTP/1.1 200 OK"
    assert lines[1].startswith(b"date: ")
    assert lines[1].endswith(b" GMT")
    assert lines[2:] == [b"content-length: 2", b"x-some: Thing", b"connection: close"]


def test_to_http_1_0_the_end_of_the_connection_ends_the_response() -> None:
    """RFC 9112 section 6.1: such a client cannot read chunks."""
    request = b"GET / HTTP/1.0\r\nhost: localhost\r\nconnection: keep-alive\r\nexpect: 100-continue\r\n\r\n"
    head, _, body = response(sends(b"a", b"bc"), request).partition(b"\r\n\r\n")
    assert b"transfer-encoding" not in head
    assert b"\r\nconnection: close" in head
    assert body == b"abc"


@pytest.mark.parametrize("headers", [[], [(b"content-length", b"2")]], ids=["chunked", "length"])
def test_a_response_to_head_has_no_body(headers: Headers) -> None:
    request = b"HEAD / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
    head, end, body = response(sends(b"hi", headers=headers), request).partition(b"\r\n\r\n")
    assert (end, body) == (b"\r\n\r\n", b"")
    assert b"transfer-encoding" not in head
    assert (b"content-length: 2" in head) is bool(headers)


def test_204_has_no_body() -> None:
    assert response(sends(b"", code=204)).endswith(b"connection: close\r\n\r\n")


def test_a_status_without_a_name_is_sent() -> None:
    assert response(sends(b"", code=499)).startswith(b"HTTP/1.1 499 \r\n")


def test_the_app_can_close_the_connection() -> None:
    answer = response(sends(b"", headers=[(b"content-length", b"0"), (b"connection", b"close")]), GET + b"\r\n")
    assert answer.count(b"connection: close") == 1


def test_a_stream_begins_before_its_first_event() -> None:
    may_end = asyncio.Event()

    async def app(scope: dict, receive: Callable, send: Callable) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await may_end.wait()
        await send({"type": "http.response.body", "body": b"x"})

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(GET + b"\r\n")
        assert await status(reader) == b"200"
        may_end.set()
        assert await reader.readuntil(b"0\r\n\r\n") == b"1\r\nx\r\n0\r\n\r\n"

    talked(talk, app=app)


def test_a_large_response_arrives_whole() -> None:
    body = b"x" * 3_000_000
    answer = response(sends(body, headers=[(b"content-length", b"%d" % len(body))]))
    assert answer.partition(b"\r\n\r\n")[2] == body


@pytest.mark.parametrize(
    "headers", [[(b"x", b"a\r\nb: c")], [(b"x", b"a\nb")], [(b"x", b"a\0")], [(b"a b", b"c")], [(b"", b"")]]
)
def test_a_header_that_would_be_another_one_is_refused(headers: Any) -> None:
    with pytest.raises(RuntimeError, match="response header"):
        encode_head(200, headers)


# --- bodies of requests -----------------------------------------------------------------------------------------------


def test_100_continue_is_sent_when_the_app_reads() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\nexpect: 100-continue\r\n\r\n")
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"hello")
        assert (await mirrored(reader))[1] == b"POST 0 hello"

    talked(talk, app=mirror)


def test_100_continue_is_not_sent_by_an_app_that_refuses() -> None:
    request = b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\nexpect: 100-continue\r\n\r\n"
    headers = [(b"content-length", b"0"), (b"connection", b"close")]
    assert response(sends(b"", headers=headers, code=401), request).startswith(b"HTTP/1.1 401 ")


def test_a_body_is_read_as_fast_as_the_app_reads_it() -> None:
    may_read = asyncio.Event()
    sizes: list[int] = []

    async def app(scope: dict, receive: Callable, send: Callable) -> None:
        await may_read.wait()
        is_more = True
        while is_more:
            message = await receive()
            sizes.append(len(message["body"]))
            is_more = message["more_body"]
        await sends(b"ok", headers=[(b"content-length", b"2")])(scope, receive, send)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        total = 64 * MAX_UNREAD_BYTES
        writer.write(b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % total)
        writer.write(b"x" * total)
        may_read.set()
        assert await status(reader) == b"200"
        assert sum(sizes) == total

    talked(talk, app=app)
    assert max(sizes) < 16 * MAX_UNREAD_BYTES, "the unread part is bounded by the limit and one read"


def test_the_rest_of_a_refused_body_is_dropped_and_the_connection_stays_usable() -> None:
    app = sends(b"no", headers=[(b"content-length", b"2")], code=401)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(2):
            writer.write(b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 200000\r\n\r\n")
            assert await status(reader) == b"401"
            writer.write(b"x" * 200_000)

    talked(talk, app=app)


def test_a_disconnect_reaches_the_app() -> None:
    messages: list[str] = []
    is_over = asyncio.Event()

    async def app(scope: dict, receive: Callable, send: Callable) -> None:
        while messages.count("http.disconnect") < 2:
            messages.append((await receive())["type"])
        await send({"type": "http.response.start", "status": 200, "headers": []})  # ignored
        is_over.set()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(GET + b"\r\n")
        writer.close()
        await is_over.wait()

    talked(talk, app=app)
    assert messages == ["http.request", "http.disconnect", "http.disconnect"]


def test_after_the_response_receive_returns_a_disconnect() -> None:
    messages: list[str] = []
    is_over = asyncio.Event()

    async def app(scope: dict, receive: Callable, send: Callable) -> None:
        await receive()
        waiting = asyncio.ensure_future(receive())
        await asyncio.sleep(0)
        await sends(b"ok", headers=[(b"content-length", b"2")])(scope, receive, send)
        messages.append((await waiting)["type"])
        is_over.set()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(GET + b"\r\n")
        assert await status(reader) == b"200"
        await is_over.wait()

    talked(talk, app=app)
    assert messages == ["http.disconnect"]


# --- apps that misbehave ----------------------------------------------------------------------------------------------


async def raises(scope: dict, receive: Callable, send: Callable) -> None:
    raise OSError("a defect")


async def returns(scope: dict, receive: Callable, send: Callable) -> None:
    pass


async def sends_a_body_first(scope: dict, receive: Callable, send: Callable) -> None:
    await send({"type": "http.response.body", "body": b"x"})


@pytest.mark.parametrize("app", [raises, returns, sends_a_body_first, sends(headers=[(b"a b", b"c")])])
def test_an_app_without_a_response_gets_500(app: Any, caplog: pytest.LogCaptureFixture) -> None:
    answer = response(app, GET + b"\r\n")
    assert answer.startswith(b"HTTP/1.1 500 Internal Server Error\r\n")
    assert b"a defect" not in answer
    assert ("unhandled exception" in caplog.text) is (app is not returns)


@pytest.mark.parametrize(
    "app",
    [
        sends(b"hi", headers=[(b"content-length", b"3")]),
        sends(b"hell", b"", headers=[(b"content-length", b"9")]),
        sends(b"hello", headers=[(b"content-length", b"3")]),
    ],
    ids=["short", "short in parts", "long"],
)
def test_a_body_of_another_length_is_never_a_complete_response(app: Any, caplog: pytest.LogCaptureFixture) -> None:
    answer = response(app, GET + b"\r\n")
    body = answer.partition(b"\r\n\r\n")[2]
    assert len(body) != 3 or b"content-length: 3" not in answer
    assert "another length" in caplog.text


def test_an_incomplete_response_ends_without_its_last_chunk() -> None:
    async def app(scope: dict, receive: Callable, send: Callable) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x", "more_body": True})

    assert response(app, GET + b"\r\n").endswith(b"\r\n\r\n1\r\nx\r\n")


def test_a_message_after_the_response_is_an_error_of_the_app(caplog: pytest.LogCaptureFixture) -> None:
    async def app(scope: dict, receive: Callable, send: Callable) -> None:
        await sends(b"ok", headers=[(b"content-length", b"2")])(scope, receive, send)
        await send({"type": "http.response.body", "body": b"more"})

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(2):  # the connection stays usable
            writer.write(GET + b"\r\n")
            assert await status(reader) == b"200"

    with caplog.at_level(logging.ERROR, "jackstay.server.http"):
        talked(talk, app=app)
    assert "unexpected message 'http.response.body'" in caplog.text


# --- without ASGI -----------------------------------------------------------------------------------------------------

POST = b"POST /a?b HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n"
LINES = ((b"content-type", b"text/plain"),)
LAST = b"connection: close\r\n\r\nhi"


async def echo(exchange: Exchange) -> None:
    """Respond with the body, or with what is known of it."""
    body = exchange.take_body()
    assert exchange.take_body() is None
    await exchange.respond(200, LINES, b"not here" if body is None else body)


def test_a_request_is_served_without_asgi() -> None:
    seen: list[tuple[object, ...]] = []

    async def handle(exchange: Exchange) -> None:
        seen.append((exchange.method, exchange.path, exchange.root_path, exchange.query, exchange.peer))
        await echo(exchange)

    head, _, body = response(None, POST + LAST, handle).partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    assert lines[0] == b"HTTP/1.1 200 OK"
    assert lines[1].startswith(b"date: ")
    assert lines[2:] == [b"content-type: text/plain", b"content-length: 2", b"connection: close"]
    assert body == b"hi"
    assert seen == [("POST", "/a", "", b"b", "127.0.0.1")]


def test_without_asgi_a_body_can_be_empty_large_or_chunked() -> None:
    large = b"x" * (MAX_JOINED_BYTES + 1)
    cases = {
        b"": GET + b"connection: close\r\n\r\n",
        b"hi": GET + b"connection: close\r\ntransfer-encoding: chunked\r\n\r\n1\r\nh\r\n1\r\ni\r\n0\r\n\r\n",
    }
    for body, request in cases.items():
        assert response(None, request, echo).partition(b"\r\n\r\n")[2] == body

    async def answer(exchange: Exchange) -> None:
        await exchange.respond(200, (), large)

    assert response(None, handle=answer).partition(b"\r\n\r\n")[2] == large


@pytest.mark.parametrize(
    ("code", "request_line", "more", "ending"),
    [
        (204, b"GET /", (), b"connection: close\r\n\r\n"),
        (200, b"HEAD /", (), b"content-length: 2\r\nconnection: close\r\n\r\n"),
        (200, b"GET /", ((b"vary", b"Origin"),), b"content-length: 2\r\nvary: Origin\r\nconnection: close\r\n\r\nhi"),
    ],
    ids=["204", "HEAD", "added headers"],
)
def test_a_response_that_differs_is_framed_as_any_other(
    code: int, request_line: bytes, more: Headers, ending: bytes
) -> None:
    async def handle(exchange: Exchange) -> None:
        exchange.add_headers(more)
        await exchange.respond(code, LINES, b"" if code == 204 else b"hi")

    request = request_line + b" HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
    assert response(None, request, handle).endswith(b"content-type: text/plain\r\n" + ending)


def test_a_second_response_is_an_error_of_the_app(caplog: pytest.LogCaptureFixture) -> None:
    async def handle(exchange: Exchange) -> None:
        await exchange.respond(200, LINES, b"hi")
        await exchange.respond(200, LINES, b"hi")

    assert response(None, handle=handle).count(b"HTTP/1.1") == 1
    assert "unhandled exception in the ASGI app" in caplog.text


def test_a_request_that_waits_gets_a_task_of_its_own_and_others_share_one() -> None:
    """`current_task()` stays the same in all steps of a request, with and without ASGI."""
    tasks: list[tuple[object, object]] = []

    async def handle(exchange: Exchange) -> None:
        before = asyncio.current_task()
        if exchange.path != "/quick":
            await asyncio.sleep(0)
        tasks.append((before, asyncio.current_task()))
        await exchange.respond(200, LINES, b"hi")

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for path in (b"/", b"/quick", b"/quick", b"/", b"/"):
            writer.write(b"GET %b HTTP/1.1\r\nhost: localhost\r\n\r\n" % path)
            assert await status(reader) == b"200"

    talked(talk, handle=handle)
    assert all(before is after for before, after in tasks)
    first, quick, quick_again, fourth, last = (task for task, _ in tasks)
    assert quick is quick_again is fourth  # the fourth keeps the task, because it waits
    assert len({id(task) for task in (first, quick, last)}) == 3


def test_pipelined_requests_are_served_in_order() -> None:
    order: list[bytes | None] = []

    async def handle(exchange: Exchange) -> None:
        order.append(exchange.query)
        await echo(exchange)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests = [b"POST /?%d HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\nhi" % n for n in range(5)]
        writer.write(b"".join(requests))
        for _ in requests:
            assert (await mirrored(reader))[1] == b"hi"

    talked(talk, handle=handle)
    assert order == [b"0", b"1", b"2", b"3", b"4"]


def test_invalid_data_behind_a_request_does_not_prevent_its_response() -> None:
    answer = response(None, POST + b"\r\nhi" + b"garbage\r\n\r\n", echo)
    assert answer.count(b"HTTP/1.1") == 1
    assert answer.endswith(b"\r\n\r\nhi")
