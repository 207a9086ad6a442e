"""Which class an answer is, by its `resultType`.

Since 2026-07-28 a request may be answered with something else than its own result. The word says so, and must be
understood: an absent one is "complete", an unrecognised one makes the response invalid (basic/index).

Above: the client. Below: `_decode`, `_rounds`, `_tasks`, and the three results that have alternatives.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from jackstay.errors import ProtocolError
from jackstay.types._decode import INVALID_PARAMS, decode, from_json, parse_members
from jackstay.types._messages import Result
from jackstay.types._prompts import GetPromptResult
from jackstay.types._resources import ReadResourceResult
from jackstay.types._rounds import InputRequiredResult
from jackstay.types._tasks import CreateTaskResult
from jackstay.types._tools import CallToolResult

R = TypeVar("R", bound=Result)

# What else may come for whom. A task only to who declared the extension with that very request: the caller knows.
ALTERNATIVES: dict[type[Result], dict[str, type[InputRequiredResult] | type[CreateTaskResult]]] = {
    CallToolResult: {"input_required": InputRequiredResult, "task": CreateTaskResult},
    GetPromptResult: {"input_required": InputRequiredResult},
    ReadResourceResult: {"input_required": InputRequiredResult},
}


def decode_result(cls: type[R], data: bytes | msgspec.Raw) -> R | InputRequiredResult | CreateTaskResult:
    """The answer to a request whose own result is `cls`. Ask with `isinstance` which of them it is.

    Raises:
        ProtocolError: for a `resultType` that is unknown or not permitted here, and as `decode`.
    """
    try:
        return decode(cls, data)
    except ProtocolError:
        # Looked at only now: the decoder of a result refuses every word but "complete".
        members = parse_members(cls, data)
        word = members.get("resultType") if isinstance(members, dict) else None
        if word is None or word == "complete":
            raise
    alternatives = ALTERNATIVES.get(cls, {})
    if not isinstance(word, str) or word not in alternatives:
        known = ", ".join(repr(name) for name in ("complete", *alternatives))
        message = f"a resultType that {cls.__name__} does not have (it has {known})"
        raise ProtocolError(message, path="$.resultType", quote=str(word)[:40], code=INVALID_PARAMS)
    return from_json(alternatives[word], members)
