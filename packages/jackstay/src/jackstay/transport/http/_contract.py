"""The parts of the HTTP transport that users can replace: the HTTP client and the authorizer.

An `HttpClient` sends one request and returns one response. It states of every failure whether the request may have
reached the server. An `Authorizer` adds credentials to requests and handles a response that requires others.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

import msgspec

# Names and values as they are sent; values are bytes decoded as Latin-1, as in ASGI.
Headers: TypeAlias = Sequence[tuple[str, str]]


class HttpResponse(Protocol):
    """A response whose headers have arrived. The caller closes it."""

    @property
    def status(self) -> int:
        """The status code."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Names in lower case; lines of one name joined by a comma (see `jackstay.protocol.http.fold_headers`)."""

    def chunks(self) -> AsyncIterator[bytes]:
        """Iterate, once, over the decoded body as it arrives.

        Raises: OutcomeUnknownError if the connection is lost before the end of the body.
        """

    async def close(self) -> None:
        """Close the response, and before the end of the body the connection. May be called at any time, and again."""


@runtime_checkable
class HttpClient(Protocol):
    """An HTTP client, for `http(client=...)`."""

    async def send(self, method: str, url: str, headers: Headers, body: bytes | None) -> HttpResponse:
        """Send a request and return when the headers of the response have arrived. Cancelling closes the connection.

        It must not follow redirects, keep cookies or retry.

        Raises:
            TransportError: nothing was sent (no such host, connection refused, no TLS, no free connection in time).
            OutcomeUnknownError: the request was sent, or may have been.
        """

    async def close(self) -> None:
        """Close every connection. May be called at any time, and again."""


class Challenge(msgspec.Struct, frozen=True):
    """A 401 or 403 response, passed to `Authorizer.challenged`."""

    url: str
    status: int
    # The value of the header; empty if the response has none.
    www_authenticate: tuple[str, ...] = ()


@runtime_checkable
class Authorizer(Protocol):
    """A source of credentials, for `http(auth=...)`.

    An authorizer that may require a user to sign in has an attribute `sign_in_timeout`, in seconds. The start of a
    connection waits that much longer.
    """

    async def headers(self, client: HttpClient, url: str) -> Headers:
        """Return the credentials for a request to the server at `url`. Called for every request.

        `url` is the server's, even if the request goes to another path of its origin.

        Raises: McpError if there are none; the request is not sent.
        """

    async def challenged(self, client: HttpClient, challenge: Challenge) -> bool:
        """Handle a response that requires other credentials. Return True to send the request again.

        Called at most once for a 401 and once for a 403 of one request.

        Raises: McpError if authorization failed; it becomes the error of the request.
        """


@runtime_checkable
class Prover(Protocol):
    """What an `Authorizer` also has if its credentials are bound to a key: a proof with each request (RFC 9449)."""

    def prove(self, url: str, method: str, target: str) -> Headers:
        """Return the proof for a request to `target` with the credentials of the server at `url`, if it needs one."""

    def note_response(self, target: str, headers: Mapping[str, str]) -> None:
        """Called with every response: it may have the nonce of the next proof."""

    def requires_nonce(self, challenge: Challenge) -> bool:
        """Return whether the request only has to be repeated, with the nonce of this response in its proof."""
