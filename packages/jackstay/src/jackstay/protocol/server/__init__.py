"""The sans-I/O core of a server's connection: events in, effects out.

A driver creates one `ServerConnection` per connection and one `ServerConfig` for all of them.
"""

from typing import TYPE_CHECKING

from jackstay._lazy import lazy

if TYPE_CHECKING:
    from jackstay.protocol.server._config import ServerConfig, ServerOptions
    from jackstay.protocol.server._connection import ServerConnection
    from jackstay.protocol.server._stateless import (
        RequestMeta,
        check_capabilities,
        finalize_result,
        progress_token,
        result_head,
    )
    from jackstay.protocol.server._table import SERVER, ServerState
    from jackstay.protocol.server.events import ClientParams

__all__ = [
    "SERVER",
    "ClientParams",
    "RequestMeta",
    "ServerConfig",
    "ServerConnection",
    "ServerOptions",
    "ServerState",
    "check_capabilities",
    "finalize_result",
    "progress_token",
    "result_head",
]

if not TYPE_CHECKING:
    __getattr__ = lazy(
        __name__,
        {
            "ClientParams": "events",
            "RequestMeta": "_stateless",
            "SERVER": "_table",
            "ServerConnection": "_connection",
            "ServerConfig": "_config",
            "ServerOptions": "_config",
            "ServerState": "_table",
            "finalize_result": "_stateless",
            "progress_token": "_stateless",
            "check_capabilities": "_stateless",
            "result_head": "_stateless",
        },
    )
