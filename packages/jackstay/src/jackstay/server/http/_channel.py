"""A channel: the messages of one stream of a session. It may outlive the HTTP response that carries it."""

import asyncio

from jackstay.errors import McpError, RequestId
from jackstay.server.http._stream import Stream


class Channel:
    """A stream of a session. `ids` are the requests of its POST; the standalone channel has none."""

    __slots__ = (
        "accepts_json",
        "accepts_stream",
        "cancelled",
        "current_stream",
        "error",
        "ids",
        "is_lost",
        "is_settled",
        "name",
        "number",
        "post_stream",
        "responses",
        "sent",
        "waiter",
    )

    def __init__(self, ids: tuple[RequestId, ...] = (), *, name: str = "") -> None:
        self.ids = ids
        # The response formats that the client of its POST and the endpoint accept.
        self.accepts_json = self.accepts_stream = True
        # The prefix of its event ids, set when it is opened with an event store.
        self.name = name
        # The number of the newest event, and of the newest that was passed to a response.
        self.number = self.sent = 0
        # The response that currently carries it, and the response to its POST.
        self.current_stream: Stream | None = None
        self.post_stream: Stream | None = None
        # Responses before it became a stream: they are sent as JSON.
        self.responses: list[bytes] = []
        self.error: McpError | None = None
        # How many of its requests were cancelled, and so have no response.
        self.cancelled = 0
        # All of its requests have ended; it cannot reach the client any more.
        self.is_settled = not ids
        self.is_lost = False
        self.waiter: asyncio.Future[None] | None = None

    def __repr__(self) -> str:
        state = "lost" if self.is_lost else "settled" if self.is_settled else "open"
        return f"<Channel {self.name} {state} {self.current_stream!r}>"

    def wake(self) -> None:
        """Wake up the task of its POST."""
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)
