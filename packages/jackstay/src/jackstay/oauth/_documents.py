"""OAuth documents as types: metadata, registration, token and error responses, with the members that are used."""

from typing import TypeVar

import msgspec

from jackstay.oauth._errors import AuthorizationError
from jackstay.types import DECODE_ERRORS

# The supported grant types.
AUTHORIZATION_CODE = "authorization_code"
REFRESH_TOKEN = "refresh_token"  # noqa: S105 - the name of a grant
CLIENT_CREDENTIALS = "client_credentials"
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"  # noqa: S105 - the name of a grant


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


class RegistrationResponse(msgspec.Struct, frozen=True):
    """Response of dynamic client registration (RFC 7591, 3.2.1)."""

    client_id: str
    client_secret: str | None = None
    client_secret_expires_at: float | None = None
    token_endpoint_auth_method: str | None = None
    scope: str | None = None


class TokenResponse(msgspec.Struct, frozen=True):
    """Response of a token endpoint (RFC 6749, 5.1; RFC 8693, 2.2.1). Some servers write `expires_in` as a string."""

    access_token: str
    token_type: str = "Bearer"  # noqa: S105 - the name of a type
    expires_in: float | str | None = None
    refresh_token: str | None = None
    scope: str | None = None
    issued_token_type: str | None = None


class OAuthErrorResponse(msgspec.Struct, frozen=True):
    """OAuth error response (RFC 6749, 5.2)."""

    error: str
    error_description: str | None = None


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
