"""DPoP (RFC 9449): access tokens that are bound to a key, and a signed proof of that key with every request.

Used if the MCP server requires it and its authorization server supports it. The signatures are joserfc's.
"""

import hashlib
import json
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from jackstay.errors import UsageError
from jackstay.extras import install_command
from jackstay.oauth._discovery import root_of
from jackstay.transport.http import Headers

if TYPE_CHECKING:
    from joserfc.jwk import ECKey

ALGORITHM = "ES256"
NONCE_REQUIRED = "use_dpop_nonce"
_MAX_NONCE = 1024


class Proofs:
    """Creates keys and proofs, and remembers the nonce that each server last required."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._nonces: dict[str, str] = {}
        self._keys: dict[str, ECKey] = {}
        self._own_key = ""

    def own_key(self) -> str:
        """Return the private key for new tokens as JSON, which is stored with them.

        Raises: UsageError if the extra `http` is missing.
        """
        if not self._own_key:
            key = _key_class().generate_key("P-256")
            self._own_key = json.dumps(key.as_dict(private=True))
        return self._own_key

    def thumbprint(self, key: str) -> str:
        """Return the thumbprint of the public key (RFC 7638), which binds an authorization code to it."""
        return self._load(key).thumbprint()

    def header(self, key: str, method: str, url: str, token: str = "") -> Headers:
        """Return the header with a proof for one request. `token` is the access token that the request has."""
        loaded = self._load(key)
        claims: dict[str, Any] = {
            "jti": secrets.token_urlsafe(16),
            "htm": method,
            "htu": url.partition("#")[0].partition("?")[0],
            "iat": int(self._clock()),
        }
        nonce = self.nonce(url)
        if nonce:
            claims["nonce"] = nonce
        if token:
            claims["ath"] = urlsafe_b64encode(hashlib.sha256(token.encode()).digest()).rstrip(b"=").decode()
        from joserfc import jwt  # noqa: PLC0415 - see _key_class

        header = {"alg": ALGORITHM, "typ": "dpop+jwt", "jwk": loaded.as_dict(private=False)}
        return (("DPoP", jwt.encode(header, claims, loaded, algorithms=[ALGORITHM])),)

    def nonce(self, url: str) -> str:
        """Return the nonce that the server of `url` requires, or an empty string."""
        return self._nonces.get(root_of(url), "")

    def note_response(self, url: str, headers: Mapping[str, str]) -> None:
        """Remember the nonce of a response for the next requests to its server."""
        nonce = headers.get("dpop-nonce", "")
        if nonce and len(nonce) <= _MAX_NONCE and nonce.isascii() and nonce.isprintable():
            self._nonces[root_of(url)] = nonce

    def _load(self, key: str) -> "ECKey":
        loaded = self._keys.get(key)
        if loaded is None:
            loaded = self._keys[key] = _key_class().import_key(json.loads(key))
        return loaded


def _key_class() -> "type[ECKey]":
    """Raises: UsageError if the extra `http` is missing."""
    try:
        # Not at module level: cryptography takes tens of milliseconds to import, and few programs sign.
        from joserfc.jwk import ECKey  # noqa: PLC0415
    except ImportError as error:
        raise UsageError(f"DPoP requires the extra `http`: {install_command('http')}", path="auth") from error
    return ECKey
