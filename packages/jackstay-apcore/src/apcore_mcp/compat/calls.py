"""Calls of `ExecutionRouter.handle_call` with the dict `extra` of apcore-mcp, and results of other routers."""

import asyncio
import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from decimal import Decimal
from types import SimpleNamespace
from typing import Any, Final

from apcore import CancelToken, Context  # type: ignore[import-untyped]  # apcore ships no types

from apcore_mcp.auth.jwt import to_identity
from apcore_mcp.compat.authentication import auth_identity_var
from apcore_mcp.tracing import read_parent
from apcore_mcp.validation import ArgumentRules
from jackstay.errors import CapabilityError
from jackstay.types import CallToolResult, TextContent

# The session of the transport, for programs that cancel the tasks of a session (`cancel_session_tasks`).
transport_session_var: ContextVar[str | None] = ContextVar("transport_session_var", default=None)

# How many ids of calls that have not begun can be cancelled.
MAX_CANCELLED: Final = 1000


class ExtraCaller:
    """The caller that a dict `extra` describes: its identity, `_meta`, session and progress."""

    scopes: frozenset[str] = frozenset()

    def __init__(self, extra: Mapping[str, Any]) -> None:
        self.is_cancelled = False
        meta = extra.get("_meta")
        self.meta: Mapping[str, Any] = dict(meta) if isinstance(meta, Mapping) else {}
        self._token = extra.get("progress_token")
        self._send = extra.get("send_notification")
        self._session: Any = extra.get("session")
        # The last notification that is sent; each waits for the one before.
        self._sending: asyncio.Future[Any] | None = None
        if self._token is not None and self._send is not None:
            self.meta = {**self.meta, "progressToken": self._token}
        else:
            self.meta = {key: value for key, value in self.meta.items() if key != "progressToken"}
        self.identity = extra.get("identity") or auth_identity_var.get(None)
        self.principal = "" if self.identity is None else str(self.identity.id)
        self.version_hint = extra.get("version_hint")
        # For `ExecutionRouter.cancel`.
        self.call_id: Any = extra.get("call_id", self._token)
        # For the task of a call that runs in the background.
        self.cancel_token: Any = CancelToken()

    def progress(self, progress: float, total: float | None = None, message: str = "") -> None:
        """Send progress, without waiting; see `flush`."""
        params: dict[str, Any] = {"progressToken": self._token, "progress": progress, "total": total}
        if message:
            params["message"] = message
        self._sending = asyncio.ensure_future(self._send_after(self._sending, params))

    async def flush(self) -> None:
        """Wait until all progress is sent."""
        if self._sending is not None:
            await self._sending

    async def _send_after(self, before: "asyncio.Future[Any] | None", params: dict[str, Any]) -> None:
        if before is not None:
            await before
        assert self._send is not None
        await self._send({"method": "notifications/progress", "params": params})

    async def elicit(self, message: str, form: Any, *, key: str | None = None) -> Any:  # noqa: ARG002
        """Request an answer from the user of the session."""
        if self._session is None:
            raise CapabilityError("elicitation")
        answer = await self._session.elicit_form(message=message, requestedSchema=form)
        return SimpleNamespace(
            action=answer.action, content=answer.content, is_accepted=getattr(answer, "action", None) == "accept"
        )


class ExtraCalls:
    """The calls with a dict `extra` that run, by their `call_id` or progress token, so that they can be cancelled."""

    def __init__(self) -> None:
        self._callers: dict[str, ExtraCaller] = {}
        # Cancelled before they began, the oldest first.
        self._cancelled: dict[str, None] = {}

    @contextmanager
    def running(self, caller: ExtraCaller) -> Iterator[None]:
        """Note that a call runs. It is cancelled if `cancel` was called before."""
        if caller.call_id is None:
            yield
            return
        call_id = str(caller.call_id)
        if call_id in self._cancelled:
            del self._cancelled[call_id]
            caller.is_cancelled = True
            caller.cancel_token.cancel()
        self._callers[call_id] = caller
        try:
            yield
        finally:
            self._callers.pop(call_id, None)

    def cancel(self, call_id: str) -> bool:
        """Cancel a call. Return False if it does not run; then it is cancelled as soon as it begins."""
        caller = self._callers.get(call_id)
        if caller is not None:
            caller.is_cancelled = True
            caller.cancel_token.cancel()
            return True
        if len(self._cancelled) >= MAX_CANCELLED:
            del self._cancelled[next(iter(self._cancelled))]
        self._cancelled[call_id] = None
        return False


class TaskCalls:
    """Calls through an `AsyncTaskBridge`: of its tools, and of modules that run in the background.

    `lookup` returns the descriptor of a module. A module that needs approval is not run by a task, which cannot
    request it.
    """

    def __init__(self, bridge: Any, lookup: Callable[[str], Any] | None) -> None:
        self._bridge = bridge
        self._lookup = lookup

    async def call(self, name: str, arguments: Mapping[str, Any] | None, caller: Any, cancel_token: Any = None) -> Any:
        """Return the content, whether it is an error, and the trace id; None for what the bridge does not run."""
        extra = caller if isinstance(caller, dict) else _extra_of(caller)
        if self._bridge.is_meta_tool(name):
            started = str((arguments or {}).get("module_id")) if name == "__apcore_task_submit" else ""
            if started and self._needs_approval(started) and not getattr(self._bridge, "has_approval_gate", False):
                return [{"type": "text", "text": f"Approval required: a task cannot run {started}."}], True, None
            return await self._bridge.handle_meta_tool(
                name, dict(arguments or {}), resolve_descriptor=self._lookup, router_extra=extra
            )
        descriptor = None if self._lookup is None else self._lookup(name)
        if descriptor is None or not self._bridge.is_async_module(descriptor):
            return None
        if self._needs_approval(name):
            return None
        session = transport_session_var.get()
        more = {} if session is None else {"session_key": session}
        envelope = await self._bridge.submit(name, dict(arguments or {}), make_context(extra, cancel_token), **more)
        return [{"type": "text", "text": json.dumps(envelope, default=str)}], False, None

    def _needs_approval(self, name: str) -> bool:
        descriptor = None if self._lookup is None else self._lookup(name)
        return getattr(getattr(descriptor, "annotations", None), "requires_approval", False) is True


def _extra_of(caller: Any) -> dict[str, Any]:
    """Return a caller as a dict."""
    if caller is None:
        return {"identity": auth_identity_var.get(None)}
    identity = to_identity(caller.principal, caller.scopes, getattr(caller, "claims", {}))
    return {"identity": identity, "_meta": dict(caller.meta)}


def make_context(extra: Mapping[str, Any], cancel_token: Any = None) -> Any:
    """Return a context of apcore for a task of the caller that a dict describes."""
    parent = read_parent(extra.get("_meta") or {})
    token = CancelToken() if cancel_token is None else cancel_token
    return Context.create(identity=extra.get("identity"), trace_parent=parent, cancel_token=token)


def to_result(returned: Any, rules: ArgumentRules | None, version: str = "") -> CallToolResult:
    """Return what a router returned as a result; a tuple of apcore-mcp has its structured content as text.

    `rules` are those of the output schema. An output that violates them is an error, which does not quote it.
    Revisions before 2025-06-18 have neither output schemas nor structured content.
    """
    if isinstance(returned, CallToolResult):
        return returned
    parts, is_error, _ = returned
    content = [TextContent(text=part["text"], meta=part.get("_meta") or None) for part in parts]
    if version and version < "2025-06-18":
        return CallToolResult(content, is_error=bool(is_error))
    structured = None if is_error or not content else _read_object(content[0].text)
    if not is_error and rules is not None and (structured is None or rules.problems(structured)):
        text = "Output does not match the advertised output schema after redaction"
        return CallToolResult([TextContent(text=text)], is_error=True)
    return CallToolResult(content, structured, bool(is_error))


def _read_object(text: str) -> dict[str, Any] | None:
    """Return the object of a JSON text. Return None for others, and for numbers that a float cannot represent."""
    try:
        found = json.loads(text, parse_float=_exact_float, parse_constant=_exact_float)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _exact_float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number) or Decimal(repr(number)) != Decimal(text):
        raise ValueError(f"not a finite number that a float represents: {text}")
    return number


__all__ = [
    "MAX_CANCELLED",
    "ExtraCaller",
    "ExtraCalls",
    "TaskCalls",
    "make_context",
    "to_result",
    "transport_session_var",
]
