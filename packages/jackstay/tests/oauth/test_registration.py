"""Client registration: the request, the stored client, and invalid responses (RFC 7591)."""

from typing import Any

import pytest

from jackstay.errors import TransportError
from jackstay.oauth import AuthorizationError, Identity, MemoryStore
from jackstay.oauth._discovery import Access, AuthorizationServer
from jackstay.oauth._identity import RegisteredClient
from jackstay.oauth._registration import (
    client_document,
    configured_client,
    covers_sign_in,
    delete_client,
    register,
    stored_client,
)
from scripted.oauth import PlainClient, Response, Site

URI = "http://127.0.0.1:3000/callback"


def access(url: str = "https://as.example", *, uses_default_endpoints: bool = False, **members: Any) -> Access:
    members = {"registration_endpoint": f"{url}/register"} | members
    return Access(
        "https://r.example",
        AuthorizationServer(url, f"{url}/token", **members),
        uses_default_endpoints=uses_default_endpoints,
    )


def test_the_requested_method_is_the_simplest_supported_one() -> None:
    cases: list[tuple[Any, bool, str]] = [
        (("client_secret_post", "none"), False, "none"),
        (("client_secret_post", "client_secret_basic"), False, "client_secret_basic"),
        (("private_key_jwt",), False, "none"),
        (None, False, "client_secret_basic"),
        (None, True, "none"),
    ]
    for supported, uses_defaults, expected in cases:
        server = access(token_endpoint_auth_methods_supported=supported, uses_default_endpoints=uses_defaults)
        assert client_document(Identity(), server, URI, ())["token_endpoint_auth_method"] == expected


def test_the_registration_request_describes_the_client() -> None:
    """2026-07-28 basic/authorization requires `application_type`; unsupported grants are not requested."""
    server = access(grant_types_supported=("authorization_code",))
    found = client_document(
        Identity(name="Example", homepage="https://h.example"), server, "https://h.example/b", ("a", "b")
    )
    assert found["application_type"] == "web"
    assert found["grant_types"] == ["authorization_code"]
    assert (found["client_name"], found["client_uri"], found["scope"]) == (
        "Example",
        "https://h.example",
        "a b",
    )
    assert client_document(Identity(), access(), URI, ())["grant_types"] == [
        "authorization_code",
        "refresh_token",
    ]


def test_a_metadata_document_with_a_key_uses_private_key_jwt() -> None:
    identity = Identity(metadata_url="https://me.example/c", private_key="k", signing_algorithm="ES256")
    found = configured_client(identity, access(client_id_metadata_document_supported=True))
    assert found == RegisteredClient("https://as.example", "https://me.example/c", auth_method="private_key_jwt")


@pytest.mark.parametrize(
    ("response", "method", "secret"),
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
async def test_the_registration_follows_the_response(response: Any, method: str, secret: str) -> None:
    async with Site() as site:
        site.routes["POST", "/register"] = lambda request: Response(201, response)
        store = MemoryStore()
        options = {"identity": Identity(), "store": store, "redirect_uri": URI, "scopes": ()}
        found = await register(PlainClient(), access(site.url), **options)  # type: ignore[arg-type]  # the types of the options
        assert (found.auth_method, found.client_secret, found.is_dynamic) == (method, secret, True)
        assert await stored_client(store, site.url, 0.0) == found
        assert await stored_client(store, "https://other.example", 0.0) is None
        await delete_client(store, site.url)
        assert await stored_client(store, site.url, 0.0) is None


@pytest.mark.parametrize(
    ("status", "response", "message"),
    [
        (
            201,
            {"client_id": "c", "token_endpoint_auth_method": "client_secret_basic"},
            "unsupported client authentication",
        ),
        (201, {"client_id": "c", "client_secret": "s", "token_endpoint_auth_method": "tls"}, "'tls'"),
        (201, {"client_id": "c", "token_endpoint_auth_method": "private_key_jwt"}, "unsupported client authentication"),
        (201, {}, "client_id"),
        (400, {"error": "invalid_redirect_uri"}, r"invalid_redirect_uri.*Identity\(client_id="),
        (403, b"no", r"HTTP 403; .*Identity\(client_id="),
    ],
)
async def test_an_unusable_registration_response_explains_what_to_pass(
    status: int, response: Any, message: str
) -> None:
    async with Site() as site:
        site.routes["POST", "/register"] = lambda request: Response(status, response)
        store = MemoryStore()
        with pytest.raises(AuthorizationError, match=message):
            await register(
                PlainClient(), access(site.url), identity=Identity(), store=store, redirect_uri=URI, scopes=()
            )
        assert await stored_client(store, site.url, 0.0) is None


async def test_a_busy_registration_endpoint_is_a_transient_error() -> None:
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


async def test_the_error_names_the_issuer_of_a_configured_client() -> None:
    identity = Identity(client_id="c", issuer="https://own.example")
    with pytest.raises(AuthorizationError, match=r"for https://own\.example.*requires https://as\.example"):
        await register(
            PlainClient(),
            access(registration_endpoint=None),
            identity=identity,
            store=MemoryStore(),
            redirect_uri=URI,
            scopes=(),
        )


def test_a_registration_covers_its_redirect_uri_and_scopes() -> None:
    wide = RegisteredClient("i", "c", redirect_uri=URI)
    narrow = RegisteredClient("i", "c", redirect_uri=URI, scopes=("a",))
    assert covers_sign_in(wide, URI, ("x",))
    assert covers_sign_in(narrow, URI, ("a",))
    assert covers_sign_in(narrow, URI, ())
    assert not covers_sign_in(wide, URI + "2", ())
    assert not covers_sign_in(narrow, URI, ("a", "b"))
