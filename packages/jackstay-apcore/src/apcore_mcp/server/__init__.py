"""The bridge as an MCP server: tools, calls, changes of the registry, and transports."""

from typing import TYPE_CHECKING

from jackstay._lazy import lazy

if TYPE_CHECKING:
    from apcore_mcp.server.factory import CatalogueSync, MCPServerFactory
    from apcore_mcp.server.listener import RegistryListener
    from apcore_mcp.server.router import Caller, ExecutionRouter
    from apcore_mcp.server.transport import TransportManager

__all__ = ["Caller", "CatalogueSync", "ExecutionRouter", "MCPServerFactory", "RegistryListener", "TransportManager"]

if not TYPE_CHECKING:
    __getattr__ = lazy(
        __name__,
        {
            "Caller": "router",
            "ExecutionRouter": "router",
            "MCPServerFactory": "factory",
            "CatalogueSync": "factory",
            "RegistryListener": "listener",
            "TransportManager": "transport",
        },
    )
