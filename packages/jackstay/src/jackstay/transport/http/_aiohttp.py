"""Adapts a user's `aiohttp.ClientSession` to the `HttpClient` contract.

Its timeouts do not apply, except for connecting: calls have deadlines of their own, and streams stay open for days.
"""

from collections.abc import AsyncIterator
from io import BytesIO
from typing import Final

import aiohttp
from yarl import URL

from jackstay.errors import OutcomeUnknownError, TransportError
from jackstay.protocol.http import fold_headers
from jackstay.transport.http._connecting import describe_failure
from jackstay.transport.http._contract import Headers, HttpResponse
from jackstay.transport.http._reading import is_unreachable

# A larger body is written in pieces.
LARGE_BODY: Final = 524_288

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

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.status = response.status
        self.headers = fold_headers(response.raw_headers)
        self._response = response

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
    """A session of aiohttp. The user closes it."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session
        self._timeout = aiohttp.ClientTimeout(total=None, connect=session.timeout.connect, sock_read=None)

    async def send(self, method: str, url: str, headers: Headers, body: bytes | None) -> HttpResponse:
        """See `HttpClient.send`."""
        pairs = [pair if pair[1].isascii() else (pair[0], _as_written(pair[1])) for pair in headers]
        try:
            response = await self._session.request(
                method,
                URL(url, encoded=True),
                headers=pairs,
                # In pieces if it is large: otherwise it would block the loop, and aiohttp warns about that.
                data=body if body is None or len(body) <= LARGE_BODY else BytesIO(body),
                allow_redirects=False,
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

    async def close(self) -> None:
        """Do nothing: the user closes the session."""


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
        return describe_failure(error.certificate_error)
    if isinstance(error, aiohttp.ClientConnectorError):
        return describe_failure(error.os_error)
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
