"""Becoming a client of an authorization server, in the order of the specification.

What you were given beforehand; the URL of your metadata document, where the server reads such; registering by itself, where
there is an endpoint for it; and else an error that says what only you can give (2026-07-28 basic/authorization, "Client
Registration Approaches"). What was registered is stored by issuer, and is nothing to another issuer.

Above: the authorizers. Below: `_fetch`, `_store`, `_identity`.
"""

import msgspec

from jackstay.errors import Json
from jackstay.oauth._challenge import read_scopes
from jackstay.oauth._discovery import Access
from jackstay.oauth._documents import (
    AUTHORIZATION_CODE,
    REFRESH_TOKEN,
    RegistrationAnswer,
    read_document,
)
from jackstay.oauth._errors import AuthorizationError
from jackstay.oauth._fetch import post
from jackstay.oauth._identity import AUTH_METHODS, Identity, RegisteredClient, application_type
from jackstay.oauth._store import TokenStore, client_key, load_entry, save_entry
from jackstay.oauth._tokens import refusal_of
from jackstay.transport import HttpClient

_JSON = (("Content-Type", "application/json"),)
# What a program can keep: nothing first, because it is installed on people's machines.
_PREFERRED = ("none", "client_secret_basic", "client_secret_post")


def given_client(identity: Identity, access: Access) -> RegisteredClient | None:
    """The client that needs no registration here: a client id you were given, or the URL of your document."""
    if identity.client_id and identity.issuer in ("", access.issuer):
        return RegisteredClient(
            access.issuer, identity.client_id, identity.client_secret, auth_method=identity.auth_method
        )
    if identity.metadata_url and access.server.client_id_metadata_document_supported:
        return RegisteredClient(
            access.issuer,
            identity.metadata_url,
            auth_method="private_key_jwt" if identity.private_key else "none",
        )
    return None


async def stored_client(store: TokenStore, issuer: str, now: float) -> RegisteredClient | None:
    """What the program registered at that issuer before, if it still counts."""
    found = await load_entry(store, client_key(issuer), RegisteredClient)
    if found is None or found.issuer != issuer or 0 < found.secret_expires_at <= now:
        return None
    return found


async def forget_client(store: TokenStore, issuer: str) -> None:
    """The issuer no longer knows it: register anew next time."""
    await store.save(client_key(issuer), None)


def serves(found: RegisteredClient, redirect_uri: str, scopes: tuple[str, ...]) -> bool:
    """True where an earlier registration covers this sign-in: the same way back, and no scope it was not made for."""
    is_wide_enough = found.scopes is None or set(scopes) <= set(found.scopes)
    return found.redirect_uri == redirect_uri and is_wide_enough


async def register(
    client: HttpClient,
    access: Access,
    *,
    identity: Identity,
    store: TokenStore,
    redirect_uri: str,
    scopes: tuple[str, ...],
) -> RegisteredClient:
    """Register the program (RFC 7591), and keep what came of it.

    Raises: AuthorizationError where it is refused, or not offered; TransportError where it could not be asked.
    """
    server = access.server
    if server.registration_endpoint is None:
        raise AuthorizationError(_what_to_give(identity, access), issuer=server.issuer)
    document = client_document(identity, access, redirect_uri, scopes)
    reply = await post(client, server.registration_endpoint, _JSON, msgspec.json.encode(document))
    if reply.status not in (200, 201):
        error = refusal_of(reply, f"{server.issuer} refused to register this program", server.issuer)
        if isinstance(error, AuthorizationError):
            error.message += f"; {_what_to_give(identity, access)}"
        raise error
    answer = read_document(reply.body, RegistrationAnswer, f"the registration answer of {server.issuer}")
    method = answer.token_endpoint_auth_method
    if method is None:
        # It should repeat what it registered (RFC 7591, 3.2.1). One that does not has taken what we asked for.
        method = str(document["token_endpoint_auth_method"]) if answer.client_secret else "none"
    if method not in AUTH_METHODS[:3] or (method != "none" and not answer.client_secret):
        raise AuthorizationError(
            f"{server.issuer} registered this program for {method[:40]!a}, which it cannot do",
            issuer=server.issuer,
        )
    registered = RegisteredClient(
        server.issuer,
        answer.client_id,
        answer.client_secret or "",
        auth_method=method,
        secret_expires_at=answer.client_secret_expires_at or 0.0,
        redirect_uri=redirect_uri,
        scopes=None if answer.scope is None else read_scopes(answer.scope),
        is_dynamic=True,
    )
    await save_entry(store, client_key(server.issuer), registered)
    return registered


def client_document(
    identity: Identity, access: Access, redirect_uri: str, scopes: tuple[str, ...]
) -> dict[str, Json]:
    """What the program says about itself when it registers (RFC 7591, section 2)."""
    server = access.server
    supported = server.token_endpoint_auth_methods_supported
    if supported is None:
        # The default of RFC 8414. Where nothing is published at all, what suits a program best.
        supported = _PREFERRED if access.is_guessed else ("client_secret_basic",)
    methods = [method for method in _PREFERRED if method in supported]
    grants: list[Json] = [AUTHORIZATION_CODE]
    # Asking for a grant that is not offered is refused by some.
    if server.grant_types_supported is None or REFRESH_TOKEN in server.grant_types_supported:
        grants.append(REFRESH_TOKEN)
    document: dict[str, Json] = {
        "client_name": identity.name,
        "redirect_uris": [redirect_uri],
        "grant_types": grants,
        "response_types": ["code"],
        "token_endpoint_auth_method": methods[0] if methods else "none",
        "application_type": application_type(redirect_uri),
    }
    if scopes:
        # Some servers grant a client no scope that it was not registered for.
        document["scope"] = " ".join(scopes)
    if identity.homepage:
        document["client_uri"] = identity.homepage
    return document


def _what_to_give(identity: Identity, access: Access) -> str:
    if identity.client_id:
        return f"your client_id is for {identity.issuer}, and this server accepts {access.issuer}: give an Identity for it"
    ways = ["Identity(client_id=..., issuer=...) with what its operator gave you"]
    if access.server.client_id_metadata_document_supported:
        ways.insert(0, "Identity(metadata_url=...) with the URL of your client metadata document")
    return f"{access.issuer} lets no program register by itself: give {', or '.join(ways)}"
