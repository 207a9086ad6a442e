"""Exceptions for handlers, whose messages are sent to the client, and the reporting of all others.

The message of an unexpected exception may contain paths, queries or secrets. The client only receives a reference;
the log has the same reference with the traceback.
"""

import logging
import os
from contextvars import ContextVar

from jackstay.errors import Json, JsonRpcError, McpError
from jackstay.server._entries import check_scopes

logger = logging.getLogger("jackstay.server")


class ToolError(McpError):
    """Raise this in a handler to send an error message of your own to the client.

    From a tool it becomes a result with `isError`, which the model reads; elsewhere a JSON-RPC error (-32603).
    """

    type = "tool"

    def __init__(self, message: str) -> None:
        super().__init__(message, may_have_run=None)


class ResourceNotFoundError(McpError):
    """Raise this in a resource function if the resource does not exist. The error code depends on the revision."""

    type = "resource_not_found"

    def __init__(self, message: str = "resource not found") -> None:
        super().__init__(message)


class InsufficientScopeError(JsonRpcError):
    """Raise this in a handler or middleware if the caller's token lacks a scope. `scopes` are all required scopes.

    Over HTTP it becomes a 403 with a challenge that names the scopes, so that the client can request them. If the
    response is already a stream, and on other transports, it is a JSON-RPC error.

    Raises: UsageError for an invalid scope (RFC 6749, section 3.3), because it would be sent in a header.
    """

    def __init__(self, *scopes: str) -> None:
        self.scopes = check_scopes(scopes)
        named: list[Json] = [*sorted(self.scopes)]
        message = f"insufficient scope: the token needs {', '.join(sorted(self.scopes))}"
        super().__init__(-32600, message, {"reason": "insufficient_scope", "scopes": named})


# If set, a list to which unexpected exceptions of handlers are added: only their messages reach middleware.
RAISED: ContextVar[list[BaseException] | None] = ContextVar("RAISED", default=None)


def report(what: str, error: BaseException) -> str:
    """Log a failure with its traceback. Returns the message for the client, which reveals no details."""
    raised = RAISED.get()
    if raised is not None:
        raised.append(error)
    reference = os.urandom(4).hex()
    logger.error("%s failed [%s]", what, reference, exc_info=error)
    return f"{what} failed (reference {reference} in the server's log)"
