"""Who gives access: the places to look, in order, and the lies that are found out (C discovery)."""

from typing import Any

import pytest

from jackstay.errors import TransportError
from jackstay.oauth import AuthorizationError
from jackstay.oauth._discovery import discover
from scripted.loop import timed
from scripted.oauth import Response, a_world

PRM = "/.well-known/oauth-protected-resource"
AS = "/.well-known/oauth-authorization-server"
OPENID = "/.well-known/openid-configuration"


@timed
async def test_the_place_that_the_challenge_names_goes_first() -> None:
    async with a_world() as world:
        world.server.prm_path = "/custom/place.json"
        world.server.publish(world.issuing.issuer, scopes_supported=["a"])
        found = await discover(world.client, world.server.endpoint, f"{world.server.url}/custom/place.json")
        assert world.server.paths() == ["/custom/place.json"]
        assert (found.resource, found.issuer) == (world.server.endpoint, world.issuing.issuer)
        assert found.scopes_supported == ("a",)
        assert not found.is_guessed


@timed
async def test_the_path_goes_before_the_origin() -> None:
    async with a_world() as world:
        await discover(world.client, world.server.endpoint)
        assert world.server.paths() == [f"{PRM}/mcp"]


@timed
async def test_the_origin_is_the_last_place_and_its_resource_is_sent_as_it_is_spelled() -> None:
    """A document for the whole origin is the server's own, too; no slash is added to it."""
    async with a_world() as world:
        world.server.routes.clear()
        world.server.prm_path = PRM
        world.server.publish(world.issuing.issuer, resource=world.server.url)
        found = await discover(world.client, world.server.endpoint, f"{world.server.url}/gone")
        assert world.server.paths() == ["/gone", f"{PRM}/mcp", PRM]
        assert found.resource == world.server.url


@pytest.mark.parametrize(
    ("path", "well_known", "asked"),
    [
        ("", AS, [AS]),
        ("", OPENID, [AS, OPENID]),
        ("/tenant1", f"{AS}/tenant1", [f"{AS}/tenant1"]),
        ("/tenant1", f"{OPENID}/tenant1", [f"{AS}/tenant1", f"{OPENID}/tenant1"]),
        (
            "/tenant1",
            f"/tenant1{OPENID}",
            [f"{AS}/tenant1", f"{OPENID}/tenant1", f"/tenant1{OPENID}"],
        ),
    ],
)
@timed
async def test_the_places_of_an_authorization_server_are_asked_in_order(
    path: str, well_known: str, asked: list[str]
) -> None:
    async with a_world(path=path, well_known=well_known) as world:
        found = await discover(world.client, world.server.endpoint)
        assert world.issuing.paths() == asked
        assert found.issuer == world.issuing.issuer


@pytest.mark.parametrize("is_there", [True, False])
@timed
async def test_a_server_of_2025_03_26_is_its_own_authorization_server(is_there: bool) -> None:
    """Metadata at the root of the origin, else the default endpoints."""
    async with a_world() as world:
        world.issuing.routes["GET", "/mcp"] = lambda request: Response(401)
        if not is_there:
            del world.issuing.routes["GET", AS]
        found = await discover(world.client, f"{world.issuing.url}/mcp?x=1")
        assert world.issuing.paths()[:3] == [f"{PRM}/mcp", PRM, AS]
        assert found.resource == f"{world.issuing.url}/mcp"
        assert found.server.token_endpoint == f"{world.issuing.url}/token"
        assert found.server.authorization_endpoint == f"{world.issuing.url}/authorize"
        assert found.server.registration_endpoint == f"{world.issuing.url}/register"
        assert found.is_guessed is not is_there


@timed
async def test_a_slash_at_the_end_of_an_issuer_that_nobody_named_is_its_own_choice() -> None:
    async with a_world() as world:
        world.issuing.overrides["issuer"] = f"{world.issuing.url}/"
        found = await discover(world.client, f"{world.issuing.url}/mcp")
        assert found.issuer == f"{world.issuing.url}/"


@pytest.mark.parametrize(
    "resource",
    [
        "https://evil.example/mcp",
        "http://127.0.0.1:1/mcp",
        "{url}/other",
        "{url}/mc",
        "{url}/mcp/below",
        "{url}/mcp#part",
        "nonsense",
        "",
    ],
)
@timed
async def test_metadata_for_another_resource_is_not_used(resource: str) -> None:
    """RFC 9728, 3.3; conformance auth/resource-mismatch."""
    async with a_world() as world:
        world.server.publish(world.issuing.issuer, resource=resource.format(url=world.server.url))
        with pytest.raises(AuthorizationError, match="another resource"):
            await discover(world.client, world.server.endpoint)
        assert world.issuing.requests == []


@pytest.mark.parametrize("issuer", ["https://evil.example", "{url}/", "{url}/other", ""])
@timed
async def test_metadata_of_another_issuer_is_not_used(issuer: str) -> None:
    """RFC 8414, 3.3: identical, and the next place is not tried either."""
    async with a_world() as world:
        world.issuing.overrides["issuer"] = issuer.format(url=world.issuing.url)
        with pytest.raises(AuthorizationError, match="another issuer"):
            await discover(world.client, world.server.endpoint)
        assert world.issuing.paths() == [AS]


@timed
async def test_yours_is_chosen_where_the_server_names_several() -> None:
    async with a_world() as world:
        listed = ["https://first.example", world.issuing.issuer]
        world.server.publish("", authorization_servers=listed)
        found = await discover(world.client, world.server.endpoint, issuer=world.issuing.issuer)
        assert found.issuer == world.issuing.issuer


@pytest.mark.parametrize("listed", [None, []])
@timed
async def test_metadata_that_names_nobody_is_an_error(listed: Any) -> None:
    async with a_world() as world:
        world.server.publish("", authorization_servers=listed)
        with pytest.raises(AuthorizationError, match="names no authorization server"):
            await discover(world.client, world.server.endpoint)


@timed
async def test_an_authorization_server_that_was_named_must_have_metadata() -> None:
    async with a_world() as world:
        world.issuing.routes.clear()
        with pytest.raises(AuthorizationError, match="publishes no authorization server metadata"):
            await discover(world.client, world.server.endpoint)


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("authorization_endpoint", "javascript:alert(1)"),
        ("authorization_endpoint", "file:///etc/passwd"),
        ("authorization_endpoint", "http://evil.example/authorize"),
        ("token_endpoint", "http://169.254.169.254/latest"),
        ("token_endpoint", "https://me@evil.example/token"),
        ("registration_endpoint", "http://evil.example/register"),
    ],
)
@timed
async def test_an_endpoint_that_may_not_be_asked_is_found_before_it_is(endpoint: str, url: str) -> None:
    async with a_world() as world:
        world.issuing.overrides[endpoint] = url
        with pytest.raises(AuthorizationError, match=endpoint):
            await discover(world.client, world.server.endpoint)


@pytest.mark.parametrize(
    "named", ["http://evil.example/x", "file:///x", "//evil", "https://169.254.169.254/x"]
)
@timed
async def test_a_named_place_that_may_not_be_asked_is_not(named: str) -> None:
    async with a_world() as world:
        with pytest.raises(AuthorizationError, match="resource_metadata"):
            await discover(world.client, world.server.endpoint, named)
        assert world.client.sent == []


@timed
async def test_a_server_without_tls_that_is_not_here_gets_no_token() -> None:
    async with a_world() as world:
        with pytest.raises(AuthorizationError, match="must be https"):
            await discover(world.client, "http://example.org/mcp")
        assert world.client.sent == []


@pytest.mark.parametrize(
    "response",
    [
        Response(404),
        Response(401),
        Response(200, b"<!doctype html>", {"Content-Type": "text/html"}),
        Response(302, headers={"Location": "https://login.example/"}),
        Response(302, headers={"Location": ":// \x7f"}),
        Response(302),
        Response(200, b""),
    ],
)
@timed
async def test_what_is_surely_not_the_document_is_passed_over(response: Response) -> None:
    async with a_world() as world:
        world.server.prm_path = PRM
        world.server.publish(world.issuing.issuer)
        world.server.routes["GET", f"{PRM}/mcp"] = lambda request: response
        found = await discover(world.client, world.server.endpoint)
        assert found.issuer == world.issuing.issuer
        assert len(world.server.requests) == 2


@timed
async def test_a_redirect_on_the_same_origin_is_followed() -> None:
    async with a_world() as world:
        document = world.server.routes["GET", f"{PRM}/mcp"]
        world.server.routes["GET", f"{PRM}/mcp"] = lambda request: Response(
            307, headers={"Location": "/moved"}
        )
        world.server.routes["GET", "/moved"] = document
        assert (await discover(world.client, world.server.endpoint)).issuer == world.issuing.issuer


@timed
async def test_a_redirect_to_another_origin_is_never_followed() -> None:
    async with a_world() as world, a_world() as other:
        target = f"{other.server.url}{PRM}/mcp"
        world.server.routes["GET", f"{PRM}/mcp"] = lambda request: Response(302, headers={"Location": target})
        assert (await discover(world.client, world.server.endpoint)).is_guessed
        assert other.server.requests == []


@timed
async def test_a_circle_of_redirects_comes_to_an_end() -> None:
    async with a_world() as world:
        place = f"{PRM}/mcp"
        world.server.routes["GET", place] = lambda request: Response(302, headers={"Location": place})
        assert (await discover(world.client, world.server.endpoint)).is_guessed
        assert world.server.paths().count(place) == 4


@pytest.mark.parametrize("status", [500, 503])
@timed
async def test_a_place_that_is_busy_is_no_reason_to_look_elsewhere(status: int) -> None:
    async with a_world() as world:
        world.server.routes["GET", f"{PRM}/mcp"] = lambda request: Response(status)
        with pytest.raises(TransportError, match=f"HTTP {status}") as caught:
            await discover(world.client, world.server.endpoint)
        assert caught.value.permanent is False
        assert len(world.server.requests) == 1


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b'{"resource": 1}',
        b"{}",
        b'{"resource": "x", "authorization_servers": "y"}',
        b'{"resource": "\xff"}',
        b"{" * 100_000,
    ],
)
@timed
async def test_metadata_that_cannot_be_read_is_an_error_that_says_where(body: bytes) -> None:
    async with a_world() as world:
        world.server.routes["GET", f"{PRM}/mcp"] = lambda request: Response(
            200, body, {"Content-Type": "application/json"}
        )
        with pytest.raises(AuthorizationError, match=f"{PRM}/mcp cannot be read"):
            await discover(world.client, world.server.endpoint)
