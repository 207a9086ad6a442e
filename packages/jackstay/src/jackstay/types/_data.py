"""Structured output as Python objects: dataclasses, dates and so on, made from an output schema.

Schema and output come from a server and are untrusted. A value that does not match its schema stays as it is, and so
does everything after `MAX_STEPS`: reading never raises.
"""

import dataclasses
import keyword
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from jackstay.errors import Json

# Marks a schema of `{"result": value}` that stands for `value`. FastMCP has the same mark.
WRAPPED = "x-fastmcp-wrap-result"

# Nodes of a schema that are visited for one value.
MAX_STEPS = 100_000
MAX_DEPTH = 100

_JSON_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int, float),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
    "array": (list,),
    "object": (dict,),
}
_ABSENT: Any = object()


class _Mismatch(Exception):
    """The value does not match this part of the schema."""


class OutputReader:
    """Converts structured output by an output schema.

    Objects with declared properties become instances of dataclasses, the same class for the same schema. Members that
    are not declared become attributes, too; declared ones that are absent have the default of the schema, or None.
    Strings with the formats `date-time`, `date`, `time` and `duration` become `datetime` and so on. `anyOf` and `oneOf`
    become the first alternative that matches.
    """

    def __init__(self, schema: Mapping[str, Json], name: str = "Root") -> None:
        self.is_wrapped = schema.get(WRAPPED) is True
        self._root = schema
        self._name = name
        # By id of a schema, which `_root` keeps alive.
        self._classes: dict[int, tuple[type, dict[str, str]]] = {}
        self._steps = 0

    def __repr__(self) -> str:
        return f"<OutputReader {self._name}>"

    def read(self, value: Json) -> Any:
        """Return the value as Python objects."""
        schema: Any = self._root
        if self.is_wrapped and isinstance(value, dict) and value.keys() == {"result"}:
            schema, value = _member(schema, "properties").get("result", True), value["result"]
        self._steps = 0
        try:
            return self._convert(schema, value, self._name, 0)
        except (_Mismatch, RecursionError):
            return value

    def _convert(self, schema: Any, value: Any, name: str, depth: int) -> Any:
        self._steps += 1
        if self._steps > MAX_STEPS or depth > MAX_DEPTH:
            raise _Mismatch
        if not isinstance(schema, Mapping):
            return value
        reference = schema.get("$ref")
        if isinstance(reference, str):
            return self._convert(self._resolve(reference), value, _class_name(reference.rpartition("/")[2]), depth + 1)
        if ("const" in schema and schema["const"] != value) or value not in _choices(schema, value):
            raise _Mismatch
        alternatives = schema.get("anyOf", schema.get("oneOf"))
        if isinstance(alternatives, list):
            return self._first_match(alternatives, value, name, depth)
        parts = schema.get("allOf")
        if isinstance(parts, list) and len(parts) == 1:  # how some libraries write a `$ref` with a description
            return self._convert(parts[0], value, name, depth + 1)
        kinds = schema.get("type")
        if not _has_type(value, [kinds] if isinstance(kinds, str) else kinds):
            raise _Mismatch
        if isinstance(value, dict):
            return self._convert_object(schema, value, name, depth)
        if isinstance(value, list):
            prefix, items = schema.get("prefixItems"), schema.get("items")
            singular = name.removesuffix("s") or name
            rows = [items] * len(value)
            if isinstance(prefix, list):
                rows[: len(prefix)] = prefix[: len(value)]
            return [self._convert(row, item, singular, depth + 1) for row, item in zip(rows, value, strict=True)]
        return _convert_string(schema, value) if isinstance(value, str) else value

    def _first_match(self, alternatives: list[Any], value: Any, name: str, depth: int) -> Any:
        for alternative in alternatives:
            try:
                return self._convert(alternative, value, name, depth + 1)
            except _Mismatch:
                continue
        raise _Mismatch

    def _convert_object(self, schema: Mapping[str, Any], value: dict[str, Any], name: str, depth: int) -> Any:
        properties = _member(schema, "properties")
        more = schema.get("additionalProperties")
        if not properties:
            return {key: self._convert(more, item, _class_name(key), depth + 1) for key, item in value.items()}
        required = schema.get("required")
        if isinstance(required, list) and any(key not in value for key in required if isinstance(key, str)):
            raise _Mismatch
        if more is False and not value.keys() <= properties.keys():
            raise _Mismatch
        made, names = self._class_of(schema, properties, name)
        fields = {
            names[key]: self._convert(properties[key], value[key], _class_name(key), depth + 1)
            for key in names
            if key in value
        }
        instance = made(**fields)
        for key in value.keys() - names.keys():
            instance.__dict__[key] = self._convert(more, value[key], _class_name(key), depth + 1)
        return instance

    def _class_of(
        self, schema: Mapping[str, Any], properties: Mapping[str, Any], name: str
    ) -> tuple[Callable[..., Any], dict[str, str]]:
        found = self._classes.get(id(schema))
        if found is None:
            title = schema.get("title")
            names: dict[str, str] = {}
            for key in properties:
                field = _identifier(key)
                while field in names.values():
                    field += "_"
                names[key] = field
            fields: list[Any] = [
                (names[key], Any, dataclasses.field(default=_default(row))) for key, row in properties.items()
            ]
            made = dataclasses.make_dataclass(_class_name(title if isinstance(title, str) else name), fields)
            found = self._classes[id(schema)] = made, names
        return found

    def _resolve(self, reference: str) -> Any:
        if not reference.startswith("#"):
            raise _Mismatch
        found: Any = self._root
        for step in reference.removeprefix("#").strip("/").split("/"):
            name = step.replace("~1", "/").replace("~0", "~")
            if name:
                found = found.get(name, _ABSENT) if isinstance(found, Mapping) else _ABSENT
        if found is _ABSENT:
            raise _Mismatch
        return found


_FORMATS = {"date-time": "datetime", "date": "date", "time": "time", "duration": "timedelta"}


def _convert_string(schema: Mapping[str, Any], value: str) -> Any:
    name = _FORMATS.get(schema.get("format", "")) if isinstance(schema.get("format"), str) else None
    if name is None:
        return value
    import datetime  # noqa: PLC0415  # slow to import, and rarely needed

    try:
        return msgspec.convert(value, getattr(datetime, name))
    except msgspec.ValidationError as error:
        raise _Mismatch from error


def _member(schema: Any, name: str) -> Mapping[str, Any]:
    found = schema.get(name) if isinstance(schema, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _choices(schema: Mapping[str, Any], value: Any) -> list[Any]:
    found = schema.get("enum")
    return found if isinstance(found, list) else [value]


def _has_type(value: Any, kinds: Any) -> bool:
    if not isinstance(kinds, list):
        return True
    for kind in kinds:
        if isinstance(kind, str) and isinstance(value, _JSON_TYPES.get(kind, ())):
            if isinstance(value, bool) and kind != "boolean":
                continue
            if kind != "integer" or not isinstance(value, float) or value.is_integer():
                return True
    return False


def _default(schema: Any) -> Any:
    default = schema.get("default") if isinstance(schema, Mapping) else None
    # A shared list or dict would be changed for all instances.
    return None if isinstance(default, list | dict) else default


def _identifier(key: str) -> str:
    name = re.sub(r"\W", "_", key)
    if not name or name[0].isdigit() or not name.isidentifier():
        name = f"_{name}" if f"_{name}".isidentifier() else "_"
    return f"{name}_" if keyword.iskeyword(name) or name.startswith("__") else name


def _class_name(text: str) -> str:
    words = re.sub(r"\W+|_+", " ", text).split()
    name = "".join(word[:1].upper() + word[1:] for word in words)
    return name if name.isidentifier() else "Root"
