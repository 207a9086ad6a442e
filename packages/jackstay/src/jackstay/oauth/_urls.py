"""Which URLs of strangers may be asked, where metadata is to be found, and whether a resource is the server we asked.

Every URL in this room but the first comes from a peer: a header of the server, its metadata, the metadata of who it names.
Each is checked before anything is sent there or a browser is opened on it (2026-07-28 basic/authorization, "Security
Considerations": https, or http on loopback; RFC 9728, section 7.7: requests that a peer forges through us).

Pure. Above: discovery, registration and the flow. Below: `jackstay.protocol.http` (origins), `jackstay.transport.http` (loopback).
"""

import re
from urllib.parse import urlsplit

from jackstay.oauth._errors import AuthorizationError, quoted
from jackstay.protocol.http import origin_of
from jackstay.transport.http import address_of, is_loopback

PROTECTED_RESOURCE = "/.well-known/oauth-protected-resource"
AUTHORIZATION_SERVER = "/.well-known/oauth-authorization-server"
OPENID = "/.well-known/openid-configuration"

# What parsers disagree about: controls and blanks, and the backslash that is a slash to browsers.
_DUBIOUS = re.compile(r"[\x00-\x20\x7f\\]|[^\x00-\x7f]")
_LONGEST = 2048


def check_url(url: str, what: str, server: str) -> str:
    """`url` itself, if it may be asked on behalf of `server`. `what` names it in the error.

    https; http on loopback only. Loopback only for a server that is there itself, and link-local addresses never: a
    server on the network must not reach through us what only this machine can reach.

    Raises: AuthorizationError.
    """
    origin = None
    if len(url) <= _LONGEST and _DUBIOUS.search(url) is None:
        origin = origin_of(url)
    if origin is None or "@" in urlsplit(url).netloc or "#" in url:
        raise AuthorizationError(f"{what} is not a plain http or https URL: {quoted(url)}")
    scheme, host, _ = origin
    if _is_link_local(host):
        raise AuthorizationError(f"{what} is a link-local address, which is never asked: {quoted(url)}")
    if is_loopback(url):
        if not is_loopback(server):
            raise AuthorizationError(
                f"{what} is on this machine, and the server that names it is not: {quoted(url)}"
            )
    elif scheme != "https":
        raise AuthorizationError(f"{what} must be https: {quoted(url)}")
    return url


def protected_resource_urls(server: str) -> list[str]:
    """Where the metadata of a server may be, in the order to ask: for its path, then for its origin (RFC 9728, 3.1)."""
    base, path = _parts(server)
    return list(dict.fromkeys((f"{base}{PROTECTED_RESOURCE}{path}", f"{base}{PROTECTED_RESOURCE}")))


def authorization_server_urls(issuer: str) -> list[str]:
    """Where the metadata of an authorization server may be, in the order to ask (RFC 8414, 3.1; OpenID discovery)."""
    base, path = _parts(issuer)
    if not path:
        return [f"{base}{AUTHORIZATION_SERVER}", f"{base}{OPENID}"]
    return [f"{base}{AUTHORIZATION_SERVER}{path}", f"{base}{OPENID}{path}", f"{base}{path}{OPENID}"]


def root_of(url: str) -> str:
    """Scheme and authority: the issuer of a server that has no metadata (2025-03-26 basic/authorization)."""
    return _parts(url)[0]


def canonical(server: str) -> str:
    """The resource identifier of a server that publishes none: its URL without query and fragment (RFC 8707)."""
    base, path = _parts(server)
    return base + path


def is_resource_of(resource: str, server: str) -> bool:
    """True where `resource` names the server at that URL: the same origin, and its path or one above.

    RFC 9728 wants the two identical where the document was found for the path. A server that publishes one document for
    its whole origin is common, and the origin is the same party; another path beside ours is not.
    """
    if "#" in resource or len(resource) > _LONGEST or _DUBIOUS.search(resource) is not None:
        return False
    if origin_of(resource) is None or origin_of(resource) != origin_of(server):
        return False
    above, path = _parts(resource)[1], _parts(server)[1]
    return path == above or path.startswith(f"{above}/")


def _parts(url: str) -> tuple[str, str]:
    """The origin as it is spelled, scheme and host in lower case; the path without the slash at its end."""
    parts = urlsplit(url)
    return f"{parts.scheme.lower()}://{parts.netloc.lower()}", parts.path.rstrip("/")


def _is_link_local(host: str) -> bool:
    address = address_of(host)
    return address is not None and address.is_link_local
