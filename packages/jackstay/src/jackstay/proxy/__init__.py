"""A proxy between any MCP client and any MCP server.

`Proxy(target)` is a `Server` that forwards every request to an upstream server, over a client that reconnects
automatically. Apart from the commands, it is the only package that uses both the client and the server package.
"""

from typing import TYPE_CHECKING

from jackstay._lazy import lazy

if TYPE_CHECKING:
    from jackstay.proxy._options import KEEPALIVE, PROXY_OPTIONS, ProxyOptions
    from jackstay.proxy._proxy import Proxy

__all__ = ["KEEPALIVE", "PROXY_OPTIONS", "Proxy", "ProxyOptions"]

if not TYPE_CHECKING:
    __getattr__ = lazy(
        __name__,
        {"KEEPALIVE": "_options", "PROXY_OPTIONS": "_options", "Proxy": "_proxy", "ProxyOptions": "_options"},
    )
