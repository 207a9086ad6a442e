"""The live catalogue: every module that is offered, described once, and the one gate for listing and calling.

Describing a module costs apcore half a millisecond (it writes both JSON Schemas anew each time), so it is done once, when
the module comes; whoever lists, calls, exports or shows modules reads the same entries. Tags, prefix, hidden modules and
aliases are decided here and nowhere else: what is not in the catalogue can be neither listed nor called.

One module that cannot be described is skipped with a reason, and the others go on. Changes come from whatever thread a
registry calls back on; a change makes a new table and puts it in the place of the old, so readers need no lock.

Must never know a server or a request. Above: the factory (MCP), the inspector, the metrics, the exports. Below: `adapters`.
"""

import json
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import msgspec

from apcore_mcp.adapters.annotations import AnnotationMapper
from apcore_mcp.adapters.id_normalizer import MCP_LIMIT, ModuleIDNormalizer
from apcore_mcp.adapters.schema import Schema, SchemaConverter
from apcore_mcp.redaction import redact, sensitive_paths
from apcore_mcp.texts import shown, told
from jackstay.types import ToolAnnotations

if TYPE_CHECKING:
    from apcore import ModuleDescriptor, Registry  # type: ignore[import-untyped]  # apcore ships no types

logger = logging.getLogger("apcore_mcp.catalogue")


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One module as it is offered. `name` is what MCP lists; `id` is apcore's. Never changed: a change is a new one.

    `alias` is the name that the module wants, and has unless another has it; `model_name` is the one for OpenAI.

    `annotations` is None where the module declared nothing: hints that nobody gave are not told. `sensitive` are the places
    in the arguments that must never be shown, as paths (`*` is any item of a list). `descriptor` is apcore's own.
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

    def redact(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments as they may be shown: a copy with the sensitive ones replaced."""
        return redact(arguments, self.input_schema)

    def redact_output(self, output: Mapping[str, Any]) -> dict[str, Any]:
        """An output as it may be shown in logs and histories."""
        return redact(output, self.output_schema)


class Change(msgspec.Struct, frozen=True):
    """What a change added, replaced and took away; all in one."""

    added: tuple[Entry, ...] = ()
    removed: tuple[Entry, ...] = ()


class _State(msgspec.Struct, frozen=True):
    """The whole catalogue at one moment: by id in order, and by every name that leads to one."""

    entries: dict[str, Entry]
    names: dict[str, Entry]
    skipped: dict[str, str]


class Catalogue:
    """What a registry offers through these filters. `refresh()` reads it all; `update(id)` one module.

    Raises: ValueError for a filter that is empty text.
    """

    def __init__(
        self,
        registry: "Registry",
        *,
        tags: Sequence[str] | None = None,
        prefix: str | None = None,
        schema_converter: SchemaConverter | None = None,
        annotation_mapper: AnnotationMapper | None = None,
    ) -> None:
        check_filters(tags, prefix)
        self.registry = registry
        self._tags = None if tags is None else list(tags)
        self._prefix = prefix
        self._schemas = schema_converter or SchemaConverter()
        self._annotations = annotation_mapper or AnnotationMapper()
        self.ids = ModuleIDNormalizer()
        # Modules that never reached the registry, by id, with the reasons: see `note_undiscovered`.
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
        """Every module that is offered, by id."""
        return tuple(self._state.entries.values())

    def find(self, name: str) -> Entry | None:
        """The module of this name: as listed, its id, or its name for OpenAI; None if it is not offered."""
        return self._state.names.get(name)

    def skipped(self) -> Mapping[str, str]:
        """The modules that could not be loaded or described, with the reason."""
        known = self._state.entries
        lost = {id: reason for id, reason in self.undiscovered.items() if id not in known}
        return MappingProxyType({**lost, **self._state.skipped})

    def subscribe(self, listener: Callable[[Change], None]) -> Callable[[], None]:
        """Call `listener(change)` after every change, on the thread that made it; call what is returned to end that."""
        with self._lock:
            self._listeners.append(listener)

        def unsubscribe() -> None:
            with self._lock:
                if listener in self._listeners:
                    self._listeners.remove(listener)

        return unsubscribe

    # --- changing -----------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Read the whole registry anew, and tell of what changed."""
        with self._lock:
            skipped: dict[str, str] = {}
            found = [self._describe(module_id, skipped) for module_id in self._offered()]
            self._replace({entry.id: entry for entry in found if entry is not None}, skipped)

    def update(self, module_id: str) -> None:
        """Read one module anew: it came, changed or went."""
        with self._lock:
            entries, skipped = dict(self._state.entries), dict(self._state.skipped)
            skipped.pop(module_id, None)
            entries.pop(module_id, None)
            if self.registry.has(module_id) and module_id in self._offered():
                entry = self._describe(module_id, skipped)
                if entry is not None:
                    entries[module_id] = entry
            self._replace(dict(sorted(entries.items())), skipped)

    def note_undiscovered(self, reasons: Mapping[str, str]) -> None:
        """Keep what never reached the registry, with the reasons, in the place of what was kept; who shows them is told."""
        with self._lock:
            if reasons != self.undiscovered:
                self.undiscovered = dict(reasons)
                self._tell(Change())

    def skip(self, module_id: str, reason: str) -> None:
        """Leave out a module that cannot be offered after all."""
        with self._lock:
            entries = {id: entry for id, entry in self._state.entries.items() if id != module_id}
            self._replace(entries, {**self._state.skipped, module_id: reason})
        logger.warning("module %s is skipped: %s", module_id, reason)

    def _replace(self, entries: dict[str, Entry], skipped: dict[str, str]) -> None:
        before, were_skipped = self._state.entries, self._state.skipped
        named = self._with_names(entries)
        self._state = _State(named, self._index(named), skipped)
        added = tuple(entry for id, entry in named.items() if _differ(before.get(id), entry))
        removed = tuple(entry for id, entry in before.items() if _differ(named.get(id), entry))
        # What is skipped now is a change as well, if only for who shows the reasons.
        if added or removed or skipped != were_skipped:
            self._tell(Change(added, removed))

    def _tell(self, change: Change) -> None:
        for listener in list(self._listeners):
            listener(change)

    def _offered(self) -> list[str]:
        offered: list[str] = self.registry.list(tags=self._tags, prefix=self._prefix)
        return offered

    # --- names --------------------------------------------------------------------------------------------------------

    def _with_names(self, entries: dict[str, Entry]) -> dict[str, Entry]:
        """The entries by their names: an alias that clashes with an id or an earlier alias is not used."""
        short = {id: self.ids.shorten(id) if len(id) > MCP_LIMIT else id for id in entries}
        taken = {name: id for id, name in short.items()}
        made: dict[str, Entry] = {}
        for id, entry in entries.items():
            name, alias = short[id], entry.alias
            if alias is not None and taken.setdefault(alias, id) == id:
                name = alias
            elif alias is not None:
                logger.warning("alias %s of %s is taken by %s; its id is used", alias, id, taken[alias])
            made[id] = entry if name == entry.name else msgspec.structs.replace(entry, name=name)
        return made

    def _index(self, entries: dict[str, Entry]) -> dict[str, Entry]:
        """Every name that leads to an entry. Where two want one, listed names win, then ids."""
        by_rule = {entry.model_name: entry for entry in entries.values()}
        return {**by_rule, **entries, **{entry.name: entry for entry in entries.values()}}

    # --- describing ---------------------------------------------------------------------------------------------------

    def _describe(self, module_id: str, skipped: dict[str, str]) -> Entry | None:
        try:
            return self._make(module_id)
        except (
            Exception
        ) as error:  # the edge of the author's module: one that is broken must not lose the others
            reason = shown(f"{type(error).__name__}: {error}"[:500])
            logger.warning("module %s is skipped: %s", module_id, reason)
            logger.debug("why %s is skipped", module_id, exc_info=True)
            skipped[module_id] = reason
            return None

    def _make(self, module_id: str) -> Entry:
        module = self.registry.get(module_id)
        descriptor = _definition(self.registry, module_id, module)
        if descriptor is None:
            raise LookupError("the registry has no definition of it")
        input_schema = self._schemas.convert_input_schema(descriptor, keeps_cycles=True)
        output_schema = self._schemas.convert_output_schema(descriptor, keeps_cycles=True)
        if input_schema.get("type") != "object":
            raise ValueError(f"the input schema describes {input_schema.get('type')!r}, not an object")
        # MCP has structured results for objects, and apcore's are never anything else.
        if output_schema.get("type") != "object":
            output_schema = {}
        declared = descriptor.annotations
        instance = getattr(module, "annotations", None)
        display = _display(descriptor)
        return Entry(
            id=module_id,
            name=module_id,
            title=told(descriptor.name) if descriptor.name else None,
            description=told(display.get("description") or descriptor.description or ""),
            documentation=told(descriptor.documentation) if descriptor.documentation else None,
            input_schema=_listable(input_schema, "input"),
            output_schema=_listable(output_schema, "output"),
            annotations=None if declared is None else self._annotations.to_mcp_annotations(declared),
            tags=tuple(told(tag) for tag in descriptor.tags),
            version=told(descriptor.version),
            is_streaming=callable(getattr(module, "stream", None)),
            # Either is enough: what a file says must not cancel what the code asks for, nor the other way round.
            needs_approval=self._annotations.has_requires_approval(declared) or _asks_approval(instance),
            sensitive=sensitive_paths(input_schema),
            descriptor=descriptor,
            alias=_alias(display),
            model_name=self.ids.normalize(module_id),
        )


def check_filters(tags: Sequence[object] | None, prefix: object) -> None:
    """Nothing, if they are filters. Raises: ValueError, naming the one that is not."""
    if tags is not None and (isinstance(tags, str) or not all(isinstance(tag, str) and tag for tag in tags)):
        raise ValueError("tags must be a list of texts that are not empty")
    if prefix is not None and (not isinstance(prefix, str) or not prefix):
        raise ValueError("prefix must be a text that is not empty")


def _definition(registry: "Registry", module_id: str, module: object) -> "ModuleDescriptor | None":
    """apcore's description. A model whose hints are still texts is finished with its module's own names, once."""
    try:
        return registry.get_definition(module_id)
    except Exception:
        names = getattr(getattr(type(module), "execute", None), "__globals__", None)
        if names is None:
            raise
        for schema in (getattr(module, "input_schema", None), getattr(module, "output_schema", None)):
            if getattr(schema, "__pydantic_complete__", True) is False:
                schema.model_rebuild(force=True, _types_namespace=names)  # type: ignore[union-attr]  # pydantic's, it said
        return registry.get_definition(module_id)


def _listable(schema: Schema, which: str) -> Schema:
    """The schema as any client can read it: one that some cannot read would lose them the whole list.

    MCP wants the properties at the root to be objects (2025-06-18 schema, `Tool`), where JSON Schema also has true and false.

    Raises: ValueError, for a root that is no schema, or what has no form in JSON.
    """
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if not isinstance(properties, dict) or not all(
        isinstance(part, dict | bool) for part in properties.values()
    ):
        raise ValueError(f"the properties of the {which} schema are no table of schemas")
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        raise ValueError(f"`required` in the {which} schema is no list of names")
    try:
        _write(schema).encode()
    except (TypeError, ValueError) as error:
        raise ValueError(f"the {which} schema is not JSON: {error}") from error
    if not any(isinstance(part, bool) for part in properties.values()):
        return schema
    spelled = {name: _SPELLED[part] if isinstance(part, bool) else part for name, part in properties.items()}
    return {**schema, "properties": spelled}


# JSON as any reader takes it: no NaN, and, once it is UTF-8, no half characters.
_write: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode

# What true and false are as objects.
_SPELLED: Final[Mapping[bool, Schema]] = {True: {}, False: {"not": {}}}


def _display(descriptor: "ModuleDescriptor") -> Mapping[str, Any]:
    """How the module wants to be shown over MCP: the `display` overlay of its metadata."""
    metadata: object = descriptor.metadata
    display = metadata.get("display") if isinstance(metadata, Mapping) else None
    if not isinstance(display, Mapping):
        return {}
    special = display.get("mcp")
    return {**display, **special} if isinstance(special, Mapping) else display


def _alias(display: Mapping[str, Any]) -> str | None:
    """The alias, where it is one that MCP can list."""
    alias = display.get("alias")
    if not isinstance(alias, str) or not alias:
        return None
    is_usable = (
        len(alias) <= 128 and alias.isascii() and all(sign.isalnum() or sign in "_.-" for sign in alias)
    )
    return alias if is_usable else None


def _differ(one: Entry | None, other: Entry) -> bool:
    """Whether they do; the same object does not, however large."""
    return one is not other and one != other


def _asks_approval(annotations: object) -> bool:
    if isinstance(annotations, Mapping):
        return annotations.get("requires_approval") is True
    return getattr(annotations, "requires_approval", False) is True


__all__ = ["Catalogue", "Change", "Entry", "check_filters"]
