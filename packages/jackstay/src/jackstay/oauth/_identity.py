"""Who you are to authorization servers: what you know beforehand, and what you are to one of them.

`Identity` is what a user writes down. `RegisteredClient` is what it comes to at one issuer, and goes nowhere else: a client
id and its secret are the business of the issuer that gave them (2026-07-28 basic/authorization, "Authorization Server
Binding").

Pure. Above: registration, client authentication, the authorizers. Below: `jackstay.transport.http` (loopback).
"""

from urllib.parse import urlsplit

import msgspec

from jackstay.errors import UsageError
from jackstay.transport.http import is_loopback

# How a client may prove itself at a token endpoint, as this room can do it (RFC 7591, section 2; OpenID Connect, section 9).
AUTH_METHODS = ("none", "client_secret_basic", "client_secret_post", "private_key_jwt")


# What a sign-in sets itself (RFC 6749, RFC 7636, RFC 8707); `audience` and `scope` have options of their own.
_OWN_PARAMETERS = frozenset(
    {
        "response_type",
        "client_id",
        "redirect_uri",
        "state",
        "code_challenge",
        "code_challenge_method",
        "resource",
        "scope",
        "audience",
    }
)


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Who you are. All of it is optional: without anything the program registers itself, where that is possible.

    `client_id` (and `client_secret`, or `private_key` with `signing_algorithm`) are what an authorization server gave you;
    `issuer` says which one, and then nobody else ever sees them. A secret or a key needs it; a `client_id` alone is for the
    first one that the server names. `metadata_url` is the https URL of your client ID metadata document. `name` and
    `homepage` are shown to people.

    The last four are for authorization servers that differ from the specification, and hold for `issuer` only.
    """

    client_id: str = ""
    client_secret: str = ""
    issuer: str = ""
    # PEM, PKCS #8 or the like, for private_key_jwt; and the JWS algorithm to sign with (ES256, RS256, PS256, EdDSA ...).
    private_key: str = ""
    signing_algorithm: str = ""
    # One of AUTH_METHODS; chosen from what the authorization server supports where it is empty.
    auth_method: str = ""
    metadata_url: str = ""
    name: str = "Jackstay"
    homepage: str = ""
    # It supports PKCE with S256 and does not list it in its metadata (Microsoft Entra ID, Amazon Cognito).
    assume_pkce: bool = False
    # False: it refuses the parameter `resource` (Microsoft Entra ID).
    send_resource: bool = True
    # It wants to know by `audience` what the token is for (Auth0).
    audience: str = ""
    # More parameters of the address to sign in at, such as {"access_type": "offline"} (Google).
    sign_in_parameters: dict[str, str] = {}

    def __post_init__(self) -> None:
        if self.auth_method and self.auth_method not in AUTH_METHODS:
            raise UsageError(
                f"auth_method is {self.auth_method!r}; it must be one of {', '.join(AUTH_METHODS)}",
                path="auth_method",
            )
        if (self.client_secret or self.issuer) and not self.client_id:
            raise UsageError(
                "client_secret and issuer belong to a client_id, and there is none", path="client_id"
            )
        if self.client_secret and self.private_key:
            raise UsageError(
                "client_secret and private_key are two ways to prove one client: give one of them",
                path="private_key",
            )
        if bool(self.private_key) != bool(self.signing_algorithm):
            raise UsageError(
                "private_key and signing_algorithm go together: give both, or neither",
                path="signing_algorithm",
            )
        self._check_issuer()
        if self.metadata_url:
            parts = urlsplit(self.metadata_url)
            if parts.scheme != "https" or not parts.hostname or parts.path in ("", "/"):
                raise UsageError(
                    f"metadata_url is {self.metadata_url!r}; it must be an https URL with a path",
                    path="metadata_url",
                )

    def _check_issuer(self) -> None:
        """What is for one authorization server only must name it. Raises: UsageError."""
        if self.issuer:
            taken = sorted(_OWN_PARAMETERS & self.sign_in_parameters.keys())
            if taken:
                raise UsageError(
                    f"sign_in_parameters has {taken[0]!r}, which is set by the sign-in itself",
                    path="sign_in_parameters",
                )
            return
        if self.client_id and (self.client_secret or self.private_key):
            raise UsageError(
                "client_secret and private_key need the issuer that they are for: else the first server that names an"
                " issuer would get them; give issuer='https://...'",
                path="issuer",
            )
        for name in ("assume_pkce", "audience", "sign_in_parameters"):
            if getattr(self, name):
                raise UsageError(f"{name} needs the issuer that it is for", path="issuer")
        if not self.send_resource:
            raise UsageError("send_resource=False needs the issuer that it is for", path="issuer")

    def assumes_pkce(self, issuer: str) -> bool:
        """Whether PKCE may be used there though it is not listed."""
        return self.assume_pkce and issuer == self.issuer

    def resource_form(self, issuer: str, resource: str) -> dict[str, str]:
        """How a request to this issuer names what the token is for (RFC 8707, or as `Identity` has it)."""
        is_there = issuer == self.issuer
        form = {"audience": self.audience} if is_there and self.audience else {}
        return form if is_there and not self.send_resource else {"resource": resource, **form}

    def __repr__(self) -> str:
        """Without the secrets."""
        shown = self.client_id or self.metadata_url or self.name
        return f"Identity({shown!r}{f', issuer={self.issuer!r}' if self.issuer else ''})"


class RegisteredClient(msgspec.Struct, frozen=True):
    """What you are at one issuer. Those that were registered by the program are stored."""

    issuer: str
    client_id: str
    client_secret: str = ""
    auth_method: str = ""
    # Unix time, 0 for never (RFC 7591, 3.2.1).
    secret_expires_at: float = 0.0
    redirect_uri: str = ""
    # What it was registered for; None where the authorization server set no such limit.
    scopes: tuple[str, ...] | None = None
    # True where the program registered itself, and may do so again.
    is_dynamic: bool = False

    def __repr__(self) -> str:
        """Without the secret."""
        return f"RegisteredClient({self.client_id!r} at {self.issuer!r})"


def application_type(redirect_uri: str) -> str:
    """`native` for a program on the user's machine, `web` for one behind an https redirect (2026-07-28: MUST be sent)."""
    return "web" if redirect_uri.startswith("https:") and not is_loopback(redirect_uri) else "native"
