"""The default HTTP client: HTTP/1.1 connections that are kept for the next request.

No cookies, no redirects, no retries, no `.netrc`, and no timeout except for connecting: calls have deadlines of their
own, and streams stay open for days. Every failure states whether the request may have reached the server.
"""

import asyncio
import binascii
import ssl
from collections.abc import Callable
from typing import Final
from urllib.parse import quote as url_quote
from urllib.parse import unquote, urlsplit

from jackstay import __version__
from jackstay.errors import TransportError
from jackstay.protocol.http import origin_of
from jackstay.transport.http._connecting import (
    AddressInfo,
    ProxyRefused,
    connect_socket,
    describe_failure,
    open_tunnel,
    resolve,
    tls_context,
)
from jackstay.transport.http._contract import Headers, HttpResponse
from jackstay.transport.http._http1 import Http1Connection
from jackstay.transport.http._reading import is_unreachable, is_untrusted, quote

# Less than the five seconds after which uvicorn and Node close an idle connection: the outcome of a request sent at
# that moment would be unknown, while a new connection costs only a round trip.
KEEP_ALIVE: Final = 4.0

# How many parsed URLs are kept.
MAX_URLS: Final = 64

# How long the addresses of a host are used for further connections.
ADDRESS_TTL: Final = 10.0

# What a target may contain; everything else is escaped. `%` is included: URLs are escaped already.
_SAFE: Final = "!#$%&'()*+,/:;=?@[]~"
_DEFAULT_PORTS = {"http": 80, "https": 443}
_DEFAULTS: Final = (("user-agent", f"jackstay/{__version__}"), ("accept-encoding", "gzip"), ("accept", "*/*"))


class Endpoint:
    """A host to connect to: the server, or a proxy."""

    __slots__ = ("_addresses", "_resolved_at", "host", "is_tls", "port")

    def __init__(self, scheme: str, host: str, port: int) -> None:
        self.host = host
        self.port = port
        self.is_tls = scheme == "https"
        self._addresses: asyncio.Task[list[AddressInfo]] | None = None
        self._resolved_at = 0.0

    async def addresses(self) -> list[AddressInfo]:
        """Return the addresses of the host. Concurrent calls share one query. Raises: OSError."""
        loop = asyncio.get_running_loop()
        task = self._addresses
        if task is None or (task.done() and loop.time() - self._resolved_at >= ADDRESS_TTL):
            task = self._addresses = loop.create_task(resolve(loop, self.host, self.port))
            task.add_done_callback(self._resolved)
        return await asyncio.shield(task)

    def _resolved(self, task: "asyncio.Task[list[AddressInfo]]") -> None:
        self._resolved_at = asyncio.get_running_loop().time()
        if task.cancelled() or task.exception() is not None:
            self._addresses = None


class Route:
    """How requests for one URL are sent. Connections with the same `key` are interchangeable."""

    __slots__ = ("endpoint", "first_line", "key", "origin", "proxy", "proxy_headers")

    def __init__(self, url: str, proxy: str | None) -> None:
        """Raises: ValueError."""
        self.endpoint, self.origin = _parse_origin(url)
        authority = self.origin.partition("://")[2]
        self.proxy: Endpoint | None = None
        self.proxy_headers = ""
        parts = urlsplit(url)
        target = url_quote(parts.path or "/", safe=_SAFE) + (parts.query and "?" + url_quote(parts.query, safe=_SAFE))
        if proxy is not None:
            self.proxy, _ = _parse_origin(proxy)
            self.proxy_headers = _proxy_authorization(proxy)
        is_forwarded = self.proxy is not None and not self.endpoint.is_tls
        self.first_line = (
            f" {self.origin if is_forwarded else ''}{target} HTTP/1.1\r\nHost: {authority}\r\n"
            f"{self.proxy_headers if is_forwarded else ''}"
        )
        self.key = f"{self.origin} {proxy or ''}"

    def head(self, method: str, headers: Headers, body: bytes | None) -> bytes:
        """Return the head of a request. Raises: ValueError."""
        lines = "".join([f"{name}: {value}\r\n" for name, value in headers])
        # A line break in a value would begin another header, or another request.
        if not lines.count("\n") == lines.count("\r") == len(headers) or "\0" in lines:
            raise ValueError("a header contains a line break")
        names = "\n" + lines.lower()
        for name, value in _DEFAULTS:
            if f"\n{name}:" not in names:
                lines += f"{name}: {value}\r\n"
        if body is not None or method == "POST":
            lines += f"content-length: {len(body or b'')}\r\n"
        return f"{method}{self.first_line}{lines}\r\n".encode("latin-1")


class Http1Client:
    """An `HttpClient` with connections of its own. Needs a running loop."""

    def __init__(
        self,
        *,
        verify: bool | ssl.SSLContext,
        proxy_of: Callable[[str], str | None],
        connect_timeout: float | None,
    ) -> None:
        self._verify = verify
        self._proxy_of = proxy_of
        self._connect_timeout = connect_timeout
        self._loop = asyncio.get_running_loop()
        # A client uses few URLs, and parsing one costs as much as sending to it.
        self._routes: dict[str, Route] = {}
        self._idle: dict[str, list[Http1Connection]] = {}
        self._open: set[Http1Connection] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._all_lost = asyncio.Event()

    async def send(self, method: str, url: str, headers: Headers, body: bytes | None) -> HttpResponse:
        """See `HttpClient.send`."""
        if self._is_closed:
            raise TransportError("the HTTP client cannot send: it is closed", permanent=True)
        route = self._routes.get(url) or self._find(url)
        try:
            head = route.head(method, headers, body)
        except ValueError as error:
            raise TransportError(f"the request has an invalid header: {error}", permanent=True) from None
        connection = self._take(route) or await self._connect(route)
        return await connection.request(method, head, body or b"")

    async def close(self) -> None:
        """See `HttpClient.close`. Returns when every socket is closed."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for connection in list(self._open):
            connection.abort()
        while self._open:
            self._all_lost.clear()
            await self._all_lost.wait()

    # --- connections --------------------------------------------------------------------------------------------------

    def _find(self, url: str) -> Route:
        try:
            route = Route(url, self._proxy_of(url))
        except ValueError as error:
            raise TransportError(f"cannot connect: {error}", permanent=True) from None
        if len(self._routes) >= MAX_URLS:
            self._routes.clear()
        self._routes[url] = route
        return route

    def _take(self, route: Route) -> Http1Connection | None:
        """Return the idle connection that was used last, if it can be used again."""
        idle = self._idle.get(route.key)
        while idle:
            connection = idle.pop()
            if self._loop.time() < connection.idle_until and connection.is_usable():
                return connection
            connection.abort()
        return None

    async def _connect(self, route: Route) -> Http1Connection:
        """Return a new connection. Raises: TransportError."""
        limit = asyncio.timeout(self._connect_timeout)
        try:
            async with limit:
                connection = await self._dial(route)
        except (OSError, ProxyRefused, ValueError) as error:
            why = "timed out while connecting (connect_timeout)" if limit.expired() else describe_failure(error)
            raise TransportError(
                f"cannot connect to {route.origin}: {why}",
                permanent=is_untrusted(error),
                absent=is_unreachable(error),
            ) from error
        if self._is_closed or connection.transport.is_closing():
            connection.abort()
            why = "the HTTP client was closed" if self._is_closed else "the server closed the connection"
            greeting = quote(connection.greeting)
            if greeting:
                why = f"not an HTTP server: it sent {greeting} before a request"
            closed = TransportError(f"cannot connect to {route.origin}: {why}", absent=bool(greeting))
            raise closed from ConnectionResetError(why)
        connection.key = route.key
        return connection

    async def _dial(self, route: Route) -> Http1Connection:
        endpoint = route.proxy or route.endpoint
        context = self._context() if endpoint.is_tls else None
        sock = await connect_socket(self._loop, await endpoint.addresses())
        _, connection = await self._loop.create_connection(
            lambda: Http1Connection(self._loop, self._keep, self._lost),
            sock=sock,
            ssl=context,
            server_hostname=_server_name(endpoint.host) if endpoint.is_tls else None,
        )
        if not connection.is_lost:
            self._open.add(connection)
        if route.proxy is not None and route.endpoint.is_tls:
            try:
                await open_tunnel(
                    connection,
                    f"{_bracketed(route.endpoint.host)}:{route.endpoint.port}",
                    route.proxy_headers,
                    self._context(),
                    _server_name(route.endpoint.host),
                )
            except BaseException:
                connection.abort()
                self._lost(connection)
                raise
        return connection

    def _context(self) -> ssl.SSLContext:
        return self._verify if isinstance(self._verify, ssl.SSLContext) else tls_context(self._verify)

    def _keep(self, connection: Http1Connection) -> None:
        """The connection is idle."""
        if self._is_closed:
            connection.abort()
            return
        # A second less than the server's, as with KEEP_ALIVE.
        limit = KEEP_ALIVE if connection.idle_timeout is None else min(KEEP_ALIVE, connection.idle_timeout - 1)
        connection.idle_until = self._loop.time() + limit
        self._idle.setdefault(connection.key, []).append(connection)
        if self._timer is None:
            self._timer = self._loop.call_later(KEEP_ALIVE, self._sweep)

    def _lost(self, connection: Http1Connection) -> None:
        """The connection is closed."""
        self._open.discard(connection)
        idle = self._idle.get(connection.key)
        if idle and connection in idle:
            idle.remove(connection)
        if not self._open:
            self._all_lost.set()

    def _sweep(self) -> None:
        """Close the connections that were idle for too long."""
        now = self._loop.time()
        times: list[float] = []
        for key, idle in list(self._idle.items()):
            kept = [connection for connection in idle if connection.idle_until > now]
            for connection in idle:
                if connection not in kept:
                    connection.abort()
            if kept:
                self._idle[key] = kept
                times += [connection.idle_until for connection in kept]
            else:
                del self._idle[key]
        self._timer = self._loop.call_at(min(times), self._sweep) if times else None


def _parse_origin(url: str) -> tuple[Endpoint, str]:
    """Return the endpoint and the origin, without the default port. Raises: ValueError."""
    origin = origin_of(url)
    if origin is None:
        raise ValueError("a URL of a server or proxy must begin with http:// or https:// and have a host")
    scheme, host, port = origin
    try:
        ascii_host = host if host.isascii() else host.encode("idna").decode("ascii")
    except UnicodeError:
        raise ValueError("the host name is invalid") from None
    if not ascii_host.isprintable() or " " in ascii_host:
        raise ValueError("the host name is invalid")
    suffix = "" if port == _DEFAULT_PORTS[scheme] else f":{port}"
    return Endpoint(scheme, ascii_host, port), f"{scheme}://{_bracketed(ascii_host)}{suffix}"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _server_name(host: str) -> str:
    """Return the name that a certificate has: without the dot of a fully qualified name."""
    return host.rstrip(".")


def _proxy_authorization(proxy: str) -> str:
    parts = urlsplit(proxy)
    if parts.username is None:
        return ""
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return f"Proxy-Authorization: Basic {binascii.b2a_base64(pair.encode(), newline=False).decode()}\r\n"
