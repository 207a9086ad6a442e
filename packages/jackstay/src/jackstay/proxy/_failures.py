"""What a client is told when the server behind fails: a JSON-RPC error that says whether its call may have run.

An error of the server's own passes as it is, code and data. Everything else is the proxy's word: -32603, and in `data`
`mayHaveRun` and `retryable` as claims, and a `reason` that a program can go by. What a child wrote to standard error stays
here, in the log: it may hold what is nobody else's business.

Must never know a connection. Above: `_relay`, `_back`. Below: `jackstay.errors`.
"""

from typing import Final

from jackstay.errors import (
    BackpressureError,
    CapabilityError,
    FrameTooLargeError,
    Json,
    JsonRpcError,
    McpError,
    ProtocolError,
    TimeoutError,
    UsageError,
)
from jackstay.protocol.wire import ErrorCode


def told(error: McpError) -> JsonRpcError:
    """What the client is told of this."""
    if isinstance(error, JsonRpcError):
        return error
    if isinstance(error, UsageError):
        return JsonRpcError(ErrorCode.INVALID_PARAMS, error.message)
    if isinstance(error, CapabilityError):
        return JsonRpcError(ErrorCode.METHOD_NOT_FOUND, error.message)
    may_have_run = error.may_have_run is True
    reason = reason_of(error)
    data: dict[str, Json] = {
        "reason": reason,
        "mayHaveRun": may_have_run,
        "retryable": not may_have_run and reason in ("down", "busy"),
    }
    return JsonRpcError(ErrorCode.INTERNAL_ERROR, _sentence(reason, error, may_have_run), data)


def reason_of(error: McpError) -> str:
    """The `reason` in `data`."""
    if isinstance(error, BackpressureError):
        return "busy"
    if isinstance(error, FrameTooLargeError):
        return "too large"
    if isinstance(error, ProtocolError):
        return "broken answer"
    if isinstance(error, TimeoutError):
        return "timeout" if error.may_have_run else "down"
    return "lost" if error.may_have_run else "down"


_SENTENCES: Final = {
    "busy": "the server behind this proxy has too much to do",
    "broken answer": "the server behind this proxy broke the protocol",
    "timeout": "the server behind this proxy did not answer in time",
    "lost": "the server behind this proxy went away before it answered",
    "down": "the server behind this proxy is not there now",
}


def _sentence(reason: str, error: McpError, may_have_run: bool) -> str:
    said = _SENTENCES.get(reason, error.message)
    if may_have_run:
        return f"{said}; the call may have run: check before you send it again"
    return f"{said}; the call did not run"
