"""Authentication by JSON Web Tokens: what `APCORE_JWT_SECRET` and the flags `--jwt-*` configure."""

from jackstay._lazy import attach

__all__, __getattr__, __dir__ = attach(
    __name__,
    {
        ".guard": "OptionalAuth",
        ".jwt": "ClaimMapping JWTAuthenticator",
        "apcore_mcp.compat.authentication": "AuthMiddleware Authenticator auth_identity_var extract_headers"
        " get_current_identity",
    },
)
