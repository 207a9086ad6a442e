"""Errors as dicts."""

from apcore import (
    ACLDeniedError,
    ApprovalPendingError,
    ApprovalResult,
    ErrorFormatterRegistry,
    ModuleError,
    ModuleNotFoundError,
)
from apcore.cancel import ExecutionCancelledError

from apcore_mcp.compat.errors import MCPErrorFormatter, internal_error_response, register_mcp_formatter


def test_every_kind_of_error() -> None:
    form = MCPErrorFormatter().format
    assert form(ValueError("secret")) == internal_error_response()
    assert internal_error_response()["message"] == "Internal error occurred"
    assert form(ExecutionCancelledError())["errorType"] == "EXECUTION_CANCELLED"
    denied = form(ACLDeniedError(caller_id="x", target_id="y"))
    assert (denied["message"], denied["details"]) == ("Access denied", None)
    missing = form(ModuleNotFoundError(module_id="a.b"))
    assert (missing["errorType"], missing["message"]) == ("MODULE_NOT_FOUND", "Module not found: a.b")
    pending = form(ApprovalPendingError(result=ApprovalResult(status="pending", approval_id="7"), module_id="m"))
    assert pending["details"] == {"approvalId": "7"}
    own = form(ModuleError(code="POOR", message="3 EUR", ai_guidance="Ask less", suggestion="Pay", retryable=False))
    assert (own["message"], own["aiGuidance"], own["suggestion"], own["retryable"]) == (
        "3 EUR",
        "Ask less",
        "Pay",
        False,
    )


def test_formatter_is_registered_once() -> None:
    register_mcp_formatter()
    register_mcp_formatter()
    assert ErrorFormatterRegistry.get("mcp") is not None
