"""The contract of what sends requests, and the redirects that are followed."""

import asyncio
from typing import Protocol
from urllib.parse import urljoin, urlsplit

from jackstay.openapi._operations import Request
from jackstay.openapi._responses import Response

MAX_REDIRECTS = 5
_DEFAULT_PORTS = {"http": 80, "https": 443}


class SendError(Exception):
    """There is no complete response. `was_sent` is False if the API certainly did not receive the request."""

    def __init__(self, message: str, *, was_sent: bool = True) -> None:
        super().__init__(message)
        self.was_sent = was_sent


class Sender(Protocol):
    """Sends requests to an API. A response with a body of more than `limit` bytes is a SendError."""

    async def send(self, url: str, request: Request, limit: int) -> Response:
        """Send a request to this URL, and return the complete response. Raises: SendError."""

    async def close(self) -> None:
        """Release connections. The sender can be used again."""


async def send_request(sender: Sender, server: str, request: Request, timeout: float, limit: int) -> Response:
    """Send a request to a server, and follow redirects to the same origin. `timeout` is for all of them together.

    Raises: SendError.
    """
    try:
        async with asyncio.timeout(timeout):
            url = server + request.target
            for _ in range(MAX_REDIRECTS + 1):
                response = await sender.send(url, request, limit)
                location = response.headers.get("location")
                following = redirected(request, response.status)
                if following is None or location is None:
                    return response
                target = urljoin(url, location)
                if origin_of(target) != origin_of(url):
                    message = f"HTTP {response.status}: redirects to another origin are not followed: {location[:200]}"
                    raise SendError(message)
                url, request = target.partition("#")[0], following
            raise SendError(f"more than {MAX_REDIRECTS} redirects")
    except TimeoutError as error:
        raise SendError(f"no complete response within {timeout:g} s") from error


def redirected(request: Request, status: int) -> Request | None:
    """Return the request that follows a redirect; None if the status is no redirect that can be followed.

    A POST that a 301 or 302 redirects is not repeated, because clients differ in what they make of it (RFC 9110,
    section 15.4).
    """
    is_get = request.method in ("GET", "HEAD")
    if status in (307, 308) or (is_get and status in (301, 302, 303)):
        return request
    if status == 303:
        headers = tuple(row for row in request.headers if row[0].lower() != "content-type")
        return Request("GET", request.target, headers, None)
    return None


def origin_of(url: str) -> tuple[str, str, int | None]:
    """Return the scheme, the host and the port of a URL."""
    try:
        parts = urlsplit(url)
        return parts.scheme, parts.hostname or "", parts.port or _DEFAULT_PORTS.get(parts.scheme)
    except ValueError:
        return "", "", None
