"""What is asked of an HTTP client, and of who holds the credentials: the two parts of the HTTP transport that users may bring.

An `HttpClient` moves one request and one response; it follows no redirect, keeps no cookie and knows nothing of MCP. It
says, of every failure, whether the request may have reached the server, because everything above depends on that.
An `Authorizer` adds credentials to requests, and is asked once about a response that demands others.

Above: the HTTP transport, `jackstay.oauth`, and everybody who brings a client of his own. Below: `jackstay.errors`.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

import msgspec

# Names and values as they are sent; values are Latin-1 text, as HTTP libraries and ASGI understand it.
Headers: TypeAlias = Sequence[tuple[str, str]]


class HttpResponse(Protocol):
    """A response whose headers are here. Whoever gets one closes it."""

    @property
    def status(self) -> int:
        """The status code."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Names in lower case; lines of one name joined by a comma (see `jackstay.protocol.http.fold_headers`)."""

    def chunks(self) -> AsyncIterator[bytes]:
        """The body, content encodings undone, as it arrives. Once.

        Raises: OutcomeUnknownError where the connection breaks, or ends before the body does.
        """

    async def close(self) -> None:
        """Be done with it. At any time, and again. Before the end of the body it ends the connection: a cancel."""


@runtime_checkable
class HttpClient(Protocol):
    """An HTTP client of the user's choice: what `http(client=...)` takes."""

    async def send(self, method: str, url: str, headers: Headers, body: bytes | None) -> HttpResponse:
        """Send a request; returns when the response's headers are here. Cancelling it ends the connection.

        Never follows a redirect, and never sends anything twice by itself.

        Raises: TransportError where nothing was sent (no such host, refused, no TLS, no free connection in time);
        OutcomeUnknownError where it was, or may have been.
        """

    async def close(self) -> None:
        """End every connection. At any time, and again."""


class Challenge(msgspec.Struct, frozen=True):
    """A 401 or 403: what the authorizer is asked about."""

    url: str
    status: int
    # The value of the field; none: the answer has no such field.
    www_authenticate: tuple[str, ...] = ()


@runtime_checkable
class Authorizer(Protocol):
    """Who holds the credentials: what `http(auth=...)` takes, beside a bearer token and a name with its password.

    One that may have to ask a person has an attribute `patience`: how many seconds that may take. A start waits so long.
    """

    async def headers(self, client: HttpClient, url: str) -> Headers:
        """The credentials for a request to the server at `url`. Asked for every request; tokens are refreshed when due.

        `url` is the server's, also where the request goes to another path of its origin.

        Raises: McpError where there are none and cannot be: the request is not sent.
        """

    async def challenged(self, client: HttpClient, challenge: Challenge) -> bool:
        """The server wants other credentials. True: there are some now, send that request again.

        Asked once about a 401 and once about a 403 of a request.

        Raises: McpError where they were refused: that is then the request's error.
        """
