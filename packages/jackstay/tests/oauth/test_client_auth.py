"""Client authentication: the choice of the method, and signatures (RFC 6749, 2.3.1; RFC 7523, 2.2)."""

import base64
import sys
from typing import Any

import pytest
from joserfc import jwk, jwt

from jackstay.errors import UsageError
from jackstay.oauth import AuthorizationError, Identity
from jackstay.oauth._discovery import AuthorizationServer
from jackstay.oauth._identity import RegisteredClient
from jackstay.oauth._tokens import ASSERTION_TYPE, ClientAuth, authenticate, choose_method, sign

ISSUER = "https://as.example"
NOW = 1_800_000_000.0


def server(**members: Any) -> AuthorizationServer:
    return AuthorizationServer(ISSUER, f"{ISSUER}/token", **members)


def private_pem(key: Any) -> str:
    return bytes(key.as_pem(private=True)).decode()


EC = jwk.ECKey.generate_key("P-256")
RSA = jwk.RSAKey.generate_key(2048)
ED = jwk.OKPKey.generate_key("Ed25519")


def test_the_method_is_a_supported_one() -> None:
    cases: list[tuple[str, Any, str]] = [
        ("", None, "none"),
        ("", ("client_secret_basic",), "none"),
        ("s", None, "client_secret_basic"),
        ("s", ("client_secret_post", "client_secret_basic"), "client_secret_basic"),
        ("s", ("client_secret_post", "none"), "client_secret_post"),
        ("s", ("none",), "none"),
    ]
    for secret, supported, method in cases:
        metadata = server(token_endpoint_auth_methods_supported=supported)
        assert choose_method(ClientAuth(RegisteredClient(ISSUER, "c", secret), Identity(), metadata)) == method


def test_the_registered_method_is_preferred() -> None:
    client = RegisteredClient(ISSUER, "c", "s", auth_method="client_secret_post")
    metadata = server(token_endpoint_auth_methods_supported=("client_secret_basic",))
    assert choose_method(ClientAuth(client, Identity(), metadata)) == "client_secret_post"


def test_a_secret_is_refused_if_only_signatures_are_supported() -> None:
    metadata = server(token_endpoint_auth_methods_supported=("private_key_jwt", "tls_client_auth"))
    with pytest.raises(AuthorizationError, match="only the client authentication private_key_jwt, tls_client_auth"):
        choose_method(ClientAuth(RegisteredClient(ISSUER, "c", "s"), Identity(), metadata))


def test_a_secret_never_goes_to_another_issuer() -> None:
    evil = AuthorizationServer("https://evil.example", "t")
    with pytest.raises(AuthorizationError, match=r"registered at https://as\.example"):
        authenticate(ClientAuth(RegisteredClient(ISSUER, "c", "s"), Identity(), evil), NOW)


def test_basic_encodes_both_before_they_are_joined() -> None:
    client_auth = ClientAuth(RegisteredClient(ISSUER, "a:b", "c d%"), Identity(), server())
    form, ((name, value),) = authenticate(client_auth, NOW)
    assert form == {"client_id": "a:b"}
    assert name == "Authorization"
    assert base64.b64decode(value.removeprefix("Basic ")) == b"a%3Ab:c%20d%25"


@pytest.mark.parametrize(("key", "algorithm"), [(EC, "ES256"), (RSA, "RS256"), (RSA, "PS256"), (ED, "Ed25519")])
def test_an_assertion_is_signed_for_the_issuer_alone(key: Any, algorithm: str) -> None:
    identity = Identity(client_id="me", private_key=private_pem(key), signing_algorithm=algorithm, issuer=ISSUER)
    form, headers = authenticate(ClientAuth(RegisteredClient(ISSUER, "me"), identity, server()), NOW)
    assert headers == ()
    assert form["client_id"] == "me"
    assert form["client_assertion_type"] == ASSERTION_TYPE
    claims = jwt.decode(form["client_assertion"], key, algorithms=[algorithm]).claims
    assert (claims["iss"], claims["sub"], claims["aud"]) == ("me", "me", ISSUER)
    assert claims["iat"] == NOW
    assert claims["exp"] - NOW == 300
    again, _ = authenticate(ClientAuth(RegisteredClient(ISSUER, "me"), identity, server()), NOW)
    assert jwt.decode(again["client_assertion"], key, algorithms=[algorithm]).claims["jti"] != claims["jti"]


def test_an_algorithm_that_the_issuer_does_not_accept_is_refused_here() -> None:
    identity = Identity(client_id="me", private_key=private_pem(EC), signing_algorithm="ES256", issuer=ISSUER)
    metadata = server(token_endpoint_auth_signing_alg_values_supported=("RS256",))
    with pytest.raises(AuthorizationError, match="algorithms RS256, not ES256"):
        authenticate(ClientAuth(RegisteredClient(ISSUER, "me"), identity, metadata), NOW)


def test_an_invalid_key_is_refused_and_not_quoted() -> None:
    for key, algorithm, path in (
        ("very-secret", "ES256", "private_key"),
        ("", "RS256", "private_key"),
        (private_pem(RSA), "ES256", "private_key"),
        (private_pem(EC), "ES384", "private_key"),
        (bytes(EC.as_pem(private=False)).decode(), "ES256", "private_key"),
        (private_pem(EC), "HS256", "signing_algorithm"),
        (private_pem(EC), "none", "signing_algorithm"),
        (private_pem(EC), "ES999", "private_key"),
    ):
        with pytest.raises(UsageError) as caught:
            sign({"iss": "me"}, key, algorithm)
        assert caught.value.path == path
        assert "very-secret" not in str(caught.value)
        assert caught.value.__cause__ is None


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "joserfc", None)
    with pytest.raises(UsageError, match=r"jackstay\[http\]"):
        sign({"iss": "me"}, private_pem(EC), "ES256")
