"""A person's consent before a call that needs it. Whatever goes wrong, the module does not run.

apcore decides which calls need it: by the annotations of a module, a policy, or a rule of the access list. It then asks the
approval handler of the executor, and without one it only warns. So an executor that has none is given `ClientApproval`, which
answers "pending" for the call of a client: the call comes back out of apcore, the client is asked (elicitation) while no
timeout runs, and with its consent the call is made again. The client is shown what would run with which arguments, the
sensitive ones hidden. A client that cannot be asked is refused in words. An executor with a handler of its own is left to it.

Must never know how a module is run. Above: the router. Below: the caller's `elicit`, `catalogue` entries, apcore's gate.
"""

import json
import weakref
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Protocol

from apcore import (  # type: ignore[import-untyped]  # apcore ships no types
    ApprovalResult,
    BuiltinApprovalGate,
)

from apcore_mcp.texts import shown
from apcore_mcp.tracing import traced
from jackstay.errors import CapabilityError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apcore import ApprovalRequest, Executor

    from apcore_mcp.catalogue import Entry

_logger = traced("apcore_mcp.approval")

# A prompt that nobody reads to its end protects nobody.
MAX_SHOWN: Final = 4000

# Nothing to fill in: to accept is to agree.
FORM: Final[dict[str, Any]] = {"type": "object", "properties": {}}


class Answer(Protocol):
    """What a person answered."""

    @property
    def is_accepted(self) -> bool:
        """True if he agreed."""


class Asker(Protocol):
    """Who can ask a person; `jackstay.server.Context` is one."""

    async def elicit(self, message: str, form: Any, *, key: str | None = None) -> Answer:
        """The answer."""


class Consent:
    """What became of one call at apcore's gate: whether a person must agree to it, and whether one did."""

    def __init__(self, trace_id: str, agreed_by: str = "") -> None:
        self.trace_id = trace_id
        self.agreed_by = agreed_by or "client"
        self.is_wanted = False
        self.is_given = False


# The call of a client that is under way here, or none.
CONSENT: Final[ContextVar[Consent | None]] = ContextVar("apcore_mcp_consent", default=None)


class ClientApproval:
    """An approval handler of apcore's for an executor that has none: it holds up the calls of clients until one agreed.

    Calls that are no client's (the program's own, and those that modules make) are as they would be without a handler:
    refused under a strict policy, and else let through with a warning.
    """

    def __init__(self, executor: "Executor") -> None:
        self._executor = weakref.ref(executor)
        self._warned: set[str] = set()

    async def request_approval(self, request: "ApprovalRequest") -> "ApprovalResult":
        """Approved, or pending until the client was asked."""
        consent = CONSENT.get()
        # A module's own calls have a caller, or, made without its context, a trace of their own.
        is_inner = request.caller_id is not None
        if consent is None or is_inner or request.context.trace_id != consent.trace_id:
            return self._without_a_client(request.module_id)
        if consent.is_given:
            return ApprovalResult(status="approved", approved_by=consent.agreed_by)
        consent.is_wanted = True
        return ApprovalResult(status="pending", reason="the client is asked")

    async def check_approval(self, approval_id: str) -> "ApprovalResult":  # noqa: ARG002  # apcore's
        """Rejected: nobody was given a token, so whoever has one made it up."""
        return ApprovalResult(status="rejected", reason="there are no tokens")

    def _without_a_client(self, module_id: str) -> "ApprovalResult":
        executor = self._executor()
        if executor is None or executor.governance_state().policy_strict:
            return ApprovalResult(status="rejected", reason="nobody can be asked, and the policy is strict")
        if module_id not in self._warned:
            self._warned.add(module_id)
            _logger.warning("%s needs an approval, and ran without: the call was no client's", module_id)
        return ApprovalResult(status="approved", reason="the call was no client's")


def attach(executor: "Executor") -> bool:
    """True if clients are to be asked: the executor has no approval handler of its own. Its gates then have ours."""
    gates = [step for step in executor.current_strategy.steps if isinstance(step, BuiltinApprovalGate)]
    handlers = [gate.handler for gate in gates if gate.handler is not None]
    if handlers:
        return all(isinstance(handler, ClientApproval) for handler in handlers)
    if executor.governance_state().approval_handler_configured:
        return False
    if gates:
        executor.set_approval_handler(ClientApproval(executor))
    return True


async def refusal_of(entry: "Entry", arguments: "Mapping[str, Any]", asker: Asker | None) -> str | None:
    """None, if a person agreed to this call; else what to tell the client.

    A question of the stateless era unwinds through here (it is no Exception), and comes back with its answer.
    """
    if asker is None:
        return _cannot(entry)
    try:
        answer = await asker.elicit(question(entry, arguments), FORM, key="approval")
    except CapabilityError:
        return _cannot(entry)
    except Exception:
        _logger.exception("%s was not run: the approval could not be asked for", entry.id)
        return f"Approval required: {entry.id} was not run, because the approval could not be asked for."
    if answer.is_accepted is True:
        _logger.info("%s was approved", entry.id)
        return None
    _logger.warning("%s was not approved", entry.id)
    return f"Approval denied: {entry.id} was not run."


def question(entry: "Entry", arguments: "Mapping[str, Any]") -> str:
    """What a person is asked: what would run, and with what, without the secrets."""
    given = json.dumps(entry.redact(arguments), indent=2, default=str, ensure_ascii=False)
    if len(given) > MAX_SHOWN:
        given = f"{given[:MAX_SHOWN]}\n... ({len(given)} characters in all)"
    about = entry.description.strip().partition("\n")[0][:300]
    said = (f"Run {entry.id}?", about, f"Arguments:\n{given}")
    # Whoever wrote the arguments must not be able to turn the prompt around.
    return shown("\n\n".join(part for part in said if part), keep="\n")


def _cannot(entry: "Entry") -> str:
    _logger.warning("%s was not run: it needs an approval, and the client cannot be asked", entry.id)
    return (
        f"Approval required: {entry.id} needs a person's approval, and this client cannot be asked (no elicitation)."
        ' Use a client that can, or serve with approval="allow".'
    )


__all__ = [
    "CONSENT",
    "FORM",
    "MAX_SHOWN",
    "Answer",
    "Asker",
    "ClientApproval",
    "Consent",
    "attach",
    "question",
    "refusal_of",
]
