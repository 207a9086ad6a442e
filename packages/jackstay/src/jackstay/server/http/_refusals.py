"""Refusals of requests that did not run."""

import msgspec

from jackstay.errors import Json
from jackstay.protocol.http import RETRY_HEADERS, ErrorResponse, HeaderPairs, RequestRefused, error_response
from jackstay.protocol.wire import ErrorCode

# Of a response after which the HTTP connection cannot be used again.
CLOSE_HEADERS: HeaderPairs = (("connection", "close"),)


def unread(response: ErrorResponse) -> RequestRefused:
    """Return the refusal of a request whose body stays unread, so that its connection cannot be used again."""
    return RequestRefused(msgspec.structs.replace(response, headers=CLOSE_HEADERS))


def _later(message: str, headers: HeaderPairs = RETRY_HEADERS, **more: Json) -> ErrorResponse:
    """Return the refusal of a request that may be sent again: status 503."""
    data: dict[str, Json] = {"retryable": True, "mayHaveRun": False, **more}
    return ErrorResponse(503, ErrorCode.INTERNAL_ERROR, message, data, headers)


NOT_STARTED = _later("the server failed to start")
SHUTTING_DOWN = _later("server is shutting down", (*RETRY_HEADERS, *CLOSE_HEADERS))
BUSY = _later("too many sessions are open", reason="busy")
OVERLOADED = _later("too many requests are being served", reason="busy")
UNAVAILABLE = _later("the session store is unavailable")
WORKER_GONE = error_response(400, "no worker waits for this response: it has died, or the request has ended")
