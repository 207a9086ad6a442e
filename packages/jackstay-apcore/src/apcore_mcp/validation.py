"""Arguments against a module's schema: the defaults that are missing, and every wrong field by its name.

apcore neither applies defaults (a module gets what was sent) nor names a required field that is missing, so both are done
here. The validator is made when it is first needed, once for each schema, and fetches nothing.

Pure. Above: the router. Below: `jsonschema` (the extra `apcore` brings it), `adapters.schema`.
"""

import copy
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, TypeAlias

from apcore_mcp.adapters.schema import Json, Schema

# A wrong field: its place with dots, what is wrong, and the keyword of JSON Schema that says so.
Problem: TypeAlias = tuple[str, str, str]

# Enough to mend a call by; an array of a million wrong numbers is one mistake.
MAX_PROBLEMS = 50


class ArgumentRules:
    """What one schema asks of arguments. `schema` is an input schema of the catalogue."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._defaults = _read_defaults(schema)

    def fill(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments with the schema's defaults where nothing was given: a copy, if there is anything to add."""
        return arguments if self._defaults is None else self._defaults.fill(arguments)

    def problems(self, arguments: Mapping[str, Any]) -> list[Problem]:
        """Every wrong field; empty if the arguments fit."""
        found: list[Problem] = []
        try:
            for error in self._validator.iter_errors(dict(arguments)):
                found += _say(error)
                if len(found) >= MAX_PROBLEMS:
                    break
        except Exception as error:  # noqa: BLE001  # such as OverflowError for 10**400, or a reference to nowhere
            found.append(
                ("input", f"the schema cannot be used ({type(error).__name__.lstrip('_')})", "schema")
            )
        return found[:MAX_PROBLEMS]

    @cached_property
    def _validator(self) -> Any:
        # A library without types, and slow to load: only who validates pays for it.
        from jsonschema.validators import (  # type: ignore[import-untyped]  # noqa: PLC0415
            SPECIFICATIONS,
            Draft202012Validator,
        )
        from referencing.jsonschema import DRAFT202012  # noqa: PLC0415

        root = DRAFT202012.create_resource(self._schema)
        uri = root.id() or ""
        # Searched for `$anchor` and `$id` once, here, and not for each reference to one.
        resolver = SPECIFICATIONS.with_resource(uri, root).crawl().resolver(uri)
        return Draft202012Validator(self._schema, _resolver=resolver)


def _say(error: Any) -> Iterator[Problem]:
    place = ".".join(map(str, error.absolute_path))
    keyword = str(error.validator)
    instance = error.instance
    if keyword == "required" and isinstance(instance, dict):
        # One error for each missing name; the name itself is only in the words.
        missing = next(
            (name for name in error.validator_value if f"{name!r} is a required" in error.message), ""
        )
        yield _join(place, missing), "Field required", keyword
    elif keyword in ("additionalProperties", "unevaluatedProperties") and isinstance(instance, dict):
        known = error.schema.get("properties", {})
        unknown = [name for name in instance if name not in known]
        for name in unknown or [""]:
            yield _join(place, name), "Unknown field", keyword
    elif keyword in ("anyOf", "oneOf") and (meant := _meant(error)):
        for part in meant:
            yield from _say(part)
    else:
        yield place or "input", _without_value(error, keyword), keyword


def _meant(error: Any) -> list[Any]:
    """What is wrong by the alternative that was meant: the only one that takes a value of this type. Else nothing."""
    wrong: dict[Any, list[Any]] = {}
    for part in error.context:
        wrong.setdefault(part.relative_schema_path[0], []).append(part)
    meant = [
        parts
        for parts in wrong.values()
        if not any(part.validator in ("type", "const") and not part.relative_path for part in parts)
    ]
    return meant[0] if len(meant) == 1 else []


def _without_value(error: Any, keyword: str) -> str:
    """The words of the library begin with the value, which may be secret or a megabyte: ours name the rule."""
    rule: Json = error.validator_value
    if keyword == "type":
        return f"must be {' or '.join(rule) if isinstance(rule, list) else rule}"
    if keyword == "enum":
        return f"must be one of {', '.join(map(repr, rule))}"[:300]
    if isinstance(rule, str | int | float) and not isinstance(rule, bool):
        return f"breaks {keyword} {rule}"[:300]
    return f"does not fit {keyword}"


def _join(place: str, name: str) -> str:
    return ".".join(part for part in (place, name) if part) or "input"


class _Defaults:
    """What to add to an object, and to the objects inside it."""

    def __init__(self, values: dict[str, Json], inner: "dict[str, _Defaults]") -> None:
        self._values = values
        self._inner = inner

    def fill(self, given: dict[str, Any]) -> dict[str, Any]:
        made = dict(given)
        for name, value in self._values.items():
            if name not in made:
                made[name] = copy.deepcopy(value)
        for name, defaults in self._inner.items():
            if isinstance(made.get(name), dict):
                made[name] = defaults.fill(made[name])
        return made


def _read_defaults(schema: Json) -> _Defaults | None:
    """The defaults that the schema states outright: not behind a choice or a reference, where they may not be meant."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return None
    parts = {name: part for name, part in properties.items() if isinstance(part, dict)}
    values = {name: part["default"] for name, part in parts.items() if "default" in part}
    inner = {name: found for name, part in parts.items() if (found := _read_defaults(part)) is not None}
    return _Defaults(values, inner) if values or inner else None


__all__ = ["MAX_PROBLEMS", "ArgumentRules", "Problem"]
