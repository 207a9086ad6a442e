"""What every grant has in common: scopes and step-up, refresh, one at a time, and when to give up.

The store, and signing in beforehand, are in `test_authorizer_store`.
"""

import asyncio
import contextlib
import json
from typing import Any

import pytest

from jackstay.errors import TransportError
from jackstay.oauth import AuthorizationError, Identity, MemoryStore
from jackstay.oauth._authorizer import FRESH_SECONDS, GRANTS_WINDOW, MAX_GRANTS
from jackstay.transport import Challenge
from scripted.loop import timed
from scripted.oauth import AuthorizationSite, Request, Response, a_world, bearer, grants, signer

# --- what is ours ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "challenge",
    [
        ("401", 'Basic realm="x"'),
        ("401", "Negotiate"),
        ("403", "Bearer"),
        ("403", 'Bearer error="invalid_token"'),
        ("403", ""),
    ],
)
@timed
async def test_a_refusal_about_something_else_is_none_of_ours(challenge: tuple[str, str]) -> None:
    async with a_world() as world:
        status, field = challenge
        asked = Challenge(world.server.endpoint, int(status), (field,) if field else ())
        assert await signer(world).challenged(world.client, asked) is False
        assert world.client.sent == []


@timed
async def test_a_bare_401_is_ours() -> None:
    """2025-03-26: servers answer 401 and say no more."""
    async with a_world() as world:
        assert await signer(world).challenged(world.client, Challenge(world.server.endpoint, 401))


# --- scopes ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("demanded", "published", "listed", "expected"),
    [
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
    ],
)
@timed
async def test_scopes_are_what_is_demanded_else_what_is_supported_else_none(
    demanded: str, published: Any, listed: Any, expected: str | None
) -> None:
    """C scopes, and `offline_access` only where the authorization server lists it."""
    async with a_world() as world:
        world.server.publish(world.issuing.issuer, scopes_supported=published)
        world.issuing.overrides["scopes_supported"] = listed
        await signer(world).challenged(world.client, world.server.refuse(scope=demanded))
        assert world.browser.query().get("scope") == expected
        assert world.browser.query().get("prompt") == ("consent" if "offline" in (expected or "") else None)


@timed
async def test_scopes_of_the_user_are_asked_for_as_well() -> None:
    async with a_world() as world:
        await signer(world, scopes="mine a").challenged(world.client, world.server.refuse(scope="a"))
        assert world.browser.query()["scope"] == "a mine"


@timed
async def test_step_up_asks_for_the_union_and_keeps_the_old_token_meanwhile() -> None:
    async with a_world() as world:
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
@timed
async def test_a_scope_that_was_asked_for_already_is_not_asked_for_again(again: str) -> None:
    """Bounded retries: conformance auth/scope-retry-limit."""
    async with a_world() as world:
        auth = signer(world)
        await auth.challenged(world.client, world.server.refuse(scope="read"))
        with pytest.raises(AuthorizationError, match="asked for already") as caught:
            await auth.challenged(world.client, world.server.refuse(403, "insufficient_scope", again))
        assert caught.value.error == "insufficient_scope"
        assert len(world.browser.visits) == 1


@timed
async def test_a_server_that_thinks_of_another_scope_each_time_comes_to_an_end() -> None:
    async with a_world() as world:
        auth = signer(world)
        for number in range(MAX_GRANTS):
            await auth.challenged(world.client, world.server.refuse(403, "insufficient_scope", f"s{number}"))
        with pytest.raises(AuthorizationError, match="still refuses") as caught:
            await auth.challenged(world.client, world.server.refuse(403, "insufficient_scope", "more"))
        assert caught.value.permanent is False
        assert len(world.browser.visits) == MAX_GRANTS
        world.clock.now += GRANTS_WINDOW
        assert await auth.challenged(world.client, world.server.refuse(403, "insufficient_scope", "more"))


@timed
async def test_a_token_refused_as_soon_as_it_was_given_opens_no_second_page() -> None:
    async with a_world() as world:
        world.issuing.gives_refresh = False
        auth = signer(world)
        await auth.challenged(world.client, world.server.refuse())
        with pytest.raises(AuthorizationError, match="has just given") as caught:
            await auth.challenged(world.client, world.server.refuse(error="invalid_token"))
        assert caught.value.permanent is False
        assert len(world.browser.visits) == 1
        world.clock.now += FRESH_SECONDS
        assert await auth.challenged(world.client, world.server.refuse(error="invalid_token"))


# --- refresh --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rotates", [True, False])
@timed
async def test_a_token_is_refreshed_before_it_ends_and_nobody_is_asked(rotates: bool) -> None:
    """Rotating refresh tokens are replaced, others are kept. The clock is early by the margin."""
    async with a_world() as world:
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


@timed
async def test_a_short_token_is_not_due_at_once() -> None:
    async with a_world() as world:
        world.issuing.lifetime = 20
        auth = signer(world)
        await auth.challenged(world.client, world.server.refuse())
        first = await bearer(auth, world)
        world.clock.now += 17
        assert await bearer(auth, world) == first
        world.clock.now += 1.5
        assert await bearer(auth, world) != first


@timed
async def test_many_who_need_a_refresh_cause_one() -> None:
    async with a_world() as world:
        auth = signer(world)
        await auth.challenged(world.client, world.server.refuse())
        world.clock.now += 3600
        got = await asyncio.gather(*(bearer(auth, world) for _ in range(20)))
        assert len(set(got)) == 1
        assert grants(world).count("refresh_token") == 1


@timed
async def test_a_revoked_token_is_refreshed_before_anybody_is_asked() -> None:
    async with a_world() as world:
        auth = signer(world)
        await auth.challenged(world.client, world.server.refuse())
        first = await bearer(auth, world)
        assert await auth.challenged(world.client, world.server.refuse(error="invalid_token"))
        assert await bearer(auth, world) != first
        assert len(world.browser.visits) == 1


@timed
async def test_a_spent_refresh_token_means_signing_in_again() -> None:
    async with a_world() as world:
        auth = signer(world)
        await auth.challenged(world.client, world.server.refuse(scope="a"))
        first = await bearer(auth, world)
        world.issuing.refresh_tokens.clear()
        world.clock.now += 3600
        assert await bearer(auth, world) == first, "the server is asked with what there is, and says 401"
        assert await bearer(auth, world) == first
        assert grants(world) == ["authorization_code", "refresh_token"], "a spent one is not tried again"
        assert await auth.challenged(world.client, world.server.refuse(scope="a"))
        assert await bearer(auth, world) != first
        assert len(world.browser.visits) == 2


@timed
async def test_a_registration_that_a_refresh_shows_to_be_gone_is_made_anew() -> None:
    async with a_world() as world:
        auth = signer(world)
        await auth.challenged(world.client, world.server.refuse())
        world.issuing.registered.clear()
        world.clock.now += 3600
        await auth.headers(world.client, world.server.endpoint)
        assert await auth.challenged(world.client, world.server.refuse())
        assert len(world.issuing.got("POST", "/register")) == 2


@timed
async def test_an_issuer_that_is_down_is_no_reason_to_sign_in_again(caplog: pytest.LogCaptureFixture) -> None:
    """What still counts is sent; what has ended is a passing error; the refresh token is kept."""
    async with a_world() as world:
        auth = signer(world)
        await auth.challenged(world.client, world.server.refuse())
        first = await bearer(auth, world)
        token = world.issuing.routes["POST", "/token"]
        world.issuing.routes["POST", "/token"] = lambda request: Response(503)
        world.clock.now += 3600 - 10
        assert await bearer(auth, world) == first
        assert "will end soon" in caplog.text
        world.clock.now += 10
        with pytest.raises(TransportError, match="HTTP 503") as caught:
            await bearer(auth, world)
        assert caught.value.permanent is False
        assert not isinstance(caught.value, AuthorizationError)
        world.issuing.routes["POST", "/token"] = token
        assert await bearer(auth, world) != first
        assert len(world.browser.visits) == 1


@timed
async def test_a_token_without_a_refresh_token_is_used_until_the_server_says_no() -> None:
    async with a_world() as world:
        world.issuing.gives_refresh = False
        auth = signer(world)
        await auth.challenged(world.client, world.server.refuse())
        first = await bearer(auth, world)
        world.clock.now += 7200
        assert await bearer(auth, world) == first
        assert grants(world) == ["authorization_code"]


@timed
async def test_a_server_that_refuses_every_refreshed_token_comes_to_an_end() -> None:
    async with a_world() as world:
        auth = signer(world)
        for _ in range(MAX_GRANTS):
            assert await auth.challenged(world.client, world.server.refuse(error="invalid_token"))
        with pytest.raises(AuthorizationError, match="still refuses"):
            await auth.challenged(world.client, world.server.refuse(error="invalid_token"))
        assert grants(world) == ["authorization_code"] + ["refresh_token"] * (MAX_GRANTS - 1)


@timed
async def test_a_refresh_token_that_is_refused_never_replaces_what_somebody_got_meanwhile() -> None:
    """Somebody signs in while the refresh token is used, which needs no lock: the result of that is kept and used."""
    async with a_world() as world:
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
        assert await bearer(auth, world), "what was got can be refreshed in its turn"
        assert len(world.browser.visits) == 1


@timed
async def test_authorizers_that_share_a_store_renew_one_at_a_time() -> None:
    async with a_world() as world:
        store = MemoryStore()
        auths = [signer(world, store=store) for _ in range(3)]
        await auths[0].challenged(world.client, world.server.refuse())
        world.clock.now += 3600
        tokens = await asyncio.gather(*(bearer(auth, world) for auth in auths))
        assert len(set(tokens)) == 1
        assert grants(world) == ["authorization_code", "refresh_token"]


@timed
async def test_a_refresh_token_never_goes_to_the_issuer_that_a_server_names_later() -> None:
    """Its name is the same at both: only the issuer tells them apart."""
    url = "https://me.example/client.json"
    async with a_world() as world, AuthorizationSite() as evil:
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


# --- one at a time --------------------------------------------------------------------------------------------------------


@timed
async def test_many_refusals_at_once_open_one_page() -> None:
    async with a_world() as world:
        auth = signer(world)
        refusal = world.server.refuse()
        assert all(await asyncio.gather(*(auth.challenged(world.client, refusal) for _ in range(20))))
        assert len(world.browser.visits) == 1


@timed
async def test_two_step_ups_at_once_get_both_scopes() -> None:
    async with a_world() as world:
        auth = signer(world)
        await auth.challenged(world.client, world.server.refuse(scope="read"))
        refusals = [world.server.refuse(403, "insufficient_scope", scope) for scope in ("a", "b", "a")]
        assert all(await asyncio.gather(*(auth.challenged(world.client, refusal) for refusal in refusals)))
        assert world.issuing.access_tokens[await bearer(auth, world)] == {"read", "a", "b"}
        assert len(world.browser.visits) == 3


@timed
async def test_a_renewal_that_brought_nothing_is_no_answer_to_a_refusal() -> None:
    async with a_world() as world:
        auth = signer(world)
        await auth.challenged(world.client, world.server.refuse())
        first = await bearer(auth, world)
        world.issuing.refresh_tokens.clear()
        world.clock.now += 3600
        renewing = asyncio.create_task(bearer(auth, world))
        while auth._place(world.server.endpoint).getting is None:
            await asyncio.sleep(0)
        assert await auth.challenged(world.client, world.server.refuse())
        await renewing
        assert await bearer(auth, world) != first


@timed
async def test_a_caller_that_is_cancelled_with_the_sign_in_is_cancelled() -> None:
    async with a_world() as world:
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


@timed
async def test_who_comes_during_a_sign_in_waits_for_it() -> None:
    async with a_world() as world:
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


@timed
async def test_a_call_that_runs_out_of_time_does_not_end_the_sign_in() -> None:
    async with a_world() as world:
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


@timed
async def test_everybody_who_waits_for_a_failing_sign_in_hears_of_it_and_the_next_may_try() -> None:
    async with a_world() as world:
        world.issuing.iss = "other"
        auth = signer(world)
        refusal = world.server.refuse()
        got = await asyncio.gather(
            *(auth.challenged(world.client, refusal) for _ in range(3)), return_exceptions=True
        )
        assert [type(error) for error in got] == [AuthorizationError] * 3
        assert len(world.browser.visits) == 1
        world.issuing.iss = "right"
        assert await auth.challenged(world.client, refusal)


@timed
async def test_a_sign_in_that_is_cancelled_by_the_end_of_the_loop_is_an_error_to_who_waits() -> None:
    async with a_world() as world:
        auth = signer(world)
        world.browser.may_return.clear()
        signing = asyncio.create_task(auth.challenged(world.client, world.server.refuse()))
        while not world.browser.visits:
            await asyncio.sleep(0)
        (task,) = [task for task in asyncio.all_tasks() if task.get_name() == "jackstay-oauth"]
        task.cancel()
        with pytest.raises(AuthorizationError, match="cancelled"):
            await signing
