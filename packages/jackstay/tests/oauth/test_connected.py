"""A whole client, over the real HTTP transport, to servers that want tokens: what its calls see of all this."""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
import uvicorn

from jackstay import Client, McpError, Server, connect, http
from jackstay.oauth import AuthorizationError, OAuth
from jackstay.server.http import BearerAuth, Principal
from scripted.loop import timed
from scripted.oauth import (
    REDIRECT_URI,
    AuthorizationSite,
    Browser,
    Clock,
    GuardedSite,
    Request,
    Response,
    answer_to,
)


@contextlib.asynccontextmanager
async def a_harbour() -> AsyncIterator[SimpleNamespace]:
    async with AuthorizationSite() as issuing, GuardedSite(issuing) as server:
        browser, clock = Browser(), Clock()
        auth = OAuth(redirect=browser, redirect_uri=REDIRECT_URI, clock=clock)
        yield SimpleNamespace(issuing=issuing, server=server, browser=browser, clock=clock, auth=auth)


def client_of(harbour: SimpleNamespace, url: str = "", **settings: Any) -> Client:
    return connect(http(url or harbour.server.endpoint, auth=harbour.auth), max_attempts=1, **settings)


@timed
async def test_connecting_signs_in_once_and_every_request_has_the_token() -> None:
    async with a_harbour() as harbour, client_of(harbour) as client:
        result = await client.tools.call("read")
        assert result.text == "done"
        assert len(harbour.browser.visits) == 1
        assert harbour.browser.query()["scope"] == "read"
        tokens = [harbour.server.token_of(request) for request in harbour.server.got("POST", "/mcp")]
        assert tokens[0] == ""
        assert set(tokens[1:]) <= set(harbour.issuing.access_tokens)


@timed
async def test_a_tool_that_wants_more_gets_it_and_runs_once() -> None:
    async with a_harbour() as harbour, client_of(harbour) as client:
        assert (await client.tools.call("write")).text == "done"
        assert harbour.browser.query()["scope"] == "read write"
        assert (await client.tools.call("read")).text == "done"
        assert len(harbour.browser.visits) == 2


@timed
async def test_tools_that_want_different_scopes_at_once_all_get_them() -> None:
    async with a_harbour() as harbour, client_of(harbour) as client:
        harbour.server.wants |= {"sail": "sail", "row": "row"}
        results = await asyncio.gather(
            *(client.tools.call(name) for name in ("write", "sail", "row", "write"))
        )
        assert [result.text for result in results] == ["done"] * 4
        assert len(harbour.browser.visits) == 4


@timed
async def test_a_call_may_need_a_refresh_and_more_scopes() -> None:
    """A 401 and then a 403 for one request: each is asked about once."""
    async with a_harbour() as harbour, client_of(harbour) as client:
        harbour.server.revoked |= set(harbour.issuing.access_tokens)
        assert (await client.tools.call("write")).text == "done"
        assert harbour.browser.query()["scope"] == "read write"


@timed
async def test_many_calls_with_a_revoked_token_cause_one_refresh_and_all_succeed() -> None:
    async with a_harbour() as harbour, client_of(harbour) as client:
        harbour.server.revoked |= set(harbour.issuing.access_tokens)
        results = await asyncio.gather(*(client.tools.call("read") for _ in range(20)))
        assert [result.text for result in results] == ["done"] * 20
        grants = [request.form["grant_type"] for request in harbour.issuing.got("POST", "/token")]
        assert grants == ["authorization_code", "refresh_token"]


@timed
async def test_two_clients_with_one_authorizer_sign_in_once() -> None:
    async with a_harbour() as harbour:
        async with contextlib.AsyncExitStack() as stack:
            clients = [client_of(harbour) for _ in range(5)]
            await asyncio.gather(*(stack.enter_async_context(client) for client in clients))
            await asyncio.gather(*(client.ping() for client in clients))
        assert len(harbour.browser.visits) == 1


@timed
async def test_a_call_that_is_refused_whatever_it_brings_ends_and_did_not_run() -> None:
    async with a_harbour() as harbour, client_of(harbour) as client:
        harbour.server.refuses_all = True
        harbour.issuing.refresh_tokens.clear()
        with pytest.raises(AuthorizationError, match="has just given") as caught:
            await client.tools.call("read")
        assert caught.value.may_have_run is False
        assert len(harbour.browser.visits) == 1


@timed
async def test_what_an_authorization_server_broke_is_what_connecting_says() -> None:
    async with a_harbour() as harbour:
        harbour.issuing.iss = "other"
        with pytest.raises(McpError, match="by another issuer"):
            async with client_of(harbour):
                pass
        assert harbour.issuing.got("POST", "/token") == []


@timed
async def test_a_server_of_2024_11_05_is_called_at_its_endpoint_with_the_token_of_its_url() -> None:
    """The endpoint is another path of the same server, and its requests carry the same credentials."""
    async with a_harbour() as harbour:
        server, stream = harbour.server, asyncio.Queue[bytes]()

        def listen(request: Request) -> Response:
            stream.put_nowait(b"event: endpoint\ndata: /messages?session=1\n\n")
            return server.refusal(request) or Response(
                headers={"Content-Type": "text/event-stream"}, stream=stream
            )

        def message(request: Request) -> Response:
            answer = answer_to(request.json)
            if answer is not None and "result" in answer and "protocolVersion" in answer["result"]:
                answer["result"]["protocolVersion"] = "2024-11-05"
            if answer is not None:
                stream.put_nowait(b"data: " + json.dumps(answer).encode() + b"\n\n")
            return server.refusal(request) or Response(202)

        server.prm_path = "/.well-known/oauth-protected-resource/sse"
        server.publish(harbour.issuing.issuer, resource=f"{server.url}/sse")
        server.routes["GET", "/sse"] = listen
        server.routes["POST", "/sse"] = lambda request: server.refusal(request) or Response(405)
        server.routes["POST", "/messages"] = message
        async with client_of(harbour, f"{server.url}/sse") as client:
            assert (await client.tools.call("read")).text == "done"
        assert len(harbour.browser.visits) == 1
        assert all(server.token_of(request) for request in server.got("POST", "/messages"))


class Introspection:
    """Our server's side of it: whose token this is, and what it may do."""

    def __init__(self, issuing: AuthorizationSite) -> None:
        self._issuing = issuing

    async def verify(self, token: str) -> Principal | None:
        scopes = self._issuing.access_tokens.get(token)
        return None if scopes is None else Principal("alice", frozenset(scopes))


@contextlib.asynccontextmanager
async def our_own_server(issuing: AuthorizationSite) -> AsyncIterator[str]:
    """Our own server behind its own guard, on uvicorn: its URL."""
    server = Server("harbour", version="1")

    @server.tool
    async def read() -> str:
        return "read"

    @server.tool(scopes=["write"])
    async def write() -> str:
        return "written"

    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        guard = BearerAuth(
            Introspection(issuing), resource=url, authorization_servers=[issuing.issuer], scopes=["read"]
        )
        running = uvicorn.Server(
            uvicorn.Config(server.asgi(auth=guard), lifespan="on", ws="none", log_config=None)
        )
        task = asyncio.create_task(running._serve([listening]))
        while not running.started:
            await asyncio.sleep(0.005)
        yield url
        running.should_exit = True
        await task


@pytest.mark.parametrize("version", ["2026-07-28", "2025-11-25", "2025-03-26"])
@timed
async def test_our_own_server_says_all_that_our_own_client_needs(version: str) -> None:
    """Both sides of design "Authorization": challenge, metadata, scopes of a single tool."""
    async with a_harbour() as harbour, our_own_server(harbour.issuing) as url:
        async with client_of(harbour, url, versions=(version,)) as client:
            assert (await client.tools.call("read")).text == "read"
            assert (await client.tools.call("write")).text == "written"
        assert [harbour.browser.query(visit)["scope"] for visit in (0, 1)] == ["read", "read write"]
        assert len(harbour.browser.visits) == 2
