"""Live updates: who has the page open is told when the list of tools has changed.

A catalogue changes on any thread; each open page has a stream (server-sent events) on its own loop. Only that there was a
change is told, and never twice while a page has not heard of the first: the page reads the list again. A stream ends when its
page goes, or when the server drains, because an open stream would hold up the end of the process.

Must never know a tool. Above: `paths`. Below: `catalogue`, ASGI.
"""

import asyncio
from typing import TYPE_CHECKING, Final

from apcore_mcp.answers import begin, until_gone, write

if TYPE_CHECKING:
    from collections.abc import Callable

    from apcore_mcp.catalogue import Catalogue, Change
    from jackstay.server.http import App, Receive, Send

# Pages at once. Beyond that somebody has forgotten to close something, and each holds a connection.
MAX_STREAMS: Final = 100

# How often a stream looks whether the server drains, and how often it says that it is alive, in seconds.
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
        """True while no more pages are told."""
        return self._open >= MAX_STREAMS

    async def carry(self, receive: "Receive", send: "Send") -> None:
        """Tell one page of changes until it goes."""
        changed = asyncio.Event()
        unsubscribe = self._catalogue.subscribe(_waker(asyncio.get_running_loop(), changed))
        self._open += 1
        gone = asyncio.ensure_future(until_gone(receive))
        try:
            await begin(send, 200, "text/event-stream", (("x-accel-buffering", "no"),))
            # Whatever changed between reading the list and this is told as well: the page reads it on `open`.
            await write(send, b"event: open\ndata: {}\n\n")
            await self._tell(changed, gone, send)
            await write(send, b"", is_last=True)
        except OSError:
            pass  # ASGI: how a server may say that the client has gone
        finally:
            self._open -= 1
            unsubscribe()
            gone.cancel()

    async def _tell(self, changed: asyncio.Event, gone: "asyncio.Future[None]", send: "Send") -> None:
        silence = 0.0
        while not gone.done() and not self._app.is_draining:
            waiting = asyncio.ensure_future(changed.wait())
            try:
                await asyncio.wait((waiting, gone), timeout=TICK, return_when=asyncio.FIRST_COMPLETED)
            finally:
                waiting.cancel()
            if changed.is_set():
                changed.clear()
                silence = 0.0
                await write(send, b"event: changed\ndata: {}\n\n")
            else:
                silence += TICK
                if silence >= KEEPALIVE:
                    silence = 0.0
                    await write(send, b": alive\n\n")


def _waker(loop: asyncio.AbstractEventLoop, changed: asyncio.Event) -> "Callable[[Change], None]":
    def wake(change: "Change") -> None:  # noqa: ARG001  # that there was one is enough
        try:
            loop.call_soon_threadsafe(changed.set)
        except RuntimeError:
            pass  # the loop has closed: there is nobody left to tell

    return wake


__all__ = ["KEEPALIVE", "MAX_STREAMS", "TICK", "Changes"]
