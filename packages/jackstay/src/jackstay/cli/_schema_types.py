"""Python types of JSON Schemas, as text: TypedDicts for objects, aliases for enumerations, and builtin types.

Schemas are untrusted: a reference is resolved once, so that neither a cycle nor many references to each other take
long, and what has no Python type is `Any`.
"""

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final, TypeAlias

_SCALARS: Final = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}

Schema: TypeAlias = Mapping[str, Any]


class Declaration:
    """A named type: a TypedDict with `fields` (key -> type and description), or a Literal of `values`."""

    def __init__(self, name: str, description: str = "", values: tuple[Any, ...] = ()) -> None:
        self.name = name
        self.description = description
        self.values = values
        self.fields: dict[str, tuple[str, str]] = {}
        self.references: set[str] = set()
        # Whether a value may be one of several objects, which only the schema distinguishes.
        self.is_ambiguous = False


class SchemaTypes:
    """The types of the schemas of a server. Equal schemas have one name; `use_root()` selects the document."""

    def __init__(self, reserved: AbstractSet[str]) -> None:
        self.names: set[str] = set(reserved)
        self._declarations: dict[str, Declaration] = {}
        # In the order in which they are complete, so that a type follows those that it uses.
        self._complete: dict[str, Declaration] = {}
        self._by_content: dict[str, str] = {}
        self._open: list[Declaration] = []
        self._root: Schema = {}
        self._root_hint = ""
        self._by_pointer: dict[str, str | None] = {}

    def use_root(self, schema: Schema, hint: str) -> None:
        """Resolve references in this schema from now on."""
        self._root, self._root_hint, self._by_pointer = schema, hint, {}

    def declared(self) -> Iterator[Declaration]:
        """Return the declarations in order. References to later ones are quoted."""
        known: set[str] = set()
        for row in self._complete.values():
            for key, (annotation, description) in row.fields.items():
                if any(word in self._declarations and word not in known for word in re.findall(r"\w+", annotation)):
                    row.fields[key] = (_quote_inside(annotation), description)
            known.add(row.name)
            yield row

    def has_member(self, name: str, key: str) -> bool:
        """Whether a type is a TypedDict with this member."""
        return name in self._declarations and key in self._declarations[name].fields

    def member(self, name: str, key: str) -> str:
        """Return the type of a member."""
        return _without_not_required(self._declarations[name].fields[key][0])

    def is_convertible(self, name: str) -> bool:
        """Whether a value can be checked against this type: a TypedDict in which no value is one of several objects."""
        if name not in self._declarations or self._declarations[name].values:
            return False
        found, todo = {name}, [name]
        while todo:
            row = self._declarations[todo.pop()]
            if row.is_ambiguous:
                return False
            todo += row.references - found
            found |= row.references
        return True

    def object_view(self, schema: Any) -> dict[str, Any]:
        """Return the properties of an object, including those of `$ref` and `allOf`.

        `is_open`: the schema has other arguments than those.
        """
        view: dict[str, Any] = {"properties": {}, "required": [], "is_open": False}
        self._collect(schema, view, set())
        return view

    def _collect(self, schema: Any, view: dict[str, Any], seen: set[int]) -> None:
        if not isinstance(schema, Mapping) or id(schema) in seen:
            return
        seen.add(id(schema))
        if isinstance(schema.get("$ref"), str):
            self._collect(self._resolve(schema["$ref"]), view, seen)
        for part in _list(schema, "allOf"):
            self._collect(part, view, seen)
        properties = schema.get("properties")
        if isinstance(properties, Mapping):
            view["properties"] |= properties
        view["required"] += [key for key in _list(schema, "required") if isinstance(key, str)]
        if _list(schema, "anyOf") or _list(schema, "oneOf") or schema.get("additionalProperties"):
            view["is_open"] = True

    def type_of(self, schema: Any, hint: str) -> str:
        """Return the type of a schema. `hint` is the name of a type that has none."""
        if not isinstance(schema, Mapping):
            return "Any"
        if isinstance(schema.get("$ref"), str):
            return self._referenced(schema["$ref"])
        values = _list(schema, "enum") or ([schema["const"]] if "const" in schema else [])
        if values and all(value is None or isinstance(value, str | int) for value in values):
            return self._literal(values, hint)
        if isinstance(schema.get("properties"), Mapping) or _list(schema, "allOf"):
            view = self.object_view(schema)
            if view["properties"]:
                return self._object(schema, view, hint)
            parts = [self.type_of(part, hint) for part in _list(schema, "allOf")]
            return next((part for part in parts if part != "Any"), "Any")
        alternatives = _list(schema, "anyOf") or _list(schema, "oneOf")
        if alternatives:
            return self._union(self.type_of(part, f"{hint}{number or ''}") for number, part in enumerate(alternatives))
        kinds = schema.get("type")
        if isinstance(kinds, list):
            return self._union(self.type_of({**schema, "type": kind}, hint) for kind in kinds)
        return self._plain(kinds, schema, hint)

    def _plain(self, kind: Any, schema: Schema, hint: str) -> str:
        if kind == "array":
            prefix = [self.type_of(part, hint) for part in _list(schema, "prefixItems")]
            items = schema.get("items")
            rest = [] if items is None and prefix else [self.type_of(items, f"{hint}Item")]
            return f"list[{self._union(iter([*prefix, *rest]))}]"
        if kind == "object":
            return f"dict[str, {self.type_of(schema.get('additionalProperties'), f'{hint}Value')}]"
        return _SCALARS.get(kind, "Any") if isinstance(kind, str) else "Any"

    def _union(self, parts: Iterator[str]) -> str:
        """Return a union. Lists are united, because a check cannot distinguish them; None is the last."""
        members = list(dict.fromkeys(member for part in parts for member in _split(part)))
        if "Any" in members:
            return "Any"
        lists = [member[5:-1] for member in members if member.startswith("list[")]
        if len(lists) > 1:
            united = f"list[{self._union(iter(lists))}]"
            members = list(dict.fromkeys(united if member.startswith("list[") else member for member in members))
        objects = [member for member in members if member.startswith("dict[") or self._is_object(member)]
        if len(objects) > 1:
            for row in self._open:
                row.is_ambiguous = True
        return " | ".join(sorted(members, key=lambda member: member == "None"))

    def _is_object(self, name: str) -> bool:
        return name in self._declarations and not self._declarations[name].values

    def _referenced(self, pointer: str) -> str:
        if pointer not in self._by_pointer:
            target = self._resolve(pointer)
            view = self.object_view(target)
            hint = class_name(pointer.rpartition("/")[2]) or self._root_hint
            if view["properties"] and isinstance(target, Mapping) and "enum" not in target:
                return self._object(target, view, hint)
            self._by_pointer[pointer] = None
            self._by_pointer[pointer] = self.type_of(target, hint)
        # None: a cycle that no object interrupts.
        found = self._by_pointer[pointer] or "Any"
        self._use(found)
        return found

    def _resolve(self, pointer: str) -> Any:
        found: Any = self._root
        if not pointer.startswith("#"):
            return None
        for step in pointer[1:].split("/")[1:] if pointer != "#" else ():
            key = step.replace("~1", "/").replace("~0", "~")
            if isinstance(found, list):
                found = found[int(key)] if key.isdecimal() and int(key) < len(found) else None
            else:
                found = found.get(key) if isinstance(found, Mapping) else None
        return found if "/" in pointer or pointer == "#" else None

    def _literal(self, enumerated: list[Any], hint: str) -> str:
        # True and 1 are equal, but not the same value of JSON.
        typed = dict.fromkeys((type(value), value) for value in enumerated if value is not None)
        values = tuple(value for _, value in typed)
        if not values:
            return "None"
        content = json.dumps(values)
        if content not in self._by_content:
            row = Declaration(self._new_name(hint), values=values)
            self._by_content[content] = row.name
            self._declarations[row.name] = self._complete[row.name] = row
        name = self._use(self._by_content[content])
        return f"{name} | None" if None in enumerated else name

    def _object(self, schema: Schema, view: dict[str, Any], hint: str) -> str:
        content = json.dumps([schema, self._reachable(schema)], sort_keys=True, default=str)
        if content in self._by_content:
            return self._use(self._by_content[content])
        row = Declaration(self._new_name(hint), str(schema.get("description") or ""))
        self._by_content[content] = row.name
        self._declarations[row.name] = row
        self._use(row.name)
        self._open.append(row)
        for key, member in view["properties"].items():
            annotation = self.type_of(member, f"{row.name}{class_name(key)}")
            if key not in view["required"]:
                annotation = f"NotRequired[{annotation}]"
            description = member.get("description") if isinstance(member, Mapping) else None
            row.fields[key] = annotation, " ".join(str(description or "").split())
        self._open.pop()
        self._complete[row.name] = row
        return row.name

    def _use(self, text: str) -> str:
        if self._open:
            self._open[-1].references |= {word for word in re.findall(r"\w+", text) if word in self._declarations}
        return text

    def _new_name(self, hint: str) -> str:
        name = unique_name(hint or "Value", self.names)
        self.names.add(name)
        return name

    def _reachable(self, schema: Any) -> dict[str, Any]:
        """Return the definitions that a schema refers to, by pointer."""
        found: dict[str, Any] = {}
        todo: list[Any] = [schema]
        while todo:
            part = todo.pop()
            if isinstance(part, Mapping):
                pointer = part.get("$ref")
                if isinstance(pointer, str) and pointer not in found:
                    found[pointer] = self._resolve(pointer)
                    todo.append(found[pointer])
                todo += part.values()
            elif isinstance(part, list):
                todo += part
        return found


def class_name(text: str) -> str:
    """Return text as the name of a class: `get-weather` is `GetWeather`. Empty if it has no letters."""
    words = re.split(r"[\W_]+", unicodedata.normalize("NFKC", text))
    name = "".join(word[:1].upper() + word[1:] for word in words)
    return name if name.isidentifier() or not name else f"N{name}" if f"N{name}".isidentifier() else ""


def unique_name(name: str, taken: AbstractSet[str], suffix: str = "") -> str:
    """Return a name that is not taken: with the suffix, or with a number."""
    if name in taken and suffix:
        name += suffix
    number, base = 2, name
    while name in taken:
        name, number = f"{base}{number}", number + 1
    return name


def quoted(text: str) -> str:
    """Return a string as a Python literal, in double quotes if it has none."""
    quote = "'" if '"' in text and "'" not in text else '"'
    return quote + "".join(_escaped(character, quote) for character in text) + quote


def _escaped(character: str, quote: str) -> str:
    if character in (quote, "\\"):
        return f"\\{character}"
    return character if character.isprintable() else character.encode("unicode_escape").decode("ascii")


def _list(schema: Schema, key: str) -> list[Any]:
    found = schema.get(key)
    return found if isinstance(found, list) else []


def _split(text: str) -> list[str]:
    """Return the members of a union. Those inside of brackets stay together."""
    members, depth = [""], 0
    for part in re.split(r"( \| |\[|\])", text):
        depth += {"[": 1, "]": -1}.get(part, 0)
        if part == " | " and depth == 0:
            members.append("")
        else:
            members[-1] += part
    return members


def _without_not_required(annotation: str) -> str:
    found = re.fullmatch(r'NotRequired\["?(.*?)"?\]', annotation)
    return (found[1] if found else annotation).strip('"')


def _quote_inside(annotation: str) -> str:
    """Quote a type, but not `NotRequired`, which must be visible at run time."""
    found = re.fullmatch(r"NotRequired\[(.*)\]", annotation)
    return f'NotRequired["{found[1]}"]' if found else f'"{annotation}"'
