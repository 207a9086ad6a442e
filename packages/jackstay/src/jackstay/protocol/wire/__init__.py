"""Encoding and decoding: JSON-RPC messages, the framings of a stream, server-sent events.

Independent of methods, states and revisions.
"""

from jackstay._lazy import attach

__all__, __getattr__, __dir__ = attach(
    __name__,
    {
        "._content_length": "ContentLengthFramer",
        "._framer": "MAX_FRAME_BYTES",
        "._jsonrpc": "ABSENT Absent Batch Error ErrorCode Malformed Message Notification Request Result decode"
        " encode_error encode_notification encode_request encode_result join_batch splice_meta",
        "._lines": "FRAMINGS LineFramer framing_of",
        "._sse": "KEEP_ALIVE EventReader ServerSentEvent encode_event",
    },
)
