"""What is somebody's stays his: sessions, sealed states and tokens, when another caller presents them."""

import asyncio
import json
from typing import Any

import pytest

from jackstay.server import Context, Server
from jackstay.server.http import App, keys
from peers.asgi import ask, asked
from peers.http_process import META, Answer, call

ALICE, BOB = "alice-0123456789abcdef", "bob-0123456789abcdef"
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "0"},
    },
}


@pytest.fixture
def server() -> Server:
    server = Server("demo")

    @server.tool
    async def who(context: Context) -> str:
        return context.principal

    @server.tool
    async def question(context: Context) -> str:
        answer = await context.elicit("Sure?", {"type": "object", "properties": {}})
        return f"{context.principal}: {answer.action}"

    return server


def bearer(token: str, **more: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}", "mcp_protocol_version": "2025-11-25", **more}


async def opened(app: App, token: str) -> str:
    answer = await ask(app, body=INITIALIZE, **bearer(token))
    assert answer.status == 200
    return answer.headers["mcp-session-id"]


def said(answer: Answer) -> str:
    """What the tool said, as JSON or as the event of a stream."""
    body = answer.body
    if answer.headers["content-type"] == "text/event-stream":
        body = next(line[5:] for line in body.splitlines() if line.startswith(b"data:") and b"result" in line)
    text: str = json.loads(body)["result"]["content"][0]["text"]
    return text


def test_a_session_is_unknown_to_every_other_principal(server: Server) -> None:
    """404, as for a session that never was: whether a guessed id exists is nobody else's to know."""

    async def test() -> None:
        app = server.asgi(sessions=True, auth=keys({"alice": ALICE, "bob": BOB}))
        session = await opened(app, ALICE)
        for method, body in (("POST", call("who")), ("GET", None), ("DELETE", None)):
            stolen = await ask(app, method, body=body, accept="*/*", **bearer(BOB, mcp_session_id=session))
            made_up = await ask(app, method, body=body, accept="*/*", **bearer(BOB, mcp_session_id="made-up"))
            assert (stolen.status, made_up.status) == (404, 404)
            assert stolen.body == made_up.body
        mine = await ask(app, body=call("who"), **bearer(ALICE, mcp_session_id=session))
        assert said(mine) == "alice"
        await app.drain()

    asyncio.run(test())


def test_a_session_does_not_stand_in_for_a_token(server: Server) -> None:
    """2025-11-25 basic/security: sessions must not be used for authentication."""

    async def test() -> None:
        app = server.asgi(sessions=True, auth=keys({"alice": ALICE}))
        session = await opened(app, ALICE)
        for method in ("POST", "GET", "DELETE"):
            answer = await ask(app, method, body=call("who"), mcp_session_id=session)
            assert answer.status == 401
        await app.drain()

    asyncio.run(test())


def test_a_token_opens_as_many_sessions_as_it_likes_and_each_is_its_own(server: Server) -> None:
    async def test() -> None:
        app = server.asgi(sessions=True, auth=keys({"alice": [ALICE, BOB]}))
        one, other = await opened(app, ALICE), await opened(app, ALICE)
        assert one != other
        # A caller's next token, after a refresh, goes on where the last one was.
        assert said(await ask(app, body=call("who"), **bearer(BOB, mcp_session_id=one))) == "alice"
        await app.drain()

    asyncio.run(test())


def test_scopes_are_those_of_the_token_that_comes_with_the_request(server: Server) -> None:
    """Step-up in a session: the next token of the same caller may do more, and one that may do less does less."""
    server.tool(name="write", scopes=["write"], blocking=False)(lambda: "written")

    async def test() -> None:
        auth = [keys({"alice": ALICE}), keys({"alice": BOB}, scopes=["write"])]
        app = server.asgi(sessions=True, auth=auth)
        session = await opened(app, ALICE)
        for token, status in ((ALICE, 403), (BOB, 200), (ALICE, 403)):
            answer = await ask(app, body=call("write"), **bearer(token, mcp_session_id=session))
            assert answer.status == status
            if status == 403:
                assert 'error="insufficient_scope"' in answer.headers["www-authenticate"]
                assert 'scope="write"' in answer.headers["www-authenticate"]
        await app.drain()

    asyncio.run(test())


def test_a_sealed_state_is_worth_nothing_to_another_principal(server: Server) -> None:
    """The seal binds it to who asked (connection.md section 7)."""
    app = server.asgi(auth=keys({"alice": ALICE, "bob": BOB}))
    headers = {"mcp_protocol_version": "2026-07-28", "mcp_method": "tools/call", "mcp_name": "question"}
    message: dict[str, Any] = call("question")
    message["params"]["_meta"] = META
    round_one = asked(app, body=message, **{**headers, "authorization": f"Bearer {ALICE}"}).json["result"]
    (key,) = round_one["inputRequests"]
    message["params"] |= {
        "requestState": round_one["requestState"],
        "inputResponses": {key: {"action": "accept", "content": {}}},
    }
    stolen = asked(app, body=message, **{**headers, "authorization": f"Bearer {BOB}"})
    assert stolen.json["error"]["code"] == -32602
    mine = asked(app, body=message, **{**headers, "authorization": f"Bearer {ALICE}"})
    assert mine.json["result"]["content"][0]["text"] == "alice: accept"


def test_a_token_is_asked_for_before_a_body_is_read(server: Server) -> None:
    """Nobody fills our memory, or finds out what is wrong with a message, without a token."""

    async def test() -> None:
        async def receive() -> Any:
            raise AssertionError("the body was read")

        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {
            "type": "http",
            "method": "POST",
            "path": "/mcp",
            "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
        }
        await server.asgi(auth=keys(ALICE))(scope, receive, send)
        assert sent[0]["status"] == 401

    asyncio.run(test())


def test_a_foreign_host_is_refused_before_its_token_is_looked_at(server: Server) -> None:
    """A page that rebinds a name must not learn whether a token is good."""
    app = server.asgi(auth=keys(ALICE))
    for token in (ALICE, "wrong-0123456789abcdef"):
        answer = asked(app, body=call("who"), host="evil.example", authorization=f"Bearer {token}")
        assert answer.status == 403
        assert "www-authenticate" not in answer.headers
