"""An HTTP/1.1 connection of the client, on the parser of httptools (llhttp): one request at a time, with its response.

A failure before the head of the response is raised by `request()`, a later one by `chunks()`. Both leave the outcome
unknown, because the request was written. A connection is used again only after a complete response that followed a
completely written request.
"""

import asyncio
import os
import re
import select
import ssl
import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Final, cast

import httptools

from jackstay.errors import Json, OutcomeUnknownError
from jackstay.protocol.http import fold_headers
from jackstay.transport.http._reading import MAX_QUOTE_CHARS, quote

# The head of a response, with the interim responses before it: enough for the largest session id, event id and
# challenge that are accepted, together. Also what a server may send between two parts of a body, and as trailers.
MAX_HEADER_BYTES: Final = 65_536

# A larger body is written in pieces of this size: encrypting it at once would block the event loop.
LARGE_BODY: Final = 524_288

# Reading pauses while this much of a body waits for its reader.
MAX_BUFFERED: Final = 262_144
# What a part of a body costs beside its bytes, so that many small parts count as what they are.
_PART_COST: Final = 64

# The most that one step of decompression returns, and takes: an empty gzip file has 20 bytes, and each costs a copy of
# what follows it.
_MAX_INFLATED: Final = 262_144
_MAX_DEFLATED: Final = 16_384

# Encodings that were not offered. Other values, such as `utf-8`, are not encodings, and servers send them.
_UNSUPPORTED: Final = frozenset(("br", "compress", "dcb", "dcz", "zstd", "x-compress"))


class Http1Response:
    """A response. Its head has arrived when `request()` returns it."""

    __slots__ = (
        "_connection",
        "_headers",
        "_parts",
        "_size",
        "_waiter",
        "failure",
        "is_complete",
        "other_protocol",
        "raw",
        "status",
    )

    def __init__(self, connection: "Http1Connection") -> None:
        self._connection = connection
        self._headers: dict[str, str] | None = None
        self._parts: list[bytes] = []
        self._size = 0
        self._waiter: asyncio.Future[None] | None = None
        self.status = 0  # until the head has arrived
        self.raw: list[tuple[bytes, bytes]] = []
        self.is_complete = False
        # Why the response ended early; empty: without a reason.
        self.failure: str | None = None
        # What was received in place of a response.
        self.other_protocol = b""

    @property
    def headers(self) -> Mapping[str, str]:
        """See `HttpResponse.headers`."""
        if self._headers is None:
            self._headers = fold_headers(self.raw)
        return self._headers

    async def chunks(self) -> AsyncIterator[bytes]:
        """See `HttpResponse.chunks`."""
        encoding = self.headers.get("content-encoding")
        inflater = None if encoding is None else inflater_for(encoding)
        while parts := self._parts or await self._more():
            data = b"".join(parts)
            self._consumed()
            if inflater is None:
                yield data
                continue
            is_next = False
            for inflated in inflater.feed(data):
                if is_next:
                    await asyncio.sleep(0)  # a small body can become a large one: other tasks run meanwhile
                is_next = True
                yield inflated
        if inflater is not None:
            inflater.end()

    async def _more(self) -> list[bytes]:
        """Wait for a part of the body; an empty list is its end. Raises: OutcomeUnknownError."""
        while not self._parts:
            if self.is_complete:
                break
            if self.failure is not None:
                raise incomplete(self.failure)
            await self.wait()
        return self._parts

    def _consumed(self) -> None:
        self._parts = []
        self._size = 0
        if not self.is_complete:
            self._connection.resume_reading()

    def add(self, data: bytes) -> bool:
        """Add a part of the body. Return whether enough is buffered."""
        self._parts.append(data)
        self._size += len(data) + _PART_COST
        return self._size > MAX_BUFFERED

    async def wait(self) -> None:
        """Wait for `wake()`: a head, a part, the end, a failure, or room in the write buffer."""
        self._waiter = self._connection.loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def wake(self) -> None:
        """Let the waiting task continue."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def close(self) -> None:
        """See `HttpResponse.close`."""
        self._connection.abandon(self)


class Http1Connection(asyncio.Protocol):
    """A connection to a server or a proxy. `on_idle` and `on_lost` are called with it."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        on_idle: Callable[["Http1Connection"], None],
        on_lost: Callable[["Http1Connection"], None],
    ) -> None:
        self.loop = loop
        self.key = ""
        # How long it may be idle according to the server, and until when it is kept.
        self.idle_timeout: float | None = None
        self.idle_until = 0.0
        self.is_lost = False
        # What was received before the first request.
        self.greeting = b""
        self._on_idle = on_idle
        self._on_lost = on_lost
        self._response: Http1Response | None = None
        self._is_reading = True
        self._is_full = False
        self._is_written = True
        self._method = ""
        self._is_interim = self._is_done = self._is_kept = False
        # Bytes read since the request, or since the last part of the body.
        self._unparsed = 0
        # Why this side ends the connection.
        self._problem: str | None = None
        self.reset_parser()

    def reset_parser(self) -> None:
        """Parse from the beginning: also what follows the response to CONNECT."""
        self._response = None
        self._parser = httptools.HttpResponseParser(self)
        # As many servers as possible: line ends without CR, and spaces after the size of a chunk. Both are unambiguous.
        self._parser.set_dangerous_leniencies(lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True)

    # --- the connection -----------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection can be used."""
        self.transport = cast("asyncio.Transport", transport)
        self._is_readable = readable(transport.get_extra_info("socket").fileno())

    def connection_lost(self, exc: Exception | None) -> None:
        """End the response, if one is pending. The end of the connection can be the end of its body."""
        self.is_lost = True
        response, self._response = self._response, None
        if response is not None:
            if response.status and exc is None and self._problem is None and _ends_with_connection(response):
                response.is_complete = True
            else:
                response.failure = self._problem or ("" if exc is None else describe_error(exc))
            response.wake()
        self._on_lost(self)

    def pause_writing(self) -> None:
        """The write buffer is full."""
        self._is_full = True

    def resume_writing(self) -> None:
        """There is room in the write buffer."""
        self._is_full = False
        if self._response is not None:
            self._response.wake()

    def resume_reading(self) -> None:
        """Read again: the buffered parts were consumed."""
        if not self._is_reading and not self.transport.is_closing():
            self._is_reading = True
            self.transport.resume_reading()

    def is_usable(self) -> bool:
        """Return whether this idle connection is open, also if the event loop has not read its end yet."""
        return not self.transport.is_closing() and not self._is_readable()

    def abort(self) -> None:
        """Close the connection at once. That is not the end of a body."""
        self._problem = self._problem or "the client closed it"
        self.transport.abort()

    def abandon(self, response: Http1Response) -> None:
        """Close the connection if it is still used for this response."""
        if self._response is response:
            self.abort()

    # --- a request ----------------------------------------------------------------------------------------------------

    async def request(self, method: str, head: bytes, body: bytes) -> Http1Response:
        """Write a request and return its response when the head has arrived. Cancelling closes the connection.

        Raises: OutcomeUnknownError.
        """
        response = self._response = Http1Response(self)
        self._method = method
        self._is_interim = self._is_done = False
        self._unparsed = 0
        try:
            if len(body) <= LARGE_BODY:
                self.transport.write(head + body)
            else:
                await self._write_large(response, head, body)
            while not response.status and response.failure is None:
                await response.wait()
        except BaseException:
            self.abandon(response)
            raise
        if not response.status:
            details: dict[str, Json] = {"quote": quote(response.other_protocol)} if response.other_protocol else {}
            reason = response.failure or "the server closed it"
            raise OutcomeUnknownError(f"the connection was lost: {reason}", details=details)
        return response

    async def _write_large(self, response: Http1Response, head: bytes, body: bytes) -> None:
        """Write in pieces. After an early response the rest is written at once: the server may still read it."""
        rest = memoryview(body)
        self._is_written = False
        self.transport.write(head)
        while rest and response.failure is None and not response.is_complete:
            size = len(rest) if response.status else LARGE_BODY
            self.transport.write(rest[:size])
            rest = rest[size:]
            while self._is_full and not response.status and response.failure is None:
                await response.wait()
        self._is_written = True

    def data_received(self, data: bytes) -> None:
        """Parse a part of the response."""
        response = self._response
        if response is None:
            self.greeting = self.greeting or data[:MAX_QUOTE_CHARS]
            self.abort()  # nothing was requested
            return
        self._unparsed += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._is_kept = False
            if not self._is_done and self._problem is None:
                reason = "it switches protocols" if isinstance(error, httptools.HttpParserUpgrade) else str(error)
                if self._unparsed == len(data) and not data.startswith(b"HTTP/"):
                    response.other_protocol = data[:MAX_QUOTE_CHARS]
                    reason = f"not HTTP: {quote(response.other_protocol)}"
                self._problem = f"invalid response ({reason})"
        if self._is_done:
            self._finish(response)
        elif self._problem is not None:
            self.abort()
        elif self._unparsed > MAX_HEADER_BYTES:
            self._problem = _TOO_LARGE
            self.abort()

    def _finish(self, response: Http1Response) -> None:
        """The response is complete: keep the connection for the next request, or close it."""
        response.is_complete = True
        response.wake()
        if self._method == "CONNECT":
            return
        self._response = None
        is_sent = self._is_written and not self.transport.get_write_buffer_size()
        if self._is_kept and is_sent and not self.transport.is_closing():
            self.idle_timeout = keep_alive_timeout(response.headers.get("keep-alive"))
            self.resume_reading()
            self._on_idle(self)
        else:
            self.abort()

    # --- called by the parser -----------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """A response begins. After the response to the request it is one that was not requested."""
        if self._is_done:
            self._is_kept = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header was parsed; a trailer is dropped (RFC 9110, section 6.5.1)."""
        response = self._response
        if response is not None and not response.status:
            response.raw.append((name, value))

    def on_headers_complete(self) -> None:
        """The head is complete, or that of an interim response, which is dropped (RFC 9110, section 15.2)."""
        response = self._response
        if response is None or self._is_done:
            return
        status = self._parser.get_status_code()
        if status < 200:
            self._is_interim = True
            response.raw.clear()
            if status < 100 or status == 101:
                self._problem = f"invalid response (status {status})"
            return
        # What was read may contain a part of the body.
        if self._unparsed > MAX_HEADER_BYTES:
            size = sum(len(name) + len(value) + 4 for name, value in response.raw)
            if size > MAX_HEADER_BYTES:
                self._problem = _TOO_LARGE
                return
        self._is_kept = self._parser.should_keep_alive()
        if self._method == "HEAD":
            self._is_done, self._is_kept = True, False
        response.status = status
        response.wake()

    def on_body(self, data: bytes) -> None:
        """A part of the body was parsed."""
        response = self._response
        if response is not None and not self._is_done:
            self._unparsed = 0
            is_enough = response.add(data)
            response.wake()
            if is_enough and self._is_reading and not self.transport.is_closing():
                self._is_reading = False
                self.transport.pause_reading()

    def on_message_complete(self) -> None:
        """The response is complete."""
        if self._is_interim:
            self._is_interim = False
        elif self._problem is None and not self._is_done:
            self._is_done = True
            # Again: for the parser, a trailer can end the connection, too.
            self._is_kept = self._is_kept and self._parser.should_keep_alive()


_TOO_LARGE = f"invalid response (its headers exceed {MAX_HEADER_BYTES} bytes)"


def inflater_for(encoding: str) -> "Inflater | None":
    """Return what decompresses a body with this `Content-Encoding`; None if it is not compressed.

    Raises: OutcomeUnknownError for an encoding that was not offered.
    """
    codings = [coding.strip(" \t") for coding in encoding.lower().split(",")]
    if codings in (["gzip"], ["x-gzip"], ["deflate"]):
        return Inflater()
    if len(codings) > 1 or codings[0] in _UNSUPPORTED:
        raise incomplete(f"the encoding {encoding[:80]!a} is not supported")
    return None


class Inflater:
    """Decompresses a body in steps of bounded size."""

    def __init__(self) -> None:
        self._inflate = _inflate()
        self._was_fed = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Iterate over what these bytes contain. Raises: OutcomeUnknownError."""
        for place in range(0, len(data), _MAX_DEFLATED):
            yield from self._feed(data[place : place + _MAX_DEFLATED])

    def _feed(self, data: bytes) -> Iterator[bytes]:
        self._was_fed = True
        inflated = b""
        # A full step may leave output behind, even if it has consumed all input.
        while data or len(inflated) == _MAX_INFLATED:
            if data and self._inflate.eof:  # the next member of a gzip file (RFC 1952, section 2.2)
                self._inflate = _inflate()
            try:
                inflated = self._inflate.decompress(data, _MAX_INFLATED)
            except zlib.error as error:
                raise incomplete("the body cannot be decompressed") from error
            data = self._inflate.unconsumed_tail or self._inflate.unused_data
            if inflated:
                yield inflated

    def end(self) -> None:
        """The body ends here. Raises: OutcomeUnknownError if it is not complete."""
        if self._was_fed and not self._inflate.eof:
            raise incomplete("the compressed body is truncated")


def _inflate() -> "zlib._Decompress":
    return zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)  # gzip or zlib, by its header


def readable(number: int) -> Callable[[], object]:
    """Return a function that returns whether the socket with this number has something to read, or its end."""
    if not hasattr(select, "poll"):  # Windows
        return lambda: select.select([number], [], [], 0)[0]
    poll = select.poll()
    poll.register(number, select.POLLIN)
    return lambda: poll.poll(0)


def keep_alive_timeout(header: str | None) -> float | None:
    """Return the seconds after which the server closes an idle connection, if it sends them (`timeout=5, max=100`)."""
    found = None if header is None else _KEEP_ALIVE.search(header)
    return None if found is None else float(found[1])


_KEEP_ALIVE = re.compile(r"(?:^|[,; \t])timeout=([0-9]{1,9})(?![0-9.])", re.IGNORECASE | re.ASCII)


def incomplete(reason: str) -> OutcomeUnknownError:
    """Return the error of a response without its end."""
    return OutcomeUnknownError("the response is incomplete" + (reason and f": {reason}"))


def describe_error(error: BaseException) -> str:
    """Return the reason of an OSError, without the address that asyncio adds."""
    if isinstance(error, ssl.SSLError):  # its numbers are those of OpenSSL
        return str(error.strerror or error)
    number = getattr(error, "errno", None)
    return os.strerror(number) if number else str(error) or type(error).__name__


def _ends_with_connection(response: Http1Response) -> bool:
    """Return whether neither a length nor chunks delimit the body (RFC 9112, section 6.3)."""
    return "content-length" not in response.headers and "transfer-encoding" not in response.headers
