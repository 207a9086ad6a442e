"""How an author says no, and what a client is told of a failure that nobody meant to happen.

Three classes are for authors: their words go to the client as they are. Every other exception is an accident: its words may
hold paths, queries or secrets, so the client gets one sentence with a reference, and the log has the same reference with
the traceback (nothing of a server's insides leaks).

Must never know a connection. Above: `_dispatch`, authors. Below: `jackstay.errors`.
"""

import logging
import os

from jackstay.errors import Json, JsonRpcError, McpError
from jackstay.server._entries import check_scopes

logger = logging.getLogger("jackstay.server")


class ToolError(McpError):
    """Raise it in a handler to tell the client, in your words, why there is no result.

    From a tool it is a result with `isError`, for the model to read; elsewhere a JSON-RPC error (-32603).
    """

    type = "tool"

    def __init__(self, message: str) -> None:
        super().__init__(message, may_have_run=None)


class ResourceNotFoundError(McpError):
    """Raise it in a function of a resource to say that there is no such one, with the revision's own code."""

    type = "resource_not_found"

    def __init__(self, message: str = "there is no such resource") -> None:
        super().__init__(message)


class InsufficientScopeError(JsonRpcError):
    """Raise it in a handler or middleware: the caller's token may not do this. `scopes` are all that it takes.

    Over HTTP it is a 403 whose challenge names the scopes, so that a client can ask its user for them; where the answer
    is a stream already, and on other transports, it is an error in the answer.

    Raises: UsageError for what cannot be a scope (RFC 6749, section 3.3): it would end up in a header.
    """

    def __init__(self, *scopes: str) -> None:
        self.scopes = check_scopes(scopes)
        named: list[Json] = [*sorted(self.scopes)]
        message = f"this needs a token with the scopes {', '.join(sorted(self.scopes))}"
        super().__init__(-32600, message, {"reason": "insufficient_scope", "scopes": named})


def report(what: str, error: BaseException) -> str:
    """Log a failure with its traceback; returns the only sentence about it that may leave the server."""
    reference = os.urandom(4).hex()
    logger.error("%s failed [%s]", what, reference, exc_info=error)
    return f"{what} failed (reference {reference} in the server's log)"
