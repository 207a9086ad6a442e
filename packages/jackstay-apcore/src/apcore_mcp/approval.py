"""Approval of calls by the user of the client, with MCP elicitation. On any failure, the module does not run.

apcore decides which calls need approval. An executor without an approval handler gets `ClientApproval`, which returns
"pending" for a call of a client: the router then requests the approval, while no timeout runs, and repeats the call.
Sensitive arguments are redacted in the prompt. An executor with its own approval handler is not changed.
"""

import json
import weakref
from contextvars import ContextVar
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from apcore import (  # type: ignore[import-untyped]  # apcore ships no types
    ApprovalResult,
    BuiltinApprovalGate,
)

from apcore_mcp.text import escape_unprintable
from apcore_mcp.tracing import traced
from jackstay.errors import CapabilityError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apcore import ApprovalRequest, Executor

    from apcore_mcp.catalogue import Entry

_logger = traced("apcore_mcp.approval")

# The maximum number of characters of arguments in a prompt. A longer prompt would not be read.
MAX_PROMPT_ARGUMENTS: Final = 4000

# Accepting it is the approval, unless the field is unset. Some clients do not show a form without a field.
FORM: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"approve": {"type": "boolean", "title": "Approve", "description": "Run it", "default": True}},
}


class ElicitationAnswer(Protocol):
    """The answer to an elicitation."""

    @property
    def is_accepted(self) -> bool:
        """Whether the user accepted."""


class Elicitor(Protocol):
    """An object with `elicit`, such as `jackstay.server.Context`."""

    async def elicit(self, message: str, form: Any, *, key: str | None = None) -> ElicitationAnswer:
        """Return the answer of the user."""


class Consent:
    """The state of one call at the approval gate of apcore: whether approval is required, and whether it was given."""

    def __init__(self, trace_id: str, approved_by: str = "") -> None:
        self.trace_id = trace_id
        self.approved_by = approved_by or "client"
        self.is_required = False
        self.is_granted = False


# The consent of the current call of a client, or None.
CONSENT: Final[ContextVar[Consent | None]] = ContextVar("apcore_mcp_consent", default=None)


class ClientCall(NamedTuple):
    """A call of a client: who calls which module with which arguments. Without a module, the client only polls."""

    principal: str
    module_id: str | None = None
    arguments: "Mapping[str, Any]" = MappingProxyType({})


# The current call of a client, or None in a call of the program.
CLIENT_CALL: Final[ContextVar[ClientCall | None]] = ContextVar("apcore_mcp_client_call", default=None)


class ClientApproval:
    """An approval handler for an executor without one: calls of clients are pending until the user approves.

    Other calls (of the program and of modules) are handled as without a handler: rejected under a strict policy,
    otherwise approved with a warning.
    """

    def __init__(self, executor: "Executor") -> None:
        self._executor = weakref.ref(executor)
        self._warned: set[str] = set()

    async def request_approval(self, request: "ApprovalRequest") -> "ApprovalResult":
        """Return "approved", or "pending" until the user of the client has approved."""
        consent = CONSENT.get()
        # A call that a module makes has a caller id or, without its context, another trace id.
        is_inner = request.caller_id is not None
        if consent is None or is_inner or request.context.trace_id != consent.trace_id:
            return self._without_a_client(request.module_id)
        if consent.is_granted:
            return ApprovalResult(status="approved", approved_by=consent.approved_by)
        consent.is_required = True
        return ApprovalResult(status="pending", reason="waiting for the user of the client")

    async def check_approval(self, approval_id: str) -> "ApprovalResult":  # noqa: ARG002  # apcore's
        """Return "rejected": this handler issues no approval tokens, so any token is invalid."""
        return ApprovalResult(status="rejected", reason="unknown approval token")

    def _without_a_client(self, module_id: str) -> "ApprovalResult":
        executor = self._executor()
        if executor is None or executor.governance_state().policy_strict:
            return ApprovalResult(status="rejected", reason="the call is not from a client, and the policy is strict")
        if module_id not in self._warned:
            self._warned.add(module_id)
            _logger.warning("%s requires approval, but ran without it: the call is not from a client", module_id)
        return ApprovalResult(status="approved", reason="the call is not from a client")


def principal_of(context: Any) -> str:
    """Return the id of the identity in a context of apcore, or an empty string."""
    identity = getattr(context, "identity", None)
    return "" if identity is None else str(identity.id)


def attach_client_approval(executor: "Executor") -> bool:
    """Set `ClientApproval` as the approval handler, unless the executor has one. Return whether it is in use."""
    gates = [step for step in executor.current_strategy.steps if isinstance(step, BuiltinApprovalGate)]
    handlers = [gate.handler for gate in gates if gate.handler is not None]
    if handlers:
        return all(isinstance(handler, ClientApproval) for handler in handlers)
    if executor.governance_state().approval_handler_configured:
        return False
    if gates:
        executor.set_approval_handler(ClientApproval(executor))
    return True


async def request_approval(entry: "Entry", arguments: "Mapping[str, Any]", elicitor: Elicitor | None) -> str | None:
    """Request the approval of a call. Return None if the user approved, otherwise the error message for the client.

    On stateless protocol revisions, `elicit` ends the request with a BaseException; the client repeats it with the
    answer.
    """
    if elicitor is None:
        return _unavailable(entry)
    try:
        answer = await elicitor.elicit(approval_prompt(entry, arguments), FORM, key="approval")
    except CapabilityError:
        return _unavailable(entry)
    except Exception:
        _logger.exception("%s was not run: the approval could not be requested", entry.id)
        return f"Approval required: {entry.id} was not run, because the approval could not be requested."
    content = getattr(answer, "content", None) or {}
    if answer.is_accepted is True and content.get("approve", True) is True:
        _logger.info("%s was approved", entry.id)
        return None
    _logger.warning("%s was not approved", entry.id)
    return f"Approval denied: {entry.id} was not run."


def approval_prompt(entry: "Entry", arguments: "Mapping[str, Any]") -> str:
    """Return the prompt: the module and its arguments, redacted."""
    given = json.dumps(entry.redact(arguments), indent=2, default=str, ensure_ascii=False)
    if len(given) > MAX_PROMPT_ARGUMENTS:
        given = f"{given[:MAX_PROMPT_ARGUMENTS]}\n... ({len(given)} characters in all)"
    summary = entry.description.strip().partition("\n")[0][:300]
    parts = (f"Run {entry.id}?", summary, f"Arguments:\n{given}")
    # Control and direction characters in the arguments must not change how the prompt looks.
    return escape_unprintable("\n\n".join(part for part in parts if part), keep="\n")


def _unavailable(entry: "Entry") -> str:
    _logger.warning("%s was not run: it requires approval, and the client does not support elicitation", entry.id)
    return (
        f"Approval required: {entry.id} requires the approval of a user, and this client does not support elicitation."
        ' Use a client with elicitation, or serve with approval="allow".'
    )


__all__ = [
    "CLIENT_CALL",
    "CONSENT",
    "FORM",
    "MAX_PROMPT_ARGUMENTS",
    "ClientApproval",
    "ClientCall",
    "Consent",
    "ElicitationAnswer",
    "Elicitor",
    "approval_prompt",
    "attach_client_approval",
    "principal_of",
    "request_approval",
]
