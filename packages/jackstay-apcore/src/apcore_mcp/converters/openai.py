"""Modules as tool definitions for model APIs: OpenAI chat completions, OpenAI responses, Anthropic. Plain dicts, no client.

How each API writes a tool, and what strict mode makes of a schema, is `jackstay.models`' business. Schemas that contain
themselves keep their definitions.

Pure but for warnings. Above: `to_openai_tools` and its kin, the command. Below: `adapters`, `catalogue`, `jackstay.models`.
"""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from apcore_mcp.adapters.annotations import AnnotationMapper
from apcore_mcp.adapters.id_normalizer import ModuleIDNormalizer
from apcore_mcp.adapters.schema import Schema, SchemaConverter
from apcore_mcp.catalogue import Catalogue
from apcore_mcp.texts import told
from jackstay.models import SHAPES, check_shape, definition, strict_schema

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
    ) -> list[dict[str, Any]]:
        """Every module that passes the filters. One that cannot be converted is left out, with a warning.

        Raises: ValueError for a filter that is empty, or a shape that is none.
        """
        catalogue = Catalogue(registry, tags=tags, prefix=prefix, schema_converter=self._schema_converter)
        catalogue.refresh()
        return self.convert_catalogue(catalogue, embed_annotations, strict, shape=shape)

    def convert_catalogue(
        self,
        catalogue: Catalogue,
        embed_annotations: bool = False,
        strict: bool = False,
        *,
        shape: str = "openai",
    ) -> list[dict[str, Any]]:
        """Every module of a catalogue; as `convert_registry`."""
        check_shape(shape)
        made = []
        for entry in catalogue.tools():
            try:
                tool = self.convert_descriptor(entry.descriptor, embed_annotations, strict, shape=shape)
            except Exception as error:  # noqa: BLE001  # one odd schema must not lose the others
                logger.warning("module %s is left out: %s: %s", entry.id, type(error).__name__, error)
            else:
                made.append(tool)
        return made

    def convert_descriptor(
        self,
        descriptor: "ModuleDescriptor",
        embed_annotations: bool = False,
        strict: bool = False,
        *,
        shape: str = "openai",
    ) -> dict[str, Any]:
        """One module. Raises: ValueError for an empty id, or a shape that is none."""
        name = self._id_normalizer.normalize(descriptor.module_id)
        parameters = self._schema_converter.convert_input_schema(descriptor, keeps_cycles=True)
        if strict:
            parameters = self._apply_strict_mode(parameters, descriptor.module_id)
        description = told(descriptor.description or "")
        if embed_annotations:
            description += self._annotation_mapper.to_description_suffix(descriptor.annotations)
        return definition(shape, name, description, parameters, strict=strict)

    def module_id(self, tool_name: str) -> str:
        """The module that a model means by the name of a tool: for who runs its calls."""
        return self._id_normalizer.denormalize(tool_name)

    def _apply_strict_mode(self, schema: Schema, module_id: str = "") -> Schema:
        """The schema as structured outputs take it; a new one."""
        return strict_schema(
            schema,
            lambda: logger.warning(
                "strict mode closes an object of %s that takes additional properties",
                module_id or "a schema",
            ),
        )


__all__ = ["SHAPES", "OpenAIConverter"]
