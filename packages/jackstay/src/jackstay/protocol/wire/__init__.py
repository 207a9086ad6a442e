"""Encoding and decoding: JSON-RPC messages, the framings of a stream, server-sent events.

Independent of methods, states and revisions.
"""

from typing import TYPE_CHECKING

from jackstay._lazy import lazy

if TYPE_CHECKING:
    from jackstay.protocol.wire._content_length import ContentLengthFramer, frame_content_length
    from jackstay.protocol.wire._framer import MAX_FRAME_BYTES, Framer, IncompleteFrame
    from jackstay.protocol.wire._framing import FRAMINGS, Framing
    from jackstay.protocol.wire._jsonrpc import (
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
    from jackstay.protocol.wire._lines import LineFramer, frame_line
    from jackstay.protocol.wire._sse import (
        KEEP_ALIVE,
        EventReader,
        ServerSentEvent,
        encode_comment,
        encode_event,
    )

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
    "IncompleteFrame",
    "LineFramer",
    "Malformed",
    "Message",
    "Notification",
    "Request",
    "Result",
    "ServerSentEvent",
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

if not TYPE_CHECKING:
    __getattr__ = lazy(
        __name__,
        {
            "ABSENT": "_jsonrpc",
            "Absent": "_jsonrpc",
            "Batch": "_jsonrpc",
            "ContentLengthFramer": "_content_length",
            "Error": "_jsonrpc",
            "ErrorCode": "_jsonrpc",
            "EventReader": "_sse",
            "FRAMINGS": "_framing",
            "Framer": "_framer",
            "Framing": "_framing",
            "KEEP_ALIVE": "_sse",
            "LineFramer": "_lines",
            "MAX_FRAME_BYTES": "_framer",
            "Malformed": "_jsonrpc",
            "Message": "_jsonrpc",
            "Notification": "_jsonrpc",
            "Request": "_jsonrpc",
            "Result": "_jsonrpc",
            "ServerSentEvent": "_sse",
            "IncompleteFrame": "_framer",
            "decode": "_jsonrpc",
            "encode_comment": "_sse",
            "encode_error": "_jsonrpc",
            "encode_event": "_sse",
            "encode_notification": "_jsonrpc",
            "encode_request": "_jsonrpc",
            "encode_result": "_jsonrpc",
            "frame_content_length": "_content_length",
            "frame_line": "_lines",
            "join_batch": "_jsonrpc",
            "splice_meta": "_jsonrpc",
        },
    )
