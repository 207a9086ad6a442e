"""Calls of `ExecutionRouter.handle_call` with the dict `extra` of apcore-mcp."""

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from apcore_mcp.compat.authentication import auth_identity_var
from jackstay.errors import CapabilityError


class ExtraCaller:
    """The caller that a dict `extra` describes: its identity, `_meta`, session and progress."""

    scopes: frozenset[str] = frozenset()
    is_cancelled = False

    def __init__(self, extra: Mapping[str, Any]) -> None:
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


__all__ = ["ExtraCaller"]
