"""Conversion of input schemas for model APIs, and of the model's arguments back to the schema of the tool.

The APIs require an object without alternatives at the root, so alternatives there are merged; the server still
validates the arguments. Strict mode closes every object, requires every property, allows null for optional ones, and
removes unsupported keywords; nulls that only strict mode allows are removed from the arguments.
"""

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from itertools import count
from typing import Any, Final, TypeAlias

from jackstay.errors import Json

# A JSON Schema that is an object. Its content comes from a server and may be anything.
Schema: TypeAlias = dict[str, Any]

# Keywords by value: one schema (or a list, as in old `items`), a list of schemas, or a mapping of names to schemas.
# Only these are walked: a default or an enum value that looks like a schema is data.
_ONE: Final = frozenset(
    (
        "items", "additionalProperties", "additionalItems", "unevaluatedProperties", "unevaluatedItems", "contains",
        "propertyNames", "not", "if", "then", "else", "contentSchema",
    )
)  # fmt: skip
_SEVERAL: Final = frozenset(("allOf", "anyOf", "oneOf", "prefixItems"))
_NAMED: Final = frozenset(("properties", "patternProperties", "dependentSchemas", "$defs", "definitions"))

# Keywords that structured outputs reject, besides `x-*`.
_UNSUPPORTED: Final = frozenset(
    (
        "default", "title", "examples", "$schema", "$id", "$comment", "discriminator", "not", "if", "then", "else",
        "dependentRequired", "dependentSchemas", "patternProperties", "propertyNames", "unevaluatedProperties",
        "unevaluatedItems", "contains", "minContains", "maxContains", "minProperties", "maxProperties",
        "uniqueItems", "minLength", "maxLength", "readOnly", "writeOnly", "deprecated",
    )
)  # fmt: skip

# The formats that structured outputs accept; for any other the API rejects the whole request.
_FORMATS: Final = frozenset(("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"))
# A schema must have one of these keywords. Strict mode cannot express "any value", so scalar types are used for it.
_KINDS: Final = ("type", "anyOf", "enum", "const", "$ref")
_PLAIN: Final = ("string", "number", "boolean", "null")

# Keywords that the APIs reject at the root: "schema must have type 'object' and not have
# 'oneOf'/'anyOf'/'allOf'/'enum'/'const'/'not' at the top level" (OpenAI), "does not support oneOf, allOf, or anyOf at
# the top level" (Anthropic).
_NOT_AT_THE_ROOT: Final = ("oneOf", "anyOf", "allOf", "enum", "const", "not")

# The longest chain of references that is followed.
_MAX_REFERENCES: Final = 32
# The maximum number of alternatives: a schema of a few lines can have exponentially many.
_MAX_BRANCHES: Final = 200

# Its name in `jackstay.models`.
deep_copy = deepcopy


def walk_schema(node: Schema, change: Callable[[Any], Any]) -> Schema:
    """Return a copy of a schema with `change` applied to each direct subschema; data is copied unchanged."""
    copy: Schema = {}
    for key, part in node.items():
        if key in _NAMED and isinstance(part, dict):
            copy[key] = {name: change(inner) for name, inner in part.items()}
        elif (key in _ONE or key in _SEVERAL) and isinstance(part, list):
            copy[key] = [change(inner) for inner in part]
        elif key in _ONE:
            copy[key] = change(part)
        else:
            copy[key] = deepcopy(part)
    return copy


def resolve_reference(root: Schema, reference: str) -> Any:
    """Return the target of a local reference (JSON Pointer, RFC 6901). Raises: KeyError that names it."""
    if not reference.startswith("#"):
        raise KeyError(f"{reference} is outside this schema and is not fetched")
    target: Any = root
    for step in reference[1:].strip("/").split("/") if len(reference) > 1 else ():
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(target, dict) and name in target:
            target = target[name]
        elif isinstance(target, list) and name.isdecimal() and int(name) < len(target):
            target = target[int(name)]
        else:
            raise KeyError(f"Definition not found: {reference}")
    return target


# --- the root ---------------------------------------------------------------------------------------------------------


def object_schema(schema: Mapping[str, Any]) -> Schema:
    """Return the schema with a plain object at its root: a reference is resolved, alternatives are merged.

    A property gets the schemas of all alternatives; it is required if every alternative requires it.

    Raises: KeyError for an unresolvable reference, ValueError for too many alternatives.
    """
    root: Schema = dict(schema)
    result: Schema = deepcopy(_resolved(root, root))
    if any(key in result for key in _NOT_AT_THE_ROOT):
        properties, required = _merge(root, result, count(1))
        result = {key: part for key, part in result.items() if key not in _NOT_AT_THE_ROOT}
        result["properties"] = deepcopy(properties)
        result["required"] = sorted(required)
    result["type"] = "object"
    result.setdefault("properties", {})
    return result


def _merge(root: Schema, node: Any, numbers: Iterator[int]) -> tuple[dict[str, Any], set[str]]:
    """Return the properties and the required names of an object over all alternatives of its schema.

    `numbers` counts the alternatives.
    """
    if next(numbers) > _MAX_BRANCHES:
        raise ValueError(f"the schema has more than {_MAX_BRANCHES} alternatives at its root")
    found = _resolved(root, node)
    properties: dict[str, Any] = dict(found.get("properties") or {})
    required: set[str] = set(found.get("required") or ())
    for part in _list_of(found, "allOf"):
        more, needed = _merge(root, part, numbers)
        _join(properties, more, "allOf")
        required |= needed
    branches = [_merge(root, part, numbers) for key in ("anyOf", "oneOf") for part in _list_of(found, key)]
    alternatives: dict[str, Any] = {}
    for more, _ in branches:
        _join(alternatives, more, "anyOf")
    if branches:
        required |= set.intersection(*(needed for _, needed in branches))
    # The object's own schema of a property applies to every alternative and takes precedence.
    return {**alternatives, **properties}, required


def _join(into: dict[str, Any], more: dict[str, Any], how: str) -> None:
    """Add the properties of `more`; combine those that both have by the keyword `how` (`anyOf` or `allOf`)."""
    for name, part in more.items():
        before = into.get(name, part)
        if before == part:
            into[name] = part
        elif isinstance(before, dict) and before.keys() == {how}:
            into[name] = before if part in before[how] else {how: [*before[how], part]}
        else:
            into[name] = {how: [before, part]}


def _resolved(root: Schema, node: Any) -> Schema:
    """Return the schema that a reference leads to; keywords beside `$ref` take precedence."""
    beside: Schema = {}
    for _ in range(_MAX_REFERENCES):
        if not isinstance(node, dict):
            return beside
        beside = {**node, **beside}
        reference = beside.pop("$ref", None)
        if not isinstance(reference, str):
            return beside
        node = resolve_reference(root, reference)
    return beside


def _list_of(node: Schema, key: str) -> list[Any]:
    parts = node.get(key)
    return parts if isinstance(parts, list) else []


# --- strict mode ------------------------------------------------------------------------------------------------------


def strict_schema(schema: Schema, on_closed: Callable[[], None] = lambda: None) -> Schema:
    """Return a copy for structured outputs.

    `on_closed()` is called for each object that allowed additional properties.
    """

    def convert(node: Any) -> Any:
        if node is True:
            node = {}
        if not isinstance(node, dict):
            return node
        kept = {key: part for key, part in node.items() if key not in _UNSUPPORTED and not key.startswith("x-")}
        kept = _join_choices(kept)
        if kept.get("format") not in _FORMATS:
            kept.pop("format", None)
        if not any(key in kept for key in _KINDS) and not _is_object(kept):
            kept["type"] = list(_PLAIN)
        if _has_type(kept, "array"):
            kept["items"] = _items(kept)
        was_open = kept.pop("additionalProperties", None) if _is_object(kept) else None
        result = walk_schema(kept, convert)
        if _is_object(result):
            if was_open is True or isinstance(was_open, dict):
                on_closed()
            _close(result)
        return result

    result: Schema = convert(schema)
    return result


def _close(result: Schema) -> None:
    declared: dict[str, Any] = result.get("properties") or {}
    # A property with the schema `false` is simply absent from a closed object.
    properties = {name: part for name, part in declared.items() if part is not False}
    required = set(result.get("required") or ())
    result["properties"] = {name: part if name in required else _nullable(part) for name, part in properties.items()}
    result["required"] = sorted(properties)
    result["additionalProperties"] = False


def _is_object(node: Schema) -> bool:
    return _has_type(node, "object") or "properties" in node


def _has_type(node: Schema, name: str) -> bool:
    kind = node.get("type")
    return kind == name or (isinstance(kind, list) and name in kind)


def _items(node: Schema) -> Any:
    """Return the schema of the items. Strict mode has no `prefixItems`, so any of them may be at any position."""
    prefix = node.pop("prefixItems", None)
    items = node.get("items", True)
    if not isinstance(prefix, list) or not prefix:
        return items
    rest = [items] if isinstance(items, dict) else []
    distinct = [part for index, part in enumerate(prefix + rest) if part not in (prefix + rest)[:index]]
    return distinct[0] if len(distinct) == 1 else {"anyOf": distinct}


def _join_choices(node: Schema) -> Schema:
    """Replace `oneOf` by `anyOf` and merge `allOf`: strict mode has neither."""
    result = dict(node)
    if "oneOf" in result:
        result["anyOf"] = [*(result.get("anyOf") or ()), *result.pop("oneOf")]
    parts = result.pop("allOf", None)
    for part in parts if isinstance(parts, list) else ():
        if isinstance(part, dict):
            inner = _join_choices(part)
            for key in ("properties", "required"):
                if key in inner and key in result:
                    both = result[key], inner[key]
                    inner[key] = {**both[0], **both[1]} if key == "properties" else [*both[0], *both[1]]
            result = {**result, **inner}
    return result


def _nullable(part: Any) -> Any:
    """Return the schema with null allowed."""
    if not isinstance(part, dict):
        return part
    result = dict(part)
    if "const" in result:
        result["enum"] = [result.pop("const")]
    kind = result.get("type")
    if isinstance(kind, str | list):
        kinds = [kind] if isinstance(kind, str) else kind
        result["type"] = kinds if "null" in kinds else [*kinds, "null"]
    elif "anyOf" in result:
        null = {"type": "null"}
        result["anyOf"] = result["anyOf"] if null in result["anyOf"] else [*result["anyOf"], null]
    elif "$ref" in result:
        return {"anyOf": [result, {"type": "null"}]}
    if "enum" in result and None not in result["enum"]:
        result["enum"] = [*result["enum"], None]
    return result


# --- arguments --------------------------------------------------------------------------------------------------------


def without_nulls(schema: Schema, arguments: dict[str, Json]) -> dict[str, Json]:
    """Return strict mode arguments without the nulls that the schema of the tool does not allow.

    If the schema cannot be followed, the arguments are returned unchanged; the server validates them.
    """
    numbers = count(1)  # of the alternatives

    def convert(node: Any, value: Any) -> Any:
        if not isinstance(value, list | dict):
            return value
        found = _branch(schema, node, value)
        if isinstance(value, list):
            return [convert(found.get("items"), part) for part in value]
        properties = found.get("properties") or {}
        required = found.get("required") or ()
        return {
            name: convert(properties.get(name), part)
            for name, part in value.items()
            if part is not None or name in required or name not in properties or allows_null(properties[name])
        }

    def allows_null(part: Any) -> bool:
        if next(numbers) > _MAX_BRANCHES:
            raise ValueError(f"more than {_MAX_BRANCHES} alternatives")
        if not isinstance(part, dict):
            return part is not False
        found = _join_choices(_resolved(schema, part))
        if "enum" in found:
            return None in found["enum"]
        if "const" in found:
            return found["const"] is None
        if isinstance(found.get("type"), str | list):
            return _has_type(found, "null")
        branches = _list_of(found, "anyOf")
        return not branches or any(allows_null(branch) for branch in branches)

    try:
        result: dict[str, Json] = convert(schema, arguments)
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError):
        return arguments
    return result


def _branch(root: Schema, node: Any, value: Any) -> Schema:
    """Return the schema for this value.

    Of several alternatives: the only one that matches, else an empty schema.
    """
    found = _join_choices(_resolved(root, node))
    if "properties" in found or "items" in found:
        return found
    branches = [_join_choices(_resolved(root, part)) for part in _list_of(found, "anyOf")]
    if isinstance(value, dict):
        matching = [part for part in branches if value.keys() <= (part.get("properties") or {}).keys()]
    else:
        matching = [part for part in branches if "items" in part]
    return matching[0] if len(matching) == 1 else {}
