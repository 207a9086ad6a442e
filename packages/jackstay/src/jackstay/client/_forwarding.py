"""`client.forwarding`: requests and notifications as encoded bytes, for proxies that forward messages unchanged.

Params and results are not decoded, so that nothing is lost. Ids, deadlines, recovery and outcomes are those of every
other call.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import msgspec

from jackstay.client._call import Call
from jackstay.client._driver import REQUEST_SOURCE
from jackstay.client._requests import ProgressHandler, Requests
from jackstay.errors import McpError, ProtocolError
from jackstay.protocol.client import ServerFacts
from jackstay.types import ProgressNotificationParams, decode

logger = logging.getLogger("jackstay.client")

# Receives a notification: method, encoded params, and the id of the call whose HTTP response carried it, or 0.
MessageHandler: TypeAlias = Callable[[str, bytes, int], None]
# Handles a request of a handshake-era server: method and encoded params in, encoded result out.
RequestHandler: TypeAlias = Callable[[str, bytes], Awaitable[bytes]]


class Forwarding:
    """The connection of one client as bytes. `on_state(state)` is called for every change of `client.state`.

    `on_message(method, params, source)`, set before `open()`, is called for every notification in order of arrival, in
    place of the `client.on_notification()` handlers; progress notifications go to `on_progress` of their call, without
    conflation. `source` is the id of the call whose HTTP response carried the notification, or 0.
    """

    def __init__(self, requests: Requests) -> None:
        self.on_state: Callable[[str], None] | None = None
        self.on_message: MessageHandler | None = None
        self._requests = requests

    @property
    def facts(self) -> ServerFacts:
        """What the server declared about itself, as encoded JSON. Raises: StateError before the first ready."""
        return self._requests.connection.server()

    @property
    def cause(self) -> McpError | None:
        """The most recent connection error, or None. Raises: StateError before `open()`."""
        return self._requests.connection.core.cause

    def deliver(self, method: str, params: msgspec.Raw | None, call: Call[Any] | None) -> bool:
        """Pass a notification to `on_message`; return False if that is not set. Called by the client."""
        if self.on_message is None:
            return False
        body = b"{}" if params is None else bytes(params)
        if call is None:
            self.on_message(method, body, self._requests.connection.source())
        elif (on_progress := call.options.get("on_progress")) is not None:
            try:
                on_progress(decode(ProgressNotificationParams, body))
            except McpError as error:
                logger.warning("invalid progress notification: %s", error)
        return True

    @staticmethod
    def source() -> int:
        """In a handler of `handle_requests()`: the id of the call whose HTTP response carried the request, or 0."""
        return REQUEST_SOURCE.get()

    def handle_requests(self, handler: RequestHandler) -> None:
        """Pass every request of the server to `handler`, in place of the handlers for sampling, elicitation and roots.

        The client then declares exactly the setting `capabilities`. `handler` raises JsonRpcError to return an error.
        """
        self._requests.request_handlers.override = handler

    def call(
        self,
        method: str,
        params: bytes,
        *,
        meta: bytes = b"",
        on_behalf_of: bytes = b"",
        on_progress: ProgressHandler | None = None,
        timeout: float | None = None,
        max_timeout: float | None = None,
    ) -> Call[bytes]:
        """Send a request and return at once; await `.future` for the encoded result, or cancel it with `cancel_call()`.

        `params` is the encoded object without `_meta`. `meta` has encoded members of `_meta` without braces.
        `on_behalf_of` has those that identify the original client of a stateless request. Without `timeout` the call
        does not time out. It never waits for ready, because `meta` and `on_behalf_of` depend on the negotiated version.

        Raises: StateError before the client was opened, UsageError on another event loop.
        """
        return self._requests.connection.submit(
            method,
            params,
            _copy_result,
            on_progress=on_progress,
            wants_progress=on_progress is not None,
            wait_for_ready=False,
            meta=meta,
            on_behalf_of=on_behalf_of,
            timeout=timeout,
            max_timeout=max_timeout,
        )

    def cancel_call(self, call: Call[bytes]) -> None:
        """Abandon a call. If its request was written, the server gets one `notifications/cancelled`."""
        self._requests.connection.cancel_call(call)

    def notify(self, method: str, params: bytes) -> None:
        """Send a notification.

        Raises: StateError, ShutdownError, ClosedError or BackpressureError if it cannot be sent.
        """
        self._requests.connection.notify(method, params)


def _copy_result(result: msgspec.Raw) -> bytes:
    copy = bytes(result)
    if not copy.startswith(b"{"):
        raise ProtocolError("the result must be an object", path="$.result", sent=True)
    return copy
