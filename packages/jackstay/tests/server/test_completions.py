"""Completion functions: their arguments and their results."""

from typing import Any

import msgspec
import pytest

from jackstay.errors import UsageError
from jackstay.server import Context
from jackstay.server._completions import CompletionEntry, completion_from_function, completion_key
from jackstay.types import CompleteResult, Completion, PromptReference, ResourceTemplateReference

PROMPT = PromptReference(name="review")
TEMPLATE = ResourceTemplateReference(uri="db://{table}")


def value_only(value: str) -> list[str]: ...
def with_arguments(value: str, arguments: dict[str, str]) -> list[str]: ...
async def with_context(value: str, context: Context) -> list[str]: ...


def entry(call: Any, **keywords: Any) -> CompletionEntry:
    return completion_from_function(PROMPT, "tone", call, **keywords)


def test_completion_key() -> None:
    assert completion_key(PROMPT, "tone") == ("ref/prompt", "review", "tone")
    assert completion_key(TEMPLATE, "table") == ("ref/resource", "db://{table}", "table")
    assert entry(value_only).key == ("ref/prompt", "review", "tone")


def test_bind(subtests: pytest.Subtests) -> None:
    cases: list[tuple[Any, Any]] = [
        (value_only, ("ki",)),
        (with_arguments, ("ki", {"a": "b"})),
        (with_context, ("ki", "C")),
    ]
    for call, expected in cases:
        with subtests.test(call=call, expected=expected):
            assert entry(call).bind("ki", {"a": "b"}, "C") == (expected, {})


def test_no_resolved_arguments_are_an_empty_dict() -> None:
    assert entry(with_arguments).bind("", None, None) == (("", {}), {})


def test_async_and_blocking_functions() -> None:
    assert (entry(with_context).is_async, entry(with_context).is_blocking) == (True, False)
    assert (entry(value_only).is_async, entry(value_only).is_blocking) == (False, True)
    assert not entry(value_only, blocking=False).is_blocking


def test_a_function_with_other_parameters_is_rejected(subtests: pytest.Subtests) -> None:
    cases: list[Any] = [lambda: 1, lambda a, b, c: 1]
    for call in cases:
        with subtests.test(call=call), pytest.raises(UsageError, match="must accept"):
            entry(call)


MANY = [str(number) for number in range(250)]

RESULTS: list[tuple[Any, dict[str, Any]]] = [
    (None, {"values": []}),
    ([], {"values": []}),
    ("one", {"values": ["one"]}),
    (("a", "b"), {"values": ["a", "b"]}),
    ((text for text in "ab"), {"values": ["a", "b"]}),
    (MANY, {"values": MANY[:100], "total": 250, "hasMore": True}),
    (Completion(values=["a"], total=5, has_more=True), {"values": ["a"], "total": 5, "hasMore": True}),
    (Completion(values=MANY, total=999), {"values": MANY[:100], "total": 999, "hasMore": True}),
    (CompleteResult(completion=Completion(values=["a"])), {"values": ["a"]}),
]


def test_a_result_has_at_most_a_hundred_values(subtests: pytest.Subtests) -> None:
    for value, expected in RESULTS:
        with subtests.test(value=value, expected=expected):
            assert msgspec.json.decode(entry(value_only).encode_result(value, "2025-11-25")) == {"completion": expected}


def test_values_must_be_strings(subtests: pytest.Subtests) -> None:
    cases: list[Any] = [3, [1], ["a", None], {"a": 1}.values()]
    for value in cases:
        with subtests.test(value=value), pytest.raises(UsageError, match="must be str"):
            entry(value_only).encode_result(value, "2025-11-25")


def test_a_lone_surrogate_is_rejected() -> None:
    with pytest.raises(UsageError, match="surrogate"):
        entry(value_only).encode_result(["\ud800"], "2025-11-25")
