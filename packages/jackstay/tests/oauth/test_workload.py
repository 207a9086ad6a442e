"""Workload identity federation: the JWT of the platform is exchanged for a token, at one issuer."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jackstay.errors import UsageError
from jackstay.oauth import AuthorizationError, Identity, WorkloadIdentity
from scripted.oauth import Response, bearer, oauth_world


def workload(world: SimpleNamespace, token: Any, **options: Any) -> WorkloadIdentity:
    world.issuing.registered["job"] = {"token_endpoint_auth_method": "none"}
    identity = Identity(client_id="job", issuer=world.issuing.issuer)
    return WorkloadIdentity(identity, token, clock=world.clock, **options)


async def test_the_token_of_the_platform_is_the_assertion(tmp_path: Path) -> None:
    """RFC 7523, 2.1. A file is read again for each grant, because the platform replaces it."""
    file = tmp_path / "token"
    file.write_text("jwt-1\n")

    async def function() -> str:
        return "jwt-1"

    for token in ("jwt-1", file, function):
        async with oauth_world() as world:
            auth = workload(world, token, scopes="extra")
            assert await auth.challenged(world.client, world.server.refuse(scope="a"))
            (request,) = world.issuing.got("POST", "/token")
            assert request.form == {
                "grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
                "assertion": "jwt-1",
                "resource": world.server.endpoint,
                "scope": "a extra",
                "client_id": "job",
            }
            assert await bearer(auth, world) in world.issuing.access_tokens
            assert "jwt-1" not in repr(auth)


async def test_an_expired_token_is_replaced_with_the_current_jwt(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("jwt-1")
    async with oauth_world() as world:
        world.issuing.issues_refresh_tokens = False
        auth = workload(world, file)
        assert await auth.challenged(world.client, world.server.refuse())
        file.write_text("jwt-2")
        world.clock.now += 3600
        await bearer(auth, world)
        assert [request.form["assertion"] for request in world.issuing.got("POST", "/token")] == ["jwt-1", "jwt-2"]


async def test_a_refusal_is_reported_and_no_other_grant_is_tried() -> None:
    for error in ("invalid_grant", "invalid_scope", "unauthorized_client"):
        async with oauth_world() as world:
            auth = workload(world, "jwt")
            world.issuing.routes["POST", "/token"] = lambda request, error=error: Response(400, {"error": error})
            with pytest.raises(AuthorizationError, match=error):
                await auth.challenged(world.client, world.server.refuse())
            assert len(world.issuing.got("POST", "/token")) == 1


async def test_the_jwt_is_not_sent_to_another_issuer() -> None:
    async with oauth_world() as world:
        auth = WorkloadIdentity(Identity(client_id="job", issuer="https://login.example"), "jwt", clock=world.clock)
        with pytest.raises(AuthorizationError, match=r"the identity is for https://login\.example"):
            await auth.challenged(world.client, world.server.refuse())
        assert world.issuing.got("POST", "/token") == []


async def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff")
    for file, reason in ((tmp_path / "none", os.strerror(2)), (binary, "not a JWT")):
        async with oauth_world() as world:
            auth = workload(world, file)
            with pytest.raises(AuthorizationError, match=f"{file.name}: {reason}"):
                await auth.challenged(world.client, world.server.refuse())


def test_wrong_options_are_refused() -> None:
    identity = Identity(client_id="job", issuer="https://login.example")
    for token in ("", None, 1):
        with pytest.raises(UsageError, match="token must be a JWT, a Path or an async function"):
            WorkloadIdentity(identity, token)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="a client_id and an issuer"):
        WorkloadIdentity(Identity(client_id="job"), "jwt")
