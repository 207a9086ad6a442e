"""A proxy between any MCP client and any MCP server.

`Proxy(target)` is a `Server` that forwards every request to an upstream server, over a client that reconnects
automatically. Apart from the commands, it is the only package that uses both the client and the server package.
"""

from jackstay._lazy import attach

__all__, __getattr__, __dir__ = attach(
    __name__,
    {
        "._gateway": "Gateway",
        "._mount": "proxies_for",
        "._options": "KEEPALIVE PROXY_OPTIONS ProxyOptions",
        "._proxy": "Proxy",
    },
)
