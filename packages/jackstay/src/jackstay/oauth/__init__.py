"""Access to servers that want to know who asks: OAuth 2.1 as MCP's client rules have it, behind `http(url, auth=...)`.

Discovery, registration, sign-in, step-up, refresh and storage; for people with a browser, for programs, and for organisations.
Every word of a peer is checked before it is used, and no token, code or secret is logged or shown.

Above: users, and the `jackstay` command. Below: `jackstay.transport` (the contract of HTTP clients and authorizers).
"""

from typing import TYPE_CHECKING

from jackstay._lazy import lazy

if TYPE_CHECKING:
    from jackstay.oauth._browser import Redirect, open_page
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
    "open_page",
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
            "open_page": "_browser",
        },
    )
