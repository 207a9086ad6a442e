"""Decodes a result into the class that its `resultType` selects.

Since 2026-07-28 a request may have another result than its own. An absent `resultType` means "complete", an unknown one
makes the response invalid (2026-07-28, basic/index).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from jackstay.errors import ProtocolError
from jackstay.types._decode import INVALID_PARAMS, decode, from_json, parse_members, strict_reader
from jackstay.types._input_required import InputRequiredResult
from jackstay.types._json import DECODE_ERRORS
from jackstay.types._messages import Result
from jackstay.types._prompts import GetPromptResult
from jackstay.types._resources import ReadResourceResult
from jackstay.types._tasks import CreateTaskResult
from jackstay.types._tool_results import CallToolResult

R = TypeVar("R", bound=Result)

# Alternative results. The caller checks that a task is returned only if the request declared the extension.
ALTERNATIVES: dict[type[Result], dict[str, type[InputRequiredResult] | type[CreateTaskResult]]] = {
    CallToolResult: {"input_required": InputRequiredResult, "task": CreateTaskResult},
    GetPromptResult: {"input_required": InputRequiredResult},
    ReadResourceResult: {"input_required": InputRequiredResult},
}


def result_reader(cls: type[R]) -> Callable[[msgspec.Raw], R | InputRequiredResult | CreateTaskResult]:
    """Return `decode_result` for one class, as a function that is faster in the common case."""
    strict = strict_reader(cls)

    def read(data: msgspec.Raw) -> R | InputRequiredResult | CreateTaskResult:
        try:
            return strict(data)  # type: ignore[return-value]  # an instance of `cls`
        except DECODE_ERRORS:
            return decode_result(cls, data)

    return read


def decode_result(cls: type[R], data: bytes | msgspec.Raw) -> R | InputRequiredResult | CreateTaskResult:
    """Decode the result of a request whose own result is `cls`. Use `isinstance` to find out which one it is.

    Raises:
        ProtocolError: `resultType` is unknown or not permitted here; and as `decode`.
    """
    try:
        return decode(cls, data)
    except ProtocolError:
        # The decoder of a result rejects every `resultType` except "complete".
        members = parse_members(cls, data)
        result_type = members.get("resultType") if isinstance(members, dict) else None
        if result_type is None or result_type == "complete":
            raise
    alternatives = ALTERNATIVES.get(cls, {})
    if not isinstance(result_type, str) or result_type not in alternatives:
        known = ", ".join(repr(name) for name in ("complete", *alternatives))
        message = f"invalid resultType for {cls.__name__} (valid: {known})"
        raise ProtocolError(message, path="$.resultType", quote=str(result_type)[:40], code=INVALID_PARAMS)
    return from_json(alternatives[result_type], members)
