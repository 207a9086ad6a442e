"""Transforms: a table that renames, describes, hides and presets what a mounted server has.

The key of a row is a name or a pattern of names (`read_*`), a tag (`#internal`), or a pattern of URIs (`notes://*`).
The first row that matches an entry applies. A row without a transform (None) hides the entry.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from msgspec import UNSET, Raw, UnsetType

from jackstay.errors import UsageError, did_you_mean
from jackstay.server._catalogue import Catalogue, Kind
from jackstay.server._entries import Entry, check_name
from jackstay.server._mounted_entries import Members
from jackstay.types import DECODE_ERRORS

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from jackstay.server._driver import Outcome


class Argument(msgspec.Struct, frozen=True, kw_only=True):
    """What to change in an argument of a tool.

    `value` is sent in every call, and callers do not see the argument. `hidden` leaves an optional argument out.
    """

    name: str | None = None
    description: str | None = None
    value: Any = UNSET
    hidden: bool = False


class Transform(msgspec.Struct, frozen=True, kw_only=True):
    """What to change in a tool, prompt or resource. `arguments` are for tools, by their original names."""

    name: str | None = None
    title: str | None = None
    description: str | None = None
    arguments: Mapping[str, Argument] = {}


# A table: the key of a row, and what to change; None hides.
Transforms: TypeAlias = Mapping[str, Transform | None]

_UNCHANGED = Transform()


class Plan(msgspec.Struct, frozen=True):
    """How the arguments of a call become those of the original tool."""

    # Original names by the names that callers use.
    renamed: Mapping[str, str]
    presets: Mapping[str, Raw]
    removed: frozenset[str]

    def apply(self, members: Members) -> Members:
        """Return the params of the call for the mounted server. Arguments that are not an object are unchanged."""
        try:
            given = msgspec.json.decode(members.get("arguments") or Raw(b"{}"), type=dict[str, Raw])
        except DECODE_ERRORS:
            return members  # the mounted server reports the error
        arguments = {self.renamed.get(name, name): value for name, value in given.items() if name not in self.removed}
        return {**members, "arguments": Raw(msgspec.json.encode({**arguments, **self.presets}))}

    def translate(self, outcome: Outcome) -> Outcome:
        """Return the outcome of a call with the caller's names of arguments in an error."""
        if outcome is None or not self.renamed:
            return outcome
        return self._translate_error(outcome) if isinstance(outcome, bytes) else self._translate_later(outcome)

    async def _translate_later(self, outcome: Awaitable[bytes]) -> bytes:
        return self._translate_error(await outcome)

    def _translate_error(self, encoded: bytes) -> bytes:
        if b'"isError"' not in encoded:
            return encoded
        result = msgspec.json.decode(encoded)
        if result.get("isError") is not True:
            return encoded
        names = {original: name for name, original in self.renamed.items()}
        for block in result.get("content", ()):
            if block.get("type") == "text":
                block["text"] = _with_names(block["text"], names)
        return msgspec.json.encode(result)


# What distinguishes a pattern, a tag or a URI from a name.
_PATTERN = re.compile(r"[*?\[#:]")


class Table:
    """A table of transforms. Raises: UsageError for a row that is not a transform."""

    def __init__(self, rows: Mapping[str, object]) -> None:
        self._rows: dict[str, Transform | None] = {}
        for key, row in rows.items():
            if row is not None and not isinstance(row, Transform):
                message = f"transforms[{key!r}] must be a Transform or None, not {type(row).__name__}"
                raise UsageError(message, path="transforms")
            if row is not None and row.name is not None:
                check_name(row.name)
            self._rows[key] = row

    def __repr__(self) -> str:
        return f"<Table of {len(self._rows)} transforms>"

    def unused(self, names: Iterable[str]) -> list[str]:
        """Return the rows for one tool or prompt, without a pattern, that are for none of these names."""
        return sorted({key for key in self._rows if not _PATTERN.search(key)} - set(names))

    def find(self, kind: Kind, entry: Entry) -> tuple[str, Transform | None]:
        """Return the first row that matches an entry, with its key."""
        return self._find(kind, entry.key, entry.tags)

    def _find(self, kind: Kind, name: str, tags: frozenset[str]) -> tuple[str, Transform | None]:
        is_named = kind in (Kind.TOOLS, Kind.PROMPTS)
        for key, row in self._rows.items():
            if key.startswith("#"):
                is_match = key[1:] in tags
            else:
                is_match = is_named is (":" not in key) and fnmatchcase(name, key)
            if is_match:
                return key, row
        return "", _UNCHANGED

    def hides(self, uri: str, catalogue: Catalogue) -> bool:
        """Return whether a URI, or the text of a template, is hidden. `catalogue` is that of the mounted server.

        The row for its resource or template decides; for a URI that the server does not list, the row for the URI.
        """
        entry: Entry | None = catalogue.templates.get(uri)
        if entry is None and (match := catalogue.find_resource(uri)) is not None:
            entry = match.entry
        key, tags = (uri, frozenset[str]()) if entry is None else (entry.key, entry.tags)
        return self._find(Kind.RESOURCES, key, tags)[1] is None


def transform_item(kind: Kind, members: Members, row: Transform, key: str) -> Plan | None:
    """Change a list item. Returns how arguments are changed, or None if they are not.

    Raises: UsageError for an argument that the tool does not have, or cannot be called without.
    """
    for member, text in (("title", row.title), ("description", row.description)):
        if text is not None:
            members[member] = Raw(msgspec.json.encode(text))
    if kind is not Kind.TOOLS or not row.arguments:
        return None
    schema = msgspec.json.decode(members["inputSchema"], type=dict[str, Any])
    plan = _change_schema(schema, row.arguments, f"transforms[{key!r}].arguments")
    members["inputSchema"] = Raw(msgspec.json.encode(schema))
    return plan


def _change_schema(schema: dict[str, Any], arguments: Mapping[str, Argument], where: str) -> Plan:
    properties: dict[str, Any] = schema.get("properties") or {}
    required: list[str] = list(schema.get("required") or ())
    presets: dict[str, Raw] = {}
    renamed: dict[str, str] = {}
    removed: set[str] = set()
    for name, argument in arguments.items():
        if name not in properties:
            hint = did_you_mean(name, properties)
            raise UsageError(f"{where} has {name!r}, which the tool does not have{hint}", path="transforms")
        has_value = not isinstance(argument.value, UnsetType)
        if argument.hidden and not has_value and name in required:
            raise UsageError(f"{where} hides {name!r}, which is required: set its value", path="transforms")
        if has_value:
            presets[name] = Raw(msgspec.json.encode(argument.value))
        if has_value or argument.hidden:
            removed.add(name)
        elif argument.name is not None and argument.name != name:
            if argument.name in properties or argument.name in renamed:
                raise UsageError(f"{where} renames {name!r} to {argument.name!r}, which exists", path="transforms")
            renamed[argument.name] = name
            removed.add(name)
    new_names = {original: name for name, original in renamed.items()}
    hidden = removed - new_names.keys()
    schema["properties"] = {
        new_names.get(name, name): _described(value, arguments.get(name))
        for name, value in properties.items()
        if name not in hidden
    }
    if required:
        schema["required"] = [new_names.get(name, name) for name in required if name not in hidden]
    return Plan(renamed, presets, frozenset(removed))


def _with_names(text: str, names: Mapping[str, str]) -> str:
    """Return the message of an error with the new names of arguments.

    In the message of another implementation they cannot be replaced reliably: a line that explains them is added.
    """
    # The lines of `InvalidArguments.text`: a path, whose first step is the argument, and the problem.
    pattern = r"^(Invalid arguments: |- )(\w+)(?=[.:\[])"
    if text.startswith("Invalid arguments:"):
        return re.sub(pattern, lambda found: found[1] + names.get(found[2], found[2]), text, flags=re.MULTILINE)
    words = set(re.findall(r"\w+", text))
    renamed = [f"{original!r} is {name!r}" for original, name in names.items() if original in words]
    return f"{text}\n(in the arguments of this tool, {', '.join(renamed)})" if renamed else text


def _described(schema: Any, argument: Argument | None) -> Any:
    if argument is None or argument.description is None or not isinstance(schema, dict):
        return schema
    return {**schema, "description": argument.description}
