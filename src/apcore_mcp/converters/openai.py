"""Modules as tool definitions for model APIs: OpenAI chat completions, OpenAI responses, Anthropic. Plain dicts, no client.

Strict mode holds a schema to what OpenAI's structured outputs take: every object closed, every property required, what was
optional may be null, and none of the keywords that the API refuses. Schemas that contain themselves keep their definitions.

Pure but for warnings. Above: `to_openai_tools` and its kin, the command. Below: `adapters`, `catalogue`.
"""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from apcore_mcp.adapters.annotations import AnnotationMapper
from apcore_mcp.adapters.id_normalizer import ModuleIDNormalizer
from apcore_mcp.adapters.schema import Json, Schema, SchemaConverter, walk_schema
from apcore_mcp.catalogue import Catalogue

if TYPE_CHECKING:
    from apcore import ModuleDescriptor, Registry  # type: ignore[import-untyped]  # apcore ships no types

logger = logging.getLogger("apcore_mcp.converters.openai")

# The shapes that tools can be exported in.
SHAPES: Final = ("openai", "openai-responses", "anthropic")

# What structured outputs refuse, beside `x-*`; the rest of the schema says enough to fill it in.
_REFUSED: Final = frozenset(
    [
        "default",
        "title",
        "examples",
        "$schema",
        "$id",
        "$comment",
        "discriminator",
        "not",
        "if",
        "then",
        "else",
        "dependentRequired",
        "dependentSchemas",
        "patternProperties",
        "propertyNames",
        "unevaluatedProperties",
        "unevaluatedItems",
        "contains",
        "minContains",
        "maxContains",
        "minProperties",
        "maxProperties",
        "uniqueItems",
        "minLength",
        "maxLength",
        "readOnly",
        "writeOnly",
        "deprecated",
    ]
)


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
        if shape not in SHAPES:
            raise ValueError(f"shape must be one of {', '.join(SHAPES)}, not {shape!r}")
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
        description = descriptor.description or ""
        if embed_annotations:
            description += self._annotation_mapper.to_description_suffix(descriptor.annotations)
        marked = {"strict": True} if strict else {}
        if shape == "openai":
            function = {"name": name, "description": description, "parameters": parameters, **marked}
            return {"type": "function", "function": function}
        if shape == "openai-responses":
            # Said either way: that API is strict unless told otherwise.
            function = {"name": name, "description": description, "parameters": parameters, "strict": strict}
            return {"type": "function", **function}
        if shape == "anthropic":
            return {"name": name, "description": description, "input_schema": parameters, **marked}
        raise ValueError(f"shape must be one of {', '.join(SHAPES)}, not {shape!r}")

    def module_id(self, tool_name: str) -> str:
        """The module that a model means by the name of a tool: for who runs its calls."""
        return self._id_normalizer.denormalize(tool_name)

    def _apply_strict_mode(self, schema: Schema, module_id: str = "") -> Schema:
        """The schema as structured outputs take it; a new one."""
        made: Schema = _Strict(module_id).convert(schema)
        return made


class _Strict:
    """One schema on its way into strict mode. Warns of what is lost, naming the module and the place."""

    def __init__(self, module_id: str) -> None:
        self._module_id = module_id

    def convert(self, node: Json) -> Json:
        if not isinstance(node, dict):
            return node
        kept = {key: part for key, part in node.items() if key not in _REFUSED and not key.startswith("x-")}
        kept = _join_choices(kept)
        was_open = kept.pop("additionalProperties", None) if _is_object(kept) else None
        made = walk_schema(kept, self.convert)
        if _is_object(made):
            self._close(made, was_open)
        return made

    def _close(self, made: Schema, was_open: Json) -> None:
        if was_open is True or isinstance(was_open, dict):
            logger.warning(
                "strict mode closes an object of %s that takes additional properties",
                self._module_id or "a schema",
            )
        properties: dict[str, Json] = made.get("properties") or {}
        required = set(made.get("required") or ())
        made["properties"] = {
            name: part if name in required else _nullable(part) for name, part in properties.items()
        }
        made["required"] = sorted(properties)
        made["additionalProperties"] = False


def _is_object(node: Schema) -> bool:
    kind = node.get("type")
    return kind == "object" or (isinstance(kind, list) and "object" in kind) or "properties" in node


def _join_choices(node: Schema) -> Schema:
    """`oneOf` as `anyOf`, and `allOf` merged: the API has neither."""
    made = dict(node)
    if "oneOf" in made:
        made["anyOf"] = [*(made.get("anyOf") or ()), *made.pop("oneOf")]
    parts = made.pop("allOf", None)
    for part in parts if isinstance(parts, list) else ():
        if isinstance(part, dict):
            inner = _join_choices(part)
            for key in ("properties", "required"):
                if key in inner and key in made:
                    both = made[key], inner[key]
                    inner[key] = {**both[0], **both[1]} if key == "properties" else [*both[0], *both[1]]
            made = {**made, **inner}
    return made


def _nullable(part: Json) -> Json:
    """The schema, or null."""
    if not isinstance(part, dict):
        return part
    made = dict(part)
    if "const" in made:
        made["enum"] = [made.pop("const")]
    kind = made.get("type")
    if isinstance(kind, str | list):
        kinds = [kind] if isinstance(kind, str) else kind
        made["type"] = kinds if "null" in kinds else [*kinds, "null"]
    elif "anyOf" in made:
        null = {"type": "null"}
        made["anyOf"] = made["anyOf"] if null in made["anyOf"] else [*made["anyOf"], null]
    elif "$ref" in made:
        return {"anyOf": [made, {"type": "null"}]}
    if "enum" in made and None not in made["enum"]:
        made["enum"] = [*made["enum"], None]
    return made


__all__ = ["SHAPES", "OpenAIConverter"]
