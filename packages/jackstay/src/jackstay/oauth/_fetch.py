"""One bounded exchange with a stranger: so many bytes, so many seconds, and no redirect that leads elsewhere.

The HTTP client is the transport's own, with its proxies and certificates. Nothing here knows what is asked.

Above: discovery, registration, tokens. Below: the contract of `jackstay.transport`.
"""

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
# For each of them, whatever time people have for their part: an authorization server that takes longer is down.
SECONDS = 10.0
# An origin that moved its documents does so once; http to https is another origin, and never followed.
MAX_REDIRECTS = 3

_REDIRECTS = frozenset((301, 302, 303, 307, 308))


class Reply(msgspec.Struct, frozen=True):
    """A response that was read to its end."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def is_json(self) -> bool:
        """True where the body says that it is JSON."""
        kind = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        return kind == "application/json" or kind.endswith("+json")


async def get(client: HttpClient, url: str) -> Reply:
    """GET a public document. Redirects are followed on the same origin only; any other is the reply.

    Raises: TransportError (passing), AuthorizationError.
    """
    for _ in range(MAX_REDIRECTS + 1):
        reply = await _exchange(client, "GET", url, (("Accept", "application/json"),), None)
        if reply.status not in _REDIRECTS:
            return reply
        try:
            there = resolve_url(url, reply.headers.get("location", ""))
        except ProtocolError:
            return reply
        if not is_same_origin(url, there):
            return reply
        url = there
    return reply


async def probe(client: HttpClient, url: str, headers: Headers = ()) -> tuple[int, Mapping[str, str]]:
    """Status and headers of a GET, whose body is not waited for: it may be a stream without end.

    Raises: TransportError (passing).
    """
    accepting = ("Accept", "application/json, text/event-stream")
    async with _bounded(url):
        response = await client.send("GET", url, (accepting, *headers), None)
        await response.close()
    return response.status, response.headers


async def post(client: HttpClient, url: str, headers: tuple[tuple[str, str], ...], body: bytes) -> Reply:
    """POST; a redirect is the reply, because what is posted are credentials.

    Raises: TransportError (passing), AuthorizationError.
    """
    return await _exchange(client, "POST", url, (("Accept", "application/json"), *headers), body)


async def _exchange(
    client: HttpClient, method: str, url: str, headers: tuple[tuple[str, str], ...], body: bytes | None
) -> Reply:
    async with _bounded(url) as where:
        response = await client.send(method, url, headers, body)
        try:
            read = bytearray()
            async for chunk in response.chunks():
                read += chunk
                if len(read) > MAX_BYTES:
                    raise AuthorizationError(f"{where} answers more than {MAX_BYTES} bytes")
        finally:
            await response.close()
    return Reply(response.status, response.headers, bytes(read))


@asynccontextmanager
async def _bounded(url: str) -> AsyncIterator[str]:
    """Within the time, and with errors that say what they mean to the call that waits: it was not sent."""
    where = url.partition("?")[0]
    try:
        async with asyncio.timeout(SECONDS):
            yield where
    except AuthorizationError:
        raise
    except TimeoutError as error:
        raise TransportError(f"{where} did not answer within {SECONDS:g} s") from error
    except McpError as error:
        raise TransportError(f"{where} could not be asked: {error.message}") from error
