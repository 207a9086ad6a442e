"""The sans-I/O core of a server's connection: events in, effects out.

A driver creates one `ServerConnection` per connection and one `ServerConfig` for all of them.
"""

from jackstay._lazy import attach

__all__, __getattr__, __dir__ = attach(
    __name__,
    {
        "._config": "ConnectionOptions ListOptions ServerConfig ServerOptions",
        "._connection": "ServerConnection",
        "._stateless": "RequestMeta check_capabilities finalize_result progress_token result_head",
        "._states": "ServerState",
        "._table": "SERVER",
        ".events": "ClientParams",
    },
)
