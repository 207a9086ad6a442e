"""An HTTP connection, bounded: uvicorn's httptools protocol with a limit of bytes and of time for the head of a request.

httptools takes headers of any size for as long as they come, so that one connection could fill the memory, or hold a place
for ever by sending a byte a minute. Here a head over the limit is answered 431, and one that takes too long, or a connection
that asks nothing, is closed. Trailers have the same limit as a head and never become headers (RFC 9110, section 6.5.1).
Bodies are the endpoint's to bound. So are streams: but one that the endpoint has cut for its slow
reader is only closed when the reader has taken what was written before, if ever, so it is reset here; and so is any connection
whose client takes nothing for minutes.

An offer to speak something else than HTTP/1.1 is declined by answering the request (RFC 9110, section 7.8). httptools drops its
body, which Java's client and others send along, so the request is parsed again without the offer.

A request that has to be refused here is answered only if no earlier request of the connection still waits for its response:
an error written first would be read as the response to that one.

Needs httptools; where it is not installed the server runs on h11 (`_h11`).
"""

from typing import Any, NoReturn

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from jackstay.server.http._clocks import Clocks

# What belongs to an offer of another protocol: h2c is what clients offer.
_OFFERS = frozenset((b"upgrade", b"http2-settings"))

# Offers that are declined in one read. A client offers with a request of its own; only a flood has more in one piece.
MAX_DECLINED = 8

_TOO_LARGE = b"431 Request Header Fields Too Large"
_BAD_REQUEST = b"400 Bad Request"


class _Trailers(list[tuple[bytes, bytes]]):
    """Takes the place of the list of headers once the head is complete: counts trailers and keeps none of them.

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


class BoundedProtocol(Clocks, HttpToolsProtocol):
    """A connection whose request heads are bounded. `bounded()` makes the class for a server's limits."""

    max_head_bytes = 65_536

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        # Where the parser is in a message; neither: between two.
        self._is_in_head = False
        self._is_in_body = False
        self._is_too_large = False
        # Bytes read since the parser got anywhere: to the end of a head, a part of a body, the end of a message.
        self._unparsed = 0
        self._has_parsed = False
        self._trailers = _Trailers(self)
        self._is_declining = False

    def data_received(self, data: bytes) -> None:
        """Parse, count what belongs to a part that is not complete, and time what the client still owes."""
        if self._is_over():
            return
        was_in_head = self._is_in_head
        self._has_parsed = False
        self._parse(data)
        if self._is_over():
            return
        # Where in `data` the parser got to is not known. Nothing of this read is counted then: it is bounded by itself.
        self._unparsed = 0 if self._has_parsed else self._unparsed + len(data)
        if self._unparsed > self.max_head_bytes and (self._is_in_head or self._is_in_body):
            self._refuse(_TOO_LARGE)
        elif self._is_in_head:
            if not was_in_head:
                self._start_timer(self.head_timeout)
        elif self._is_serving:
            self._stop_timer()  # what it asked for is being served
        elif self._head_timer is None:
            # Blank lines, or the body of what was refused unread: uvicorn takes them for a request, and stops its clock.
            # They do not move ours.
            self._start_timer(self.timeout_keep_alive)

    def _parse(self, data: bytes) -> None:
        """As uvicorn does, but for offers of other protocols."""
        self._unset_keepalive_if_required()
        try:
            for _ in range(MAX_DECLINED + 1):
                try:
                    self.parser.feed_data(data)
                except httptools.HttpParserUpgrade as offer:
                    data = self._decline(data[offer.args[0] :])
                else:
                    return
        except httptools.HttpParserError:
            self.logger.warning("Invalid HTTP request received.")
            self.send_400_response("Invalid HTTP request received.")
        else:
            self._refuse(_BAD_REQUEST, b"Too many upgrade requests.")

    def _decline(self, rest: bytes) -> bytes:
        """The request without its offer of another protocol, to be parsed next: `rest` is what came after its head."""
        parser, self.parser = self.parser, httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn's
        lines = [b"%b %b HTTP/%b" % (parser.get_method(), self.url, parser.get_http_version().encode())]
        for name, value in self.headers:
            if name == b"connection":
                options = [option.strip() for option in value.split(b",")]
                kept = b", ".join(option for option in options if option.lower() not in _OFFERS)
                lines.append(b"connection: " + (kept or b"keep-alive"))
            elif name not in _OFFERS:
                lines.append(name + b": " + value)
        self._is_declining = False
        return b"\r\n".join(lines) + b"\r\n\r\n" + rest

    def on_message_begin(self) -> None:
        """A head begins."""
        self._is_in_head = True
        self._unparsed = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The head is here: it may have come in one piece."""
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
            raise ValueError(
                "no tunnel leads from here"
            )  # the parser stops, and `send_400_response` is called
        else:
            self._is_declining = True

    def on_body(self, body: bytes) -> None:
        """A part of a body."""
        self._has_parsed = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is here: or what httptools takes for it, where another protocol was offered."""
        if not self._is_declining:
            self._is_in_body = False
            self._has_parsed = True
            super().on_message_complete()

    def on_response_complete(self) -> None:
        """A response is written; after a refusal the last one that was due ends the connection."""
        is_last = not self.pipeline
        super().on_response_complete()
        if self._is_refused and is_last:
            self.transport.close()

    def stop_too_large(self) -> NoReturn:
        """Called while parsing. Raises: ValueError, which stops the parser; then `send_400_response` is called."""
        self._is_too_large = True
        raise ValueError("the head or the trailers are over the limit")

    def send_400_response(self, msg: str) -> None:
        """The parser has stopped: because of us, or because that is no HTTP."""
        if self._is_too_large:
            self._refuse(_TOO_LARGE)
        else:
            self._refuse(_BAD_REQUEST, msg.encode("ascii"))

    def _refuse(self, status: bytes, text: bytes = b"") -> None:
        """Read no further, and close the connection: at once with this status, or after the responses of earlier requests."""
        self._stop_timer()
        self._is_refused = True
        if self._is_in_body and self.pipeline:
            self.pipeline.popleft()  # the request that is not all here: it is not served
        elif self._is_in_body and self.cycle.response_started:
            self.transport.close()  # the application has refused it already
        elif self._is_in_body or not self._is_serving:
            fields = [(b"content-length", b"%d" % len(text)), (b"connection", b"close")]
            fields += [(b"content-type", b"text/plain; charset=utf-8")] if text else []
            head = [name + b": " + value for name, value in (*self.server_state.default_headers, *fields)]
            self.transport.write(b"\r\n".join((b"HTTP/1.1 " + status, *head, b"", text)))
            self.transport.close()


def bounded(max_bytes: int, timeout: float) -> type[BoundedProtocol]:
    """The protocol with these limits."""
    return type("Bounded", (BoundedProtocol,), {"max_head_bytes": max_bytes, "head_timeout": timeout})


__all__ = ["BoundedProtocol", "bounded"]
