"""Redaction of values with `x-sensitive` in their schema and of keys that apcore treats as secret.

It uses the redaction of apcore, so that prompts, logs and pages hide the same values as the logs of apcore. If
redaction fails, all values are hidden.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from apcore_mcp.adapters.schema import Json, Schema
from apcore_mcp.secrets import REDACTED
from jackstay.models import resolve_reference

logger = logging.getLogger("apcore_mcp.redaction")


# The names of keys in outputs that are secret without `x-sensitive`. apcore's longer list is for logs: it matches parts
# of names, so that `author` and `token_count` would be hidden from the caller.
OUTPUT_KEYS: Final = ("_secret_*",)


def redact(value: Mapping[str, Any], schema: Schema, keys: Sequence[str] | None = None) -> dict[str, Any]:
    """Return a copy of `value` with the sensitive values replaced. `keys`: names of secrets, by default apcore's."""
    # apcore is imported on first use, and ships no types.
    from apcore import redact_sensitive  # type: ignore[import-untyped]  # noqa: PLC0415

    try:
        redacted: dict[str, Any] = redact_sensitive(
            dict(value), schema, sensitive_keys=None if keys is None else list(keys)
        )
        return redacted
    except Exception:
        logger.exception("redaction failed; all values are hidden")
        return dict.fromkeys(value, REDACTED)


def allow_redacted(schema: Json) -> Any:
    """Return a copy of an output schema that accepts any value where a sensitive one is replaced by a string.

    The root stays as it is: an output is an object.
    """
    return {key: _loosen(part) for key, part in schema.items()} if isinstance(schema, dict) else schema


def _loosen(part: Json) -> Any:
    if isinstance(part, list):
        return [_loosen(item) for item in part]
    if not isinstance(part, dict):
        return part
    if part.get("x-sensitive") is True:
        return {key: part[key] for key in ("title", "description", "x-sensitive") if key in part}
    return {key: _loosen(item) for key, item in part.items()}


def sensitive_paths(schema: Schema) -> tuple[tuple[str, ...], ...]:
    """Return the paths of sensitive values in a schema; `*` is any item of a list or any key of a map.

    A recursive schema is followed once; `redact` follows the value instead.
    """
    found: dict[tuple[str, ...], None] = {}
    _collect(schema, schema, (), frozenset(), found)
    return tuple(found)


def _collect(
    root: Schema,
    node: Json,
    path: tuple[str, ...],
    seen: frozenset[str],
    found: dict[tuple[str, ...], None],
) -> None:
    if not isinstance(node, dict):
        return
    if node.get("x-sensitive") is True and path:
        found[path] = None
    reference = node.get("$ref")
    if isinstance(reference, str) and reference not in seen:
        try:
            _collect(root, resolve_reference(root, reference), path, seen | {reference}, found)
        except KeyError:
            found[path] = None  # unknown, so it may be sensitive
    for key in ("items", "additionalProperties"):
        _collect(root, node.get(key), (*path, "*"), seen, found)
    properties = node.get("properties")
    if isinstance(properties, dict):
        for name, part in properties.items():
            _collect(root, part, (*path, name), seen, found)
    for key in ("anyOf", "oneOf", "allOf"):
        for part in node.get(key) or ():
            _collect(root, part, path, seen, found)


__all__ = ["OUTPUT_KEYS", "REDACTED", "allow_redacted", "redact", "sensitive_paths"]
