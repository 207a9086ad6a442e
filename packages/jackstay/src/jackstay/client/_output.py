"""Validation of tool output against its schema, with limits. Imported on first use: the schema library is an extra.

Schema and output are untrusted and the check runs on the event loop. So no reference is fetched over the network, large
or deep schemas are rejected, keywords that can take unbounded time are skipped (`UNCHECKED`), and steps and seconds are
limited. A check never raises: the tool has run. docs/design/output-check.md compares the libraries.
"""

import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, Final, TypeAlias

from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it ships no types
from jsonschema.validators import SPECIFICATIONS, extend  # type: ignore[import-untyped]  # as above
from referencing.jsonschema import DRAFT202012

from jackstay.errors import Json, UsageError
from jackstay.types import JsonObject, encode_json

# The largest accepted schema. Real ones have a few kilobytes; compiling one of this size takes a second.
MAX_SCHEMA_BYTES = 262_144

# The maximum number of steps of a check; a step takes about a microsecond. A table of 30,000 rows with 10 columns needs
# as many; 30 definitions that each refer twice to the next need a thousand times more.
MAX_STEPS = 3_000_000

# The default time limit of a check; the setting `check_output_timeout` overrides it.
MAX_SECONDS = 1.0

# The maximum nesting of keywords: five per level of a schema, three per level of an output. Python's recursion limit is
# at about twice as many, but native code below may crash before Python raises RecursionError.
MAX_DEPTH = 150

# Keywords that are not checked. A regular expression such as `^(a+)+$` can run for years, and Python's `re` cannot be
# interrupted. Unevaluated items and properties are found by a separate traversal whose steps cannot be counted.
UNCHECKED: Final = frozenset({"pattern", "patternProperties", "unevaluatedItems", "unevaluatedProperties"})

# Keywords with constant cost. They are not counted, because the keywords that lead to them are.
LEAVES: Final = frozenset(
    (
        "const", "exclusiveMaximum", "exclusiveMinimum", "format", "maxItems", "maxLength", "maxProperties", "maximum",
        "minItems", "minLength", "minProperties", "minimum", "multipleOf", "type",
    )
)  # fmt: skip

# Keywords that iterate over the instance, keywords that follow a reference, and the steps for each item or reference.
WALKING: Final = frozenset({"additionalProperties", "contains", "items", "propertyNames", "uniqueItems"})
REFERRING: Final = frozenset({"$dynamicRef", "$ref"})
STEPS_PER_ITEM = 3
STEPS_PER_REFERENCE = 20

# An error message quotes the output, so its cost grows with its length.
CHARACTERS_PER_STEP = 16

# Returns the first problem of an output, or None.
Check: TypeAlias = Callable[[Json], str | None]

# A keyword function of jsonschema: (validator, value of the keyword, instance, schema) -> errors.
_Rule: TypeAlias = Callable[[Any, Any, Any, Any], Iterator[Any] | None]


class _Unchecked(Exception):
    """The output is not checked, for the reason in the message."""


class _Steps:
    """The remaining steps, the depth and the deadline of one check."""

    def __init__(self, what: str, seconds: float) -> None:
        self.what, self.seconds = what, seconds
        self.remaining = MAX_STEPS
        self.depth = 0
        self.ends_at = _clock() + seconds

    def consume(self, steps: int) -> None:
        self.remaining -= steps
        if self.remaining < 0:
            raise _Unchecked(f"the {self.what} is too complex to check (more than {MAX_STEPS} steps)")
        if _clock() > self.ends_at:
            raise _Unchecked(f"checking the {self.what} took longer than {self.seconds:g} s")


_clock = time.monotonic  # replaced by tests

# Of the running check. Keyword functions are shared by all checks, and other threads may run event loops of their own.
_steps: ContextVar[_Steps] = ContextVar("_steps")


def _counted(name: str, rule: _Rule) -> _Rule:
    """Wrap a keyword function so that it consumes steps."""
    base = 2 + (STEPS_PER_REFERENCE if name in REFERRING else 0)

    def counted(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        steps = _steps.get()
        steps.consume(base + 2 * _size(value))
        if name in WALKING:
            steps.consume(STEPS_PER_ITEM * _size(instance))
        if name == "uniqueItems" and not _is_sortable(instance):
            steps.consume(_size(instance) ** 2)  # pairwise comparison
        steps.depth += 1
        try:
            if steps.depth > MAX_DEPTH:
                raise RecursionError
            # `additionalProperties` beside `patternProperties` is skipped: those would have to be evaluated for it.
            is_skipped = name == "additionalProperties" and "patternProperties" in schema
            for error in () if is_skipped else rule(validator, value, instance, schema) or ():
                steps.consume(len(error.message) // CHARACTERS_PER_STEP)
                yield error
        finally:
            steps.depth -= 1

    return counted


def _leaf(rule: _Rule) -> _Rule:
    """Wrap a keyword of constant cost so that it consumes steps for errors; a list, because most calls find none."""

    def leaf(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
        steps = _steps.get()
        steps.consume(0)  # check the time: one counted keyword may lead to a million of these
        errors = list(rule(validator, value, instance, schema) or ())
        for error in errors:
            steps.consume(1 + len(error.message) // CHARACTERS_PER_STEP)
        return errors

    return leaf


def _size(value: object) -> int:
    return len(value) if isinstance(value, list | dict) else 0


def _is_sortable(instance: object) -> bool:
    """Return whether uniqueness of the items can be tested by sorting."""
    kinds = {type(item) for item in instance} if isinstance(instance, list) else set()
    return kinds <= {str} or kinds <= {int, float}


def _skip(*_: object) -> None:
    """The function of a keyword that is not checked."""


def _limited(name: str, rule: _Rule) -> _Rule:
    if name in UNCHECKED:
        return _skip
    return _leaf(rule) if name in LEAVES else _counted(name, rule)


def _validator_class() -> Any:
    """Return a Draft 2020-12 validator with the limited keywords.

    Strips `$schema`, which would switch the validator.
    """
    rules = {name: _limited(name, rule) for name, rule in Draft202012Validator.VALIDATORS.items()}
    validator_class = extend(Draft202012Validator, rules)
    evolve = validator_class.evolve

    def evolve_without_schema(self: Any, **changes: Any) -> Any:
        schema = changes.get("schema", self.schema)
        if isinstance(schema, dict) and "$schema" in schema:
            changes["schema"] = {key: value for key, value in schema.items() if key != "$schema"}
        return evolve(self, **changes)

    validator_class.evolve = evolve_without_schema
    return validator_class


_Validator = _validator_class()
# Validates schemas. Not `check_schema()`, which has none of the limits above. Formats are not checked: the only format
# of the meta-schema is "regex", which jsonschema checks as Python syntax instead of ECMA-262.
_schemas = _Validator(Draft202012Validator.META_SCHEMA)

# Keywords that references by name need. Without any of them the schema need not be crawled.
_NAMES: Final = (b'"$anchor"', b'"$dynamicAnchor"', b'"$id"')


def checker(schema: JsonObject, seconds: float = MAX_SECONDS) -> Check:
    """Return a check against this schema with a time limit.

    For an unusable schema, the check reports that every time.
    """
    try:
        encoded = encode_json(schema)
        if len(encoded) > MAX_SCHEMA_BYTES:
            raise _Unchecked(f"the schema is larger than {MAX_SCHEMA_BYTES} bytes and was not checked")
        error = _first_error(_schemas, schema, "schema", seconds)
        if error is not None:
            raise _Unchecked(f"the schema is invalid ({error.message[:100]})")
        validator = _Validator(schema, _resolver=_resolver(schema, encoded))
    except Exception as error:  # noqa: BLE001  # a hostile schema can make the libraries raise anything
        problem = _problem(error)
        return lambda _: problem

    def check(output: Json) -> str | None:
        try:
            error = _first_error(validator, output, "output", seconds)
            return None if error is None else f"{error.json_path}: {error.message[:200]}"
        except Exception as error:  # noqa: BLE001  # the tool has run: a check must not fail its call
            return _problem(error)

    return check


def _resolver(schema: JsonObject, encoded: bytes) -> Any:
    """Return a resolver for references inside this schema only. Crawls for anchors once instead of per reference."""
    root = DRAFT202012.create_resource(schema)
    uri = root.id() or ""
    registry = SPECIFICATIONS.with_resource(uri, root)
    return (registry.crawl() if any(name in encoded for name in _NAMES) else registry).resolver(uri)


def _first_error(validator: Any, instance: Any, what: str, seconds: float) -> Any:
    """Return the first error, or None. Raises: _Unchecked, RecursionError, and any error of jsonschema."""
    before = _steps.set(_Steps(what, seconds))
    try:
        return next(validator.iter_errors(instance), None)
    finally:
        _steps.reset(before)


def _problem(error: Exception) -> str:
    """Return why an output is not checked."""
    if isinstance(error, _Unchecked):
        return str(error)
    # A UsageError is that of a schema that cannot be encoded.
    is_deep = isinstance(error, RecursionError | UsageError)
    why = "recursive or nested too deeply" if is_deep else type(error).__name__.lstrip("_")
    return f"the schema cannot be used ({why})"
