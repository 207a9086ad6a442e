"""The apcore bridge: serve an apcore `Registry` as an MCP server, or export it as tool definitions for model APIs.

`serve(registry)` is enough for most programs. `MCPServer` serves in the background, `asgi_app` is for mounting in
another app, and `to_openai_tools` and similar functions export. `adapters`, `converters` and `server` have the parts,
for other projects. Names are imported on first use, because apcore is large.
"""

from apcore_mcp._version import __version__ as __version__
from jackstay._lazy import TYPE_CHECKING, lazy

if TYPE_CHECKING:
    from apcore_mcp.adapters.annotations import AnnotationMapper
    from apcore_mcp.adapters.errors import ErrorMapper
    from apcore_mcp.adapters.id_normalizer import ModuleIDNormalizer
    from apcore_mcp.adapters.schema import SchemaConverter
    from apcore_mcp.background import MCPServer
    from apcore_mcp.catalogue import Catalogue, Entry
    from apcore_mcp.converters.openai import OpenAIConverter
    from apcore_mcp.server.factory import MCPServerFactory
    from apcore_mcp.server.listener import RegistryListener
    from apcore_mcp.server.router import ExecutionRouter
    from apcore_mcp.server.transport import TransportManager
    from apcore_mcp.serving import (
        asgi_app,
        async_serve,
        serve,
        to_anthropic_tools,
        to_openai_responses_tools,
        to_openai_tools,
    )

__all__ = [
    "AnnotationMapper",
    "Catalogue",
    "Entry",
    "ErrorMapper",
    "ExecutionRouter",
    "MCPServer",
    "MCPServerFactory",
    "ModuleIDNormalizer",
    "OpenAIConverter",
    "RegistryListener",
    "SchemaConverter",
    "TransportManager",
    "asgi_app",
    "async_serve",
    "serve",
    "to_anthropic_tools",
    "to_openai_responses_tools",
    "to_openai_tools",
]

if not TYPE_CHECKING:
    __getattr__ = lazy(
        __name__,
        {
            "AnnotationMapper": "adapters.annotations",
            "Catalogue": "catalogue",
            "Entry": "catalogue",
            "ErrorMapper": "adapters.errors",
            "ExecutionRouter": "server.router",
            "MCPServer": "background",
            "MCPServerFactory": "server.factory",
            "ModuleIDNormalizer": "adapters.id_normalizer",
            "OpenAIConverter": "converters.openai",
            "RegistryListener": "server.listener",
            "SchemaConverter": "adapters.schema",
            "TransportManager": "server.transport",
            "asgi_app": "serving",
            "async_serve": "serving",
            "serve": "serving",
            "to_anthropic_tools": "serving",
            "to_openai_responses_tools": "serving",
            "to_openai_tools": "serving",
        },
    )
