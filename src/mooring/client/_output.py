"""Whether a tool's output is what its schema says. Loaded on first use: the schema library is an extra.

No reference is ever fetched over the network, and a schema that is too large or too deep is not compiled: both come
from the server, whose word is not trusted.

Above: `_tools`. Below: the `jsonschema` and `referencing` packages.
"""

from collections.abc import Callable
from typing import TypeAlias

from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it ships no types
from jsonschema.exceptions import SchemaError  # type: ignore[import-untyped]  # as above
from referencing import Registry
from referencing.exceptions import Unresolvable

from mooring.errors import Json, UsageError
from mooring.types import JsonObject, encode_json

# The largest schema that is looked at. Real ones are a few kilobytes; compiling one of this size takes a second.
MAX_SCHEMA_BYTES = 262_144

# Says what is wrong with an output, in a sentence, or None.
Check: TypeAlias = Callable[[Json], str | None]


def checker(schema: JsonObject) -> Check:
    """A check against this schema. A schema that cannot be used is what is wrong with every output."""
    try:
        size = len(encode_json(schema))
        if size > MAX_SCHEMA_BYTES:
            return _always(f"the schema is over {MAX_SCHEMA_BYTES} bytes, and was not looked at")
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        return _always(f"the schema itself is not valid ({error.message[:100]})")
    except (RecursionError, UsageError):
        return _always("the schema is nested too deeply, and was not looked at")
    validator = Draft202012Validator(schema, registry=Registry())

    def check(output: Json) -> str | None:
        try:
            for error in validator.iter_errors(output):
                return f"{error.json_path}: {error.message[:200]}"
        except (Unresolvable, RecursionError) as refusal:
            return f"the schema cannot be used ({type(refusal).__name__.lstrip('_')})"
        return None

    return check


def _always(flaw: str) -> Check:
    return lambda _: flaw
