"""Access that an organisation decides: the exchange at its identity provider, then the assertion at the server's side."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from jackstay.errors import UsageError
from jackstay.oauth import AuthorizationError, EnterpriseManaged, Identity, IdentityProvider
from scripted.loop import timed
from scripted.oauth import AuthorizationSite, Request, Response, a_world

ID_JAG = "urn:ietf:params:oauth:token-type:id-jag"
JAG = {"access_token": "the-assertion", "issued_token_type": ID_JAG, "token_type": "N_A", "expires_in": 300}


def employee(world: SimpleNamespace, provider: IdentityProvider, **options: Any) -> EnterpriseManaged:
    world.issuing.registered["robot"] = {
        "client_secret": "s",
        "token_endpoint_auth_method": "client_secret_basic",
    }
    world.issuing.overrides |= {"token_endpoint_auth_methods_supported": ["client_secret_basic"]}
    identity = Identity(client_id="robot", client_secret="s", issuer=world.issuing.issuer)
    return EnterpriseManaged(identity, provider, clock=world.clock, **options)


def vouch(**changed: Any) -> Callable[[Request], Response]:
    return lambda request: Response(body={**JAG, **changed})


@timed
async def test_the_provider_vouches_and_the_assertion_becomes_a_token() -> None:
    """The extension "Enterprise-Managed Authorization": both requests, member by member."""
    async with a_world() as world, AuthorizationSite() as idp:
        idp.routes["POST", "/token"] = vouch()
        provider = IdentityProvider(
            client_id="at-idp", id_token="id-token", token_endpoint=f"{idp.url}/token"
        )
        auth = employee(world, provider)
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
        (asked,) = world.issuing.got("POST", "/token")
        assert asked.form == {
            "grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
            "assertion": "the-assertion",
            "resource": world.server.endpoint,
            "scope": "a",
            "client_id": "robot",
        }
        ((_, value),) = await auth.headers(world.client, world.server.endpoint)
        assert value.removeprefix("Bearer ") in world.issuing.access_tokens
        shown = f"{auth!r} {provider!r}"
        assert "id-token" not in shown
        assert "assertion" not in shown


@timed
async def test_an_id_token_is_asked_for_each_time_and_the_endpoint_is_found_by_the_issuer() -> None:
    """ID tokens end within the hour; a secret at the provider is its own."""
    async with a_world() as world, AuthorizationSite() as idp:
        idp.routes["POST", "/token"] = vouch()
        idp.overrides["token_endpoint_auth_methods_supported"] = ["client_secret_post"]
        given: list[str] = []

        async def current() -> str:
            given.append(f"id-{len(given)}")
            return given[-1]

        provider = IdentityProvider(client_id="at-idp", client_secret="at", id_token=current, issuer=idp.url)
        auth = employee(world, provider)
        world.issuing.gives_refresh = False
        await auth.challenged(world.client, world.server.refuse())
        world.clock.now += 3600
        await auth.headers(world.client, world.server.endpoint)
        posts = idp.got("POST", "/token")
        assert [post.form["subject_token"] for post in posts] == ["id-0", "id-1"]
        assert posts[0].form["client_secret"] == "at"
        assert all(body != b"at" for body in (request.body for request in world.issuing.requests))


@pytest.mark.parametrize("kind", [None, "urn:ietf:params:oauth:token-type:access_token"])
@timed
async def test_what_is_not_an_identity_assertion_is_not_sent_on(kind: str | None) -> None:
    async with a_world() as world, AuthorizationSite() as idp:
        idp.routes["POST", "/token"] = vouch(issued_token_type=kind)
        provider = IdentityProvider(client_id="c", id_token="i", token_endpoint=f"{idp.url}/token")
        with pytest.raises(AuthorizationError, match="instead of an identity assertion"):
            await employee(world, provider).challenged(world.client, world.server.refuse())
        assert world.issuing.got("POST", "/token") == []


@timed
async def test_a_provider_that_refuses_is_an_error_with_its_code() -> None:
    async with a_world() as world, AuthorizationSite() as idp:
        idp.routes["POST", "/token"] = lambda request: Response(400, {"error": "access_denied"})
        provider = IdentityProvider(
            client_id="c", id_token="i", token_endpoint=f"{idp.url}/token", issuer=idp.url
        )
        with pytest.raises(AuthorizationError, match="access_denied") as caught:
            await employee(world, provider).challenged(world.client, world.server.refuse())
        assert (caught.value.error, caught.value.issuer) == ("access_denied", idp.url)


@timed
async def test_a_provider_without_metadata_needs_its_endpoint() -> None:
    async with a_world() as world, AuthorizationSite() as idp:
        idp.routes.clear()
        provider = IdentityProvider(client_id="c", id_token="i", issuer=idp.url)
        with pytest.raises(AuthorizationError, match="give the identity provider's token_endpoint"):
            await employee(world, provider).challenged(world.client, world.server.refuse())


def test_a_provider_must_be_somewhere_that_may_be_asked() -> None:
    with pytest.raises(UsageError, match="issuer or a token_endpoint"):
        IdentityProvider(client_id="c", id_token="i")
    with pytest.raises(AuthorizationError, match="token_endpoint must be https"):
        IdentityProvider(client_id="c", id_token="i", token_endpoint="http://idp.example/token")
