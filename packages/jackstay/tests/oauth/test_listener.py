"""The way back from the browser: one answer, and everybody else is ignored."""

import asyncio
import contextlib
import errno
import socket

import pytest

from jackstay.errors import UsageError
from jackstay.oauth import AuthorizationError
from jackstay.oauth import _listener as listening
from jackstay.oauth._listener import DONE, IGNORED, MAX_CONNECTIONS, RedirectListener, free_port, is_free
from scripted.loop import timed


def wanted(target: str) -> bool:
    return "state=s" in target


def listener(host: str = "127.0.0.1", path: str = "/callback") -> RedirectListener:
    return RedirectListener(f"http://{host}:{free_port()}{path}", wanted)


async def say(port: int, text: str, host: str = "127.0.0.1") -> bytes:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(text.format(port=port).encode("latin-1"))
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


GET = "GET /callback?code=c&state=s HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nCookie: x\r\n\r\n"


@timed
async def test_the_answer_is_the_url_and_the_page_says_what_to_do() -> None:
    async with listener() as here:
        answer = asyncio.create_task(here.answer(20))
        page = (await say(here._port, GET)).decode()
        assert await answer == f"{here.redirect_uri}?code=c&state=s"
        head, _, body = page.partition("\r\n\r\n")
        assert head.startswith("HTTP/1.1 200 ")
        assert body == DONE
        assert "no-store" in head
        assert "no-referrer" in head
        assert "default-src 'none'" in head
    with pytest.raises(OSError):
        await say(here._port, GET)


@pytest.mark.parametrize(
    "request_text",
    [
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
    ],
)
@timed
async def test_what_is_not_the_answer_is_ignored_and_shown_nothing(request_text: str) -> None:
    async with listener() as here:
        page = (await say(here._port, request_text)).decode()
        assert page.startswith("HTTP/1.1 404 ")
        assert page.endswith(IGNORED)
        assert "state" not in page
        answer = asyncio.create_task(here.answer(20))
        await say(here._port, GET)
        assert await answer


@timed
async def test_the_second_answer_is_ignored() -> None:
    async with listener() as here:
        await say(here._port, GET)
        assert IGNORED.encode() in await say(here._port, GET.replace("code=c", "code=evil"))
        assert "code=c&" in await here.answer(20)


@timed
async def test_somebody_who_sends_too_much_gets_nothing() -> None:
    async with listener() as here:
        assert await say(here._port, "GET /" + "x" * 200_000) == b""
        await say(here._port, GET)
        assert await here.answer(20)


@timed
async def test_somebody_who_stalls_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "REQUEST_SECONDS", 0.05)
    async with listener() as here:
        assert await say(here._port, "GET /callback?state=s HTTP/1.1\r\n") == b""


@timed
async def test_a_crowd_of_connections_is_hung_up_on() -> None:
    async with listener() as here:
        async with contextlib.AsyncExitStack() as crowd:
            for _ in range(MAX_CONNECTIONS):
                _, writer = await asyncio.open_connection("127.0.0.1", here._port)
                crowd.callback(writer.close)
            while len(here._open) < MAX_CONNECTIONS:
                await asyncio.sleep(0)
            assert await say(here._port, GET) == b""
        while here._open:
            await asyncio.sleep(0)
        await say(here._port, GET)
        assert await here.answer(20)


@timed
async def test_who_is_connected_when_it_closes_is_hung_up_on() -> None:
    async with listener() as here:
        reader, writer = await asyncio.open_connection("127.0.0.1", here._port)
        while not here._open:
            await asyncio.sleep(0)
    assert await reader.read() == b""
    writer.close()
    while here._open:
        await asyncio.sleep(0)


@timed
async def test_nobody_comes() -> None:
    async with listener() as here:
        with pytest.raises(AuthorizationError, match=r"within 0\.01 s") as caught:
            await here.answer(0.01)
        assert caught.value.permanent is False


@timed
async def test_a_port_that_is_taken_is_an_error_that_says_so() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert not is_free(port)
        with pytest.raises(UsageError, match="nothing can listen at") as caught:
            async with RedirectListener(f"http://127.0.0.1:{port}/x", wanted):
                pass
        assert caught.value.path == "redirect_uri"
    assert is_free(port)


@timed
async def test_somebody_else_at_the_other_loopback_address_is_an_error() -> None:
    """A browser may try `[::1]` first for `localhost`: the code would go to whoever listens there."""
    if not has_ipv6_loopback():
        pytest.skip("no IPv6 here")
    with socket.socket(socket.AF_INET6) as taken:
        taken.bind(("::1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=r"nothing can listen at .*\(::1\)"):
            async with RedirectListener(f"http://localhost:{port}/x", wanted):
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
@timed
async def test_only_a_machine_without_ipv6_listens_at_one_address(
    error: OSError, is_absent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = asyncio.start_server

    async def start(serve: object, host: str, port: int, **options: object) -> object:
        if host == "::1":
            raise error
        return await original(serve, host, port, **options)  # type: ignore[arg-type]  # as it came

    monkeypatch.setattr(listening.asyncio, "start_server", start)
    here = listener("localhost")
    if is_absent:
        async with here:
            assert len(here._servers) == 1
    else:
        with pytest.raises(UsageError, match="nothing can listen at"):
            await here.__aenter__()


def has_ipv6_loopback() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


@timed
async def test_localhost_is_heard_under_its_own_name() -> None:
    async with listener("localhost") as here:
        page = await say(here._port, GET)
        assert IGNORED.encode() in page, "the browser was sent to localhost, and says so"
        await say(here._port, GET.replace("127.0.0.1", "localhost"))
        assert await here.answer(20)


@timed
async def test_the_loopback_of_ipv6_is_heard() -> None:
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    here = RedirectListener(f"http://[::1]:{free_port()}/callback", wanted)
    try:
        await here.__aenter__()
    except UsageError:
        pytest.skip("no IPv6 here")
    await say(here._port, GET.replace("127.0.0.1", "[::1]"), "::1")
    assert await here.answer(20)
    await here.__aexit__(None, None, None)


def test_port_80_needs_no_port_in_the_host() -> None:
    here = RedirectListener("http://127.0.0.1/callback", wanted)
    assert here._target(b"GET /callback?state=s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n") == "/callback?state=s"
    assert here._target(b"GET /callback HTTP/1.1\r\nHost: 127.0.0.1:80\r\n\r\n") == "/callback"
