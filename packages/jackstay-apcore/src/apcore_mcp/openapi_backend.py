"""OpenAPI documents as modules, at the path that it has in apcore-mcp."""

from apcore_mcp.compat.openapi import (
    MODULE_ID_SEGMENT,
    build_openapi_backend_from_config,
    openapi_backend,
    project_module_id,
    resolve_spec_location,
)

__all__ = [
    "MODULE_ID_SEGMENT",
    "build_openapi_backend_from_config",
    "openapi_backend",
    "project_module_id",
    "resolve_spec_location",
]
