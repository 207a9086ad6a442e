"""What a client is told of a failure: an author's words, or one sentence with a reference."""

import logging
import pickle
import re

import pytest

from jackstay.errors import McpError, UsageError
from jackstay.server import InsufficientScopeError, ResourceNotFoundError, ToolError
from jackstay.server._failures import report


def test_an_authors_words_are_the_message() -> None:
    error = ToolError("no such city")
    assert (error.message, error.type) == ("no such city", "tool")
    assert isinstance(error, McpError)
    assert str(pickle.loads(pickle.dumps(error))) == "no such city"
    assert ResourceNotFoundError().message == "there is no such resource"
    assert ResourceNotFoundError("gone").message == "gone"


def test_missing_scopes_are_named_for_programs_too() -> None:
    error = InsufficientScopeError("b", "a")
    assert error.scopes == {"a", "b"}
    assert (error.code, error.data) == (-32600, {"reason": "insufficient_scope", "scopes": ["a", "b"]})
    assert "a, b" in str(error)
    assert pickle.loads(pickle.dumps(error)).scopes == {"a", "b"}


def test_an_accident_is_logged_whole_and_told_by_its_reference(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "jackstay.server"):
        told = report("tool x", ValueError("the password is 1234"))
    found = re.fullmatch(r"tool x failed \(reference ([0-9a-f]{8}) in the server's log\)", told)
    assert found is not None
    assert found[1] in caplog.text
    assert "the password is 1234" in caplog.text


@pytest.mark.parametrize("scope", ['a", resource_metadata="https://evil"', "\U0001f600", 'a\nb"', "\\"])
def test_what_cannot_be_a_scope_never_gets_into_a_challenge(scope: str) -> None:
    with pytest.raises(UsageError):
        InsufficientScopeError("files", scope)


def test_the_scopes_of_an_error_are_named_once_each() -> None:
    error = InsufficientScopeError("b", "a c", "b")
    assert error.scopes == {"a", "b", "c"}
    assert error.data == {"reason": "insufficient_scope", "scopes": ["a", "b", "c"]}
