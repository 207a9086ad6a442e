"""Messages from the client: the event that each becomes, the first that matches in the order of the table's rows."""

from collections.abc import Container

import msgspec
from msgspec import Raw

from jackstay.errors import RequestId
from jackstay.protocol.server import events as e
from jackstay.protocol.server._negotiation import Negotiation
from jackstay.protocol.server._stateless import read_meta
from jackstay.protocol.wire._jsonrpc import Batch, ErrorCode, Malformed, Message, Notification, Request
from jackstay.types import DECODE_ERRORS

# The parameters of the handshake are kept for the lifetime of the connection, so they are limited to less than a frame.
# Of a larger `clientInfo` (icons may be data URIs) only the name and the version are kept.
MAX_CLIENT_INFO = 4096
MAX_CAPABILITIES = 8192


class _CancelParams(msgspec.Struct, rename="camel"):
    request_id: RequestId
    reason: object = ""


class _Implementation(msgspec.Struct):
    name: str
    version: str


class _InitializeParams(msgspec.Struct, rename="camel"):
    protocol_version: str
    capabilities: dict[str, Raw]
    client_info: _Implementation


class _InitializeBytes(msgspec.Struct, rename="camel"):
    capabilities: Raw
    client_info: Raw


_read_cancel = msgspec.json.Decoder(_CancelParams).decode
_read_initialize = msgspec.json.Decoder(_InitializeParams).decode
_read_initialize_bytes = msgspec.json.Decoder(_InitializeBytes).decode


def classify(message: Message, size: int, negotiation: Negotiation, in_flight: Container[RequestId]) -> e.Event:
    """Return the event for a message in a frame of `size` bytes."""
    if isinstance(message, Request):
        return _classify_request(message, negotiation, in_flight)
    if isinstance(message, Notification):
        return _classify_notification(message)
    if isinstance(message, Batch):
        return e.BatchReceived(message, size)
    if isinstance(message, Malformed):
        is_unreadable = message.code is ErrorCode.PARSE_ERROR
        return e.UnreadableReceived(message, size) if is_unreadable else e.InvalidReceived(message, size)
    return e.ResponseReceived(message, size)


def _classify_request(request: Request, negotiation: Negotiation, in_flight: Container[RequestId]) -> e.Event:
    if request.id in in_flight:
        return e.DuplicateRequested(request)
    method, stateless = request.method, negotiation.config.stateless
    # A server without a stateless revision does not know the key and responds as older servers do.
    meta = read_meta(request.params) if stateless else None
    if meta is not None:
        version = meta.version
        if version is not None and version not in stateless:
            return e.UnsupportedRequested(request, version)
        if method == "server/discover":
            return e.DiscoverRequested(request, meta)
        row = None if version is None else negotiation.config.served[version].get(method)
        return e.StatelessRequested(request, meta, row)
    if method == "initialize":
        return _classify_initialize(request)
    if method == "ping":
        return e.PingRequested(request)
    known = negotiation.known_methods.get(method)
    return e.UnknownRequested(request) if known is None else e.MethodRequested(request, known)


def _classify_notification(message: Notification) -> e.Event:
    if message.method == "notifications/cancelled":
        return _classify_cancel(message.params)
    if message.method == "notifications/initialized":
        return e.InitializedReceived()
    return e.NotificationReceived(message.method, message.params)


def _classify_cancel(params: Raw | None) -> e.CancelReceived:
    if params is None:
        return e.CancelReceived(None)
    try:
        cancel = _read_cancel(params)
    except DECODE_ERRORS:
        return e.CancelReceived(None)
    # An invalid reason does not invalidate the cancellation.
    return e.CancelReceived(cancel.request_id, cancel.reason if isinstance(cancel.reason, str) else "")


def _classify_initialize(request: Request) -> e.InitializeRequested:
    if request.params is None:
        return e.InitializeRequested(request, None, "`params` is missing")
    try:
        params = _read_initialize(request.params)
        raw = _read_initialize_bytes(request.params)
    except DECODE_ERRORS as error:
        return e.InitializeRequested(request, None, str(error))
    info, capabilities = bytes(raw.client_info), bytes(raw.capabilities)
    if len(info) > MAX_CLIENT_INFO:
        info = msgspec.json.encode(params.client_info)
    for name, encoded, limit in (
        ("clientInfo", info, MAX_CLIENT_INFO),
        ("capabilities", capabilities, MAX_CAPABILITIES),
    ):
        if len(encoded) > limit:
            return e.InitializeRequested(request, None, f"`{name}` is over {limit} bytes")
    return e.InitializeRequested(request, e.ClientParams(params.protocol_version, info, capabilities))
