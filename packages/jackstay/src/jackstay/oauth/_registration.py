"""Client registration (2026-07-28 basic/authorization, "Client Registration Approaches").

In this order: a configured client id, a client ID metadata document, dynamic registration. Registrations are stored by
issuer.
"""

import msgspec

from jackstay.errors import Json
from jackstay.oauth._challenge import Scopes, read_scopes, scope_form
from jackstay.oauth._discovery import AUTHORIZATION_CODE, REFRESH_TOKEN, Access, RegistrationResponse, read_document
from jackstay.oauth._errors import AuthorizationError
from jackstay.oauth._fetch import exchange
from jackstay.oauth._identity import AUTH_METHODS, Identity, RegisteredClient, application_type
from jackstay.oauth._store import TokenStore, client_key, load_entry, save_entry
from jackstay.oauth._tokens import error_from_reply
from jackstay.transport import HttpClient

_JSON = (("Content-Type", "application/json"),)
# Without a key, in order of preference: a program on the user's machine cannot keep a secret, so `none` is first.
_PREFERRED = AUTH_METHODS[:3]


def configured_client(identity: Identity, access: Access) -> RegisteredClient | None:
    """Return the client that needs no registration: the configured client id or metadata document, or None."""
    if identity.client_id and identity.issuer in ("", access.issuer):
        return RegisteredClient(
            access.issuer, identity.client_id, identity.client_secret, auth_method=identity.auth_method
        )
    if identity.metadata_url and access.server.client_id_metadata_document_supported:
        return RegisteredClient(
            access.issuer, identity.metadata_url, auth_method="private_key_jwt" if identity.private_key else "none"
        )
    return None


async def stored_client(store: TokenStore, issuer: str, now: float) -> RegisteredClient | None:
    """Return the stored registration at this issuer, or None if there is none or its secret has expired."""
    found = await load_entry(store, client_key(issuer), RegisteredClient)
    if found is None or found.issuer != issuer or 0 < found.secret_expires_at <= now:
        return None
    return found


async def delete_client(store: TokenStore, issuer: str) -> None:
    """Delete the stored registration, so that the next sign-in registers again."""
    await store.save(client_key(issuer), None)


def covers_sign_in(found: RegisteredClient, redirect_uri: str, scopes: Scopes) -> bool:
    """Return whether a registration covers this sign-in: the same redirect URI and all scopes."""
    has_scopes = found.scopes is None or set(scopes) <= set(found.scopes)
    return found.redirect_uri == redirect_uri and has_scopes


async def register(
    client: HttpClient, access: Access, *, identity: Identity, store: TokenStore, redirect_uri: str, scopes: Scopes
) -> RegisteredClient:
    """Register dynamically (RFC 7591) and store the registration.

    Raises: AuthorizationError if it is refused or not supported; TransportError if the request failed.
    """
    server = access.server
    if server.registration_endpoint is None:
        raise server.error(_registration_hint(identity, access))
    document = client_document(identity, access, redirect_uri, scopes)
    reply = await exchange(client, "POST", server.registration_endpoint, _JSON, msgspec.json.encode(document))
    if reply.status not in (200, 201):
        error = error_from_reply(reply, f"{server.issuer} refused the client registration", server.issuer)
        if isinstance(error, AuthorizationError):
            error.message += f"; {_registration_hint(identity, access)}"
        raise error
    response = read_document(reply.body, RegistrationResponse, f"the registration response of {server.issuer}")
    method = response.token_endpoint_auth_method
    if method is None:
        # The response should contain it (RFC 7591, 3.2.1); otherwise the requested method was registered.
        method = str(document["token_endpoint_auth_method"]) if response.client_secret else "none"
    if method not in _PREFERRED or (method != "none" and not response.client_secret):
        raise server.error(f"{server.issuer} registered the unsupported client authentication {method[:40]!a}")
    registered = RegisteredClient(
        server.issuer,
        response.client_id,
        response.client_secret or "",
        auth_method=method,
        secret_expires_at=response.client_secret_expires_at or 0.0,
        redirect_uri=redirect_uri,
        scopes=None if response.scope is None else read_scopes(response.scope),
        is_dynamic=True,
    )
    await save_entry(store, client_key(server.issuer), registered)
    return registered


def client_document(identity: Identity, access: Access, redirect_uri: str, scopes: Scopes) -> dict[str, Json]:
    """Return the client metadata for dynamic registration (RFC 7591, section 2)."""
    server = access.server
    supported = server.token_endpoint_auth_methods_supported
    if supported is None:
        # The default of RFC 8414; for a server without metadata, any.
        supported = _PREFERRED if access.uses_default_endpoints else ("client_secret_basic",)
    methods = [method for method in _PREFERRED if method in supported]
    grants: list[Json] = [AUTHORIZATION_CODE]
    # Some servers reject a registration with an unsupported grant.
    if server.grant_types_supported is None or REFRESH_TOKEN in server.grant_types_supported:
        grants.append(REFRESH_TOKEN)
    document: dict[str, Json] = {
        "client_name": identity.name,
        "redirect_uris": [redirect_uri],
        "grant_types": grants,
        "response_types": ["code"],
        "token_endpoint_auth_method": methods[0] if methods else "none",
        "application_type": application_type(redirect_uri),
        # Some servers grant only scopes that were registered.
        **scope_form(scopes),
    }
    if identity.homepage:
        document["client_uri"] = identity.homepage
    return document


def _registration_hint(identity: Identity, access: Access) -> str:
    if identity.client_id:
        return (
            f"the client_id is for {identity.issuer}, but this server requires {access.issuer}; pass an Identity for it"
        )
    options = ["Identity(client_id=..., issuer=...)"]
    if access.server.client_id_metadata_document_supported:
        options.insert(0, "Identity(metadata_url=...)")
    return f"{access.issuer} does not support dynamic client registration; pass {' or '.join(options)}"
