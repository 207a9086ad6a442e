"""An HTTP connection, bounded: uvicorn's httptools protocol with a limit of bytes and of time for the head of a request.

httptools takes headers of any size for as long as they come, so that one connection could fill the memory, or hold a place
for ever by sending a byte a minute. Here a head over the limit is answered 431, and one that takes too long, or a connection
that asks nothing, is closed. Bodies are the endpoint's to bound. So are streams: but one that the endpoint has cut for its slow
reader is only closed when the reader has taken what was written before, if ever, so it is reset here; and so is any connection
whose client takes nothing for minutes.

An offer to speak something else than HTTP/1.1 is declined by answering the request (RFC 9110, section 7.8). httptools drops its
body, which Java's client and others send along, so the request is parsed again without the offer.

Needs httptools; where it is not installed uvicorn runs on h11, which has a limit of bytes of its own.

Must never know MCP. Above: `_run`. Below: uvicorn.
"""

import asyncio
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

# How often a connection that cannot be written to is looked at, and how long its client may take nothing at all. A system may hold
# some megabytes for one that reads slowly and say nothing of it meanwhile, so this must be generous.
STUCK_SECONDS = 1.0
STALLED_SECONDS = 300.0

# What belongs to an offer of another protocol: h2c is what clients offer.
_OFFERS = frozenset((b"upgrade", b"http2-settings"))

_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class BoundedProtocol(HttpToolsProtocol):
    """A connection whose request heads are bounded. `bounded()` makes the class for a server's limits."""

    max_head_bytes = 65_536
    head_timeout = 10.0

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self._is_in_head = False
        self._is_too_large = False
        self._head_size = 0
        self._head_timer: asyncio.TimerHandle | None = None
        self._stuck_timer: asyncio.TimerHandle | None = None
        self._stuck_bytes = 0
        self._stuck_since = 0.0
        self._is_declining = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        """A connection that asks nothing may stay as long as one that has asked."""
        super().connection_made(transport)
        self._start_timer(self.timeout_keep_alive)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is timed any more."""
        self._stop_timer()
        self._stop_looking()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse, count what belongs to a head that is not all there, and see that the client owes us an end."""
        was_in_head = self._is_in_head
        self._parse(data)
        if self.transport.is_closing():
            return
        if self._is_in_head:
            # A head that began in the middle of these bytes is counted with a little too much.
            self._head_size += len(data)
            if self._head_size > self.max_head_bytes:
                self._refuse()
            elif not was_in_head:
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
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as offer:
            self._decline(data[offer.args[0] :])
        except httptools.HttpParserError:
            self.logger.warning("Invalid HTTP request received.")
            self.send_400_response("Invalid HTTP request received.")

    def _decline(self, rest: bytes) -> None:
        """Go on as if the other protocol had not been offered: `rest` is what came after the head."""
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
        self._parse(b"\r\n".join(lines) + b"\r\n\r\n" + rest)

    def pause_writing(self) -> None:
        """The client does not take what we say."""
        super().pause_writing()
        self._stop_looking()
        self._stuck_bytes, self._stuck_since = 0, self.loop.time()
        self._stuck_timer = self.loop.call_later(STUCK_SECONDS, self._look)

    def resume_writing(self) -> None:
        """It does again."""
        self._stop_looking()
        super().resume_writing()

    def _look(self) -> None:
        """A response that was cut short is of no use to who is still waiting for the rest of it; a whole one is."""
        size, now = self.transport.get_write_buffer_size(), self.loop.time()
        if size != self._stuck_bytes:
            self._stuck_bytes, self._stuck_since = size, now
        is_cut = self.transport.is_closing() and not self.cycle.response_complete
        if is_cut or now - self._stuck_since >= STALLED_SECONDS:
            self.transport.abort()
        else:
            self._stuck_timer = self.loop.call_later(STUCK_SECONDS, self._look)

    def _stop_looking(self) -> None:
        if self._stuck_timer is not None:
            self._stuck_timer.cancel()
            self._stuck_timer = None

    @property
    def _is_serving(self) -> bool:
        # None until the first request, whatever its type says.
        cycle: RequestResponseCycle | None = vars(self)["cycle"]
        return cycle is not None and not cycle.response_complete

    def on_message_begin(self) -> None:
        """A head begins."""
        self._is_in_head = True
        self._head_size = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The head is here: it may have come in one piece."""
        self._is_in_head = False
        if (
            len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
            > self.max_head_bytes
        ):
            self._is_too_large = True
            raise ValueError(
                "the head is over the limit"
            )  # the parser stops, and `send_400_response` is called
        if not self.parser.should_upgrade():
            super().on_headers_complete()
        elif self.parser.get_method() == b"CONNECT":
            raise ValueError("no tunnel leads from here")  # as above
        else:
            self._is_declining = True

    def on_message_complete(self) -> None:
        """The request is here: or what httptools takes for it, where another protocol was offered."""
        if not self._is_declining:
            super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """The parser has stopped: because of us, or because that is no HTTP."""
        self._stop_timer()
        if self._is_too_large:
            self._refuse()
        else:
            super().send_400_response(msg)

    def _refuse(self) -> None:
        self.transport.write(_TOO_LARGE)
        self.transport.close()

    def _start_timer(self, seconds: float) -> None:
        self._stop_timer()
        self._head_timer = self.loop.call_later(seconds, self.transport.close)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


def bounded(max_bytes: int, timeout: float) -> type[BoundedProtocol]:
    """The protocol with these limits."""
    return type("Bounded", (BoundedProtocol,), {"max_head_bytes": max_bytes, "head_timeout": timeout})


__all__ = ["BoundedProtocol", "bounded"]
