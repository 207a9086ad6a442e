"""The auxiliary routes of an app: health, metadata and preflights; and tokens and scopes."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from jackstay.client import connect
from jackstay.errors import Json, UsageError
from jackstay.server import Context, InsufficientScopeError, Server
from jackstay.server.http import BearerAuth, Principal, keys
from jackstay.server.http._auxiliary_routes import health_response, make_access
from jackstay.transport import memory_pair
from peers.asgi import request_app_sync
from peers.http_process import call

PAGE = "https://app.example.com"
ALICE, BOB = "alice-0123456789abcdef", "bob-0123456789abcdef"
WELL_KNOWN = "/.well-known/oauth-protected-resource"


def stateless(tool: str) -> tuple[dict[str, Any], dict[str, str]]:
    body = call(tool)
    body["params"]["_meta"] = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    return body, {"mcp_protocol_version": "2026-07-28", "mcp_method": "tools/call", "mcp_name": tool}


@pytest.fixture
def server() -> Server:
    server = Server("demo", version="1.2")

    @server.tool
    async def who(context: Context) -> str:
        return f"{context.principal} {sorted(context.scopes)} {dict(context.claims)}"

    @server.tool(scopes=["files:write"])
    async def write() -> str:
        return "written"

    @server.tool
    async def decide(context: Context) -> str:
        if "admin" not in context.scopes:
            raise InsufficientScopeError("admin")
        return "decided"

    return server


# --- health -----------------------------------------------------------------------------------------------------------


class Source:
    server = Server("demo", version="1.2")
    is_draining = False
    connections = 3
    sessions = 2
    backend: str | None = None


async def test_a_serving_endpoint_is_ok() -> None:
    status, body = await health_response(Source())
    assert status == 200
    assert json.loads(body) == {
        "status": "ok",
        "name": "demo",
        "version": "1.2",
        "connections": 3,
        "sessions": 2,
    }


async def test_the_backend_is_shown() -> None:
    source = Source()
    source.backend = "down"
    status, body = await health_response(source)
    assert (status, json.loads(body)["backend"]) == (200, "down")


async def test_a_draining_endpoint_is_503() -> None:
    source = Source()
    source.is_draining = True
    status, body = await health_response(source)
    assert (status, json.loads(body)["status"]) == (503, "draining")


async def test_the_status_depends_on_the_check(subtests: pytest.Subtests) -> None:
    for state, status in (("ok", 200), ("down", 503), ("unresponsive", 503)):
        with subtests.test(state=state, status=status):

            async def check(state: str = state) -> tuple[str, Mapping[str, Json]]:
                return state, {"servers": [state]}

            found, body = await health_response(Source(), check)
            health = json.loads(body)
            assert (found, health["status"], health["servers"], health["sessions"]) == (status, state, [state], 2)


def test_health_is_optional(server: Server) -> None:
    assert request_app_sync(server.asgi(), "GET", "/health").status == 404
    answer = request_app_sync(server.asgi(health=True), "GET", "/health")
    assert answer.status == 200
    assert answer.json == {"status": "ok", "name": "demo", "version": "1.2", "connections": 0, "sessions": 0}
    assert answer.headers["cache-control"] == "no-store"
    assert request_app_sync(server.asgi(health="/alive"), "HEAD", "/alive").status == 200


def test_health_needs_no_token_and_accepts_any_host(server: Server) -> None:
    app = server.asgi(health=True, auth=keys(ALICE))
    assert request_app_sync(app, "GET", "/health", host="10.0.0.7:8000").status == 200
    allowed = {"authorization": f"Bearer {ALICE}"}
    for headers in (
        {**allowed, "host": "evil.example"},  # a page could read it by DNS rebinding
        {**allowed, "host": "10.0.0.7"},
        {**allowed, "origin": "http://evil.example"},
        {},
        {"authorization": "Bearer wrong"},
    ):
        answer = request_app_sync(app, "GET", "/health", **headers)
        assert (answer.status, answer.json) == (200, {"status": "ok"}), headers
    assert request_app_sync(app, "GET", "/health", **allowed).json["name"] == "demo"
    assert request_app_sync(app, "POST", "/health", body={}).status == 404


def test_health_is_503_while_draining(server: Server) -> None:
    app = server.asgi(health=True)
    app.refuse_new()
    answer = request_app_sync(app, "GET", "/health")
    assert (answer.status, answer.json["status"]) == (503, "draining")


def test_health_must_be_a_path(server: Server) -> None:
    for options in ({"health": "health"}, {"health": "/mcp"}, {"health": True, "path": "/health"}):
        with pytest.raises(UsageError, match="health must"):
            server.asgi(**options)


# --- CORS -------------------------------------------------------------------------------------------------------------


def test_without_cors_there_are_no_cors_headers(server: Server) -> None:
    answer = request_app_sync(server.asgi(), body=call("who"), origin="http://localhost:3000")
    assert answer.status == 200
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_a_page_that_may_read_responses_may_send_requests(server: Server) -> None:
    app = server.asgi(cors=[PAGE])
    answer = request_app_sync(app, body=call("who"), origin=PAGE)
    assert answer.status == 200
    assert answer.headers["access-control-allow-origin"] == PAGE
    refused = request_app_sync(app, body=call("who"), origin="https://evil.example")
    assert refused.status == 403
    assert "access-control-allow-origin" not in refused.headers


def test_a_page_can_read_a_401(server: Server) -> None:
    """Otherwise a client in a browser could not find the authorization server."""
    answer = request_app_sync(server.asgi(cors=[PAGE], auth=keys(ALICE)), body=call("who"), origin=PAGE)
    assert answer.status == 401
    assert answer.headers["access-control-allow-origin"] == PAGE
    assert "WWW-Authenticate" in answer.headers["access-control-expose-headers"]


def test_a_preflight_needs_no_token(server: Server) -> None:
    app = server.asgi(cors=[PAGE], auth=keys(ALICE))
    requested = {"access_control_request_method": "POST", "access_control_request_headers": "authorization"}
    answer = request_app_sync(app, "OPTIONS", origin=PAGE, **requested)
    assert (answer.status, answer.body) == (204, b"")
    assert answer.headers["access-control-allow-headers"] == "authorization"
    assert request_app_sync(app, "OPTIONS", origin="https://evil.example", **requested).status == 403


def test_pages_of_the_allowed_hosts_may_still_send_requests(server: Server) -> None:
    app = server.asgi(cors=[PAGE])
    assert request_app_sync(app, body=call("who"), origin="http://localhost:3000").status == 200
    access = make_access(("a.example",), ("https://b.example",), None)
    assert access.origins == {"https://b.example"}


# --- metadata ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def oauth() -> BearerAuth:
    return BearerAuth(
        keys({"alice": ALICE}, scopes=["mcp"]),
        keys({"bob": BOB}, scopes=["mcp", "files:write", "admin"]),
        resource="https://mcp.example.com/mcp",
        authorization_servers=["https://auth.example.com"],
        scopes=["mcp"],
    )


def test_metadata_is_public_and_any_page_may_read_it(
    server: Server, oauth: BearerAuth, subtests: pytest.Subtests
) -> None:
    for path in (WELL_KNOWN, f"{WELL_KNOWN}/mcp"):
        with subtests.test(path=path):
            answer = request_app_sync(server.asgi(auth=oauth), "GET", path, host="mcp.example.com")
            assert answer.status == 200
            assert answer.json["resource"] == "https://mcp.example.com/mcp"
            assert answer.headers["content-type"] == "application/json"
            assert answer.headers["access-control-allow-origin"] == "*"


def test_metadata_is_served_below_a_mount(server: Server, oauth: BearerAuth) -> None:
    assert request_app_sync(server.asgi(auth=oauth), "GET", WELL_KNOWN, root="/app").status == 200


def test_authorization_servers_need_a_resource(server: Server) -> None:
    auth = BearerAuth(keys(ALICE), authorization_servers=["https://auth.example.com"])
    with pytest.raises(UsageError, match="resource"):
        server.asgi(auth=auth)


def test_repr_and_absence(server: Server, oauth: BearerAuth) -> None:
    text = repr(server.asgi(auth=oauth, cors=[PAGE], health=True)._auxiliary_routes)
    assert PAGE in text
    assert "/health" in text
    assert not server.asgi()._auxiliary_routes.is_enabled


def test_other_paths_have_no_metadata(server: Server, oauth: BearerAuth) -> None:
    assert request_app_sync(server.asgi(auth=oauth), "GET", f"{WELL_KNOWN}/other").status == 404
    assert request_app_sync(server.asgi(auth=keys(ALICE)), "GET", WELL_KNOWN).status == 404


# --- tokens -----------------------------------------------------------------------------------------------------------


def test_without_a_token_the_401_names_the_metadata(server: Server, oauth: BearerAuth) -> None:
    answer = request_app_sync(server.asgi(auth=oauth), body=call("who"))
    assert answer.status == 401
    assert f'resource_metadata="https://mcp.example.com{WELL_KNOWN}/mcp"' in answer.headers["www-authenticate"]
    assert "error=" not in answer.headers["www-authenticate"]
    assert answer.json["error"]["code"] == -32600


def test_the_principal_reaches_the_handler(server: Server, oauth: BearerAuth) -> None:
    answer = request_app_sync(server.asgi(auth=oauth), body=call("who"), authorization=f"Bearer {ALICE}")
    assert answer.json["result"]["content"][0]["text"] == "alice ['mcp'] {}"


def test_claims_reach_the_handler(server: Server) -> None:
    class Verifier:
        async def verify(self, token: str) -> Principal | None:
            return Principal("carol", claims={"sub": token})

    answer = request_app_sync(server.asgi(auth=Verifier()), body=call("who"), authorization="Bearer x")
    assert answer.json["result"]["content"][0]["text"] == "carol [] {'sub': 'x'}"


def test_every_method_needs_a_token(server: Server) -> None:
    for method in ("GET", "POST", "DELETE"):
        assert request_app_sync(server.asgi(auth=keys(ALICE)), method, body={}).status == 401


# --- scopes -----------------------------------------------------------------------------------------------------------


def test_a_tool_may_require_scopes_and_the_403_names_all(
    server: Server, oauth: BearerAuth, subtests: pytest.Subtests
) -> None:
    """In every revision: 403 `insufficient_scope` with all scopes of the operation (RFC 6750 section 3.1)."""
    for tool, scope in (("write", "files:write mcp"), ("decide", "admin mcp")):
        with subtests.test(tool=tool, scope=scope):
            app = server.asgi(auth=oauth)
            body, headers = stateless(tool)
            for given in ({"body": call(tool)}, {"body": body, **headers}):
                answer = request_app_sync(app, authorization=f"Bearer {ALICE}", **given)
                assert answer.status == 403
                assert 'error="insufficient_scope"' in answer.headers["www-authenticate"]
                assert f'scope="{scope}"' in answer.headers["www-authenticate"]
                assert answer.json["error"]["data"]["reason"] == "insufficient_scope"
                assert answer.json["id"] == 1
            assert request_app_sync(app, body=call(tool), authorization=f"Bearer {BOB}").status == 200


def test_without_authentication_a_tool_with_scopes_is_refused(server: Server) -> None:
    """Fail closed: forgetting `auth` must not make such a tool public."""
    assert request_app_sync(server.asgi(), body=call("write")).status == 403


async def test_without_http_scopes_are_not_checked(server: Server) -> None:
    """Over stdio and memory a client is as trusted as the process itself."""
    pair = memory_pair()
    serving = asyncio.create_task(server.serve(pair.server))
    async with connect(pair.client) as client:
        result = await client.tools.call("write")
    assert not result.is_error
    await serving


def test_middleware_may_raise_insufficient_scope(server: Server, oauth: BearerAuth) -> None:
    async def only_admins(context: Context, next: Any) -> bytes:
        if "admin" not in context.scopes:
            raise InsufficientScopeError("admin")
        result: bytes = await next()
        return result

    server.add_middleware(only_admins)
    app = server.asgi(auth=oauth)
    answer = request_app_sync(app, body=call("who"), authorization=f"Bearer {ALICE}")
    assert (answer.status, 'scope="admin mcp"' in answer.headers["www-authenticate"]) == (403, True)
    assert request_app_sync(app, body=call("who"), authorization=f"Bearer {BOB}").status == 200


def test_an_invalid_scope_is_refused_at_registration(server: Server) -> None:
    with pytest.raises(UsageError, match="invalid scope"):
        server.tool(name="x", scopes=['"'])(lambda: None)
