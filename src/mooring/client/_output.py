"""Whether a tool's output is what its schema says. Loaded on first use: the schema library is an extra.

No reference is ever fetched over the network, and a schema that is too large or too deep is not compiled: both come
from the server, whose word is not trusted.

Above: `_tools`. Below: the `jsonschema` and `referencing` packages.
"""

from functools import lru_cache

from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it ships no types
from jsonschema.exceptions import SchemaError, ValidationError  # type: ignore[import-untyped]
from referencing import Registry
from referencing.exceptions import Unresolvable

from mooring.errors import Json
from mooring.types import JsonObject, encode_json

MAX_SCHEMA_BYTES = 262_144


@lru_cache(maxsize=256)
def _compiled(schema: bytes) -> Draft202012Validator | str:
    import msgspec  # noqa: PLC0415  # only where a schema is new

    document = msgspec.json.decode(schema)
    try:
        Draft202012Validator.check_schema(document)
    except SchemaError as error:
        return f"the schema itself is not valid ({error.message[:100]})"
    return Draft202012Validator(document, registry=Registry())


def flaw_in(schema: JsonObject, output: Json) -> str | None:
    """What is wrong with this output, in a sentence, or None."""
    encoded = encode_json(schema)
    if len(encoded) > MAX_SCHEMA_BYTES:
        return f"the schema is over {MAX_SCHEMA_BYTES} bytes, and was not looked at"
    validator = _compiled(encoded)
    if isinstance(validator, str):
        return validator
    try:
        error: ValidationError | None = next(iter(validator.iter_errors(output)), None)
    except (Unresolvable, RecursionError) as refusal:
        return f"the schema cannot be used ({type(refusal).__name__})"
    return None if error is None else f"{error.json_path}: {error.message[:200]}"
