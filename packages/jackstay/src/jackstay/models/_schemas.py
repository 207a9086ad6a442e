"""The schemas of arguments as model APIs take them, and the arguments as the tool's own schema takes them back.

The APIs take less than JSON Schema has. At the root there must be an object, and no choice between several: one tool whose
schema has one there makes OpenAI and Anthropic refuse the whole request. So what stands in a choice at the root is joined:
the model may fill in any of it, and the server, which has the schema itself, says what does not go together.

Strict mode holds a schema to what structured outputs take: every object closed, every property required, what was optional
may be null, and none of the keywords that the API refuses. A null that only this allows is taken out of the arguments
again, because the server never said that it takes one.

Only places that hold schemas are walked: a default or an enum value that looks like a schema is data. Pure; must never know
a tool or a server. Above: `_toolbox`, `apcore_mcp`. Below: nothing.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from jackstay.errors import Json

# A JSON Schema that is an object. What is in it was written by a server: anything.
Schema: TypeAlias = dict[str, Any]

# What the value of a keyword is: one schema (or a list of them, as old `items`), a list, or a table of named schemas.
_ONE: Final = frozenset(
    [
        "items",
        "additionalProperties",
        "additionalItems",
        "unevaluatedProperties",
        "unevaluatedItems",
        "contains",
        "propertyNames",
        "not",
        "if",
        "then",
        "else",
        "contentSchema",
    ]
)
_SEVERAL: Final = frozenset(("allOf", "anyOf", "oneOf", "prefixItems"))
_NAMED: Final = frozenset(("properties", "patternProperties", "dependentSchemas", "$defs", "definitions"))

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

# The formats that structured outputs take; any other makes the API refuse the whole request.
_FORMATS: Final = frozenset(
    ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid")
)
# One of these must say what a value is; strict mode has no word for anything at all, so a plain value stands for it.
_KINDS: Final = ("type", "anyOf", "enum", "const", "$ref")
_PLAIN: Final = ("string", "number", "boolean", "null")

# What the APIs refuse at the root: "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'const'/'not'
# at the top level" (OpenAI), "does not support oneOf, allOf, or anyOf at the top level" (Anthropic).
_NOT_AT_THE_ROOT: Final = ("oneOf", "anyOf", "allOf", "enum", "const", "not")

# How many references may lead to each other before they are let be.
_MAX_STEPS: Final = 32
# How many branches are looked into: a schema of a few lines can have choices without end.
_MAX_BRANCHES: Final = 200


def walk_schema(node: Schema, change: Callable[[Any], Any]) -> Schema:
    """A copy of one schema with `change` applied to each schema directly inside it; data is copied as it is."""
    made: Schema = {}
    for key, part in node.items():
        if key in _NAMED and isinstance(part, dict):
            made[key] = {name: change(inner) for name, inner in part.items()}
        elif (key in _ONE or key in _SEVERAL) and isinstance(part, list):
            made[key] = [change(inner) for inner in part]
        elif key in _ONE:
            made[key] = change(part)
        else:
            made[key] = copied(part)
    return made


def copied(value: Any) -> Any:
    """A copy of JSON, all the way down."""
    if isinstance(value, dict):
        return {key: copied(part) for key, part in value.items()}
    if isinstance(value, list):
        return [copied(part) for part in value]
    return value


def look_up(root: Schema, reference: str) -> Any:
    """What a local reference (RFC 6901) names. Raises: KeyError, naming it."""
    if not reference.startswith("#"):
        raise KeyError(f"{reference} is not in this schema, and nothing is fetched")
    here: Any = root
    for step in reference[1:].strip("/").split("/") if len(reference) > 1 else ():
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(here, dict) and name in here:
            here = here[name]
        elif isinstance(here, list) and name.isdecimal() and int(name) < len(here):
            here = here[int(name)]
        else:
            raise KeyError(f"{name} ({reference})")
    return here


# --- the root ---------------------------------------------------------------------------------------------------------


def object_schema(schema: Mapping[str, Any]) -> Schema:
    """The schema with a plain object at its root: a reference spelled out, choices joined.

    Each property is described as its branches describe it; required is what every branch requires.

    Raises: KeyError for a reference that leads nowhere, ValueError for choices without end.
    """
    root: Schema = dict(schema)
    made: Schema = copied(root)
    if "$ref" in made:
        made = copied(_resolved(root, root))
    if any(key in made for key in _NOT_AT_THE_ROOT):
        properties, required = _Members(root).of(made)
        made = {key: part for key, part in made.items() if key not in _NOT_AT_THE_ROOT}
        made["properties"] = copied(properties)
        made["required"] = sorted(required)
    made["type"] = "object"
    made.setdefault("properties", {})
    return made


class _Members:
    """What an object may have and what it must have, over all choices of its schema."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._branches = 0

    def of(self, node: Any) -> tuple[dict[str, Any], set[str]]:
        self._branches += 1
        if self._branches > _MAX_BRANCHES:
            raise ValueError(f"the schema has more than {_MAX_BRANCHES} choices at its root")
        found = _resolved(self._root, node)
        properties: dict[str, Any] = dict(found.get("properties") or {})
        required: set[str] = set(found.get("required") or ())
        for part in _list_of(found, "allOf"):
            more, needed = self.of(part)
            _join(properties, more, "allOf")
            required |= needed
        branches = [self.of(part) for key in ("anyOf", "oneOf") for part in _list_of(found, key)]
        offered: dict[str, Any] = {}
        for more, _ in branches:
            _join(offered, more, "anyOf")
        if branches:
            required |= set.intersection(*(needed for _, needed in branches))
        # What the object itself says of a property holds in every branch, and stands alone.
        return {**offered, **properties}, required


def _join(into: dict[str, Any], more: dict[str, Any], how: str) -> None:
    """Add properties. One that both have becomes a choice (`anyOf`), or must be both (`allOf`)."""
    for name, part in more.items():
        before = into.get(name, part)
        if before == part:
            into[name] = part
        elif isinstance(before, dict) and before.keys() == {how}:
            into[name] = before if part in before[how] else {how: [*before[how], part]}
        else:
            into[name] = {how: [before, part]}


def _resolved(root: Schema, node: Any) -> Schema:
    """The schema itself, where this is a reference to one; what stands beside a reference says more, and wins."""
    beside: Schema = {}
    for _ in range(_MAX_STEPS):
        if not isinstance(node, dict):
            return beside
        beside = {**node, **beside}
        reference = beside.pop("$ref", None)
        if not isinstance(reference, str):
            return beside
        node = look_up(root, reference)
    return beside


def _list_of(node: Schema, key: str) -> list[Any]:
    parts = node.get(key)
    return parts if isinstance(parts, list) else []


# --- strict mode ------------------------------------------------------------------------------------------------------


def strict_schema(schema: Schema, on_closed: Callable[[], None] = lambda: None) -> Schema:
    """The schema as structured outputs take it; a new one. `on_closed()` hears of each object that was open by its own word."""
    made: Schema = _Strict(on_closed).convert(schema)
    return made


class _Strict:
    """One schema on its way into strict mode."""

    def __init__(self, on_closed: Callable[[], None]) -> None:
        self._on_closed = on_closed

    def convert(self, node: Any) -> Any:
        if node is True:
            node = {}
        if not isinstance(node, dict):
            return node
        kept = {key: part for key, part in node.items() if key not in _REFUSED and not key.startswith("x-")}
        kept = _join_choices(kept)
        if kept.get("format") not in _FORMATS:
            kept.pop("format", None)
        if not any(key in kept for key in _KINDS) and not _is_object(kept):
            kept["type"] = list(_PLAIN)
        if _is_array(kept):
            kept["items"] = _items(kept)
        was_open = kept.pop("additionalProperties", None) if _is_object(kept) else None
        made = walk_schema(kept, self.convert)
        if _is_object(made):
            self._close(made, was_open)
        return made

    def _close(self, made: Schema, was_open: Any) -> None:
        if was_open is True or isinstance(was_open, dict):
            self._on_closed()
        given: dict[str, Any] = made.get("properties") or {}
        # What must not be there is not there in a closed object.
        properties = {name: part for name, part in given.items() if part is not False}
        required = set(made.get("required") or ())
        made["properties"] = {
            name: part if name in required else _nullable(part) for name, part in properties.items()
        }
        made["required"] = sorted(properties)
        made["additionalProperties"] = False


def _is_object(node: Schema) -> bool:
    kind = node.get("type")
    return kind == "object" or (isinstance(kind, list) and "object" in kind) or "properties" in node


def _is_array(node: Schema) -> bool:
    kind = node.get("type")
    return kind == "array" or (isinstance(kind, list) and "array" in kind)


def _items(node: Schema) -> Any:
    """What an array may hold. Places of their own (`prefixItems`) are no word of strict mode: each may be in each."""
    places = node.pop("prefixItems", None)
    items = node.get("items", True)
    if not isinstance(places, list) or not places:
        return items
    rest = [items] if isinstance(items, dict) else []
    different = [part for at, part in enumerate(places + rest) if part not in (places + rest)[:at]]
    return different[0] if len(different) == 1 else {"anyOf": different}


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


def _nullable(part: Any) -> Any:
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


# --- the way back -----------------------------------------------------------------------------------------------------


def without_nulls(schema: Schema, arguments: dict[str, Json]) -> dict[str, Json]:
    """Arguments that a model wrote in strict mode, without the nulls that the tool's own schema does not take.

    Where that schema cannot be followed they stay as they are: the server has the last word.
    """
    try:
        made: dict[str, Json] = _Way(schema).back(schema, arguments)
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError):
        return arguments
    return made


class _Way:
    """One set of arguments on its way back, along the schema that the server gave."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._branches = 0

    def back(self, node: Any, value: Any) -> Any:
        if isinstance(value, dict):
            return self._object(self._branch(node, value), value)
        if isinstance(value, list):
            items = self._branch(node, value).get("items")
            return [self.back(items, part) for part in value]
        return value

    def _object(self, node: Schema, value: dict[str, Any]) -> dict[str, Any]:
        properties = node.get("properties") or {}
        required = node.get("required") or ()
        return {
            name: self.back(properties.get(name), part)
            for name, part in value.items()
            if part is not None
            or name in required
            or name not in properties
            or self._takes_null(properties[name])
        }

    def _branch(self, node: Any, value: Any) -> Schema:
        """The schema that speaks of this value. Of a choice: the one branch that fits, and none where several do."""
        found = _join_choices(_resolved(self._root, node))
        if "properties" in found or "items" in found:
            return found
        branches = [_join_choices(_resolved(self._root, part)) for part in _list_of(found, "anyOf")]
        if isinstance(value, dict):
            fitting = [part for part in branches if value.keys() <= (part.get("properties") or {}).keys()]
        else:
            fitting = [part for part in branches if "items" in part]
        return fitting[0] if len(fitting) == 1 else {}

    def _takes_null(self, part: Any) -> bool:
        self._branches += 1
        if self._branches > _MAX_BRANCHES:
            raise ValueError("choices without end")
        if not isinstance(part, dict):
            return part is not False
        found = _join_choices(_resolved(self._root, part))
        if "enum" in found:
            return None in found["enum"]
        if "const" in found:
            return found["const"] is None
        kind = found.get("type")
        if isinstance(kind, str | list):
            return "null" in ([kind] if isinstance(kind, str) else kind)
        branches = _list_of(found, "anyOf")
        return not branches or any(self._takes_null(branch) for branch in branches)
