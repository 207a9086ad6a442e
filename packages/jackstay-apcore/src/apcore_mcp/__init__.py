"""The apcore bridge: serve an apcore `Registry` as an MCP server, or export it as tool definitions for model APIs.

`serve(registry)` is enough for most programs. `MCPServer` serves in the background, `asgi_app` is for mounting in
another app, and `to_openai_tools` and similar functions export. `adapters`, `converters` and `server` have the parts,
for other projects. Names are imported on first use, because apcore is large.
"""

from jackstay._lazy import attach

__all__, __getattr__, __dir__ = attach(
    __name__,
    {
        "._version": "__version__",
        ".adapters.annotations": "AnnotationMapper",
        ".adapters.errors": "ErrorMapper",
        ".adapters.id_normalizer": "ModuleIDNormalizer",
        ".adapters.schema": "SchemaConverter",
        ".background": "MCPServer",
        ".catalogue": "Catalogue Entry",
        ".converters.openai": "OpenAIConverter",
        ".auth": "ClaimMapping JWTAuthenticator",
        ".config": "MCP_DEFAULTS MCP_ENV_PREFIX MCP_NAMESPACE register_mcp_namespace",
        ".helpers": "MCP_ELICIT_KEY MCP_PROGRESS_KEY ElicitResult elicit report_progress",
        ".server.factory": "MCPServerFactory",
        ".server.listener": "RegistryListener",
        ".server.router": "ExecutionRouter",
        ".server.transport": "TransportManager",
        ".serving": "asgi_app async_serve serve to_anthropic_tools to_openai_responses_tools to_openai_tools",
    },
)
