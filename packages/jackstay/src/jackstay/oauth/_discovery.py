"""Discovery of the authorization server of an MCP server (2026-07-28 basic/authorization).

The resource and the issuer of the metadata must match the requested ones. A server without metadata is treated as one
of 2025-03-26: its origin is the issuer, with default endpoints.
"""

import msgspec

from jackstay.errors import TransportError
from jackstay.oauth._documents import AuthorizationServer, ProtectedResource, read_document
from jackstay.oauth._errors import AuthorizationError, quoted
from jackstay.oauth._fetch import Reply, get
from jackstay.oauth._urls import (
    authorization_server_urls,
    canonical,
    check_url,
    is_resource_of,
    protected_resource_urls,
    root_of,
)
from jackstay.transport import HttpClient


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
    server = await find_authorization_server(client, chosen, (chosen,), url)
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
    for candidate in dict.fromkeys(candidates):
        reply = await get(client, candidate)
        if not _has_document(reply, candidate):
            continue
        found = read_document(reply.body, ProtectedResource, f"the metadata at {candidate}")
        # RFC 9728, 3.3. Otherwise a server could obtain tokens for another one.
        if not is_resource_of(found.resource, url):
            raise AuthorizationError(f"the metadata at {candidate} is for another resource: {quoted(found.resource)}")
        return found
    return None


async def find_authorization_server(
    client: HttpClient, issuer: str, names: tuple[str, ...], url: str
) -> AuthorizationServer | None:
    """Return the metadata of an authorization server, or None. Its issuer must be one of `names`.

    Raises: AuthorizationError, TransportError.
    """
    for candidate in authorization_server_urls(issuer):
        reply = await get(client, candidate)
        if not _has_document(reply, candidate):
            continue
        found = read_document(reply.body, AuthorizationServer, f"the metadata at {candidate}")
        # RFC 8414, 3.3: the issuer must be identical, otherwise the metadata must not be used.
        if found.issuer not in names:
            raise AuthorizationError(
                f"the metadata at {candidate} is of another issuer: {quoted(found.issuer)}", issuer=issuer
            )
        for endpoint in ("token_endpoint", "authorization_endpoint", "registration_endpoint"):
            endpoint_url = getattr(found, endpoint)
            if endpoint_url is not None:
                check_url(endpoint_url, f"{endpoint} of {issuer}", url)
        return found
    return None


async def _discover_2025_03_26(client: HttpClient, url: str) -> Access:
    """2025-03-26 basic/authorization, 2.3: the authorization server is at the origin of the MCP server."""
    root = root_of(url)
    # Both spellings lead to the same well-known URL.
    server = await find_authorization_server(client, root, (root, f"{root}/"), url)
    if server is not None:
        return Access(canonical(url), server)
    defaults = AuthorizationServer(
        issuer=root,
        token_endpoint=f"{root}/token",
        authorization_endpoint=f"{root}/authorize",
        registration_endpoint=f"{root}/register",
    )
    return Access(canonical(url), defaults, uses_default_endpoints=True)


def _has_document(reply: Reply, url: str) -> bool:
    """Return False if the reply is not the document: not found, redirected to another origin, or an HTML page."""
    if reply.status >= 500:
        # The document may exist. Trying the next URL could lead to another authorization server.
        raise TransportError(f"{url}: HTTP {reply.status}")
    return reply.status == 200 and (reply.is_json or reply.body.lstrip()[:1] == b"{")
