# Invariant: any bytes are a response or an error, the same byte by byte, and nothing is raised.
"""The response to a request of the HTTP client, with its compressed body."""

from collections.abc import Iterator
from typing import Any

from jackstay.errors import OutcomeUnknownError
from jackstay.transport.http._http1 import Http1Connection, Http1Response, inflater_for

OK = b"HTTP/1.1 200 OK\r\n"
CORPUS = [
    OK + b"Content-Type: application/json\r\nContent-Length: 2\r\nKeep-Alive: timeout=5\r\n\r\n{}",
    OK + b"Transfer-Encoding: chunked\r\n\r\n2;a=b\r\n{}\r\n0\r\nConnection: close\r\n\r\n",
    OK + b"Transfer-Encoding: chunked\r\n\r\n2 \r\n{}\r\n0\r\nA: b\r\n\r\n" + OK,
    OK + b"Connection: close\r\n\r\n{}",
    OK + b"Content-Encoding: gzip\r\nContent-Length: 20\r\n\r\n\x1f\x8b\x08\0\0\0\0\0\x02\xff\x03\0\0\0\0\0\0\0\0\0",
    b"HTTP/1.1 103 Early\r\nLink: a\r\n\r\nHTTP/1.1 204 No Content\nA: b\n\n",
    b"HTTP/1.1 101 Switch\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\nxx",
    b"HTTP/1.0 404 X\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
    b"SSH-2.0-OpenSSH_9.6\r\n",
]


class Loop:
    """What a connection needs of an event loop: futures, here one that is never waited for to the end."""

    def create_future(self) -> "Loop":
        return self

    def done(self) -> bool:
        return True

    def __await__(self) -> Iterator[None]:
        yield


class Wire:
    """A transport that only records its end."""

    was_aborted = False

    def write(self, data: bytes) -> None: ...

    def abort(self) -> None:
        self.was_aborted = True

    def is_closing(self) -> bool:
        return self.was_aborted

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


def received(parts: list[bytes]) -> tuple[object, ...]:
    """Return what the response and its connection are after these reads and the end of the connection."""
    idle: list[Http1Connection] = []
    loop: Any = Loop()
    connection = Http1Connection(loop, idle.append, lambda _: None)
    wire: Any = Wire()
    connection.transport = wire
    requesting = connection.request("POST", b"head", b"")
    requesting.send(None)
    response = connection._response
    assert isinstance(response, Http1Response)
    for part in parts:
        if wire.was_aborted or idle:
            break
        connection.data_received(part)
    assert not (wire.was_aborted and idle)
    if not response.is_complete:
        connection.connection_lost(None)
    requesting.close()
    if not response.is_complete:
        assert response.failure is not None
        return response.status, False
    return response.status, bool(idle), response.headers, _body(response)


def _body(response: Http1Response) -> bytes | None:
    body = b"".join(response._parts)
    try:
        inflater = inflater_for(response.headers.get("content-encoding", "identity"))
        if inflater is None:
            return body
        inflated = b"".join(inflater.feed(body))
        inflater.end()
    except OutcomeUnknownError:
        return None
    return inflated


def fuzz(data: bytes) -> None:
    whole = received([data])
    parts = received([data[place : place + 1] for place in range(len(data))])
    # What follows the response is noticed only if it arrives with it; a later read finds the connection idle.
    assert parts[1] or not whole[1]
    assert (whole[0], *whole[2:]) == (parts[0], *parts[2:])
