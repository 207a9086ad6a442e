"""Authentication by JSON Web Tokens: what `APCORE_JWT_SECRET` and the flags `--jwt-*` configure."""

from apcore_mcp.auth.jwt import ClaimMapping, JWTAuthenticator

__all__ = ["ClaimMapping", "JWTAuthenticator"]
