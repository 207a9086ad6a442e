"""Adapters from apcore to MCP and OpenAI: schemas, annotations, ids, errors. Each can be used alone."""

from jackstay._lazy import attach

__all__, __getattr__, __dir__ = attach(
    __name__,
    {
        ".annotations": "AnnotationMapper",
        ".approval": "ElicitationApprovalHandler",
        ".errors": "ErrorMapper",
        ".formatter": "MCPErrorFormatter McpErrorFormatter register_mcp_formatter",
        ".id_normalizer": "ModuleIDNormalizer",
        ".schema": "SchemaConverter",
    },
)
