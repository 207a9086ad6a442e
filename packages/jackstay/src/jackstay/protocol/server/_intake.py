"""What comes in: frames made into events, and what the table's names mean for those that are no requests.

A message belongs to the first class that fits, in the order of the table's rows. Frames that are no messages are
answered and counted; responses go to what we asked; notifications are never answered.

Above: `_connection`. Below: `_core`, `_jsonrpc`, `_stateless`.
"""

import msgspec
from msgspec import Raw

from jackstay.errors import FrameTooLargeError, Json, ProtocolError, RequestId
from jackstay.protocol._machine import words
from jackstay.protocol._versions import REVISIONS
from jackstay.protocol.server import events as e
from jackstay.protocol.server._core import ServerCore
from jackstay.protocol.server._offer import known_methods, served_methods
from jackstay.protocol.server._stateless import read_meta
from jackstay.protocol.wire._jsonrpc import (
    ABSENT,
    Absent,
    Batch,
    ErrorCode,
    Malformed,
    Message,
    Notification,
    Request,
)

# What a client says of itself in the handshake is kept as long as the connection, so it may not be as long as a frame. Of a longer
# `clientInfo` (icons may be data) only the name and the version are kept.
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


class IntakeRows(ServerCore):
    """Rows of the table that begin with a frame, and which row each message belongs to."""

    __slots__ = ()

    # --- which row a message belongs to: the first that fits, in the order of the table ---------------------------------

    def _classify(self, message: Message, size: int) -> e.Event:
        if isinstance(message, Request):
            return self._classify_request(message)
        if isinstance(message, Notification):
            return _classify_notification(message)
        if isinstance(message, Batch):
            return e.ArrayReceived(message, size)
        if isinstance(message, Malformed):
            is_text = message.code is ErrorCode.PARSE_ERROR
            return e.UnreadableReceived(message, size) if is_text else e.InvalidReceived(message, size)
        return e.ResponseReceived(message, size)

    def _classify_request(self, request: Request) -> e.Event:
        method = request.method
        if request.id in self._in_flight:
            return e.DuplicateRequested(request)
        # A server that speaks no stateless revision does not know what the key means: it answers as old servers do.
        meta = read_meta(request.params) if self._offer.stateless else None
        if meta is not None:
            version = meta.version
            if version is not None and version not in self._offer.stateless:
                return e.UnsupportedRequested(request, version)
            if method == "server/discover":
                return e.DiscoverRequested(request, meta)
            row = None if version is None else served_methods(version).get(method)
            return e.StatelessRequested(request, meta, row)
        if method == "initialize":
            return _classify_initialize(request)
        if method == "ping":
            return e.PingRequested(request)
        known = self._offer.known_anywhere if self._version is None else known_methods(self._version)
        known_row = known.get(method)
        return e.UnknownRequested(request) if known_row is None else e.MethodRequested(request, known_row)

    # --- frames that are no messages ------------------------------------------------------------------------------------

    @property
    def _unreadable_id(self) -> Absent | None:
        """What stands for an id that could not be read: null, or nothing from 2025-11-25 on."""
        version = self._version
        return ABSENT if version is not None and REVISIONS[version].omits_unreadable_id else None

    def _answer_oversize(self, event: e.OversizeReceived) -> None:
        error = FrameTooLargeError(event.size, self._offer.options.max_frame_bytes)
        self._exchanges.reject(error, ABSENT, self._unreadable_id, error.details)

    def _answer_malformed(self, event: e.UnreadableReceived | e.InvalidReceived) -> None:
        message = event.message
        # The id of an answer is ours, and would be taken for one of the client's.
        id = ABSENT if message.is_answer else message.id
        data: dict[str, Json] = {"path": message.path} if message.path else {}
        self._exchanges.reject(message.as_error(), id, self._unreadable_id, data)

    def _answer_array(self, event: e.ArrayReceived) -> None:
        error = ProtocolError(_flaw_of_array(event.batch, self._version), code=ErrorCode.INVALID_REQUEST)
        self._exchanges.reject(error, ABSENT, self._unreadable_id, {})

    def _strike(
        self, event: e.OversizeReceived | e.UnreadableReceived | e.ArrayReceived | e.InvalidReceived
    ) -> None:
        self._report_violation(words(type(event).__name__), event.size)

    def _violate(self, event: e.ResponseReceived) -> None:
        self._report_violation("response in the stateless era", event.size)

    def _open_batch(self, event: e.ArrayReceived) -> None:
        self._exchanges.open_array(event.batch)

    def _close_batch(self, _: e.Event) -> None:
        self._exchanges.close_array()

    def _is_batch_allowed(self, event: e.ArrayReceived) -> bool:
        return not _flaw_of_array(event.batch, self._version)

    # --- responses and notifications ------------------------------------------------------------------------------------

    def _fail_malformed_ask(self, event: e.InvalidReceived) -> None:
        message = event.message
        if message.is_answer and self._asks.is_open(message.id):
            assert isinstance(message.id, int)
            self._asks.fail(message.id, message.as_error(sent=True))

    def _count_stray(self, event: e.ResponseReceived) -> None:
        kind = self._asks.kind_of(event.answer.id)
        self._out.append(e.Stray(kind, self._exchanges.count(f"{kind} response")))

    def _complete_ask(self, event: e.ResponseReceived) -> None:
        self._asks.answer(event.answer)

    def _is_ours(self, event: e.ResponseReceived) -> bool:
        return self._asks.is_open(event.answer.id)

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
        return e.CancelReceived(_read_cancelled_id(params).request_id)  # a bad reason is no reason to go on
    except _REFUSALS:
        return e.CancelReceived(None)


def _classify_initialize(request: Request) -> e.InitializeRequested:
    if request.params is None:
        return e.InitializeRequested(request, None, "`params` is missing")
    try:
        params = _read_initialize(request.params)
        said = _read_initialize_bytes(request.params)
    except _REFUSALS as error:
        return e.InitializeRequested(request, None, str(error))
    info, capabilities = bytes(said.client_info), bytes(said.capabilities)
    if len(info) > MAX_CLIENT_INFO:
        info = msgspec.json.encode(params.client_info)
    for what, said_of_it, limit in (
        ("clientInfo", info, MAX_CLIENT_INFO),
        ("capabilities", capabilities, MAX_CAPABILITIES),
    ):
        if len(said_of_it) > limit:
            return e.InitializeRequested(request, None, f"`{what}` is over {limit} bytes")
    return e.InitializeRequested(request, e.ClientFacts(params.protocol_version, info, capabilities))


def _flaw_of_array(batch: Batch, version: str | None) -> str:
    """Why an array cannot be taken, or nothing."""
    if version is None or not REVISIONS[version].has_batches:
        return "arrays are not part of this revision"
    if batch.is_over_limit:
        return "too many members"
    if not batch.members:
        return "an empty array is not a batch"
    if any(
        isinstance(member, Request | Notification) and member.method == "initialize"
        for member in batch.members
    ):
        return "`initialize` must not be part of a batch"  # 2025-03-26 basic/lifecycle
    return ""
