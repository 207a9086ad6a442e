"""The bridge as an MCP server: tools, calls, changes of the registry, and transports."""

from jackstay._lazy import attach

__all__, __getattr__, __dir__ = attach(
    __name__,
    {
        ".factory": "CatalogueSync MCPServerFactory",
        ".listener": "RegistryListener",
        ".router": "Caller ExecutionRouter",
        ".transport": "TransportManager",
    },
)
