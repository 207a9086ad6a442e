"""2024-11-05's HTTP+SSE: one connection for each GET, fed by POSTs to another URL, for clients that know nothing newer.

The connection is like one over stdio: what the server says goes out on the GET's stream, and when that stream ends the client
is gone. A client that reads too slowly loses it.

Must never know a gate. Above: `_app`. Below: `_stream`, `jackstay.protocol.http`, the driver.
"""

import logging
import secrets
from collections.abc import Callable

from jackstay.protocol.http import endpoint_event, message_event
from jackstay.protocol.server import events as e
from jackstay.server._driver import Driver, Terms, perform_table
from jackstay.server.http._asgi import Receive, Send, until_gone
from jackstay.server.http._post import Answering
from jackstay.server.http._principal import Principal, prove
from jackstay.server.http._stream import STREAM_LINES, Stream

logger = logging.getLogger("jackstay.server.http")

# As for sessions.
ID_BYTES = 24


class LegacyConnection(Driver):
    """One GET stream and what is POSTed to it. `ended` is called once, when it is over."""

    __slots__ = ("_answering", "_stream", "ended", "id")

    def __init__(
        self, terms: Terms, *, answering: Answering, ended: "Callable[[LegacyConnection], None]"
    ) -> None:
        super().__init__(terms)
        self.id = secrets.token_urlsafe(ID_BYTES)
        self.ended = ended
        self._answering = answering
        self._stream = Stream(answering.max_stream_bytes)

    async def carry(self, root_path: str, path: str, receive: Receive, send: Send) -> None:
        """Answer the GET: the stream, until either side ends it."""
        first = (endpoint_event(root_path, path, self.id),)
        watcher = self._loop.create_task(self._watch(receive))
        try:
            await self._stream.pump(send, STREAM_LINES, self._answering.keepalive, first)
        finally:
            watcher.cancel()
            self._stream.cut()
            self.step(e.ClientGone())

    def receive(self, frame: bytes, principal: Principal) -> None:
        """Take what a POST of this principal brought. Its answer, if it has one, goes out on the stream."""
        prove(self, principal)
        self._do(self.core.receive(frame, self._loop.time()))

    async def _watch(self, receive: Receive) -> None:
        await until_gone(receive)
        self._stream.cut()

    def _send(self, effect: e.Send) -> None:
        if effect.error is not None:
            logger.debug("connection %d: refused: %s", self.number, effect.error.message)
        # An answer is always taken; who asks much and reads little is bounded by what it may ask at once.
        is_answer = effect.error is not None or (
            effect.about is not None and effect.about not in self.core.in_flight
        )
        if not self._stream.is_over and not self._stream.put(
            message_event(effect.frame), is_answer=is_answer
        ):
            logger.warning("connection %d: the client reads too slowly; its stream is closed", self.number)

    def _close(self, effect: e.Close) -> None:  # noqa: ARG002  # the effect says no more than that
        self._stream.end()
        self.ended(self)


LegacyConnection.PERFORM = perform_table(LegacyConnection)
