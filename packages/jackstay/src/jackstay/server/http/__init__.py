"""The HTTP server: an ASGI app for every MCP revision, with sessions, streams and authentication.

`Server.asgi()` makes the app and `Server.run(transport="http")` runs it. This package exports the protocols that users
can implement and the objects that those two methods accept. It is imported only when HTTP is used.
"""

from jackstay._lazy import attach

__all__, __getattr__, __dir__ = attach(
    __name__,
    {
        "._app": "App",
        "._asgi": "Asgi Receive Scope Send",
        "._auth": "ANONYMOUS AuthLike BearerAuth Guard Keys Principal TokenVerifier keys",
        "._event_store": "EventStore MemoryEventStore",
        "._jwt": "JwksLike JwtVerifier",
        "._keywords": "HttpKeywords RunHttpKeywords",
        "._listening": "Http1Server",
        "._options": "HTTP_OPTIONS HttpOptions make_http_options",
        "._run": "RUN_OPTIONS RunOptions run_http",
        "._session_store": "MemorySessionStore SessionChange SessionRecord SessionStore id_hash",
        "._sockets": "bind_sockets",
    },
)
