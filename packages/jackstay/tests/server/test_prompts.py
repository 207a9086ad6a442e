"""Prompts: arguments from parameters, conversations from what is returned."""

import datetime
import enum
from typing import Any, Literal

import msgspec
import pytest

from jackstay.errors import UsageError
from jackstay.server._content import Image
from jackstay.server._problems import InvalidArguments
from jackstay.server._prompts import PromptOptions, prompt_from_function
from jackstay.types import (
    AudioContent,
    GetPromptResult,
    InputRequiredResult,
    Prompt,
    PromptMessage,
    TextContent,
    decode,
    with_members,
)

NOW = "2025-11-25"


class Tone(enum.Enum):
    KIND = "kind"


class Context:
    pass


def review(  # noqa: PLR0917 (every kind of argument)
    code: str, context: Context, tone: Tone | None = None, depth: int = 1, day: datetime.date | None = None,
    kind: Literal["a", "b"] = "a", anything: Any = None,
) -> str:  # fmt: skip
    """Review it.

    :param code: what to read
    """
    return code


def test_a_function_becomes_a_prompt() -> None:
    prompt = prompt_from_function(review, Context)
    body = decode(Prompt, prompt.listed)
    assert (prompt.name, body.description, prompt.is_blocking) == ("review", "Review it.", True)
    assert body.arguments is not None
    assert [(one.name, one.required) for one in body.arguments] == [
        ("code", True), ("tone", False), ("depth", False), ("day", False), ("kind", False), ("anything", False),
    ]  # fmt: skip
    assert body.arguments[0].description == "what to read"


def test_arguments_are_strings_read_as_what_the_parameters_are() -> None:
    prompt = prompt_from_function(review, Context)
    bound = prompt.bind({"code": "x", "tone": "kind", "depth": "2", "day": "2026-01-02"}, "C")
    assert bound == (("x", "C", Tone.KIND, 2, datetime.date(2026, 1, 2), "a", None), {})
    missing = prompt.bind(None, "C")
    assert isinstance(missing, InvalidArguments)
    assert missing.text == "Invalid arguments: code: missing"


def test_what_the_author_says_wins() -> None:
    options = PromptOptions(name="r", title="R", description="D", icons=["i"], meta={"k": 1}, blocking=False)
    prompt = prompt_from_function(lambda: "x", options=options)
    assert not prompt.is_blocking
    assert msgspec.json.decode(prompt.listed) == {
        "name": "r", "title": "R", "description": "D", "icons": [{"src": "i"}], "_meta": {"k": 1},
    }  # fmt: skip


class Point(msgspec.Struct):
    x: int


@pytest.mark.parametrize("hint", [list[str], dict[str, str], Point, str | list[str], tuple[int, int]])
def test_a_parameter_that_a_string_cannot_say_is_refused(hint: Any) -> None:
    def bad(a: Any) -> str: ...

    bad.__annotations__["a"] = hint
    with pytest.raises(UsageError, match=r"bad\(a\) cannot be given as a string"):
        prompt_from_function(bad)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": {"type": "text", "text": text}}


ANSWERS: list[tuple[Any, list[Any]]] = [
    ("hi", [user("hi")]),
    (None, []),
    ([], []),
    (["a", TextContent(text="b")], [user("a"), user("b")]),
    ({"a": 1}, [user('{"a":1}')]),
    (Image(b"\0"), [{"role": "user", "content": {"type": "image", "data": "AA==", "mimeType": "image/png"}}]),
    (
        [PromptMessage(role="assistant", content=TextContent(text="a")), "b"],
        [{"role": "assistant", "content": {"type": "text", "text": "a"}}, user("b")],
    ),
]


@pytest.mark.parametrize(("value", "messages"), ANSWERS)
def test_what_is_returned_becomes_messages(value: Any, messages: list[Any]) -> None:
    answer = prompt_from_function(lambda: 1, options=PromptOptions(name="p")).answer(value, NOW)
    assert msgspec.json.decode(answer) == {"messages": messages}


def test_the_description_goes_with_the_messages() -> None:
    answer = prompt_from_function(review, Context).answer("a", NOW)
    assert msgspec.json.decode(answer)["description"] == "Review it."


def test_a_result_is_sent_as_it_is_in_what_the_revision_has() -> None:
    sound = PromptMessage(role="user", content=AudioContent(data="AA==", mime_type="audio/wav"))
    result = with_members(GetPromptResult(messages=[sound], description="mine"), {"vendor": 1})
    prompt = prompt_from_function(review, Context)
    answer = msgspec.json.decode(prompt.answer(result, NOW))
    assert (answer["description"], answer["vendor"]) == ("mine", 1)
    assert answer["messages"][0]["content"]["type"] == "audio"
    answer = msgspec.json.decode(prompt.answer(result, "2024-11-05"))
    assert answer["messages"][0]["content"]["type"] == "text"


def test_a_question_is_sent_as_it_is() -> None:
    answer = prompt_from_function(review, Context).answer(
        InputRequiredResult(request_state="s"), "2026-07-28"
    )
    assert msgspec.json.decode(answer) == {"resultType": "input_required", "requestState": "s"}


def test_what_json_cannot_say_is_not_sent() -> None:
    with pytest.raises(UsageError, match="complex"):
        prompt_from_function(review, Context).answer(1j, NOW)
