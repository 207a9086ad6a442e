"""Proving a client: the method that fits, and signatures that verify (RFC 6749, 2.3.1; RFC 7523, 2.2)."""

import base64
import sys
from typing import Any

import pytest
from joserfc import jwk, jwt

from jackstay.errors import UsageError
from jackstay.oauth import AuthorizationError, Identity
from jackstay.oauth._documents import AuthorizationServer
from jackstay.oauth._identity import RegisteredClient
from jackstay.oauth._proof import ASSERTION_TYPE, choose_method, prove, sign

ISSUER = "https://as.example"
NOW = 1_800_000_000.0


def server(**members: Any) -> AuthorizationServer:
    return AuthorizationServer(ISSUER, f"{ISSUER}/token", **members)


def private_pem(key: Any) -> str:
    return bytes(key.as_pem(private=True)).decode()


EC = jwk.ECKey.generate_key("P-256")
RSA = jwk.RSAKey.generate_key(2048)
ED = jwk.OKPKey.generate_key("Ed25519")


@pytest.mark.parametrize(
    ("secret", "supported", "method"),
    [
        ("", None, "none"),
        ("", ("client_secret_basic",), "none"),
        ("s", None, "client_secret_basic"),
        ("s", ("client_secret_post", "client_secret_basic"), "client_secret_basic"),
        ("s", ("client_secret_post", "none"), "client_secret_post"),
        ("s", ("none",), "none"),
    ],
)
def test_the_method_is_one_that_both_can(secret: str, supported: Any, method: str) -> None:
    where = server(token_endpoint_auth_methods_supported=supported)
    assert choose_method(RegisteredClient(ISSUER, "c", secret), Identity(), where) == method


def test_what_was_agreed_goes_first() -> None:
    client = RegisteredClient(ISSUER, "c", "s", auth_method="client_secret_post")
    where = server(token_endpoint_auth_methods_supported=("client_secret_basic",))
    assert choose_method(client, Identity(), where) == "client_secret_post"


def test_a_secret_is_no_use_where_only_signatures_count() -> None:
    where = server(token_endpoint_auth_methods_supported=("private_key_jwt", "tls_client_auth"))
    with pytest.raises(AuthorizationError, match="only by private_key_jwt, tls_client_auth"):
        choose_method(RegisteredClient(ISSUER, "c", "s"), Identity(), where)


def test_a_secret_never_goes_to_another_issuer() -> None:
    with pytest.raises(AuthorizationError, match=r"registered at https://as\.example"):
        prove(
            RegisteredClient(ISSUER, "c", "s"),
            Identity(),
            AuthorizationServer("https://evil.example", "t"),
            NOW,
        )


def test_basic_encodes_both_before_they_are_joined() -> None:
    form, ((name, value),) = prove(RegisteredClient(ISSUER, "a:b", "c d%"), Identity(), server(), NOW)
    assert form == {"client_id": "a:b"}
    assert name == "Authorization"
    assert base64.b64decode(value.removeprefix("Basic ")) == b"a%3Ab:c%20d%25"


@pytest.mark.parametrize(
    ("key", "algorithm"), [(EC, "ES256"), (RSA, "RS256"), (RSA, "PS256"), (ED, "Ed25519")]
)
def test_an_assertion_is_signed_for_the_issuer_alone(key: Any, algorithm: str) -> None:
    identity = Identity(
        client_id="me", private_key=private_pem(key), signing_algorithm=algorithm, issuer=ISSUER
    )
    form, headers = prove(RegisteredClient(ISSUER, "me"), identity, server(), NOW)
    assert headers == ()
    assert form["client_id"] == "me"
    assert form["client_assertion_type"] == ASSERTION_TYPE
    claims = jwt.decode(form["client_assertion"], key, algorithms=[algorithm]).claims
    assert (claims["iss"], claims["sub"], claims["aud"]) == ("me", "me", ISSUER)
    assert claims["iat"] == NOW
    assert claims["exp"] - NOW == 300
    again, _ = prove(RegisteredClient(ISSUER, "me"), identity, server(), NOW)
    assert jwt.decode(again["client_assertion"], key, algorithms=[algorithm]).claims["jti"] != claims["jti"]


def test_an_algorithm_that_the_issuer_does_not_accept_is_refused_here() -> None:
    identity = Identity(client_id="me", private_key=private_pem(EC), signing_algorithm="ES256", issuer=ISSUER)
    where = server(token_endpoint_auth_signing_alg_values_supported=("RS256",))
    with pytest.raises(AuthorizationError, match="by RS256, not ES256"):
        prove(RegisteredClient(ISSUER, "me"), identity, where, NOW)


@pytest.mark.parametrize(
    ("key", "algorithm", "path"),
    [
        ("very-secret", "ES256", "private_key"),
        ("", "RS256", "private_key"),
        (private_pem(RSA), "ES256", "private_key"),
        (private_pem(EC), "ES384", "private_key"),
        (bytes(EC.as_pem(private=False)).decode(), "ES256", "private_key"),
        (private_pem(EC), "HS256", "signing_algorithm"),
        (private_pem(EC), "none", "signing_algorithm"),
        (private_pem(EC), "ES999", "private_key"),
    ],
)
def test_a_key_that_cannot_sign_is_refused_and_not_shown(key: str, algorithm: str, path: str) -> None:
    with pytest.raises(UsageError) as caught:
        sign({"iss": "me"}, key, algorithm)
    assert caught.value.path == path
    assert "very-secret" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "joserfc", None)
    with pytest.raises(UsageError, match=r"jackstay\[http\]"):
        sign({"iss": "me"}, private_pem(EC), "ES256")
