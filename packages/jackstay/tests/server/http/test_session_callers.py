"""Each call is checked against the token of its own POST, whatever other tokens of the same caller the session sees."""

import asyncio
from typing import Any

import pytest

from jackstay.server import Context, Server
from jackstay.server._dispatch import Next
from jackstay.server.http import Principal
from scripted.asgi import Http, Response, asking, initialize, request, run, tool


class Tokens:
    """`alice.admin` is alice's, with the scope `admin`."""

    async def verify(self, token: str) -> Principal | None:
        name, _, scope = token.partition(".")
        return Principal(name, frozenset({scope}) if scope else frozenset(), {"token": token})


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


class Scene:
    """A server whose middleware waits until the test lets it go on."""

    def __init__(self, middlewares: int) -> None:
        self.server = Server("callers")
        self.entered: asyncio.Queue[Context] = asyncio.Queue()
        self.may_go_on = asyncio.Event()
        for number in range(middlewares):
            self.server.add_middleware(self._first if number == 0 else self._passing)

        @self.server.tool(scopes=["admin"])
        async def wipe(ctx: Context) -> str:
            return self._note(ctx)

        @self.server.tool
        async def who(ctx: Context) -> str:
            await self.may_go_on.wait()
            return self._note(ctx)

        @self.server.resource("test://who")
        async def about(ctx: Context) -> str:
            await self.may_go_on.wait()
            return self._note(ctx)

        @self.server.prompt
        async def asking_who(ctx: Context) -> str:
            await self.may_go_on.wait()
            return self._note(ctx)

    def _note(self, ctx: Context) -> str:
        return f"{ctx.principal} {sorted(ctx.scopes)} {ctx.claims.get('token')}"

    async def _first(self, ctx: Context, call_next: Next) -> bytes:
        if ctx.method == "ping":
            return await call_next()
        self.entered.put_nowait(ctx)
        await self.may_go_on.wait()
        return await call_next()

    async def _passing(self, ctx: Context, call_next: Next) -> bytes:
        await asyncio.sleep(0)
        return await call_next()


async def session_of(http: Http, token: str) -> dict[str, str]:
    answer = await http.post(initialize(), headers=bearer(token))
    assert answer.status == 200, answer.body
    return {"mcp-session-id": answer.headers["mcp-session-id"]}


async def with_another_token_between(
    scene: Scene, http: Http, message: dict[str, Any], token: str, other: str
) -> Response:
    """Send the call with one token, use the session with the other while the call waits, and let it go on."""
    session = await session_of(http, token)
    call = http.start("POST", message, headers={**session, **bearer(token)})
    if scene.server.dispatch.middleware:
        await scene.entered.get()
    assert (await http.post(request("ping", id=9), headers={**session, **bearer(other)})).status == 200
    scene.may_go_on.set()
    await call.until(lambda: call.is_over)
    return call


CALLS = {
    "tool": tool("who", 1),
    "resource": request("resources/read", {"uri": "test://who"}, 1),
    "prompt": request("prompts/get", {"name": "asking_who"}, 1),
}


@pytest.mark.parametrize("middlewares", [0, 1, 2])
def test_a_token_with_more_scopes_does_not_lend_them(middlewares: int) -> None:
    async def test() -> None:
        scene = Scene(middlewares)
        async with asking(scene.server.asgi(sessions=True, auth=Tokens())) as http:
            call = await with_another_token_between(scene, http, tool("wipe", 1), "alice", "alice.admin")
            assert call.status == 403
            assert 'scope="admin"' in call.headers["www-authenticate"]

    run(test)


@pytest.mark.parametrize("middlewares", [0, 1, 2])
def test_a_token_with_fewer_scopes_takes_none_away(middlewares: int) -> None:
    async def test() -> None:
        scene = Scene(middlewares)
        async with asking(scene.server.asgi(sessions=True, auth=Tokens())) as http:
            call = await with_another_token_between(scene, http, tool("wipe", 1), "alice.admin", "alice")
            assert call.status == 200
            assert call.json["result"]["content"][0]["text"] == "alice ['admin'] alice.admin"

    run(test)


@pytest.mark.parametrize("kind", CALLS)
@pytest.mark.parametrize("middlewares", [0, 1])
def test_a_context_shows_the_token_of_its_own_request(kind: str, middlewares: int) -> None:
    async def test() -> None:
        scene = Scene(middlewares)
        async with asking(scene.server.asgi(sessions=True, auth=Tokens())) as http:
            call = await with_another_token_between(scene, http, CALLS[kind], "alice.one", "alice.two")
            assert b"alice ['one'] alice.one" in call.body

    run(test)


def test_many_calls_at_once_each_have_their_own() -> None:
    """Also in the turn of the loop in which their handlers begin."""

    async def test() -> None:
        scene = Scene(2)
        scene.may_go_on.set()
        async with asking(scene.server.asgi(sessions=True, auth=Tokens())) as http:
            session = await session_of(http, "alice")
            tokens = ["alice", "alice.admin", "alice.other"] * 5
            calls = [
                http.start("POST", tool("wipe", id), headers={**session, **bearer(token)})
                for id, token in enumerate(tokens, 1)
            ]
            for call, token in zip(calls, tokens, strict=True):
                await call.until(lambda call=call: call.is_over)
                assert call.status == (200 if token == "alice.admin" else 403), token

    run(test)
