"""OAuth 2.1 for MCP clients, used as `http(url, auth=...)`: discovery, registration, sign-in, step-up, refresh,
storage.

For users with a browser (`OAuth`), for programs (`ClientCredentials`) and for organisations (`EnterpriseManaged`). No
token, code or secret is logged or included in an error or a `repr`.
"""

from typing import TYPE_CHECKING

from jackstay._lazy import lazy

if TYPE_CHECKING:
    from jackstay.oauth._browser import Redirect, open_browser
    from jackstay.oauth._client_credentials import ClientCredentials
    from jackstay.oauth._enterprise import EnterpriseManaged, IdentityProvider
    from jackstay.oauth._errors import AuthorizationError
    from jackstay.oauth._file_store import FileStore
    from jackstay.oauth._identity import Identity
    from jackstay.oauth._oauth import OAuth
    from jackstay.oauth._store import MemoryStore, TokenStore

__all__ = [
    "AuthorizationError",
    "ClientCredentials",
    "EnterpriseManaged",
    "FileStore",
    "Identity",
    "IdentityProvider",
    "MemoryStore",
    "OAuth",
    "Redirect",
    "TokenStore",
    "open_browser",
]

if not TYPE_CHECKING:
    __getattr__ = lazy(
        __name__,
        {
            "AuthorizationError": "_errors",
            "ClientCredentials": "_client_credentials",
            "EnterpriseManaged": "_enterprise",
            "FileStore": "_file_store",
            "Identity": "_identity",
            "IdentityProvider": "_enterprise",
            "MemoryStore": "_store",
            "OAuth": "_oauth",
            "Redirect": "_browser",
            "TokenStore": "_store",
            "open_browser": "_browser",
        },
    )
