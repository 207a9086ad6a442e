"""`AuthorizationError`: a `TransportError`, because the call that needed authorization was not sent.

It must never contain a token, a code or a secret.
"""

from jackstay.errors import Json, TransportError


class AuthorizationError(TransportError):
    """Authorization failed: it was refused, a response is invalid, or configuration is missing.

    `error` is the OAuth error code of the authorization server (such as `access_denied`) and `issuer` its identifier,
    if they are known. `permanent` is False if a retry may help.
    """

    def __init__(self, message: str, *, error: str = "", issuer: str = "", permanent: bool = True) -> None:
        details: dict[str, Json] = {key: value for key, value in (("error", error), ("issuer", issuer)) if value}
        super().__init__(message, permanent=permanent, details=details)
        self.error = error
        self.issuer = issuer


# Limits values of a server in error messages.
_QUOTE_LENGTH = 200


def quoted(text: str) -> str:
    """Return an untrusted value for an error message: truncated, quoted and escaped to printable ASCII."""
    return ascii(text[:_QUOTE_LENGTH])
