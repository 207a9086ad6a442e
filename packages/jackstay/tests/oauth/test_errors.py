"""`AuthorizationError`: a transport error with OAuth fields, and quoting of untrusted values."""

import pickle

from jackstay.errors import TransportError
from jackstay.oauth import AuthorizationError
from jackstay.oauth._errors import quoted


def test_the_error_states_that_the_call_did_not_run() -> None:
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


def test_quoted_values_are_short_and_printable() -> None:
    for value, expected in (
        ("plain", "'plain'"),
        ("\x1b[2J\n", "'\\x1b[2J\\n'"),
        ("ä", "'\\xe4'"),
        ("x" * 900, f"'{'x' * 200}'"),
    ):
        assert quoted(value) == expected
