"""A server's connection: its table, and the object that runs it. Events in, effects out.

`events` holds both; `ServerConnection` is what a driver holds, and `ServerOffer` what all connections of a server share.
"""

from typing import TYPE_CHECKING

from jackstay._lazy import lazy

if TYPE_CHECKING:
    from jackstay.protocol.server._connection import ServerConnection
    from jackstay.protocol.server._offer import ServerOffer, ServerOptions
    from jackstay.protocol.server._stateless import (
        RequestMeta,
        dress_result,
        progress_token,
        refuse_undeclared,
        result_head,
    )
    from jackstay.protocol.server._table import SERVER, ServerState
    from jackstay.protocol.server.events import ClientFacts

__all__ = [
    "SERVER",
    "ClientFacts",
    "RequestMeta",
    "ServerConnection",
    "ServerOffer",
    "ServerOptions",
    "ServerState",
    "dress_result",
    "progress_token",
    "refuse_undeclared",
    "result_head",
]

if not TYPE_CHECKING:
    __getattr__ = lazy(
        __name__,
        {
            "ClientFacts": "events",
            "RequestMeta": "_stateless",
            "SERVER": "_table",
            "ServerConnection": "_connection",
            "ServerOffer": "_offer",
            "ServerOptions": "_offer",
            "ServerState": "_table",
            "dress_result": "_stateless",
            "progress_token": "_stateless",
            "refuse_undeclared": "_stateless",
            "result_head": "_stateless",
        },
    )
