"""The calls in a model's answer: each API's published format, as dicts and as objects; and everything that is not one."""

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackstay.errors import UsageError
from jackstay.models import ModelCall
from jackstay.models._calls import read_arguments, read_calls


def as_object(value: Any) -> Any:
    """As the libraries of the APIs hand it over: attributes instead of members."""
    if isinstance(value, dict):
        return SimpleNamespace(**{name: as_object(part) for name, part in value.items()})
    return [as_object(part) for part in value] if isinstance(value, list) else value


CHAT_CALLS = [
    {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}},
    {"id": "call_2", "type": "custom", "custom": {"name": "shell", "input": "ls"}},
    {"id": "call_3", "type": "function", "function": {"name": "now", "arguments": ""}},
]
CHAT_MESSAGE = {"role": "assistant", "content": None, "tool_calls": CHAT_CALLS}
CHAT = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "choices": [{"index": 0, "finish_reason": "tool_calls", "message": CHAT_MESSAGE}],
}
CHAT_READ = [ModelCall("call_1", "add", '{"a": 1}'), ModelCall("call_3", "now", "")]

OUTPUT = [
    {"type": "reasoning", "id": "rs_1", "summary": []},
    {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "add", "arguments": '{"a": 1}',
     "status": "completed"},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Wait."}]},
    {"type": "mcp_call", "id": "mcp_1", "name": "far", "arguments": "{}"},
    {"type": "function_call", "call_id": "call_2", "name": "now", "arguments": "{}"},
]  # fmt: skip
RESPONSE = {"id": "resp_1", "object": "response", "output": OUTPUT}
RESPONSE_READ = [ModelCall("call_1", "add", '{"a": 1}'), ModelCall("call_2", "now", "{}")]

CONTENT = [
    {"type": "thinking", "thinking": "Hm.", "signature": "s"},
    {"type": "text", "text": "I shall add."},
    {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": 1}},
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}},
    {"type": "tool_use", "id": "toolu_2", "name": "now", "input": {}},
]
MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "content": CONTENT,
    "stop_reason": "tool_use",
}
MESSAGE_READ = [ModelCall("toolu_1", "add", {"a": 1}), ModelCall("toolu_2", "now", {})]

# (shape, answer, the calls in it)
ANSWERS = [
    ("openai", CHAT, CHAT_READ),
    ("openai", CHAT_MESSAGE, CHAT_READ),
    ("openai", CHAT_CALLS, CHAT_READ),
    ("openai", {"role": "assistant", "content": "Done."}, []),
    ("openai", {"role": "assistant", "content": "Done.", "tool_calls": None}, []),
    ("openai-responses", RESPONSE, RESPONSE_READ),
    ("openai-responses", OUTPUT, RESPONSE_READ),
    ("openai-responses", [], []),
    ("anthropic", MESSAGE, MESSAGE_READ),
    ("anthropic", CONTENT, MESSAGE_READ),
    ("anthropic", {"role": "assistant", "content": "Done."}, []),
    ("anthropic", {"role": "assistant", "content": [], "stop_reason": "end_turn"}, []),
    ("anthropic", {"role": "assistant", "content": [], "stop_reason": "max_tokens"}, []),
]


@pytest.mark.parametrize(("shape", "answer", "calls"), ANSWERS)
def test_the_calls_are_found_in_dicts(shape: str, answer: Any, calls: list[ModelCall]) -> None:
    assert read_calls(shape, answer) == calls


@pytest.mark.parametrize(("shape", "answer", "calls"), ANSWERS)
def test_the_calls_are_found_in_objects(shape: str, answer: Any, calls: list[ModelCall]) -> None:
    found = read_calls(shape, as_object(answer))
    assert [(call.id, call.name) for call in found] == [(call.id, call.name) for call in calls]


FOREIGN = [
    (shape, answer)
    for shape, others in {
        "openai": (RESPONSE, OUTPUT, MESSAGE, CONTENT),
        "openai-responses": (CHAT, CHAT_MESSAGE, CHAT_CALLS, MESSAGE, CONTENT),
        "anthropic": (CHAT, CHAT_MESSAGE, CHAT_CALLS, RESPONSE, OUTPUT),
    }.items()
    for answer in others
]


@pytest.mark.parametrize(("shape", "answer"), FOREIGN)
@pytest.mark.parametrize("form", [dict, as_object])
def test_an_answer_of_another_api_is_refused_and_not_read_as_empty(
    shape: str, answer: Any, form: Any
) -> None:
    with pytest.raises(
        UsageError, match=f"no answer in the shape {shape}: hand over .* or choose another shape"
    ):
        read_calls(shape, answer if form is dict else as_object(answer))


@pytest.mark.parametrize("shape", ["openai", "openai-responses", "anthropic"])
@pytest.mark.parametrize("answer", [None, "text", 5, {}, object(), [None], [{}], ["x"], {"choices": [{}]}])
def test_what_is_no_answer_at_all_is_refused(shape: str, answer: Any) -> None:
    with pytest.raises(UsageError, match="no answer in the shape"):
        read_calls(shape, answer)


def test_calls_that_are_no_list_are_refused() -> None:
    with pytest.raises(UsageError, match="no answer in the shape openai"):
        read_calls("openai", {"role": "assistant", "tool_calls": {"id": "1"}})


def test_a_shape_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match="shape must be one of"):
        read_calls("soap", CHAT)


@pytest.mark.parametrize("choices", [[], CHAT["choices"] * 2])
def test_of_several_choices_the_caller_takes_one(choices: list[Any]) -> None:
    with pytest.raises(UsageError, match=f"{len(choices)} choices: hand over the message"):
        read_calls("openai", {**CHAT, "choices": choices})


@pytest.mark.parametrize(
    ("shape", "call", "missing"),
    [
        ("openai", {"type": "function", "function": {"name": "a", "arguments": ""}}, "id"),
        ("openai", {"type": "function", "id": "1"}, "name"),
        ("openai", {"type": "function", "id": "1", "function": {"name": ""}}, "name"),
        ("openai-responses", {"type": "function_call", "id": "1", "name": "a"}, "call_id"),
        ("openai-responses", {"type": "function_call", "call_id": "1"}, "name"),
        ("anthropic", {"type": "tool_use", "id": "1", "name": 5}, "name"),
        ("anthropic", {"type": "tool_use", "name": "a"}, "id"),
    ],
)
def test_a_call_that_cannot_be_answered_is_refused(shape: str, call: Any, missing: str) -> None:
    with pytest.raises(UsageError, match=f"has no {missing}"):
        read_calls(shape, [call])


# --- cut off ----------------------------------------------------------------------------------------------------------


def whole(shape: str, answer: Any) -> list[bool]:
    return [call.is_whole for call in read_calls(shape, answer)]


def test_a_call_that_the_answer_was_cut_off_in_is_marked() -> None:
    """Its arguments may be valid and still not what the model meant: Anthropic gives those that it had by then."""
    cut = {**CHAT["choices"][0], "finish_reason": "length"}  # type: ignore[dict-item]  # JSON
    assert whole("openai", {**CHAT, "choices": [cut]}) == [True, False]
    assert whole("openai-responses", [{**OUTPUT[1], "status": "incomplete"}, OUTPUT[4]]) == [False, True]
    for reason in ("max_tokens", "model_context_window_exceeded"):
        assert whole("anthropic", {**MESSAGE, "stop_reason": reason}) == [True, False]
        longer = [*CONTENT, {"type": "text", "text": "And th"}]
        assert whole("anthropic", {**MESSAGE, "content": longer, "stop_reason": reason}) == [True, True]


# --- arguments --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrote", "read"),
    [
        ('{"a": [1, null]}', {"a": [1, None]}),
        ("{}", {}),
        ("", {}),
        (" \n", {}),
        (None, {}),
        ("null", {}),
        ({"a": 1}, {"a": 1}),
        ('{"n": 9007199254740993}', {"n": 9007199254740993}),
    ],
)
def test_arguments_are_read(wrote: object, read: dict[str, Any]) -> None:
    assert read_arguments(ModelCall("1", "a", wrote)) == read


@pytest.mark.parametrize(
    ("wrote", "said"),
    [
        ('{"a": 1', "the arguments are not JSON"),
        ("a=1", "the arguments are not JSON"),
        ('{"a": NaN}', "the arguments are not JSON"),
        ("\ud800", "the arguments are not JSON"),
        ("[" * 100_000, "the arguments are not JSON"),
        ("[1]", "must be a JSON object, not a list"),
        ('"a"', "must be a JSON object, not a text"),
        ("5", "must be a JSON object, not a number"),
        ("5.5", "must be a JSON object, not a number"),
        ("true", "must be a JSON object, not true or false"),
        (object(), "must be a JSON object, not object"),
    ],
)
def test_arguments_that_cannot_be_used_say_so(wrote: object, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read_arguments(ModelCall("1", "a", wrote))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(
        ["type", "role", "choices", "message", "tool_calls", "output", "content", "id", "name", "function", "x"]
    ), inner),
    max_leaves=8,
)  # fmt: skip


@given(JSON, st.sampled_from(["openai", "openai-responses", "anthropic"]))
def test_any_json_at_all_is_read_or_refused(answer: Any, shape: str) -> None:
    try:
        calls = read_calls(shape, answer)
    except UsageError:
        return
    assert all(isinstance(call, ModelCall) for call in calls)
