"""Bytes to messages and back: JSON-RPC envelopes, the framings of a stream, server-sent events.

Knows no method, no state and no revision.
"""

from mooring.protocol.wire._content_length import ContentLengthFramer, frame_content_length
from mooring.protocol.wire._framer import MAX_FRAME_BYTES, Framer, Unfinished
from mooring.protocol.wire._framing import FRAMINGS, Framing
from mooring.protocol.wire._jsonrpc import (
    ABSENT,
    Absent,
    Batch,
    Error,
    ErrorCode,
    Malformed,
    Message,
    Notification,
    Request,
    Result,
    decode,
    encode_error,
    encode_notification,
    encode_request,
    encode_result,
    join_batch,
    splice_meta,
)
from mooring.protocol.wire._lines import LineFramer, frame_line
from mooring.protocol.wire._sse import KEEP_ALIVE, EventReader, ServerSentEvent, encode_comment, encode_event

__all__ = [
    "ABSENT",
    "FRAMINGS",
    "KEEP_ALIVE",
    "MAX_FRAME_BYTES",
    "Absent",
    "Batch",
    "ContentLengthFramer",
    "Error",
    "ErrorCode",
    "EventReader",
    "Framer",
    "Framing",
    "LineFramer",
    "Malformed",
    "Message",
    "Notification",
    "Request",
    "Result",
    "ServerSentEvent",
    "Unfinished",
    "decode",
    "encode_comment",
    "encode_error",
    "encode_event",
    "encode_notification",
    "encode_request",
    "encode_result",
    "frame_content_length",
    "frame_line",
    "join_batch",
    "splice_meta",
]
