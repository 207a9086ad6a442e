"""Requests with httpx: with the author's client, and with one of its own over loopback."""

import asyncio
import builtins
import gzip
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from jackstay.errors import UsageError
from jackstay.openapi import HttpSender, Request, Response, SendError

GET = Request("GET", "/", (("X-A", "1"),), None)
Handler = Callable[[httpx.Request], httpx.Response]


async def send(
    handler: Handler, request: Request = GET, limit: int = 100, url: str = "https://api.example/a%2Fb?c=d%20e"
) -> Response:
    async with httpx.AsyncClient(transport=httpx.MockTransport(handler), headers={"X-Own": "2"}) as client:
        return await HttpSender(client).send(url, request, limit)


async def test_the_request_is_sent_unchanged() -> None:
    seen: list[httpx.Request] = []

    def handle(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(201, headers={"X-B": "3"}, content=b"body")

    response = await send(handle, Request("POST", "/", (("X-A", "1"),), b"data"))
    assert (response.status, response.headers["x-b"], response.body) == (201, "3", b"body")
    assert seen[0].url.raw_path == b"/a%2Fb?c=d%20e"
    assert (seen[0].method, seen[0].content) == ("POST", b"data")
    assert (seen[0].headers["x-a"], seen[0].headers["x-own"]) == ("1", "2")
    assert seen[0].headers["accept-encoding"] == "identity"


async def test_cookies_of_responses_are_not_kept_and_those_of_the_client_are() -> None:
    seen: list[str] = []

    def handle(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers.get("cookie", ""))
        lines = ("sid=alice", "own=changed", "also=; Path=/; Max-Age=0")
        return httpx.Response(200, headers=[("Set-Cookie", line) for line in lines])

    cookies = httpx.Cookies()
    for name in ("own", "also"):
        cookies.set(name, "1", domain="api.example", path="/")
    async with httpx.AsyncClient(transport=httpx.MockTransport(handle), cookies=cookies) as client:
        for _ in range(3):
            await HttpSender(client).send("https://api.example/", GET, 100)
    assert [sorted(line.split("; ")) for line in seen] == [["also=1", "own=1"]] * 3


async def test_headers_may_have_latin_1_characters() -> None:
    seen: list[bytes] = []

    def handle(request: httpx.Request) -> httpx.Response:
        seen.extend(value for name, value in request.headers.raw if name == b"X-A")
        return httpx.Response(200)

    await send(handle, Request("GET", "/", (("X-A", "f\xfcr"),), None))
    assert seen == [b"f\xfcr"]


async def test_redirects_are_not_followed_here() -> None:
    assert (await send(lambda _: httpx.Response(302, headers={"Location": "/x"}))).status == 302


async def test_the_size_is_limited() -> None:
    assert len((await send(lambda _: httpx.Response(200, content=b"x" * 100))).body) == 100
    with pytest.raises(SendError, match="HTTP 200, but the body is larger than 100 bytes"):
        await send(lambda _: httpx.Response(200, content=b"x" * 101))


async def test_a_packed_response_is_refused() -> None:
    packed = gzip.compress(b"x" * 100_000)
    with pytest.raises(SendError, match="unsupported Content-Encoding 'gzip'"):
        await send(lambda _: httpx.Response(200, headers={"Content-Encoding": "gzip"}, content=packed))
    head = Request("HEAD", "/", (), None)
    assert (await send(lambda _: httpx.Response(200, headers={"Content-Encoding": "gzip"}), head)).status == 200


class Broken(httpx.AsyncByteStream):
    """A body that ends with an error."""

    async def __aiter__(self) -> Any:
        yield b"x"
        raise httpx.ReadError("lost")


@pytest.mark.parametrize(
    ("error", "was_sent"),
    [(httpx.ConnectError("refused"), False), (httpx.ReadError("lost"), True), (OSError("x"), True)],
)
async def test_failures(error: Exception, was_sent: bool) -> None:
    def fail(_: httpx.Request) -> httpx.Response:
        raise error

    with pytest.raises(SendError, match=f"the request failed: {type(error).__name__}") as caught:
        await send(fail)
    assert caught.value.was_sent is was_sent
    with pytest.raises(SendError, match="ReadError: lost"):
        await send(lambda _: httpx.Response(200, stream=Broken()))


async def test_its_own_client_keeps_no_cookies_and_can_be_closed_and_used_again() -> None:
    received: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(
            b"HTTP/1.1 200 OK\r\nSet-Cookie: sid=1; Path=/\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"
        )
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    sender = HttpSender()
    assert sender.base_url is None
    for _ in range(2):
        assert (await sender.send(url, GET, 10)).body == b"ok"
    await sender.close()
    assert (await sender.send(url, GET, 10)).body == b"ok"
    await sender.close()
    await sender.close()
    server.close()
    await server.wait_closed()
    assert len(received) == 3
    assert not any(b"cookie" in head.lower() for head in received)


async def test_what_is_no_client() -> None:
    with httpx.Client() as client, pytest.raises(UsageError, match=r"must be an httpx\.AsyncClient, not Client"):
        HttpSender(client)
    async with httpx.AsyncClient(base_url="https://api.example/v1") as other:
        sender = HttpSender(other)
        assert sender.base_url == "https://api.example/v1/"
        await sender.close()
        assert not other.is_closed


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without_httpx(name: str, *rest: Any, **more: Any) -> Any:
        if name == "httpx":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without_httpx)
    with pytest.raises(UsageError, match=r"needs the extra 'openapi': pip install 'jackstay\[openapi\]'"):
        HttpSender()
