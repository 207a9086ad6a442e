"""Fetching of one document, protected against server-side request forgery (SSRF).

Every hop of a redirect is checked: the URL is parsed strictly, the caller allows it, its host is resolved once and all
its addresses must be public (or allowed private ones), and the connection goes to a checked address. With a proxy, the
proxy resolves the host. One deadline covers all hops. Concurrent fetches of one URL share one request.
"""

import asyncio
import base64
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import TypeAlias
from urllib.parse import unquote, urlsplit

import msgspec

from procontext._version import __version__
from procontext.config import FetcherSettings
from procontext.fetch._addresses import is_private_address, is_public, parse_address
from procontext.fetch._exchange import Response, exchange
from procontext.fetch._failures import FetchError
from procontext.fetch._network import Network, Streams, SystemNetwork
from procontext.fetch._single_flight import Cancelled, SingleFlight
from procontext.fetch._urls import Target, parse_url, resolve_redirect

MAX_HOPS = 3
REDIRECTS = (301, 302, 303, 307, 308)
ABSENT = (404, 410)

# Connections to one host, and in all. Further fetches wait; that time is not part of their deadline.
MAX_CONNECTIONS_PER_HOST = 6
MAX_CONNECTIONS = 64

# One unreachable address must not use up the time for the others.
CONNECT_SECONDS = 8.0

Headers: TypeAlias = tuple[tuple[str, str], ...]

ACCEPT = "text/markdown, text/plain;q=0.9, text/html;q=0.8, */*;q=0.5"


class Access(msgspec.Struct, frozen=True):
    """Whether a URL may be fetched, and with which additional request headers for its origin.

    `reason` is the detail of the error if it is not allowed.
    """

    is_allowed: bool
    headers: Headers = ()
    reason: str = "the host does not belong to the documentation of a known library"


# Called before each hop.
AccessCheck: TypeAlias = Callable[[Target], Awaitable[Access]]


class Fetched(msgspec.Struct, frozen=True, kw_only=True):
    """A fetched document, or (`is_unchanged`, without a body) the confirmation that the cached one is current."""

    url: str
    final_url: str
    body: bytes = b""
    content_type: str = ""
    etag: str = ""
    last_modified: str = ""
    is_unchanged: bool = False


class Fetcher:
    """Fetches documents. `check_access` is called before each hop; tests replace `network`."""

    def __init__(self, settings: FetcherSettings, check_access: AccessCheck, network: Network | None = None) -> None:
        self._settings = settings
        self._check_access = check_access
        self._network = network if network is not None else SystemNetwork(settings.ca_file)
        self._private = {_host_and_port(host) for host in settings.allowed_private_hosts}
        self._proxy = None if settings.proxy is None else _Proxy.read(settings.proxy)
        self._in_flight: SingleFlight[tuple[str, str, str], Fetched] = SingleFlight()
        self._slots = asyncio.Semaphore(MAX_CONNECTIONS)
        self._host_slots: defaultdict[str, asyncio.Semaphore] = defaultdict(
            lambda: asyncio.Semaphore(MAX_CONNECTIONS_PER_HOST)
        )

    def __repr__(self) -> str:
        return f"<Fetcher in_flight={len(self._in_flight)} offline={self._settings.offline}>"

    async def fetch(self, url: str, *, etag: str = "", last_modified: str = "") -> Fetched:
        """Fetch the document at `url`; with a validator of an earlier response, the request is conditional.

        Raises: FetchError.
        """
        target = parse_url(url)
        if self._settings.offline:
            raise FetchError("offline", url, "not in the cache, and the server is offline")
        key = (target.url, etag, last_modified)
        try:
            return await self._in_flight.join(key, lambda: self._fetch_in_time(target, etag, last_modified))
        except Cancelled:
            raise FetchError("failed", url, "the server is closing") from None

    def is_private(self, target: Target) -> bool:
        """Return whether this host and port are in `allowed_private_hosts`."""
        return (target.host, target.port) in self._private

    async def close(self) -> None:
        """Cancel all fetches."""
        await self._in_flight.close()

    # --- one fetch ----------------------------------------------------------------------------------------------------

    async def _fetch_in_time(self, target: Target, etag: str, last_modified: str) -> Fetched:
        try:
            async with (
                self._host_slots[target.host],
                self._slots,
                asyncio.timeout(self._settings.timeout_seconds),
            ):
                return await self._fetch(target, etag, last_modified)
        except TimeoutError as error:
            seconds = f"{self._settings.timeout_seconds:g}"
            raise FetchError("failed", target.url, f"timeout after {seconds} seconds") from error

    async def _fetch(self, requested: Target, etag: str, last_modified: str) -> Fetched:
        target = requested
        for _ in range(MAX_HOPS + 1):
            response = await self._request(target, _validators(etag, last_modified))
            if response.status not in REDIRECTS:
                return _fetched(requested, target, response, is_conditional=bool(etag or last_modified))
            location = response.headers.get("location")
            if location is None:
                raise FetchError("failed", target.url, f"HTTP {response.status} without a Location header")
            target = resolve_redirect(target, location)
        raise FetchError("too_many_redirects", requested.url, f"more than {MAX_HOPS} redirects")

    async def _request(self, target: Target, validators: Headers) -> Response:
        access = await self._check_access(target)
        if not access.is_allowed:
            raise FetchError("not_allowed", target.url, access.reason)
        headers = (
            ("User-Agent", f"procontext/{__version__}"),
            ("Accept", ACCEPT),
            ("Accept-Encoding", "gzip, deflate"),
            *validators,
            *access.headers,
        )
        streams, absolute_form, more = await self._open(target)
        try:
            return await exchange(
                streams, target, (*headers, *more), self._settings.max_bytes, absolute_form=absolute_form
            )
        except OSError as error:
            raise FetchError("failed", target.url, f"connection lost: {_describe(error)}") from error
        finally:
            streams[1].transport.abort()  # read to the end, or not needed

    async def _open(self, target: Target) -> tuple[Streams, bool, Headers]:
        """Return a connection, whether to use the absolute form of the request target, and headers for the proxy."""
        is_private = self.is_private(target)
        literal = parse_address(target.host)
        if self._proxy is not None and not is_private:
            if literal is not None and not is_public(literal):
                raise _refused(target, target.host)
            return await self._open_via_proxy(self._proxy, target)
        addresses = [target.host] if literal is not None else await self._resolve(target)
        for address in addresses:
            parsed = parse_address(address)
            if parsed is None or not (is_public(parsed) or (is_private and is_private_address(parsed))):
                raise _refused(target, address)
        tls_name = target.host if target.is_encrypted else None
        return await self._connect(target.url, addresses, target.port, tls_name), False, ()

    async def _resolve(self, target: Target) -> Sequence[str]:
        try:
            addresses = await self._network.resolve(target.host, target.port)
        except (OSError, UnicodeError) as error:
            raise FetchError("failed", target.url, f"cannot resolve {target.host}: {_describe(error)}") from error
        if not addresses:
            raise FetchError("failed", target.url, f"cannot resolve {target.host}: no addresses")
        return addresses

    async def _connect(self, url: str, addresses: Sequence[str], port: int, tls_name: str | None) -> Streams:
        last = ""
        for address in addresses:
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    return await self._network.connect(address, port, tls_name)
            except TimeoutError:
                last = f"timeout connecting to {address}"
            except OSError as error:
                last = _describe(error)
        raise FetchError("failed", url, f"cannot connect: {last}")

    async def _open_via_proxy(self, proxy: "_Proxy", target: Target) -> tuple[Streams, bool, Headers]:
        # The proxy comes from trusted settings: the system resolves it, and it may have any address.
        tls_name = proxy.host if proxy.is_encrypted else None
        streams = await self._connect(target.url, [proxy.host], proxy.port, tls_name)
        if not target.is_encrypted:
            return streams, True, proxy.headers
        try:
            await _open_tunnel(streams, target, proxy.headers)
            return await self._network.upgrade(streams, target.host), False, ()
        except BaseException as error:
            streams[1].transport.abort()
            if isinstance(error, OSError):
                raise FetchError(
                    "failed", target.url, f"cannot connect through the proxy: {_describe(error)}"
                ) from error
            raise


class _Proxy(msgspec.Struct, frozen=True):
    """Address and credentials of the proxy."""

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
        return _Proxy(parts.hostname or "", parts.port or (443 if is_encrypted else 80), is_encrypted, headers)


# The maximum size of the response to CONNECT: a status line and a few headers.
_TUNNEL_HEAD_BYTES = 16 * 1024


async def _open_tunnel(streams: Streams, target: Target, headers: Headers) -> None:
    reader, writer = streams
    authority = f"[{target.host}]:{target.port}" if ":" in target.host else f"{target.host}:{target.port}"
    lines = [f"CONNECT {authority} HTTP/1.1", f"Host: {authority}", *(f"{name}: {value}" for name, value in headers)]
    writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
    await writer.drain()
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        # By line, so that no byte after the head is consumed: those belong to TLS.
        try:
            line = await reader.readline()
        except ValueError:  # longer than the reader's buffer
            line = b""
        head += line
        if not line or len(head) > _TUNNEL_HEAD_BYTES:
            raise FetchError("failed", target.url, "the proxy closed the connection")
    status = head.split(b"\r\n", 1)[0].split(b" ")
    if len(status) < 2 or status[1] != b"200":
        status_line = head.split(b"\r\n", 1)[0][:100].decode("latin-1")
        raise FetchError("failed", target.url, f"the proxy rejected the request: {status_line}")


def _host_and_port(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host.lower().strip("[]"), int(port)


def _validators(etag: str, last_modified: str) -> Headers:
    headers: list[tuple[str, str]] = []
    # A validator that is not ASCII is not valid and is not sent back.
    if etag and etag.isascii():
        headers.append(("If-None-Match", etag))
    if last_modified and last_modified.isascii():
        headers.append(("If-Modified-Since", last_modified))
    return tuple(headers)


def _fetched(requested: Target, target: Target, response: Response, *, is_conditional: bool) -> Fetched:
    status = response.status
    if status in ABSENT:
        raise FetchError("not_found", target.url, f"HTTP {status}", status=status)
    if status != 200 and not (status == 304 and is_conditional):
        retry_after = _seconds(response.headers.get("retry-after", "")) if status in (429, 503) else None
        detail = f"the host responded with HTTP {status}"
        raise FetchError("failed", target.url, detail, status=status, retry_after=retry_after)
    return Fetched(
        url=requested.url,
        final_url=target.url,
        body=response.body,
        content_type=response.headers.get("content-type", ""),
        etag=response.headers.get("etag", ""),
        last_modified=response.headers.get("last-modified", ""),
        is_unchanged=status == 304,
    )


def _seconds(retry_after: str) -> float | None:
    """Return the pause that a Retry-After header requests (RFC 9110, 10.2.3)."""
    if retry_after.isdecimal() and len(retry_after) < 10:
        return float(retry_after)
    try:
        at = parsedate_to_datetime(retry_after)
    except ValueError:
        return None
    return max(0.0, (at - datetime.now(at.tzinfo)).total_seconds())


def _refused(target: Target, address: str) -> FetchError:
    detail = f"the host {target.host} has the address {address}, which is not public"
    if address == target.host:
        detail = f"{address} is not a public address"
    parsed = parse_address(address)
    remedy = "Trying again does not help: documentation is never read from such an address."
    if parsed is not None and is_private_address(parsed):
        host = f"[{target.host}]" if ":" in target.host else target.host
        remedy = (
            "Trying again does not help. If this host belongs to the user, it must be allowed in their procontext.yaml:"
            f' fetcher: {{allowed_private_hosts: ["{host}:{target.port}"]}}'
        )
    return FetchError("not_allowed", target.url, detail, remedy)


def _describe(error: BaseException) -> str:
    return str(error) or type(error).__name__


__all__ = ["Access", "AccessCheck", "Fetched", "Fetcher"]
