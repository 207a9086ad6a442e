"""One HTTP/1.1 request and its response over an open connection, with h11.

The size limit applies to the compressed and to the decompressed body, and reading stops at the limit, so that a gzip
bomb has no effect. A truncated body is an error. The caller sets the deadline.
"""

import asyncio
import zlib
from collections.abc import Mapping, Sequence

import h11
import msgspec

from procontext.fetch._failures import FetchError
from procontext.fetch._network import Streams
from procontext.fetch._urls import Target

CHUNK = 64 * 1024

# The default of h11 (16 KiB) is too small for the cookies and policies of some documentation hosts.
MAX_HEADER_BYTES = 64 * 1024

# The only status whose body is read; otherwise the connection is closed after the headers.
STATUS_WITH_BODY = 200


class Response(msgspec.Struct, frozen=True):
    """An HTTP response. Header names are lower case; of a repeated header the first value counts."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""


class Decompressor:
    """Decodes one Content-Encoding incrementally, with a limit on the output."""

    def __init__(self, url: str, encoding: str, max_bytes: int) -> None:
        self._url = url
        self._max_bytes = max_bytes
        self._packed = 0
        self._unpacked: list[bytes] = []
        self._size = 0
        self._decoder: zlib._Decompress | None = None
        self._is_first = True
        self._encoding = encoding.strip().lower()
        if self._encoding in ("gzip", "x-gzip"):
            self._decoder = zlib.decompressobj(16 + zlib.MAX_WBITS)
        elif self._encoding == "deflate":
            self._decoder = zlib.decompressobj()
        elif self._encoding not in ("", "identity"):
            raise FetchError("failed", url, f"unsupported Content-Encoding {encoding[:40]!r}")

    def feed(self, data: bytes) -> None:
        """Decode the next bytes.

        Raises: FetchError if the body is too large or invalid.
        """
        self._packed += len(data)
        if self._packed > self._max_bytes:
            raise self._too_large()
        if self._decoder is None:
            self._keep(data)
            return
        try:
            self._unpack(self._decoder, data)
        except zlib.error as error:
            raise FetchError("failed", self._url, f"the compressed body is invalid: {error}") from error

    def _unpack(self, decoder: "zlib._Decompress", data: bytes) -> None:
        if self._is_first and self._encoding == "deflate" and data and data[0] & 0x0F != 8:
            # RFC 9110, 8.4.1.2: "deflate" is the zlib format, but some servers send raw deflate.
            decoder = self._decoder = zlib.decompressobj(-zlib.MAX_WBITS)
        self._is_first = self._is_first and not data
        while data:
            self._keep(decoder.decompress(data, self._max_bytes - self._size + 1))
            data = decoder.unconsumed_tail
            if decoder.eof:
                data = decoder.unused_data
                if not data.strip(b"\0") or not self._encoding.endswith("gzip"):
                    return  # end of the data, or padding
                decoder = self._decoder = zlib.decompressobj(16 + zlib.MAX_WBITS)  # the next member

    def _keep(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > self._max_bytes:
            raise self._too_large()
        self._unpacked.append(data)

    def finish(self) -> bytes:
        """Return the decoded body after the last piece.

        Raises: FetchError if the body is truncated.
        """
        if self._decoder is not None and not self._decoder.eof and self._packed:
            raise FetchError("failed", self._url, "the compressed body is truncated")
        return b"".join(self._unpacked)

    def _too_large(self) -> FetchError:
        return _too_large(self._url, self._max_bytes)


async def exchange(
    streams: Streams,
    target: Target,
    headers: Sequence[tuple[str, str]],
    max_bytes: int,
    *,
    absolute_form: bool = False,
) -> Response:
    """Send a GET request for `target` and return the response; `absolute_form` is for a proxy (RFC 9112, 3.2.2).

    Raises: FetchError, OSError.
    """
    reader, writer = streams
    machine = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEADER_BYTES)
    request = h11.Request(
        method="GET",
        target=target.url if absolute_form else target.path,
        headers=[("Host", target.authority), *headers, ("Connection", "close")],
    )
    try:
        writer.write((machine.send(request) or b"") + (machine.send(h11.EndOfMessage()) or b""))
        await writer.drain()
        response = await _read_head(reader, machine)
        if response.status != STATUS_WITH_BODY:
            return response
        decompressor = Decompressor(target.url, response.headers.get("content-encoding", ""), max_bytes)
        _check_content_length(response, target.url, max_bytes)
        while isinstance(event := await _next_event(reader, machine), h11.Data):
            decompressor.feed(bytes(event.data))
        return Response(response.status, response.headers, decompressor.finish())
    except h11.RemoteProtocolError as error:
        problem = "the response is truncated" if machine.trailing_data[1] else f"invalid HTTP response: {error}"
        raise FetchError("failed", target.url, problem) from error


def _check_content_length(response: Response, url: str, max_bytes: int) -> None:
    """Reject a body that is announced as too large before reading it."""
    length = response.headers.get("content-length", "")
    if length.isdecimal() and int(length) > max_bytes:
        raise _too_large(url, max_bytes)


def _too_large(url: str, max_bytes: int) -> FetchError:
    detail = f"the document is larger than {max_bytes} bytes (fetcher.max_bytes)"
    return FetchError(
        "failed", url, detail, "Trying again does not help. Read another page, or answer without this one."
    )


async def _read_head(reader: asyncio.StreamReader, machine: h11.Connection) -> Response:
    while True:
        event = await _next_event(reader, machine)
        if isinstance(event, h11.Response):
            headers: dict[str, str] = {}
            for name, value in event.headers:
                headers.setdefault(name.decode("ascii"), value.decode("latin-1"))
            return Response(event.status_code, headers)


async def _next_event(reader: asyncio.StreamReader, machine: h11.Connection) -> h11.Event:
    """Return the next event. h11 raises RemoteProtocolError at an unexpected end."""
    while True:
        event = machine.next_event()
        if isinstance(event, h11.Event):
            return event
        machine.receive_data(await reader.read(CHUNK))


__all__ = ["Decompressor", "Response", "exchange"]
