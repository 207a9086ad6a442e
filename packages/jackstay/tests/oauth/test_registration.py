"""Becoming a client: what is sent, what is kept, and answers that cannot be used (RFC 7591)."""

from typing import Any

import pytest

from jackstay.errors import TransportError
from jackstay.oauth import AuthorizationError, Identity, MemoryStore
from jackstay.oauth._discovery import Access
from jackstay.oauth._documents import AuthorizationServer
from jackstay.oauth._identity import RegisteredClient
from jackstay.oauth._registration import (
    client_document,
    forget_client,
    given_client,
    register,
    serves,
    stored_client,
)
from scripted.loop import timed
from scripted.oauth import PlainClient, Response, Site

URI = "http://127.0.0.1:3000/callback"


def access(url: str = "https://as.example", *, is_guessed: bool = False, **members: Any) -> Access:
    members = {"registration_endpoint": f"{url}/register"} | members
    return Access(
        "https://r.example", AuthorizationServer(url, f"{url}/token", **members), is_guessed=is_guessed
    )


@pytest.mark.parametrize(
    ("supported", "is_guessed", "asked"),
    [
        (("client_secret_post", "none"), False, "none"),
        (("client_secret_post", "client_secret_basic"), False, "client_secret_basic"),
        (("private_key_jwt",), False, "none"),
        (None, False, "client_secret_basic"),
        (None, True, "none"),
    ],
)
def test_the_method_to_register_for_is_the_least_that_is_supported(
    supported: Any, is_guessed: bool, asked: str
) -> None:
    where = access(token_endpoint_auth_methods_supported=supported, is_guessed=is_guessed)
    assert client_document(Identity(), where, URI, ())["token_endpoint_auth_method"] == asked


def test_the_document_says_who_we_are() -> None:
    """2026-07-28: `application_type` MUST be sent; refresh tokens are asked for where they are given."""
    where = access(grant_types_supported=("authorization_code",))
    found = client_document(
        Identity(name="Harbour", homepage="https://h.example"), where, "https://h.example/b", ("a", "b")
    )
    assert found["application_type"] == "web"
    assert found["grant_types"] == ["authorization_code"]
    assert (found["client_name"], found["client_uri"], found["scope"]) == (
        "Harbour",
        "https://h.example",
        "a b",
    )
    assert client_document(Identity(), access(), URI, ())["grant_types"] == [
        "authorization_code",
        "refresh_token",
    ]


def test_a_document_with_a_key_is_proven_by_it() -> None:
    identity = Identity(metadata_url="https://me.example/c", private_key="k", signing_algorithm="ES256")
    found = given_client(identity, access(client_id_metadata_document_supported=True))
    assert found == RegisteredClient(
        "https://as.example", "https://me.example/c", auth_method="private_key_jwt"
    )


@pytest.mark.parametrize(
    ("answer", "method", "secret"),
    [
        ({"client_id": "c"}, "none", ""),
        ({"client_id": "c", "client_secret": "s"}, "client_secret_basic", "s"),
        (
            {"client_id": "c", "client_secret": "s", "token_endpoint_auth_method": "client_secret_post"},
            "client_secret_post",
            "s",
        ),
        ({"client_id": "c", "client_secret": "s", "token_endpoint_auth_method": "none"}, "none", "s"),
    ],
)
@timed
async def test_what_was_registered_is_what_the_answer_says(answer: Any, method: str, secret: str) -> None:
    async with Site() as site:
        site.routes["POST", "/register"] = lambda request: Response(201, answer)
        store = MemoryStore()
        options = {"identity": Identity(), "store": store, "redirect_uri": URI, "scopes": ()}
        found = await register(PlainClient(), access(site.url), **options)  # type: ignore[arg-type]  # as spelled above
        assert (found.auth_method, found.client_secret, found.is_dynamic) == (method, secret, True)
        assert await stored_client(store, site.url, 0.0) == found
        assert await stored_client(store, "https://other.example", 0.0) is None
        await forget_client(store, site.url)
        assert await stored_client(store, site.url, 0.0) is None


@pytest.mark.parametrize(
    ("status", "answer", "message"),
    [
        (201, {"client_id": "c", "token_endpoint_auth_method": "client_secret_basic"}, "which it cannot do"),
        (201, {"client_id": "c", "client_secret": "s", "token_endpoint_auth_method": "tls"}, "'tls'"),
        (201, {"client_id": "c", "token_endpoint_auth_method": "private_key_jwt"}, "which it cannot do"),
        (201, {}, "client_id"),
        (400, {"error": "invalid_redirect_uri"}, r"invalid_redirect_uri.*Identity\(client_id="),
        (403, b"no", r"HTTP 403; .*Identity\(client_id="),
    ],
)
@timed
async def test_an_answer_that_cannot_be_used_says_what_to_give(
    status: int, answer: Any, message: str
) -> None:
    async with Site() as site:
        site.routes["POST", "/register"] = lambda request: Response(status, answer)
        store = MemoryStore()
        with pytest.raises(AuthorizationError, match=message):
            await register(
                PlainClient(), access(site.url), identity=Identity(), store=store, redirect_uri=URI, scopes=()
            )
        assert await stored_client(store, site.url, 0.0) is None


@timed
async def test_a_busy_registration_passes() -> None:
    async with Site() as site:
        site.routes["POST", "/register"] = lambda request: Response(503)
        with pytest.raises(TransportError, match=r"HTTP 503$") as caught:
            await register(
                PlainClient(),
                access(site.url),
                identity=Identity(),
                store=MemoryStore(),
                redirect_uri=URI,
                scopes=(),
            )
        assert caught.value.retryable


@timed
async def test_a_client_of_another_issuer_is_named_where_nothing_else_is_left() -> None:
    identity = Identity(client_id="c", issuer="https://mine.example")
    with pytest.raises(AuthorizationError, match=r"for https://mine\.example.*accepts https://as\.example"):
        await register(
            PlainClient(),
            access(registration_endpoint=None),
            identity=identity,
            store=MemoryStore(),
            redirect_uri=URI,
            scopes=(),
        )


def test_a_registration_serves_its_own_way_back_and_scopes() -> None:
    wide = RegisteredClient("i", "c", redirect_uri=URI)
    narrow = RegisteredClient("i", "c", redirect_uri=URI, scopes=("a",))
    assert serves(wide, URI, ("x",))
    assert serves(narrow, URI, ("a",))
    assert serves(narrow, URI, ())
    assert not serves(wide, URI + "2", ())
    assert not serves(narrow, URI, ("a", "b"))
