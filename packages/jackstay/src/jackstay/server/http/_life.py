"""The hooks of a server under ASGI: with lifespan events, or with the first request where there are none.

ASGI servers send lifespan events to the application that they serve, and frameworks do not pass them on to what is mounted
in it. Where none came, the startup hooks run before the first request, and the shutdown hooks when the event loop ends.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from jackstay.protocol.http import RETRY_HEADERS, Refusal
from jackstay.protocol.wire import ErrorCode
from jackstay.server.http._asgi import Receive, Send

if TYPE_CHECKING:
    from jackstay.server._server import Server
    from jackstay.server.http._app import App

logger = logging.getLogger("jackstay.server.http")

NOT_STARTED = Refusal(
    503,
    ErrorCode.INTERNAL_ERROR,
    "the server could not start",
    {"retryable": True, "mayHaveRun": False},
    RETRY_HEADERS,
)


class Life:
    """Whether an app has run the startup hooks of its server, and by what its shutdown hooks are run."""

    def __init__(self, server: "Server", app: "App") -> None:
        self.is_started = False
        self._has_ended = False
        self._server = server
        self._app = app
        self._loop_end: AsyncIterator[None] | None = None

    async def start(self) -> bool:
        """Run the startup hooks, unless the server is served already. False: it was drained meanwhile.

        Raises: what a hook raises.
        """
        if self._has_ended:  # not if it was drained before it has begun
            self._has_ended = False
            self._app.accept_new()
        self.is_started = await self._server.startup(self)
        return self.is_started

    async def end(self) -> None:
        """Run the shutdown hooks, unless the server is still served otherwise. `drain()` the app before."""
        self.is_started = False
        self._has_ended = True
        await self._server.shutdown(self)

    @contextlib.asynccontextmanager
    async def lifespan(self, _: object = None) -> AsyncIterator[None]:
        """Start, and in the end drain and end: for the lifespan of the application that this one is mounted in.

        `FastAPI(lifespan=app.lifespan)`, or `async with app.lifespan():` inside one of your own.

        Raises: what a startup hook raises.
        """
        await self.start()
        try:
            yield
        finally:
            await self._app.drain()
            await self.end()

    async def follow(self, receive: Receive, send: Send) -> None:
        """Start and end as the events of the ASGI server say (ASGI, lifespan protocol 2.0)."""
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                try:
                    failure = "" if await self.start() else "the server was drained while it started"
                except (
                    Exception
                ) as error:  # the edge of the author's hooks: the ASGI server reports it, and ends
                    logger.exception("a startup hook failed")
                    failure = f"a startup hook failed: {type(error).__name__}: {error}"
                if failure:
                    await send({"type": "lifespan.startup.failed", "message": failure})
                    return
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                await self._app.drain()
                await self.end()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def start_late(self) -> Refusal | None:
        """Start with the first request. The refusal, if a hook failed; the next request tries again."""
        if self._server.join(self):
            await self._started_late()
            return None
        try:
            # In a task of its own: other requests wait for it, too, when the client of this one is gone.
            is_started = await asyncio.shield(asyncio.ensure_future(self._start_late()))
        except Exception:  # the edge of the author's hooks
            logger.exception("a startup hook failed; the next request tries again")
            return NOT_STARTED
        return None if is_started else NOT_STARTED

    async def _start_late(self) -> bool:
        if not await self._server.startup(self):
            return False
        await self._started_late()
        return True

    async def _started_late(self) -> None:
        self.is_started = True
        if self._loop_end is None:
            if self._server.hooks_timeout:
                logger.warning(
                    "no ASGI lifespan events arrived: shutdown hooks run when the event loop ends, which uvicorn"
                    " prevents after SIGTERM; pass lifespan=app.lifespan to the application that this is mounted in"
                )
            self._loop_end = self._end_with_loop()
            await anext(self._loop_end)

    async def _end_with_loop(self) -> AsyncIterator[None]:
        """Wait for `loop.shutdown_asyncgens()`, with which `asyncio.run()` and ASGI servers end a loop."""
        try:
            yield
        finally:
            self._loop_end = None
            await self.end()


__all__ = ["Life"]
