"""Signing people in: the whole flow against a real authorization server and a real server, on loopback.

Rules: 2026-07-28 basic/authorization and its sub-pages; design "C discovery", "C registration", "C flow", "C iss", "C scopes".
"""

import asyncio
import logging
from typing import Any
from urllib.parse import urlsplit

import pytest

from jackstay.errors import UsageError
from jackstay.oauth import AuthorizationError, Identity, MemoryStore, OAuth
from jackstay.oauth._identity import RegisteredClient
from jackstay.oauth._listener import free_port
from jackstay.oauth._oauth import _usable_uri
from jackstay.transport import Authorizer
from scripted.loop import timed
from scripted.oauth import (
    REDIRECT_URI,
    AuthorizationSite,
    PlainClient,
    Request,
    Response,
    a_world,
    bearer,
    grants,
    signer,
)


def test_it_is_an_authorizer() -> None:
    assert isinstance(OAuth(), Authorizer)


@timed
async def test_a_refusal_leads_to_a_sign_in_and_a_bearer_header() -> None:
    """C flow: PKCE (the site checks it), `resource` on both requests, state, one registration, a token."""
    async with a_world() as world:
        auth = signer(world)
        assert await auth.headers(world.client, world.server.endpoint) == ()
        assert await auth.challenged(world.client, world.server.refuse())
        assert await bearer(auth, world) in world.issuing.access_tokens
        assert world.browser.query()["resource"] == world.server.endpoint
        (asked,) = world.issuing.got("POST", "/token")
        assert asked.form["resource"] == world.server.endpoint
        assert asked.form["client_id"] == "client-1"
        (registration,) = world.issuing.got("POST", "/register")
        assert registration.json == {
            "client_name": "Jackstay",
            "redirect_uris": [REDIRECT_URI],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
            "application_type": "native",
        }
        assert "scope" not in world.browser.query()


@timed
async def test_a_token_goes_to_the_server_it_was_got_for_and_to_no_other() -> None:
    async with a_world() as world:
        auth = signer(world)
        await auth.challenged(world.client, world.server.refuse())
        assert await auth.headers(world.client, f"{world.server.url}/other") == ()
        assert await auth.headers(world.client, "https://elsewhere.example/mcp") == ()
        assert await auth.headers(world.client, f"{world.server.endpoint}#part")


@timed
async def test_tokens_stand_in_headers_and_never_in_urls() -> None:
    async with a_world() as world:
        auth = signer(world)
        await auth.challenged(world.client, world.server.refuse())
        token = await bearer(auth, world)
        assert all(token not in url and "code-" not in url for _, url, _, _ in world.client.sent)


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post", "none"])
@timed
async def test_the_method_that_the_token_endpoint_supports_is_the_one_used(method: str) -> None:
    """C flow: the site refuses a client that proves itself otherwise; its secrets have a colon and a percent sign."""
    async with a_world() as world:
        world.issuing.overrides["token_endpoint_auth_methods_supported"] = [method]
        auth = signer(world)
        assert await auth.challenged(world.client, world.server.refuse())
        (asked,) = world.issuing.got("POST", "/token")
        assert ("authorization" in asked.headers) == (method == "client_secret_basic")
        assert ("client_secret" in asked.form) == (method == "client_secret_post")


@timed
async def test_what_was_given_goes_before_what_could_be_registered() -> None:
    """C registration: pre-registered first, also where a document and an endpoint are there."""
    async with a_world() as world:
        world.issuing.overrides["client_id_metadata_document_supported"] = True
        world.issuing.registered["mine"] = {
            "client_secret": "s",
            "token_endpoint_auth_method": "client_secret_basic",
        }
        world.issuing.overrides["token_endpoint_auth_methods_supported"] = ["client_secret_basic"]
        identity = Identity(
            client_id="mine",
            client_secret="s",
            issuer=world.issuing.issuer,
            metadata_url="https://me.example/client.json",
        )
        auth = signer(world, identity)
        await auth.challenged(world.client, world.server.refuse())
        assert world.browser.query()["client_id"] == "mine"
        assert world.issuing.got("POST", "/register") == []


@timed
async def test_a_metadata_document_goes_before_registration_where_the_server_reads_such() -> None:
    async with a_world() as world:
        world.issuing.overrides["client_id_metadata_document_supported"] = True
        url = "https://me.example/client.json"
        world.issuing.registered[url] = {"token_endpoint_auth_method": "none"}
        auth = signer(world, Identity(metadata_url=url))
        await auth.challenged(world.client, world.server.refuse())
        assert world.browser.query()["client_id"] == url
        assert world.issuing.got("POST", "/register") == []


@timed
async def test_a_metadata_document_is_no_use_where_the_server_does_not_read_it() -> None:
    async with a_world() as world:
        auth = signer(world, Identity(metadata_url="https://me.example/client.json"))
        await auth.challenged(world.client, world.server.refuse())
        assert world.browser.query()["client_id"] == "client-1"


@timed
async def test_where_nothing_can_be_registered_the_error_says_what_to_give() -> None:
    async with a_world() as world:
        world.issuing.overrides |= {
            "registration_endpoint": None,
            "client_id_metadata_document_supported": True,
        }
        with pytest.raises(AuthorizationError, match=r"metadata_url=.*client_id=") as caught:
            await signer(world).challenged(world.client, world.server.refuse())
        assert caught.value.permanent
        assert caught.value.may_have_run is False
        assert caught.value.issuer == world.issuing.issuer
        assert world.browser.visits == []


@timed
async def test_a_client_of_another_issuer_is_not_used_here() -> None:
    """Credentials are keyed by issuer: the program registers itself instead, and the secret goes nowhere."""
    async with a_world() as world:
        identity = Identity(client_id="mine", client_secret="very-secret", issuer="https://other.example")
        auth = signer(world, identity)
        await auth.challenged(world.client, world.server.refuse())
        assert world.browser.query()["client_id"] == "client-1"
        assert all(b"very-secret" not in body for _, _, _, body in world.client.sent)


@timed
async def test_another_authorization_server_means_another_registration() -> None:
    """C registration, "Authorization Server Binding": nothing of the first is shown to the second."""
    async with a_world() as world, AuthorizationSite() as second:
        auth = signer(world)
        await auth.challenged(world.client, world.server.refuse())
        first = await bearer(auth, world)
        second.number = 100
        world.server.publish(second.issuer)
        assert await auth.challenged(world.client, world.server.refuse(error="invalid_token"))
        assert world.browser.query()["client_id"] == "client-101"
        assert await bearer(auth, world) in second.access_tokens
        shown = " ".join(f"{r.query} {r.headers} {r.body!r}" for r in second.requests)
        assert "client-1'" not in shown
        assert first not in shown
        assert "refresh-" not in shown


@timed
async def test_a_client_given_without_its_issuer_stays_with_the_first() -> None:
    async with a_world() as world, AuthorizationSite() as second:
        given = {"token_endpoint_auth_method": "none"}
        world.issuing.registered["mine"] = second.registered["mine"] = given
        world.issuing.overrides["token_endpoint_auth_methods_supported"] = ["client_secret_basic"]
        auth = signer(world, Identity(client_id="mine"))
        await auth.challenged(world.client, world.server.refuse())
        world.server.publish(second.issuer)
        with pytest.raises(AuthorizationError, match=r"goes nowhere else.*Identity\(issuer="):
            await auth.challenged(world.client, world.server.refuse())
        assert second.got("POST", "/token") == []


@pytest.mark.parametrize("methods", [None, [], ["plain"]])
@timed
async def test_an_authorization_server_without_s256_is_refused_before_anything_is_registered(
    methods: Any,
) -> None:
    """2025-11-25 "Authorization Code Protection": MUST refuse to proceed."""
    async with a_world() as world:
        world.issuing.overrides["code_challenge_methods_supported"] = methods
        with pytest.raises(AuthorizationError, match="PKCE with S256"):
            await signer(world).challenged(world.client, world.server.refuse())
        assert world.browser.visits == []
        assert world.issuing.got("POST", "/register") == []


@pytest.mark.parametrize(("methods", "is_fine"), [(None, True), ([], False), (["plain"], False)])
@timed
async def test_pkce_that_is_not_listed_can_be_assumed_of_one_issuer(methods: Any, is_fine: bool) -> None:
    """Microsoft Entra ID and Amazon Cognito publish no list. A list without S256 is refused all the same."""
    async with a_world() as world:
        world.issuing.overrides["code_challenge_methods_supported"] = methods
        world.issuing.registered["mine"] = {"token_endpoint_auth_method": "none"}
        auth = signer(world, Identity(client_id="mine", issuer=world.issuing.issuer, assume_pkce=True))
        if is_fine:
            await auth.challenged(world.client, world.server.refuse())
            assert world.browser.query()["code_challenge_method"] == "S256"
            assert await bearer(auth, world)
        else:
            with pytest.raises(AuthorizationError, match="PKCE with S256"):
                await auth.challenged(world.client, world.server.refuse())


@timed
async def test_an_issuer_that_refuses_resource_gets_none_at_any_step() -> None:
    """Microsoft Entra ID: at the sign-in, for the code, and with every refresh."""
    async with a_world() as world:
        world.issuing.registered["mine"] = {"token_endpoint_auth_method": "none"}
        token = world.issuing.routes["POST", "/token"]

        def strict(request: Request) -> Response:
            if "resource" in request.form:
                return Response(400, {"error": "invalid_target"})
            return token(request)

        world.issuing.routes["POST", "/token"] = strict
        auth = signer(world, Identity(client_id="mine", issuer=world.issuing.issuer, send_resource=False))
        await auth.challenged(world.client, world.server.refuse())
        assert "resource" not in world.browser.query()
        world.clock.now += 3600
        assert await bearer(auth, world)
        assert grants(world) == ["authorization_code", "refresh_token"]


@timed
async def test_more_parameters_of_the_sign_in_are_sent_to_their_issuer() -> None:
    """Google gives refresh tokens for `access_type=offline`, Auth0 wants an `audience`."""
    async with a_world() as world:
        world.issuing.registered["mine"] = {"token_endpoint_auth_method": "none"}
        who = {"client_id": "mine", "issuer": world.issuing.issuer}
        identity = Identity(
            **who, audience="https://api.example", sign_in_parameters={"access_type": "offline"}
        )
        await signer(world, identity).challenged(world.client, world.server.refuse())
        query = world.browser.query()
        assert (query["access_type"], query["audience"]) == ("offline", "https://api.example")
        assert query["resource"] == world.server.endpoint


@pytest.mark.parametrize(
    ("promised", "sent", "is_fine"),
    [
        (True, "right", True),
        (None, "right", True),
        (None, "none", True),
        (False, "none", True),
        (True, "none", False),
        (True, "other", False),
        (None, "other", False),
        (False, "slash", False),
        (True, "slash", False),
    ],
)
@timed
async def test_the_issuer_of_an_answer_is_compared_as_it_is_spelled(
    promised: Any, sent: str, is_fine: bool
) -> None:
    """C iss: the rows of RFC 9207, 2.4 and of the specification's table."""
    async with a_world() as world:
        world.issuing.overrides["authorization_response_iss_parameter_supported"] = promised
        world.issuing.iss = sent
        auth = signer(world)
        if is_fine:
            assert await auth.challenged(world.client, world.server.refuse())
            return
        with pytest.raises(AuthorizationError, match="was not used"):
            await auth.challenged(world.client, world.server.refuse())
        assert world.issuing.got("POST", "/token") == []


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("code=c&state=other", "not the state"),
        ("code=c", "not the state"),
        ("", "not the state"),
        ("code=c&code=d&state={state}", "twice"),
        ("state={state}&iss={issuer}", "no code"),
        ("state={state}&iss={issuer}&code=", "no code"),
        (
            "error=access_denied&state={state}&iss={issuer}&error_description=no%0Ano",
            r"refused the sign-in.*no\\n",
        ),
        ("error=secret-of-evil&state={state}&iss=https://evil.example", "^(?!.*secret-of-evil)"),
    ],
)
@timed
async def test_an_answer_that_is_not_ours_or_is_none_ends_the_sign_in(answer: str, message: str) -> None:
    async with a_world() as world:
        issuer = world.issuing.issuer

        async def answers(url: str) -> str:
            state = await world.browser(url) and world.browser.query()["state"]
            return f"{REDIRECT_URI}?{answer.format(state=state, issuer=issuer)}"

        with pytest.raises(AuthorizationError, match=message):
            await signer(world, redirect=answers).challenged(world.client, world.server.refuse())
        assert world.issuing.got("POST", "/token") == []


@timed
async def test_what_the_user_refused_is_an_error_with_its_code() -> None:
    async with a_world() as world:

        async def refuses(url: str) -> str:
            await world.browser(url)
            query = f"error=access_denied&state={world.browser.query()['state']}&iss={world.issuing.issuer}"
            return f"{REDIRECT_URI}?{query}"

        with pytest.raises(AuthorizationError) as caught:
            await signer(world, redirect=refuses).challenged(world.client, world.server.refuse())
        assert caught.value.error == "access_denied"
        assert caught.value.issuer == world.issuing.issuer


@timed
async def test_what_was_registered_is_used_again_with_the_same_store() -> None:
    async with a_world() as world:
        store = MemoryStore()
        await signer(world, store=store).challenged(world.client, world.server.refuse())
        for key in [key for key in store._entries if key.startswith("tokens")]:
            await store.save(key, None)
        await signer(world, store=store).challenged(world.client, world.server.refuse())
        assert len(world.browser.visits) == 2
        assert len(world.issuing.got("POST", "/register")) == 1


@timed
async def test_another_way_back_or_an_expired_secret_means_registering_again() -> None:
    async with a_world() as world:
        store = MemoryStore()
        world.issuing.overrides["token_endpoint_auth_methods_supported"] = ["client_secret_post"]
        world.issuing.registration_extra = {"client_secret_expires_at": world.clock.now + 100}
        await signer(world, store=store).challenged(world.client, world.server.refuse())
        for number, (uri, later) in enumerate(((REDIRECT_URI + "2", 0), (REDIRECT_URI + "2", 200)), 2):
            world.clock.now += later
            for key in [key for key in store._entries if key.startswith("tokens")]:
                await store.save(key, None)
            await signer(world, store=store, redirect_uri=uri).challenged(world.client, world.server.refuse())
            assert len(world.issuing.got("POST", "/register")) == number


@timed
async def test_a_registration_that_the_issuer_forgot_is_forgotten_here_and_made_anew() -> None:
    async with a_world() as world:
        store = MemoryStore()
        world.issuing.gives_refresh = False
        auth = signer(world, store=store)
        await auth.challenged(world.client, world.server.refuse())
        world.issuing.registered.clear()
        world.clock.now += 600
        with pytest.raises(AuthorizationError, match="invalid_client"):
            await auth.challenged(world.client, world.server.refuse())
        assert await auth.challenged(world.client, world.server.refuse())
        assert len(world.issuing.got("POST", "/register")) == 2


@timed
async def test_a_sign_in_that_nobody_came_back_from_is_begun_with_a_new_registration() -> None:
    """An issuer that forgot the program tells the browser and nobody else."""
    async with a_world() as world:
        shown: list[str] = []
        auth = OAuth(show=shown.append, seconds=0.01, clock=world.clock)
        for _ in range(2):
            with pytest.raises(AuthorizationError, match="nobody finished"):
                await auth.challenged(world.client, world.server.refuse())
        assert len(world.issuing.got("POST", "/register")) == 2
        assert len(shown) == 2


@timed
async def test_a_registration_for_some_scopes_is_made_anew_for_others() -> None:
    """Step-up where the authorization server gives a client only what it was registered for."""
    async with a_world() as world:
        auth = signer(world)
        await auth.challenged(world.client, world.server.refuse(scope="a"))
        await auth.challenged(world.client, world.server.refuse(403, "insufficient_scope", "b"))
        scopes = [request.json["scope"] for request in world.issuing.got("POST", "/register")]
        assert scopes == ["a", "a b"]


@timed
async def test_people_come_back_through_the_listener() -> None:
    """For people: no redirect is given, so a page is shown and loopback listens for the way back."""
    async with a_world() as world:
        pages = []
        coming: list[asyncio.Task[None]] = []

        async def visit(url: str) -> None:
            here = await PlainClient().send("GET", url, (), None)
            await here.close()
            back = await PlainClient().send("GET", here.headers["location"], (), None)
            pages.append(b"".join([chunk async for chunk in back.chunks()]))
            await back.close()

        def show(url: str) -> None:
            coming.append(asyncio.create_task(visit(url)))

        auth = OAuth(show=show, clock=world.clock)
        assert await auth.challenged(world.client, world.server.refuse())
        await asyncio.gather(*coming)
        assert b"You can close this window" in pages[0]
        assert b"code-" not in pages[0]
        uri = world.issuing.got("POST", "/register")[0].json["redirect_uris"][0]
        assert urlsplit(uri).hostname == "127.0.0.1"
        assert urlsplit(uri).path == "/callback"
        assert await bearer(auth, world) in world.issuing.access_tokens


@timed
async def test_where_nobody_may_be_asked_only_what_is_stored_is_used() -> None:
    async with a_world() as world:
        store = MemoryStore()
        silent = OAuth(store=store, show=None, clock=world.clock)
        with pytest.raises(AuthorizationError, match="nobody may be asked") as caught:
            await silent.challenged(world.client, world.server.refuse())
        assert caught.value.error == "login_required"
        assert world.issuing.got("POST", "/register") == []
        await signer(world, store=store).challenged(world.client, world.server.refuse())
        assert await silent.challenged(world.client, world.server.refuse())
        world.clock.now += 3600
        assert await bearer(silent, world) in world.issuing.access_tokens


@timed
async def test_a_given_client_listens_at_a_port_of_its_own() -> None:
    """RFC 8252, 7.3: for a loopback redirect the port is the program's choice."""
    async with a_world() as world:
        world.issuing.registered["mine"] = {"token_endpoint_auth_method": "none"}
        shown: list[str] = []
        auth = OAuth(Identity(client_id="mine"), show=shown.append, seconds=0.01, clock=world.clock)
        with pytest.raises(AuthorizationError, match=r"within 0\.01 s"):
            await auth.challenged(world.client, world.server.refuse())
        assert "redirect_uri=http%3A%2F%2F127.0.0.1%3A" in shown[0]


def test_the_port_of_the_last_registration_is_used_while_it_is_free() -> None:
    """Many authorization servers compare the port as well, whatever RFC 8252 says."""
    uri = f"http://127.0.0.1:{free_port()}/callback"
    assert _usable_uri(RegisteredClient("i", "c", redirect_uri=uri)) == uri
    assert _usable_uri(RegisteredClient("i", "c", redirect_uri="https://web.example/back")) != uri
    assert _usable_uri(None).startswith("http://127.0.0.1:")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"redirect_uri": "http://example.org:80/x"}, "listener needs"),
        ({"redirect_uri": "https://127.0.0.1:1/x"}, "listener needs"),
        ({"redirect_uri": "http://127.0.0.1/x"}, "listener needs"),
        ({"redirect_uri": "http://127.0.0.1:1/x?y"}, "no query"),
        ({"redirect_uri": "http://me@127.0.0.1:1/x"}, "no query"),
        ({"redirect_uri": "http://example.org/x", "redirect": print}, "https, or on loopback"),
        ({"redirect": print}, "needs the redirect_uri"),
        ({"scopes": 'a"b'}, "printable ASCII"),
        ({"scopes": ("a b",)}, "printable ASCII"),
    ],
)
def test_options_that_cannot_be_are_refused_at_once(options: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        OAuth(**options)


def test_a_program_may_come_back_to_https() -> None:
    OAuth(redirect=print, redirect_uri="https://web.example/back")  # type: ignore[arg-type]  # never called


@timed
async def test_nothing_secret_is_logged_or_shown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with a_world() as world:
        world.issuing.overrides["token_endpoint_auth_methods_supported"] = ["client_secret_post"]
        store = MemoryStore()
        auth = signer(world, store=store)
        await auth.challenged(world.client, world.server.refuse())
        world.clock.now += 7200
        world.issuing.refresh_tokens.clear()
        await auth.challenged(world.client, world.server.refuse())
        world.issuing.routes["POST", "/token"] = lambda request: Response(400, {"error": "invalid_grant"})
        world.clock.now += 7200
        with pytest.raises(AuthorizationError) as caught:
            await auth.challenged(world.client, world.server.refuse())
        place = auth._place(world.server.endpoint)
        registered = RegisteredClient("i", "c", "secret:1%")
        shown = f"{caplog.text} {auth!r} {caught.value!r} {caught.value} {place.tokens!r} {store!r} {registered!r}"
        for secret in ("token-", "code-", "refresh-", "secret:", world.browser.query()["state"]):
            assert secret not in shown, secret


def test_it_says_how_long_somebody_may_be_asked() -> None:
    """`http()` waits so long with a start; where nobody can be asked there is nothing to wait for."""

    async def redirect(url: str) -> str:
        raise AssertionError("not asked")

    assert OAuth(seconds=120.0).patience == 120.0
    assert OAuth(show=None).patience == 0.0
    given = OAuth(show=None, redirect=redirect, redirect_uri="http://localhost:3000/callback", seconds=20.0)
    assert given.patience == 20.0


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ({"identity": "robot"}, "identity"),
        ({"store": "tokens.json"}, "store"),
        ({"scopes": 5}, "scopes"),
        ({"show": "browser"}, "show"),
        ({"seconds": "long"}, "seconds"),
        ({"seconds": 0}, "seconds"),
        ({"seconds": True}, "seconds"),
    ],
    ids=str,
)
def test_what_cannot_be_used_is_refused_by_name_before_anybody_signs_in(
    options: dict[str, Any], path: str
) -> None:
    with pytest.raises(UsageError) as refused:
        OAuth(**options)
    assert refused.value.path == path
