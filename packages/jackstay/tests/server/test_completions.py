"""Completers: what they are called with, and what they may answer."""

from typing import Any

import msgspec
import pytest

from jackstay.errors import UsageError
from jackstay.server._completions import CompletionEntry, completion_from_function, completion_key
from jackstay.types import CompleteResult, Completion, PromptReference, ResourceTemplateReference

PROMPT = PromptReference(name="review")
TEMPLATE = ResourceTemplateReference(uri="db://{table}")


class Context:
    pass


def typed_only(typed: str) -> list[str]: ...
def with_settled(typed: str, settled: dict[str, str]) -> list[str]: ...
async def with_context(typed: str, context: Context) -> list[str]: ...


def entry(call: Any, **keywords: Any) -> CompletionEntry:
    return completion_from_function(PROMPT, "tone", call, Context, **keywords)


def test_the_key_is_what_is_completed() -> None:
    assert completion_key(PROMPT, "tone") == ("ref/prompt", "review", "tone")
    assert completion_key(TEMPLATE, "table") == ("ref/resource", "db://{table}", "table")
    assert entry(typed_only).key == ("ref/prompt", "review", "tone")


@pytest.mark.parametrize(
    ("call", "expected"),
    [(typed_only, ("ki",)), (with_settled, ("ki", {"a": "b"})), (with_context, ("ki", "C"))],
)
def test_a_completer_is_called_with(call: Any, expected: Any) -> None:
    assert entry(call).bind("ki", {"a": "b"}, "C") == (expected, {})


def test_nothing_settled_is_an_empty_dict() -> None:
    assert entry(with_settled).bind("", None, None) == (("", {}), {})


def test_it_runs_where_its_function_says() -> None:
    assert (entry(with_context).is_async, entry(with_context).is_blocking) == (True, False)
    assert (entry(typed_only).is_async, entry(typed_only).is_blocking) == (False, True)
    assert not entry(typed_only, blocking=False).is_blocking


@pytest.mark.parametrize("call", [lambda: 1, lambda a, b, c: 1])
def test_a_function_that_takes_anything_else_is_refused(call: Any) -> None:
    with pytest.raises(UsageError, match="must take"):
        entry(call)


MANY = [str(number) for number in range(250)]

ANSWERS: list[tuple[Any, dict[str, Any]]] = [
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


@pytest.mark.parametrize(("value", "expected"), ANSWERS)
def test_an_answer_has_at_most_a_hundred_values(value: Any, expected: dict[str, Any]) -> None:
    assert msgspec.json.decode(entry(typed_only).answer(value)) == {"completion": expected}


@pytest.mark.parametrize("value", [3, [1], ["a", None], {"a": 1}.values()])
def test_what_is_not_strings_is_refused(value: Any) -> None:
    with pytest.raises(UsageError, match="must be strings"):
        entry(typed_only).answer(value)


def test_half_a_character_is_refused() -> None:
    with pytest.raises(UsageError, match="surrogate"):
        entry(typed_only).answer(["\ud800"])
