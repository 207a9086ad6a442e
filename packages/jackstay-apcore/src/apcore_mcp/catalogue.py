"""The catalogue of served modules: only what it contains can be listed and called.

apcore generates both JSON Schemas on every description (0.5 ms), so each module is described once. Tags, prefix, hidden
modules and aliases are applied here only. A module that cannot be described is skipped with a reason. Changes may come
from any thread; they replace an immutable state, so readers need no lock.
"""

import json
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import msgspec

from apcore_mcp.adapters.annotations import AnnotationMapper
from apcore_mcp.adapters.descriptions import describe
from apcore_mcp.adapters.id_normalizer import APCORE_META_TOOL_PREFIX, MCP_LIMIT, ModuleIDNormalizer
from apcore_mcp.adapters.schema import Schema, SchemaConverter
from apcore_mcp.backends import check_registry
from apcore_mcp.definitions import define
from apcore_mcp.redaction import OUTPUT_KEYS, redact, sensitive_paths
from apcore_mcp.text import escape_unprintable, to_utf8
from jackstay.models import deep_copy
from jackstay.types import ToolAnnotations

if TYPE_CHECKING:
    from apcore import ModuleDescriptor, Registry  # type: ignore[import-untyped]  # apcore ships no types

logger = logging.getLogger("apcore_mcp.catalogue")


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One served module. Immutable.

    `name` is the name of the MCP tool, `id` the id in apcore, `alias` the name that the module requests (used unless it
    is taken), and `model_name` the name for OpenAI. `annotations` is None if the module declares none. `sensitive` has
    the paths of arguments that must never be shown (`*` is any item of a list). `descriptor` is the descriptor of
    apcore.
    """

    id: str
    name: str
    title: str | None
    description: str
    documentation: str | None
    input_schema: Schema
    output_schema: Schema
    annotations: ToolAnnotations | None
    tags: tuple[str, ...]
    version: str
    is_streaming: bool
    needs_approval: bool
    sensitive: tuple[tuple[str, ...], ...]
    descriptor: "ModuleDescriptor"
    alias: str | None = None
    model_name: str = ""
    # The declared output schema, if it cannot be listed.
    unlisted_output: Schema | None = None

    def redact(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return a copy of the arguments with the sensitive values replaced."""
        return redact(arguments, self.input_schema)

    def redact_output(self, output: Any) -> Any:
        """Return a copy of an output, an object or a list, with the sensitive values replaced."""
        schema = self.unlisted_output or self.output_schema
        if isinstance(output, Mapping):
            return redact(output, schema, OUTPUT_KEYS)
        # Only executors that are not of apcore return lists.
        definitions: dict[str, Any] = {key: schema[key] for key in ("$defs", "definitions") if key in schema}
        return redact({"rows": output}, {**definitions, "properties": {"rows": schema}}, OUTPUT_KEYS)["rows"]


class Change(msgspec.Struct, frozen=True):
    """The entries that a change added and removed; a replaced entry is in both."""

    added: tuple[Entry, ...] = ()
    removed: tuple[Entry, ...] = ()


class _State(msgspec.Struct, frozen=True):
    """The state of the catalogue: entries by id in order, and by every valid name."""

    entries: dict[str, Entry]
    names: dict[str, Entry]
    skipped: dict[str, str]


class Catalogue:
    """The modules of a registry that match the filters. `refresh()` reads all modules, `update(id)` one.

    Raises: TypeError for anything but a registry; ValueError for an empty filter.
    """

    def __init__(
        self,
        registry: "Registry",
        *,
        tags: Sequence[str] | None = None,
        prefix: str | None = None,
        schema_converter: SchemaConverter | None = None,
        annotation_mapper: AnnotationMapper | None = None,
        rich_description: bool = False,
    ) -> None:
        check_registry(registry)
        check_filters(tags, prefix)
        self.registry = registry
        self._tags = None if tags is None else list(tags)
        self._prefix = prefix
        self._schemas = schema_converter or SchemaConverter()
        self._annotations = annotation_mapper or AnnotationMapper()
        self._is_rich = rich_description
        self.ids = ModuleIDNormalizer()
        # Modules that could not be loaded into the registry, by id, with the reasons.
        self.undiscovered: dict[str, str] = {}
        self._state = _State({}, {}, {})
        self._lock = threading.RLock()
        self._listeners: list[Callable[[Change], None]] = []

    def __repr__(self) -> str:
        return f"<Catalogue {len(self._state.entries)} modules, {len(self._state.skipped)} skipped>"

    def __len__(self) -> int:
        return len(self._state.entries)

    # --- reading ------------------------------------------------------------------------------------------------------

    def tools(self) -> tuple[Entry, ...]:
        """Return all entries, ordered by id."""
        return tuple(self._state.entries.values())

    def find(self, name: str) -> Entry | None:
        """Return the entry with this tool name, id or OpenAI name, or None."""
        return self._state.names.get(name)

    def skipped(self) -> Mapping[str, str]:
        """Return the modules that could not be loaded or described, with the reasons."""
        known = self._state.entries
        lost = {id: reason for id, reason in self.undiscovered.items() if id not in known}
        return MappingProxyType({**lost, **self._state.skipped})

    def subscribe(self, listener: Callable[[Change], None]) -> Callable[[], None]:
        """Call `listener(change)` after every change, on the thread of the change. Return a function that ends this."""
        with self._lock:
            self._listeners.append(listener)

        def unsubscribe() -> None:
            with self._lock:
                if listener in self._listeners:
                    self._listeners.remove(listener)

        return unsubscribe

    # --- changing -----------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Read the whole registry again and notify the listeners of changes."""
        with self._lock:
            skipped: dict[str, str] = {}
            found = [self._describe(module_id, skipped) for module_id in self._module_ids()]
            self._replace({entry.id: entry for entry in found if entry is not None}, skipped)

    def update(self, module_id: str) -> None:
        """Read one module again after it was added, changed or removed."""
        with self._lock:
            entries, skipped = dict(self._state.entries), dict(self._state.skipped)
            skipped.pop(module_id, None)
            entries.pop(module_id, None)
            if module_id in self._module_ids():
                entry = self._describe(module_id, skipped)
                if entry is not None:
                    entries[module_id] = entry
            self._replace(dict(sorted(entries.items())), skipped)

    def set_undiscovered(self, reasons: Mapping[str, str]) -> None:
        """Set the modules that could not be loaded into the registry, with the reasons, and notify the listeners."""
        with self._lock:
            if reasons != self.undiscovered:
                self.undiscovered = dict(reasons)
                self._notify(Change())

    def skip(self, module_id: str, reason: str) -> None:
        """Remove a module that the server cannot list."""
        with self._lock:
            entries = {id: entry for id, entry in self._state.entries.items() if id != module_id}
            self._replace(entries, {**self._state.skipped, module_id: reason})
        logger.warning("skipped module %s: %s", module_id, reason)

    def _replace(self, entries: dict[str, Entry], skipped: dict[str, str]) -> None:
        before, were_skipped = self._state.entries, self._state.skipped
        named = self._with_names(entries)
        self._state = _State(named, self._index(named), skipped)
        added = tuple(entry for id, entry in named.items() if _has_changed(before.get(id), entry))
        removed = tuple(entry for id, entry in before.items() if _has_changed(named.get(id), entry))
        # A change of the skipped modules is a change as well, for the inspector.
        if added or removed or skipped != were_skipped:
            self._notify(Change(added, removed))

    def _notify(self, change: Change) -> None:
        for listener in list(self._listeners):
            listener(change)

    def _module_ids(self) -> list[str]:
        ids: list[str] = self.registry.list(tags=self._tags, prefix=self._prefix)
        return ids

    # --- names --------------------------------------------------------------------------------------------------------

    def _with_names(self, entries: dict[str, Entry]) -> dict[str, Entry]:
        """Assign the tool names. An alias that equals an id or an earlier alias is not used."""
        short = {id: self.ids.shorten(id) if len(id) > MCP_LIMIT else id for id in entries}
        taken = {name: id for id, name in short.items()}
        made: dict[str, Entry] = {}
        for id, entry in entries.items():
            name, alias = short[id], entry.alias
            if alias is not None and taken.setdefault(alias, id) == id:
                name = alias
            elif alias is not None:
                logger.warning("alias %s of %s is already used by %s; using its id", alias, id, taken[alias])
            made[id] = entry if name == entry.name else msgspec.structs.replace(entry, name=name)
        return made

    def _index(self, entries: dict[str, Entry]) -> dict[str, Entry]:
        """Map every valid name to its entry. Tool names take precedence, then ids."""
        by_rule = {entry.model_name: entry for entry in entries.values()}
        return {**by_rule, **entries, **{entry.name: entry for entry in entries.values()}}

    # --- describing ---------------------------------------------------------------------------------------------------

    def _describe(self, module_id: str, skipped: dict[str, str]) -> Entry | None:
        try:
            return self._make(module_id)
        except Exception as error:  # a broken module must not affect the others
            reason = escape_unprintable(f"{type(error).__name__}: {error}"[:500])
            logger.warning("skipped module %s: %s", module_id, reason)
            logger.debug("traceback of skipped module %s", module_id, exc_info=True)
            skipped[module_id] = reason
            return None

    def _make(self, module_id: str) -> Entry:
        module = self.registry.get(module_id) if hasattr(self.registry, "get") else None
        descriptor = _definition(self.registry, module_id, module)
        if descriptor is None:
            raise LookupError("the registry has no definition of this module")
        input_schema = listed_input_schema(self._schemas, descriptor)
        output_schema = listed_output_schema(self._schemas, descriptor)
        if input_schema.get("type") != "object":
            raise ValueError(f"the input schema must have type 'object', not {input_schema.get('type')!r}")
        declared = descriptor.annotations
        instance = getattr(module, "annotations", None)
        display = display_of(descriptor)
        return Entry(
            id=module_id,
            name=module_id,
            title=to_utf8(descriptor.name) if descriptor.name else None,
            description=describe(descriptor, display, is_rich=self._is_rich),
            documentation=to_utf8(descriptor.documentation) if descriptor.documentation else None,
            input_schema=_check_schema(input_schema, "input"),
            output_schema=_check_schema(output_schema, "output"),
            annotations=None if declared is None else self._annotations.to_mcp_annotations(declared),
            tags=tuple(to_utf8(tag) for tag in descriptor.tags),
            version=to_utf8(descriptor.version),
            is_streaming=callable(getattr(module, "stream", None)),
            # Either is enough: neither the metadata file nor the code may cancel the requirement of the other.
            needs_approval=self._annotations.has_requires_approval(declared) or _requires_approval(instance),
            sensitive=sensitive_paths(input_schema),
            descriptor=descriptor,
            alias=alias_of(display),
            model_name=self.ids.name_for_models(module_id),
            unlisted_output=None if output_schema else descriptor.output_schema or None,
        )


def listed_input_schema(schemas: SchemaConverter, descriptor: "ModuleDescriptor") -> Schema:
    """Return the input schema; unchanged if it has references by `$anchor`, by `$id` or to other documents."""
    try:
        schema = schemas.convert_input_schema(descriptor, keeps_cycles=True)
        kinds = schema.get("type")
        # Arguments are always an object, and MCP requires exactly this type.
        return {**schema, "type": "object"} if isinstance(kinds, list) and "object" in kinds else schema
    except KeyError as error:
        logger.info("the input schema of %s is listed as it is: %s", descriptor.module_id, error)
        return {"type": "object", **deep_copy(descriptor.input_schema)}


def listed_output_schema(schemas: SchemaConverter, descriptor: "ModuleDescriptor") -> Schema:
    """Return the output schema, or nothing if it is not of an object, or a client could not resolve its references."""
    try:
        schema = schemas.convert_output_schema(descriptor, keeps_cycles=True)
    except KeyError as error:
        logger.info("the output schema of %s is not listed: %s", descriptor.module_id, error)
        return {}
    # Structured content of MCP must be an object, and so are all outputs of apcore.
    return schema if schema.get("type") == "object" else {}


def bare_entry(module_id: str, output_schema: Schema | None, is_streaming: bool, descriptor: Any) -> Entry:
    """Return an entry of a module that is not in a registry."""
    return Entry(
        id=module_id,
        name=module_id,
        title=None,
        description="",
        documentation=None,
        input_schema={},
        output_schema=output_schema or {},
        annotations=None,
        tags=(),
        version="",
        is_streaming=is_streaming,
        needs_approval=False,
        sensitive=(),
        descriptor=descriptor,
    )


def check_filters(tags: Sequence[object] | None, prefix: object) -> None:
    """Check the filters. Raises: ValueError."""
    if tags is not None and (isinstance(tags, str) or not all(isinstance(tag, str) and tag for tag in tags)):
        raise ValueError(f"tags must be a list of non-empty strings, not {tags!r}")
    if prefix is not None and (not isinstance(prefix, str) or not prefix):
        raise ValueError(f"prefix must be a non-empty str, not {prefix!r}")


def _definition(registry: "Registry", module_id: str, module: object) -> "ModuleDescriptor | None":
    """Return the descriptor of apcore. A Pydantic model with unresolved annotations is rebuilt once."""
    try:
        return define(registry, module_id)
    except Exception:
        names = getattr(getattr(type(module), "execute", None), "__globals__", None)
        if names is None:
            raise
        for schema in (getattr(module, "input_schema", None), getattr(module, "output_schema", None)):
            if getattr(schema, "__pydantic_complete__", True) is False:
                schema.model_rebuild(force=True, _types_namespace=names)  # type: ignore[union-attr]  # Pydantic's
        return registry.get_definition(module_id)


def _check_schema(schema: Schema, which: str) -> Schema:
    """Return the schema in a form that every client can decode: one bad schema would break the whole list.

    MCP requires the properties at the root to be objects (2025-06-18 schema, `Tool`); JSON Schema also allows booleans.

    Raises: ValueError for an invalid root or a value that is not JSON.
    """
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if not isinstance(properties, dict) or not all(isinstance(part, dict | bool) for part in properties.values()):
        raise ValueError(f"`properties` of the {which} schema must be an object of schemas")
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        raise ValueError(f"`required` of the {which} schema must be a list of strings")
    try:
        _write(schema).encode()
    except (TypeError, ValueError) as error:
        raise ValueError(f"the {which} schema is not JSON: {error}") from error
    if not any(isinstance(part, bool) for part in properties.values()):
        return schema
    spelled = {name: _BOOLEAN_SCHEMAS[part] if isinstance(part, bool) else part for name, part in properties.items()}
    return {**schema, "properties": spelled}


# Strict JSON: no NaN and, after encoding as UTF-8, no lone surrogates.
_write: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode

# The boolean schemas as objects.
_BOOLEAN_SCHEMAS: Final[Mapping[bool, Schema]] = {True: {}, False: {"not": {}}}


def display_of(descriptor: "ModuleDescriptor") -> Mapping[str, Any]:
    """Return the `display` metadata of a module for MCP."""
    metadata: object = getattr(descriptor, "metadata", None)
    display = metadata.get("display") if isinstance(metadata, Mapping) else None
    if not isinstance(display, Mapping):
        return {}
    special = display.get("mcp")
    return {**display, **special} if isinstance(special, Mapping) else display


def runs_in_background(descriptor: object) -> bool:
    """Return whether a module declares `metadata.async`, or `mcp_async` in the extras of its annotations."""
    metadata = getattr(descriptor, "metadata", None) or {}
    extra = getattr(getattr(descriptor, "annotations", None), "extra", None) or {}
    return any(
        value is True or str(value).lower() == "true" for value in (metadata.get("async"), extra.get("mcp_async"))
    )


def alias_of(display: Mapping[str, Any]) -> str | None:
    """Return the alias if it is a valid tool name and not one of the tools that the server adds."""
    alias = display.get("alias")
    if not isinstance(alias, str) or not alias or alias.startswith(APCORE_META_TOOL_PREFIX):
        return None
    is_usable = (
        len(alias) <= 128 and alias.isascii() and all(character.isalnum() or character in "_.-" for character in alias)
    )
    return alias if is_usable else None


def _has_changed(old: Entry | None, new: Entry) -> bool:
    """Return whether two entries differ, without comparing an entry with itself."""
    return old is not new and old != new


def _requires_approval(annotations: object) -> bool:
    if isinstance(annotations, Mapping):
        return annotations.get("requires_approval") is True
    return getattr(annotations, "requires_approval", False) is True


__all__ = [
    "Catalogue",
    "Change",
    "Entry",
    "alias_of",
    "bare_entry",
    "check_filters",
    "display_of",
    "listed_input_schema",
    "listed_output_schema",
    "runs_in_background",
]
