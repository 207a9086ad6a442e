"""OAuth 2.1 for MCP clients, used as `http(url, auth=...)`: discovery, registration, sign-in, step-up, refresh,
storage.

For users with a browser (`OAuth`), for programs (`ClientCredentials`, `WorkloadIdentity`) and for organisations
(`EnterpriseManaged`). No token, code or secret is logged or included in an error or a `repr`.
"""

from jackstay._lazy import attach

__all__, __getattr__, __dir__ = attach(
    __name__,
    {
        "._browser": "Redirect open_browser open_in_browser",
        "._client_credentials": "ClientCredentials",
        "._enterprise": "EnterpriseManaged IdentityProvider",
        "._errors": "AuthorizationError",
        "._file_store": "FileStore",
        "._identity": "Identity",
        "._oauth": "OAuth",
        "._store": "MemoryStore TokenStore",
        "._workload": "WorkloadIdentity",
    },
)
