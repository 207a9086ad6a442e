"""One request and its answer over an open connection: HTTP/1.1 by h11, unpacked as it comes and never past the cap.

A body is counted twice, packed and unpacked, and reading stops with the first byte too many: a gzip bomb costs the cap, not what
it claims. An end before the announced end is an error, not a short document.

Must never know addresses, redirects or time; whoever calls sets the deadline. Above: `_fetcher`. Below: h11, zlib.
"""

import asyncio
import zlib
from collections.abc import Mapping, Sequence

import h11
import msgspec

from procontext.fetch._failures import FetchError
from procontext.fetch._network import Streams
from procontext.fetch._urls import Target

# As large as one read; the socket seldom has more.
CHUNK = 64 * 1024

# h11's own default (16 KiB) is less than the cookies and policies that documentation hosts send.
MAX_HEADER_BYTES = 64 * 1024

# Whose body is read. For others the status and headers say all, and the connection is closed unread.
STATUS_WITH_BODY = 200


class Answer(msgspec.Struct, frozen=True):
    """What the host said. The names of headers are lower case; of a name that came twice the first counts."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""


class Unpacker:
    """Undoes one Content-Encoding, in pieces, with a bound on what comes out."""

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
            raise FetchError(
                "failed", url, f"the host packed it as {encoding[:40]!r}, which was not asked for"
            )

    def feed(self, data: bytes) -> None:
        """The next bytes as they arrived.

        Raises: FetchError when they are too many or not what they claim to be.
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
            raise FetchError("failed", self._url, f"the packed body is broken: {error}") from error

    def _unpack(self, decoder: "zlib._Decompress", data: bytes) -> None:
        if self._is_first and self._encoding == "deflate" and data and data[0] & 0x0F != 8:
            # RFC 9110 8.4.1.2: deflate means zlib, but some send it bare.
            decoder = self._decoder = zlib.decompressobj(-zlib.MAX_WBITS)
        self._is_first = self._is_first and not data
        while data:
            self._keep(decoder.decompress(data, self._max_bytes - self._size + 1))
            data = decoder.unconsumed_tail
            if decoder.eof:
                data = decoder.unused_data
                if not data.strip(b"\0") or not self._encoding.endswith("gzip"):
                    return  # nothing, or padding
                decoder = self._decoder = zlib.decompressobj(16 + zlib.MAX_WBITS)  # the next member

    def _keep(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > self._max_bytes:
            raise self._too_large()
        self._unpacked.append(data)

    def finish(self) -> bytes:
        """The whole, after the last piece.

        Raises: FetchError when it ended too early.
        """
        if self._decoder is not None and not self._decoder.eof and self._packed:
            raise FetchError("failed", self._url, "the packed body was cut short")
        return b"".join(self._unpacked)

    def _too_large(self) -> FetchError:
        return FetchError("failed", self._url, f"it is larger than {self._max_bytes} bytes")


async def exchange(
    streams: Streams,
    target: Target,
    headers: Sequence[tuple[str, str]],
    max_bytes: int,
    *,
    in_full: bool = False,
) -> Answer:
    """Ask for `target` and read the answer; `in_full` writes the whole address, as a proxy wants it.

    Raises: FetchError, OSError.
    """
    reader, writer = streams
    machine = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEADER_BYTES)
    request = h11.Request(
        method="GET",
        target=target.url if in_full else target.path,
        headers=[("Host", target.authority), *headers, ("Connection", "close")],
    )
    try:
        writer.write((machine.send(request) or b"") + (machine.send(h11.EndOfMessage()) or b""))
        await writer.drain()
        answer = await _read_head(reader, machine)
        if answer.status != STATUS_WITH_BODY:
            return answer
        unpacker = Unpacker(target.url, answer.headers.get("content-encoding", ""), max_bytes)
        _refuse_announced(answer, target.url, max_bytes)
        while isinstance(event := await _next_event(reader, machine), h11.Data):
            unpacker.feed(bytes(event.data))
        return Answer(answer.status, answer.headers, unpacker.finish())  # what follows the data is its end
    except h11.RemoteProtocolError as error:
        said = "the answer was cut short" if machine.trailing_data[1] else f"it is no HTTP: {error}"
        raise FetchError("failed", target.url, said) from error


def _refuse_announced(answer: Answer, url: str, max_bytes: int) -> None:
    """What says itself that it is too large is not read at all."""
    announced = answer.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > max_bytes:
        raise FetchError("failed", url, f"it is larger than {max_bytes} bytes")


async def _read_head(reader: asyncio.StreamReader, machine: h11.Connection) -> Answer:
    while True:
        event = await _next_event(reader, machine)
        if isinstance(event, h11.Response):
            headers: dict[str, str] = {}
            for name, value in event.headers:
                headers.setdefault(name.decode("ascii"), value.decode("latin-1"))
            return Answer(event.status_code, headers)


async def _next_event(reader: asyncio.StreamReader, machine: h11.Connection) -> h11.Event:
    """What the host said next. h11 raises when it ends where it may not."""
    while True:
        event = machine.next_event()
        if isinstance(event, h11.Event):
            return event
        machine.receive_data(await reader.read(CHUNK))


__all__ = ["Answer", "Unpacker", "exchange"]
