"""Exceptions for handlers, and the report of unexpected exceptions."""

import logging
import pickle
import re

import pytest

from jackstay.errors import McpError, UsageError
from jackstay.server import InsufficientScopeError, ResourceNotFoundError, ToolError
from jackstay.server._failures import report


def test_messages_of_tool_error_and_resource_not_found_error() -> None:
    error = ToolError("no such city")
    assert (error.message, error.type) == ("no such city", "tool")
    assert isinstance(error, McpError)
    assert str(pickle.loads(pickle.dumps(error))) == "no such city"
    assert ResourceNotFoundError().message == "resource not found"
    assert ResourceNotFoundError("gone").message == "gone"


def test_insufficient_scope_error_has_the_scopes_as_data() -> None:
    error = InsufficientScopeError("b", "a")
    assert error.scopes == {"a", "b"}
    assert (error.code, error.data) == (-32600, {"reason": "insufficient_scope", "scopes": ["a", "b"]})
    assert "a, b" in str(error)
    assert pickle.loads(pickle.dumps(error)).scopes == {"a", "b"}


def test_an_unexpected_exception_is_logged_with_a_reference_that_the_client_gets(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.ERROR, "jackstay.server"):
        message = report("tool x", ValueError("the password is 1234"))
    found = re.fullmatch(r"tool x failed \(reference ([0-9a-f]{8}) in the server's log\)", message)
    assert found is not None
    assert found[1] in caplog.text
    assert "the password is 1234" in caplog.text


def test_invalid_scopes_are_rejected(subtests: pytest.Subtests) -> None:
    for scope in ['a", resource_metadata="https://evil"', "\U0001f600", 'a\nb"', "\\"]:
        with subtests.test(scope=scope), pytest.raises(UsageError):
            InsufficientScopeError("files", scope)


def test_scopes_are_deduplicated() -> None:
    error = InsufficientScopeError("b", "a c", "b")
    assert error.scopes == {"a", "b", "c"}
    assert error.data == {"reason": "insufficient_scope", "scopes": ["a", "b", "c"]}
