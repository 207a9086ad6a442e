"""Sending requests: credentials, the authorizer and redirects."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from jackstay.client import Client, connect
from jackstay.errors import McpError, ProtocolError, TransportError
from jackstay.testing import on_fake_clock
from jackstay.transport import Challenge, HttpClient
from jackstay.transport.http import http
from jackstay.transport.http._sending import MAX_CACHED_TYPE, Sender, _usual
from scripted.http import HANDSHAKE, STATELESS, Mcp, MemoryHttp, Reply, Script, Seen

URL = "https://example.org/mcp"


def test_a_sender_shows_no_secrets() -> None:
    """It has the headers of the user, and is in the frames of a traceback."""
    sender = Sender(MemoryHttp(Mcp()), f"{URL}?key=s3cr3t", (("X-Api-Key", "s3cr3t"),), None)
    assert repr(sender) == "<Sender https://example.org/mcp>"
    assert sender.__rich_repr__() == [("url", "https://example.org/mcp")]


class RotatingTokens:
    """An authorizer whose token is replaced when it is challenged."""

    def __init__(self, *tokens: str, error: Exception | None = None) -> None:
        self.tokens = list(tokens)
        self.error = error
        self.challenges: list[Challenge] = []

    async def headers(self, client: HttpClient, url: str) -> Sequence[tuple[str, str]]:
        return [("Authorization", f"Bearer {self.tokens[0]}")]

    async def challenged(self, client: HttpClient, challenge: Challenge) -> bool:
        self.challenges.append(challenge)
        await asyncio.sleep(1)
        if self.error is not None:
            raise self.error
        if len(self.tokens) == 1:
            return False
        self.tokens.pop(0)
        return True


def requiring_token(script: Script, good: str, status: int = 401, **headers: str) -> Script:
    async def check(seen: Seen, reply: Reply) -> None:
        if seen.headers.get("authorization") != f"Bearer {good}":
            reply.send(status, b"", **headers)
        else:
            await script(seen, reply)

    return check


def client_of(script: Script, auth: Any = None, **options: Any) -> tuple[Client, MemoryHttp]:
    server = MemoryHttp(script)
    return connect(http(URL, client=server, auth=auth, headers={"X-Mine": "1"}), **options), server


# --- credentials ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [HANDSHAKE, STATELESS])
@on_fake_clock
async def test_every_request_carries_the_users_headers_and_credentials(version: str) -> None:
    client, server = client_of(Mcp(version, session="s"), auth="token")
    async with client:
        await client.tools.call("echo")
    assert {seen.headers["authorization"] for seen in server.seen} == {"Bearer token"}
    assert {seen.headers["x-mine"] for seen in server.seen} == {"1"}


@on_fake_clock
async def test_a_401_calls_the_authorizer_and_the_request_is_sent_again() -> None:
    authorizer = RotatingTokens("old", "new")
    client, server = client_of(requiring_token(Mcp(), "new", www_authenticate='Bearer scope="a"'), authorizer)
    async with client:
        assert client.state == "ready"
    assert authorizer.challenges == [Challenge(URL, 401, ('Bearer scope="a"',))]
    assert [seen.headers["authorization"] for seen in server.seen] == ["Bearer old", "Bearer new"]


@on_fake_clock
async def test_many_rejected_requests_call_the_authorizer_once() -> None:
    """The authorizer is called for one request at a time, or several browser windows would open."""
    authorizer = RotatingTokens("old", "new")
    script = Mcp()
    client, server = client_of(script, authorizer)
    async with client:
        script.on["tools/call"] = requiring_token(Mcp(), "new")
        answers = await asyncio.gather(*(client.tools.call("echo", {"n": n}) for n in range(5)))
        assert len(answers) == 5
    assert len(authorizer.challenges) == 1
    assert len(server.received("tools/call")) == 10


@pytest.mark.parametrize("status", [401, 403])
@on_fake_clock
async def test_the_authorizer_is_called_at_most_once_per_request(status: int) -> None:
    authorizer = RotatingTokens("a", "b", "c", "d")
    script = Mcp()
    client, server = client_of(script, authorizer)
    async with client:
        script.on["tools/call"] = requiring_token(Mcp(), "never", status, www_authenticate="Bearer")
        with pytest.raises(TransportError, match=f"HTTP {status}") as raised:
            await client.tools.call("echo")
        assert raised.value.may_have_run is False
        assert client.state == "ready"
    assert len(authorizer.challenges) == 1
    assert len(server.received("tools/call")) == 2


@on_fake_clock
async def test_an_authorizer_without_new_credentials_ends_the_request() -> None:
    authorizer = RotatingTokens("only")
    client, server = client_of(requiring_token(Mcp(), "other"), authorizer)
    with pytest.raises(TransportError, match="HTTP 401") as raised:
        await client.open()
    assert raised.value.permanent
    assert len(server.seen) == 1


@on_fake_clock
async def test_an_error_of_the_authorizer_is_the_error_of_the_request() -> None:
    authorizer = RotatingTokens("old", error=TransportError("the user declined", permanent=True))
    client, _ = client_of(requiring_token(Mcp(), "new"), authorizer)
    with pytest.raises(TransportError, match="the user declined"):
        await client.open()


@on_fake_clock
async def test_a_403_without_a_challenge_does_not_call_the_authorizer() -> None:
    """A foreign Origin, for example: no challenge, and a JSON-RPC error in the body."""
    authorizer = RotatingTokens("a", "b")
    script = Mcp()

    async def refuse(seen: Seen, reply: Reply) -> None:
        reply.error(None, -32600, "bad origin", status=403)

    client, _ = client_of(script, authorizer)
    async with client:
        script.on["tools/call"] = refuse
        with pytest.raises(McpError, match="bad origin"):
            await client.tools.call("echo")
    assert authorizer.challenges == []


# --- redirects --------------------------------------------------------------------------------------------------------


def moved(to: str, script: Script, status: int = 307, path: str = "/mcp") -> Script:
    async def move(seen: Seen, reply: Reply) -> None:
        if seen.path == path:
            reply.send(status, location=to)
        else:
            await script(seen, reply)

    return move


@pytest.mark.parametrize("to", ["/mcp/", "https://example.org:443/mcp/", "mcp/"])
@pytest.mark.parametrize("status", [307, 308])
@on_fake_clock
async def test_a_redirect_to_the_same_origin_is_followed(to: str, status: int) -> None:
    """Frameworks redirect `/mcp` to `/mcp/`; the same origin is the same server."""
    client, server = client_of(moved(to, Mcp(), status), auth="token")
    async with client:
        assert (await client.tools.call("echo", {"n": 1})).text == '{"n": 1}'
    first, second, *rest = server.seen
    assert (first.body, first.headers) == (second.body, second.headers)
    assert len(rest) == (1 if status == 308 else 2), "308 is remembered"


@pytest.mark.parametrize(
    ("to", "status"),
    [
        ("https://elsewhere.org/mcp", 307),
        ("http://example.org/mcp", 307),
        ("https://example.org:8443/mcp", 308),
        ("/other", 301),
        ("/other", 302),
        ("/other", 303),
    ],
)
@on_fake_clock
async def test_a_redirect_to_another_origin_or_method_is_not_followed(to: str, status: int) -> None:
    """Credentials are never sent to another origin; the error has the location."""
    client, server = client_of(moved(to, Mcp(), status), auth="token", max_attempts=1)
    with pytest.raises(TransportError, match=f"redirected to '{to}'"):
        await client.open()
    assert server.urls == [URL]


@on_fake_clock
async def test_an_invalid_redirect_is_a_protocol_error() -> None:
    client, _ = client_of(moved("http://[", Mcp()), max_attempts=1)
    with pytest.raises(ProtocolError, match="not a URL"):
        await client.open()


@on_fake_clock
async def test_a_redirect_loop_ends() -> None:
    async def circle(seen: Seen, reply: Reply) -> None:
        reply.send(307, location="/mcp")

    client, server = client_of(circle, max_attempts=1)
    with pytest.raises(TransportError, match="redirected to '/mcp'"):
        await client.open()
    assert len(server.seen) == 6


@on_fake_clock
async def test_a_redirect_without_a_location_is_an_error() -> None:
    async def nowhere(seen: Seen, reply: Reply) -> None:
        reply.send(307)

    client, _ = client_of(nowhere, max_attempts=1)
    with pytest.raises(TransportError, match="HTTP 307"):
        await client.open()


@on_fake_clock
async def test_a_request_cancelled_in_the_authorizer_closes_its_response() -> None:
    authorizer = RotatingTokens("old", "new")
    script = Mcp()
    client, server = client_of(script, authorizer)
    async with client:
        script.on["tools/call"] = requiring_token(Mcp(), "new")
        call = asyncio.ensure_future(client.tools.call("echo"))
        await asyncio.sleep(0.5)
        call.cancel()
        await asyncio.sleep(0.1)
        assert server.replies[-1].gone.is_set()


@on_fake_clock
async def test_an_error_body_that_never_ends_is_ignored() -> None:
    """The body of an error is read only for a limited time: the status is known, and the caller waits."""

    async def endless(seen: Seen, reply: Reply) -> None:
        reply.head(503, {"content-type": "text/html"}, None)
        reply.write(b"x" * 100)
        await reply.gone.wait()

    async def broken(seen: Seen, reply: Reply) -> None:
        reply.head(503, {"content-type": "text/html"}, None)
        reply.cut()

    async def huge(seen: Seen, reply: Reply) -> None:
        reply.head(503, {"content-type": "text/html"}, None)
        for _ in range(100):
            reply.write(b"x" * 10_000)
        await reply.gone.wait()

    for script in (endless, broken, huge):
        client, server = client_of(Mcp(tools__call=script))
        async with client:
            with pytest.raises(McpError, match="HTTP 503"):
                await client.tools.call("echo")
            assert server.replies[-1].gone.is_set()


# --- sign_in_timeout --------------------------------------------------------------------------------------------------


class SignIn(RotatingTokens):
    """An authorizer whose user takes 200 s to sign in."""

    sign_in_timeout = 300.0

    async def challenged(self, client: HttpClient, challenge: Challenge) -> bool:
        await asyncio.sleep(200)
        return await super().challenged(client, challenge)


@on_fake_clock
async def test_connecting_waits_for_a_sign_in() -> None:
    """`open_timeout` is 60 s; `sign_in_timeout` is added."""
    client, _ = client_of(requiring_token(Mcp(), "new"), SignIn("old", "new"))
    async with client:
        assert client.state == "ready"
    assert connect(http(URL, auth=SignIn("old"))).settings.open_timeout == 310.0
    assert connect(http(URL, auth=SignIn("old")), open_timeout=5).settings.open_timeout == 5
    assert connect(http(URL)).settings.open_timeout == 60.0


@on_fake_clock
async def test_a_server_that_does_not_respond_does_not_get_the_sign_in_timeout() -> None:
    """A start with a sign-in may take minutes; a hung server is detected earlier."""

    async def silent(seen: Seen, reply: Reply) -> None:
        await reply.gone.wait()

    client, server = client_of(silent, SignIn("old", "new"), max_attempts=1)
    began = asyncio.get_running_loop().time()
    with pytest.raises(TransportError, match="did not respond within 30 s"):
        async with client:
            pass
    assert asyncio.get_running_loop().time() - began == pytest.approx(30, abs=5)
    assert server.replies[0].gone.is_set()


@on_fake_clock
async def test_a_long_content_type_is_not_cached() -> None:
    count = 0

    async def call(seen: Seen, reply: Reply) -> None:
        nonlocal count
        count += 1
        answer = {"jsonrpc": "2.0", "id": seen.id, "result": {"content": []}}
        reply.send(200, json.dumps(answer).encode(), f"application/json; x={count}{'y' * MAX_CACHED_TYPE}")

    client, _ = client_of(Mcp(HANDSHAKE, tools__call=call))
    async with client:
        await client.tools.list()
        before = _usual.cache_info().currsize
        for _ in range(3):
            await client.tools.call("t")
        assert count == 3
        assert _usual.cache_info().currsize == before
