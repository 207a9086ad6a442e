"""The part that all grants share: scopes and step-up, refresh, sharing of one sign-in, and limits.

The store and `sign_in()` are in `test_authorizer_store`.
"""

import asyncio
import contextlib
import json
from typing import Any

import pytest

from jackstay.errors import TransportError, UsageError
from jackstay.oauth import AuthorizationError, Identity, MemoryStore
from jackstay.oauth._authorizer import FRESH_SECONDS, GRANTS_WINDOW, MAX_GRANTS
from jackstay.transport import Challenge
from scripted.oauth import AuthorizationSite, Request, Response, bearer, grants, oauth_world, signer

# --- challenges -------------------------------------------------------------------------------------------------------


async def test_a_challenge_of_another_scheme_is_not_handled() -> None:
    async with oauth_world() as world:
        for status, field in (
            (401, 'Basic realm="x"'),
            (401, "Negotiate"),
            (403, "Bearer"),
            (403, 'Bearer error="invalid_token"'),
            (403, ""),
        ):
            challenge = Challenge(world.server.endpoint, status, (field,) if field else ())
            assert await signer(world).challenged(world.client, challenge) is False, field
        assert world.client.sent == []


async def test_a_bare_401_counts_as_a_bearer_challenge() -> None:
    """2025-03-26 servers send a 401 without a challenge."""
    async with oauth_world() as world:
        assert await signer(world).challenged(world.client, Challenge(world.server.endpoint, 401))


# --- scopes -----------------------------------------------------------------------------------------------------------


async def test_scopes_are_the_required_ones_else_the_supported_ones_else_none() -> None:
    """`offline_access` is requested only if the authorization server lists it."""
    cases: list[tuple[str, Any, Any, str | None]] = [
        ("a b", ["c"], None, "a b"),
        ("", ["c", "d"], None, "c d"),
        ("", None, None, None),
        ("", None, ["offline_access"], None),
        ("a", None, ["a", "offline_access"], "a offline_access"),
        ("a", None, ["a"], "a"),
        ("a offline_access", None, ["a"], "a"),
        ("a offline_access", None, None, "a"),
        ("", ["offline_access", "c"], ["offline_access"], "c offline_access"),
        ("", ["c\x1b", "d e", 'f"'], None, "d e"),
    ]
    for required, published, listed, expected in cases:
        async with oauth_world() as world:
            world.server.publish(world.issuing.issuer, scopes_supported=published)
            world.issuing.overrides["scopes_supported"] = listed
            await signer(world).challenged(world.client, world.server.refuse(scope=required))
            assert world.browser.query().get("scope") == expected, (required, published, listed)
            assert world.browser.query().get("prompt") == ("consent" if "offline" in (expected or "") else None)


async def test_extra_scopes_are_requested_as_well() -> None:
    async with oauth_world() as world:
        await signer(world, scopes="extra a").challenged(world.client, world.server.refuse(scope="a"))
        assert world.browser.query()["scope"] == "a extra"


async def test_step_up_requests_all_scopes_and_keeps_the_old_token_meanwhile() -> None:
    async with oauth_world() as world:
        auth = signer(world)
        await auth.challenged(world.client, world.server.refuse(scope="read"))
        first = await bearer(auth, world)
        world.browser.may_return.clear()
        stepping = asyncio.create_task(
            auth.challenged(world.client, world.server.refuse(403, "insufficient_scope", "write"))
        )
        while len(world.browser.visits) < 2:
            await asyncio.sleep(0)
        assert await bearer(auth, world) == first
        world.browser.may_return.set()
        assert await stepping
        second = await bearer(auth, world)
        assert world.browser.query()["scope"] == "read write"
        assert world.issuing.access_tokens[second] == {"read", "write"}
        assert grants(world) == ["authorization_code"] * 2, "a refresh cannot widen scopes"


@pytest.mark.parametrize("again", ["read", ""])
async def test_a_scope_that_was_requested_is_not_requested_again(again: str) -> None:
    async with oauth_world() as world:
        auth = signer(world)
        await auth.challenged(world.client, world.server.refuse(scope="read"))
        with pytest.raises(AuthorizationError, match="already requested") as caught:
            await auth.challenged(world.client, world.server.refuse(403, "insufficient_scope", again))
        assert caught.value.error == "insufficient_scope"
        assert len(world.browser.visits) == 1


async def test_repeated_sign_ins_for_new_scopes_are_limited() -> None:
    async with oauth_world() as world:
        auth = signer(world)
        for number in range(MAX_GRANTS):
            await auth.challenged(world.client, world.server.refuse(403, "insufficient_scope", f"s{number}"))
        with pytest.raises(AuthorizationError, match="the server rejected 5 tokens") as caught:
            await auth.challenged(world.client, world.server.refuse(403, "insufficient_scope", "more"))
        assert caught.value.permanent is False
        assert len(world.browser.visits) == MAX_GRANTS
        world.clock.now += GRANTS_WINDOW
        assert await auth.challenged(world.client, world.server.refuse(403, "insufficient_scope", "more"))


async def test_a_token_rejected_right_after_its_issue_opens_no_second_page() -> None:
    async with oauth_world() as world:
        world.issuing.issues_refresh_tokens = False
        auth = signer(world)
        await auth.challenged(world.client, world.server.refuse())
        with pytest.raises(AuthorizationError, match="just issued") as caught:
            await auth.challenged(world.client, world.server.refuse(error="invalid_token"))
        assert caught.value.permanent is False
        assert len(world.browser.visits) == 1
        world.clock.now += FRESH_SECONDS
        assert await auth.challenged(world.client, world.server.refuse(error="invalid_token"))


# --- refresh ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rotates", [True, False])
async def test_a_token_is_refreshed_before_it_expires_without_a_sign_in(rotates: bool) -> None:
    """Rotating refresh tokens are replaced, others are kept."""
    async with oauth_world() as world:
        world.issuing.rotates = rotates
        auth = signer(world)
        await auth.challenged(world.client, world.server.refuse(scope="a"))
        first = await bearer(auth, world)
        world.clock.now += 3600 - 31
        assert await bearer(auth, world) == first
        seen = {first}
        for _ in range(3):
            world.clock.now += 3600
            seen.add(await bearer(auth, world))
        assert len(seen) == 4
        assert grants(world) == ["authorization_code"] + ["refresh_token"] * 3
        assert all(request.form["resource"] for request in world.issuing.got("POST", "/token"))
        assert len(world.browser.visits) == 1


async def test_a_short_lived_token_is_not_refreshed_at_once() -> None:
    async with oauth_world() as world:
        world.issuing.lifetime = 20
        auth = signer(world)
        await auth.challenged(world.client, world.server.refuse())
        first = await bearer(auth, world)
        world.clock.now += 17
        assert await bearer(auth, world) == first
        world.clock.now += 1.5
        assert await bearer(auth, world) != first


async def test_concurrent_refreshes_are_shared() -> None:
    async with oauth_world() as world:
        auth = signer(world)
        await auth.challenged(world.client, world.server.refuse())
        world.clock.now += 3600
        got = await asyncio.gather(*(bearer(auth, world) for _ in range(20)))
        assert len(set(got)) == 1
        assert grants(world).count("refresh_token") == 1


async def test_a_revoked_token_is_refreshed_before_a_sign_in() -> None:
    async with oauth_world() as world:
        auth = signer(world)
        await auth.challenged(world.client, world.server.refuse())
        first = await bearer(auth, world)
        assert await auth.challenged(world.client, world.server.refuse(error="invalid_token"))
        assert await bearer(auth, world) != first
        assert len(world.browser.visits) == 1


async def test_a_used_refresh_token_leads_to_a_sign_in() -> None:
    async with oauth_world() as world:
        auth = signer(world)
        await auth.challenged(world.client, world.server.refuse(scope="a"))
        first = await bearer(auth, world)
        world.issuing.refresh_tokens.clear()
        world.clock.now += 3600
        assert await bearer(auth, world) == first, "the old token is sent until the server rejects it"
        assert await bearer(auth, world) == first
        assert grants(world) == ["authorization_code", "refresh_token"], "a used refresh token is not tried again"
        assert await auth.challenged(world.client, world.server.refuse(scope="a"))
        assert await bearer(auth, world) != first
        assert len(world.browser.visits) == 2


async def test_a_deleted_registration_is_renewed() -> None:
    async with oauth_world() as world:
        auth = signer(world)
        await auth.challenged(world.client, world.server.refuse())
        world.issuing.registered.clear()
        world.clock.now += 3600
        await auth.headers(world.client, world.server.endpoint)
        assert await auth.challenged(world.client, world.server.refuse())
        assert len(world.issuing.got("POST", "/register")) == 2


async def test_an_unavailable_issuer_causes_no_sign_in(caplog: pytest.LogCaptureFixture) -> None:
    """A valid token is sent, an expired one is a transient error, and the refresh token is kept."""
    async with oauth_world() as world:
        auth = signer(world)
        await auth.challenged(world.client, world.server.refuse())
        first = await bearer(auth, world)
        token = world.issuing.routes["POST", "/token"]
        world.issuing.routes["POST", "/token"] = lambda request: Response(503)
        world.clock.now += 3600 - 10
        assert await bearer(auth, world) == first
        assert "expires soon" in caplog.text
        world.clock.now += 10
        with pytest.raises(TransportError, match="HTTP 503") as caught:
            await bearer(auth, world)
        assert caught.value.permanent is False
        assert not isinstance(caught.value, AuthorizationError)
        world.issuing.routes["POST", "/token"] = token
        assert await bearer(auth, world) != first
        assert len(world.browser.visits) == 1


async def test_a_refreshed_token_that_cannot_be_stored_is_used(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a full disk. The failure is logged once, not for every refresh."""
    async with oauth_world() as world:
        auth = signer(world)
        await auth.challenged(world.client, world.server.refuse())
        seen = {await bearer(auth, world)}

        async def refuse(key: str, value: bytes | None) -> None:
            raise UsageError("no space left on device", path="path")

        monkeypatch.setattr(auth.store, "save", refuse)
        for _ in range(2):
            world.clock.now += 3600
            seen.add(await bearer(auth, world))
        assert len(seen) == 3
        assert caplog.text.count("no space left on device") == 1
        assert len(world.browser.visits) == 1


async def test_a_token_without_a_refresh_token_is_used_until_it_is_rejected() -> None:
    async with oauth_world() as world:
        world.issuing.issues_refresh_tokens = False
        auth = signer(world)
        await auth.challenged(world.client, world.server.refuse())
        first = await bearer(auth, world)
        world.clock.now += 7200
        assert await bearer(auth, world) == first
        assert grants(world) == ["authorization_code"]


async def test_refreshes_for_a_server_that_rejects_every_token_are_limited() -> None:
    async with oauth_world() as world:
        auth = signer(world)
        for _ in range(MAX_GRANTS):
            assert await auth.challenged(world.client, world.server.refuse(error="invalid_token"))
        with pytest.raises(AuthorizationError, match="the server rejected 5 tokens"):
            await auth.challenged(world.client, world.server.refuse(error="invalid_token"))
        assert grants(world) == ["authorization_code"] + ["refresh_token"] * (MAX_GRANTS - 1)


async def test_a_rejected_refresh_does_not_replace_newer_tokens() -> None:
    """Another program signs in during the refresh, which needs no lock."""
    async with oauth_world() as world:
        store = MemoryStore()
        auth = signer(world, store=store)
        await auth.challenged(world.client, world.server.refuse())
        (key,) = [key for key in store._entries if key.startswith("tokens ")]
        world.clock.now += 3600
        token = world.issuing.routes["POST", "/token"]

        async def overtaken(request: Request) -> Response:
            world.issuing.routes["POST", "/token"] = token
            answer = world.issuing.issue("")
            tokens = json.loads(store._entries[key])
            tokens |= {"access_token": answer["access_token"], "refresh_token": answer["refresh_token"]}
            tokens |= {"obtained_at": world.clock.now, "expires_at": world.clock.now + 3600}
            await store.save(key, json.dumps(tokens).encode())
            return Response(400, {"error": "invalid_grant"})

        world.issuing.routes["POST", "/token"] = overtaken
        assert await bearer(auth, world) == json.loads(store._entries[key])["access_token"]
        world.clock.now += 3600
        assert await bearer(auth, world), "the newer token can be refreshed as well"
        assert len(world.browser.visits) == 1


async def test_authorizers_that_share_a_store_refresh_one_at_a_time() -> None:
    async with oauth_world() as world:
        store = MemoryStore()
        auths = [signer(world, store=store) for _ in range(3)]
        await auths[0].challenged(world.client, world.server.refuse())
        world.clock.now += 3600
        tokens = await asyncio.gather(*(bearer(auth, world) for auth in auths))
        assert len(set(tokens)) == 1
        assert grants(world) == ["authorization_code", "refresh_token"]


async def test_a_refresh_token_never_goes_to_the_issuer_that_a_server_names_later() -> None:
    """The client id is the same at both issuers."""
    url = "https://me.example/client.json"
    async with oauth_world() as world, AuthorizationSite() as evil:
        for site in (world.issuing, evil):
            site.overrides["client_id_metadata_document_supported"] = True
            site.registered[url] = {"token_endpoint_auth_method": "none"}
        evil.iss = "other"
        auth = signer(world, Identity(metadata_url=url))
        await auth.challenged(world.client, world.server.refuse())
        world.server.publish(evil.issuer)
        with pytest.raises(AuthorizationError):
            await auth.challenged(world.client, world.server.refuse())
        world.clock.now += 3600
        assert await bearer(auth, world) in world.issuing.access_tokens
        assert grants(world) == ["authorization_code", "refresh_token"]
        assert evil.got("POST", "/token") == []


# --- sharing one sign-in ----------------------------------------------------------------------------------------------


async def test_concurrent_challenges_open_one_page() -> None:
    async with oauth_world() as world:
        auth = signer(world)
        challenge = world.server.refuse()
        assert all(await asyncio.gather(*(auth.challenged(world.client, challenge) for _ in range(20))))
        assert len(world.browser.visits) == 1


async def test_two_step_ups_at_once_get_both_scopes() -> None:
    async with oauth_world() as world:
        auth = signer(world)
        await auth.challenged(world.client, world.server.refuse(scope="read"))
        challenges = [world.server.refuse(403, "insufficient_scope", scope) for scope in ("a", "b", "a")]
        assert all(await asyncio.gather(*(auth.challenged(world.client, challenge) for challenge in challenges)))
        assert world.issuing.access_tokens[await bearer(auth, world)] == {"read", "a", "b"}
        assert len(world.browser.visits) == 3


async def test_a_refresh_without_a_new_token_does_not_answer_a_challenge() -> None:
    async with oauth_world() as world:
        auth = signer(world)
        await auth.challenged(world.client, world.server.refuse())
        first = await bearer(auth, world)
        world.issuing.refresh_tokens.clear()
        world.clock.now += 3600
        renewing = asyncio.create_task(bearer(auth, world))
        while auth._server_state(world.server.endpoint).pending is None:
            await asyncio.sleep(0)
        assert await auth.challenged(world.client, world.server.refuse())
        await renewing
        assert await bearer(auth, world) != first


async def test_a_caller_that_is_cancelled_with_the_sign_in_is_cancelled() -> None:
    async with oauth_world() as world:
        auth = signer(world)
        world.browser.may_return.clear()
        signing = asyncio.create_task(auth.challenged(world.client, world.server.refuse()))
        while not world.browser.visits:
            await asyncio.sleep(0)
        for task in asyncio.all_tasks():
            if task is signing or task.get_name() == "jackstay-oauth":
                task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await signing


async def test_requests_during_a_sign_in_wait_for_it() -> None:
    async with oauth_world() as world:
        auth = signer(world)
        world.browser.may_return.clear()
        signing = asyncio.create_task(auth.challenged(world.client, world.server.refuse()))
        while not world.browser.visits:
            await asyncio.sleep(0)
        waiting = asyncio.create_task(bearer(auth, world))
        await asyncio.sleep(0)
        assert not waiting.done()
        world.browser.may_return.set()
        await signing
        assert await waiting in world.issuing.access_tokens


async def test_a_call_that_runs_out_of_time_does_not_end_the_sign_in() -> None:
    async with oauth_world() as world:
        auth = signer(world)
        world.browser.may_return.clear()
        signing = asyncio.create_task(auth.challenged(world.client, world.server.refuse()))
        while not world.browser.visits:
            await asyncio.sleep(0)
        signing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await signing
        assert signing.cancelled()
        again = asyncio.create_task(auth.challenged(world.client, world.server.refuse()))
        world.browser.may_return.set()
        assert await again
        assert len(world.browser.visits) == 1


async def test_all_waiters_of_a_failed_sign_in_get_the_error_and_the_next_may_retry() -> None:
    async with oauth_world() as world:
        world.issuing.iss = "other"
        auth = signer(world)
        challenge = world.server.refuse()
        got = await asyncio.gather(
            *(auth.challenged(world.client, challenge) for _ in range(3)), return_exceptions=True
        )
        assert [type(error) for error in got] == [AuthorizationError] * 3
        assert len(world.browser.visits) == 1
        world.issuing.iss = "right"
        assert await auth.challenged(world.client, challenge)


async def test_a_sign_in_cancelled_by_the_end_of_the_loop_raises_for_its_waiters() -> None:
    async with oauth_world() as world:
        auth = signer(world)
        world.browser.may_return.clear()
        signing = asyncio.create_task(auth.challenged(world.client, world.server.refuse()))
        while not world.browser.visits:
            await asyncio.sleep(0)
        (task,) = [task for task in asyncio.all_tasks() if task.get_name() == "jackstay-oauth"]
        task.cancel()
        with pytest.raises(AuthorizationError, match="cancelled"):
            await signing
