"""Adapts a user's `httpx.AsyncClient` to the `HttpClient` contract; also one of httpx2, its successor.

Its read timeouts do not apply: calls have deadlines of their own, and streams stay open for days. httpx is not
imported.
"""

from collections.abc import AsyncIterator
from contextlib import aclosing
from types import ModuleType
from typing import Any

from jackstay.errors import OutcomeUnknownError, TransportError
from jackstay.protocol.http import fold_headers
from jackstay.transport.http._connecting import describe_failure
from jackstay.transport.http._contract import Headers, HttpResponse
from jackstay.transport.http._reading import causes, is_unreachable, is_untrusted

# Exceptions that httpx raises before the first byte of the request is written.
_NOT_SENT = ("ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError", "UnsupportedProtocol")


class HttpxResponse:
    """A response of httpx."""

    def __init__(self, response: Any, library: ModuleType) -> None:
        self.status: int = response.status_code
        self.headers = fold_headers(response.headers.raw)
        self._response = response
        self._library = library

    async def chunks(self) -> AsyncIterator[bytes]:
        """See `HttpResponse.chunks`."""
        try:
            async with aclosing(self._response.aiter_bytes()) as chunks:
                async for chunk in chunks:
                    yield chunk
        except (self._library.HTTPError, self._library.StreamError, OSError) as error:
            raise OutcomeUnknownError(f"the response is incomplete: {_describe(error)}") from error

    async def close(self) -> None:
        """See `HttpResponse.close`."""
        await self._response.aclose()


class HttpxClient:
    """A client of httpx. The user closes it."""

    def __init__(self, client: Any, library: ModuleType) -> None:
        self._client = client
        self._library = library
        self._not_sent = tuple(getattr(library, name) for name in _NOT_SENT)
        own = client.timeout
        self._timeout = library.Timeout(None, connect=own.connect, pool=own.pool)

    async def send(self, method: str, url: str, headers: Headers, body: bytes | None) -> HttpResponse:
        """See `HttpClient.send`."""
        library = self._library
        # As bytes: httpx rejects str that is not ASCII.
        pairs = [(name.encode("ascii"), value.encode("latin-1")) for name, value in headers]
        try:
            request = self._client.build_request(method, url, headers=pairs, content=body, timeout=self._timeout)
            response = await self._client.send(request, stream=True, follow_redirects=False)
        except self._not_sent as error:
            raise TransportError(
                f"cannot connect to {_origin(library, url)}: {_why_not_sent(error)}",
                permanent=is_untrusted(error),
                absent=is_unreachable(error),
            ) from error
        except library.InvalidURL as error:
            raise TransportError(f"httpx cannot parse the URL: {_describe(error)}", permanent=True) from error
        except (library.HTTPError, OSError) as error:
            raise OutcomeUnknownError(f"the connection was lost: {_describe(error)}") from error
        except RuntimeError as error:  # the user has closed the client
            raise TransportError(f"the HTTP client cannot send: {error}", permanent=True) from error
        return HttpxResponse(response, library)

    async def close(self) -> None:
        """Do nothing: the user closes the client."""


def _origin(library: ModuleType, url: str) -> str:
    parsed = library.URL(url)
    return f"{parsed.scheme}://{parsed.netloc.decode('ascii')}"


def _why_not_sent(error: BaseException) -> str:
    """Describe the error that httpx made another one of, as the default client does."""
    found = list(causes(error))
    if any(isinstance(each, TimeoutError) for each in found):
        return _describe(error)
    return next(
        (describe_failure(each) for each in found if isinstance(each, OSError) and each.errno), _describe(error)
    )


def _describe(error: BaseException) -> str:
    return str(error) or type(error).__name__
