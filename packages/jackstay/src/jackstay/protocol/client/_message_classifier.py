"""Messages from the server: the event that each becomes."""

from collections.abc import Callable
from typing import Annotated, Literal

import msgspec

from jackstay.errors import JsonRpcError
from jackstay.protocol.client import events as e
from jackstay.protocol.client._calls import Calls
from jackstay.protocol.wire._jsonrpc import MAX_ID_LENGTH, Error, Malformed, Notification, Request, Result


class PlainResult(Result, frozen=True, gc=False, kw_only=True, forbid_unknown_fields=True):
    """A result as nearly every server writes it: `jsonrpc`, `id` and `result`."""

    jsonrpc: Literal["2.0"]
    id: int | Annotated[str, msgspec.Meta(max_length=MAX_ID_LENGTH)]
    result: msgspec.Raw


class _Token(msgspec.Struct, rename="camel"):
    progress_token: int | str


class _Cancelled(msgspec.Struct, rename="camel"):
    request_id: int | str | None = None


# Reads a result in one step if its text needs no check. Everything else raises, and is left to `decode`.
read_plain_result: Callable[[bytes], Result] = msgspec.json.Decoder(PlainResult).decode
_read_token = msgspec.json.Decoder(_Token).decode
_read_cancelled = msgspec.json.Decoder(_Cancelled).decode

RESET_METHODS = frozenset({"$/reset", "notifications/reset"})


def classify(message: Request | Notification | Result | Error | Malformed, size: int, calls: Calls) -> e.Event:
    """Return the event for a message of `size` bytes."""
    if isinstance(message, Malformed):
        exchange = calls.find_sent(message.id) if message.is_response else None
        if exchange is None:
            return e.InvalidFrameReceived(message.as_error(), size)
        # It is the response to this call: fail the call, or its caller would wait until the deadline.
        return e.ResponseReceived(exchange.id, None, message.as_error(sent=True))
    if isinstance(message, Result | Error):
        error = None
        if isinstance(message, Error):
            data = None if message.data is msgspec.UNSET else message.data
            error = JsonRpcError(message.code, message.message, data)
        exchange = calls.find_sent(message.id)
        if exchange is None:
            return e.StrayReceived(message.id, error)
        return e.ResponseReceived(exchange.id, message.result if isinstance(message, Result) else None, error)
    if isinstance(message, Request):
        if message.method == "initialize":
            return e.InitializeReceived(size)
        return e.RequestReceived(message.id, message.method, message.params, size)
    if message.method in RESET_METHODS:
        return e.ResetReceived()
    if message.method == "notifications/cancelled":
        return e.CancelReceived(_cancelled_id(message.params))
    return e.NotificationReceived(message.method, message.params)


def progress_token(params: msgspec.Raw | bytes | None) -> int | str | None:
    """Return the token of `notifications/progress`, or None."""
    try:
        return None if params is None else _read_token(params).progress_token
    except msgspec.DecodeError:
        return None


def _cancelled_id(params: msgspec.Raw | None) -> int | str | None:
    try:
        return None if params is None else _read_cancelled(params).request_id
    except msgspec.DecodeError:
        return None
