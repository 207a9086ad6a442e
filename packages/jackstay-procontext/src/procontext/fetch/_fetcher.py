"""Fetching one document so that it cannot be turned against the machine it runs on.

Each hop of a redirect goes through the same four gates: the address is read strictly, the caller permits it, its name is
resolved once and every answer must be a public address (or a permitted inside), and the connection goes to an address that was
checked. There is one deadline for the whole, and one fetch at a time for one address: who asks meanwhile gets the same answer.

With a proxy the name is the proxy's to resolve, because behind one it often cannot be resolved at all; then the first two gates
and literal addresses are checked here, and the rest is the proxy's rule. Hosts in `allowed_private_hosts` are asked directly.

Must never know pages, libraries or the cache. Above: `procontext.page`. Below: the rest of this room.
"""

import asyncio
import base64
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias
from urllib.parse import unquote, urlsplit

import msgspec

from procontext._version import __version__
from procontext.config import FetcherSettings
from procontext.fetch._addresses import is_inside, is_public, read_address
from procontext.fetch._exchange import Answer, exchange
from procontext.fetch._failures import FetchError
from procontext.fetch._flights import Flights, Grounded
from procontext.fetch._network import Network, Streams, SystemNetwork
from procontext.fetch._urls import Target, follow, read_url

# Reference, 4.4.
MAX_HOPS = 3
REDIRECTS = (301, 302, 303, 307, 308)
ABSENT = (404, 410)

# One address that does not answer must not use up the time of all the others.
CONNECT_SECONDS = 8.0

Headers: TypeAlias = tuple[tuple[str, str], ...]

ACCEPT = "text/markdown, text/plain;q=0.9, text/html;q=0.8, */*;q=0.5"


class Access(msgspec.Struct, frozen=True):
    """The caller's leave to go to an address, and what to send there: `headers` are for this origin alone.

    `reason` completes the error message where it is not allowed.
    """

    is_allowed: bool
    headers: Headers = ()
    reason: str = "its host is not one of a known library's documentation"


# Asked before each hop, with what was read of the address: may we go there, and what is to be sent there?
Permits: TypeAlias = Callable[[Target], Awaitable[Access]]


class Fetched(msgspec.Struct, frozen=True, kw_only=True):
    """A document, or the news that the one we have is still good (`is_unchanged`, and no body)."""

    url: str
    final_url: str
    body: bytes = b""
    content_type: str = ""
    etag: str = ""
    last_modified: str = ""
    is_unchanged: bool = False


class Fetcher:
    """Fetches documents. `permits` is asked before each hop; `network` is the world, or a test's."""

    def __init__(self, settings: FetcherSettings, permits: Permits, network: Network | None = None) -> None:
        self._settings = settings
        self._permits = permits
        self._network = network if network is not None else SystemNetwork(settings.ca_file)
        self._private = {_host_and_port(host) for host in settings.allowed_private_hosts}
        self._proxy = None if settings.proxy is None else _Proxy.read(settings.proxy)
        self._flights: Flights[tuple[str, str, str], Fetched] = Flights()

    def __repr__(self) -> str:
        return f"<Fetcher in_flight={len(self._flights)} offline={self._settings.offline}>"

    async def fetch(self, url: str, *, etag: str = "", last_modified: str = "") -> Fetched:
        """The document at `url`; with a validator of an earlier answer, perhaps only that it is unchanged.

        Raises: FetchError.
        """
        target = read_url(url)
        if self._settings.offline:
            raise FetchError("offline", url, "the server is offline and this is not in its cache")
        key = (target.url, etag, last_modified)
        try:
            return await self._flights.join(key, lambda: self._fetch_in_time(target, etag, last_modified))
        except Grounded:
            raise FetchError("failed", url, "the server is closing") from None

    def is_private(self, target: Target) -> bool:
        """Whether the settings name this host and port as one that may have a private address."""
        return (target.host, target.port) in self._private

    async def close(self) -> None:
        """End what is under way."""
        await self._flights.close()

    # --- one fetch ----------------------------------------------------------------------------------------------------

    async def _fetch_in_time(self, target: Target, etag: str, last_modified: str) -> Fetched:
        try:
            async with asyncio.timeout(self._settings.timeout_seconds):
                return await self._fetch(target, etag, last_modified)
        except TimeoutError as error:
            seconds = f"{self._settings.timeout_seconds:g}"
            raise FetchError("failed", target.url, f"it was not here after {seconds} seconds") from error

    async def _fetch(self, asked: Target, etag: str, last_modified: str) -> Fetched:
        target = asked
        for _ in range(MAX_HOPS + 1):
            answer = await self._hop(target, _validators(etag, last_modified))
            if answer.status not in REDIRECTS:
                return _fetched(asked, target, answer, is_conditional=bool(etag or last_modified))
            location = answer.headers.get("location")
            if location is None:
                raise FetchError("failed", target.url, f"HTTP {answer.status}, and not where to")
            target = follow(target, location)
        raise FetchError("too_many_redirects", asked.url, f"it was redirected more than {MAX_HOPS} times")

    async def _hop(self, target: Target, validators: Headers) -> Answer:
        access = await self._permits(target)
        if not access.is_allowed:
            raise FetchError("not_allowed", target.url, access.reason)
        headers = (
            ("User-Agent", f"procontext/{__version__}"),
            ("Accept", ACCEPT),
            ("Accept-Encoding", "gzip, deflate"),
            *validators,
            *access.headers,
        )
        streams, in_full, more = await self._open(target)
        try:
            return await exchange(
                streams, target, (*headers, *more), self._settings.max_bytes, in_full=in_full
            )
        except OSError as error:
            raise FetchError("failed", target.url, f"the connection broke: {_said(error)}") from error
        finally:
            streams[1].transport.abort()  # read to the end or not wanted: nothing is left to say

    async def _open(self, target: Target) -> tuple[Streams, bool, Headers]:
        """A connection, whether the whole address must be written on it, and headers for the proxy."""
        is_private = self.is_private(target)
        literal = read_address(target.host)
        if self._proxy is not None and not is_private:
            if literal is not None and not is_public(literal):
                raise _refused(target, target.host)
            return await self._open_through(self._proxy, target)
        addresses = [target.host] if literal is not None else await self._resolve(target)
        for address in addresses:
            read = read_address(address)
            if read is None or not (is_public(read) or (is_private and is_inside(read))):
                raise _refused(target, address)
        tls_name = target.host if target.is_encrypted else None
        return await self._connect(target.url, addresses, target.port, tls_name), False, ()

    async def _resolve(self, target: Target) -> Sequence[str]:
        try:
            addresses = await self._network.resolve(target.host, target.port)
        except (OSError, UnicodeError) as error:
            raise FetchError(
                "failed", target.url, f"the host {target.host} has no address: {_said(error)}"
            ) from error
        if not addresses:
            raise FetchError("failed", target.url, f"the host {target.host} has no address")
        return addresses

    async def _connect(self, url: str, addresses: Sequence[str], port: int, tls_name: str | None) -> Streams:
        last = ""
        for address in addresses:
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    return await self._network.connect(address, port, tls_name)
            except TimeoutError:
                last = f"{address} does not answer"
            except OSError as error:
                last = _said(error)
        raise FetchError("failed", url, f"no connection: {last}")

    async def _open_through(self, proxy: "_Proxy", target: Target) -> tuple[Streams, bool, Headers]:
        # The proxy was named by whoever runs the server: it is resolved by the system and may be anywhere.
        tls_name = proxy.host if proxy.is_encrypted else None
        streams = await self._connect(target.url, [proxy.host], proxy.port, tls_name)
        if not target.is_encrypted:
            return streams, True, proxy.headers
        try:
            await _ask_for_tunnel(streams, target, proxy.headers)
            return await self._network.upgrade(streams, target.host), False, ()
        except BaseException as error:
            streams[1].transport.abort()
            if isinstance(error, OSError):
                raise FetchError("failed", target.url, f"no way through the proxy: {_said(error)}") from error
            raise


class _Proxy(msgspec.Struct, frozen=True):
    """Where the proxy is, and how it knows us."""

    host: str
    port: int
    is_encrypted: bool
    headers: Headers

    @staticmethod
    def read(url: str) -> "_Proxy":
        parts = urlsplit(url)
        headers: Headers = ()
        if parts.username is not None:
            secret = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
            headers = (("Proxy-Authorization", f"Basic {base64.b64encode(secret).decode('ascii')}"),)
        is_encrypted = parts.scheme == "https"
        return _Proxy(
            parts.hostname or "", parts.port or (443 if is_encrypted else 80), is_encrypted, headers
        )


# The head of a proxy's answer to CONNECT: a status line and a few headers.
_TUNNEL_HEAD_BYTES = 16 * 1024


async def _ask_for_tunnel(streams: Streams, target: Target, headers: Headers) -> None:
    reader, writer = streams
    place = f"[{target.host}]:{target.port}" if ":" in target.host else f"{target.host}:{target.port}"
    lines = [f"CONNECT {place} HTTP/1.1", f"Host: {place}", *(f"{name}: {value}" for name, value in headers)]
    writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
    await writer.drain()
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        # A byte at a time would do; a line at a time is as safe, and what follows belongs to TLS.
        try:
            line = await reader.readline()
        except ValueError:  # longer than the reader's buffer
            line = b""
        head += line
        if not line or len(head) > _TUNNEL_HEAD_BYTES:
            raise FetchError("failed", target.url, "the proxy closed the connection")
    status = head.split(b"\r\n", 1)[0].split(b" ")
    if len(status) < 2 or status[1] != b"200":
        said = head.split(b"\r\n", 1)[0][:100].decode("latin-1")
        raise FetchError("failed", target.url, f"the proxy refused: {said}")


def _host_and_port(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host.lower().strip("[]"), int(port)


def _validators(etag: str, last_modified: str) -> Headers:
    found: list[tuple[str, str]] = []
    # What cannot be written in ASCII we do not send back: the host did not mean it, or means us harm.
    if etag and etag.isascii():
        found.append(("If-None-Match", etag))
    if last_modified and last_modified.isascii():
        found.append(("If-Modified-Since", last_modified))
    return tuple(found)


def _fetched(asked: Target, target: Target, answer: Answer, *, is_conditional: bool) -> Fetched:
    if answer.status in ABSENT:
        raise FetchError("not_found", target.url, f"HTTP {answer.status}")
    if answer.status != 200 and not (answer.status == 304 and is_conditional):
        raise FetchError("failed", target.url, f"the host answered HTTP {answer.status}")
    return Fetched(
        url=asked.url,
        final_url=target.url,
        body=answer.body,
        content_type=answer.headers.get("content-type", ""),
        etag=answer.headers.get("etag", ""),
        last_modified=answer.headers.get("last-modified", ""),
        is_unchanged=answer.status == 304,
    )


def _refused(target: Target, address: str) -> FetchError:
    detail = f"the host {target.host} is at {address}, which is no public address"
    if address == target.host:
        detail = f"{address} is no public address"
    read = read_address(address)
    remedy = "Trying again does not help: documentation is never read from such an address."
    if read is not None and is_inside(read):
        host = f"[{target.host}]" if ":" in target.host else target.host
        remedy = (
            "Trying again does not help. If this host is the user's own, it must be named in the user's procontext.yaml:"
            f' fetcher: {{allowed_private_hosts: ["{host}:{target.port}"]}}'
        )
    return FetchError("not_allowed", target.url, detail, remedy)


def _said(error: BaseException) -> str:
    return str(error) or type(error).__name__


__all__ = ["Access", "Fetched", "Fetcher", "Permits"]
