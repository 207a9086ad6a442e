"""A channel: the messages of a POST, or of one stream of a session. It may outlive the response that carries it."""

import asyncio

import msgspec

from jackstay.errors import McpError, RequestId
from jackstay.server.http._stream import Stream


class Channel(msgspec.Struct, eq=False):
    """The messages of a POST. `ids` are its requests; the standalone channel of a session has none."""

    ids: tuple[RequestId, ...] = ()
    # The prefix of its event ids, set when it is opened with an event store.
    name: str = ""
    # The response formats that the client of its POST and the endpoint accept.
    accepts_json: bool = True
    accepts_stream: bool = True
    # The number of the newest event, and of the newest that was passed to a response.
    number: int = 0
    sent: int = 0
    # The response that currently carries it, and the response to its POST.
    current_stream: Stream | None = None
    post_stream: Stream | None = None
    # Responses before it became a stream: they are sent as JSON.
    responses: list[bytes] = []
    error: McpError | None = None
    # How many of its requests were cancelled, and so have no response.
    cancelled: int = 0
    # All of its requests have ended; it cannot reach the client any more.
    is_settled: bool = True
    is_lost: bool = False
    waiter: asyncio.Future[None] | None = None

    def __repr__(self) -> str:
        state = "lost" if self.is_lost else "settled" if self.is_settled else "open"
        return f"<Channel {self.name} {state} {self.current_stream!r}>"

    def wake(self) -> None:
        """Wake up the task of its POST."""
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)
