"""Credentials: the simple ones as an authorizer, and the asking of any authorizer, one at a time.

A bearer token and a name with its password never change, so they are headers like any other; what can change is asked
for with every request. When several requests are refused at once, the authorizer is asked for one of them, and the
others are sent again with what it found.

Values are never shown: not in errors, not in logs, not in a `repr`.

Must never know what is sent. Above: `_sending`, `_target`. Below: the contract.
"""

import asyncio
import binascii
import re

from jackstay.errors import UsageError
from jackstay.transport.http._contract import Authorizer, Challenge, Headers, HttpClient

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE = re.compile(r"[\t\x20-\x7e]*")

# RFC 6750, section 2.1, but for the padding that must come last: servers hand out stranger tokens than that.
_BEARER = re.compile(r"[\x21-\x7e]+")

# What the transport says itself; a second line of the same name would contradict it.
RESERVED = frozenset(
    (
        "accept",
        "connection",
        "content-length",
        "content-type",
        "host",
        "last-event-id",
        "mcp-method",
        "mcp-name",
        "mcp-protocol-version",
        "mcp-session-id",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    )
)

# Headers that are secrets wherever they go.
CREDENTIALS = frozenset(("authorization", "cookie", "proxy-authorization", "x-api-key", "api-key"))

# What `auth=` takes.
Auth = str | tuple[str, str] | Authorizer


def check_headers(headers: object) -> tuple[tuple[str, str], ...]:
    """The user's own headers. Raises: UsageError, naming the header and never its value."""
    if headers is None:
        return ()
    pairs = list(headers.items()) if hasattr(headers, "items") else headers
    found: list[tuple[str, str]] = []
    try:
        pairs = [(name, value) for name, value in pairs]  # type: ignore[attr-defined]  # what is not is refused below
    except (TypeError, ValueError):
        raise UsageError("headers must be names with values", path="headers") from None
    for name, value in pairs:
        if not isinstance(name, str) or _TOKEN.fullmatch(name) is None:
            raise UsageError(f"{str(name)[:80]!a} is no name of a header", path="headers")
        if name.lower() in RESERVED or name.lower().startswith("mcp-param-"):
            raise UsageError(f"the header {name} is said by the client itself", path="headers")
        if not isinstance(value, str) or _VALUE.fullmatch(value) is None or value != value.strip(" \t"):
            message = f"the value of the header {name} must be ASCII without line ends or spaces around it"
            raise UsageError(message, path="headers")
        found.append((name, value))
    return tuple(found)


def static_credentials(auth: object) -> tuple[tuple[str, str], ...] | None:
    """The header of a bearer token or of a name with its password; None for an authorizer, which is asked.

    Raises: UsageError, without what it was given.
    """
    if auth is None:
        return ()
    if isinstance(auth, str):
        if _BEARER.fullmatch(auth) is None:
            raise UsageError("a bearer token must be visible ASCII, without `Bearer` or spaces", path="auth")
        return (("Authorization", f"Bearer {auth}"),)
    if isinstance(auth, tuple):
        if len(auth) != 2 or not all(isinstance(part, str) for part in auth) or ":" in auth[0]:
            raise UsageError("a name (without a colon) and its password are two texts", path="auth")
        packed = binascii.b2a_base64(f"{auth[0]}:{auth[1]}".encode(), newline=False).decode("ascii")
        return (("Authorization", f"Basic {packed}"),)
    if isinstance(auth, Authorizer):
        return None
    raise UsageError("auth must be a bearer token, a name with its password, or an Authorizer", path="auth")


class Credentials:
    """An authorizer, asked about one refusal at a time."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer
        self._lock = asyncio.Lock()

    async def headers(self, client: HttpClient, url: str) -> Headers:
        """The credentials for a request. Raises: McpError."""
        return await self._authorizer.headers(client, url)

    async def renewed(self, client: HttpClient, challenge: Challenge, used: Headers, asked: set[int]) -> bool:
        """Whether there are others than those that were `used`: found meanwhile for another request, or by asking now.

        What was asked about is added to `asked`; what another request found is not: it may not be what this one needs.

        Raises: McpError.
        """
        async with self._lock:
            if list(await self._authorizer.headers(client, challenge.url)) != list(used):
                return True
            asked.add(challenge.status)
            return await self._authorizer.challenged(client, challenge)
