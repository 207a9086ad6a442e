"""Adapters from apcore to MCP and OpenAI: schemas, annotations, ids, errors. Each can be used alone."""

from typing import TYPE_CHECKING

from jackstay._lazy import lazy

if TYPE_CHECKING:
    from apcore_mcp.adapters.annotations import AnnotationMapper
    from apcore_mcp.adapters.errors import ErrorMapper
    from apcore_mcp.adapters.id_normalizer import ModuleIDNormalizer
    from apcore_mcp.adapters.schema import SchemaConverter

__all__ = ["AnnotationMapper", "ErrorMapper", "ModuleIDNormalizer", "SchemaConverter"]

if not TYPE_CHECKING:
    __getattr__ = lazy(
        __name__,
        {
            "AnnotationMapper": "annotations",
            "ErrorMapper": "errors",
            "ModuleIDNormalizer": "id_normalizer",
            "SchemaConverter": "schema",
        },
    )
