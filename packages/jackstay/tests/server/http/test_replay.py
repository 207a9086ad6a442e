"""Sessions, sealed request states and tokens are bound to their caller, also if another one presents them."""

import json
from typing import Any

import pytest

from jackstay.server import Context, Server
from jackstay.server.http import App, keys
from peers.asgi import request_app, request_app_sync
from peers.http_process import META, HttpReply, call

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
    answer = await request_app(app, body=INITIALIZE, **bearer(token))
    assert answer.status == 200
    return answer.headers["mcp-session-id"]


def tool_text(answer: HttpReply) -> str:
    """Return the text of a tool result, sent as JSON or as an event of a stream."""
    body = answer.body
    if answer.headers["content-type"] == "text/event-stream":
        body = next(line[5:] for line in body.splitlines() if line.startswith(b"data:") and b"result" in line)
    text: str = json.loads(body)["result"]["content"][0]["text"]
    return text


async def test_a_session_is_unknown_to_every_other_principal(server: Server) -> None:
    """404, as for an unknown session: another caller must not learn whether an id exists."""
    app = server.asgi(sessions=True, auth=keys({"alice": ALICE, "bob": BOB}))
    session = await opened(app, ALICE)
    for method, body in (("POST", call("who")), ("GET", None), ("DELETE", None)):
        stolen = await request_app(app, method, body=body, accept="*/*", **bearer(BOB, mcp_session_id=session))
        made_up = await request_app(app, method, body=body, accept="*/*", **bearer(BOB, mcp_session_id="made-up"))
        assert (stolen.status, made_up.status) == (404, 404)
        assert stolen.body == made_up.body
    own = await request_app(app, body=call("who"), **bearer(ALICE, mcp_session_id=session))
    assert tool_text(own) == "alice"
    await app.drain()


async def test_a_session_id_does_not_replace_a_token(server: Server) -> None:
    """2025-11-25 basic/security: sessions must not be used for authentication."""
    app = server.asgi(sessions=True, auth=keys({"alice": ALICE}))
    session = await opened(app, ALICE)
    for method in ("POST", "GET", "DELETE"):
        answer = await request_app(app, method, body=call("who"), mcp_session_id=session)
        assert answer.status == 401
    await app.drain()


async def test_a_principal_can_open_several_sessions_and_use_them_with_a_new_token(server: Server) -> None:
    app = server.asgi(sessions=True, auth=keys({"alice": [ALICE, BOB]}))
    first, second = await opened(app, ALICE), await opened(app, ALICE)
    assert first != second
    # After a refresh the same caller has another token.
    assert tool_text(await request_app(app, body=call("who"), **bearer(BOB, mcp_session_id=first))) == "alice"
    await app.drain()


async def test_scopes_are_those_of_the_token_of_the_request(server: Server) -> None:
    """Step-up authorization within a session: another token of the same caller may have more or fewer scopes."""
    server.tool(name="write", scopes=["write"], blocking=False)(lambda: "written")

    auth = [keys({"alice": ALICE}), keys({"alice": BOB}, scopes=["write"])]
    app = server.asgi(sessions=True, auth=auth)
    session = await opened(app, ALICE)
    for token, status in ((ALICE, 403), (BOB, 200), (ALICE, 403)):
        answer = await request_app(app, body=call("write"), **bearer(token, mcp_session_id=session))
        assert answer.status == status
        if status == 403:
            assert 'error="insufficient_scope"' in answer.headers["www-authenticate"]
            assert 'scope="write"' in answer.headers["www-authenticate"]
    await app.drain()


def test_a_sealed_state_is_refused_for_another_principal(server: Server) -> None:
    """The seal binds the state to its principal."""
    app = server.asgi(auth=keys({"alice": ALICE, "bob": BOB}))
    headers = {"mcp_protocol_version": "2026-07-28", "mcp_method": "tools/call", "mcp_name": "question"}
    message: dict[str, Any] = call("question")
    message["params"]["_meta"] = META
    first_round = request_app_sync(app, body=message, **{**headers, "authorization": f"Bearer {ALICE}"}).json["result"]
    (key,) = first_round["inputRequests"]
    message["params"] |= {
        "requestState": first_round["requestState"],
        "inputResponses": {key: {"action": "accept", "content": {}}},
    }
    stolen = request_app_sync(app, body=message, **{**headers, "authorization": f"Bearer {BOB}"})
    assert stolen.json["error"]["code"] == -32602
    own = request_app_sync(app, body=message, **{**headers, "authorization": f"Bearer {ALICE}"})
    assert own.json["result"]["content"][0]["text"] == "alice: accept"


async def test_the_token_is_checked_before_the_body_is_read(server: Server) -> None:
    """Without a token a client can neither fill the memory nor probe the parser."""

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


def test_a_foreign_host_is_refused_before_its_token_is_checked(server: Server) -> None:
    """A page that uses DNS rebinding must not learn whether a token is valid."""
    app = server.asgi(auth=keys(ALICE))
    for token in (ALICE, "wrong-0123456789abcdef"):
        answer = request_app_sync(app, body=call("who"), host="evil.example", authorization=f"Bearer {token}")
        assert answer.status == 403
        assert "www-authenticate" not in answer.headers
