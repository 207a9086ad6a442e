"""What every grant has in common: what the store spares the next run, and signing in before any call waits for it."""

import asyncio
from pathlib import Path

import pytest

from jackstay.errors import UsageError
from jackstay.oauth import FileStore, Identity, MemoryStore
from jackstay.transport import Challenge
from scripted.loop import timed
from scripted.oauth import Browser, Response, a_world, bearer, grants, signer

# --- the store ------------------------------------------------------------------------------------------------------------


@timed
async def test_the_next_run_needs_no_sign_in_and_no_discovery() -> None:
    async with a_world() as world:
        store = MemoryStore()
        await signer(world, store=store).challenged(world.client, world.server.refuse())
        before = len(world.client.sent)
        assert await bearer(signer(world, store=store), world) in world.issuing.access_tokens
        assert len(world.client.sent) == before


@timed
async def test_requests_that_begin_together_all_find_what_is_stored(tmp_path: Path) -> None:
    async with a_world() as world:
        store = FileStore(tmp_path / "tokens.json")
        await signer(world, store=store).challenged(world.client, world.server.refuse())
        auth = signer(world, store=store)
        got = await asyncio.gather(*(bearer(auth, world) for _ in range(5)))
        assert len(set(got)) == 1


@timed
async def test_a_store_that_fails_is_told_each_time(tmp_path: Path) -> None:
    async with a_world() as world:
        (tmp_path / "tokens.json").write_text("not ours")
        auth = signer(world, store=FileStore(tmp_path / "tokens.json"))
        for _ in range(2):
            with pytest.raises(UsageError, match="not a file of tokens"):
                await auth.headers(world.client, world.server.endpoint)


@timed
async def test_the_next_run_refreshes_what_is_due() -> None:
    async with a_world() as world:
        store = MemoryStore()
        await signer(world, store=store).challenged(world.client, world.server.refuse())
        world.clock.now += 7200
        auth = signer(world, store=store)
        assert await bearer(auth, world) in world.issuing.access_tokens
        assert grants(world) == ["authorization_code", "refresh_token"]
        assert len(world.browser.visits) == 1


@timed
async def test_the_next_run_against_a_server_without_metadata_waits_for_its_401() -> None:
    async with a_world() as world:
        store = MemoryStore()
        await signer(world, store=store).challenged(world.client, world.server.refuse())
        world.clock.now += 7200
        del world.issuing.routes["GET", world.issuing.well_known]
        assert await bearer(signer(world, store=store), world)
        assert grants(world) == ["authorization_code"]


@timed
async def test_another_server_of_the_same_resource_needs_no_second_sign_in() -> None:
    """Tokens are kept by issuer and resource."""
    async with a_world() as world:
        world.server.prm_path = "/.well-known/oauth-protected-resource"
        world.server.publish(world.issuing.issuer, resource=world.server.url)
        auth = signer(world)
        await auth.challenged(world.client, Challenge(f"{world.server.url}/one", 401))
        await auth.challenged(world.client, Challenge(f"{world.server.url}/two", 401))
        assert len(world.browser.visits) == 1
        one = await auth.headers(world.client, f"{world.server.url}/one")
        assert one == await auth.headers(world.client, f"{world.server.url}/two") != ()


@timed
async def test_what_another_program_got_meanwhile_is_used() -> None:
    async with a_world() as world:
        store = MemoryStore()
        mine, others = signer(world, store=store), signer(world, store=store)
        await mine.challenged(world.client, world.server.refuse())
        old = await bearer(mine, world)
        world.clock.now += 3600
        new = await bearer(others, world)
        assert new != old
        assert await bearer(mine, world) == new
        assert grants(world).count("refresh_token") == 1
        await others.challenged(world.client, world.server.refuse(error="invalid_token"))
        assert await mine.challenged(world.client, world.server.refuse(error="invalid_token"))
        assert await bearer(mine, world) == await bearer(others, world)
        assert grants(world).count("refresh_token") == 2


@timed
async def test_what_another_program_got_and_is_due_is_refreshed() -> None:
    async with a_world() as world:
        store = MemoryStore()
        await signer(world, store=store).challenged(world.client, world.server.refuse())
        await store.save(f"server {world.server.endpoint}", None)
        world.clock.now += 3600
        auth = signer(world, store=store)
        assert await auth.headers(world.client, world.server.endpoint) == ()
        assert await auth.challenged(world.client, world.server.refuse())
        assert grants(world) == ["authorization_code", "refresh_token"]


@timed
async def test_tokens_of_another_client_are_not_ours() -> None:
    async with a_world() as world:
        store = MemoryStore()
        await signer(world, store=store).challenged(world.client, world.server.refuse())
        auth = signer(world, Identity(client_id="mine"), store=store)
        world.issuing.registered["mine"] = {"token_endpoint_auth_method": "none"}
        assert await auth.headers(world.client, world.server.endpoint) == ()
        await auth.challenged(world.client, world.server.refuse())
        assert world.browser.query()["client_id"] == "mine"


@timed
async def test_a_refresh_token_of_a_client_that_is_gone_is_not_used() -> None:
    async with a_world() as world:
        store = MemoryStore()
        auth = signer(world, store=store)
        await auth.challenged(world.client, world.server.refuse())
        await store.save(f"client {world.issuing.issuer}", None)
        world.clock.now += 3600
        await auth.challenged(world.client, world.server.refuse())
        assert grants(world) == ["authorization_code"] * 2


# --- signing in beforehand ------------------------------------------------------------------------------------------------


@timed
async def test_sign_in_gets_a_token_before_any_call_waits_for_it() -> None:
    async with a_world() as world:
        challenge = world.server.refuse(scope="read").www_authenticate[0]
        world.server.routes["GET", "/mcp"] = lambda request: Response(
            401, headers={"WWW-Authenticate": challenge}
        )
        auth = signer(world)
        await auth.sign_in(world.client, world.server.endpoint)
        assert await bearer(auth, world) in world.issuing.access_tokens
        assert world.browser.query()["scope"] == "read"
        world.server.routes["GET", "/mcp"] = lambda request: Response(405)
        await auth.sign_in(world.client, world.server.endpoint)
        assert len(world.browser.visits) == 1
        assert (
            world.server.got("GET", "/mcp")[1].headers["authorization"]
            == f"Bearer {await bearer(auth, world)}"
        )


@timed
async def test_sign_in_replaces_a_stored_token_that_is_no_longer_accepted() -> None:
    async with a_world() as world:
        world.issuing.gives_refresh = False
        auth = signer(world)
        await auth.challenged(world.client, world.server.refuse())
        first = await bearer(auth, world)
        world.clock.now += 60
        world.server.routes["GET", "/mcp"] = lambda request: Response(401)
        await auth.sign_in(world.client, world.server.endpoint)
        assert await bearer(auth, world) != first


@timed
async def test_sign_in_trusts_metadata_where_a_get_is_not_refused() -> None:
    async with a_world() as world:
        world.server.routes["GET", "/mcp"] = lambda request: Response(405)
        auth = signer(world)
        await auth.sign_in(world.client, world.server.endpoint)
        assert await bearer(auth, world)


@timed
async def test_sign_in_leaves_a_server_alone_that_wants_nobody() -> None:
    async with a_world() as world:
        world.server.routes.clear()
        world.server.routes["GET", "/mcp"] = lambda request: Response(endless=True)
        auth = signer(world)
        await auth.sign_in(world.client, world.server.endpoint)
        assert await auth.headers(world.client, world.server.endpoint) == ()
        assert world.browser.visits == []


@timed
async def test_one_authorizer_serves_several_servers() -> None:
    async with a_world() as world, a_world() as other:
        auth = signer(world, redirect=Browser())
        await auth.challenged(world.client, world.server.refuse())
        await auth.challenged(other.client, other.server.refuse())
        one = await bearer(auth, world)
        two = await bearer(auth, other)
        assert one in world.issuing.access_tokens
        assert two in other.issuing.access_tokens
        await auth.headers(world.client, world.server.endpoint)
        assert all(two not in str(request.headers) for request in world.issuing.requests)
