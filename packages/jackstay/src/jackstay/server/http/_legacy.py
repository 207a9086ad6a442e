"""The HTTP+SSE transport of 2024-11-05: one connection per GET stream, with messages that are POSTed to another URL.

As over stdio, all messages of the server go to the one stream, and the end of the stream is the end of the connection.
The stream of a client that reads too slowly is closed.
"""

import logging
import secrets
from typing import TYPE_CHECKING

from jackstay.protocol.http import endpoint_event, message_event
from jackstay.protocol.server import events as e
from jackstay.server._driver import Caller, Driver
from jackstay.server.http._asgi import HttpRequest
from jackstay.server.http._stream import STREAM_LINES, Stream

if TYPE_CHECKING:
    from jackstay.server.http._app import App

logger = logging.getLogger("jackstay.server.http")

# 192 bits, as for session ids.
ID_BYTES = 24


class LegacyConnection(Driver):
    """One GET stream and the messages POSTed to it."""

    __slots__ = ("_app", "_stream", "id")

    def __init__(self, app: "App", caller: Caller) -> None:
        super().__init__(app.connection_config())
        self.caller = caller
        self.id = secrets.token_urlsafe(ID_BYTES)
        self._app = app
        self._stream = Stream(app.options.max_stream_bytes)

    async def serve(self, request: HttpRequest, path: str) -> None:
        """Respond to the GET with the stream, until either side ends it."""
        first = (endpoint_event(request.root_path, path, self.id),)
        watcher = self._loop.create_task(self._stream.abort_on_disconnect(request.receive))
        try:
            await self._stream.pump(request.send, STREAM_LINES, self._app.options.keepalive, first)
        finally:
            watcher.cancel()
            self._stream.abort()
            self.step(e.ClientDisconnected())

    def receive(self, frame: bytes, caller: Caller) -> None:
        """Process the body of a POST by this caller. A response is sent on the stream."""
        self.caller = caller
        self._apply(self.core.receive(frame))

    def _send(self, effect: e.Send) -> None:
        if effect.error is not None:
            logger.debug("connection %d: request refused: %s", self.number, effect.error.message)
        # Responses are never dropped; their number is bounded by the limit on concurrent requests.
        is_response = effect.error is not None or (
            effect.related_request_id is not None and effect.related_request_id not in self.core.in_flight
        )
        if not self._stream.is_over and not self._stream.put(message_event(effect.frame), is_response=is_response):
            logger.warning("connection %d: closing the stream of a client that reads too slowly", self.number)

    def _close(self, effect: e.Close) -> None:  # noqa: ARG002  # the effect has no data
        self._stream.end()
        self._app.end_legacy(self)
