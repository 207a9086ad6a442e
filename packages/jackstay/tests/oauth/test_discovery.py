"""Discovery of the authorization server: the order of the URLs, and metadata that must be refused."""

from typing import Any

import pytest

from jackstay.errors import TransportError
from jackstay.oauth import AuthorizationError
from jackstay.oauth._discovery import discover
from scripted.oauth import Response, oauth_world

PRM = "/.well-known/oauth-protected-resource"
AS = "/.well-known/oauth-authorization-server"
OPENID = "/.well-known/openid-configuration"


async def test_the_metadata_url_of_the_challenge_is_tried_first() -> None:
    async with oauth_world() as world:
        world.server.prm_path = "/custom/metadata.json"
        world.server.publish(world.issuing.issuer, scopes_supported=["a"])
        found = await discover(world.client, world.server.endpoint, f"{world.server.url}/custom/metadata.json")
        assert world.server.paths() == ["/custom/metadata.json"]
        assert (found.resource, found.issuer) == (world.server.endpoint, world.issuing.issuer)
        assert found.scopes_supported == ("a",)
        assert not found.uses_default_endpoints


async def test_the_path_is_tried_before_the_origin() -> None:
    async with oauth_world() as world:
        await discover(world.client, world.server.endpoint)
        assert world.server.paths() == [f"{PRM}/mcp"]


async def test_the_origin_is_tried_last_and_its_resource_is_used_unchanged() -> None:
    """No slash is added to the resource."""
    async with oauth_world() as world:
        world.server.routes.clear()
        world.server.prm_path = PRM
        world.server.publish(world.issuing.issuer, resource=world.server.url)
        found = await discover(world.client, world.server.endpoint, f"{world.server.url}/gone")
        assert world.server.paths() == ["/gone", f"{PRM}/mcp", PRM]
        assert found.resource == world.server.url


async def test_the_metadata_urls_of_an_authorization_server_are_tried_in_order() -> None:
    for path, well_known, tried in (
        ("", AS, [AS]),
        ("", OPENID, [AS, OPENID]),
        ("/tenant1", f"{AS}/tenant1", [f"{AS}/tenant1"]),
        ("/tenant1", f"{OPENID}/tenant1", [f"{AS}/tenant1", f"{OPENID}/tenant1"]),
        (
            "/tenant1",
            f"/tenant1{OPENID}",
            [f"{AS}/tenant1", f"{OPENID}/tenant1", f"/tenant1{OPENID}"],
        ),
    ):
        async with oauth_world(path=path, well_known=well_known) as world:
            found = await discover(world.client, world.server.endpoint)
            assert world.issuing.paths() == tried
            assert found.issuer == world.issuing.issuer


@pytest.mark.parametrize("has_metadata", [True, False])
async def test_a_server_of_2025_03_26_is_its_own_authorization_server(has_metadata: bool) -> None:
    """Metadata at the root of the origin, else the default endpoints."""
    async with oauth_world() as world:
        world.issuing.routes["GET", "/mcp"] = lambda request: Response(401)
        if not has_metadata:
            del world.issuing.routes["GET", AS]
        found = await discover(world.client, f"{world.issuing.url}/mcp?x=1")
        assert world.issuing.paths()[:3] == [f"{PRM}/mcp", PRM, AS]
        assert found.resource == f"{world.issuing.url}/mcp"
        assert found.server.token_endpoint == f"{world.issuing.url}/token"
        assert found.server.authorization_endpoint == f"{world.issuing.url}/authorize"
        assert found.server.registration_endpoint == f"{world.issuing.url}/register"
        assert found.uses_default_endpoints is not has_metadata


async def test_a_derived_issuer_may_end_with_a_slash() -> None:
    async with oauth_world() as world:
        world.issuing.overrides["issuer"] = f"{world.issuing.url}/"
        found = await discover(world.client, f"{world.issuing.url}/mcp")
        assert found.issuer == f"{world.issuing.url}/"


async def test_metadata_for_another_resource_is_not_used() -> None:
    """RFC 9728, 3.3."""
    for resource in (
        "https://evil.example/mcp",
        "http://127.0.0.1:1/mcp",
        "{url}/other",
        "{url}/mc",
        "{url}/mcp/below",
        "{url}/mcp#part",
        "nonsense",
        "",
    ):
        async with oauth_world() as world:
            world.server.publish(world.issuing.issuer, resource=resource.format(url=world.server.url))
            with pytest.raises(AuthorizationError, match="another resource"):
                await discover(world.client, world.server.endpoint)
            assert world.issuing.requests == []


async def test_metadata_of_another_issuer_is_not_used() -> None:
    """RFC 8414, 3.3: the issuer must be identical, and no other URL is tried."""
    for issuer in ("https://evil.example", "{url}/", "{url}/other", ""):
        async with oauth_world() as world:
            world.issuing.overrides["issuer"] = issuer.format(url=world.issuing.url)
            with pytest.raises(AuthorizationError, match="another issuer"):
                await discover(world.client, world.server.endpoint)
            assert world.issuing.paths() == [AS]


async def test_the_configured_issuer_is_preferred_among_several() -> None:
    async with oauth_world() as world:
        listed = ["https://first.example", world.issuing.issuer]
        world.server.publish("", authorization_servers=listed)
        found = await discover(world.client, world.server.endpoint, issuer=world.issuing.issuer)
        assert found.issuer == world.issuing.issuer


@pytest.mark.parametrize("listed", [None, []])
async def test_metadata_without_authorization_servers_is_an_error(listed: Any) -> None:
    async with oauth_world() as world:
        world.server.publish("", authorization_servers=listed)
        with pytest.raises(AuthorizationError, match="metadata has no authorization_servers"):
            await discover(world.client, world.server.endpoint)


async def test_an_authorization_server_that_was_named_must_have_metadata() -> None:
    async with oauth_world() as world:
        world.issuing.routes.clear()
        with pytest.raises(AuthorizationError, match="no authorization server metadata found"):
            await discover(world.client, world.server.endpoint)


async def test_a_forbidden_endpoint_is_refused_before_a_request() -> None:
    for endpoint, url in (
        ("authorization_endpoint", "javascript:alert(1)"),
        ("authorization_endpoint", "file:///etc/passwd"),
        ("authorization_endpoint", "http://evil.example/authorize"),
        ("token_endpoint", "http://169.254.169.254/latest"),
        ("token_endpoint", "https://me@evil.example/token"),
        ("registration_endpoint", "http://evil.example/register"),
    ):
        async with oauth_world() as world:
            world.issuing.overrides[endpoint] = url
            with pytest.raises(AuthorizationError, match=endpoint):
                await discover(world.client, world.server.endpoint)


async def test_a_forbidden_metadata_url_is_not_requested() -> None:
    async with oauth_world() as world:
        for url in ("http://evil.example/x", "file:///x", "//evil", "https://169.254.169.254/x"):
            with pytest.raises(AuthorizationError, match="resource_metadata"):
                await discover(world.client, world.server.endpoint, url)
        assert world.client.sent == []


async def test_a_remote_server_without_tls_gets_no_token() -> None:
    async with oauth_world() as world:
        with pytest.raises(AuthorizationError, match="must be https"):
            await discover(world.client, "http://example.org/mcp")
        assert world.client.sent == []


async def test_replies_that_are_not_the_document_are_skipped() -> None:
    for response in (
        Response(404),
        Response(401),
        Response(200, b"<!doctype html>", {"Content-Type": "text/html"}),
        Response(302, headers={"Location": "https://login.example/"}),
        Response(302, headers={"Location": ":// \x7f"}),
        Response(302),
        Response(200, b""),
    ):
        async with oauth_world() as world:
            world.server.prm_path = PRM
            world.server.publish(world.issuing.issuer)
            world.server.routes["GET", f"{PRM}/mcp"] = lambda request, response=response: response
            found = await discover(world.client, world.server.endpoint)
            assert found.issuer == world.issuing.issuer
            assert len(world.server.requests) == 2


async def test_a_redirect_on_the_same_origin_is_followed() -> None:
    async with oauth_world() as world:
        document = world.server.routes["GET", f"{PRM}/mcp"]
        world.server.routes["GET", f"{PRM}/mcp"] = lambda request: Response(307, headers={"Location": "/moved"})
        world.server.routes["GET", "/moved"] = document
        assert (await discover(world.client, world.server.endpoint)).issuer == world.issuing.issuer


async def test_a_redirect_to_another_origin_is_never_followed() -> None:
    async with oauth_world() as world, oauth_world() as other:
        target = f"{other.server.url}{PRM}/mcp"
        world.server.routes["GET", f"{PRM}/mcp"] = lambda request: Response(302, headers={"Location": target})
        assert (await discover(world.client, world.server.endpoint)).uses_default_endpoints
        assert other.server.requests == []


async def test_circular_redirects_end() -> None:
    async with oauth_world() as world:
        path = f"{PRM}/mcp"
        world.server.routes["GET", path] = lambda request: Response(302, headers={"Location": path})
        assert (await discover(world.client, world.server.endpoint)).uses_default_endpoints
        assert world.server.paths().count(path) == 4


@pytest.mark.parametrize("status", [500, 503])
async def test_a_busy_metadata_url_ends_the_discovery(status: int) -> None:
    async with oauth_world() as world:
        world.server.routes["GET", f"{PRM}/mcp"] = lambda request: Response(status)
        with pytest.raises(TransportError, match=f"HTTP {status}") as caught:
            await discover(world.client, world.server.endpoint)
        assert caught.value.permanent is False
        assert len(world.server.requests) == 1


async def test_invalid_metadata_is_an_error_that_names_its_url() -> None:
    for body in (
        b"{",
        b'{"resource": 1}',
        b"{}",
        b'{"resource": "x", "authorization_servers": "y"}',
        b'{"resource": "\xff"}',
        b"{" * 100_000,
    ):
        response = Response(200, body, {"Content-Type": "application/json"})
        async with oauth_world() as world:
            world.server.routes["GET", f"{PRM}/mcp"] = lambda request, response=response: response
            with pytest.raises(AuthorizationError, match=f"{PRM}/mcp is invalid"):
                await discover(world.client, world.server.endpoint)
