"""`Identity`: valid combinations, `repr` without secrets, and the application type."""

from typing import Any

import pytest

from jackstay.errors import UsageError
from jackstay.oauth import Identity
from jackstay.oauth._identity import RegisteredClient, application_type


def test_invalid_combinations_are_refused_by_name() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"auth_method": "magic"}, "auth_method"),
        ({"client_secret": "s"}, "client_id"),
        ({"issuer": "https://as.example"}, "client_id"),
        (
            {"client_id": "c", "client_secret": "s", "private_key": "k", "signing_algorithm": "ES256"},
            "private_key",
        ),
        ({"client_id": "c", "private_key": "k"}, "signing_algorithm"),
        ({"client_id": "c", "signing_algorithm": "ES256"}, "signing_algorithm"),
        ({"client_id": "c", "client_secret": "s"}, "issuer"),
        ({"client_id": "c", "private_key": "k", "signing_algorithm": "ES256"}, "issuer"),
        ({"client_id": "c", "assume_pkce": True}, "issuer"),
        ({"client_id": "c", "send_resource": False}, "issuer"),
        ({"client_id": "c", "audience": "a"}, "issuer"),
        ({"client_id": "c", "sign_in_parameters": {"access_type": "offline"}}, "issuer"),
        (
            {"client_id": "c", "issuer": "https://as.example", "sign_in_parameters": {"state": "x"}},
            "sign_in_parameters",
        ),
        ({"metadata_url": "http://me.example/c.json"}, "metadata_url"),
        ({"metadata_url": "https://me.example"}, "metadata_url"),
        ({"metadata_url": "https://me.example/"}, "metadata_url"),
        ({"metadata_url": "https:///c.json"}, "metadata_url"),
    ]
    for members, path in cases:
        with pytest.raises(UsageError) as caught:
            Identity(**members)
        assert caught.value.path == path, members


def test_deviations_from_the_specification_apply_to_their_issuer_only() -> None:
    identity = Identity(client_id="c", issuer="https://as.example", assume_pkce=True, send_resource=False, audience="a")
    assert identity.assumes_pkce("https://as.example")
    assert not identity.assumes_pkce("https://evil.example")
    assert identity.resource_form("https://as.example", "r") == {"audience": "a"}
    assert identity.resource_form("https://evil.example", "r") == {"resource": "r"}
    assert Identity().resource_form("https://as.example", "r") == {"resource": "r"}


def test_secrets_are_not_shown() -> None:
    text = repr(Identity(client_id="me", client_secret="very-secret", issuer="https://as.example"))
    assert text == "Identity('me', issuer='https://as.example')"
    assert repr(Identity()) == "Identity('Jackstay')"
    assert "very-secret" not in repr(RegisteredClient("i", "c", "very-secret"))


def test_a_program_on_the_users_machine_is_native() -> None:
    for uri, kind in (
        ("http://127.0.0.1:1/x", "native"),
        ("http://localhost:3000/callback", "native"),
        ("https://localhost/x", "native"),
        ("com.example.app:/x", "native"),
        ("https://web.example/back", "web"),
    ):
        assert application_type(uri) == kind
