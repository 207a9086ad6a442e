"""Client credentials: with a secret or a signature, at one issuer, and renewed when a token expires."""

from types import SimpleNamespace
from typing import Any

import pytest
from joserfc import jwk, jwt

from jackstay.errors import UsageError
from jackstay.oauth import AuthorizationError, ClientCredentials, Identity, MemoryStore
from scripted.oauth import AuthorizationSite, Request, Response, bearer, oauth_world


def program(world: SimpleNamespace, identity: Identity | None = None, **options: Any) -> ClientCredentials:
    configured = (
        Identity(client_id="robot", client_secret="s3:cret", issuer=world.issuing.issuer)
        if identity is None
        else identity
    )
    world.issuing.registered["robot"] = {
        "client_secret": "s3:cret",
        "token_endpoint_auth_method": "client_secret_basic",
    }
    world.issuing.overrides |= {
        "token_endpoint_auth_methods_supported": ["client_secret_basic"],
        "code_challenge_methods_supported": None,  # PKCE is for users only
    }
    world.issuing.issues_refresh_tokens = False
    return ClientCredentials(configured, clock=world.clock, **options)


async def test_a_program_signs_in_with_its_secret() -> None:
    """The MCP extension "OAuth Client Credentials"; `resource` and scopes as for users."""
    async with oauth_world() as world:
        auth = program(world, scopes="extra")
        assert await auth.challenged(world.client, world.server.refuse(scope="a"))
        (request,) = world.issuing.got("POST", "/token")
        assert request.form == {
            "grant_type": "client_credentials",
            "resource": world.server.endpoint,
            "scope": "a extra",
            "client_id": "robot",
        }
        assert await bearer(auth, world) in world.issuing.access_tokens
        assert "s3" not in repr(auth)


async def test_a_program_signs_in_with_a_signature() -> None:
    async with oauth_world() as world:
        key = jwk.ECKey.generate_key("P-256")
        pem = bytes(key.as_pem(private=True)).decode()
        identity = Identity(client_id="robot", private_key=pem, signing_algorithm="ES256", issuer=world.issuing.issuer)
        auth = program(world, identity)
        world.issuing.overrides["token_endpoint_auth_methods_supported"] = ["private_key_jwt"]

        def token(request: Request) -> Response:
            claims = jwt.decode(request.form["client_assertion"], key, algorithms=["ES256"]).claims
            assert claims["aud"] == world.issuing.issuer
            assert claims["sub"] == "robot"
            return Response(body=world.issuing.issue(""))

        world.issuing.routes["POST", "/token"] = token
        assert await auth.challenged(world.client, world.server.refuse())
        assert await bearer(auth, world)


async def test_an_expired_token_is_replaced() -> None:
    async with oauth_world() as world:
        auth = program(world)
        await auth.challenged(world.client, world.server.refuse(scope="a"))
        first = await bearer(auth, world)
        world.clock.now += 3600
        second = await bearer(auth, world)
        assert second != first
        assert world.issuing.access_tokens[second] == {"a"}
        assert len(world.issuing.got("POST", "/token")) == 2


async def test_a_refresh_token_is_used_if_there_is_one() -> None:
    """RFC 6749, 4.4.3 advises against one; some servers issue one."""
    async with oauth_world() as world:
        auth = program(world)
        world.issuing.issues_refresh_tokens = True
        await auth.challenged(world.client, world.server.refuse())
        world.clock.now += 3600
        await bearer(auth, world)
        grants = [request.form["grant_type"] for request in world.issuing.got("POST", "/token")]
        assert grants == ["client_credentials", "refresh_token"]


async def test_the_next_run_uses_the_stored_token_and_refreshes_it_without_a_challenge() -> None:
    async with oauth_world() as world:
        store = MemoryStore()
        await program(world, store=store).challenged(world.client, world.server.refuse())
        world.clock.now += 3600
        assert await bearer(program(world, store=store), world)
        assert len(world.issuing.got("POST", "/token")) == 2


async def test_the_secret_is_only_sent_to_its_issuer() -> None:
    async with oauth_world() as world:
        identity = Identity(client_id="robot", client_secret="s3:cret", issuer="https://own.example")
        with pytest.raises(AuthorizationError, match=r"identity is for https://own\.example"):
            await program(world, identity).challenged(world.client, world.server.refuse())
        assert world.issuing.got("POST", "/token") == []


async def test_the_secret_is_not_sent_to_an_issuer_that_a_server_names_later() -> None:
    async with oauth_world() as world, AuthorizationSite() as second:
        auth = program(world)
        await auth.challenged(world.client, world.server.refuse())
        world.server.publish(second.issuer)
        with pytest.raises(AuthorizationError, match="the identity is for"):
            await auth.challenged(world.client, world.server.refuse())
        assert second.got("POST", "/token") == []


async def test_audience_and_send_resource_are_applied_for_their_issuer() -> None:
    async with oauth_world() as world:
        client = {"client_id": "robot", "client_secret": "s3:cret", "issuer": world.issuing.issuer}
        auth = program(world, Identity(**client, send_resource=False, audience="https://api.example"))
        await auth.challenged(world.client, world.server.refuse())
        (request,) = world.issuing.got("POST", "/token")
        assert "resource" not in request.form
        assert request.form["audience"] == "https://api.example"


async def test_a_wrong_secret_is_an_error_with_its_code() -> None:
    async with oauth_world() as world:
        auth = program(world, Identity(client_id="robot", client_secret="wrong", issuer=world.issuing.issuer))
        with pytest.raises(AuthorizationError, match="invalid_client") as caught:
            await auth.challenged(world.client, world.server.refuse())
        assert caught.value.error == "invalid_client"
        assert "wrong" not in str(caught.value)


def test_a_program_needs_credentials() -> None:
    for identity in (Identity(), Identity(client_id="c"), Identity(metadata_url="https://m.example/c")):
        with pytest.raises(UsageError, match="a client_secret or a private_key"):
            ClientCredentials(identity)
