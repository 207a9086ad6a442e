"""Outputs of modules as JSON: enums, models, dataclasses, times and bytes have their conventional forms."""

import dataclasses
import json
import math
from collections import deque
from collections.abc import Mapping, Set
from datetime import date, datetime, timedelta
from datetime import time as clock_time
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import msgspec

# The maximum nesting of an output.
MAX_OUTPUT_DEPTH = 100

# Types with a conventional form in JSON, encoded by msgspec (a datetime is a date).
_SCALARS = (date, clock_time, timedelta, Decimal, UUID, bytes, bytearray, memoryview)


def to_json(value: Any) -> tuple[str, tuple[str, ...]]:
    """Encode an output as JSON. Return the text and the paths of NaN and Infinity, which become null.

    Other objects are encoded by their `json_value`, as values and as keys.

    Raises: ValueError for a circular or too deeply nested value.
    """
    try:
        text = json.dumps(value, default=json_value, ensure_ascii=False, allow_nan=False)
        invalid: list[str] = []
    except (TypeError, ValueError):
        invalid = []
        text = json.dumps(_plain(value, "", invalid, 0), ensure_ascii=False, allow_nan=False)
    # A lone surrogate cannot be encoded as UTF-8.
    return text.encode(errors="replace").decode(), tuple(invalid)


def json_value(value: Any) -> Any:
    """Return the JSON form of an object, one level deep: the value of an enum, the fields of models and dataclasses.

    Bytes become base64 and times ISO 8601, as in `jackstay.server`. Other objects become their `str()`.
    """
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return str(value)
    if isinstance(value, _SCALARS):
        return msgspec.to_builtins(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Set | deque):
        return list(value)
    if isinstance(value, type):
        return str(value)
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json", by_alias=True)
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, msgspec.Struct):
        names = zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True)
        return {name: getattr(value, field) for name, field in names}
    return str(value)


def _json_key(key: Any) -> str:
    plain = key if isinstance(key, str | tuple) else json_value(key)
    return plain if type(plain) is str else str(plain)


def _plain(value: Any, path: str, invalid: list[str], depth: int) -> Any:
    if depth > MAX_OUTPUT_DEPTH:
        raise ValueError(f"the output is circular or nested deeper than {MAX_OUTPUT_DEPTH}")
    if isinstance(value, float) and not math.isfinite(value):
        invalid.append(path or "the root")
        return None
    if isinstance(value, dict):
        prefix = f"{path}." if path else ""
        named = {_json_key(key): part for key, part in value.items()}
        return {key: _plain(part, f"{prefix}{key}", invalid, depth + 1) for key, part in named.items()}
    if isinstance(value, list | tuple):
        return [_plain(part, f"{path}[{at}]", invalid, depth + 1) for at, part in enumerate(value)]
    if value is None or isinstance(value, str | int | float):
        return value
    return _plain(json_value(value), path, invalid, depth + 1)


__all__ = ["MAX_OUTPUT_DEPTH", "json_value", "to_json"]
