"""The proxy's room: any server on one side, any client on the other, and neither needs to know.

`Proxy(target)` is a `Server` whose requests are served by the server behind it, over a client that survives it. It stands on
both rooms and is the only one, beside the commands, that may.
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
