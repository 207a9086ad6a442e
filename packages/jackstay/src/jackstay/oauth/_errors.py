"""The one error of this room: there is no access to be had.

It is a `TransportError`, because that is what it means to the call that asked: it was not sent, and surely did not run.
Must never carry a token, a code or a secret: errors are logged and shown.

Above: every file of this room. Below: `jackstay.errors`.
"""

from jackstay.errors import Json, TransportError


class AuthorizationError(TransportError):
    """No access: a rule was broken, somebody refused, or something is missing that only you can give.

    `error` is the code of OAuth where the authorization server answered with one (`access_denied`, `invalid_client`),
    `issuer` is that server where it is known. `permanent` is False where trying again may help.
    """

    def __init__(self, message: str, *, error: str = "", issuer: str = "", permanent: bool = True) -> None:
        details: dict[str, Json] = {}
        if error:
            details["error"] = error
        if issuer:
            details["issuer"] = issuer
        super().__init__(message, permanent=permanent, details=details)
        self.error = error
        self.issuer = issuer


# What a server wrote is quoted in our sentences, and never as it came: it may be a page long, or steer a terminal.
_QUOTE_LENGTH = 200


def quoted(text: str) -> str:
    """A stranger's words for a sentence of ours: short, and printable."""
    return ascii(text[:_QUOTE_LENGTH])
