"""JSON Schemas that an application provides, and validators compiled from them with `jsonschema` (extra `schema`).

A validator is compiled once, at registration. External references are rejected and never fetched. Size and depth are
limited, because bridges register schemas of third parties.
"""

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import msgspec

from jackstay.errors import Json, UsageError
from jackstay.extras import install_command
from jackstay.server._problems import InvalidArguments, JsonPath, collect
from jackstay.server._schema import Schema
from jackstay.types import encode_json

MAX_SCHEMA_BYTES = 1_048_576
MAX_SCHEMA_DEPTH = 64

# Returns the problems of a value, or None.
Validate: TypeAlias = Callable[[Json], InvalidArguments | None]


def check_schema(schema: Json, where: str) -> Schema:
    """Check that a schema is a JSON object of limited size with `"type": "object"`, and return a copy.

    `where` is its name in error messages.

    Raises:
        UsageError: for an invalid schema.
    """
    try:
        encoded = encode_json(schema)
    except UsageError as error:
        raise UsageError(f"{where} has no JSON form: {error.message}", path=where) from error
    if len(encoded) > MAX_SCHEMA_BYTES:
        raise UsageError(f"{where} is too large: {len(encoded)} bytes, the limit is {MAX_SCHEMA_BYTES}", path=where)
    copy: Json = msgspec.json.decode(encoded)
    if not isinstance(copy, dict):
        raise UsageError(f"{where} must be a JSON Schema object, not {type(copy).__name__}", path=where)
    if any(depth > MAX_SCHEMA_DEPTH for _, depth in _walk(copy)):
        raise UsageError(f"{where} is nested too deeply: the limit is {MAX_SCHEMA_DEPTH}", path=where)
    if copy.get("type") != "object":
        raise UsageError(f'{where} must have "type": "object", which MCP requires', path=where)
    return copy


def compile_validator(schema: Schema, where: str, max_match_length: Callable[[str], int] | None = None) -> Validate:
    """Compile a validator for a schema that `check_schema` returned.

    `max_match_length` returns for a pattern the length of the longest string that is matched with it; longer strings
    are accepted. Without it, every string is matched.

    Raises:
        UsageError: for an invalid schema, an external reference, or a missing extra.
    """
    try:
        # Optional, slow to import, and without type information.
        from jsonschema import exceptions, validators  # type: ignore[import-untyped]  # noqa: PLC0415
        from referencing import Resource  # noqa: PLC0415
        from referencing.jsonschema import DRAFT202012  # noqa: PLC0415
    except ImportError as missing:
        advice = f"{install_command('schema')}, or pass validate=False to add_tool() and validate in the handler"
        raise UsageError(f"validation of {where} needs the extra 'schema': {advice}", path=where) from missing
    _refuse_references(schema, where)
    # 2020-12 unless the document names another dialect (2025-11-25 basic/index).
    dialect = validators.validator_for(schema, default=validators.Draft202012Validator)
    try:
        dialect.check_schema(schema)
        root = Resource.from_contents(schema, default_specification=DRAFT202012)
        uri = root.id() or ""
        # Crawl for `$anchor` and `$id` once, not for each reference.
        resolver = validators.SPECIFICATIONS.with_resource(uri, root).crawl().resolver(uri)
    except exceptions.SchemaError as error:
        pointer = "".join(f"/{step}" for step in error.absolute_path)
        raise UsageError(f"{where} is invalid at #{pointer}: {error.message[:200]}", path=where) from error
    except Exception as error:  # such as ValueError for an `$id` that is not a URI, or OverflowError for a pattern
        raise UsageError(f"{where} is not supported ({type(error).__name__})", path=where) from error
    if max_match_length is not None:
        dialect = validators.extend(dialect, {"pattern": _bounded(dialect.VALIDATORS["pattern"], max_match_length)})
    validator = dialect(schema, _resolver=resolver)

    def problems(value: Json) -> Iterator[tuple[JsonPath, str]]:
        for error in validator.iter_errors(value):
            yield tuple(error.absolute_path), error.message

    def validate(value: Json) -> InvalidArguments | None:
        try:
            found = collect(problems(value))
        except Exception as error:  # noqa: BLE001  # for example for 10**400, which must not look like a server error
            return collect(iter([((), f"validation failed ({type(error).__name__})")]))
        return found if found.problems else None

    return validate


def _bounded(check: Callable[..., Iterator[Any]], max_match_length: Callable[[str], int]) -> Callable[..., Any]:
    """Return the check of the keyword `pattern` without matches that could take too long."""

    def pattern(validator: object, value: str, instance: object, schema: object) -> Iterator[Any]:
        if isinstance(instance, str) and len(instance) <= max_match_length(value):
            yield from check(validator, value, instance, schema)

    return pattern


def _walk(value: Json) -> Iterator[tuple[Json, int]]:
    """Yield the value and what is inside it, each with its depth. Iterative: it may be too deep for recursion."""
    stack = [(value, 1)]
    while stack:
        here, depth = stack.pop()
        yield here, depth
        inner = here.values() if isinstance(here, dict) else here if isinstance(here, list) else ()
        stack += ((child, depth + 1) for child in inner)


def _refuse_references(schema: Schema, where: str) -> None:
    """Raise UsageError for references outside this document."""
    objects = [here for here, _ in _walk(schema) if isinstance(here, dict)]
    rows = [(keyword, value) for here in objects for keyword, value in here.items() if isinstance(value, str)]
    known = {"", *(value.rstrip("#") for keyword, value in rows if keyword == "$id")}
    for keyword, value in rows:
        if keyword in ("$ref", "$dynamicRef") and value.partition("#")[0] not in known:
            advice = "external references are not fetched; put the schema into $defs"
            raise UsageError(f"{where} refers to {value[:100]!r}: {advice}", path=where)
