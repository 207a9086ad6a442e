"""Schemas that an application brings ready, and the validators compiled from them. Loaded on first use: an extra.

Compiled once, when the tool is registered: checking a schema again on every call is half of what some servers do. No
reference is ever fetched: one that does not lead to a place in the same document is refused. Size and depth are
bounded, because bridges register what they were handed by somebody else.

Must never know a tool. Above: `_tools`. Below: `jsonschema` and `referencing`, of the extra `schema`.
"""

from collections.abc import Callable, Iterator
from typing import TypeAlias

import msgspec

from jackstay.errors import Json, UsageError
from jackstay.extras import install_command
from jackstay.server._problems import InvalidArguments, Place, collect
from jackstay.server._schema import Schema
from jackstay.types import encode_json

MAX_SCHEMA_BYTES = 1_048_576
MAX_SCHEMA_DEPTH = 64

# All that is wrong with a value, or None.
Validate: TypeAlias = Callable[[Json], InvalidArguments | None]


def check_ready(schema: Json, where: str, *, must_be_object: bool) -> Schema:
    """The schema, copied, once it is sure to be a bounded JSON object; `must_be_object`: one that describes objects.

    Raises:
        UsageError: naming what is wrong with it; `where` is the path to begin with.
    """
    try:
        encoded = encode_json(schema)
    except UsageError as error:
        raise UsageError(f"{where} is not JSON: {error.message}", path=where) from error
    if len(encoded) > MAX_SCHEMA_BYTES:
        raise UsageError(
            f"{where} has {len(encoded)} bytes; at most {MAX_SCHEMA_BYTES} are taken", path=where
        )
    copy: Json = msgspec.json.decode(encoded)
    if not isinstance(copy, dict):
        raise UsageError(f"{where} must be a JSON Schema object", path=where)
    if _depth(copy) > MAX_SCHEMA_DEPTH:
        raise UsageError(f"{where} is nested deeper than {MAX_SCHEMA_DEPTH}", path=where)
    if must_be_object and copy.get("type") != "object":
        raise UsageError(f'{where} must say "type": "object" (server/tools, in every revision)', path=where)
    return copy


def compile_ready(schema: Schema, where: str) -> Validate:
    """A validator of a schema that `check_ready` has passed.

    Raises:
        UsageError: for a schema that is not valid, a reference that leads out of it, or a missing extra.
    """
    try:
        # An extra, and slow to load; it ships no types.
        from jsonschema.exceptions import SchemaError  # type: ignore[import-untyped]  # noqa: PLC0415
        from jsonschema.validators import (  # type: ignore[import-untyped]  # noqa: PLC0415
            SPECIFICATIONS,
            Draft202012Validator,
            validator_for,
        )
        from referencing import Resource  # noqa: PLC0415
        from referencing.jsonschema import DRAFT202012  # noqa: PLC0415
    except ImportError as missing:
        advice = f"{install_command('schema')}, or pass validate=False and check in the handler"
        raise UsageError(f"validating {where} needs the extra `schema`: {advice}", path=where) from missing
    _refuse_references(schema, where)
    # 2020-12 unless the document names another dialect (2025-11-25 basic/index).
    dialect = validator_for(schema, default=Draft202012Validator)
    try:
        dialect.check_schema(schema)
    except SchemaError as error:
        place = "".join(f"/{step}" for step in error.absolute_path)
        raise UsageError(f"{where} is not valid at #{place}: {error.message[:200]}", path=where) from error
    except Exception as error:  # such as OverflowError for a pattern that Python cannot compile
        raise UsageError(f"{where} cannot be used ({type(error).__name__})", path=where) from error
    try:
        root = Resource.from_contents(schema, default_specification=DRAFT202012)
        uri = root.id() or ""
        # Searched for `$anchor` and `$id` once, here, and not for each reference to one.
        resolver = SPECIFICATIONS.with_resource(uri, root).crawl().resolver(uri)
    except Exception as error:  # such as ValueError for an `$id` that is no URI
        raise UsageError(f"{where} cannot be used ({type(error).__name__})", path=where) from error
    validator = dialect(schema, _resolver=resolver)

    def problems(value: Json) -> Iterator[tuple[Place, str]]:
        for error in validator.iter_errors(value):
            yield tuple(error.absolute_path), error.message

    def validate(value: Json) -> InvalidArguments | None:
        try:
            found = collect(problems(value))
        except Exception as error:  # noqa: BLE001  # an argument such as 10**400 must not look like a fault of the server
            return collect(iter([((), f"the schema cannot be used ({type(error).__name__})")]))
        return found if found.problems else None

    return validate


def _depth(value: Json) -> int:
    """How deep it is nested; by a list of our own, because it may be as deep as a frame allows."""
    deepest, stack = 0, [(value, 1)]
    while stack:
        here, depth = stack.pop()
        deepest = max(deepest, depth)
        if isinstance(here, dict):
            stack += ((child, depth + 1) for child in here.values())
        elif isinstance(here, list):
            stack += ((child, depth + 1) for child in here)
    return deepest


def _refuse_references(schema: Schema, where: str) -> None:
    """Only references to this document, or to a part of it that has an `$id`: nothing is fetched, ever."""
    known: set[str] = set()
    references: list[str] = []
    stack: list[Json] = [schema]
    while stack:
        here = stack.pop()
        if isinstance(here, list):
            stack += here
        elif isinstance(here, dict):
            stack += here.values()
            for keyword, value in here.items():
                if isinstance(value, str) and keyword == "$id":
                    known.add(value.rstrip("#"))
                elif isinstance(value, str) and keyword in ("$ref", "$dynamicRef"):
                    references.append(value)
    for reference in references:
        document = reference.partition("#")[0]
        if document and document not in known:
            said = f"{where} refers to {reference[:100]!r}; references are not fetched, put the schema into $defs"
            raise UsageError(said, path=where)
