"""Whether a tool's output is what its schema says. Loaded on first use: the schema library is an extra.

Schema and output both come from the server, whose word is not trusted, and a check runs on the event loop, where everybody
waits for it. So no reference is ever fetched over the network; a schema that is too large or too deep is not compiled;
what can be made to take for ever in a few bytes is not looked at (`UNCHECKED`); and for the rest a check has so many steps and
so many seconds. Whatever the libraries raise, a check returns a sentence: the tool has run. Why this library and not a faster
one: docs/design/output-check.md.
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

# The largest schema that is looked at. Real ones are a few kilobytes; compiling one of this size takes a second.
MAX_SCHEMA_BYTES = 262_144

# How much work a check may be; a step is about a microsecond. A table of thirty thousand rows with ten columns has as many;
# thirty definitions that each refer twice to the next have a thousand times more.
MAX_STEPS = 3_000_000

# How long a check may take, where the setting `check_output_timeout` does not say otherwise.
MAX_SECONDS = 1.0

# How many rules may be at work inside one another. Python's own limit comes at about twice as many: not to be relied on,
# because libraries below, which are not Python, do not survive it. A level of a schema has five, one of an output three.
MAX_DEPTH = 150

# A regular expression of the server's can take years for a line (`^(a+)+$`), and Python's cannot be stopped. What is
# "unevaluated" is found by a walk of its own, through patterns and references, whose steps cannot be counted.
UNCHECKED: Final = frozenset({"pattern", "patternProperties", "unevaluatedItems", "unevaluatedProperties"})

# Rules that look at one value by itself, for a moment. They are not counted: the rules that lead to them are.
LEAVES: Final = frozenset(
    (
        "const", "exclusiveMaximum", "exclusiveMinimum", "format", "maxItems", "maxLength", "maxProperties", "maximum",
        "minItems", "minLength", "minProperties", "minimum", "multipleOf", "type",
    )
)  # fmt: skip

# Rules that go through all of what they look at, and those that follow a reference: what each part, and each one, costs.
WALKING: Final = frozenset({"additionalProperties", "contains", "items", "propertyNames", "uniqueItems"})
REFERRING: Final = frozenset({"$dynamicRef", "$ref"})
STEPS_A_PART = 3
STEPS_A_REFERENCE = 20

# An error quotes the output, so making one costs by its length: a character is this part of a step.
CHARACTERS_A_STEP = 16

# Says what is wrong with an output, in a sentence, or None.
Check: TypeAlias = Callable[[Json], str | None]

# What one keyword of a schema finds, as jsonschema has it: validator, the keyword's value, the instance, the schema.
_Rule: TypeAlias = Callable[[Any, Any, Any, Any], Iterator[Any] | None]


class _TooLong(Exception):
    """The check has used up its steps."""


class _TooSlow(Exception):
    """The check has used up its time."""


class _TooDeep(Exception):
    """The check is in more rules than it may be: a schema that refers to itself never ends."""


class _Steps:
    """What is left of one check's steps, and how deep it is."""

    def __init__(self, seconds: float) -> None:
        self.left = MAX_STEPS
        self.depth = 0
        self.ends_at = _clock() + seconds

    def take(self, steps: int) -> None:
        self.left -= steps
        if self.left < 0:
            raise _TooLong
        if _clock() > self.ends_at:
            raise _TooSlow


_clock = time.monotonic  # replaced by tests

# Of the check that runs: rules are shared by all checks, and loops of other threads may run theirs.
_steps: ContextVar[_Steps] = ContextVar("_steps")


def _counted(name: str, rule: _Rule) -> _Rule:
    """The same rule, which takes steps for what it does."""
    base = 2 + (STEPS_A_REFERENCE if name in REFERRING else 0)

    def counted(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        steps = _steps.get()
        steps.take(base + 2 * _size(value))
        if name in WALKING:
            steps.take(STEPS_A_PART * _size(instance))
        if name == "uniqueItems" and not _is_sortable(instance):
            steps.take(_size(instance) ** 2)  # each is compared with each
        steps.depth += 1
        try:
            if steps.depth > MAX_DEPTH:
                raise _TooDeep
            for error in rule(validator, value, instance, schema) or ():
                steps.take(len(error.message) // CHARACTERS_A_STEP)
                yield error
        finally:
            steps.depth -= 1

    return counted


def _leaf(rule: _Rule) -> _Rule:
    """The same rule, which takes steps for what it finds wrong: as a list, because most find nothing, and are many."""

    def leaf(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
        steps = _steps.get()
        steps.take(0)  # there may be a million of them below one rule that is counted
        errors = list(rule(validator, value, instance, schema) or ())
        for error in errors:
            steps.take(1 + len(error.message) // CHARACTERS_A_STEP)
        return errors

    return leaf


def _size(value: object) -> int:
    return len(value) if isinstance(value, list | dict) else 0


def _is_sortable(instance: object) -> bool:
    """True for what uniqueness can be seen of by sorting."""
    kinds = {type(item) for item in instance} if isinstance(instance, list) else set()
    return kinds <= {str} or kinds <= {int, float}


def _nothing(*_: object) -> None:
    """The rule of what is not looked at."""


def _additional(rule: _Rule) -> _Rule:
    """What is "additional" depends on the patterns beside it, where there are any."""

    def additional(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any] | None:
        return None if "patternProperties" in schema else rule(validator, value, instance, schema)

    return additional


def _rules() -> dict[str, _Rule]:
    rules: dict[str, _Rule] = dict(Draft202012Validator.VALIDATORS)
    rules["additionalProperties"] = _additional(rules["additionalProperties"])
    return {name: _limited(name, rule) for name, rule in rules.items()}


def _limited(name: str, rule: _Rule) -> _Rule:
    if name in UNCHECKED:
        return _nothing
    return _leaf(rule) if name in LEAVES else _counted(name, rule)


def _validator_class() -> Any:
    """Draft 2020-12 by the rules above, and by no others: where jsonschema meets `$schema`, it goes on by its own."""
    validator_class = extend(Draft202012Validator, _rules())
    evolve = validator_class.evolve

    def evolve_as_it_is(self: Any, **changes: Any) -> Any:
        schema = changes.get("schema", self.schema)
        if isinstance(schema, dict) and "$schema" in schema:
            changes["schema"] = {key: value for key, value in schema.items() if key != "$schema"}
        return evolve(self, **changes)

    validator_class.evolve = evolve_as_it_is
    return validator_class


_Validator = _validator_class()
# What a schema must be. Not `check_schema()`, which has the weaknesses that are taken away above. Formats are not checked: the
# only one of a schema is "regex", which means Python's, while a schema has ECMA-262's; patterns are not looked at anyway.
_schemas = _Validator(Draft202012Validator.META_SCHEMA)

# What a reference by name needs. Without any of them there is nothing to search a schema for.
_NAMES: Final = (b'"$anchor"', b'"$dynamicAnchor"', b'"$id"')


def checker(schema: JsonObject, seconds: float = MAX_SECONDS) -> Check:
    """A check against this schema, which takes at most so long. A schema that cannot be used is what is wrong with every output."""
    try:
        encoded = encode_json(schema)
        if len(encoded) > MAX_SCHEMA_BYTES:
            return _always(f"the schema is over {MAX_SCHEMA_BYTES} bytes, and was not looked at")
        error = _first_error(_schemas, schema, seconds)
        if error is not None:
            return _always(f"the schema itself is not valid ({error.message[:100]})")
        validator = _Validator(schema, _resolver=_resolver(schema, encoded))
    except (RecursionError, UsageError, _TooDeep):
        return _always("the schema is nested too deeply, and was not looked at")
    except _TooLong:
        return _always(f"the schema is too much to be looked at (over {MAX_STEPS} steps)")
    except _TooSlow:
        return _always(f"the schema takes too long to be looked at (over {seconds:g} s)")
    except Exception as error:  # noqa: BLE001  # whatever a hostile schema makes the libraries raise
        return _always(_unusable(error))

    def check(output: Json) -> str | None:
        try:
            error = _first_error(validator, output, seconds)
            return None if error is None else f"{error.json_path}: {error.message[:200]}"
        except (RecursionError, _TooDeep):
            return "the schema cannot be used (it refers to itself, or goes too deep)"
        except _TooLong:
            return f"it is too much to be checked (over {MAX_STEPS} steps)"
        except _TooSlow:
            return f"it takes too long to be checked (over {seconds:g} s)"
        except Exception as error:  # noqa: BLE001  # the tool has run: nothing of this may end its call
            return _unusable(error)

    return check


def _resolver(schema: JsonObject, encoded: bytes) -> Any:
    """Resolves the references inside this schema, and no others. Searched for names once, here, and not for each reference."""
    root = DRAFT202012.create_resource(schema)
    uri = root.id() or ""
    registry = SPECIFICATIONS.with_resource(uri, root)
    return (registry.crawl() if any(name in encoded for name in _NAMES) else registry).resolver(uri)


def _first_error(validator: Any, instance: Any, seconds: float) -> Any:
    """What is wrong first, or None. Raises: _TooLong, _TooSlow, and what jsonschema does."""
    before = _steps.set(_Steps(seconds))
    try:
        return next(validator.iter_errors(instance), None)
    finally:
        _steps.reset(before)


def _unusable(error: Exception) -> str:
    return f"the schema cannot be used ({type(error).__name__.lstrip('_')})"


def _always(flaw: str) -> Check:
    return lambda _: flaw
