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
        ".auth.jwt": "ClaimMapping JWTAuthenticator",
        ".compat.app": "APCoreMCP",
        ".compat.approvals": "APPROVAL_META_TOOL_NAMES ApprovalBridge ApprovalStore ElicitationApprovalHandler"
        " InMemoryApprovalStore StorageBackedApprovalHandler",
        ".compat.authentication": "AuthMiddleware Authenticator auth_identity_var get_current_identity",
        ".compat.constants": "APCORE_EVENTS ERROR_CODES MODULE_ID_PATTERN REGISTRY_EVENTS",
        ".compat.errors": "MCPErrorFormatter McpErrorFormatter internal_error_response register_mcp_formatter",
        ".compat.tasks": "APCORE_META_TOOL_PREFIX META_TOOL_NAMES AsyncTaskBridge",
        ".config": "MCP_DEFAULTS MCP_ENV_PREFIX MCP_NAMESPACE register_mcp_namespace",
        ".helpers": "MCP_ELICIT_KEY MCP_PROGRESS_KEY ElicitResult elicit report_progress",
        ".metrics": "MetricsExporter",
        ".server.factory": "MCPServerFactory",
        ".server.listener": "RegistryListener",
        ".server.router": "ExecutionRouter",
        ".server.transport": "TransportManager",
        ".serving": "asgi_app async_serve serve to_anthropic_tools to_openai_responses_tools to_openai_tools",
    },
)
