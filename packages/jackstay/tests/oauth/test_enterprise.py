"""Enterprise-managed authorization: the token exchange at the identity provider, then the assertion grant."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from jackstay.errors import UsageError
from jackstay.oauth import AuthorizationError, EnterpriseManaged, Identity, IdentityProvider
from scripted.oauth import AuthorizationSite, Request, Response, oauth_world

ID_JAG = "urn:ietf:params:oauth:token-type:id-jag"
JAG = {"access_token": "the-assertion", "issued_token_type": ID_JAG, "token_type": "N_A", "expires_in": 300}


def authorizer(world: SimpleNamespace, provider: IdentityProvider, **options: Any) -> EnterpriseManaged:
    world.issuing.registered["robot"] = {
        "client_secret": "s",
        "token_endpoint_auth_method": "client_secret_basic",
    }
    world.issuing.overrides |= {"token_endpoint_auth_methods_supported": ["client_secret_basic"]}
    identity = Identity(client_id="robot", client_secret="s", issuer=world.issuing.issuer)
    return EnterpriseManaged(identity, provider, clock=world.clock, **options)


def issue_assertion(**changed: Any) -> Callable[[Request], Response]:
    return lambda request: Response(body={**JAG, **changed})


async def test_the_assertion_of_the_provider_is_exchanged_for_a_token() -> None:
    """The MCP extension "Enterprise-Managed Authorization": both requests."""
    async with oauth_world() as world, AuthorizationSite() as idp:
        idp.routes["POST", "/token"] = issue_assertion()
        provider = IdentityProvider(client_id="at-idp", id_token="id-token", token_endpoint=f"{idp.url}/token")
        auth = authorizer(world, provider)
        assert await auth.challenged(world.client, world.server.refuse(scope="a"))
        assert idp.requests[0].form == {
            "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
            "requested_token_type": ID_JAG,
            "audience": world.issuing.issuer,
            "resource": world.server.endpoint,
            "subject_token": "id-token",
            "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
            "scope": "a",
            "client_id": "at-idp",
        }
        (request,) = world.issuing.got("POST", "/token")
        assert request.form == {
            "grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
            "assertion": "the-assertion",
            "resource": world.server.endpoint,
            "scope": "a",
            "client_id": "robot",
        }
        ((_, value),) = await auth.headers(world.client, world.server.endpoint)
        assert value.removeprefix("Bearer ") in world.issuing.access_tokens
        text = f"{auth!r} {provider!r}"
        assert "id-token" not in text
        assert "assertion" not in text


async def test_the_id_token_function_is_called_each_time_and_the_endpoint_is_discovered() -> None:
    """ID tokens are short-lived; the secret of the provider is only sent to it."""
    async with oauth_world() as world, AuthorizationSite() as idp:
        idp.routes["POST", "/token"] = issue_assertion()
        idp.overrides["token_endpoint_auth_methods_supported"] = ["client_secret_post"]
        issued: list[str] = []

        async def current() -> str:
            issued.append(f"id-{len(issued)}")
            return issued[-1]

        provider = IdentityProvider(client_id="at-idp", client_secret="at", id_token=current, issuer=idp.url)
        auth = authorizer(world, provider)
        world.issuing.issues_refresh_tokens = False
        await auth.challenged(world.client, world.server.refuse())
        world.clock.now += 3600
        await auth.headers(world.client, world.server.endpoint)
        posts = idp.got("POST", "/token")
        assert [post.form["subject_token"] for post in posts] == ["id-0", "id-1"]
        assert posts[0].form["client_secret"] == "at"
        assert all(body != b"at" for body in (request.body for request in world.issuing.requests))


@pytest.mark.parametrize("kind", [None, "urn:ietf:params:oauth:token-type:access_token"])
async def test_a_token_of_another_type_is_not_used_as_an_assertion(kind: str | None) -> None:
    async with oauth_world() as world, AuthorizationSite() as idp:
        idp.routes["POST", "/token"] = issue_assertion(issued_token_type=kind)
        provider = IdentityProvider(client_id="c", id_token="i", token_endpoint=f"{idp.url}/token")
        with pytest.raises(AuthorizationError, match="expected urn:ietf:params:oauth:token-type:id-jag"):
            await authorizer(world, provider).challenged(world.client, world.server.refuse())
        assert world.issuing.got("POST", "/token") == []


async def test_a_provider_that_refuses_is_an_error_with_its_code() -> None:
    async with oauth_world() as world, AuthorizationSite() as idp:
        idp.routes["POST", "/token"] = lambda request: Response(400, {"error": "access_denied"})
        provider = IdentityProvider(client_id="c", id_token="i", token_endpoint=f"{idp.url}/token", issuer=idp.url)
        with pytest.raises(AuthorizationError, match="access_denied") as caught:
            await authorizer(world, provider).challenged(world.client, world.server.refuse())
        assert (caught.value.error, caught.value.issuer) == ("access_denied", idp.url)


async def test_a_provider_without_metadata_needs_its_endpoint() -> None:
    async with oauth_world() as world, AuthorizationSite() as idp:
        idp.routes.clear()
        provider = IdentityProvider(client_id="c", id_token="i", issuer=idp.url)
        with pytest.raises(AuthorizationError, match="pass token_endpoint="):
            await authorizer(world, provider).challenged(world.client, world.server.refuse())


def test_the_url_of_a_provider_is_checked() -> None:
    with pytest.raises(UsageError, match="requires issuer or token_endpoint"):
        IdentityProvider(client_id="c", id_token="i")
    with pytest.raises(AuthorizationError, match="token_endpoint must be https"):
        IdentityProvider(client_id="c", id_token="i", token_endpoint="http://idp.example/token")
