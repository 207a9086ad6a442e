"""Live updates: open pages are notified when the list of tools changes.

Each page has a stream of server-sent events. An event has no data; the page reads the list again, and several changes
may become one event. A stream ends when its page disconnects or the server drains.
"""

import asyncio
from typing import TYPE_CHECKING, Final

import msgspec

from jackstay.inspector import EventLog, start_response, wait_for_disconnect, write_body

if TYPE_CHECKING:
    from collections.abc import Callable

    from apcore_mcp.catalogue import Catalogue, Change
    from jackstay.server.http import App, Receive, Send

# Concurrent streams; each uses a connection.
MAX_STREAMS: Final = 100

# Seconds between two checks for draining, and between two keepalives.
TICK: Final = 0.25
KEEPALIVE: Final = 15.0


class Changes:
    """The open streams of one inspector."""

    def __init__(self, app: "App", catalogue: "Catalogue") -> None:
        self._app = app
        self._catalogue = catalogue
        self._open = 0

    def __repr__(self) -> str:
        return f"<Changes {self._open} streams>"

    @property
    def is_full(self) -> bool:
        """Whether the maximum number of streams is open."""
        return self._open >= MAX_STREAMS

    async def stream(self, receive: "Receive", send: "Send", log: EventLog | None = None, after: int = 0) -> None:
        """Send events to one page until it disconnects: changes, and the events of `log` after this number."""
        changed = asyncio.Event()
        unsubscribe = self._catalogue.subscribe(_waker(asyncio.get_running_loop(), changed))
        self._open += 1
        gone = asyncio.ensure_future(wait_for_disconnect(receive))
        try:
            await start_response(send, 200, "text/event-stream", (("x-accel-buffering", "no"),))
            # The page reads the list on `open`, so that changes before the subscription are not missed.
            opened = {} if log is None else {"log": log.id}
            await write_body(send, b"event: open\ndata: %b\n\n" % msgspec.json.encode(opened))
            await self._stream_changes(changed, gone, send, log, after)
            await write_body(send, b"", is_last=True)
        except OSError:
            pass  # ASGI: a server may raise OSError when the client has disconnected
        finally:
            self._open -= 1
            unsubscribe()
            gone.cancel()

    async def _stream_changes(
        self, changed: asyncio.Event, gone: "asyncio.Future[None]", send: "Send", log: EventLog | None, after: int
    ) -> None:
        silence = 0.0
        while not gone.done() and not self._app.is_draining and (log is None or not log.is_closed):
            for number, event in () if log is None else log.after(after):
                await write_body(send, event)
                after, silence = number, 0.0
            waiting = asyncio.ensure_future(changed.wait())
            try:
                await asyncio.wait((waiting, gone), timeout=TICK, return_when=asyncio.FIRST_COMPLETED)
            finally:
                waiting.cancel()
            if changed.is_set():
                changed.clear()
                silence = 0.0
                await write_body(send, b"event: changed\ndata: {}\n\n")
            else:
                silence += TICK
                if silence >= KEEPALIVE:
                    silence = 0.0
                    await write_body(send, b": alive\n\n")


def _waker(loop: asyncio.AbstractEventLoop, changed: asyncio.Event) -> "Callable[[Change], None]":
    def wake(change: "Change") -> None:  # noqa: ARG001  # the signature of a listener
        try:
            loop.call_soon_threadsafe(changed.set)
        except RuntimeError:
            pass  # the event loop is closed

    return wake


__all__ = ["KEEPALIVE", "MAX_STREAMS", "TICK", "Changes"]
