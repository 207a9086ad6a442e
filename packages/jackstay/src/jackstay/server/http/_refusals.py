"""Refusals of requests that did not run and may be sent again: status 503."""

from jackstay.protocol.http import RETRY_HEADERS, ErrorResponse, error_response
from jackstay.protocol.wire import ErrorCode

SHUTTING_DOWN = ErrorResponse(
    503,
    ErrorCode.INTERNAL_ERROR,
    "server is shutting down",
    {"retryable": True, "mayHaveRun": False},
    RETRY_HEADERS,
)

BUSY = ErrorResponse(
    503,
    ErrorCode.INTERNAL_ERROR,
    "too many sessions are open",
    {"retryable": True, "mayHaveRun": False, "reason": "busy"},
    RETRY_HEADERS,
)

UNAVAILABLE = ErrorResponse(
    503,
    ErrorCode.INTERNAL_ERROR,
    "the session store is unavailable",
    {"retryable": True, "mayHaveRun": False},
    RETRY_HEADERS,
)

WORKER_GONE = error_response(400, "no worker waits for this response: it has died, or the request has ended")

OVERLOADED = ErrorResponse(
    503,
    ErrorCode.INTERNAL_ERROR,
    "too many requests are being served",
    {"retryable": True, "mayHaveRun": False, "reason": "busy"},
    RETRY_HEADERS,
)
