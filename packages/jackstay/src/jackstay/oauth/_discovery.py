"""Who gives access to a server: from its metadata to that of its authorization server, each step checked.

The order of the places to look is the specification's (2026-07-28 basic/authorization, "Authorization Server Discovery"),
and so is what must be equal: the resource is the server we asked, the issuer is the one we asked for. A server without
metadata is one of 2025-03-26: its origin is the issuer, with default endpoints where nothing says otherwise.

Above: the authorizer. Below: `_fetch`, `_urls`, `_documents`.
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
    """Where access to a server is to be had. `resource` is spelled as the server publishes it."""

    resource: str
    server: AuthorizationServer
    scopes_supported: tuple[str, ...] = ()
    # True where the authorization server published nothing, and its endpoints are the defaults of 2025-03-26.
    is_guessed: bool = False

    @property
    def issuer(self) -> str:
        """The authorization server's name, as it is compared."""
        return self.server.issuer


async def discover(client: HttpClient, url: str, named: str = "", issuer: str = "") -> Access:
    """Find who gives access to the server at `url`. `named` is the metadata's URL from its challenge.

    `issuer` is chosen where the server names several and it is one of them.

    Raises: AuthorizationError where somebody breaks a rule; TransportError where somebody cannot be reached.
    """
    check_url(url.partition("#")[0], "the server's URL", url)
    resource = await find_resource(client, url, named)
    if resource is None:
        return await _of_2025_03_26(client, url)
    listed = resource.authorization_servers or ()
    if not listed:
        raise AuthorizationError(f"the metadata of {url.partition('?')[0]} names no authorization server")
    # RFC 9728, 7.6: the choice among several is the client's. Yours goes first, else the server's order counts.
    chosen = check_url(issuer if issuer in listed else listed[0], "the authorization server", url)
    server = await find_authorization_server(client, chosen, (chosen,), url)
    if server is None:
        raise AuthorizationError(f"{chosen} publishes no authorization server metadata", issuer=chosen)
    return Access(resource.resource, server, resource.scopes_supported or ())


async def find_resource(client: HttpClient, url: str, named: str) -> ProtectedResource | None:
    """The server's own metadata: where its challenge says, else where it belongs; None if there is none.

    Raises: AuthorizationError, TransportError.
    """
    places = protected_resource_urls(url)
    if named:
        places = [check_url(named, "resource_metadata", url), *places]
    for place in dict.fromkeys(places):
        reply = await get(client, place)
        if not _is_there(reply, place):
            continue
        found = read_document(reply.body, ProtectedResource, f"the metadata at {place}")
        # Not spelled out by MCP: RFC 9728, 3.3. A server could otherwise have tokens made for another one.
        if not is_resource_of(found.resource, url):
            raise AuthorizationError(
                f"the metadata at {place} is for another resource, {quoted(found.resource)}, and was not used"
            )
        return found
    return None


async def find_authorization_server(
    client: HttpClient, issuer: str, names: tuple[str, ...], url: str
) -> AuthorizationServer | None:
    """The metadata of an authorization server; None if there is none. It must carry one of `names`.

    Raises: AuthorizationError, TransportError.
    """
    for place in authorization_server_urls(issuer):
        reply = await get(client, place)
        if not _is_there(reply, place):
            continue
        found = read_document(reply.body, AuthorizationServer, f"the metadata at {place}")
        # RFC 8414, 3.3: identical, and nothing of it may be used otherwise.
        if found.issuer not in names:
            raise AuthorizationError(
                f"the metadata at {place} is of another issuer, {quoted(found.issuer)}, and was not used",
                issuer=issuer,
            )
        for endpoint in ("token_endpoint", "authorization_endpoint", "registration_endpoint"):
            where = getattr(found, endpoint)
            if where is not None:
                check_url(where, f"{endpoint} of {issuer}", url)
        return found
    return None


async def _of_2025_03_26(client: HttpClient, url: str) -> Access:
    """2025-03-26 basic/authorization, 2.3: the authorization server is at the origin of the MCP server."""
    root = root_of(url)
    # Both spellings make the same well-known URL, and nobody told us one of them.
    server = await find_authorization_server(client, root, (root, f"{root}/"), url)
    if server is not None:
        return Access(canonical(url), server)
    defaults = AuthorizationServer(
        issuer=root,
        token_endpoint=f"{root}/token",
        authorization_endpoint=f"{root}/authorize",
        registration_endpoint=f"{root}/register",
    )
    return Access(canonical(url), defaults, is_guessed=True)


def _is_there(reply: Reply, place: str) -> bool:
    """False for what is surely not the document: not found, moved elsewhere, or a page for people."""
    if reply.status >= 500:
        # It may be there. Looking on would end at another authorization server because this one is busy.
        raise TransportError(f"{place} answered HTTP {reply.status}")
    return reply.status == 200 and (reply.is_json or reply.body.lstrip()[:1] == b"{")
