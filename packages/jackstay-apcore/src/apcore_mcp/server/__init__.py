"""The bridge as an MCP server: what it offers, how it runs a call, how it follows a registry, how it is reached."""

from typing import TYPE_CHECKING

from jackstay._lazy import lazy

if TYPE_CHECKING:
    from apcore_mcp.server.factory import MCPServerFactory, Offer
    from apcore_mcp.server.listener import RegistryListener
    from apcore_mcp.server.router import Caller, ExecutionRouter
    from apcore_mcp.server.transport import TransportManager

__all__ = ["Caller", "ExecutionRouter", "MCPServerFactory", "Offer", "RegistryListener", "TransportManager"]

if not TYPE_CHECKING:
    __getattr__ = lazy(
        __name__,
        {
            "Caller": "router",
            "ExecutionRouter": "router",
            "MCPServerFactory": "factory",
            "Offer": "factory",
            "RegistryListener": "listener",
            "TransportManager": "transport",
        },
    )
