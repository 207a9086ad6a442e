"""Delivery of server notifications to `client.wire` as they arrive, bypassing the inbox and its conflation."""

import logging
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, TypeAlias

from jackstay.client._call import Call
from jackstay.errors import McpError
from jackstay.types import ProgressNotificationParams, decode

logger = logging.getLogger("jackstay.client")

# Receives a notification: method, encoded params, and the id of the call whose HTTP response carried it, or 0.
MessageHandler: TypeAlias = Callable[[str, bytes, int], None]

# While a request of the server is handled: the id of the call whose HTTP response carried it, or 0.
REQUEST_SOURCE: ContextVar[int] = ContextVar("REQUEST_SOURCE", default=0)


def source_of(transport: object) -> int:
    """Return the id of the call whose HTTP response carried the frame that was pulled last, or 0."""
    source: int = getattr(transport, "source", 0)
    return source


def deliver_progress(call: Call[Any], params: bytes) -> None:
    """Pass a progress notification to the handler of its call."""
    if call.on_progress is None:
        return
    try:
        call.on_progress(decode(ProgressNotificationParams, params))
    except McpError as error:
        logger.warning("invalid progress notification: %s", error)
