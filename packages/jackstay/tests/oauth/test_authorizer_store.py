"""The part that all grants share: the store across runs, and `sign_in()` before the first call."""

import asyncio
from pathlib import Path

import pytest

from jackstay.errors import UsageError
from jackstay.oauth import FileStore, Identity, MemoryStore
from jackstay.transport import Challenge
from scripted.oauth import Browser, Response, bearer, grants, oauth_world, signer

# --- the store --------------------------------------------------------------------------------------------------------


async def test_the_next_run_needs_no_sign_in_and_no_discovery() -> None:
    async with oauth_world() as world:
        store = MemoryStore()
        await signer(world, store=store).challenged(world.client, world.server.refuse())
        before = len(world.client.sent)
        assert await bearer(signer(world, store=store), world) in world.issuing.access_tokens
        assert len(world.client.sent) == before


async def test_concurrent_first_requests_all_use_the_stored_token(tmp_path: Path) -> None:
    async with oauth_world() as world:
        store = FileStore(tmp_path / "tokens.json")
        await signer(world, store=store).challenged(world.client, world.server.refuse())
        auth = signer(world, store=store)
        got = await asyncio.gather(*(bearer(auth, world) for _ in range(5)))
        assert len(set(got)) == 1


async def test_an_error_of_the_store_is_raised_each_time(tmp_path: Path) -> None:
    async with oauth_world() as world:
        (tmp_path / "tokens.json").write_text("something else")
        auth = signer(world, store=FileStore(tmp_path / "tokens.json"))
        for _ in range(2):
            with pytest.raises(UsageError, match="not a token file"):
                await auth.headers(world.client, world.server.endpoint)


async def test_the_next_run_refreshes_an_expired_token() -> None:
    async with oauth_world() as world:
        store = MemoryStore()
        await signer(world, store=store).challenged(world.client, world.server.refuse())
        world.clock.now += 7200
        auth = signer(world, store=store)
        assert await bearer(auth, world) in world.issuing.access_tokens
        assert grants(world) == ["authorization_code", "refresh_token"]
        assert len(world.browser.visits) == 1


async def test_the_next_run_against_a_server_without_metadata_waits_for_its_401() -> None:
    async with oauth_world() as world:
        store = MemoryStore()
        await signer(world, store=store).challenged(world.client, world.server.refuse())
        world.clock.now += 7200
        del world.issuing.routes["GET", world.issuing.well_known]
        assert await bearer(signer(world, store=store), world)
        assert grants(world) == ["authorization_code"]


async def test_another_server_of_the_same_resource_needs_no_second_sign_in() -> None:
    """Tokens are kept by issuer and resource."""
    async with oauth_world() as world:
        world.server.prm_path = "/.well-known/oauth-protected-resource"
        world.server.publish(world.issuing.issuer, resource=world.server.url)
        auth = signer(world)
        await auth.challenged(world.client, Challenge(f"{world.server.url}/one", 401))
        await auth.challenged(world.client, Challenge(f"{world.server.url}/two", 401))
        assert len(world.browser.visits) == 1
        one = await auth.headers(world.client, f"{world.server.url}/one")
        assert one == await auth.headers(world.client, f"{world.server.url}/two") != ()


async def test_a_newer_token_of_another_program_is_used() -> None:
    async with oauth_world() as world:
        store = MemoryStore()
        first, second = signer(world, store=store), signer(world, store=store)
        await first.challenged(world.client, world.server.refuse())
        old = await bearer(first, world)
        world.clock.now += 3600
        new = await bearer(second, world)
        assert new != old
        assert await bearer(first, world) == new
        assert grants(world).count("refresh_token") == 1
        await second.challenged(world.client, world.server.refuse(error="invalid_token"))
        assert await first.challenged(world.client, world.server.refuse(error="invalid_token"))
        assert await bearer(first, world) == await bearer(second, world)
        assert grants(world).count("refresh_token") == 2


async def test_an_expired_token_of_another_program_is_refreshed() -> None:
    async with oauth_world() as world:
        store = MemoryStore()
        await signer(world, store=store).challenged(world.client, world.server.refuse())
        await store.save(f"server {world.server.endpoint}", None)
        world.clock.now += 3600
        auth = signer(world, store=store)
        assert await auth.headers(world.client, world.server.endpoint) == ()
        assert await auth.challenged(world.client, world.server.refuse())
        assert grants(world) == ["authorization_code", "refresh_token"]


async def test_tokens_of_another_client_are_ignored() -> None:
    async with oauth_world() as world:
        store = MemoryStore()
        await signer(world, store=store).challenged(world.client, world.server.refuse())
        auth = signer(world, Identity(client_id="own"), store=store)
        world.issuing.registered["own"] = {"token_endpoint_auth_method": "none"}
        assert await auth.headers(world.client, world.server.endpoint) == ()
        await auth.challenged(world.client, world.server.refuse())
        assert world.browser.query()["client_id"] == "own"


async def test_a_refresh_token_of_a_client_that_is_gone_is_not_used() -> None:
    async with oauth_world() as world:
        store = MemoryStore()
        auth = signer(world, store=store)
        await auth.challenged(world.client, world.server.refuse())
        await store.save(f"client {world.issuing.issuer}", None)
        world.clock.now += 3600
        await auth.challenged(world.client, world.server.refuse())
        assert grants(world) == ["authorization_code"] * 2


# --- sign_in() --------------------------------------------------------------------------------------------------------


async def test_sign_in_obtains_a_token_before_the_first_call() -> None:
    async with oauth_world() as world:
        challenge = world.server.refuse(scope="read").www_authenticate[0]
        world.server.routes["GET", "/mcp"] = lambda request: Response(401, headers={"WWW-Authenticate": challenge})
        auth = signer(world)
        await auth.sign_in(world.client, world.server.endpoint)
        assert await bearer(auth, world) in world.issuing.access_tokens
        assert world.browser.query()["scope"] == "read"
        world.server.routes["GET", "/mcp"] = lambda request: Response(405)
        await auth.sign_in(world.client, world.server.endpoint)
        assert len(world.browser.visits) == 1
        assert world.server.got("GET", "/mcp")[1].headers["authorization"] == f"Bearer {await bearer(auth, world)}"


async def test_sign_in_replaces_a_rejected_stored_token() -> None:
    async with oauth_world() as world:
        world.issuing.issues_refresh_tokens = False
        auth = signer(world)
        await auth.challenged(world.client, world.server.refuse())
        first = await bearer(auth, world)
        world.clock.now += 60
        world.server.routes["GET", "/mcp"] = lambda request: Response(401)
        await auth.sign_in(world.client, world.server.endpoint)
        assert await bearer(auth, world) != first


async def test_sign_in_uses_metadata_if_a_get_is_accepted() -> None:
    async with oauth_world() as world:
        world.server.routes["GET", "/mcp"] = lambda request: Response(405)
        auth = signer(world)
        await auth.sign_in(world.client, world.server.endpoint)
        assert await bearer(auth, world)


async def test_sign_in_does_nothing_without_a_challenge() -> None:
    async with oauth_world() as world:
        world.server.routes.clear()
        world.server.routes["GET", "/mcp"] = lambda request: Response(endless=True)
        auth = signer(world)
        await auth.sign_in(world.client, world.server.endpoint)
        assert await auth.headers(world.client, world.server.endpoint) == ()
        assert world.browser.visits == []


async def test_one_authorizer_serves_several_servers() -> None:
    async with oauth_world() as world, oauth_world() as other:
        auth = signer(world, redirect=Browser())
        await auth.challenged(world.client, world.server.refuse())
        await auth.challenged(other.client, other.server.refuse())
        one = await bearer(auth, world)
        two = await bearer(auth, other)
        assert one in world.issuing.access_tokens
        assert two in other.issuing.access_tokens
        await auth.headers(world.client, world.server.endpoint)
        assert all(two not in str(request.headers) for request in world.issuing.requests)
