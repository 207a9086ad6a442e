"""Refusals of requests that did not run."""

from jackstay.errors import Json
from jackstay.protocol.http import RETRY_HEADERS, ErrorResponse, error_response
from jackstay.protocol.wire import ErrorCode


def _later(message: str, **more: Json) -> ErrorResponse:
    """Return the refusal of a request that may be sent again: status 503."""
    data: dict[str, Json] = {"retryable": True, "mayHaveRun": False, **more}
    return ErrorResponse(503, ErrorCode.INTERNAL_ERROR, message, data, RETRY_HEADERS)


NOT_STARTED = _later("the server failed to start")
SHUTTING_DOWN = _later("server is shutting down")
BUSY = _later("too many sessions are open", reason="busy")
OVERLOADED = _later("too many requests are being served", reason="busy")
UNAVAILABLE = _later("the session store is unavailable")
WORKER_GONE = error_response(400, "no worker waits for this response: it has died, or the request has ended")
