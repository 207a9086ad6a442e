"""The HTTP server on uvicorn and h11, for systems without httptools.

h11 limits the bytes of heads and trailers itself (`h11_max_incomplete_event_size`), keeps trailers apart from headers,
and reads pipelined requests one by one. uvicorn's loggers are redirected to `jackstay.server.http` while it serves.
"""

import asyncio
import contextlib
import logging
import math
import socket
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from jackstay.server.http._run import DRAIN_GRACE, END_MARGIN, load_certificate
from jackstay.server.http._sockets import BACKLOG
from jackstay.server.http._timeouts import TimeoutMixin

if TYPE_CHECKING:
    from jackstay.server.http._run import HttpServer, ServeContext

logger = logging.getLogger("jackstay.server.http")
access_logger = logging.getLogger("jackstay.server.http.access")


def make_uvicorn(context: "ServeContext", on_ready: Callable[[], None], drain: Callable[[], None]) -> "HttpServer":
    """Return uvicorn with h11, which needs no compiled parser."""

    class Uvicorn(uvicorn.Server):
        """uvicorn without its signal handlers, and with a grace period for requests that are on their way."""

        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

        async def serve(self, sockets: list[socket.socket] | None = None) -> None:
            with redirected("uvicorn.error", Errors()), redirected("uvicorn.access", Access()):
                await super().serve(sockets)

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            on_ready()

        async def on_tick(self, counter: int) -> bool:
            # `server.drain()` was called, perhaps from another thread: shut down.
            if context.app.is_draining and not self.should_exit:
                drain()
            return await super().on_tick(counter)

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            await asyncio.sleep(DRAIN_GRACE)
            await super().shutdown(sockets)

        def stop(self) -> None:
            for listener in getattr(self, "servers", ()):  # missing before uvicorn has started
                listener.close()
            self.should_exit = True

    options = context.options
    config = uvicorn.Config(
        context.served,
        http=make_h11_protocol(options.header_timeout),
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=options.access_log,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_keep_alive=math.ceil(options.keepalive_timeout),
        # Handlers have a limit of their own, and the watchdog limits the whole shutdown.
        timeout_graceful_shutdown=math.ceil(context.app.server.options.drain_timeout + END_MARGIN),
        h11_max_incomplete_event_size=options.max_header_bytes,
    )
    config.load()
    config.ssl = load_certificate(options)
    return Uvicorn(config)


class TimedH11(TimeoutMixin, H11Protocol):  # type: ignore[misc]  # uvicorn declares other types of the same attributes
    """A connection with a timeout for request heads. `make_h11_protocol()` makes a class for a timeout."""

    def data_received(self, data: bytes) -> None:
        """Parse, and start or stop the timer of the request head."""
        was_in_head = self._is_in_head
        super().data_received(data)
        self._is_in_head = False
        if self._is_over():
            return
        if self._is_serving:
            self._deadline = math.inf
        elif self.conn.their_state is h11.IDLE and (was_in_head or self.conn.trailing_data[0]):
            self._is_in_head = True
            if not was_in_head:
                self._set_timeout(self.head_timeout)
        elif self._deadline == math.inf:
            # Blank lines, or the rest of a body that was refused: they do not reset the timer.
            self._set_timeout(self.timeout_keep_alive)

    _is_in_head = False

    @property
    def _is_serving(self) -> bool:
        # None until the first request, despite its annotation.
        cycle = vars(self)["cycle"]
        return cycle is not None and not cycle.response_complete

    def send_400_response(self, msg: str) -> None:
        """Respond to a parser error, unless the application has already refused the request."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()


def make_h11_protocol(timeout: float) -> type[TimedH11]:
    """Return the protocol class with this timeout for request heads."""
    return type("Timed", (TimedH11,), {"head_timeout": timeout})


# --- logs -------------------------------------------------------------------------------------------------------------


class Errors(logging.Handler):
    """Logs errors as errors, and what uvicorn logs about itself and about invalid HTTP as DEBUG."""

    def emit(self, record: logging.LogRecord) -> None:
        level = record.levelno if record.levelno >= logging.ERROR else logging.DEBUG
        logger.log(level, record.getMessage(), exc_info=record.exc_info)


class Access(logging.Handler):
    """Logs a line per request without the query string, which may contain secrets."""

    def emit(self, record: logging.LogRecord) -> None:
        client, method, path, _, status = record.args  # type: ignore[misc]  # uvicorn passes these five
        access_logger.info("%s %s %s %s", client, method, str(path).partition("?")[0], status)


@contextlib.contextmanager
def redirected(name: str, handler: logging.Handler) -> Iterator[None]:
    """Let only this handler have the messages of a logger of uvicorn, inside a `with` block."""
    source = logging.getLogger(name)
    before = source.handlers, source.propagate, source.level
    source.handlers, source.propagate = [handler], False
    source.setLevel(logging.INFO)
    try:
        yield
    finally:
        source.handlers, source.propagate, level = before
        source.setLevel(level)
