"""The HTTP server: an ASGI app for every MCP revision, with sessions, streams and authentication.

`Server.asgi()` makes the app and `Server.run(transport="http")` runs it. This package exports the protocols that users
can implement and the objects that those two methods accept. It is imported only when HTTP is used.
"""

from typing import TYPE_CHECKING

from jackstay._lazy import lazy

if TYPE_CHECKING:
    from jackstay.server.http._app import App
    from jackstay.server.http._asgi import Asgi, Receive, Scope, Send
    from jackstay.server.http._auth import AuthLike, BearerAuth, Keys, keys
    from jackstay.server.http._event_store import EventStore, MemoryEventStore
    from jackstay.server.http._jwt import JwksLike, JwtVerifier
    from jackstay.server.http._options import HTTP_OPTIONS, HttpKeywords, HttpOptions, make_http_options
    from jackstay.server.http._principal import ANONYMOUS, Guard, Principal, TokenVerifier
    from jackstay.server.http._run import RUN_OPTIONS, RunHttpKeywords, RunOptions, run_http
    from jackstay.server.http._session_store import MemorySessionStore, SessionRecord, SessionStore

__all__ = [
    "ANONYMOUS",
    "HTTP_OPTIONS",
    "RUN_OPTIONS",
    "App",
    "Asgi",
    "AuthLike",
    "BearerAuth",
    "EventStore",
    "Guard",
    "HttpKeywords",
    "HttpOptions",
    "JwksLike",
    "JwtVerifier",
    "Keys",
    "MemoryEventStore",
    "MemorySessionStore",
    "Principal",
    "Receive",
    "RunHttpKeywords",
    "RunOptions",
    "Scope",
    "Send",
    "SessionRecord",
    "SessionStore",
    "TokenVerifier",
    "keys",
    "make_http_options",
    "run_http",
]

if not TYPE_CHECKING:
    __getattr__ = lazy(
        __name__,
        {
            "App": "_app",
            "Asgi": "_asgi",
            "Receive": "_asgi",
            "Scope": "_asgi",
            "Send": "_asgi",
            "run_http": "_run",
            "RunOptions": "_run",
            "RunHttpKeywords": "_run",
            "JwtVerifier": "_jwt",
            "JwksLike": "_jwt",
            "keys": "_auth",
            "Keys": "_auth",
            "BearerAuth": "_auth",
            "AuthLike": "_auth",
            "EventStore": "_event_store",
            "Guard": "_principal",
            "HttpKeywords": "_options",
            "HttpOptions": "_options",
            "MemoryEventStore": "_event_store",
            "MemorySessionStore": "_session_store",
            "ANONYMOUS": "_principal",
            "HTTP_OPTIONS": "_options",
            "RUN_OPTIONS": "_run",
            "Principal": "_principal",
            "SessionRecord": "_session_store",
            "SessionStore": "_session_store",
            "TokenVerifier": "_principal",
            "make_http_options": "_options",
        },
    )
