"""A documentation site on loopback: pages by path, many kinds of failures, and a record of the requests.

    async with Site({"/guide.md": text("# Guide")}) as site:
        ...  # site.url, site.requests

A route is an async function of a request and the two streams; the functions below make the usual ones. Routes that are
still running are cancelled when the site closes.
"""

import asyncio
import contextlib
import gzip
import mimetypes
import ssl
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Self

import msgspec

from procontext.config import CacheSettings, Config, FetcherSettings
from procontext.fetch import SystemNetwork
from procontext.models import Library


class Request(msgspec.Struct, frozen=True):
    """A request to the site. Header names are lower case."""

    target: str
    headers: dict[str, str]


Route = Callable[[Request, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Site:
    """The site. `requests` are the requests in order; `routes` may be changed while it runs."""

    def __init__(self, routes: dict[str, Route] | None = None, *, tls: ssl.SSLContext | None = None) -> None:
        self.routes = {} if routes is None else dict(routes)
        self.requests: list[Request] = []
        self._tls = tls
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []
        self._server: asyncio.Server | None = None
        self.port = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._writers:
            writer.transport.abort()  # unread data is dropped
        await asyncio.sleep(0)

    @property
    def url(self) -> str:
        """Without a slash at the end."""
        return f"{'http' if self._tls is None else 'https'}://127.0.0.1:{self.port}"

    @property
    def paths(self) -> list[str]:
        """The requested paths, in order."""
        return [request.target for request in self.requests]

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            pairs = (line.partition(":") for line in head[1:] if line)
            request = Request(head[0].split(" ")[1], {name.lower(): value.strip() for name, _, value in pairs})
            self.requests.append(request)
            route = self.routes.get(request.target.partition("?")[0], status(404))
            await route(request, reader, writer)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client disconnected
        finally:
            writer.close()


def _head(code: int, headers: dict[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {code} Status", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def raw(data: bytes) -> Route:
    """Send these bytes and close the connection."""

    async def route(request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(data)

    return route


def body(data: bytes, kind: str = "text/markdown", code: int = 200, **headers: str) -> Route:
    """A complete response.

    `content_encoding="gzip"` becomes the header of that name; the bytes are sent as they are.
    """
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return raw(_head(code, {"Content-Type": kind, "Content-Length": str(len(data)), **named}) + data)


def text(content: str, kind: str = "text/markdown", code: int = 200, **headers: str) -> Route:
    """A complete response in UTF-8."""
    return body(content.encode(), kind, code, **headers)


def status(code: int) -> Route:
    """A status without a body."""
    return raw(_head(code, {"Content-Length": "0"}))


def redirect(location: str, code: int = 302) -> Route:
    """A redirect."""
    return raw(_head(code, {"Location": location, "Content-Length": "0"}))


def validated(content: str, etag: str = '"1"', last_modified: str = "") -> Route:
    """A response with validators, and 304 if they match."""

    async def route(request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        is_known = request.headers.get("if-none-match") == etag or (
            last_modified and request.headers.get("if-modified-since") == last_modified
        )
        data = b"" if is_known else content.encode()
        head = {"ETag": etag, "Last-Modified": last_modified, "Content-Type": "text/markdown"}
        headers = {name: value for name, value in head.items() if value}
        if not is_known:
            headers["Content-Length"] = str(len(data))
        writer.write(_head(304 if is_known else 200, headers) + data)

    return route


def bomb(size: int = 200 * 1024 * 1024) -> Route:
    """Zeros with a compression ratio of 1000, generated while they are sent."""

    async def route(request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(_head(200, {"Content-Type": "text/plain", "Content-Encoding": "gzip"}))
        packer = zlib.compressobj(9, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
        zeros = bytes(1024 * 1024)
        for _ in range(size // len(zeros)):
            writer.write(packer.compress(zeros))
            await writer.drain()
        writer.write(packer.flush())

    return route


def flood(size: int) -> Route:
    """More than the limit, without Content-Length."""

    async def route(request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(_head(200, {"Content-Type": "text/plain"}))
        for _ in range(size // 65536 + 1):
            writer.write(b"x" * 65536)
            await writer.drain()

    return route


def trickle() -> Route:
    """A byte every 10 ms, forever."""

    async def route(request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(_head(200, {"Content-Type": "text/plain", "Content-Length": "1000000"}))
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.01)

    return route


def held(until: asyncio.Event, then: Route) -> Route:
    """No response until an event is set."""

    async def route(request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await until.wait()
        await then(request, reader, writer)

    return route


def cut_short(content: bytes = b"# Half", announced: int = 1000) -> Route:
    """Less than Content-Length."""
    return raw(_head(200, {"Content-Type": "text/plain", "Content-Length": str(announced)}) + content)


def cut_short_packed() -> Route:
    """A body of the announced length whose gzip stream is truncated."""
    return body(gzip.compress(b"# Half a page" * 1000)[:-20], "text/plain", content_encoding="gzip")


def folder(root: Path) -> dict[str, Route]:
    """The routes of a folder of files, like a static file server."""
    routes: dict[str, Route] = {}
    for file in sorted(root.rglob("*")):
        if file.is_file():
            path = f"/{file.relative_to(root).as_posix()}"
            route = body(file.read_bytes(), mimetypes.guess_type(file.name)[0] or "application/octet-stream")
            routes[path] = route
            if file.name == "index.html":
                routes[path.removesuffix("index.html")] = route
    return routes


class Rows:
    """A registry of a few libraries."""

    def __init__(self, *libraries: Library) -> None:
        self.rows = libraries
        self.generation = 1
        self.learned_hosts: set[str] = set()

    def get(self, library_id: str) -> Library | None:
        return next((row for row in self.rows if row.id == library_id.partition("@")[0]), None)

    def __iter__(self) -> Iterator[Library]:
        return iter(self.rows)

    def replace(self, *libraries: Library) -> None:
        self.rows = libraries
        self.generation += 1


def settings(directory: Path, *sites: Site, ttl_hours: float = 24.0, **fetcher: object) -> Config:
    """A configuration with its own cache, allowed to fetch from these sites."""
    named = {"allowed_private_hosts": tuple(f"127.0.0.1:{site.port}" for site in sites), **fetcher}
    return Config(
        cache=CacheSettings(dir=str(directory), ttl_hours=ttl_hours),
        fetcher=msgspec.convert(named, FetcherSettings),
    )


class RecordingNetwork:
    """A fake network. `answers` are the addresses of names, in turn; connections are recorded and refused.

    With `leads_to`, all connections go to that port of this machine; the intended address is recorded.
    """

    def __init__(self, answers: dict[str, list[Sequence[str]]] | None = None, leads_to: int | None = None) -> None:
        self._answers = {} if answers is None else answers
        self._leads_to = leads_to
        self.resolved: list[str] = []
        self.connected: list[tuple[str, int, str | None]] = []

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        self.resolved.append(host)
        turns = self._answers.get(host)
        if not turns:
            raise OSError(f"no such name: {host}")
        return turns.pop(0) if len(turns) > 1 else turns[0]

    async def connect(
        self, address: str, port: int, tls_name: str | None
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        self.connected.append((address, port, tls_name))
        if self._leads_to is None:
            raise ConnectionRefusedError("this network refuses connections")
        return await asyncio.open_connection("127.0.0.1", self._leads_to)

    async def upgrade(
        self, streams: tuple[asyncio.StreamReader, asyncio.StreamWriter], tls_name: str
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        self.connected.append(("upgrade", 0, tls_name))
        return streams


class LoopbackNetwork(SystemNetwork):
    """The real network, restricted to this machine."""

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        raise AssertionError(f"{host} must not be looked up")

    async def connect(
        self, address: str, port: int, tls_name: str | None
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        assert address == "127.0.0.1", f"{address} must not be connected to"
        return await super().connect(address, port, tls_name)


@contextlib.asynccontextmanager
async def tunnelling_proxy(
    answer: bytes = b"HTTP/1.1 200 OK\r\n\r\n",
) -> AsyncIterator[tuple[int, list[bytes]]]:
    """A proxy that tunnels CONNECT requests; yields its port and the received heads."""
    heads: list[bytes] = []
    writers: list[asyncio.StreamWriter] = []
    tasks: set[asyncio.Task[None]] = set()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass  # one side disconnected
        finally:
            writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        heads.append(head)
        writer.write(answer)
        if b" 200 " not in answer:
            writer.close()
            return
        host, _, port = head.split(b" ")[1].decode().rpartition(":")
        there_reader, there_writer = await asyncio.open_connection(host, int(port))
        await asyncio.gather(pump(reader, there_writer), pump(there_reader, writer))

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        task = asyncio.create_task(serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], heads
    finally:
        server.close()
        for task in tuple(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for writer in writers:
            writer.transport.abort()
        await asyncio.sleep(0)
