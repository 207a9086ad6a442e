"""Documents of strangers: what is read, what is ignored, and that an error never quotes what may be a secret."""

import pytest

from jackstay.oauth import AuthorizationError
from jackstay.oauth._documents import AuthorizationServer, TokenAnswer, read_document


def test_unknown_members_and_nulls_are_ignored() -> None:
    body = b'{"issuer":"i","token_endpoint":"t","x":[1],"scopes_supported":null,"registration_endpoint":null}'
    assert read_document(body, AuthorizationServer, "it") == AuthorizationServer("i", "t")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"issuer":"i"}', "token_endpoint"),
        (b'{"issuer":1,"token_endpoint":"t"}', r"\$\.issuer"),
        (b"<html>", "not JSON"),
        (b"", "not JSON"),
        (b"[]", "object"),
        (b'{"issuer":"\xff"}', "not JSON"),
        (b"[" * 100_000, "cannot be read"),
    ],
)
def test_a_document_that_cannot_be_read_is_an_error_that_names_the_member(body: bytes, reason: str) -> None:
    with pytest.raises(AuthorizationError, match=reason):
        read_document(body, AuthorizationServer, "the metadata of x")


def test_the_error_never_quotes_the_body() -> None:
    with pytest.raises(AuthorizationError) as caught:
        read_document(b'{"access_token":"very-secret","expires_in":[]}', TokenAnswer, "the answer")
    assert "very-secret" not in f"{caught.value!r} {caught.value} {caught.value.__cause__}"
