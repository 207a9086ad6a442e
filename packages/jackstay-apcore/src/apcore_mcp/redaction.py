"""What must not be shown: values whose schema says `x-sensitive`, and keys that apcore treats as secret.

apcore's own redaction does it, so that a prompt, a log line and a page hide the same things as apcore's logs do. If it ever
fails, everything is hidden: a secret that is shown cannot be taken back.

Pure: must never know who shows. Above: the catalogue, approval, the inspector. Below: `apcore`, `adapters.schema`.
"""

import logging
from collections.abc import Mapping
from typing import Any

from apcore_mcp.adapters.schema import Json, Schema
from apcore_mcp.secrets import REDACTED
from jackstay.models import look_up

logger = logging.getLogger("apcore_mcp.redaction")


def redact(value: Mapping[str, Any], schema: Schema) -> dict[str, Any]:
    """A copy of `value` with everything sensitive replaced."""
    # apcore is loaded by who uses it, and ships no types.
    from apcore import redact_sensitive  # type: ignore[import-untyped]  # noqa: PLC0415

    try:
        shown: dict[str, Any] = redact_sensitive(dict(value), schema)
        return shown
    except Exception:
        logger.exception("a value could not be redacted; all of it is hidden")
        return dict.fromkeys(value, REDACTED)


def sensitive_paths(schema: Schema) -> tuple[tuple[str, ...], ...]:
    """The places that the schema marks, as paths from the root; `*` is any item of a list, or any key of a map.

    A schema that contains itself is followed once: for showing, `redact` follows the value instead.
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
        _collect(root, look_up(root, reference), path, seen | {reference}, found)
    for key in ("items", "additionalProperties"):
        _collect(root, node.get(key), (*path, "*"), seen, found)
    properties = node.get("properties")
    if isinstance(properties, dict):
        for name, part in properties.items():
            _collect(root, part, (*path, name), seen, found)
    for key in ("anyOf", "oneOf", "allOf"):
        for part in node.get(key) or ():
            _collect(root, part, path, seen, found)


__all__ = ["REDACTED", "redact", "sensitive_paths"]
