"""aiohttp as our HTTP client: the default (docs/design/http-client.md says why), and whatever session a user hands in.

Cookies are not kept, redirects not followed, `.netrc` not read; no time-out but that of connecting, because calls have
deadlines of their own and streams stay open for days. The one duty of this file is to say of each failure whether
the request may have reached the server.

Must never know MCP. Above: `_clients`. Below: aiohttp.
"""

import errno
import os
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from io import BytesIO
from typing import Final

import aiohttp
from yarl import URL

from jackstay import __version__
from jackstay.errors import OutcomeUnknownError, TransportError
from jackstay.protocol.http import fold_headers
from jackstay.transport.http._contract import Headers, HttpResponse
from jackstay.transport.http._reading import finds_nobody

# Under the five seconds after which uvicorn and Node close an idle connection: a request sent into that moment is lost, and
# nobody can tell whether it ran. A new connection costs a round trip.
KEEP_ALIVE: Final = 4.0

# As large as ours lets a session id, an event id and a challenge be, together and with room.
MAX_HEADER_BYTES: Final = 65_536

# Above it, a body is written in pieces.
LARGE_BODY: Final = 524_288

# How many parsed URLs are kept.
MAX_PLACES: Final = 64

# What aiohttp raises before the first byte of the request is written.
_NOT_SENT = (
    aiohttp.ClientConnectorError,  # no such host, refused, no TLS, no proxy
    aiohttp.ClientHttpProxyError,  # the proxy refused to connect us
    aiohttp.ConnectionTimeoutError,
    aiohttp.InvalidURL,
    aiohttp.ServerFingerprintMismatch,
)
# Their words are the URL, query and all: a traceback must not have it either.
_SHOW_URL = (aiohttp.ConnectionTimeoutError, aiohttp.InvalidURL)
_NEVER = (aiohttp.ClientConnectorCertificateError, aiohttp.InvalidURL, aiohttp.ServerFingerprintMismatch)


class AiohttpResponse:
    """A response of aiohttp's."""

    __slots__ = ("_headers", "_response", "status")

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.status = response.status
        self._response = response
        self._headers: dict[str, str] | None = None

    @property
    def headers(self) -> Mapping[str, str]:
        """As the contract says."""
        if self._headers is None:
            self._headers = fold_headers(self._response.raw_headers)
        return self._headers

    async def chunks(self) -> AsyncIterator[bytes]:
        """As the contract says."""
        try:
            async for chunk in self._response.content.iter_any():
                yield chunk
        except (aiohttp.ClientError, OSError, ValueError) as error:  # ValueError: broken chunks and encodings
            # Of a body that is cut short the library says only how it was framed.
            how = "" if isinstance(error, aiohttp.ClientPayloadError) else f": {_said(error)}"
            raise OutcomeUnknownError(f"the response broke off before its end{how}") from error

    async def close(self) -> None:
        """As the contract says. A response that was read to its end has given its connection back already."""
        self._response.close()


class AiohttpClient:
    """A session of aiohttp's. `own` is ours to close."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        *,
        own: bool,
        connect_timeout: float | None,
        proxy_of: Callable[[str], str | None] | None = None,
    ) -> None:
        self._session = session
        self._is_own = own
        self._proxy_of = proxy_of
        self._timeout = aiohttp.ClientTimeout(total=None, connect=connect_timeout, sock_read=None)
        # Parsed once: a client speaks to a handful of URLs, and parsing one costs as much as sending to it.
        self._places: dict[str, tuple[URL, URL | None]] = {}

    async def send(self, method: str, url: str, headers: Headers, body: bytes | None) -> HttpResponse:
        """As the contract says."""
        place, proxy = self._places.get(url) or self._find(url)
        pairs = [pair if pair[1].isascii() else (pair[0], _as_written(pair[1])) for pair in headers]
        try:
            response = await self._session.request(
                method,
                place,
                headers=pairs,
                # In pieces where it is large: aiohttp warns that it would hold up the loop otherwise.
                data=body if body is None or len(body) <= LARGE_BODY else BytesIO(body),
                allow_redirects=False,
                proxy=proxy,
                timeout=self._timeout,
            )
        except _NOT_SENT as error:
            raise TransportError(
                f"cannot connect to {_place(url)}: {_said(error)}",
                permanent=isinstance(error, _NEVER),
                absent=finds_nobody(error),
            ) from (None if isinstance(error, _SHOW_URL) else error)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise OutcomeUnknownError(f"the connection was lost: {_said(error)}") from error
        except RuntimeError as error:  # a session that its user has closed
            raise TransportError(f"the HTTP client cannot send: {error}", permanent=True) from error
        return AiohttpResponse(response)

    def _find(self, url: str) -> tuple[URL, URL | None]:
        proxy = None if self._proxy_of is None else self._proxy_of(url)
        found = URL(url, encoded=True), None if proxy is None else URL(proxy)
        if len(self._places) >= MAX_PLACES:
            self._places.clear()
        self._places[url] = found
        return found

    async def close(self) -> None:
        """As the contract says. A session that was handed in is its user's to close."""
        if self._is_own:
            await self._session.close()


def own_client(
    *,
    verify: bool | ssl.SSLContext,
    proxy_of: Callable[[str], str | None],
    connect_timeout: float | None,
) -> AiohttpClient:
    """A client for one transport. It needs a running loop."""
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE, ssl=verify)
    session = aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"User-Agent": f"jackstay/{__version__}"},
        max_line_size=MAX_HEADER_BYTES,
        max_field_size=MAX_HEADER_BYTES,
        trust_env=False,  # it would read .netrc as well, and send what it finds there
    )
    return AiohttpClient(session, own=True, connect_timeout=connect_timeout, proxy_of=proxy_of)


def _as_written(value: str) -> str:
    """aiohttp writes values as UTF-8, and ours are bytes spelled in Latin-1: this is the text that becomes those bytes.

    Raises: TransportError for bytes that are no UTF-8, which it cannot be brought to write.
    """
    try:
        return value.encode("latin-1").decode()
    except UnicodeError as error:
        raise TransportError("aiohttp cannot send a header that is not UTF-8", permanent=True) from error


def _place(url: str) -> str:
    place = URL(url, encoded=True)
    return f"{place.scheme}://{place.raw_authority}"


def _said(error: BaseException) -> str:
    """What went wrong, without the URL: a query may hold a secret."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        why = getattr(error.certificate_error, "verify_message", "") or error.certificate_error
        return f"its certificate is not trusted ({why}): give the authority's in ca=FILE, or as SSL_CERT_FILE"
    if isinstance(error, aiohttp.ClientConnectorSSLError) and "WRONG_VERSION_NUMBER" in str(error.os_error):
        return "it does not speak TLS: should the URL begin with http?"
    if isinstance(error, aiohttp.ClientConnectorError):
        inner = error.os_error
        # asyncio puts the address where the reason should be; the number has the reason. Names and TLS have their own.
        if isinstance(inner, socket.gaierror):
            return f"no address is known for that name ({inner.strerror or inner})"
        if inner.errno is None or isinstance(inner, ssl.SSLError):
            return str(inner.strerror or inner) or "the connection was lost while it was made"
        if inner.errno == errno.ECONNREFUSED:
            return f"nothing listens there ({os.strerror(inner.errno)})"
        return os.strerror(inner.errno)
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return "no connection was made in time (connect_timeout)"
    if isinstance(error, aiohttp.InvalidURL):
        return "it has no URL that aiohttp can read"
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"the proxy answered HTTP {error.status} {error.message}"
    if isinstance(error, aiohttp.ClientResponseError):
        # Its parser's, with a status of its own and a picture of the place below the first line.
        return f"the response cannot be read ({error.message.partition(chr(10))[0].rstrip(': ')})"
    return str(error) or type(error).__name__
