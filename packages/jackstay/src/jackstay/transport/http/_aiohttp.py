"""Adapts aiohttp to the `HttpClient` contract: the default client, and sessions that users pass.

No cookies, no redirects, no `.netrc`, and no timeout except for connecting: calls have deadlines of their own, and
streams stay open for days. Every failure states whether the request may have reached the server.
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
from jackstay.transport.http._reading import is_unreachable

# Less than the five seconds after which uvicorn and Node close an idle connection: the outcome of a request sent at
# that moment would be unknown, while a new connection costs only a round trip.
KEEP_ALIVE: Final = 4.0

# Enough for the largest session id, event id and challenge that are accepted, together.
MAX_HEADER_BYTES: Final = 65_536

# A larger body is written in pieces.
LARGE_BODY: Final = 524_288

# How many parsed URLs are kept.
MAX_URLS: Final = 64

# Exceptions that aiohttp raises before the first byte of the request is written.
_NOT_SENT = (
    aiohttp.ClientConnectorError,  # no such host, refused, no TLS, no proxy
    aiohttp.ClientHttpProxyError,  # the proxy rejected the CONNECT request
    aiohttp.ConnectionTimeoutError,
    aiohttp.InvalidURL,
    aiohttp.ServerFingerprintMismatch,
)
# Their messages contain the URL with its query, which must not appear in a traceback either.
_SHOW_URL = (aiohttp.ConnectionTimeoutError, aiohttp.InvalidURL)
_NEVER = (aiohttp.ClientConnectorCertificateError, aiohttp.InvalidURL, aiohttp.ServerFingerprintMismatch)


class AiohttpResponse:
    """A response of aiohttp."""

    __slots__ = ("_headers", "_response", "status")

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.status = response.status
        self._response = response
        self._headers: dict[str, str] | None = None

    @property
    def headers(self) -> Mapping[str, str]:
        """See `HttpResponse.headers`."""
        if self._headers is None:
            self._headers = fold_headers(self._response.raw_headers)
        return self._headers

    async def chunks(self) -> AsyncIterator[bytes]:
        """See `HttpResponse.chunks`."""
        try:
            async for chunk in self._response.content.iter_any():
                yield chunk
        except (aiohttp.ClientError, OSError, ValueError) as error:  # ValueError: broken chunks and encodings
            # aiohttp's message about an incomplete body only describes its framing.
            how = "" if isinstance(error, aiohttp.ClientPayloadError) else f": {_describe(error)}"
            raise OutcomeUnknownError(f"the response is incomplete{how}") from error

    async def close(self) -> None:
        """See `HttpResponse.close`. A response that was read to its end has released its connection already."""
        self._response.close()


class AiohttpClient:
    """An aiohttp session; with `own`, `close()` closes it."""

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
        # A client uses few URLs, and parsing one costs as much as sending to it.
        self._urls: dict[str, tuple[URL, URL | None]] = {}

    async def send(self, method: str, url: str, headers: Headers, body: bytes | None) -> HttpResponse:
        """See `HttpClient.send`."""
        parsed, proxy = self._urls.get(url) or self._find(url)
        pairs = [pair if pair[1].isascii() else (pair[0], _as_written(pair[1])) for pair in headers]
        try:
            response = await self._session.request(
                method,
                parsed,
                headers=pairs,
                # In pieces if it is large: otherwise it would block the loop, and aiohttp warns about that.
                data=body if body is None or len(body) <= LARGE_BODY else BytesIO(body),
                allow_redirects=False,
                proxy=proxy,
                timeout=self._timeout,
            )
        except _NOT_SENT as error:
            raise TransportError(
                f"cannot connect to {_origin(url)}: {_describe(error)}",
                permanent=isinstance(error, _NEVER),
                absent=is_unreachable(error),
            ) from (None if isinstance(error, _SHOW_URL) else error)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise OutcomeUnknownError(f"the connection was lost: {_describe(error)}") from error
        except RuntimeError as error:  # the user has closed the session
            raise TransportError(f"the HTTP client cannot send: {error}", permanent=True) from error
        return AiohttpResponse(response)

    def _find(self, url: str) -> tuple[URL, URL | None]:
        proxy = None if self._proxy_of is None else self._proxy_of(url)
        found = URL(url, encoded=True), None if proxy is None else URL(proxy)
        if len(self._urls) >= MAX_URLS:
            self._urls.clear()
        self._urls[url] = found
        return found

    async def close(self) -> None:
        """See `HttpClient.close`. A session that a user passed is not closed."""
        if self._is_own:
            await self._session.close()


def own_client(
    *,
    verify: bool | ssl.SSLContext,
    proxy_of: Callable[[str], str | None],
    connect_timeout: float | None,
) -> AiohttpClient:
    """Return a client with a session of its own. Needs a running loop."""
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE, ssl=verify)
    session = aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"User-Agent": f"jackstay/{__version__}"},
        max_line_size=MAX_HEADER_BYTES,
        max_field_size=MAX_HEADER_BYTES,
        trust_env=False,  # it would also send the credentials in .netrc
    )
    return AiohttpClient(session, own=True, connect_timeout=connect_timeout, proxy_of=proxy_of)


def _as_written(value: str) -> str:
    """Return the str that aiohttp, which encodes values as UTF-8, sends as the Latin-1 bytes of `value`.

    Raises: TransportError for bytes that are not UTF-8, which aiohttp cannot send.
    """
    try:
        return value.encode("latin-1").decode()
    except UnicodeError as error:
        raise TransportError("aiohttp cannot send a header value that is not UTF-8", permanent=True) from error


def _origin(url: str) -> str:
    parsed = URL(url, encoded=True)
    return f"{parsed.scheme}://{parsed.raw_authority}"


def _describe(error: BaseException) -> str:
    """Describe the error without the URL, whose query may contain a secret."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        why = getattr(error.certificate_error, "verify_message", "") or error.certificate_error
        return f"untrusted certificate ({why}); pass the CA's certificate as ca=FILE or set SSL_CERT_FILE"
    if isinstance(error, aiohttp.ClientConnectorSSLError) and "WRONG_VERSION_NUMBER" in str(error.os_error):
        return "the server does not use TLS; should the URL begin with http://?"
    if isinstance(error, aiohttp.ClientConnectorError):
        inner = error.os_error
        # asyncio's message has the address in place of the reason; `errno` has the reason, except for DNS and TLS.
        if isinstance(inner, socket.gaierror):
            return f"unknown host name ({inner.strerror or inner})"
        if inner.errno is None or isinstance(inner, ssl.SSLError):
            return str(inner.strerror or inner) or "the connection was lost while connecting"
        if inner.errno == errno.ECONNREFUSED:
            return os.strerror(inner.errno).lower()
        return os.strerror(inner.errno)
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return "timed out while connecting (connect_timeout)"
    if isinstance(error, aiohttp.InvalidURL):
        return "aiohttp cannot parse its URL"
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"the proxy responded HTTP {error.status} {error.message}"
    if isinstance(error, aiohttp.ClientResponseError):
        # An error of the parser, with the location on further lines.
        return f"invalid response ({error.message.partition(chr(10))[0].rstrip(': ')})"
    return str(error) or type(error).__name__
