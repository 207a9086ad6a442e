"""Convert a failure of the upstream server to the JSON-RPC error that the client receives.

Errors of the server itself are forwarded; from a server of the other era, with the codes of the client's era. All
others become -32603, with `mayHaveRun`, `retryable` and a machine-readable `reason` in `data` (docs/proxy.md).
Standard error of a child process is never included: it may contain secrets.
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


def to_client_error(error: McpError, server: str = "") -> JsonRpcError:
    """Return the error to send to the client. `server` is the name of the server, if it is one of several."""
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
    sentence = _SENTENCES.get(reason, error.message)
    if server:
        data["server"] = server
        sentence = f"{server}: {sentence}"
    outcome = "the call may have run: check before you send it again" if may_have_run else "the call did not run"
    return JsonRpcError(ErrorCode.INTERNAL_ERROR, f"{sentence}; {outcome}", data)


def for_era(error: JsonRpcError, method: str, *, is_stateless: bool) -> JsonRpcError:
    """Return an error of the server with the code that the era of the client has for a resource that does not exist.

    It is -32002, and from 2026-07-28 on -32602 with the `uri` in `data`.
    """
    if method != "resources/read":
        return error
    if is_stateless and error.code == ErrorCode.RESOURCE_NOT_FOUND:
        return JsonRpcError(ErrorCode.INVALID_PARAMS, error.message, error.data)
    names_uri = isinstance(error.data, dict) and "uri" in error.data
    if not is_stateless and error.code == ErrorCode.INVALID_PARAMS and names_uri:
        return JsonRpcError(ErrorCode.RESOURCE_NOT_FOUND, error.message, error.data)
    return error


def reason_of(error: McpError) -> str:
    """Return the `reason` for the error's `data`."""
    if isinstance(error, BackpressureError):
        return "busy"
    if isinstance(error, FrameTooLargeError):
        return "too large"
    if isinstance(error, ProtocolError):
        return "invalid response"
    if not error.may_have_run:
        return "down"
    return "timeout" if isinstance(error, TimeoutError) else "lost"


_SENTENCES: Final = {
    "busy": "the upstream server is overloaded",
    "invalid response": "the upstream server violated the protocol",
    "timeout": "the upstream server did not respond in time",
    "lost": "the connection to the upstream server was lost before it responded",
    "down": "the upstream server is down",
}
