"""Incoming frames: which event each message becomes, and the actions for messages other than requests.

A message becomes the first event that matches, in the order of the rows of the table.
"""

import msgspec
from msgspec import Raw

from jackstay.errors import FrameTooLargeError, Json, ProtocolError, RequestId
from jackstay.protocol._machine import readable_name
from jackstay.protocol._versions import REVISIONS
from jackstay.protocol.server import events as e
from jackstay.protocol.server._config import known_methods, served_methods
from jackstay.protocol.server._core import ServerCore
from jackstay.protocol.server._stateless import read_meta
from jackstay.protocol.wire._jsonrpc import (
    ABSENT,
    MAX_BATCH_MEMBERS,
    Absent,
    Batch,
    ErrorCode,
    Malformed,
    Message,
    Notification,
    Request,
)

# The parameters of the handshake are kept for the lifetime of the connection, so they are limited to less than a frame.
# Of a larger `clientInfo` (icons may be data URIs) only the name and the version are kept.
MAX_CLIENT_INFO = 4096
MAX_CAPABILITIES = 8192

_REFUSALS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class _CancelParams(msgspec.Struct, rename="camel"):
    request_id: RequestId
    reason: str = ""


class _CancelledId(msgspec.Struct, rename="camel"):
    request_id: RequestId


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
_read_cancelled_id = msgspec.json.Decoder(_CancelledId).decode
_read_initialize = msgspec.json.Decoder(_InitializeParams).decode
_read_initialize_bytes = msgspec.json.Decoder(_InitializeBytes).decode


class MessageClassifier(ServerCore):
    """Turns messages into events, and implements the actions for messages that are not requests."""

    __slots__ = ()

    # --- events ---

    def _classify(self, message: Message, size: int) -> e.Event:
        if isinstance(message, Request):
            return self._classify_request(message)
        if isinstance(message, Notification):
            return _classify_notification(message)
        if isinstance(message, Batch):
            return e.BatchReceived(message, size)
        if isinstance(message, Malformed):
            is_unreadable = message.code is ErrorCode.PARSE_ERROR
            return e.UnreadableReceived(message, size) if is_unreadable else e.InvalidReceived(message, size)
        return e.ResponseReceived(message, size)

    def _classify_request(self, request: Request) -> e.Event:
        method = request.method
        if request.id in self._in_flight:
            return e.DuplicateRequested(request)
        # A server without a stateless revision does not know the key and responds as older servers do.
        meta = read_meta(request.params) if self._config.stateless else None
        if meta is not None:
            version = meta.version
            if version is not None and version not in self._config.stateless:
                return e.UnsupportedRequested(request, version)
            if method == "server/discover":
                return e.DiscoverRequested(request, meta)
            row = None if version is None else served_methods(version).get(method)
            return e.StatelessRequested(request, meta, row)
        if method == "initialize":
            return _classify_initialize(request)
        if method == "ping":
            return e.PingRequested(request)
        known = self._config.known_in_any_version if self._version is None else known_methods(self._version)
        known_row = known.get(method)
        return e.UnknownRequested(request) if known_row is None else e.MethodRequested(request, known_row)

    # --- frames that are not messages ---

    @property
    def _unreadable_id(self) -> Absent | None:
        """The id of an error response if the request id could not be read: null, or absent from 2025-11-25 on."""
        version = self._version
        return ABSENT if version is not None and REVISIONS[version].omits_unreadable_id else None

    def _reject_oversize(self, event: e.OversizeReceived) -> None:
        error = FrameTooLargeError(event.size, self._config.options.max_frame_bytes)
        self._exchanges.reject(error, ABSENT, self._unreadable_id, error.details)

    def _reject_malformed(self, event: e.UnreadableReceived | e.InvalidReceived) -> None:
        message = event.message
        # The id of a response is one of ours; in an error response it would be read as one of the client's.
        id = ABSENT if message.is_response else message.id
        data: dict[str, Json] = {"path": message.path} if message.path else {}
        self._exchanges.reject(message.as_error(), id, self._unreadable_id, data)

    def _reject_batch(self, event: e.BatchReceived) -> None:
        error = ProtocolError(_batch_problem(event.batch, self._version), code=ErrorCode.INVALID_REQUEST)
        self._exchanges.reject(error, ABSENT, self._unreadable_id, {})

    def _count_violation(
        self, event: e.OversizeReceived | e.UnreadableReceived | e.BatchReceived | e.InvalidReceived
    ) -> None:
        self._report_violation(readable_name(type(event).__name__), event.size)

    def _drop_response(self, event: e.ResponseReceived) -> None:
        self._report_violation("response in the stateless era", event.size)

    def _open_batch(self, event: e.BatchReceived) -> None:
        self._exchanges.open_batch(event.batch)

    def _close_batch(self, _: e.Event) -> None:
        self._exchanges.close_batch()

    def _is_batch_allowed(self, event: e.BatchReceived) -> bool:
        return not _batch_problem(event.batch, self._version)

    # --- responses and notifications ---

    def _fail_outgoing_malformed(self, event: e.InvalidReceived) -> None:
        message = event.message
        if message.is_response and self._outgoing.is_open(message.id):
            assert isinstance(message.id, int)
            self._outgoing.fail(message.id, message.as_error(sent=True))

    def _count_stray(self, event: e.ResponseReceived) -> None:
        kind = self._outgoing.classify_stray(event.response.id)
        self._out.append(e.Stray(kind, self._exchanges.count(f"{kind} response")))

    def _complete_outgoing(self, event: e.ResponseReceived) -> None:
        self._outgoing.complete(event.response)

    def _is_expected(self, event: e.ResponseReceived) -> bool:
        return self._outgoing.is_open(event.response.id)

    def _deliver(self, event: e.NotificationReceived) -> None:
        self._out.append(e.Deliver(event.method, event.params))

    def _is_in_flight(self, event: e.CancelReceived) -> bool:
        return event.id in self._in_flight

    def _cancel(self, event: e.CancelReceived) -> None:
        assert event.id is not None
        self._exchanges.stop(event.id, event.reason)


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
        return e.CancelReceived(cancel.request_id, cancel.reason)
    except _REFUSALS:
        pass
    try:
        return e.CancelReceived(
            _read_cancelled_id(params).request_id
        )  # an invalid reason does not invalidate the cancellation
    except _REFUSALS:
        return e.CancelReceived(None)


def _classify_initialize(request: Request) -> e.InitializeRequested:
    if request.params is None:
        return e.InitializeRequested(request, None, "`params` is missing")
    try:
        params = _read_initialize(request.params)
        raw = _read_initialize_bytes(request.params)
    except _REFUSALS as error:
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


def _batch_problem(batch: Batch, version: str | None) -> str:
    """Return why a batch cannot be processed, or an empty string."""
    if version is None or not REVISIONS[version].has_batches:
        return "this revision has no batches"
    if batch.is_over_limit:
        return f"a batch has at most {MAX_BATCH_MEMBERS} members"
    if not batch.members:
        return "a batch must not be empty"
    if any(isinstance(member, Request | Notification) and member.method == "initialize" for member in batch.members):
        return "`initialize` must not be part of a batch"  # 2025-03-26 basic/lifecycle
    return ""
