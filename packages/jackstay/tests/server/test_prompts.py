"""Prompts from functions: arguments, and the encoding of messages."""

import datetime
import enum
from typing import Any, Literal

import msgspec
import pytest

from jackstay.errors import UsageError
from jackstay.server import Context
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


def review(  # noqa: PLR0917  # every kind of argument
    code: str, context: Context, tone: Tone | None = None, depth: int = 1, day: datetime.date | None = None,
    kind: Literal["a", "b"] = "a", anything: Any = None,
) -> str:  # fmt: skip
    """Review it.

    :param code: what to read
    """
    return code


def test_a_prompt_from_a_function() -> None:
    prompt = prompt_from_function(review)
    body = decode(Prompt, prompt.listed)
    assert (prompt.name, body.description, prompt.is_blocking) == ("review", "Review it.", True)
    assert body.arguments is not None
    assert [(argument.name, argument.required) for argument in body.arguments] == [
        ("code", True), ("tone", False), ("depth", False), ("day", False), ("kind", False), ("anything", False),
    ]  # fmt: skip
    assert body.arguments[0].description == "what to read"


def test_arguments_are_converted_from_strings() -> None:
    prompt = prompt_from_function(review)
    bound = prompt.bind({"code": "x", "tone": "kind", "depth": "2", "day": "2026-01-02"}, "C")
    assert bound == (("x", "C", Tone.KIND, 2, datetime.date(2026, 1, 2), "a", None), {})
    missing = prompt.bind({}, "C")
    assert isinstance(missing, InvalidArguments)
    assert missing.text == "Invalid arguments: code: missing"


def test_options_override_what_the_function_has() -> None:
    options = PromptOptions(name="r", title="R", description="D", icons=["i"], meta={"k": 1}, blocking=False)
    prompt = prompt_from_function(lambda: "x", options=options)
    assert not prompt.is_blocking
    assert msgspec.json.decode(prompt.listed) == {
        "name": "r", "title": "R", "description": "D", "icons": [{"src": "i"}], "_meta": {"k": 1},
    }  # fmt: skip


class Point(msgspec.Struct):
    x: int


def test_parameters_that_cannot_be_read_from_a_string_are_rejected(subtests: pytest.Subtests) -> None:
    cases: list[Any] = [list[str], dict[str, str], Point, str | list[str], tuple[int, int]]
    for hint in cases:
        with subtests.test(hint=hint):

            def bad(a: Any) -> str: ...

            bad.__annotations__["a"] = hint
            with pytest.raises(UsageError, match=r"bad\(a\): prompt arguments are strings"):
                prompt_from_function(bad)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": {"type": "text", "text": text}}


RESULTS: list[tuple[Any, list[Any]]] = [
    ("hi", [user("hi")]),
    (None, []),
    ([], []),
    (["a", TextContent(text="b")], [user("a"), user("b")]),
    ({"a": 1}, [user('{"a":1}')]),
    ({"role": "user", "content": "a"}, [user("a")]),
    ([{"role": "user", "content": {"type": "text", "text": "b"}}], [user("b")]),
    (Image(b"\0"), [{"role": "user", "content": {"type": "image", "data": "AA==", "mimeType": "image/png"}}]),
    (
        [PromptMessage(role="assistant", content=TextContent(text="a")), "b"],
        [{"role": "assistant", "content": {"type": "text", "text": "a"}}, user("b")],
    ),
]


def test_messages_of_returned_values(subtests: pytest.Subtests) -> None:
    for value, messages in RESULTS:
        with subtests.test(value=value, messages=messages):
            encoded = prompt_from_function(lambda: 1, options=PromptOptions(name="p")).encode_result(value, NOW)
            assert msgspec.json.decode(encoded) == {"messages": messages}


def test_a_message_has_one_of_two_roles() -> None:
    with pytest.raises(UsageError, match="role must be 'user' or 'assistant', not 'system'"):
        prompt_from_function(review).encode_result({"role": "system", "content": "a"}, NOW)


def test_the_result_has_the_description() -> None:
    encoded = prompt_from_function(review).encode_result("a", NOW)
    assert msgspec.json.decode(encoded)["description"] == "Review it."


def test_a_result_object_is_sent_with_content_that_the_revision_supports() -> None:
    audio = PromptMessage(role="user", content=AudioContent(data="AA==", mime_type="audio/wav"))
    result = with_members(GetPromptResult(messages=[audio], description="my prompt"), {"vendor": 1})
    prompt = prompt_from_function(review)
    sent = msgspec.json.decode(prompt.encode_result(result, NOW))
    assert (sent["description"], sent["vendor"]) == ("my prompt", 1)
    assert sent["messages"][0]["content"]["type"] == "audio"
    sent = msgspec.json.decode(prompt.encode_result(result, "2024-11-05"))
    assert sent["messages"][0]["content"]["type"] == "text"


def test_an_input_required_result_is_sent_unchanged() -> None:
    encoded = prompt_from_function(review).encode_result(InputRequiredResult(request_state="s"), "2026-07-28")
    assert msgspec.json.decode(encoded) == {"resultType": "input_required", "requestState": "s"}


def test_values_without_a_json_form_are_rejected() -> None:
    with pytest.raises(UsageError, match="complex"):
        prompt_from_function(review).encode_result(1j, NOW)
