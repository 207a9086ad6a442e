"""The room's error: a transport error to the call, with the fields of OAuth, and a stranger's words made harmless."""

import pickle

import pytest

from jackstay.errors import TransportError
from jackstay.oauth import AuthorizationError
from jackstay.oauth._errors import quoted


def test_it_says_that_the_call_did_not_run() -> None:
    error = AuthorizationError("no", error="access_denied", issuer="https://as.example")
    assert isinstance(error, TransportError)
    assert isinstance(error, ConnectionError)
    assert error.may_have_run is False
    assert error.permanent
    assert not error.retryable
    assert error.details == {"error": "access_denied", "issuer": "https://as.example"}
    assert AuthorizationError("later", permanent=False).retryable
    assert AuthorizationError("no").details == {}


def test_it_survives_pickling() -> None:
    copy = pickle.loads(pickle.dumps(AuthorizationError("no", error="e", issuer="i")))
    assert (copy.message, copy.error, copy.issuer) == ("no", "e", "i")


@pytest.mark.parametrize(
    ("said", "shown"),
    [("plain", "'plain'"), ("\x1b[2J\n", "'\\x1b[2J\\n'"), ("ä", "'\\xe4'"), ("x" * 900, f"'{'x' * 200}'")],
)
def test_a_strangers_words_are_short_and_printable(said: str, shown: str) -> None:
    assert quoted(said) == shown
