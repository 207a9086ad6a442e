"""An HTTP/1.1 connection of the server, on the parser of httptools (llhttp).

The parser accepts headers of any size, for any time. Here a head above the limit gets 431, and a slow one is closed.
Trailers have the same limit and never become headers (RFC 9110 section 6.5.1). An Upgrade is declined (RFC 9110 section
7.8). Pipelined requests are served one after the other.
"""

import asyncio
import math
from collections import deque
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast
from urllib.parse import unquote

import httptools

from jackstay.server.http._exchange import Exchange, encode_head, logger
from jackstay.server.http._timeouts import TimeoutMixin

if TYPE_CHECKING:
    from jackstay.server.http._listening import Http1Server

# Headers of an Upgrade. Clients offer h2c.
_UPGRADE_HEADERS: Final = frozenset((b"upgrade", b"http2-settings"))

# Upgrades that are declined in one read. A client sends one at a time; more in one read are a flood.
MAX_DECLINED: Final = 8

# URLs up to this length are parsed once and kept, because a client sends few different ones.
MAX_KEPT_URL: Final = 256


def _parse_url(url: bytes) -> tuple[str, bytes, bytes]:
    """Return the decoded path, the path and the query string. Raises: HttpParserError, UnicodeDecodeError."""
    parsed = httptools.parse_url(url)
    raw_path = parsed.path or b"/"
    path = raw_path.decode("ascii")
    return unquote(path) if "%" in path else path, raw_path, parsed.query or b""


_parse_short_url = lru_cache(maxsize=128)(_parse_url)


class Http1Connection(TimeoutMixin):
    """A connection of an `Http1Server`, which has the app and the limits."""

    def __init__(self, server: "Http1Server", loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self.server = server
        self.loop = loop
        self.timeout_keep_alive = server.keepalive_timeout
        self.head_timeout = server.header_timeout
        self._max_head_bytes = server.max_header_bytes
        self._parser = httptools.HttpRequestParser(self)
        # The request that is served or was served last, and those that were sent before its response.
        self._exchange: Exchange | None = None
        self._pipeline: deque[Exchange] = deque()
        # The request whose body is being parsed, and the one that starts when the current read is parsed.
        self._incoming: Exchange | None = None
        self._starting: Exchange | None = None
        self._is_reading = True
        # Set while the client reads too slowly.
        self.can_write: asyncio.Event | None = None
        # The position of the parser in a request; between two requests both are False.
        self._is_in_head = self._is_in_body = False
        self._is_too_large = self._is_declining = False
        # Bytes read since the parser last completed a head, a part of a body, or a request.
        self._unparsed = 0
        # The most bytes that a head may have that is completed by the current read.
        self._largest_head = 0
        self._has_parsed = False
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._trailer_bytes = 0
        self._is_continue_expected = False

    # --- the connection -----------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the timeout of a connection without a request."""
        self.transport = cast("asyncio.Transport", transport)
        self.server.connections.add(self)
        self.client = _address(transport.get_extra_info("peername"))
        self.peer: str = self.client[0] if self.client else ""
        self.address = _address(transport.get_extra_info("sockname"))
        self.scheme = "http" if transport.get_extra_info("sslcontext") is None else "https"
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Report the disconnect to the app."""
        super().connection_lost(exc)
        self.server.remove(self)
        self._disconnect()
        if self.can_write is not None:
            self.can_write.set()
            self.can_write = None
        # Break the reference cycles, so that the memory is released at once.
        self._parser = None  # type: ignore[assignment]  # nothing is received any more
        self._exchange = self._incoming = None

    def _disconnect(self) -> None:
        self._pipeline.clear()
        if self._exchange is not None:
            self._exchange.disconnect()

    def pause_writing(self) -> None:
        """Let the app wait: the write buffer is full."""
        super().pause_writing()
        self.can_write = asyncio.Event()

    def resume_writing(self) -> None:
        """Let the app continue."""
        super().resume_writing()
        if self.can_write is not None:
            self.can_write.set()
            self.can_write = None

    def pause_reading(self) -> None:
        """Read nothing more for now."""
        if self._is_reading and not self.transport.is_closing():
            self._is_reading = False
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        """Read again."""
        if not self._is_reading and not self.transport.is_closing():
            self._is_reading = True
            self.transport.resume_reading()

    def shutdown(self) -> None:
        """Close the connection now if it is idle, else after the response."""
        if self._is_serving:
            assert self._exchange is not None
            self._exchange.keep_alive = False
        else:
            self.transport.close()

    @property
    def _is_serving(self) -> bool:
        return self._exchange is not None and not self._exchange.is_complete

    # --- reading ------------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Parse, count the bytes of an incomplete head or trailer, set the timeout of the head, and start a request."""
        if self._is_refused or self.transport.is_closing():
            return
        was_in_head = self._is_in_head
        self._largest_head = self._max_head_bytes if was_in_head else len(data)
        self._has_parsed = False
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._feed_declined(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            self._on_invalid(error)
        if not self._is_over():
            # How much of `data` was parsed is unknown. If anything was, this read is not counted: its size is bounded
            # anyway.
            self._unparsed = 0 if self._has_parsed else self._unparsed + len(data)
            if self._unparsed > self._max_head_bytes and (self._is_in_head or self._is_in_body):
                self._refuse(431)
            elif self._is_in_head:
                if not was_in_head:
                    self._set_timeout(self.head_timeout)
            elif self._exchange is not None and not self._exchange.is_complete:
                self._deadline = math.inf
            # Blank lines, or the rest of a body that was refused, do not change the timeout.
        if self._starting is not None:
            exchange, self._starting = self._starting, None
            exchange.start()

    def _feed_declined(self, rest: bytes) -> None:
        """Continue to parse after the head of an Upgrade, which is declined."""
        try:
            for _ in range(MAX_DECLINED):
                data = self._decline(rest)
                try:
                    self._parser.feed_data(data)
                except httptools.HttpParserUpgrade as upgrade:
                    rest = data[upgrade.args[0] :]
                else:
                    return
        except httptools.HttpParserError as error:
            self._on_invalid(error)
        else:
            self._refuse(400, b"Too many upgrade requests.")

    def _decline(self, rest: bytes) -> bytes:
        """Return the request without its Upgrade headers, to be parsed next. `rest` is the data after its head.

        httptools does not parse the body of an Upgrade, which belongs to the request.
        """
        parser, self._parser = self._parser, httptools.HttpRequestParser(self)
        lines = [b"%b %b HTTP/%b" % (parser.get_method(), self._url, parser.get_http_version().encode())]
        for name, value in self._headers:
            if name == b"connection":
                options = [option.strip() for option in value.split(b",")]
                kept = b", ".join(option for option in options if option.lower() not in _UPGRADE_HEADERS)
                lines.append(b"connection: " + (kept or b"keep-alive"))
            elif name not in _UPGRADE_HEADERS:
                lines.append(name + b": " + value)
        self._is_declining = False
        return b"\r\n".join(lines) + b"\r\n\r\n" + rest

    def _on_invalid(self, error: httptools.HttpParserError) -> None:
        """The parser stopped: at a limit, or because of invalid HTTP."""
        if self._is_too_large:
            self._refuse(431)
        else:
            logger.debug("invalid HTTP request: %s", error)
            self._refuse(400, b"Invalid HTTP request received.")

    # --- called by the parser -----------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """A request head begins."""
        self._is_in_head = True
        self._unparsed = 0
        self._url = b""
        self._headers = []
        self._is_continue_expected = False

    def on_url(self, url: bytes) -> None:
        """A part of the URL was parsed."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header was parsed, or a trailer, which is counted and dropped."""
        if self._is_in_body:
            self._trailer_bytes += len(name) + len(value) + 4
            if self._trailer_bytes > self._max_head_bytes:
                self._stop_too_large()
            return
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self._is_continue_expected = True
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        """The head is complete. Check its size, because it may have arrived in one read, and start the request."""
        headers, parser = self._headers, self._parser
        # A line has at least three bytes beside its name and its value, so this is at least what is counted below.
        if self._largest_head + len(headers) > self._max_head_bytes:
            size = len(self._url) + sum(len(name) + len(value) + 4 for name, value in headers)
            if size > self._max_head_bytes:
                self._stop_too_large()
        method, version = parser.get_method(), parser.get_http_version()
        if parser.should_upgrade():
            if method == b"CONNECT":
                raise ValueError("CONNECT is not supported")  # the parser stops, and the client gets 400
            self._is_declining = True
            return
        if version not in ("1.1", "1.0"):
            raise ValueError(f"HTTP/{version} is not supported")
        self._is_in_head = False
        self._is_in_body = self._has_parsed = True
        self._trailer_bytes = 0
        url = self._url
        parsed = _parse_short_url(url) if len(url) <= MAX_KEPT_URL else _parse_url(url)
        # Without keywords, which make a call slower in Python 3.11.
        exchange = self._incoming = Exchange(self, method.decode("ascii"), parsed, headers, version)
        if version == "1.1":
            exchange.keep_alive = parser.should_keep_alive()
            exchange.is_continue_expected = self._is_continue_expected
        if self._exchange is None or self._exchange.is_complete:
            self._exchange = self._starting = exchange
        else:
            self._pipeline.append(exchange)
            self.pause_reading()

    def on_body(self, body: bytes) -> None:
        """A part of a body was parsed."""
        self._has_parsed = True
        if self._incoming is not None:
            self._incoming.add_body(body)

    def on_message_complete(self) -> None:
        """The request is complete, unless it is an Upgrade, whose body httptools does not parse."""
        if not self._is_declining:
            self._is_in_body = False
            self._has_parsed = True
            exchange, self._incoming = self._incoming, None
            if exchange is not None:
                exchange.is_body_complete = True
                if exchange.wakeup is not None:
                    exchange.wakeup.set()

    # --- responding ---------------------------------------------------------------------------------------------------

    def on_response_complete(self, exchange: Exchange) -> None:
        """A response was written: close the connection, or start the next request, or wait for it."""
        if not exchange.keep_alive or (self._is_refused and not self._pipeline):
            self._pipeline.clear()
            self.transport.close()
        elif self._pipeline:
            self._exchange = self._pipeline.popleft()
            if not self._pipeline:
                self.resume_reading()
            self._exchange.start()
        else:
            if not self._is_reading:
                self.resume_reading()
            if not self._is_in_head:
                self._set_timeout(self.timeout_keep_alive)

    def _stop_too_large(self) -> NoReturn:
        """Stop parsing. Raises: ValueError, which the parser reports as an error."""
        self._is_too_large = True
        raise ValueError("the head or the trailers exceed the limit")

    def _refuse(self, status: int, text: bytes = b"") -> None:
        """Read no further and close the connection, with this status unless an earlier response is pending.

        An error that is written before the pending response would be read as that response.
        """
        self._deadline = math.inf
        self._is_refused = True
        if self._is_in_body and self._pipeline:
            self._pipeline.pop()  # the incomplete request is not served
        elif self._is_in_body and self._exchange is not None and self._exchange.is_started:
            self.transport.close()  # the app has refused it already
        elif self._is_in_body or not self._is_serving:
            fields = [(b"content-length", b"%d" % len(text)), (b"connection", b"close")]
            fields += [(b"content-type", b"text/plain; charset=utf-8")] if text else []
            self._disconnect()
            self.transport.write(encode_head(status, fields) + b"\r\n" + text)
            self.transport.close()


def _address(value: Any) -> Sequence[Any] | None:
    """Return the host and the port of an address as ASGI has them; an address of a Unix socket has none."""
    return (str(value[0]), int(value[1])) if isinstance(value, tuple | list) and len(value) >= 2 else None
