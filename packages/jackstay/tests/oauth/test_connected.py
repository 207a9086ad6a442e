"""A complete client over the real HTTP transport to servers that require tokens."""

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
from scripted.oauth import (
    REDIRECT_URI,
    AuthorizationSite,
    Browser,
    Clock,
    GuardedSite,
    Request,
    Response,
    response_for,
)


@contextlib.asynccontextmanager
async def environment() -> AsyncIterator[SimpleNamespace]:
    async with AuthorizationSite() as issuing, GuardedSite(issuing) as server:
        browser, clock = Browser(), Clock()
        auth = OAuth(redirect=browser, redirect_uri=REDIRECT_URI, clock=clock)
        yield SimpleNamespace(issuing=issuing, server=server, browser=browser, clock=clock, auth=auth)


def client_of(env: SimpleNamespace, url: str = "", **settings: Any) -> Client:
    return connect(http(url or env.server.endpoint, auth=env.auth), max_attempts=1, **settings)


async def test_connecting_signs_in_once_and_every_request_has_the_token() -> None:
    async with environment() as env, client_of(env) as client:
        result = await client.tools.call("read")
        assert result.text == "done"
        assert len(env.browser.visits) == 1
        assert env.browser.query()["scope"] == "read"
        tokens = [env.server.token_of(request) for request in env.server.got("POST", "/mcp")]
        assert tokens[0] == ""
        assert set(tokens[1:]) <= set(env.issuing.access_tokens)


async def test_a_tool_that_requires_more_scopes_runs_once() -> None:
    async with environment() as env, client_of(env) as client:
        assert (await client.tools.call("write")).text == "done"
        assert env.browser.query()["scope"] == "read write"
        assert (await client.tools.call("read")).text == "done"
        assert len(env.browser.visits) == 2


async def test_concurrent_calls_that_require_different_scopes_succeed() -> None:
    async with environment() as env, client_of(env) as client:
        env.server.required_scopes |= {"sail": "sail", "row": "row"}
        results = await asyncio.gather(*(client.tools.call(name) for name in ("write", "sail", "row", "write")))
        assert [result.text for result in results] == ["done"] * 4
        assert len(env.browser.visits) == 4


async def test_a_call_may_need_a_refresh_and_more_scopes() -> None:
    """A 401 and then a 403 for one request."""
    async with environment() as env, client_of(env) as client:
        env.server.revoked |= set(env.issuing.access_tokens)
        assert (await client.tools.call("write")).text == "done"
        assert env.browser.query()["scope"] == "read write"


async def test_many_calls_with_a_revoked_token_cause_one_refresh_and_all_succeed() -> None:
    async with environment() as env, client_of(env) as client:
        env.server.revoked |= set(env.issuing.access_tokens)
        results = await asyncio.gather(*(client.tools.call("read") for _ in range(20)))
        assert [result.text for result in results] == ["done"] * 20
        grants = [request.form["grant_type"] for request in env.issuing.got("POST", "/token")]
        assert grants == ["authorization_code", "refresh_token"]


async def test_two_clients_with_one_authorizer_sign_in_once() -> None:
    async with environment() as env:
        async with contextlib.AsyncExitStack() as stack:
            clients = [client_of(env) for _ in range(5)]
            await asyncio.gather(*(stack.enter_async_context(client) for client in clients))
            await asyncio.gather(*(client.ping() for client in clients))
        assert len(env.browser.visits) == 1


async def test_a_call_that_is_always_rejected_fails_and_did_not_run() -> None:
    async with environment() as env, client_of(env) as client:
        env.server.rejects_all = True
        env.issuing.refresh_tokens.clear()
        with pytest.raises(AuthorizationError, match="just issued") as caught:
            await client.tools.call("read")
        assert caught.value.may_have_run is False
        assert len(env.browser.visits) == 1


async def test_an_authorization_error_is_raised_by_open() -> None:
    async with environment() as env:
        env.issuing.iss = "other"
        with pytest.raises(McpError, match="wrong iss"):
            async with client_of(env):
                pass
        assert env.issuing.got("POST", "/token") == []


async def test_a_server_of_2024_11_05_is_called_at_its_endpoint_with_the_token_of_its_url() -> None:
    """The endpoint is another path of the same server and gets the same token."""
    async with environment() as env:
        server, stream = env.server, asyncio.Queue[bytes]()

        def listen(request: Request) -> Response:
            stream.put_nowait(b"event: endpoint\ndata: /messages?session=1\n\n")
            return server.refusal(request) or Response(headers={"Content-Type": "text/event-stream"}, stream=stream)

        def message(request: Request) -> Response:
            answer = response_for(request.json)
            if answer is not None and "result" in answer and "protocolVersion" in answer["result"]:
                answer["result"]["protocolVersion"] = "2024-11-05"
            if answer is not None:
                stream.put_nowait(b"data: " + json.dumps(answer).encode() + b"\n\n")
            return server.refusal(request) or Response(202)

        server.prm_path = "/.well-known/oauth-protected-resource/sse"
        server.publish(env.issuing.issuer, resource=f"{server.url}/sse")
        server.routes["GET", "/sse"] = listen
        server.routes["POST", "/sse"] = lambda request: server.refusal(request) or Response(405)
        server.routes["POST", "/messages"] = message
        async with client_of(env, f"{server.url}/sse") as client:
            assert (await client.tools.call("read")).text == "done"
        assert len(env.browser.visits) == 1
        assert all(server.token_of(request) for request in server.got("POST", "/messages"))


class Introspection:
    """The token verifier of the server."""

    def __init__(self, issuing: AuthorizationSite) -> None:
        self._issuing = issuing

    async def verify(self, token: str) -> Principal | None:
        scopes = self._issuing.access_tokens.get(token)
        return None if scopes is None else Principal("alice", frozenset(scopes))


@contextlib.asynccontextmanager
async def jackstay_server(issuing: AuthorizationSite) -> AsyncIterator[str]:
    """Run a jackstay server with bearer authorization on uvicorn; yields its URL."""
    server = Server("guarded", version="1")

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
        running = uvicorn.Server(uvicorn.Config(server.asgi(auth=guard), lifespan="on", ws="none", log_config=None))
        task = asyncio.create_task(running._serve([listening]))
        while not running.started:
            await asyncio.sleep(0.005)
        yield url
        running.should_exit = True
        await task


@pytest.mark.parametrize("version", ["2026-07-28", "2025-11-25", "2025-03-26"])
async def test_the_client_works_with_the_jackstay_server(version: str) -> None:
    """Challenge, metadata and scopes of a single tool."""
    async with environment() as env, jackstay_server(env.issuing) as url:
        async with client_of(env, url, versions=(version,)) as client:
            assert (await client.tools.call("read")).text == "read"
            assert (await client.tools.call("write")).text == "written"
        assert [env.browser.query(visit)["scope"] for visit in (0, 1)] == ["read", "read write"]
        assert len(env.browser.visits) == 2
