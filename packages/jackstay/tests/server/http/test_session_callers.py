"""Each call is checked against the token of its own POST, also if the session is used with other tokens."""

import asyncio
from typing import Any

import pytest

from jackstay.server import Context, Server
from jackstay.server._dispatch import Next
from jackstay.server.http import Principal
from scripted.asgi import Http, Response, http_client, initialize, request, tool


class Tokens:
    """Verifies tokens such as `alice.admin`: the principal alice with the scope admin."""

    async def verify(self, token: str) -> Principal | None:
        name, _, scope = token.partition(".")
        return Principal(name, frozenset({scope}) if scope else frozenset(), {"token": token})


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


class WaitingServer:
    """A server whose middleware and tools wait for `release`."""

    def __init__(self, middlewares: int) -> None:
        self.server = Server("callers")
        self.entered: asyncio.Queue[Context] = asyncio.Queue()
        self.release = asyncio.Event()
        for number in range(middlewares):
            self.server.add_middleware(self._first if number == 0 else self._passing)

        @self.server.tool(scopes=["admin"])
        async def wipe(ctx: Context) -> str:
            return self._describe(ctx)

        @self.server.tool
        async def who(ctx: Context) -> str:
            await self.release.wait()
            return self._describe(ctx)

        @self.server.resource("test://who")
        async def about(ctx: Context) -> str:
            await self.release.wait()
            return self._describe(ctx)

        @self.server.prompt
        async def who_prompt(ctx: Context) -> str:
            await self.release.wait()
            return self._describe(ctx)

    def _describe(self, ctx: Context) -> str:
        return f"{ctx.principal} {sorted(ctx.scopes)} {ctx.claims.get('token')}"

    async def _first(self, ctx: Context, call_next: Next) -> bytes:
        if ctx.method == "ping":
            return await call_next()
        self.entered.put_nowait(ctx)
        await self.release.wait()
        return await call_next()

    async def _passing(self, ctx: Context, call_next: Next) -> bytes:
        await asyncio.sleep(0)
        return await call_next()


async def session_of(http: Http, token: str) -> dict[str, str]:
    answer = await http.post(initialize(), headers=bearer(token))
    assert answer.status == 200, answer.body
    return {"mcp-session-id": answer.headers["mcp-session-id"]}


async def with_another_token_between(
    fixture: WaitingServer, http: Http, message: dict[str, Any], token: str, other: str
) -> Response:
    """Send the call with one token, use the session with another one while the call waits, then release the call."""
    session = await session_of(http, token)
    call = http.start("POST", message, headers={**session, **bearer(token)})
    if fixture.server._dispatch.middleware:
        await fixture.entered.get()
    assert (await http.post(request("ping", id=9), headers={**session, **bearer(other)})).status == 200
    fixture.release.set()
    await call.until(lambda: call.is_over)
    return call


CALLS = {
    "tool": tool("who", 1),
    "resource": request("resources/read", {"uri": "test://who"}, 1),
    "prompt": request("prompts/get", {"name": "who_prompt"}, 1),
}


async def test_scopes_of_a_concurrent_token_are_not_added(subtests: pytest.Subtests) -> None:
    for middlewares in (0, 1, 2):
        with subtests.test(middlewares=middlewares):
            fixture = WaitingServer(middlewares)
            async with http_client(fixture.server.asgi(sessions=True, auth=Tokens())) as http:
                call = await with_another_token_between(fixture, http, tool("wipe", 1), "alice", "alice.admin")
                assert call.status == 403
                assert 'scope="admin"' in call.headers["www-authenticate"]


async def test_scopes_are_not_lost_to_a_concurrent_token(subtests: pytest.Subtests) -> None:
    for middlewares in (0, 1, 2):
        with subtests.test(middlewares=middlewares):
            fixture = WaitingServer(middlewares)
            async with http_client(fixture.server.asgi(sessions=True, auth=Tokens())) as http:
                call = await with_another_token_between(fixture, http, tool("wipe", 1), "alice.admin", "alice")
                assert call.status == 200
                assert call.json["result"]["content"][0]["text"] == "alice ['admin'] alice.admin"


async def test_a_context_shows_the_token_of_its_own_request(subtests: pytest.Subtests) -> None:
    for middlewares in (0, 1):
        for kind, message in CALLS.items():
            with subtests.test(middlewares=middlewares, kind=kind):
                fixture = WaitingServer(middlewares)
                async with http_client(fixture.server.asgi(sessions=True, auth=Tokens())) as http:
                    call = await with_another_token_between(fixture, http, message, "alice.one", "alice.two")
                    assert b"alice ['one'] alice.one" in call.body


async def test_concurrent_calls_have_their_own_tokens() -> None:
    """Also within the iteration of the loop in which their handlers start."""
    fixture = WaitingServer(2)
    fixture.release.set()
    async with http_client(fixture.server.asgi(sessions=True, auth=Tokens())) as http:
        session = await session_of(http, "alice")
        tokens = ["alice", "alice.admin", "alice.other"] * 5
        calls = [
            http.start("POST", tool("wipe", id), headers={**session, **bearer(token)})
            for id, token in enumerate(tokens, 1)
        ]
        for call, token in zip(calls, tokens, strict=True):
            await call.until(lambda call=call: call.is_over)
            assert call.status == (200 if token == "alice.admin" else 403), token
