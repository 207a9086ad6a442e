"""Checks of untrusted URLs, the well-known metadata URLs, and matching of resource identifiers.

A URL from a server or its metadata is checked before a request is sent to it or a browser opens it: https, or http on
loopback (2026-07-28 basic/authorization, "Security Considerations"; RFC 9728, 7.7: server-side request forgery).
"""

import re
from urllib.parse import urlsplit

from jackstay.oauth._errors import AuthorizationError, quoted
from jackstay.protocol.http import origin_of
from jackstay.transport.http import address_of, is_loopback

PROTECTED_RESOURCE = "/.well-known/oauth-protected-resource"
AUTHORIZATION_SERVER = "/.well-known/oauth-authorization-server"
OPENID = "/.well-known/openid-configuration"

# Characters that URL parsers treat differently: controls, spaces, non-ASCII, and the backslash, a slash in browsers.
_UNSAFE_CHARACTERS = re.compile(r"[\x00-\x20\x7f\\]|[^\x00-\x7f]")
_MAX_LENGTH = 2048


def check_url(url: str, what: str, server: str) -> str:
    """Return `url` if requests to it are allowed on behalf of `server`. `what` describes it in the error.

    https is required, except on loopback. Loopback is allowed only for a server on loopback, link-local addresses
    never: a remote server must not reach local services through this client.

    Raises: AuthorizationError.
    """
    origin = None
    if len(url) <= _MAX_LENGTH and _UNSAFE_CHARACTERS.search(url) is None:
        origin = origin_of(url)
    if origin is None or "@" in urlsplit(url).netloc or "#" in url:
        raise AuthorizationError(f"{what} is not a valid http or https URL: {quoted(url)}")
    scheme, host, _ = origin
    if _is_link_local(host):
        raise AuthorizationError(f"{what} must not be a link-local address: {quoted(url)}")
    if is_loopback(url):
        if not is_loopback(server):
            raise AuthorizationError(f"{what} must not be on loopback, because the server is not: {quoted(url)}")
    elif scheme != "https":
        raise AuthorizationError(f"{what} must be https: {quoted(url)}")
    return url


def protected_resource_urls(server: str) -> list[str]:
    """Return the metadata URLs of a server in order: for its path, then for its origin (RFC 9728, 3.1)."""
    base, path = _parts(server)
    return list(dict.fromkeys((f"{base}{PROTECTED_RESOURCE}{path}", f"{base}{PROTECTED_RESOURCE}")))


def authorization_server_urls(issuer: str) -> list[str]:
    """Return the metadata URLs of an authorization server in order (RFC 8414, 3.1; OpenID Connect Discovery)."""
    base, path = _parts(issuer)
    if not path:
        return [f"{base}{AUTHORIZATION_SERVER}", f"{base}{OPENID}"]
    return [f"{base}{AUTHORIZATION_SERVER}{path}", f"{base}{OPENID}{path}", f"{base}{path}{OPENID}"]


def root_of(url: str) -> str:
    """Return scheme and authority: the issuer of a server without metadata (2025-03-26 basic/authorization)."""
    return _parts(url)[0]


def canonical(server: str) -> str:
    """Return the resource identifier of a server without metadata: its URL without query and fragment (RFC 8707)."""
    base, path = _parts(server)
    return base + path


def is_resource_of(resource: str, server: str) -> bool:
    """Return whether `resource` identifies the server at this URL: the same origin, and its path or a parent of it.

    RFC 9728 requires identical values for a document at the path. Documents for the whole origin are common and come
    from the same party; a sibling path may not.
    """
    if "#" in resource or len(resource) > _MAX_LENGTH or _UNSAFE_CHARACTERS.search(resource) is not None:
        return False
    if origin_of(resource) is None or origin_of(resource) != origin_of(server):
        return False
    prefix, path = _parts(resource)[1], _parts(server)[1]
    return path == prefix or path.startswith(f"{prefix}/")


def _parts(url: str) -> tuple[str, str]:
    """Return the origin in lower case and the path without a trailing slash."""
    parts = urlsplit(url)
    return f"{parts.scheme.lower()}://{parts.netloc.lower()}", parts.path.rstrip("/")


def _is_link_local(host: str) -> bool:
    address = address_of(host)
    return address is not None and address.is_link_local
