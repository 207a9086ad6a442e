"""HTTP requests to untrusted servers with limits on size, time and redirects, through the transport's HTTP client."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import msgspec

from jackstay.errors import McpError, ProtocolError, TransportError
from jackstay.oauth._errors import AuthorizationError
from jackstay.protocol.http import is_same_origin, resolve_url
from jackstay.transport import HttpClient
from jackstay.transport.http import Headers

# The largest metadata seen in the wild is under 10 KiB; tokens with many claims reach 20 KiB.
MAX_BYTES = 262_144
# The timeout of each request, independent of the time that the user has for the sign-in.
SECONDS = 10.0
# Redirects on the same origin; http to https is another origin and is not followed.
MAX_REDIRECTS = 3

_REDIRECTS = frozenset((301, 302, 303, 307, 308))


class Reply(msgspec.Struct, frozen=True):
    """A complete response."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def is_json(self) -> bool:
        """True if the content type is JSON."""
        kind = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        return kind == "application/json" or kind.endswith("+json")


async def get(client: HttpClient, url: str) -> Reply:
    """GET a public document. Follows redirects on the same origin; any other redirect is returned.

    Raises: TransportError (transient), AuthorizationError.
    """
    for _ in range(MAX_REDIRECTS + 1):
        reply = await exchange(client, "GET", url)
        if reply.status not in _REDIRECTS:
            return reply
        try:
            location = resolve_url(url, reply.headers.get("location", ""))
        except ProtocolError:
            return reply
        if not is_same_origin(url, location):
            return reply
        url = location
    return reply


async def probe(client: HttpClient, url: str, headers: Headers = ()) -> tuple[int, Mapping[str, str]]:
    """Return status and headers of a GET without reading the body, which may be an endless stream.

    Raises: TransportError (transient).
    """
    accept = ("Accept", "application/json, text/event-stream")
    async with _bounded(url):
        response = await client.send("GET", url, (accept, *headers), None)
        await response.close()
    return response.status, response.headers


async def exchange(
    client: HttpClient, method: str, url: str, headers: Headers = (), body: bytes | None = None
) -> Reply:
    """Send a request that accepts JSON, and return the response. Redirects are not followed.

    Raises: TransportError (transient), AuthorizationError.
    """
    async with _bounded(url) as where:
        response = await client.send(method, url, (("Accept", "application/json"), *headers), body)
        try:
            read = bytearray()
            async for chunk in response.chunks():
                read += chunk
                if len(read) > MAX_BYTES:
                    raise AuthorizationError(f"{where}: the response is larger than {MAX_BYTES} bytes")
        finally:
            await response.close()
    return Reply(response.status, response.headers, bytes(read))


@asynccontextmanager
async def _bounded(url: str) -> AsyncIterator[str]:
    """Apply the timeout, and convert errors to TransportError: the call that needs authorization was not sent."""
    where = url.partition("?")[0]
    try:
        async with asyncio.timeout(SECONDS):
            yield where
    except AuthorizationError:
        raise
    except TimeoutError as error:
        raise TransportError(f"{where}: no response within {SECONDS:g} s") from error
    except McpError as error:
        raise TransportError(f"{where}: request failed: {error.message}") from error
