"""An `httpx.AsyncClient` that a user hands in, as our HTTP client. The names are the same in httpx2, its successor.

Its own time-outs for reading do not apply: calls have deadlines of their own, and streams stay open for days. Cookies, event
hooks and headers that it adds are its user's doing.

Must never know MCP. Above: `_clients`. Below: httpx, by the object alone: nothing is imported here.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from types import ModuleType
from typing import Any

from jackstay.errors import OutcomeUnknownError, TransportError
from jackstay.protocol.http import fold_headers
from jackstay.transport.http._contract import Headers, HttpResponse
from jackstay.transport.http._reading import finds_nobody

# What httpx raises before the first byte of the request is written.
_NOT_SENT = ("ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError", "UnsupportedProtocol")


class HttpxResponse:
    """A response of httpx's."""

    __slots__ = ("_headers", "_library", "_response", "status")

    def __init__(self, response: Any, library: ModuleType) -> None:
        self.status: int = response.status_code
        self._response = response
        self._library = library
        self._headers: dict[str, str] | None = None

    @property
    def headers(self) -> Mapping[str, str]:
        """As the contract says."""
        if self._headers is None:
            self._headers = fold_headers(self._response.headers.raw)
        return self._headers

    async def chunks(self) -> AsyncIterator[bytes]:
        """As the contract says."""
        try:
            async with aclosing(self._response.aiter_bytes()) as chunks:
                async for chunk in chunks:
                    yield chunk
        except (self._library.HTTPError, self._library.StreamError, OSError) as error:
            raise OutcomeUnknownError(f"the response broke off before its end: {_said(error)}") from error

    async def close(self) -> None:
        """As the contract says."""
        await self._response.aclose()


class HttpxClient:
    """A client of httpx's; its user closes it."""

    def __init__(self, client: Any, library: ModuleType) -> None:
        self._client = client
        self._library = library
        self._not_sent = tuple(getattr(library, name) for name in _NOT_SENT)
        own = client.timeout
        self._timeout = library.Timeout(None, connect=own.connect, pool=own.pool)

    async def send(self, method: str, url: str, headers: Headers, body: bytes | None) -> HttpResponse:
        """As the contract says."""
        library = self._library
        # As bytes: it would refuse text that is not ASCII.
        pairs = [(name.encode("ascii"), value.encode("latin-1")) for name, value in headers]
        try:
            request = self._client.build_request(
                method, url, headers=pairs, content=body, timeout=self._timeout
            )
            response = await self._client.send(request, stream=True, follow_redirects=False)
        except self._not_sent as error:
            raise TransportError(
                f"cannot connect to {_place(library, url)}: {_said(error)}", absent=finds_nobody(error)
            ) from error
        except library.InvalidURL as error:
            raise TransportError(f"not a URL for httpx: {_said(error)}", permanent=True) from error
        except (library.HTTPError, OSError) as error:
            raise OutcomeUnknownError(f"the connection was lost: {_said(error)}") from error
        except RuntimeError as error:  # a client that its user has closed
            raise TransportError(f"the HTTP client cannot send: {error}", permanent=True) from error
        return HttpxResponse(response, library)

    async def close(self) -> None:
        """Nothing: a client that was handed in is its user's to close."""


def _place(library: ModuleType, url: str) -> str:
    place = library.URL(url)
    return f"{place.scheme}://{place.netloc.decode('ascii')}"


def _said(error: BaseException) -> str:
    return str(error) or type(error).__name__
