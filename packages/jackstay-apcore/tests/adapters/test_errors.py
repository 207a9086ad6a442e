"""F-004: the texts, exactly; and nothing that a client should not read."""

import logging
from typing import Any

import apcore
import pytest

from apcore_mcp.adapters import ErrorMapper

mapper = ErrorMapper()


def row(**members: Any) -> apcore.SchemaValidationError:
    return apcore.SchemaValidationError(message="bad", errors=[members])


TEXTS = [
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
    (apcore.ModuleError(code="OUT_OF_STOCK", message="secret shelf"), "Module error: OUT_OF_STOCK"),
    (apcore.ModuleExecuteError(module_id="a", message="raised OSError: /secret"), "Internal error occurred"),
    (RuntimeError("/secret/path"), "Internal error occurred"),
]


@pytest.mark.parametrize(("error", "text"), TEXTS, ids=lambda value: type(value).__name__)
def test_every_error_has_its_text_and_is_an_error(error: Exception, text: str) -> None:
    """F-004."""
    result = mapper.to_mcp_error(error)
    assert result.text == text
    assert result.is_error is True
    assert "secret" not in result.text


def test_what_is_not_told_is_logged_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    """F-004: at ERROR; for a module's own exception, the cause."""
    cause = ValueError("in the module")
    with caplog.at_level(logging.ERROR, "apcore_mcp"):
        mapper.to_mcp_error(apcore.ModuleExecuteError(module_id="a", message="raised", cause=cause))
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None
    assert record.exc_info[1] is cause


@pytest.mark.parametrize("kind", [apcore.ModuleNotFoundError, apcore.ModuleTimeoutError])
def test_malformed_details_fall_back(kind: type[apcore.ModuleError]) -> None:
    """F-004, seed 6.4: to the message of the error, and without one to the last text; the mapper never raises."""
    for message, text in (("in words", "in words"), ("", "Internal error occurred")):
        error = kind.__new__(kind)
        apcore.ModuleError.__init__(error, code="X", message=message)
        for details in ({}, {"module_id": None, "timeout_ms": None}, None, 7):
            error.details = details  # type: ignore[assignment]  # what a subclass may do
            assert mapper.to_mcp_error(error).text == text


def test_an_error_that_cannot_even_be_read_is_an_internal_one(caplog: pytest.LogCaptureFixture) -> None:
    """F-004: the mapper never raises."""

    class Odd(apcore.InvalidInputError):
        details = property(lambda self: 1 / 0, lambda self, given: None)

    assert mapper.to_mcp_error(Odd(message="m")).text == "Internal error occurred"
    assert "an error of Odd could not be described" in caplog.text


def test_details_of_a_wrong_kind_fall_back_to_the_message() -> None:
    error = apcore.SchemaValidationError(message="in words")
    error.details = None  # type: ignore[assignment]  # what a subclass may do
    assert mapper.to_mcp_error(error).text == "Input validation failed:\n- in words"


def test_a_subclass_may_format_validation_errors_itself() -> None:
    """Seed 6.4: `_format_validation_errors`."""
    error = row(field="a", message="m", code="c")
    assert mapper._format_validation_errors(error) == "Input validation failed:\n- a: m (c)"


def test_half_a_character_is_replaced() -> None:
    """A text that UTF-8 has no form for must not lose the answer."""
    assert mapper.to_mcp_error(apcore.InvalidInputError(message="x\ud800")).text == "Invalid input: x?"
