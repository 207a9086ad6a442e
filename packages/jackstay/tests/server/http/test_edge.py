"""What stands before an endpoint, through the whole app: health, metadata, preflights, tokens, scopes."""

import asyncio
from typing import Any

import pytest

from jackstay.client import connect
from jackstay.errors import UsageError
from jackstay.server import Context, InsufficientScopeError, Server
from jackstay.server.http import BearerAuth, Principal, keys
from jackstay.server.http._edge import make_access
from jackstay.transport import memory_pair
from peers.asgi import asked
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


def test_health_is_there_on_request_only(server: Server) -> None:
    assert asked(server.asgi(), "GET", "/health").status == 404
    answer = asked(server.asgi(health=True), "GET", "/health")
    assert answer.status == 200
    assert answer.json == {"status": "ok", "name": "demo", "version": "1.2", "connections": 0, "sessions": 0}
    assert answer.headers["cache-control"] == "no-store"
    assert asked(server.asgi(health="/alive"), "HEAD", "/alive").status == 200


def test_health_needs_no_token_and_no_name(server: Server) -> None:
    app = server.asgi(health=True, auth=keys(ALICE))
    assert asked(app, "GET", "/health", host="10.0.0.7:8000").status == 200
    for foreign in ({"host": "evil.example"}, {"host": "10.0.0.7"}, {"origin": "http://evil.example"}):
        answer = asked(app, "GET", "/health", **foreign)
        assert (answer.status, answer.json) == (200, {"status": "ok"}), (
            "a page could read it by DNS rebinding"
        )
    assert asked(app, "POST", "/health", body={}).status == 404


def test_health_is_503_while_draining(server: Server) -> None:
    app = server.asgi(health=True)
    app.refuse_new()
    answer = asked(app, "GET", "/health")
    assert (answer.status, answer.json["status"]) == (503, "draining")


def test_health_must_be_a_path(server: Server) -> None:
    for options in ({"health": "health"}, {"health": "/mcp"}, {"health": True, "path": "/health"}):
        with pytest.raises(UsageError, match="health must be a path of its own"):
            server.asgi(**options)


# --- CORS -------------------------------------------------------------------------------------------------------------


def test_without_cors_nothing_is_said_to_pages(server: Server) -> None:
    answer = asked(server.asgi(), body=call("who"), origin="http://localhost:3000")
    assert answer.status == 200
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_a_page_that_may_read_may_call(server: Server) -> None:
    app = server.asgi(cors=[PAGE])
    answer = asked(app, body=call("who"), origin=PAGE)
    assert answer.status == 200
    assert answer.headers["access-control-allow-origin"] == PAGE
    refused = asked(app, body=call("who"), origin="https://evil.example")
    assert refused.status == 403
    assert "access-control-allow-origin" not in refused.headers


def test_a_page_can_read_a_refusal_too(server: Server) -> None:
    """Otherwise a client in a browser could not find out where tokens are got."""
    answer = asked(server.asgi(cors=[PAGE], auth=keys(ALICE)), body=call("who"), origin=PAGE)
    assert answer.status == 401
    assert answer.headers["access-control-allow-origin"] == PAGE
    assert "WWW-Authenticate" in answer.headers["access-control-expose-headers"]


def test_a_preflight_is_answered_without_a_token(server: Server) -> None:
    app = server.asgi(cors=[PAGE], auth=keys(ALICE))
    wanted = {"access_control_request_method": "POST", "access_control_request_headers": "authorization"}
    answer = asked(app, "OPTIONS", origin=PAGE, **wanted)
    assert (answer.status, answer.body) == (204, b"")
    assert answer.headers["access-control-allow-headers"] == "authorization"
    assert asked(app, "OPTIONS", origin="https://evil.example", **wanted).status == 403


def test_pages_of_the_allowed_hosts_still_may_call(server: Server) -> None:
    app = server.asgi(cors=[PAGE])
    assert asked(app, body=call("who"), origin="http://localhost:3000").status == 200
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


@pytest.mark.parametrize("path", [WELL_KNOWN, f"{WELL_KNOWN}/mcp"])
def test_metadata_is_public_and_any_page_may_read_it(server: Server, oauth: BearerAuth, path: str) -> None:
    answer = asked(server.asgi(auth=oauth), "GET", path, host="mcp.example.com")
    assert answer.status == 200
    assert answer.json["resource"] == "https://mcp.example.com/mcp"
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["access-control-allow-origin"] == "*"


def test_metadata_is_found_below_a_mount_too(server: Server, oauth: BearerAuth) -> None:
    assert asked(server.asgi(auth=oauth), "GET", WELL_KNOWN, root="/app").status == 200


def test_what_tokens_are_for_must_be_said(server: Server) -> None:
    auth = BearerAuth(keys(ALICE), authorization_servers=["https://auth.example.com"])
    with pytest.raises(UsageError, match="resource"):
        server.asgi(auth=auth)


def test_it_says_what_is_before_the_endpoint(server: Server, oauth: BearerAuth) -> None:
    shown = repr(server.asgi(auth=oauth, cors=[PAGE], health=True)._edge)
    assert PAGE in shown
    assert "/health" in shown
    assert server.asgi()._edge is None


def test_other_paths_have_no_metadata(server: Server, oauth: BearerAuth) -> None:
    assert asked(server.asgi(auth=oauth), "GET", f"{WELL_KNOWN}/other").status == 404
    assert asked(server.asgi(auth=keys(ALICE)), "GET", WELL_KNOWN).status == 404


# --- tokens -----------------------------------------------------------------------------------------------------------


def test_a_token_is_needed_and_the_refusal_says_where_it_is_got(server: Server, oauth: BearerAuth) -> None:
    answer = asked(server.asgi(auth=oauth), body=call("who"))
    assert answer.status == 401
    assert (
        f'resource_metadata="https://mcp.example.com{WELL_KNOWN}/mcp"' in answer.headers["www-authenticate"]
    )
    assert "error=" not in answer.headers["www-authenticate"]
    assert answer.json["error"]["code"] == -32600


def test_a_handler_knows_its_caller(server: Server, oauth: BearerAuth) -> None:
    answer = asked(server.asgi(auth=oauth), body=call("who"), authorization=f"Bearer {ALICE}")
    assert answer.json["result"]["content"][0]["text"] == "alice ['mcp'] {}"


def test_claims_reach_the_handler(server: Server) -> None:
    class Verifier:
        async def verify(self, token: str) -> Principal | None:
            return Principal("carol", claims={"sub": token})

    answer = asked(server.asgi(auth=Verifier()), body=call("who"), authorization="Bearer x")
    assert answer.json["result"]["content"][0]["text"] == "carol [] {'sub': 'x'}"


def test_every_verb_needs_a_token(server: Server) -> None:
    for method in ("GET", "POST", "DELETE"):
        assert asked(server.asgi(auth=keys(ALICE)), method, body={}).status == 401


# --- scopes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("tool", "scope"), [("write", "files:write mcp"), ("decide", "admin mcp")])
def test_a_tool_may_need_scopes_and_the_refusal_names_all(
    server: Server, oauth: BearerAuth, tool: str, scope: str
) -> None:
    """protocol.md section 9: 403 `insufficient_scope` with all scopes for the operation; in both eras."""
    app = server.asgi(auth=oauth)
    body, headers = stateless(tool)
    for given in ({"body": call(tool)}, {"body": body, **headers}):
        answer = asked(app, authorization=f"Bearer {ALICE}", **given)
        assert answer.status == 403
        assert 'error="insufficient_scope"' in answer.headers["www-authenticate"]
        assert f'scope="{scope}"' in answer.headers["www-authenticate"]
        assert answer.json["error"]["data"]["reason"] == "insufficient_scope"
        assert answer.json["id"] == 1
    assert asked(app, body=call(tool), authorization=f"Bearer {BOB}").status == 200


def test_without_authentication_nobody_has_scopes(server: Server) -> None:
    """Closed rather than open: who forgets `auth` must not open what needs a scope."""
    assert asked(server.asgi(), body=call("write")).status == 403


def test_where_there_are_no_scopes_a_tool_does_not_ask_for_them(server: Server) -> None:
    """Over stdio and memory a client is trusted as the process is (protocol.md section 9: stdio uses environment)."""

    async def test() -> None:
        pair = memory_pair()
        serving = asyncio.create_task(server.serve(pair.server))
        async with connect(pair.client) as client:
            result = await client.tools.call("write")
        assert not result.is_error
        await serving

    asyncio.run(test())


def test_a_middleware_may_refuse_for_scopes(server: Server, oauth: BearerAuth) -> None:
    async def only_admins(context: Context, next: Any) -> bytes:
        if "admin" not in context.scopes:
            raise InsufficientScopeError("admin")
        result: bytes = await next()
        return result

    server.add_middleware(only_admins)
    app = server.asgi(auth=oauth)
    answer = asked(app, body=call("who"), authorization=f"Bearer {ALICE}")
    assert (answer.status, 'scope="admin mcp"' in answer.headers["www-authenticate"]) == (403, True)
    assert asked(app, body=call("who"), authorization=f"Bearer {BOB}").status == 200


def test_what_cannot_be_a_scope_is_refused_at_registration(server: Server) -> None:
    with pytest.raises(UsageError, match="not a scope"):
        server.tool(name="x", scopes=['"'])(lambda: None)
