"""The listener for the redirect: one callback; other requests are ignored."""

import asyncio
import contextlib
import errno
import socket

import pytest

from jackstay.errors import UsageError
from jackstay.oauth import AuthorizationError
from jackstay.oauth import _browser as listening
from jackstay.oauth._browser import DONE, IGNORED, MAX_CONNECTIONS, RedirectListener, free_port, is_free


def listener(host: str = "127.0.0.1", path: str = "/callback") -> RedirectListener:
    return RedirectListener(f"http://{host}:{free_port()}{path}", "s")


async def send(port: int, text: str, host: str = "127.0.0.1") -> bytes:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(text.format(port=port).encode("latin-1"))
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


GET = "GET /callback?code=c&state=s HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nCookie: x\r\n\r\n"


async def test_the_callback_url_is_returned_and_the_page_explains_what_to_do() -> None:
    async with listener() as redirect:
        callback = asyncio.create_task(redirect.callback(20))
        page = (await send(redirect._port, GET)).decode()
        assert await callback == f"{redirect.redirect_uri}?code=c&state=s"
        head, _, body = page.partition("\r\n\r\n")
        assert head.startswith("HTTP/1.1 200 ")
        assert body == DONE
        assert "no-store" in head
        assert "no-referrer" in head
        assert "default-src 'none'" in head
    with pytest.raises(OSError):
        await send(redirect._port, GET)


OTHER_REQUESTS = (
    "GET /callback?code=c&state=other HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n",
    "GET /callback HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n",
    "GET /other?state=s HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n",
    "GET /favicon.ico HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n",
    "POST /callback?state=s HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n",
    "GET /callback?state=s HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    "GET /callback?state=s HTTP/1.1\r\nHost: evil.example:{port}\r\n\r\n",
    "GET /callback?state=s HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nHost: evil.example\r\n\r\n",
    "GET /callback?state=s HTTP/1.1\r\n\r\n",
    "GET http://127.0.0.1/callback?state=s HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n",
    "GET /callback?state=s\r\n\r\n",
    "GET /callback?state=s SPDY/3\r\nHost: 127.0.0.1:{port}\r\n\r\n",
    "\x16\x03\x01\x02\r\n\r\n",
    "\r\n\r\n",
)


async def test_other_requests_are_ignored_and_get_no_details(subtests: pytest.Subtests) -> None:
    async with listener() as redirect:
        for request in OTHER_REQUESTS:
            with subtests.test(request=request):
                page = (await send(redirect._port, request)).decode()
                assert page.startswith("HTTP/1.1 404 ")
                assert page.endswith(IGNORED)
                assert "state" not in page
        callback = asyncio.create_task(redirect.callback(20))
        await send(redirect._port, GET)
        assert await callback


async def test_the_second_callback_is_ignored() -> None:
    async with listener() as redirect:
        await send(redirect._port, GET)
        assert IGNORED.encode() in await send(redirect._port, GET.replace("code=c", "code=evil"))
        assert "code=c&" in await redirect.callback(20)


async def test_an_oversized_request_gets_no_response() -> None:
    async with listener() as redirect:
        assert await send(redirect._port, "GET /" + "x" * 200_000) == b""
        await send(redirect._port, GET)
        assert await redirect.callback(20)


async def test_a_stalled_connection_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "REQUEST_SECONDS", 0.05)
    async with listener() as redirect:
        assert await send(redirect._port, "GET /callback?state=s HTTP/1.1\r\n") == b""


async def test_connections_above_the_limit_are_closed() -> None:
    async with listener() as redirect:
        async with contextlib.AsyncExitStack() as connections:
            for _ in range(MAX_CONNECTIONS):
                _, writer = await asyncio.open_connection("127.0.0.1", redirect._port)
                connections.callback(writer.close)
            while len(redirect._open) < MAX_CONNECTIONS:
                await asyncio.sleep(0)
            assert await send(redirect._port, GET) == b""
        while redirect._open:
            await asyncio.sleep(0)
        await send(redirect._port, GET)
        assert await redirect.callback(20)


async def test_open_connections_are_closed_with_the_listener() -> None:
    async with listener() as redirect:
        reader, writer = await asyncio.open_connection("127.0.0.1", redirect._port)
        while not redirect._open:
            await asyncio.sleep(0)
    assert await reader.read() == b""
    writer.close()
    while redirect._open:
        await asyncio.sleep(0)


async def test_a_sign_in_without_a_callback_times_out() -> None:
    async with listener() as redirect:
        with pytest.raises(AuthorizationError, match=r"within 0\.01 s") as caught:
            await redirect.callback(0.01)
        assert caught.value.permanent is False


async def test_a_port_in_use_is_a_usage_error() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert not is_free(port)
        with pytest.raises(UsageError, match="cannot listen on") as caught:
            async with RedirectListener(f"http://127.0.0.1:{port}/x", "s"):
                pass
        assert caught.value.path == "redirect_uri"
    assert is_free(port)


async def test_a_listener_of_another_program_on_the_other_loopback_address_is_an_error() -> None:
    """A browser may try `[::1]` first for `localhost`, and would send the code to that program."""
    if not has_ipv6_loopback():
        pytest.skip("no IPv6 here")
    with socket.socket(socket.AF_INET6) as taken:
        taken.bind(("::1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=r"cannot listen on .*\(::1\)"):
            async with RedirectListener(f"http://localhost:{port}/x", "s"):
                pass
    assert is_free(port), "the first listener is closed"


@pytest.mark.parametrize(
    ("error", "is_absent"),
    [
        (OSError(errno.EADDRNOTAVAIL, "x"), True),
        (OSError(errno.EAFNOSUPPORT, "x"), True),
        (OSError("could not bind on any address"), True),
        (socket.gaierror(socket.EAI_FAMILY, "x"), True),
        (OSError(errno.EADDRINUSE, "x"), False),
        (OSError(errno.EACCES, "x"), False),
        (OSError(errno.EMFILE, "x"), False),
    ],
)
async def test_only_a_machine_without_ipv6_listens_on_one_address(
    error: OSError, is_absent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = asyncio.start_server

    async def start(serve: object, host: str, port: int, **options: object) -> object:
        if host == "::1":
            raise error
        return await original(serve, host, port, **options)  # type: ignore[arg-type]  # passed on unchanged

    monkeypatch.setattr(listening.asyncio, "start_server", start)
    redirect = listener("localhost")
    if is_absent:
        async with redirect:
            assert len(redirect._servers) == 1
    else:
        with pytest.raises(UsageError, match="cannot listen on"):
            await redirect.__aenter__()


def has_ipv6_loopback() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


async def test_localhost_is_accepted_as_host() -> None:
    async with listener("localhost") as redirect:
        page = await send(redirect._port, GET)
        assert IGNORED.encode() in page, "the Host header must be localhost"
        await send(redirect._port, GET.replace("127.0.0.1", "localhost"))
        assert await redirect.callback(20)


async def test_ipv6_loopback_is_supported() -> None:
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    redirect = RedirectListener(f"http://[::1]:{free_port()}/callback", "s")
    try:
        await redirect.__aenter__()
    except UsageError:
        pytest.skip("no IPv6 here")
    await send(redirect._port, GET.replace("127.0.0.1", "[::1]"), "::1")
    assert await redirect.callback(20)
    await redirect.__aexit__(None, None, None)


async def test_port_80_needs_no_port_in_the_host() -> None:
    redirect = RedirectListener("http://127.0.0.1/callback", "s")
    assert redirect._target(b"GET /callback?state=s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n") == "/callback?state=s"
    assert redirect._target(b"GET /callback HTTP/1.1\r\nHost: 127.0.0.1:80\r\n\r\n") == "/callback"
