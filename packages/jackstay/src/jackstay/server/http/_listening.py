"""`Http1Server`: listens on sockets, serves an ASGI app on them, and shuts down.

It has no lifespan events: `run()` starts and ends the app.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from jackstay.server.http._exchange import Exchange
from jackstay.server.http._http1 import Http1Connection
from jackstay.server.http._sockets import BACKLOG

if TYPE_CHECKING:
    from jackstay.server._parked_task import ParkedTask
    from jackstay.server.http._asgi import Asgi

logger = logging.getLogger("jackstay.server.http")

# Seconds between two calls of `on_tick`.
TICK: Final = 0.1


class Http1Server:
    """Serves an app until `stop()`. `exchanges` are the requests whose app is running.

    `handle` serves a request without ASGI, instead of `app`.
    """

    def __init__(
        self,
        app: "Asgi",
        *,
        handle: Callable[[Exchange], Awaitable[None]] | None = None,
        keepalive_timeout: float = 75.0,
        header_timeout: float = 10.0,
        max_header_bytes: int = 65_536,
        has_access_log: bool = False,
        ssl_context: ssl.SSLContext | None = None,
        grace: float = 0.0,
        shutdown_timeout: float = 2.0,
        on_ready: Callable[[], object] = lambda: None,
        on_tick: Callable[[], object] = lambda: None,
    ) -> None:
        self._app = app
        self.handle = self._call_app if handle is None else handle
        # The first step of requests runs in its name. It is replaced when a request needs the task.
        self.parked: ParkedTask | None = None
        self.keepalive_timeout = keepalive_timeout
        self.header_timeout = header_timeout
        self.max_header_bytes = max_header_bytes
        self.has_access_log = has_access_log
        self.connections: set[Http1Connection] = set()
        self.exchanges: set[Exchange] = set()
        self._ssl_context = ssl_context
        self._grace = grace
        self._shutdown_timeout = shutdown_timeout
        self._on_ready = on_ready
        self._on_tick = on_tick
        self._listeners: list[asyncio.Server] = []
        self._is_stopped = asyncio.Event()
        self._is_empty = asyncio.Event()

    def __repr__(self) -> str:
        return f"<Http1Server {len(self.connections)} connections, {len(self.exchanges)} requests>"

    def _call_app(self, exchange: Exchange) -> Awaitable[None]:
        return self._app(exchange.make_scope(), exchange.receive, exchange.send)

    async def serve(self, sockets: list[socket.socket]) -> None:
        """Serve until `stop()`. Idle connections stay open for the grace period, others until the shutdown timeout."""
        loop = asyncio.get_running_loop()
        try:
            for sock in sockets:
                self._listeners.append(
                    await loop.create_server(
                        lambda: Http1Connection(self, loop), sock=sock, backlog=BACKLOG, ssl=self._ssl_context
                    )
                )
            logger.debug("listening on %s", ", ".join(str(sock.getsockname()) for sock in sockets))
            if not self._is_stopped.is_set():
                self._on_ready()
            while not self._is_stopped.is_set():
                try:
                    async with asyncio.timeout(TICK):
                        await self._is_stopped.wait()
                except TimeoutError:
                    self._on_tick()
        finally:
            self.stop()
        await asyncio.sleep(self._grace)
        await self._shut_down()
        if self.parked is not None:
            self.parked.discard()
            await asyncio.wait((self.parked.task,))  # otherwise it is a leftover of the event loop
        logger.debug("all connections are closed")

    def stop(self) -> None:
        """Stop listening now; `serve()` returns when all connections are closed."""
        for listener in self._listeners:
            listener.close()
        self._is_stopped.set()

    def remove(self, connection: Http1Connection) -> None:
        """A connection was closed."""
        self.connections.discard(connection)
        if not self.connections:
            self._is_empty.set()

    async def _shut_down(self) -> None:
        for connection in list(self.connections):
            connection.shutdown()
        try:
            async with asyncio.timeout(self._shutdown_timeout):
                while self.connections:
                    self._is_empty.clear()
                    await self._is_empty.wait()
                tasks = [exchange.task for exchange in self.exchanges if exchange.task is not None]
                await asyncio.gather(*tasks, return_exceptions=True)
        except TimeoutError:
            logger.error("shutdown timeout: cancelling %d requests", len(self.exchanges))
            for exchange in list(self.exchanges):
                if exchange.task is not None:
                    exchange.task.cancel()
            for connection in list(self.connections):
                connection.transport.abort()
