"""Programs that sign in by themselves: with a secret or a signature, at their own issuer, and again when a token ends."""

from types import SimpleNamespace
from typing import Any

import pytest
from joserfc import jwk, jwt

from jackstay.errors import UsageError
from jackstay.oauth import AuthorizationError, ClientCredentials, Identity, MemoryStore
from scripted.loop import timed
from scripted.oauth import AuthorizationSite, Request, Response, a_world, bearer


def program(world: SimpleNamespace, identity: Identity | None = None, **options: Any) -> ClientCredentials:
    given = (
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
        "code_challenge_methods_supported": None,  # no people, no PKCE
    }
    world.issuing.gives_refresh = False
    return ClientCredentials(given, clock=world.clock, **options)


@timed
async def test_a_program_signs_in_with_its_secret() -> None:
    """The extension "OAuth Client Credentials"; `resource` and scopes as for people."""
    async with a_world() as world:
        auth = program(world, scopes="mine")
        assert await auth.challenged(world.client, world.server.refuse(scope="a"))
        (asked,) = world.issuing.got("POST", "/token")
        assert asked.form == {
            "grant_type": "client_credentials",
            "resource": world.server.endpoint,
            "scope": "a mine",
            "client_id": "robot",
        }
        assert await bearer(auth, world) in world.issuing.access_tokens
        assert "s3" not in repr(auth)


@timed
async def test_a_program_signs_in_with_a_signature() -> None:
    async with a_world() as world:
        key = jwk.ECKey.generate_key("P-256")
        pem = bytes(key.as_pem(private=True)).decode()
        identity = Identity(
            client_id="robot", private_key=pem, signing_algorithm="ES256", issuer=world.issuing.issuer
        )
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


@timed
async def test_a_token_that_ends_is_followed_by_another() -> None:
    async with a_world() as world:
        auth = program(world)
        await auth.challenged(world.client, world.server.refuse(scope="a"))
        first = await bearer(auth, world)
        world.clock.now += 3600
        second = await bearer(auth, world)
        assert second != first
        assert world.issuing.access_tokens[second] == {"a"}
        assert len(world.issuing.got("POST", "/token")) == 2


@timed
async def test_a_refresh_token_is_used_where_one_is_given() -> None:
    """RFC 6749 says that there should be none; some give one."""
    async with a_world() as world:
        auth = program(world)
        world.issuing.gives_refresh = True
        await auth.challenged(world.client, world.server.refuse())
        world.clock.now += 3600
        await bearer(auth, world)
        grants = [request.form["grant_type"] for request in world.issuing.got("POST", "/token")]
        assert grants == ["client_credentials", "refresh_token"]


@timed
async def test_the_next_run_uses_what_is_stored_and_renews_it_without_a_challenge() -> None:
    async with a_world() as world:
        store = MemoryStore()
        await program(world, store=store).challenged(world.client, world.server.refuse())
        world.clock.now += 3600
        assert await bearer(program(world, store=store), world)
        assert len(world.issuing.got("POST", "/token")) == 2


@timed
async def test_the_secret_goes_to_the_issuer_it_belongs_to_whatever_the_server_says() -> None:
    async with a_world() as world:
        identity = Identity(client_id="robot", client_secret="s3:cret", issuer="https://mine.example")
        with pytest.raises(AuthorizationError, match=r"identity is for https://mine\.example"):
            await program(world, identity).challenged(world.client, world.server.refuse())
        assert world.issuing.got("POST", "/token") == []


@timed
async def test_a_secret_goes_to_its_issuer_and_to_no_other_that_a_server_names() -> None:
    async with a_world() as world, AuthorizationSite() as second:
        auth = program(world)
        await auth.challenged(world.client, world.server.refuse())
        world.server.publish(second.issuer)
        with pytest.raises(AuthorizationError, match="the identity is for"):
            await auth.challenged(world.client, world.server.refuse())
        assert second.got("POST", "/token") == []


@timed
async def test_an_audience_is_sent_and_a_resource_left_out_where_the_issuer_wants_it_so() -> None:
    async with a_world() as world:
        who = {"client_id": "robot", "client_secret": "s3:cret", "issuer": world.issuing.issuer}
        auth = program(world, Identity(**who, send_resource=False, audience="https://api.example"))
        await auth.challenged(world.client, world.server.refuse())
        (asked,) = world.issuing.got("POST", "/token")
        assert "resource" not in asked.form
        assert asked.form["audience"] == "https://api.example"


@timed
async def test_a_wrong_secret_is_an_error_with_its_code() -> None:
    async with a_world() as world:
        auth = program(world, Identity(client_id="robot", client_secret="wrong", issuer=world.issuing.issuer))
        with pytest.raises(AuthorizationError, match="invalid_client") as caught:
            await auth.challenged(world.client, world.server.refuse())
        assert caught.value.error == "invalid_client"
        assert "wrong" not in str(caught.value)


@pytest.mark.parametrize(
    "identity", [Identity(), Identity(client_id="c"), Identity(metadata_url="https://m.example/c")]
)
def test_a_program_must_be_able_to_prove_itself(identity: Identity) -> None:
    with pytest.raises(UsageError, match="a client_secret or a private_key"):
        ClientCredentials(identity)
