"""OAuth documents: members that are read or ignored, and errors that never quote a secret."""

import pytest

from jackstay.oauth import AuthorizationError
from jackstay.oauth._discovery import AuthorizationServer, read_document
from jackstay.oauth._tokens import TokenResponse


def test_unknown_members_and_nulls_are_ignored() -> None:
    body = b'{"issuer":"i","token_endpoint":"t","x":[1],"scopes_supported":null,"registration_endpoint":null}'
    assert read_document(body, AuthorizationServer, "it") == AuthorizationServer("i", "t")


def test_an_invalid_document_is_an_error_that_names_the_member() -> None:
    for body, reason in (
        (b'{"issuer":"i"}', "token_endpoint"),
        (b'{"issuer":1,"token_endpoint":"t"}', r"\$\.issuer"),
        (b"<html>", "invalid JSON"),
        (b"", "invalid JSON"),
        (b"[]", "object"),
        (b'{"issuer":"\xff"}', "invalid JSON"),
        (b"[" * 100_000, "is invalid"),
    ):
        with pytest.raises(AuthorizationError, match=reason):
            read_document(body, AuthorizationServer, "the metadata of x")


def test_the_error_never_quotes_the_body() -> None:
    with pytest.raises(AuthorizationError) as caught:
        read_document(b'{"access_token":"very-secret","expires_in":[]}', TokenResponse, "the response")
    assert "very-secret" not in f"{caught.value!r} {caught.value} {caught.value.__cause__}"
