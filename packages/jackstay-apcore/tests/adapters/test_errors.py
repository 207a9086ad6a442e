"""Messages of error results. Internal details are only logged."""

import logging
from typing import Any

import apcore
import pytest
from apcore import ExecutionCancelledError

from apcore_mcp.adapters import ErrorMapper
from jackstay.types import TextContent

mapper = ErrorMapper()


def row(**members: Any) -> apcore.SchemaValidationError:
    return apcore.SchemaValidationError(message="bad", errors=[members])


MESSAGES = [
    (apcore.ModuleNotFoundError(module_id="a.b"), "Module not found: a.b"),
    (
        apcore.SchemaValidationError(
            errors=[
                {"field": "width", "code": "int_type", "message": "not an integer"},
                {"path": "/size/height", "keyword": "type", "message": "no number"},
            ]
        ),
        "Input validation failed:\n- width: not an integer (int_type)\n- size.height: no number (type)",
    ),
    (
        row(path="", keyword="required", message="Field required"),
        "Input validation failed:\n- input: Field required (required)",
    ),
    (row(path=["a", 0], message="bad"), "Input validation failed:\n- a.0: bad (invalid)"),
    (row(path=[]), "Input validation failed:\n- input: is not valid (invalid)"),
    (apcore.SchemaValidationError(message="all of it"), "Input validation failed:\n- all of it"),
    (
        apcore.SchemaValidationError(message="", errors=["odd"]),
        "Input validation failed:\n- input: odd (invalid)",
    ),  # type: ignore[list-item]
    (apcore.SchemaValidationError(message=""), "Input validation failed:"),
    (
        apcore.SchemaValidationError(message="Output validation failed: [...]", errors=[{"path": "/a"}]),
        "Module error: SCHEMA_VALIDATION_ERROR",
    ),
    (apcore.ACLDeniedError(caller_id="secret.caller", target_id="a.b"), "Access denied"),
    (apcore.ModuleTimeoutError(module_id="a.b", timeout_ms=250), "Module timed out after 250ms"),
    (apcore.InvalidInputError(message="no such day"), "Invalid input: no such day"),
    (apcore.CallDepthExceededError(depth=9, max_depth=8, call_chain=["secret"]), "Call depth limit exceeded"),
    (apcore.CircularCallError(module_id="a", call_chain=["secret"]), "Circular call detected"),
    (
        apcore.CallFrequencyExceededError(module_id="a", count=9, max_repeat=3, call_chain=["secret"]),
        "Call frequency limit exceeded",
    ),
    (
        apcore.ModuleError(code="OUT_OF_STOCK", message="empty shelf"),
        "Module error: OUT_OF_STOCK\nMessage: empty shelf",
    ),
    (apcore.ModuleExecuteError(module_id="a", message="Module 'a' raised OSError: /secret"), "Internal error occurred"),
    (apcore.ModuleExecuteError(message="/secret", cause=OSError("/secret")), "Internal error occurred"),
    (
        apcore.ModuleExecuteError(message="The shelf is empty", ai_guidance="Order more", retryable=True),
        "Module error: MODULE_EXECUTE_ERROR\nMessage: The shelf is empty\nGuidance: Order more",
    ),
    (ExecutionCancelledError("by the token of call 7"), "Execution was cancelled"),
    (RuntimeError("/secret/path"), "Internal error occurred"),
]


def test_messages(subtests: pytest.Subtests) -> None:
    for error, text in MESSAGES:
        with subtests.test(error=error):
            result = mapper.to_mcp_error(error)
            assert result.error_text == text
            assert result.is_error is True
            assert "secret" not in result.error_text


def test_internal_errors_are_logged_with_traceback(caplog: pytest.LogCaptureFixture) -> None:
    """For an exception of a module, its cause is logged."""
    cause = ValueError("in the module")
    with caplog.at_level(logging.ERROR, "apcore_mcp"):
        mapper.to_mcp_error(apcore.ModuleExecuteError(module_id="a", message="raised", cause=cause))
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None
    assert record.exc_info[1] is cause


def test_malformed_details_fall_back(subtests: pytest.Subtests) -> None:
    """The result has the message of the error, or the message of an internal error."""
    for kind in [apcore.ModuleNotFoundError, apcore.ModuleTimeoutError]:
        with subtests.test(kind=kind):
            for message, text in (("in words", "in words"), ("", "Internal error occurred")):
                error = kind.__new__(kind)
                apcore.ModuleError.__init__(error, code="X", message=message)
                for details in ({}, {"module_id": None, "timeout_ms": None}, None, 7):
                    error.details = details  # type: ignore[assignment]  # a subclass may do this
                    assert mapper.to_mcp_error(error).error_text == text


def test_unreadable_error_is_internal(caplog: pytest.LogCaptureFixture) -> None:
    """The mapper never raises."""

    class Unreadable(apcore.InvalidInputError):
        details = property(lambda self: 1 / 0, lambda self, given: None)

    assert mapper.to_mcp_error(Unreadable(message="m")).error_text == "Internal error occurred"
    assert "cannot describe an error of type Unreadable" in caplog.text


def test_details_of_a_wrong_type_fall_back_to_the_message() -> None:
    error = apcore.SchemaValidationError(message="in words")
    error.details = None  # type: ignore[assignment]  # a subclass may do this
    assert mapper.to_mcp_error(error).error_text == "Input validation failed:\n- in words"


def test_format_validation_errors() -> None:
    """The private method that formats validation errors."""
    error = row(field="a", message="m", code="c")
    assert mapper._format_validation_errors(error) == "Input validation failed:\n- a: m (c)"


def test_lone_surrogate_is_replaced() -> None:
    """A lone surrogate cannot be encoded as UTF-8."""
    assert mapper.to_mcp_error(apcore.InvalidInputError(message="x\ud800")).error_text == "Invalid input: x?"


def test_what_the_author_wrote_is_kept() -> None:
    error = apcore.ModuleError(
        code="INSUFFICIENT_FUNDS",
        message="Account 12 has only 3 EUR",
        ai_guidance="Offer a smaller amount",
        suggestion="Pay at most 3 EUR",
        retryable=False,
        user_fixable=True,
    )
    result = ErrorMapper().to_mcp_error(error)
    texts = [block.text for block in result.content if isinstance(block, TextContent)]
    assert texts == [
        "Module error: INSUFFICIENT_FUNDS",
        "Message: Account 12 has only 3 EUR\nGuidance: Offer a smaller amount\nSuggestion: Pay at most 3 EUR",
    ]
    assert result.meta == {
        "apcore": {
            "code": "INSUFFICIENT_FUNDS",
            "message": "Account 12 has only 3 EUR",
            "aiGuidance": "Offer a smaller amount",
            "suggestion": "Pay at most 3 EUR",
            "retryable": False,
            "userFixable": True,
        }
    }


def test_messages_of_apcore_itself_are_not_sent() -> None:
    result = ErrorMapper().to_mcp_error(apcore.ModuleError(code="ACL_RULE_ERROR", message="rule 3 of /etc/acl.yaml"))
    assert (len(result.content), result.meta) == (1, None)


def test_errors_as_dicts() -> None:
    assert ErrorMapper().format(apcore.ModuleNotFoundError(module_id="a.b"))["errorType"] == "MODULE_NOT_FOUND"
    assert ErrorMapper().to_mcp_error_any("text")["errorType"] == "GENERAL_INTERNAL_ERROR"
