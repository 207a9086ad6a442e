"""Discovery of the authorization server of an MCP server (2026-07-28 basic/authorization), and OAuth documents.

The resource and the issuer of the metadata must match the requested ones. A server without metadata is treated as one
of 2025-03-26: its origin is the issuer, with default endpoints.
"""

import re
from collections.abc import Iterable
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec

from jackstay.errors import TransportError
from jackstay.oauth._errors import AuthorizationError, quoted
from jackstay.oauth._fetch import get
from jackstay.protocol.http import origin_of
from jackstay.transport import HttpClient
from jackstay.transport.http import address_of, is_loopback
from jackstay.types import DECODE_ERRORS

# The supported grant types.
AUTHORIZATION_CODE = "authorization_code"
REFRESH_TOKEN = "refresh_token"  # noqa: S105 - the name of a grant
CLIENT_CREDENTIALS = "client_credentials"
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"


class ProtectedResource(msgspec.Struct, frozen=True):
    """Protected resource metadata (RFC 9728, section 2)."""

    resource: str
    authorization_servers: tuple[str, ...] | None = None
    scopes_supported: tuple[str, ...] | None = None
    dpop_bound_access_tokens_required: bool | None = None


class AuthorizationServer(msgspec.Struct, frozen=True):
    """Authorization server metadata (RFC 8414, section 2), or the defaults of 2025-03-26."""

    issuer: str
    token_endpoint: str
    authorization_endpoint: str | None = None
    registration_endpoint: str | None = None
    scopes_supported: tuple[str, ...] | None = None
    grant_types_supported: tuple[str, ...] | None = None
    code_challenge_methods_supported: tuple[str, ...] | None = None
    token_endpoint_auth_methods_supported: tuple[str, ...] | None = None
    token_endpoint_auth_signing_alg_values_supported: tuple[str, ...] | None = None
    client_id_metadata_document_supported: bool | None = None
    authorization_response_iss_parameter_supported: bool | None = None
    # RFC 9449, 5.1.
    dpop_signing_alg_values_supported: tuple[str, ...] | None = None

    def error(self, message: str, *, error: str = "", permanent: bool = True) -> AuthorizationError:
        """Return an error that names this server as the issuer."""
        return AuthorizationError(message, error=error, issuer=self.issuer, permanent=permanent)


class RegistrationResponse(msgspec.Struct, frozen=True):
    """Response of dynamic client registration (RFC 7591, 3.2.1)."""

    client_id: str
    client_secret: str | None = None
    client_secret_expires_at: float | None = None
    token_endpoint_auth_method: str | None = None
    scope: str | None = None


class Access(msgspec.Struct, frozen=True):
    """The authorization server and the resource identifier of an MCP server, as the server publishes it."""

    resource: str
    server: AuthorizationServer
    scopes_supported: tuple[str, ...] = ()
    # True if the authorization server has no metadata and its endpoints are the defaults of 2025-03-26.
    uses_default_endpoints: bool = False
    # True if tokens must be bound to a key (RFC 9449).
    uses_dpop: bool = False

    @property
    def issuer(self) -> str:
        """The issuer identifier of the authorization server."""
        return self.server.issuer


Document = TypeVar("Document", bound=msgspec.Struct)


def read_document(body: bytes, kind: type[Document], what: str) -> Document:
    """Decode a document. `what` describes it in the error.

    Raises: AuthorizationError, which never quotes the body, because it may contain a token.
    """
    try:
        return msgspec.json.decode(body, type=kind)
    except DECODE_ERRORS as error:
        reason = str(error) if isinstance(error, msgspec.ValidationError) else "invalid JSON"
        raise AuthorizationError(f"{what} is invalid: {reason}") from None


async def discover(client: HttpClient, url: str, metadata_url: str = "", issuer: str = "") -> Access:
    """Find the authorization server of the MCP server at `url`. `metadata_url` is from its challenge.

    If the server lists several authorization servers, `issuer` is preferred.

    Raises: AuthorizationError for invalid metadata, TransportError if a server cannot be reached.
    """
    check_url(url.partition("#")[0], "the server URL", url)
    resource = await find_resource(client, url, metadata_url)
    if resource is None:
        return await _discover_2025_03_26(client, url)
    listed = resource.authorization_servers or ()
    if not listed:
        raise AuthorizationError(f"{url.partition('?')[0]}: metadata has no authorization_servers")
    # RFC 9728, 7.6: the client chooses among several. The configured issuer is preferred, else the first is used.
    chosen = check_url(issuer if issuer in listed else listed[0], "the authorization server", url)
    server = await find_authorization_server(client, chosen, url)
    if server is None:
        raise AuthorizationError(f"{chosen}: no authorization server metadata found", issuer=chosen)
    return Access(
        resource.resource,
        server,
        resource.scopes_supported or (),
        uses_dpop=resource.dpop_bound_access_tokens_required is True,
    )


async def find_resource(client: HttpClient, url: str, metadata_url: str) -> ProtectedResource | None:
    """Return the protected resource metadata of the server, from `metadata_url` or the well-known URLs, or None.

    Raises: AuthorizationError, TransportError.
    """
    candidates = protected_resource_urls(url)
    if metadata_url:
        candidates = [check_url(metadata_url, "resource_metadata", url), *candidates]
    found, where = await _first_document(client, dict.fromkeys(candidates), ProtectedResource)
    # RFC 9728, 3.3. Otherwise a server could obtain tokens for another one.
    if found is not None and not is_resource_of(found.resource, url):
        raise AuthorizationError(f"the metadata at {where} is for another resource: {quoted(found.resource)}")
    return found


async def find_authorization_server(
    client: HttpClient, issuer: str, url: str, *spellings: str
) -> AuthorizationServer | None:
    """Return the metadata of an authorization server, or None. Its issuer must be `issuer` or another spelling of it.

    Raises: AuthorizationError, TransportError.
    """
    found, where = await _first_document(client, authorization_server_urls(issuer), AuthorizationServer)
    if found is None:
        return None
    # RFC 8414, 3.3: the issuer must be identical, otherwise the metadata must not be used.
    if found.issuer not in (issuer, *spellings):
        raise AuthorizationError(f"the metadata at {where} is of another issuer: {quoted(found.issuer)}", issuer=issuer)
    for endpoint in ("token_endpoint", "authorization_endpoint", "registration_endpoint"):
        endpoint_url = getattr(found, endpoint)
        if endpoint_url is not None:
            check_url(endpoint_url, f"{endpoint} of {issuer}", url)
    return found


async def _discover_2025_03_26(client: HttpClient, url: str) -> Access:
    """2025-03-26 basic/authorization, 2.3: the authorization server is at the origin of the MCP server."""
    root = root_of(url)
    # Both spellings lead to the same well-known URL.
    server = await find_authorization_server(client, root, url, f"{root}/")
    defaults = AuthorizationServer(root, f"{root}/token", f"{root}/authorize", f"{root}/register")
    return Access(canonical(url), server or defaults, uses_default_endpoints=server is None)


async def _first_document(client: HttpClient, urls: Iterable[str], kind: type[Document]) -> tuple[Document | None, str]:
    """Return the document at the first of the URLs that has it, and that URL.

    A URL does not have it if there is nothing, a redirect to another origin, or an HTML page.
    """
    for url in urls:
        reply = await get(client, url)
        if reply.status >= 500:
            # The document may exist. Trying the next URL could lead to another authorization server.
            raise TransportError(f"{url}: HTTP {reply.status}")
        if reply.status == 200 and (reply.is_json or reply.body.lstrip()[:1] == b"{"):
            return read_document(reply.body, kind, f"the metadata at {url}"), url
    return None, ""


# ---- URLs ----

PROTECTED_RESOURCE = "/.well-known/oauth-protected-resource"
AUTHORIZATION_SERVER = "/.well-known/oauth-authorization-server"
OPENID = "/.well-known/openid-configuration"

# Characters that URL parsers treat differently: controls, spaces, non-ASCII, and the backslash, a slash in browsers.
_UNSAFE_CHARACTERS = re.compile(r"[\x00-\x20\x7f\\]|[^\x00-\x7f]")
_MAX_LENGTH = 2048


def check_url(url: str, what: str, server: str) -> str:
    """Return `url` if requests to it are allowed on behalf of `server`. `what` describes it in the error.

    A URL from a server or its metadata is checked before a request is sent to it or a browser opens it (2026-07-28
    basic/authorization, "Security Considerations"; RFC 9728, 7.7: server-side request forgery).

    https is required, except on loopback. Loopback is allowed only for a server on loopback, link-local addresses
    never: a remote server must not reach local services through this client.

    Raises: AuthorizationError.
    """
    origin = _safe_origin(url)
    if origin is None or "@" in urlsplit(url).netloc or "#" in url:
        raise AuthorizationError(f"{what} is not a valid http or https URL: {quoted(url)}")
    scheme, host, _ = origin
    address = address_of(host)
    if address is not None and address.is_link_local:
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
    origin = _safe_origin(resource)
    if origin is None or origin != origin_of(server) or "#" in resource:
        return False
    prefix, path = _parts(resource)[1], _parts(server)[1]
    return path == prefix or path.startswith(f"{prefix}/")


def _safe_origin(url: str) -> tuple[str, str, int] | None:
    """Return scheme, host and port, or None if URL parsers may disagree about them."""
    is_safe = len(url) <= _MAX_LENGTH and _UNSAFE_CHARACTERS.search(url) is None
    return origin_of(url) if is_safe else None


def _parts(url: str) -> tuple[str, str]:
    """Return the origin in lower case and the path without a trailing slash."""
    parts = urlsplit(url)
    return f"{parts.scheme.lower()}://{parts.netloc.lower()}", parts.path.rstrip("/")
