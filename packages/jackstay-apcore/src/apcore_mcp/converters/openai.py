"""Modules as tool definitions of OpenAI Chat Completions, OpenAI Responses and Anthropic Messages, as plain dicts.

`jackstay.models` has the formats and strict mode. Recursive schemas keep their definitions.
"""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from apcore_mcp.adapters.annotations import AnnotationMapper
from apcore_mcp.adapters.descriptions import to_markdown
from apcore_mcp.adapters.id_normalizer import ModuleIDNormalizer
from apcore_mcp.adapters.schema import Schema, SchemaConverter
from apcore_mcp.catalogue import Catalogue
from apcore_mcp.text import to_utf8
from jackstay.models import SHAPES, check_shape, definition, strict_schema, walk_schema

if TYPE_CHECKING:
    from apcore import ModuleDescriptor, Registry  # type: ignore[import-untyped]  # apcore ships no types

logger = logging.getLogger("apcore_mcp.converters.openai")


class OpenAIConverter:
    """Converts registries and single modules."""

    def __init__(self) -> None:
        self._schema_converter = SchemaConverter()
        self._annotation_mapper = AnnotationMapper()
        self._id_normalizer = ModuleIDNormalizer()

    def convert_registry(
        self,
        registry: "Registry",
        embed_annotations: bool = False,
        strict: bool = False,
        tags: Sequence[str] | None = None,
        prefix: str | None = None,
        *,
        shape: str = "openai",
        rich_description: bool = False,
    ) -> list[dict[str, Any]]:
        """Convert every module that matches the filters. A module that cannot be converted is skipped with a warning.

        Raises: ValueError for an empty filter or an unknown shape.
        """
        catalogue = Catalogue(registry, tags=tags, prefix=prefix, schema_converter=self._schema_converter)
        catalogue.refresh()
        return self.convert_catalogue(
            catalogue, embed_annotations, strict, shape=shape, rich_description=rich_description
        )

    def convert_catalogue(
        self,
        catalogue: Catalogue,
        embed_annotations: bool = False,
        strict: bool = False,
        *,
        shape: str = "openai",
        rich_description: bool = False,
    ) -> list[dict[str, Any]]:
        """Convert every module of a catalogue; see `convert_registry`."""
        check_shape(shape)
        tools = []
        for entry in catalogue.tools():
            try:
                tool = self.convert_descriptor(
                    entry.descriptor, embed_annotations, strict, shape=shape, rich_description=rich_description
                )
            except Exception as error:  # noqa: BLE001  # one bad schema must not affect the others
                logger.warning("skipped module %s: %s: %s", entry.id, type(error).__name__, error)
            else:
                tools.append(tool)
        return tools

    def convert_descriptor(
        self,
        descriptor: "ModuleDescriptor",
        embed_annotations: bool = False,
        strict: bool = False,
        *,
        shape: str = "openai",
        rich_description: bool = False,
    ) -> dict[str, Any]:
        """Convert one module; `rich_description` describes it in Markdown, with schemas and examples.

        Raises: ValueError for an empty id or an unknown shape.
        """
        name = self._id_normalizer.name_for_models(descriptor.module_id)
        parameters = self._schema_converter.convert_input_schema(descriptor, keeps_cycles=True)
        if strict:
            parameters = self._apply_strict_mode(parameters, descriptor.module_id)
        description = to_utf8(to_markdown(descriptor) if rich_description else descriptor.description or "")
        if embed_annotations:
            description += self._annotation_mapper.to_description_suffix(descriptor.annotations)
        return definition(shape, name, description, parameters, strict=strict)

    def module_id(self, tool_name: str) -> str:
        """Return the module id of a tool name, to run the calls of a model."""
        return self._id_normalizer.denormalize(tool_name)

    def _apply_strict_mode(self, schema: Schema, module_id: str = "") -> Schema:
        """Return a copy of the schema for strict mode."""
        return strict_schema(
            _describe_for_models(schema),
            lambda: logger.warning(
                "strict mode forbids the additional properties that %s allows",
                module_id or "a schema",
            ),
        )


def _describe_for_models(schema: Any) -> Any:
    """Return a copy in which `x-llm-description` is the description."""
    if not isinstance(schema, dict):
        return schema
    made = walk_schema(schema, _describe_for_models)
    if isinstance(made.get("x-llm-description"), str):
        made["description"] = made["x-llm-description"]
    return made


__all__ = ["SHAPES", "OpenAIConverter"]
