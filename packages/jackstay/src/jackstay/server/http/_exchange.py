"""One HTTP/1.1 request and its response: an `HttpRequest` for our own app, and ASGI (HTTP 2.3) for any other.

The response is framed by its Content-Length or in chunks, and for HTTP/1.0 by the end of the connection. A head with a
Content-Length is written together with the first part of the body; any other head at once, because a stream may be
silent for long.
"""

import asyncio
import logging
import re
import time
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from jackstay.server._parked_task import NOT_STARTED, ParkedTask
from jackstay.server.http._asgi import AsgiMessage, HeaderLines, Scope, respond

if TYPE_CHECKING:
    from jackstay.server.http._http1 import Http1Connection

logger = logging.getLogger("jackstay.server.http")
access_logger = logging.getLogger("jackstay.server.http.access")

# Bytes of a body that are kept until the app reads them. Above it nothing is read from the connection.
MAX_UNREAD_BYTES: Final = 65_536

# A body up to this size is copied behind its head, which is cheaper than a second write.
MAX_JOINED_BYTES: Final = 65_536

_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_INTERNAL_ERROR: Final = b"Internal Server Error"
_ASGI: Final = {"version": "3.0", "spec_version": "2.3"}

_NAME: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")  # a token, RFC 9110 section 5.6.2


@lru_cache(maxsize=256)
def _name_prefix(name: bytes) -> bytes:
    """Return the start of a header line. Raises: RuntimeError for an invalid name."""
    if _NAME.fullmatch(name) is None:
        raise RuntimeError(f"invalid name of a response header: {name!r}")
    return name.lower() + b": "


@lru_cache(maxsize=256)
def _status_line(status: int) -> bytes:
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = ""
    return f"HTTP/1.1 {status} {phrase}\r\n".encode("ascii")


@lru_cache(maxsize=1)
def _date_line(second: int) -> bytes:
    return b"date: " + formatdate(second, usegmt=True).encode("ascii") + b"\r\n"


def encode_lines(headers: HeaderLines) -> bytes:
    """Return header lines as they are written. Raises: RuntimeError for an invalid header."""
    lines = b"".join([_name_prefix(name) + value + b"\r\n" for name, value in headers])
    # A value with a line end would be another header (RFC 9110 section 5.5).
    if lines.count(b"\n") != len(headers) or lines.count(b"\r") != len(headers) or b"\0" in lines:
        raise RuntimeError("invalid value of a response header")
    return lines


class _ConstantHead:
    """The start of the last response head whose headers are constant: most responses of a second have the same."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        # One value, because servers of several threads share it.
        self._last: tuple[int, int, HeaderLines, bytes] = (0, 0, (), b"")

    def encode(self, status: int, headers: HeaderLines) -> bytes:
        """As `encode_head`; `headers` must be the same object for the same headers."""
        second = int(time.time())
        at, last_status, last_headers, head = self._last
        if second != at or headers is not last_headers or status != last_status:
            head = encode_head(status, headers)
            self._last = second, status, headers, head
        return head


_constant_head = _ConstantHead()


def encode_head(status: int, headers: HeaderLines) -> bytes:
    """Return a response head with a date, without its last empty line. Raises: RuntimeError for an invalid header."""
    return _status_line(status) + _date_line(int(time.time())) + encode_lines(headers)


class Exchange:
    """A request, whose body may still arrive, and its response. `start()` runs the app."""

    __slots__ = (
        "_body",
        "_connection",
        "_content_left",
        "_head",
        "_http_version",
        "_is_body_read",
        "_is_chunked",
        "_is_without_body",
        "_more_headers",
        "_scope",
        "_unread",
        "_url",
        "is_body_complete",
        "is_complete",
        "is_continue_expected",
        "is_disconnected",
        "is_started",
        "keep_alive",
        "lines",
        "method",
        "path",
        "peer",
        "query",
        "task",
        "wakeup",
    )

    root_path = ""

    def __init__(
        self,
        connection: "Http1Connection",
        method: str,
        url: tuple[str, bytes, bytes],
        lines: HeaderLines,
        http_version: str,
    ) -> None:
        self._connection = connection
        self.method = method
        self._url = url
        self.path, _, self.query = url
        self.lines = lines
        self._http_version = http_version
        self.peer = connection.peer
        # HTTP/1.1 has these; the connection sets them.
        self.keep_alive = self.is_continue_expected = False
        self.task: asyncio.Task[object] | None = None
        self.is_disconnected = False
        # Made when the app waits.
        self.wakeup: asyncio.Event | None = None
        # The request.
        self._body: list[bytes] = []
        self._unread = 0
        self.is_body_complete = self._is_body_read = False
        # The response. `_content_left` is None without a Content-Length.
        self._head = b""
        self.is_started = self.is_complete = False
        self._is_chunked = self._is_without_body = False
        self._content_left: int | None = None
        self._more_headers: HeaderLines = ()
        self._scope: Scope | None = None

    def __repr__(self) -> str:
        state = "complete" if self.is_complete else "started" if self.is_started else "waiting"
        return f"<Exchange {self.method} {self.path} {state}>"

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop of the connection."""
        return self._connection.loop

    def make_scope(self) -> Scope:
        """Return the scope of the request for an ASGI app."""
        connection = self._connection
        self._scope = {
            "type": "http",
            "asgi": _ASGI,
            "http_version": self._http_version,
            "method": self.method,
            "scheme": connection.scheme,
            "path": self.path,
            "raw_path": self._url[1],
            "query_string": self.query,
            "root_path": self.root_path,
            "headers": self.lines,
            "client": connection.client,
            "server": connection.address,
        }
        return self._scope

    def start(self) -> None:
        """Run the app: its first step at once, and the rest, if there is one, in a task."""
        connection = self._connection
        server, work = connection.server, self._run()
        server.exchanges.add(self)
        parked = server.parked
        step = NOT_STARTED if parked is None else parked.start(work)
        if isinstance(step, bytes | BaseException):
            return  # it has ended
        if parked is None or step is NOT_STARTED:
            if parked is None or parked.is_spent:
                server.parked = ParkedTask(connection.loop)
            self.task = connection.loop.create_task(work)
        else:
            server.parked = None
            self.task = parked.task
            parked.assign(parked.remaining_steps(step))

    async def _run(self) -> bytes:
        connection = self._connection
        try:
            await connection.server.handle(self)
            if not (self.is_complete or self.is_disconnected):
                await self._end_incomplete()
        except Exception:  # an app may raise anything
            logger.exception("unhandled exception in the ASGI app")
            if not (self.is_complete or self.is_disconnected):
                await self._end_incomplete()
        except asyncio.CancelledError:
            connection.transport.abort()
            raise
        finally:
            connection.server.exchanges.discard(self)
        return b"ended"

    async def _end_incomplete(self) -> None:
        """End a response that the app did not complete, so that the client does not take it for a complete one."""
        if not self.is_started:
            fields = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
            await self.respond(500, fields, _INTERNAL_ERROR)
        else:
            self._connection.transport.close()

    # --- the request --------------------------------------------------------------------------------------------------

    def add_body(self, part: bytes) -> None:
        """Add a part of the body."""
        if self.is_complete:
            return  # the app has responded without reading it
        self._body.append(part)
        self._unread += len(part)
        if self._unread > MAX_UNREAD_BYTES:
            self._connection.pause_reading()
        if self.wakeup is not None:
            self.wakeup.set()

    def disconnect(self) -> None:
        """The client cannot receive the response any more."""
        self.is_disconnected = True
        if self.wakeup is not None:
            self.wakeup.set()

    def take_body(self) -> bytes | None:
        """Return the body if it has arrived completely and was not read, else None."""
        if not self.is_body_complete or self._is_body_read or self.is_disconnected:
            return None
        self._is_body_read = True
        body, self._body = self._body, []
        return body[0] if len(body) == 1 else b"".join(body)

    async def receive(self) -> AsgiMessage:
        """Return the next part of the body, or that the client has disconnected: a callable of ASGI."""
        if self.is_continue_expected:
            self.is_continue_expected = False
            if not (self.is_started or self._body or self.is_body_complete or self.is_disconnected):
                self._connection.transport.write(_CONTINUE)
        while not (self.is_disconnected or self.is_complete):
            if self._body or (self.is_body_complete and not self._is_body_read):
                body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
                self._body, self._unread = [], 0
                self._is_body_read = self.is_body_complete
                return {"type": "http.request", "body": body, "more_body": not self.is_body_complete}
            self._connection.resume_reading()
            if self.wakeup is None:
                self.wakeup = asyncio.Event()
            self.wakeup.clear()
            await self.wakeup.wait()
        return {"type": "http.disconnect"}

    # --- the response -------------------------------------------------------------------------------------------------

    def add_headers(self, lines: HeaderLines) -> None:
        """Add these headers to the response."""
        self._more_headers = lines

    async def respond(self, status: int, headers: HeaderLines, body: bytes = b"") -> None:
        """Write a complete response. Constant headers, given as a tuple, are encoded once."""
        connection = self._connection
        if type(headers) is not tuple or self._more_headers or status == 204 or self.method == "HEAD":
            await respond(self.send, status, headers, body)
            return
        if connection.can_write is not None:
            await connection.can_write.wait()
        if self.is_disconnected:
            return
        if self.is_started:
            raise RuntimeError("a response was started already")
        self.is_started = True
        end = b"\r\n" if self.keep_alive else b"connection: close\r\n\r\n"
        data = b"%bcontent-length: %d\r\n%b" % (_constant_head.encode(status, headers), len(body), end)
        if connection.server.has_access_log:
            self._log(status)
        if len(body) <= MAX_JOINED_BYTES:
            connection.transport.write(data + body)
        else:
            connection.transport.write(data)
            connection.transport.write(body)
        self.is_complete = True
        if self.wakeup is not None:
            self.wakeup.set()
        connection.on_response_complete(self)

    def _log(self, status: int) -> None:
        # A middleware may have replaced the address by one that a trusted proxy forwards.
        client = self._connection.client if self._scope is None else self._scope["client"]
        address = f"{client[0]}:{client[1]}" if client else ""
        access_logger.info("%s %s %s %s", address, self.method, self.path, status)

    async def send(self, message: AsgiMessage) -> None:
        """Write the start or a part of the response: a callable of ASGI. Waits while the write buffer is full."""
        connection = self._connection
        if connection.can_write is not None:
            await connection.can_write.wait()
        if self.is_disconnected:
            return
        if not self.is_started:
            if message["type"] != "http.response.start":
                raise RuntimeError(f"expected the start of the response, got {message['type']!r}")
            self._start_response(message["status"], message.get("headers") or [])
            return
        if self.is_complete or message["type"] != "http.response.body":
            raise RuntimeError(f"unexpected message {message['type']!r} of the ASGI app")
        is_last = not message.get("more_body", False)
        data = self._frame(message.get("body", b""), is_last=is_last)
        if self._head:
            head, self._head = self._head, b""
            if len(data) <= MAX_JOINED_BYTES:
                data = head + data
            else:
                connection.transport.write(head)
        if data:
            connection.transport.write(data)
        if is_last:
            self.is_complete = True
            if self.wakeup is not None:
                self.wakeup.set()
            connection.on_response_complete(self)

    def _start_response(self, status: int, headers: HeaderLines) -> None:
        headers = [*headers, *self._more_headers]
        head = encode_head(status, headers)
        has_connection = False
        for name, value in headers:
            name = name.lower()  # noqa: PLW2901
            if name == b"content-length":
                self._content_left = int(value)
            elif name == b"connection":
                has_connection = b"close" in value.lower()
                self.keep_alive = self.keep_alive and not has_connection
        # RFC 9112 section 6.3: these have no body, whatever their headers are.
        self._is_without_body = self.method == "HEAD" or status in (204, 304)
        if self._content_left is None and not self._is_without_body:
            if self._http_version == "1.0":
                self.keep_alive = False
            else:
                self._is_chunked = True
                head += b"transfer-encoding: chunked\r\n"
        head += b"\r\n" if self.keep_alive or has_connection else b"connection: close\r\n\r\n"
        self.is_started = True
        if self._connection.server.has_access_log:
            self._log(status)
        if self._content_left is None:
            self._connection.transport.write(head)
        else:
            self._head = head

    def _frame(self, body: bytes, *, is_last: bool) -> bytes:
        """Return a part of the body as it is written. Raises: RuntimeError for a body of another length."""
        if self._is_without_body:
            self._content_left = 0
            return b""
        if self._is_chunked:
            data = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            return data + b"0\r\n\r\n" if is_last else data
        if self._content_left is not None:
            self._content_left -= len(body)
            if self._content_left < 0 or (is_last and self._content_left):
                raise RuntimeError("the body of the response has another length than its Content-Length")
        return body
