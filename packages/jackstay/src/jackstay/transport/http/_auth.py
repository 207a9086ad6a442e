"""Credentials: headers, bearer tokens and basic authentication, and one call at a time to an authorizer.

If several requests are rejected at once, the authorizer is called for one of them, and the others are sent again with
the new credentials. Values never appear in errors, logs or a `repr`.
"""

import asyncio
import binascii
import re
from collections.abc import Mapping

from jackstay.errors import UsageError
from jackstay.transport.http._contract import Authorizer, Challenge, Headers, HttpClient, Prover

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE = re.compile(r"[\t\x20-\x7e]*")

# Wider than RFC 6750, section 2.1: servers issue tokens that do not follow it.
_BEARER = re.compile(r"[\x21-\x7e]+")

# Headers that the transport sets itself.
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

# Headers whose values are secrets.
CREDENTIALS = frozenset(("authorization", "cookie", "proxy-authorization", "x-api-key", "api-key"))

# What `http(auth=...)` accepts.
Auth = str | tuple[str, str] | Authorizer


def check_headers(headers: object) -> tuple[tuple[str, str], ...]:
    """Return the user's headers as pairs. Raises: UsageError, with the header's name and never its value."""
    if headers is None:
        return ()
    pairs = list(headers.items()) if hasattr(headers, "items") else headers
    found: list[tuple[str, str]] = []
    try:
        pairs = [(name, value) for name, value in pairs]  # type: ignore[attr-defined]  # TypeError is handled
    except (TypeError, ValueError):
        raise UsageError("headers must be a dict[str, str] or a list of pairs", path="headers") from None
    for name, value in pairs:
        if not isinstance(name, str) or _TOKEN.fullmatch(name) is None:
            raise UsageError(f"invalid header name {str(name)[:80]!a}", path="headers")
        if name.lower() in RESERVED or name.lower().startswith("mcp-param-"):
            raise UsageError(f"the header {name!r} is set by the client and cannot be passed", path="headers")
        if not isinstance(value, str) or _VALUE.fullmatch(value) is None or value != value.strip(" \t"):
            message = f"the value of the header {name!r} must be an ASCII str without newlines or surrounding spaces"
            raise UsageError(message, path="headers")
        found.append((name, value))
    return tuple(found)


def static_credentials(auth: object) -> tuple[tuple[str, str], ...] | None:
    """Return the header for a bearer token or for a user name and password; None for an authorizer.

    Raises: UsageError, without the value.
    """
    if auth is None:
        return ()
    if isinstance(auth, str):
        if _BEARER.fullmatch(auth) is None:
            raise UsageError("auth: a bearer token must be visible ASCII, without 'Bearer' or spaces", path="auth")
        return (("Authorization", f"Bearer {auth}"),)
    if isinstance(auth, tuple):
        if len(auth) != 2 or not all(isinstance(part, str) for part in auth) or ":" in auth[0]:
            raise UsageError("auth must be a tuple[str, str] of a user name without ':' and a password", path="auth")
        packed = binascii.b2a_base64(f"{auth[0]}:{auth[1]}".encode(), newline=False).decode("ascii")
        return (("Authorization", f"Basic {packed}"),)
    if isinstance(auth, Authorizer):
        return None
    raise UsageError(
        "auth must be a bearer token (str), a user name and password (tuple[str, str]) or an Authorizer, "
        f"not {type(auth).__name__}",
        path="auth",
    )


class Credentials:
    """An authorizer, called for one challenge at a time."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer
        self._prover = authorizer if isinstance(authorizer, Prover) else None
        self._lock = asyncio.Lock()

    async def headers(self, client: HttpClient, url: str) -> Headers:
        """Return the credentials for a request. Raises: McpError."""
        return await self._authorizer.headers(client, url)

    def prove(self, url: str, method: str, target: str) -> Headers:
        """Return the proof for a request to `target` with the credentials for `url`, if they need one."""
        return () if self._prover is None else self._prover.prove(url, method, target)

    def note_response(self, target: str, headers: Mapping[str, str]) -> None:
        """Pass the headers of a response to the authorizer."""
        if self._prover is not None:
            self._prover.note_response(target, headers)

    def requires_nonce(self, challenge: Challenge) -> bool:
        """Return whether the request only has to be repeated with the nonce of this response."""
        return self._prover is not None and self._prover.requires_nonce(challenge)

    async def renew(
        self, client: HttpClient, challenge: Challenge, used: Headers, challenged_statuses: set[int]
    ) -> bool:
        """Return whether there are other credentials than `used`: obtained for another request meanwhile, or now.

        If the authorizer is called, the status is added to `challenged_statuses`. It is not added if another request
        has obtained the new credentials: they may not be what this one needs.

        Raises: McpError.
        """
        if self.requires_nonce(challenge):
            return True
        async with self._lock:
            if list(await self._authorizer.headers(client, challenge.url)) != list(used):
                return True
            challenged_statuses.add(challenge.status)
            return await self._authorizer.challenged(client, challenge)
