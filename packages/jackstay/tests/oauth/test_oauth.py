"""The authorization code grant against an authorization server and an MCP server on loopback.

The rules are those of 2026-07-28 basic/authorization.
"""

import asyncio
import logging
from typing import Any
from urllib.parse import urlsplit

import pytest

from jackstay.errors import UsageError
from jackstay.oauth import AuthorizationError, Identity, MemoryStore, OAuth
from jackstay.oauth._browser import free_port
from jackstay.oauth._identity import RegisteredClient
from jackstay.oauth._oauth import _usable_uri
from jackstay.transport import Authorizer
from scripted.oauth import (
    REDIRECT_URI,
    AuthorizationSite,
    PlainClient,
    Request,
    Response,
    bearer,
    grants,
    oauth_world,
    signer,
)


def test_it_is_an_authorizer() -> None:
    assert isinstance(OAuth(), Authorizer)


async def test_a_challenge_leads_to_a_sign_in_and_a_bearer_header() -> None:
    """PKCE (checked by the site), `resource` in both requests, state, one registration, a token."""
    async with oauth_world() as world:
        auth = signer(world)
        assert await auth.headers(world.client, world.server.endpoint) == ()
        assert await auth.challenged(world.client, world.server.refuse())
        assert await bearer(auth, world) in world.issuing.access_tokens
        assert world.browser.query()["resource"] == world.server.endpoint
        (request,) = world.issuing.got("POST", "/token")
        assert request.form["resource"] == world.server.endpoint
        assert request.form["client_id"] == "client-1"
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


async def test_a_token_is_only_sent_to_its_server() -> None:
    async with oauth_world() as world:
        auth = signer(world)
        await auth.challenged(world.client, world.server.refuse())
        assert await auth.headers(world.client, f"{world.server.url}/other") == ()
        assert await auth.headers(world.client, "https://elsewhere.example/mcp") == ()
        assert await auth.headers(world.client, f"{world.server.endpoint}#part")


async def test_tokens_are_sent_in_headers_and_never_in_urls() -> None:
    async with oauth_world() as world:
        auth = signer(world)
        await auth.challenged(world.client, world.server.refuse())
        token = await bearer(auth, world)
        assert all(token not in url and "code-" not in url for _, url, _, _ in world.client.sent)


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post", "none"])
async def test_a_supported_client_authentication_is_used(method: str) -> None:
    """The site rejects other methods; its secrets contain a colon and a percent sign."""
    async with oauth_world() as world:
        world.issuing.overrides["token_endpoint_auth_methods_supported"] = [method]
        auth = signer(world)
        assert await auth.challenged(world.client, world.server.refuse())
        (request,) = world.issuing.got("POST", "/token")
        assert ("authorization" in request.headers) == (method == "client_secret_basic")
        assert ("client_secret" in request.form) == (method == "client_secret_post")


async def test_a_configured_client_takes_precedence_over_registration() -> None:
    """Also if a metadata document and a registration endpoint are available."""
    async with oauth_world() as world:
        world.issuing.overrides["client_id_metadata_document_supported"] = True
        world.issuing.registered["own"] = {
            "client_secret": "s",
            "token_endpoint_auth_method": "client_secret_basic",
        }
        world.issuing.overrides["token_endpoint_auth_methods_supported"] = ["client_secret_basic"]
        identity = Identity(
            client_id="own",
            client_secret="s",
            issuer=world.issuing.issuer,
            metadata_url="https://me.example/client.json",
        )
        auth = signer(world, identity)
        await auth.challenged(world.client, world.server.refuse())
        assert world.browser.query()["client_id"] == "own"
        assert world.issuing.got("POST", "/register") == []


async def test_a_metadata_document_takes_precedence_over_registration() -> None:
    async with oauth_world() as world:
        world.issuing.overrides["client_id_metadata_document_supported"] = True
        url = "https://me.example/client.json"
        world.issuing.registered[url] = {"token_endpoint_auth_method": "none"}
        auth = signer(world, Identity(metadata_url=url))
        await auth.challenged(world.client, world.server.refuse())
        assert world.browser.query()["client_id"] == url
        assert world.issuing.got("POST", "/register") == []


async def test_a_metadata_document_is_not_used_without_server_support() -> None:
    async with oauth_world() as world:
        auth = signer(world, Identity(metadata_url="https://me.example/client.json"))
        await auth.challenged(world.client, world.server.refuse())
        assert world.browser.query()["client_id"] == "client-1"


async def test_without_registration_the_error_explains_what_to_pass() -> None:
    async with oauth_world() as world:
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


async def test_a_client_of_another_issuer_is_not_used() -> None:
    """The program registers dynamically instead, and the secret is not sent."""
    async with oauth_world() as world:
        identity = Identity(client_id="own", client_secret="very-secret", issuer="https://other.example")
        auth = signer(world, identity)
        await auth.challenged(world.client, world.server.refuse())
        assert world.browser.query()["client_id"] == "client-1"
        assert all(b"very-secret" not in body for _, _, _, body in world.client.sent)


async def test_another_authorization_server_gets_another_registration() -> None:
    """ "Authorization Server Binding": the second gets nothing of the first."""
    async with oauth_world() as world, AuthorizationSite() as second:
        auth = signer(world)
        await auth.challenged(world.client, world.server.refuse())
        first = await bearer(auth, world)
        second.number = 100
        world.server.publish(second.issuer)
        assert await auth.challenged(world.client, world.server.refuse(error="invalid_token"))
        assert world.browser.query()["client_id"] == "client-101"
        assert await bearer(auth, world) in second.access_tokens
        received = " ".join(f"{r.query} {r.headers} {r.body!r}" for r in second.requests)
        assert "client-1'" not in received
        assert first not in received
        assert "refresh-" not in received


async def test_a_client_id_without_issuer_is_bound_to_the_first() -> None:
    async with oauth_world() as world, AuthorizationSite() as second:
        metadata = {"token_endpoint_auth_method": "none"}
        world.issuing.registered["own"] = second.registered["own"] = metadata
        world.issuing.overrides["token_endpoint_auth_methods_supported"] = ["client_secret_basic"]
        auth = signer(world, Identity(client_id="own"))
        await auth.challenged(world.client, world.server.refuse())
        world.server.publish(second.issuer)
        with pytest.raises(AuthorizationError, match=r"is bound to .*Identity\(issuer="):
            await auth.challenged(world.client, world.server.refuse())
        assert second.got("POST", "/token") == []


async def test_an_authorization_server_without_s256_is_refused_before_registration() -> None:
    """2025-11-25 basic/authorization, "Authorization Code Protection"."""
    lists: list[list[str] | None] = [None, [], ["plain"]]
    for methods in lists:
        async with oauth_world() as world:
            world.issuing.overrides["code_challenge_methods_supported"] = methods
            with pytest.raises(AuthorizationError, match=r"S256 \(PKCE\)"):
                await signer(world).challenged(world.client, world.server.refuse())
            assert world.browser.visits == []
            assert world.issuing.got("POST", "/register") == []


async def test_assume_pkce_applies_to_an_issuer_without_a_list() -> None:
    """Microsoft Entra ID and Amazon Cognito publish no list. A list without S256 is still refused."""
    cases: list[tuple[list[str] | None, bool]] = [(None, True), ([], False), (["plain"], False)]
    for methods, is_accepted in cases:
        async with oauth_world() as world:
            world.issuing.overrides["code_challenge_methods_supported"] = methods
            world.issuing.registered["own"] = {"token_endpoint_auth_method": "none"}
            auth = signer(world, Identity(client_id="own", issuer=world.issuing.issuer, assume_pkce=True))
            if is_accepted:
                await auth.challenged(world.client, world.server.refuse())
                assert world.browser.query()["code_challenge_method"] == "S256"
                assert await bearer(auth, world)
            else:
                with pytest.raises(AuthorizationError, match=r"S256 \(PKCE\)"):
                    await auth.challenged(world.client, world.server.refuse())


async def test_send_resource_false_applies_to_every_request() -> None:
    """Microsoft Entra ID: the sign-in, the code and every refresh."""
    async with oauth_world() as world:
        world.issuing.registered["own"] = {"token_endpoint_auth_method": "none"}
        token = world.issuing.routes["POST", "/token"]

        def strict(request: Request) -> Response:
            if "resource" in request.form:
                return Response(400, {"error": "invalid_target"})
            return token(request)

        world.issuing.routes["POST", "/token"] = strict
        auth = signer(world, Identity(client_id="own", issuer=world.issuing.issuer, send_resource=False))
        await auth.challenged(world.client, world.server.refuse())
        assert "resource" not in world.browser.query()
        world.clock.now += 3600
        assert await bearer(auth, world)
        assert grants(world) == ["authorization_code", "refresh_token"]


async def test_sign_in_parameters_are_sent_to_their_issuer() -> None:
    """Google issues refresh tokens for `access_type=offline`, Auth0 requires an `audience`."""
    async with oauth_world() as world:
        world.issuing.registered["own"] = {"token_endpoint_auth_method": "none"}
        client = {"client_id": "own", "issuer": world.issuing.issuer}
        identity = Identity(**client, audience="https://api.example", sign_in_parameters={"access_type": "offline"})
        await signer(world, identity).challenged(world.client, world.server.refuse())
        query = world.browser.query()
        assert (query["access_type"], query["audience"]) == ("offline", "https://api.example")
        assert query["resource"] == world.server.endpoint


async def test_the_iss_parameter_is_compared_exactly() -> None:
    """The rows of RFC 9207, 2.4 and of the table in 2026-07-28 basic/authorization."""
    cases: list[tuple[bool | None, str, bool]] = [
        (True, "right", True),
        (None, "right", True),
        (None, "none", True),
        (False, "none", True),
        (True, "none", False),
        (True, "other", False),
        (None, "other", False),
        (False, "slash", False),
        (True, "slash", False),
    ]
    for promised, sent, is_accepted in cases:
        async with oauth_world() as world:
            world.issuing.overrides["authorization_response_iss_parameter_supported"] = promised
            world.issuing.iss = sent
            auth = signer(world)
            if is_accepted:
                assert await auth.challenged(world.client, world.server.refuse())
                continue
            with pytest.raises(AuthorizationError, match="was ignored"):
                await auth.challenged(world.client, world.server.refuse())
            assert world.issuing.got("POST", "/token") == []


async def test_an_invalid_callback_ends_the_sign_in() -> None:
    for query, message in (
        ("code=c&state=other", "wrong state"),
        ("code=c", "wrong state"),
        ("", "wrong state"),
        ("code=c&code=d&state={state}", "duplicate parameters"),
        ("state={state}&iss={issuer}", "no code"),
        ("state={state}&iss={issuer}&code=", "no code"),
        (
            "error=access_denied&state={state}&iss={issuer}&error_description=no%0Ano",
            r"refused the sign-in.*no\\n",
        ),
        ("error=secret-of-evil&state={state}&iss=https://evil.example", "^(?!.*secret-of-evil)"),
    ):
        async with oauth_world() as world:

            async def redirect(url: str, world: Any = world, query: str = query) -> str:
                state = await world.browser(url) and world.browser.query()["state"]
                return f"{REDIRECT_URI}?{query.format(state=state, issuer=world.issuing.issuer)}"

            with pytest.raises(AuthorizationError, match=message):
                await signer(world, redirect=redirect).challenged(world.client, world.server.refuse())
            assert world.issuing.got("POST", "/token") == []


async def test_a_sign_in_that_the_user_denies_is_an_error_with_its_code() -> None:
    async with oauth_world() as world:

        async def deny(url: str) -> str:
            await world.browser(url)
            query = f"error=access_denied&state={world.browser.query()['state']}&iss={world.issuing.issuer}"
            return f"{REDIRECT_URI}?{query}"

        with pytest.raises(AuthorizationError) as caught:
            await signer(world, redirect=deny).challenged(world.client, world.server.refuse())
        assert caught.value.error == "access_denied"
        assert caught.value.issuer == world.issuing.issuer


async def test_a_stored_registration_is_used_again() -> None:
    async with oauth_world() as world:
        store = MemoryStore()
        await signer(world, store=store).challenged(world.client, world.server.refuse())
        for key in [key for key in store._entries if key.startswith("tokens")]:
            await store.save(key, None)
        await signer(world, store=store).challenged(world.client, world.server.refuse())
        assert len(world.browser.visits) == 2
        assert len(world.issuing.got("POST", "/register")) == 1


async def test_another_redirect_uri_or_an_expired_secret_needs_a_new_registration() -> None:
    async with oauth_world() as world:
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


async def test_a_registration_that_the_issuer_deleted_is_renewed() -> None:
    async with oauth_world() as world:
        store = MemoryStore()
        world.issuing.issues_refresh_tokens = False
        auth = signer(world, store=store)
        await auth.challenged(world.client, world.server.refuse())
        world.issuing.registered.clear()
        world.clock.now += 600
        with pytest.raises(AuthorizationError, match="invalid_client"):
            await auth.challenged(world.client, world.server.refuse())
        assert await auth.challenged(world.client, world.server.refuse())
        assert len(world.issuing.got("POST", "/register")) == 2


async def test_an_abandoned_sign_in_is_repeated_with_a_new_registration() -> None:
    """An issuer that deleted the registration shows an error page and does not redirect."""
    async with oauth_world() as world:
        pages: list[str] = []
        auth = OAuth(show=pages.append, sign_in_timeout=0.01, clock=world.clock)
        for _ in range(2):
            with pytest.raises(AuthorizationError, match="not completed within"):
                await auth.challenged(world.client, world.server.refuse())
        assert len(world.issuing.got("POST", "/register")) == 2
        assert len(pages) == 2


async def test_step_up_registers_again_for_more_scopes() -> None:
    """Some authorization servers grant a client only the scopes of its registration."""
    async with oauth_world() as world:
        auth = signer(world)
        await auth.challenged(world.client, world.server.refuse(scope="a"))
        await auth.challenged(world.client, world.server.refuse(403, "insufficient_scope", "b"))
        scopes = [request.json["scope"] for request in world.issuing.got("POST", "/register")]
        assert scopes == ["a", "a b"]


async def test_the_listener_receives_the_redirect() -> None:
    """Without `redirect`, a page is opened and a listener waits on loopback."""
    async with oauth_world() as world:
        pages = []
        visits: list[asyncio.Task[None]] = []

        async def visit(url: str) -> None:
            page = await PlainClient().send("GET", url, (), None)
            await page.close()
            back = await PlainClient().send("GET", page.headers["location"], (), None)
            pages.append(b"".join([chunk async for chunk in back.chunks()]))
            await back.close()

        def show(url: str) -> None:
            visits.append(asyncio.create_task(visit(url)))

        auth = OAuth(show=show, clock=world.clock)
        assert await auth.challenged(world.client, world.server.refuse())
        await asyncio.gather(*visits)
        assert b"You can close this window" in pages[0]
        assert b"code-" not in pages[0]
        uri = world.issuing.got("POST", "/register")[0].json["redirect_uris"][0]
        assert urlsplit(uri).hostname == "127.0.0.1"
        assert urlsplit(uri).path == "/callback"
        assert await bearer(auth, world) in world.issuing.access_tokens


async def test_without_a_sign_in_only_stored_tokens_are_used() -> None:
    async with oauth_world() as world:
        store = MemoryStore()
        silent = OAuth(store=store, show=None, clock=world.clock)
        with pytest.raises(AuthorizationError, match="which is disabled here") as caught:
            await silent.challenged(world.client, world.server.refuse())
        assert caught.value.error == "login_required"
        assert world.issuing.got("POST", "/register") == []
        await signer(world, store=store).challenged(world.client, world.server.refuse())
        assert await silent.challenged(world.client, world.server.refuse())
        world.clock.now += 3600
        assert await bearer(silent, world) in world.issuing.access_tokens


async def test_a_configured_client_uses_a_free_port() -> None:
    """RFC 8252, 7.3: the client chooses the port of a loopback redirect."""
    async with oauth_world() as world:
        world.issuing.registered["own"] = {"token_endpoint_auth_method": "none"}
        pages: list[str] = []
        auth = OAuth(Identity(client_id="own"), show=pages.append, sign_in_timeout=0.01, clock=world.clock)
        with pytest.raises(AuthorizationError, match=r"within 0\.01 s"):
            await auth.challenged(world.client, world.server.refuse())
        assert "redirect_uri=http%3A%2F%2F127.0.0.1%3A" in pages[0]


def test_the_port_of_the_last_registration_is_used_while_it_is_free() -> None:
    """Many authorization servers compare the port as well, contrary to RFC 8252."""
    uri = f"http://127.0.0.1:{free_port()}/callback"
    assert _usable_uri(RegisteredClient("i", "c", redirect_uri=uri)) == uri
    assert _usable_uri(RegisteredClient("i", "c", redirect_uri="https://web.example/back")) != uri
    assert _usable_uri(None).startswith("http://127.0.0.1:")


def test_invalid_redirects_and_scopes_are_refused() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"redirect_uri": "http://example.org:80/x"}, "must be http://127.0.0.1:PORT/PATH"),
        ({"redirect_uri": "https://127.0.0.1:1/x"}, "must be http://127.0.0.1:PORT/PATH"),
        ({"redirect_uri": "http://127.0.0.1/x"}, "must be http://127.0.0.1:PORT/PATH"),
        ({"redirect_uri": "http://127.0.0.1:1/x?y"}, "must not have a query"),
        ({"redirect_uri": "http://me@127.0.0.1:1/x"}, "must not have a query"),
        ({"redirect_uri": "http://example.org/x", "redirect": print}, "must be https or on loopback"),
        ({"redirect": print}, "redirect requires redirect_uri"),
        ({"scopes": 'a"b'}, "printable ASCII"),
        ({"scopes": ("a b",)}, "printable ASCII"),
    ]
    for options, message in cases:
        with pytest.raises(UsageError, match=message):
            OAuth(**options)


def test_a_custom_redirect_may_be_https() -> None:
    OAuth(redirect=print, redirect_uri="https://web.example/back")  # type: ignore[arg-type]  # never called


async def test_nothing_secret_is_logged_or_shown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with oauth_world() as world:
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
        server = auth._server_state(world.server.endpoint)
        registered = RegisteredClient("i", "c", "secret:1%")
        text = f"{caplog.text} {auth!r} {caught.value!r} {caught.value} {server.tokens!r} {store!r} {registered!r}"
        for secret in ("token-", "code-", "refresh-", "secret:", world.browser.query()["state"]):
            assert secret not in text, secret


def test_the_sign_in_timeout_is_available_to_the_transport() -> None:
    """`http()` adds it to `init_timeout`; it is 0 without a sign-in."""

    async def redirect(url: str) -> str:
        raise AssertionError("not called")

    assert OAuth(sign_in_timeout=120.0).sign_in_timeout == 120.0
    assert OAuth(show=None).sign_in_timeout == 0.0
    uri = "http://localhost:3000/callback"
    custom = OAuth(show=None, redirect=redirect, redirect_uri=uri, sign_in_timeout=20.0)
    assert custom.sign_in_timeout == 20.0


def test_bad_options_are_refused_by_name() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"identity": "robot"}, "identity"),
        ({"store": "tokens.json"}, "store"),
        ({"scopes": 5}, "scopes"),
        ({"show": "browser"}, "show"),
        ({"sign_in_timeout": "long"}, "sign_in_timeout"),
        ({"sign_in_timeout": 0}, "sign_in_timeout"),
        ({"sign_in_timeout": True}, "sign_in_timeout"),
    ]
    for options, path in cases:
        with pytest.raises(UsageError) as refused:
            OAuth(**options)
        assert refused.value.path == path
