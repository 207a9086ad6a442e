"""Descriptors of modules, with JSON Schemas that are generated once for each model.

`Registry.get_definition` of apcore generates both schemas on every call, which is nearly all of its time. Here it gets
the modules with schemas in the place of models, from a cache.
"""

import threading
import weakref
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

from apcore_mcp.flat_models import flat_schema
from jackstay.models import deep_copy

if TYPE_CHECKING:
    from apcore import ModuleDescriptor, Registry  # type: ignore[import-untyped]  # apcore ships no types

_SCHEMAS: Final[weakref.WeakKeyDictionary[type[BaseModel], dict[str, Any]]] = weakref.WeakKeyDictionary()
_lock: Final = threading.Lock()


def define(registry: "Registry", module_id: str) -> "ModuleDescriptor | None":
    """Return what `registry.get_definition(module_id)` returns. Raises: what it raises."""
    found: ModuleDescriptor | None
    # Replaced on this object, or not a registry of apcore.
    if "get_definition" in vars(registry) or not hasattr(registry, "get"):
        found = registry.get_definition(module_id)
    else:
        found = type(registry).get_definition(_WithSchemas(registry), module_id)
    return found


def json_schema_of(model: Any) -> Any:
    """Return the JSON Schema of a model, a copy; anything else unchanged. A model with its own generator uses that."""
    if not isinstance(model, type) or not issubclass(model, BaseModel) or _has_own_generator(model):
        return model
    with _lock:
        found = _SCHEMAS.get(model)
    if found is None:
        model.model_rebuild()
        found = flat_schema(model) or model.model_json_schema(schema_generator=_Generator)
        if model.__pydantic_complete__:
            with _lock:
                _SCHEMAS[model] = found
    return deep_copy(found)


def _has_own_generator(model: type[BaseModel]) -> bool:
    own = getattr(model.model_json_schema, "__func__", None)
    return own is not getattr(BaseModel.model_json_schema, "__func__", None)


class _Generator(GenerateJsonSchema):
    """The generator of pydantic without what it repeats for each model: its table of methods, and plain defaults."""

    _names: dict[Any, str] = {}  # noqa: RUF012  # shared on purpose: the table of method names

    def build_schema_type_to_method(self) -> Any:
        if not self._names:
            table = super().build_schema_type_to_method()
            self._names.update({key: method.__name__ for key, method in table.items()})
        return {key: getattr(self, name) for key, name in self._names.items()}

    def encode_default(self, dft: Any) -> Any:
        # Enums and other subclasses are encoded by pydantic.
        if dft is None or type(dft) in (str, int, bool) or (type(dft) in (list, dict) and not dft):
            return dft
        return super().encode_default(dft)


class _WithSchemas:
    """A registry whose modules have schemas in the place of models, for `get_definition`."""

    def __init__(self, registry: "Registry") -> None:
        self._registry = registry

    def __getattr__(self, name: str) -> Any:
        return getattr(self._registry, name)

    def get(self, *given: Any, **more: Any) -> Any:
        module = self._registry.get(*given, **more)
        return None if module is None else _Described(module)


class _Described:
    """A module with schemas in the place of models."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self.input_schema: Any = json_schema_of(getattr(module, "input_schema", None))
        self.output_schema: Any = json_schema_of(getattr(module, "output_schema", None))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


__all__ = ["define", "json_schema_of"]
