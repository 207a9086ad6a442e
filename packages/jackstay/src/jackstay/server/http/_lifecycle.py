"""Startup and shutdown hooks of a server under ASGI.

They run on lifespan events. Frameworks do not forward these to mounted applications; without them the startup hooks run
before the first request, and the shutdown hooks when the event loop ends, or with uvicorn on SIGTERM and SIGINT.
"""

import asyncio
import contextlib
import logging
import signal
import threading
from collections.abc import AsyncIterator
from types import FrameType
from typing import TYPE_CHECKING, Any

import msgspec

from jackstay.protocol.http import RequestRefused
from jackstay.server.http._asgi import Receive, Send
from jackstay.server.http._refusals import NOT_STARTED

if TYPE_CHECKING:
    from jackstay.server.http._app import App

logger = logging.getLogger("jackstay.server.http")


class Lifecycle:
    """Runs the startup and shutdown hooks of the server of an app, each once."""

    def __init__(self, app: "App") -> None:
        self.is_started = False
        self._has_ended = False
        self._app = app
        self._loop_end: AsyncIterator[None] | None = None

    async def start(self) -> bool:
        """Run the startup hooks unless another app has run them. Returns False if the server was drained meanwhile.

        Raises: any exception of a hook.
        """
        if self._has_ended:  # not if the app was drained before its first start
            self._has_ended = False
            self._app.accept_new()
        self.is_started = await self._app.server.startup(self)
        return self.is_started

    async def end(self) -> None:
        """Run the shutdown hooks unless another app still serves the server. Drain the app first."""
        self.is_started = False
        self._has_ended = True
        await self._app.server.shutdown(self)

    @contextlib.asynccontextmanager
    async def lifespan(self, _: object = None) -> AsyncIterator[None]:
        """Start, and finally drain and end. Pass it to the application that mounts this one.

        `FastAPI(lifespan=app.lifespan)`, or `async with app.lifespan():` inside another lifespan function.

        Raises: any exception of a startup hook.
        """
        await self.start()
        try:
            yield
        finally:
            await self.drain_and_end()

    async def run_lifespan(self, receive: Receive, send: Send) -> None:
        """Start and end on the events of the ASGI server (ASGI lifespan protocol 2.0)."""
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                try:
                    failure = "" if await self.start() else "the server was drained during startup"
                except Exception as error:  # a hook may raise anything; the ASGI server reports it
                    logger.exception("a startup hook failed")
                    failure = f"a startup hook failed: {type(error).__name__}: {error}"
                if failure:
                    await send({"type": "lifespan.startup.failed", "message": failure})
                    return
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                await self.drain_and_end()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def start_on_first_request(self) -> None:
        """Start before the first request. Raises: RequestRefused if a hook failed; the next request tries again."""
        if self._app.server._lifetime.try_enter(self):
            await self._on_started()
            return
        try:
            # In a task of its own: other requests wait for it even if the client of this one disconnects.
            is_started = await asyncio.shield(self._start_once())
        except Exception as error:  # a hook may raise anything
            logger.exception("a startup hook failed; the next request tries again")
            raise RequestRefused(NOT_STARTED) from error
        if not is_started:
            raise RequestRefused(NOT_STARTED)

    async def _start_once(self) -> bool:
        if not await self._app.server.startup(self):
            return False
        await self._on_started()
        return True

    async def _on_started(self) -> None:
        self.is_started = True
        if self._loop_end is None:
            self._loop_end = self._end_with_loop()
            await anext(self._loop_end)
            if self._app.server._lifetime.has_shutdown and not self._end_before_uvicorn():
                logger.warning(
                    "received no ASGI lifespan events: shutdown hooks run when the event loop ends;"
                    " pass lifespan=app.lifespan to the application that mounts this one"
                )

    def _end_before_uvicorn(self) -> bool:
        """End before uvicorn handles a signal. Returns False if this is not uvicorn, or not its main thread.

        uvicorn sends itself the signal again after it has served, and SIGTERM ends the process before the loop ends.
        """
        if threading.current_thread() is not threading.main_thread():
            return False
        is_found = False
        for number in (signal.SIGTERM, signal.SIGINT):
            handler = signal.getsignal(number)
            if _is_of_uvicorn(handler):
                signal.signal(number, _BeforeUvicorn(self, handler))
                is_found = True
        return is_found

    async def drain_and_end(self) -> None:
        """Drain the app, then end."""
        await self._app.drain()
        await self.end()

    async def _end_with_loop(self) -> AsyncIterator[None]:
        """End in `loop.shutdown_asyncgens()`, which `asyncio.run()` and ASGI servers call."""
        try:
            yield
        finally:
            self._loop_end = None
            if self.is_started:
                await self.end()


class _BeforeUvicorn(msgspec.Struct, eq=False):
    """A signal handler that ends a server, and then calls the handler of uvicorn. The second signal does not wait."""

    _lifecycle: Lifecycle
    _handler: Any
    _loop: asyncio.AbstractEventLoop = msgspec.field(default_factory=asyncio.get_running_loop)
    _ending: asyncio.Task[None] | None = None
    _is_ending: bool = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self._is_ending or not self._lifecycle.is_started:
            self._handler(number, frame)
        else:
            self._is_ending = True
            self._loop.call_soon_threadsafe(self._begin, number)

    def _begin(self, number: int) -> None:
        self._ending = self._loop.create_task(self._lifecycle.drain_and_end())
        self._ending.add_done_callback(lambda _: self._handler(number, None))


def _is_of_uvicorn(handler: object) -> bool:
    owner = type(getattr(handler, "__self__", None))
    return isinstance(handler, _BeforeUvicorn) or owner.__module__ == "uvicorn.server"
