"""Credentials of the user: headers, bearer tokens and basic authentication.

Values never appear in errors, logs or a `repr`.
"""

import binascii
import re

from jackstay.errors import UsageError
from jackstay.transport.http._contract import Authorizer

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE = re.compile(r"[\t\x20-\x7e]*")

# Wider than RFC 6750, section 2.1: servers issue tokens that do not follow it.
_BEARER = re.compile(r"[\x21-\x7e]+")

# Headers that the transport sets itself.
RESERVED = frozenset(
    (
        "accept", "connection", "content-length", "content-type", "host", "last-event-id", "mcp-method", "mcp-name",
        "mcp-protocol-version", "mcp-session-id", "te", "trailer", "transfer-encoding", "upgrade",
    )
)  # fmt: skip

# Headers whose values are secrets.
CREDENTIALS = frozenset(("authorization", "cookie", "proxy-authorization", "x-api-key", "api-key"))

# What `http(auth=...)` accepts.
Auth = str | tuple[str, str] | Authorizer


def check_headers(headers: object) -> tuple[tuple[str, str], ...]:
    """Return the user's headers as pairs. Raises: UsageError, with the header's name and never its value."""
    if headers is None:
        return ()
    pairs = list(headers.items()) if hasattr(headers, "items") else headers
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
    return tuple(pairs)


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
