"""An HTTP connection on httptools: uvicorn's protocol with limits for request heads and trailers.

httptools itself accepts headers of any size, for any time. A head above the limit gets 431, a slow one is closed.
Trailers have the same limit and never become headers (RFC 9110 section 6.5.1). An Upgrade is declined (RFC 9110 section
7.8).
"""

from typing import Any, NoReturn

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from jackstay.server.http._timeouts import TimeoutMixin

# Headers of an Upgrade. Clients offer h2c.
_UPGRADE_HEADERS = frozenset((b"upgrade", b"http2-settings"))

# Upgrades that are declined in one read. A client sends one at a time; more in one read are a flood.
MAX_DECLINED = 8

_TOO_LARGE = b"431 Request Header Fields Too Large"
_BAD_REQUEST = b"400 Bad Request"


class _Trailers(list[tuple[bytes, bytes]]):
    """Replaces the list of headers once the head is complete: counts the bytes of trailers and stores none.

    uvicorn appends every field that httptools reports to the list in the ASGI scope, trailers included.
    """

    def __init__(self, protocol: "BoundedProtocol") -> None:
        super().__init__()
        self._protocol = protocol
        self.size = 0

    def append(self, field: tuple[bytes, bytes]) -> None:
        self.size += len(field[0]) + len(field[1]) + 4
        if self.size > self._protocol.max_head_bytes:
            self._protocol.stop_too_large()


class BoundedProtocol(TimeoutMixin, HttpToolsProtocol):
    """A connection with limits for request heads. `make_httptools_protocol()` makes a class for given limits."""

    max_head_bytes = 65_536

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        # The position of the parser in a request; between two requests both are False.
        self._is_in_head = False
        self._is_in_body = False
        self._is_too_large = False
        # Bytes read since the parser last completed a head, a part of a body, or a request.
        self._unparsed = 0
        # The most bytes that a head may have that is completed by the current read.
        self._largest_head = 0
        self._has_parsed = False
        self._trailers = _Trailers(self)
        self._is_declining = False

    def data_received(self, data: bytes) -> None:
        """Parse, count the bytes of an incomplete head or trailer, and start or stop the timer of the head."""
        if self._is_over():
            return
        was_in_head = self._is_in_head
        self._largest_head = self.max_head_bytes if was_in_head else len(data)
        self._has_parsed = False
        self._parse(data)
        if self._is_over():
            return
        # How much of `data` was parsed is unknown. If anything was, this read is not counted: its size is bounded
        # anyway.
        self._unparsed = 0 if self._has_parsed else self._unparsed + len(data)
        if self._unparsed > self.max_head_bytes and (self._is_in_head or self._is_in_body):
            self._refuse(_TOO_LARGE)
        elif self._is_in_head:
            if not was_in_head:
                self._start_timer(self.head_timeout)
        elif self._is_serving:
            if self._head_timer is not None:
                self._stop_timer()
        elif self._head_timer is None:
            # Blank lines, or the rest of a body that was refused: uvicorn stops its timer for them, as for a request.
            # They do not reset this one.
            self._start_timer(self.timeout_keep_alive)

    def _parse(self, data: bytes) -> None:
        """Parse as uvicorn does, but decline upgrades."""
        self._unset_keepalive_if_required()
        try:
            for _ in range(MAX_DECLINED + 1):
                try:
                    self.parser.feed_data(data)
                except httptools.HttpParserUpgrade as upgrade:
                    data = self._decline(data[upgrade.args[0] :])
                else:
                    return
        except httptools.HttpParserError:
            self.logger.warning("Invalid HTTP request received.")
            self.send_400_response("Invalid HTTP request received.")
        else:
            self._refuse(_BAD_REQUEST, b"Too many upgrade requests.")

    def _decline(self, rest: bytes) -> bytes:
        """Return the request without its Upgrade headers, to be parsed next. `rest` is the data after its head.

        httptools does not parse the body of an Upgrade, which belongs to the request.
        """
        parser, self.parser = self.parser, httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn's
        lines = [b"%b %b HTTP/%b" % (parser.get_method(), self.url, parser.get_http_version().encode())]
        for name, value in self.headers:
            if name == b"connection":
                options = [option.strip() for option in value.split(b",")]
                kept = b", ".join(option for option in options if option.lower() not in _UPGRADE_HEADERS)
                lines.append(b"connection: " + (kept or b"keep-alive"))
            elif name not in _UPGRADE_HEADERS:
                lines.append(name + b": " + value)
        self._is_declining = False
        return b"\r\n".join(lines) + b"\r\n\r\n" + rest

    def on_message_begin(self) -> None:
        """A request head begins."""
        self._is_in_head = True
        self._unparsed = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The head is complete. Check its size: it may have arrived in one read."""
        # A line has at least three bytes beside its name and its value, so this is at least what is counted below.
        if self._largest_head + len(self.headers) > self.max_head_bytes:
            size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
            if size > self.max_head_bytes:
                self.stop_too_large()
        if not self.parser.should_upgrade():
            self._is_in_head = False
            self._is_in_body = self._has_parsed = True
            super().on_headers_complete()
            self._trailers.size = 0
            self.headers = self._trailers
        elif self.parser.get_method() == b"CONNECT":
            raise ValueError("CONNECT is not supported")  # the parser stops, and `send_400_response` is called
        else:
            self._is_declining = True

    def on_body(self, body: bytes) -> None:
        """A part of a body was parsed."""
        self._has_parsed = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is complete, unless it is an Upgrade, whose body httptools does not parse."""
        if not self._is_declining:
            self._is_in_body = False
            self._has_parsed = True
            super().on_message_complete()

    def on_response_complete(self) -> None:
        """A response was written. After a refusal the last pending response closes the connection."""
        is_last = not self.pipeline
        super().on_response_complete()
        if self._is_refused and is_last:
            self.transport.close()

    def stop_too_large(self) -> NoReturn:
        """Stop parsing. Raises: ValueError, after which uvicorn calls `send_400_response`."""
        self._is_too_large = True
        raise ValueError("the head or the trailers exceed the limit")

    def send_400_response(self, msg: str) -> None:
        """The parser stopped: at a limit, or because of invalid HTTP."""
        if self._is_too_large:
            self._refuse(_TOO_LARGE)
        else:
            self._refuse(_BAD_REQUEST, msg.encode("ascii"))

    def _refuse(self, status: bytes, text: bytes = b"") -> None:
        """Read no further and close the connection, with this status unless an earlier response is pending.

        An error that is written before the pending response would be read as that response.
        """
        self._stop_timer()
        self._is_refused = True
        if self._is_in_body and self.pipeline:
            self.pipeline.popleft()  # the incomplete request is not served
        elif self._is_in_body and self.cycle.response_started:
            self.transport.close()  # the application has refused it already
        elif self._is_in_body or not self._is_serving:
            fields = [(b"content-length", b"%d" % len(text)), (b"connection", b"close")]
            fields += [(b"content-type", b"text/plain; charset=utf-8")] if text else []
            head = [name + b": " + value for name, value in (*self.server_state.default_headers, *fields)]
            self.transport.write(b"\r\n".join((b"HTTP/1.1 " + status, *head, b"", text)))
            self.transport.close()


def make_httptools_protocol(max_bytes: int, timeout: float) -> type[BoundedProtocol]:
    """Return the protocol class with these limits for request heads."""
    return type("Bounded", (BoundedProtocol,), {"max_head_bytes": max_bytes, "head_timeout": timeout})


__all__ = ["BoundedProtocol", "make_httptools_protocol"]
