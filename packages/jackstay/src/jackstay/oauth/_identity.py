"""The OAuth client: `Identity` is its configuration, `RegisteredClient` the client at one issuer.

A client id and its secret are only sent to the issuer that issued them (2026-07-28 basic/authorization, "Authorization
Server Binding").
"""

from urllib.parse import urlsplit

import msgspec

from jackstay.errors import UsageError
from jackstay.transport.http import is_loopback

# The supported client authentication methods (RFC 7591, section 2; OpenID Connect Core, section 9).
AUTH_METHODS = ("none", "client_secret_basic", "client_secret_post", "private_key_jwt")


# Parameters that the sign-in sets (RFC 6749, RFC 7636, RFC 8707); `audience` and `scope` have their own options.
_PKCE = ("code_challenge", "code_challenge_method")
_OWN_PARAMETERS = {"response_type", "client_id", "redirect_uri", "state", "resource", "scope", "audience", *_PKCE}


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """The OAuth client. All fields are optional: without any, the program registers dynamically if that is possible.

    `client_id` (and `client_secret`, or `private_key` with `signing_algorithm`) were issued by the authorization server
    `issuer` and are only sent to it. `issuer` is required with a secret or a key; a `client_id` alone is bound to the
    first issuer that a server names. `metadata_url` is the https URL of your client ID metadata document. `name` and
    `homepage` are shown to the user.

    The last four fields are for authorization servers that deviate from the specification and apply to `issuer` only.
    """

    client_id: str = ""
    client_secret: str = ""
    issuer: str = ""
    # PEM for private_key_jwt, and the JWS algorithm (ES256, RS256, PS256, EdDSA, ...).
    private_key: str = ""
    signing_algorithm: str = ""
    # One of AUTH_METHODS; default: the first that the authorization server supports.
    auth_method: str = ""
    metadata_url: str = ""
    name: str = "Jackstay"
    homepage: str = ""
    # True if the server supports PKCE with S256 but does not list it (Microsoft Entra ID, Amazon Cognito).
    assume_pkce: bool = False
    # False if the server rejects the parameter `resource` (Microsoft Entra ID).
    send_resource: bool = True
    # The parameter `audience`, if the server requires it (Auth0).
    audience: str = ""
    # Additional parameters of the authorization URL, such as {"access_type": "offline"} (Google).
    sign_in_parameters: dict[str, str] = {}

    def __post_init__(self) -> None:
        if self.auth_method and self.auth_method not in AUTH_METHODS:
            raise UsageError(
                f"auth_method must be one of {', '.join(map(repr, AUTH_METHODS))}, got {self.auth_method!r}",
                path="auth_method",
            )
        if (self.client_secret or self.issuer) and not self.client_id:
            raise UsageError("client_secret and issuer require client_id", path="client_id")
        if self.client_secret and self.private_key:
            raise UsageError(
                "client_secret and private_key are mutually exclusive; pass one of them", path="private_key"
            )
        if bool(self.private_key) != bool(self.signing_algorithm):
            raise UsageError("private_key and signing_algorithm must be passed together", path="signing_algorithm")
        self._check_issuer()
        if self.metadata_url:
            parts = urlsplit(self.metadata_url)
            if parts.scheme != "https" or not parts.hostname or parts.path in ("", "/"):
                raise UsageError(
                    f"metadata_url must be an https URL with a path, got {self.metadata_url!r}", path="metadata_url"
                )

    def _check_issuer(self) -> None:
        """Raises: UsageError if a field that is for one authorization server lacks `issuer`."""
        if self.issuer:
            reserved = sorted(_OWN_PARAMETERS & self.sign_in_parameters.keys())
            if reserved:
                raise UsageError(
                    f"sign_in_parameters must not contain {reserved[0]!r}, which the sign-in sets",
                    path="sign_in_parameters",
                )
            return
        if self.client_id and (self.client_secret or self.private_key):
            raise UsageError(
                "client_secret and private_key require issuer, so that they are only sent to it; pass issuer='https://...'",
                path="issuer",
            )
        for name in ("assume_pkce", "audience", "sign_in_parameters"):
            if getattr(self, name):
                raise UsageError(f"{name} requires issuer", path="issuer")
        if not self.send_resource:
            raise UsageError("send_resource=False requires issuer", path="issuer")

    def assumes_pkce(self, issuer: str) -> bool:
        """Return whether PKCE may be used at this issuer although it is not listed."""
        return self.assume_pkce and issuer == self.issuer

    def resource_form(self, issuer: str, resource: str) -> dict[str, str]:
        """Return the request parameters that identify the resource (RFC 8707, or `audience` if configured)."""
        is_configured = issuer == self.issuer
        form = {"audience": self.audience} if is_configured and self.audience else {}
        return form if is_configured and not self.send_resource else {"resource": resource, **form}

    def __repr__(self) -> str:
        """Without secrets."""
        label = self.client_id or self.metadata_url or self.name
        return f"Identity({label!r}{f', issuer={self.issuer!r}' if self.issuer else ''})"


class RegisteredClient(msgspec.Struct, frozen=True):
    """The client at one issuer. Dynamically registered clients are stored."""

    issuer: str
    client_id: str
    client_secret: str = ""
    auth_method: str = ""
    # Unix time, 0 for never (RFC 7591, 3.2.1).
    secret_expires_at: float = 0.0
    redirect_uri: str = ""
    # The scopes of the registration; None if the authorization server set no limit.
    scopes: tuple[str, ...] | None = None
    # True for dynamic registration, which can be repeated.
    is_dynamic: bool = False

    def __repr__(self) -> str:
        """Without the secret."""
        return f"RegisteredClient({self.client_id!r} at {self.issuer!r})"


def application_type(redirect_uri: str) -> str:
    """Return `web` for an https redirect URI, else `native` (required by 2026-07-28 basic/authorization)."""
    return "web" if redirect_uri.startswith("https:") and not is_loopback(redirect_uri) else "native"
