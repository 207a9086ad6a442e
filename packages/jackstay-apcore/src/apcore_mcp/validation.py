"""Validation of arguments against the schema of a module, and filling in of defaults.

apcore neither applies defaults nor reports the name of a missing field. A validator is created on first use, once for
each schema, and does not fetch references.
"""

import copy
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, TypeAlias

from apcore_mcp.adapters.schema import Json, Schema

# An invalid field: its dotted path, the problem, and the keyword of JSON Schema.
Problem: TypeAlias = tuple[str, str, str]

# The maximum number of reported fields.
MAX_PROBLEMS = 50


class ArgumentRules:
    """The defaults and the validator of one schema."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._defaults = _read_defaults(schema)

    def fill(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments with defaults for missing values; a copy if the schema has defaults."""
        return arguments if self._defaults is None else self._defaults.fill(arguments)

    def problems(self, arguments: Mapping[str, Any]) -> list[Problem]:
        """Return the invalid fields; empty if the arguments are valid."""
        found: list[Problem] = []
        try:
            for error in self._validator.iter_errors(dict(arguments)):
                found += _to_problems(error)
                if len(found) >= MAX_PROBLEMS:
                    break
        except Exception as error:  # noqa: BLE001  # such as OverflowError for 10**400, or an unresolvable reference
            found.append(("input", f"the schema cannot be used ({type(error).__name__.lstrip('_')})", "schema"))
        return found[:MAX_PROBLEMS]

    @cached_property
    def _validator(self) -> Any:
        # The library is slow to import and has no types.
        from jsonschema.validators import (  # type: ignore[import-untyped]  # noqa: PLC0415
            SPECIFICATIONS,
            Draft202012Validator,
            validator_for,
        )
        from referencing.jsonschema import specification_with  # noqa: PLC0415

        # MCP 2025-11-25, basic, "JSON Schema Usage": `$schema` names the dialect, by default 2020-12.
        validator = validator_for(self._schema, default=Draft202012Validator)
        dialect = specification_with(validator.META_SCHEMA.get("$id") or validator.META_SCHEMA["id"])
        root = dialect.create_resource(self._schema)
        uri = root.id() or ""
        # Searched for `$anchor` and `$id` once instead of for each reference.
        resolver = SPECIFICATIONS.with_resource(uri, root).crawl().resolver(uri)
        return validator(self._schema, _resolver=resolver)


def _to_problems(error: Any) -> Iterator[Problem]:
    path = ".".join(map(str, error.absolute_path))
    keyword = str(error.validator)
    instance = error.instance
    if keyword == "required" and isinstance(instance, dict):
        # One error for each missing name, which is only in the message.
        missing = next((name for name in error.validator_value if f"{name!r} is a required" in error.message), "")
        yield _join(path, missing), "Field required", keyword
    elif keyword in ("additionalProperties", "unevaluatedProperties") and isinstance(instance, dict):
        known = error.schema.get("properties", {})
        unknown = [name for name in instance if name not in known]
        for name in unknown or [""]:
            yield _join(path, name), "Unknown field", keyword
    elif keyword in ("anyOf", "oneOf") and (intended := _intended_alternative(error)):
        for part in intended:
            yield from _to_problems(part)
    else:
        yield path or "input", _describe_rule(error, keyword), keyword


def _intended_alternative(error: Any) -> list[Any]:
    """Return the errors of the only alternative that accepts the type of the value, or nothing if there are several."""
    wrong: dict[Any, list[Any]] = {}
    for part in error.context:
        wrong.setdefault(part.relative_schema_path[0], []).append(part)
    intended = [
        parts
        for parts in wrong.values()
        if not any(part.validator in ("type", "const") and not part.relative_path for part in parts)
    ]
    return intended[0] if len(intended) == 1 else []


def _describe_rule(error: Any, keyword: str) -> str:
    """Describe the violated rule. The message of the library contains the value, which may be secret or large."""
    rule: Json = error.validator_value
    if keyword == "type":
        return f"must be {' or '.join(rule) if isinstance(rule, list) else rule}"
    if keyword == "enum":
        return f"must be one of {', '.join(map(repr, rule))}"[:300]
    if isinstance(rule, str | int | float) and not isinstance(rule, bool):
        return f"violates {keyword} {rule}"[:300]
    return f"violates {keyword}"


def _join(path: str, name: str) -> str:
    return ".".join(part for part in (path, name) if part) or "input"


class _Defaults:
    """The defaults of an object and of the objects inside it."""

    def __init__(self, values: dict[str, Json], inner: "dict[str, _Defaults]") -> None:
        self._values = values
        self._inner = inner

    def fill(self, given: dict[str, Any]) -> dict[str, Any]:
        filled = dict(given)
        for name, value in self._values.items():
            if name not in filled:
                filled[name] = copy.deepcopy(value)
        for name, defaults in self._inner.items():
            if isinstance(filled.get(name), dict):
                filled[name] = defaults.fill(filled[name])
        return filled


def _read_defaults(schema: Json) -> _Defaults | None:
    """Return the direct defaults of a schema, not those inside `anyOf` or references, which may not apply."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return None
    parts = {name: part for name, part in properties.items() if isinstance(part, dict)}
    values = {name: part["default"] for name, part in parts.items() if "default" in part}
    inner = {name: found for name, part in parts.items() if (found := _read_defaults(part)) is not None}
    return _Defaults(values, inner) if values or inner else None


__all__ = ["MAX_PROBLEMS", "ArgumentRules", "Problem"]
