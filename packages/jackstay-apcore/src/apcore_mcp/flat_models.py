"""JSON Schemas of flat Pydantic models: fields of strings, numbers, booleans, literals, and lists and dicts of them.

Most models of modules are flat, and the generator of Pydantic takes most of the time to describe a module. The result
equals that of the generator. For any other model, or what a future Pydantic adds, it is None.
"""

import inspect
import math
from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel

Schema = dict[str, Any]

# The constraints of each type, as Pydantic and as JSON Schema name them.
_NUMBER: Final = {
    "ge": "minimum",
    "le": "maximum",
    "gt": "exclusiveMinimum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
}
_SCALARS: Final[Mapping[str, tuple[str, Mapping[str, str]]]] = {
    "str": ("string", {"min_length": "minLength", "max_length": "maxLength", "pattern": "pattern"}),
    "int": ("integer", _NUMBER),
    "float": ("number", _NUMBER),
    "bool": ("boolean", {}),
}
_DEFAULT_KEYS: Final = frozenset({"type", "schema", "default", "default_factory", "default_factory_takes_data"})
_FIELD_KEYS: Final = frozenset({"type", "schema", "metadata", "validation_alias", "serialization_alias"})
_MODEL_KEYS: Final = frozenset({"type", "cls", "schema", "custom_init", "root_model", "config", "ref", "metadata"})
_FIELDS_KEYS: Final = frozenset({"type", "fields", "model_name", "computed_fields"})
_PLAIN: Final = (str, int, bool, type(None))


class _NotFlat(Exception):
    """The model has something that is not handled here."""


def flat_schema(model: type[BaseModel]) -> Schema | None:
    """Return what `model.model_json_schema()` returns, or None if the model is not flat."""
    core: Any = getattr(model, "__pydantic_core_schema__", None)
    try:
        if (
            not isinstance(core, dict)
            or core["type"] != "model"
            or model.model_config
            or hasattr(model, "__deprecated__")
        ):
            return None
        fields: Any = core["schema"]
        hooks = core["metadata"].get("pydantic_js_functions", ())
        is_usual = (
            core.keys() <= _MODEL_KEYS
            and not core["root_model"]
            and not hasattr(model, "__deprecated__")
            and core["config"] == {"title": model.__name__}
            and core["metadata"].keys() <= {"pydantic_js_functions"}
            and [getattr(hook, "__func__", None) for hook in hooks] == [_hook(BaseModel)]
            and fields["type"] == "model-fields"
            and fields.keys() <= _FIELDS_KEYS
        )
        return _describe_model(model, fields["fields"]) if is_usual else None
    except (_NotFlat, KeyError, AttributeError, TypeError):
        return None


def _hook(model: type[BaseModel]) -> object:
    return getattr(model.__get_pydantic_json_schema__, "__func__", None)


def _describe_model(model: type[BaseModel], fields: Mapping[str, Any]) -> Schema:
    properties: Schema = {}
    required = []
    for own_name, field in fields.items():
        if not field.keys() <= _FIELD_KEYS:
            raise _NotFlat
        name = field.get("validation_alias", own_name)
        if type(name) is not str:
            raise _NotFlat
        described = _describe(field["schema"], is_field=True)
        described.update(_updates(field["metadata"]))
        described.setdefault("title", name.title().replace("_", " ").strip())
        properties[name] = dict(sorted(described.items()))
        if field["schema"]["type"] != "default":
            required.append(name)
    made: Schema = {"properties": properties, "title": model.__name__, "type": "object"}
    if required:
        made["required"] = required
    if model.__doc__:
        made["description"] = inspect.cleandoc(model.__doc__)
    return dict(sorted(made.items()))


def _updates(metadata: Mapping[str, Any]) -> Schema:
    """Return what the arguments of `Field` add."""
    if not metadata.keys() <= {"pydantic_js_updates", "pydantic_js_extra"}:
        raise _NotFlat
    extra = metadata.get("pydantic_js_extra", {})
    if not isinstance(extra, dict) or not all(type(value) in _PLAIN for value in extra.values()):
        raise _NotFlat
    return {**metadata.get("pydantic_js_updates", {}), **extra}


def _describe(core: Mapping[str, Any], *, is_field: bool = False) -> Schema:
    kind = core["type"]
    if kind in _SCALARS:
        name, constraints = _SCALARS[kind]
        made: Schema = {"type": name}
        for key, value in core.items():
            if key != "type":
                made[constraints[key]] = value  # a KeyError: not flat
                if type(value) not in (str, int, float):
                    raise _NotFlat
    elif kind == "default" and is_field and core.keys() <= _DEFAULT_KEYS:
        made = _describe(core["schema"])
        if "default" in core:
            default = core["default"]
            is_number = type(default) is float and math.isfinite(default)
            if type(default) not in _PLAIN and not is_number and default not in ([], {}):
                raise _NotFlat
            made["default"] = default
    elif kind == "nullable" and core.keys() == {"type", "schema"}:
        made = {"anyOf": [_describe(core["schema"]), {"type": "null"}]}
    elif kind == "list" and core.keys() == {"type", "items_schema"}:
        made = {"items": _describe(core["items_schema"]), "type": "array"}
    elif kind == "dict" and core.keys() == {"type", "keys_schema", "values_schema"}:
        if core["keys_schema"] != {"type": "str"}:
            raise _NotFlat
        made = {"additionalProperties": _describe(core["values_schema"]) or True, "type": "object"}
    elif kind == "any" and core.keys() == {"type"}:
        made = {}
    elif kind == "literal" and core.keys() == {"type", "expected"} and len(core["expected"]) > 1:
        if not all(type(value) is str for value in core["expected"]):
            raise _NotFlat
        made = {"enum": list(core["expected"]), "type": "string"}
    else:
        raise _NotFlat
    return made


__all__ = ["flat_schema"]
