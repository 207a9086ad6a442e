"""Approvals that are given later: a store of pending calls, the handler for it, and the tool that polls it.

A call that needs approval is recorded and refused with its approval id. Another program calls `store.resolve()`; the
client then calls again with `approvalId` in `_meta`. The id is valid for one call: of the same caller, module and
arguments.
"""

import asyncio
import hashlib
import json
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol, runtime_checkable

from apcore import ApprovalHandler, ApprovalResult  # type: ignore[import-untyped]  # apcore ships no types

from apcore_mcp.approval import CLIENT_CALL, FORM, principal_of
from apcore_mcp.compat.results import FactoryTool
from apcore_mcp.helpers import MCP_ELICIT_KEY

logger = logging.getLogger("apcore_mcp.approval")

# The tool that polls, as a tuple because apcore-mcp has it so.
APPROVAL_META_TOOL_NAMES: Final = ("__apcore_approval_check",)

# Called with the id, the module and the arguments of a new pending approval.
Notify = Callable[[str, str, dict[str, Any]], Awaitable[None]]

_SHOWN: Final = ("status", "module_id", "reason", "created_at", "resolved_at")

# The reason of an approval that has been used, and the end of the id of the record that notes it.
_USED_REASON: Final = "approval_id was used already"
_USED: Final = ".used"

# How many used approval ids a handler remembers.
_MAX_USED: Final = 10_000


@runtime_checkable
class ApprovalStore(Protocol):
    """Stores pending approvals, for example in a database.

    A store that several workers share also needs `async def consume(self, approval_id: str) -> bool`: mark an approved
    record as used, in one step, and return False if it was used before or is not approved. Without it, the handler
    saves a rejected record for each used id, which is not one step: workers that get the id at the same moment may both
    run the call. (It is not part of the protocol, because apcore-mcp's stores do not have it.)
    """

    async def save_pending(self, approval_id: str, module_id: str, arguments: dict[str, Any]) -> None:
        """Record a call that waits for approval."""

    async def get_result(self, approval_id: str) -> dict[str, Any] | None:
        """Return `{"status": "pending" | "approved" | "rejected", "reason": ...}`, or None for an unknown id."""

    async def resolve(self, approval_id: str, *, approved: bool, reason: str | None = None) -> bool:
        """Approve or reject. Return False for an unknown or resolved id."""


class InMemoryApprovalStore:
    """A store in this process, for tests and development. Records expire; above `max_records` the oldest is dropped."""

    def __init__(
        self,
        *,
        resolved_ttl: float = 120.0,
        pending_ttl: float = 3600.0,
        sweep_interval: float = 300.0,  # noqa: ARG002  # of apcore-mcp; here records expire when they are read
        max_records: int = 10_000,
    ) -> None:
        self._ttl = {"pending": pending_ttl, "approved": resolved_ttl, "rejected": resolved_ttl}
        self._max_records = max_records
        self._records: dict[str, dict[str, Any]] = {}
        self._changed: dict[str, asyncio.Event] = {}

    def start(self) -> None:
        """Do nothing: there is no background task."""

    def stop(self) -> None:
        """Do nothing: there is no background task."""

    async def save_pending(self, approval_id: str, module_id: str, arguments: dict[str, Any]) -> None:
        """Record a call that waits for approval."""
        self._expire()
        if len(self._records) >= self._max_records:
            self._drop_oldest()
        self._records[approval_id] = {
            "status": "pending",
            "module_id": module_id,
            "arguments": arguments,
            "reason": None,
            "created_at": time.monotonic(),
            "resolved_at": None,
        }
        self._changed[approval_id] = asyncio.Event()

    async def get_result(self, approval_id: str) -> dict[str, Any] | None:
        """Return a copy of the record without the arguments, or None."""
        self._expire()
        return self._show(approval_id)

    async def resolve(self, approval_id: str, *, approved: bool, reason: str | None = None) -> bool:
        """Approve or reject. Return False for an unknown or resolved id."""
        self._expire()
        record = self._records.get(approval_id)
        if record is None or record["status"] != "pending":
            return False
        del record["arguments"]
        record.update(status="approved" if approved else "rejected", reason=reason, resolved_at=time.monotonic())
        self._changed.pop(approval_id).set()
        return True

    async def consume(self, approval_id: str) -> bool:
        """Mark an approved record as used. Return False if it was used before or is not approved."""
        self._expire()
        record = self._records.get(approval_id)
        if record is None or record["status"] != "approved" or record.get("is_used"):
            return False
        record["is_used"] = True
        return True

    async def wait_for_resolution(self, approval_id: str, timeout: float = 300.0) -> dict[str, Any] | None:
        """Wait until the approval is resolved, at most `timeout` seconds, and return its record."""
        changed = self._changed.get(approval_id)
        if changed is not None:
            try:
                async with asyncio.timeout(timeout):
                    await changed.wait()
            except TimeoutError:
                pass  # the record is returned as it is
        return self._show(approval_id)

    def _show(self, approval_id: str) -> dict[str, Any] | None:
        record = self._records.get(approval_id)
        return None if record is None else {name: record[name] for name in _SHOWN}

    def _expire(self) -> None:
        now = time.monotonic()
        for id, record in list(self._records.items()):
            if now - (record["resolved_at"] or record["created_at"]) > self._ttl[record["status"]]:
                self._drop(id)

    def _drop_oldest(self) -> None:
        pending = [id for id, record in self._records.items() if record["status"] == "pending"]
        if pending:
            logger.warning("dropped the pending approval %s: there are %d records", pending[0], len(self._records))
            self._drop(pending[0])

    def _drop(self, approval_id: str) -> None:
        del self._records[approval_id]
        changed = self._changed.pop(approval_id, None)
        if changed is not None:
            changed.set()


class StorageBackedApprovalHandler(ApprovalHandler):  # type: ignore[misc]  # apcore ships no types
    """Records calls that need approval in a store. If the store fails, the call is rejected."""

    def __init__(self, store: Any, *, notify_callback: Notify | None = None) -> None:
        self._store = store
        self._notify = notify_callback
        # For a store without `consume()`: the ids that approved a call of a client, the oldest first.
        self._used: dict[str, None] = {}

    async def request_approval(self, request: Any) -> ApprovalResult:
        """Record the call and return "pending" with its approval id."""
        arguments = dict(request.arguments or {})
        approval_id = _make_id(principal_of(request.context), request.module_id, arguments)
        try:
            await self._store.save_pending(approval_id, request.module_id, arguments)
        except Exception as error:
            logger.exception("cannot record a pending approval of %s", request.module_id)
            return ApprovalResult(status="rejected", reason=_reason(error))
        if self._notify is not None:
            try:
                await self._notify(approval_id, request.module_id, arguments)
            except Exception:
                logger.exception("approval_notify failed for %s", approval_id)
        return ApprovalResult(status="pending", approval_id=approval_id)

    async def check_approval(self, approval_id: str) -> ApprovalResult:
        """Return the state of an approval; "rejected" for an unknown id, and for one of another call of a client."""
        call = CLIENT_CALL.get()
        if call is not None and not _is_id_of(approval_id, *call):
            return ApprovalResult(status="rejected", reason="approval_id not found")
        try:
            record = await self._store.get_result(approval_id)
            if record is None:
                return ApprovalResult(status="rejected", reason="approval_id not found")
            if record.get("status") == "approved":
                module_id = None if call is None else call.module_id
                is_valid = module_id is None or await self._consume(approval_id, module_id)
                return ApprovalResult(status="approved") if is_valid else _rejected(_USED_REASON)
        except Exception as error:
            logger.exception("cannot read the approval %s", approval_id)
            return ApprovalResult(status="rejected", reason=_reason(error))
        if record.get("status") == "rejected":
            return ApprovalResult(status="rejected", reason=record.get("reason"))
        return ApprovalResult(status="pending", approval_id=approval_id)

    async def _consume(self, approval_id: str, module_id: str) -> bool:
        """Return whether this is the first call with the id. Raises what the store raises."""
        consume = getattr(self._store, "consume", None)
        if consume is not None:
            return await consume(approval_id) is True
        if approval_id in self._used:
            return False
        self._remember(approval_id)  # before the store is awaited, so that a second call of this process is refused
        mark = approval_id + _USED
        try:
            if await self._store.get_result(mark) is not None:
                return False
            await self._store.save_pending(mark, module_id, {})
        except BaseException:
            self._used.pop(approval_id, None)  # the module does not run, so the id can be used again
            raise
        await self._store.resolve(mark, approved=False, reason=_USED_REASON)
        return True

    def _remember(self, approval_id: str) -> None:
        if len(self._used) >= _MAX_USED:
            del self._used[next(iter(self._used))]
        self._used[approval_id] = None


class ElicitationApprovalHandler(ApprovalHandler):  # type: ignore[misc]  # apcore ships no types
    """Requests approval with MCP elicitation. `serve()` does that without a handler, and with redacted arguments."""

    async def request_approval(self, request: Any) -> ApprovalResult:
        """Return whether the user of the client approved."""
        data = getattr(request.context, "data", None)
        if data is None:
            return _rejected("No context available for elicitation")
        elicit = data.get(MCP_ELICIT_KEY)
        if elicit is None:
            return _rejected("No elicitation callback available")
        arguments = json.dumps(request.arguments, default=str)
        message = f"Approval required for tool: {request.module_id}\n\n{request.description}\n\nArguments: {arguments}"
        try:
            answer = await elicit(message, FORM)
        except Exception:
            logger.exception("cannot request the approval of %s", request.module_id)
            return _rejected("Elicitation request failed")
        if answer is None:
            return _rejected("Elicitation returned no response")
        if answer.get("action") != "accept":
            return _rejected(f"User action: {answer.get('action')}")
        if (answer.get("content") or {}).get("approve", True) is not True:
            return _rejected("User declined approval")
        return ApprovalResult(status="approved")

    async def check_approval(self, approval_id: str) -> ApprovalResult:  # noqa: ARG002  # apcore's signature
        """Return "rejected": an elicitation has no id to poll."""
        return _rejected("Phase B not supported via MCP elicitation")


class ApprovalBridge:
    """The tool that polls an approval handler."""

    def __init__(self, handler: Any) -> None:
        self._handler = handler

    @staticmethod
    def is_meta_tool(name: str) -> bool:
        """Return whether a tool belongs to this bridge."""
        return name in APPROVAL_META_TOOL_NAMES

    def build_meta_tools(self) -> list[FactoryTool]:
        """Return the tools."""
        return [
            FactoryTool(
                name=APPROVAL_META_TOOL_NAMES[0],
                description=(
                    "Return the state of an approval: pending, approved or rejected. After it is approved, call the"
                    " tool again with approvalId in _meta."
                ),
                input_schema={
                    "type": "object",
                    "properties": {"approval_id": {"type": "string", "description": "From the pending result"}},
                    "required": ["approval_id"],
                    "additionalProperties": False,
                },
            )
        ]

    async def handle_meta_tool(
        self, name: str, arguments: dict[str, Any] | None
    ) -> tuple[list[dict[str, Any]], bool, str | None]:
        """Call a tool. Return the content, whether it is an error, and no trace id."""
        approval_id = (arguments or {}).get("approval_id")
        if not self.is_meta_tool(name):
            return _text(f"Unknown approval meta-tool: {name}", True)
        if not isinstance(approval_id, str) or not approval_id:
            return _text("approval_id is required", True)
        try:
            result = await self._handler.check_approval(approval_id)
        except Exception:
            logger.exception("cannot read the approval %s", approval_id)
            return _text("Internal error occurred", True)
        shown = {"approval_id": approval_id, "status": result.status}
        if result.reason is not None:
            shown["reason"] = result.reason
        return _text(json.dumps(shown), False)


def _make_id(principal: str, module_id: str, arguments: Mapping[str, Any]) -> str:
    """Return a new approval id. It contains digests of the caller and of the call: stores have no fields for them."""
    salt = str(uuid.uuid4())
    return f"{salt}.{_digest(salt, principal)}.{_digest(salt, principal, module_id, arguments)}"


def _is_id_of(approval_id: str, principal: str, module_id: str | None, arguments: Mapping[str, Any]) -> bool:
    """Return whether an approval id was made for this caller and, with a module, for this call."""
    salt, _, digests = approval_id.partition(".")
    of_caller, _, of_call = digests.partition(".")
    if of_caller != _digest(salt, principal):
        return False
    # apcore removes the token before the handler sees the arguments.
    inputs = {name: value for name, value in arguments.items() if name != "_approval_token"}
    return module_id is None or of_call == _digest(salt, principal, module_id, inputs)


def _digest(*values: Any) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True, default=str).encode()).hexdigest()[:32]


def _rejected(reason: str) -> ApprovalResult:
    return ApprovalResult(status="rejected", reason=reason)


def _reason(error: BaseException) -> str:
    is_full = isinstance(error, MemoryError) or "capacity" in f"{type(error).__name__} {error}".lower()
    return "Store capacity exceeded" if is_full else "Storage error"


def _text(text: str, is_error: bool) -> tuple[list[dict[str, Any]], bool, str | None]:
    return [{"type": "text", "text": text}], is_error, None


__all__ = [
    "APPROVAL_META_TOOL_NAMES",
    "ApprovalBridge",
    "ApprovalStore",
    "ElicitationApprovalHandler",
    "InMemoryApprovalStore",
    "Notify",
    "StorageBackedApprovalHandler",
]
