"""Tool calls in the response of a model: the format of each API, as dicts and as objects, and invalid responses."""

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackstay.errors import UsageError
from jackstay.models import ModelCall
from jackstay.models._calls import READERS, read_arguments


def read_calls(shape: str, response: object) -> list[ModelCall]:
    return list(READERS[shape](response))


def as_object(value: Any) -> Any:
    """Return the response as an API library does: attributes instead of members."""
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

# (shape, response, the calls in it)
RESPONSES = [
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


def test_calls_are_read_from_dicts_and_objects() -> None:
    for shape, response, calls in RESPONSES:
        assert read_calls(shape, response) == calls
        found = read_calls(shape, as_object(response))
        assert [(call.id, call.name) for call in found] == [(call.id, call.name) for call in calls]


FOREIGN = [
    (shape, response)
    for shape, others in {
        "openai": (RESPONSE, OUTPUT, MESSAGE, CONTENT),
        "openai-responses": (CHAT, CHAT_MESSAGE, CHAT_CALLS, MESSAGE, CONTENT),
        "anthropic": (CHAT, CHAT_MESSAGE, CHAT_CALLS, RESPONSE, OUTPUT),
    }.items()
    for response in others
]


def test_a_response_of_another_api_is_refused_and_not_read_as_empty() -> None:
    for shape, response in FOREIGN:
        for form in (response, as_object(response)):
            with pytest.raises(
                UsageError, match=rf"expected a response of '{shape}' \(a .*\), got .*; pass one or use another shape"
            ):
                read_calls(shape, form)


def test_a_value_that_is_no_response_is_refused() -> None:
    values: list[Any] = [None, "text", 5, {}, object(), [None], [{}], ["x"], {"choices": [{}]}]
    for shape in ("openai", "openai-responses", "anthropic"):
        for value in values:
            with pytest.raises(UsageError, match=f"expected a response of '{shape}'"):
                read_calls(shape, value)


def test_calls_that_are_not_a_list_are_refused() -> None:
    with pytest.raises(UsageError, match="expected a response of 'openai'"):
        read_calls("openai", {"role": "assistant", "tool_calls": {"id": "1"}})


def test_of_several_choices_the_caller_must_pass_one() -> None:
    several: Any = CHAT["choices"]
    for choices in ([], several * 2):
        with pytest.raises(UsageError, match=f"{len(choices)} choices; pass the message of one of them"):
            read_calls("openai", {**CHAT, "choices": choices})


def test_a_call_without_id_or_name_is_refused() -> None:
    cases: list[tuple[str, Any, str]] = [
        ("openai", {"type": "function", "function": {"name": "a", "arguments": ""}}, "id"),
        ("openai", {"type": "function", "id": "1"}, "name"),
        ("openai", {"type": "function", "id": "1", "function": {"name": ""}}, "name"),
        ("openai-responses", {"type": "function_call", "id": "1", "name": "a"}, "call_id"),
        ("openai-responses", {"type": "function_call", "call_id": "1"}, "name"),
        ("anthropic", {"type": "tool_use", "id": "1", "name": 5}, "name"),
        ("anthropic", {"type": "tool_use", "name": "a"}, "id"),
    ]
    for shape, call, missing in cases:
        with pytest.raises(UsageError, match=f"has no '{missing}'"):
            read_calls(shape, [call])


# --- truncated --------------------------------------------------------------------------------------------------------


def completeness(shape: str, response: Any) -> list[bool]:
    return [call.is_complete for call in read_calls(shape, response)]


def test_a_truncated_call_is_marked() -> None:
    """Its arguments may be valid JSON nevertheless: Anthropic returns what it had by then."""
    truncated = {**CHAT["choices"][0], "finish_reason": "length"}  # type: ignore[dict-item]  # JSON
    assert completeness("openai", {**CHAT, "choices": [truncated]}) == [True, False]
    assert completeness("openai-responses", [{**OUTPUT[1], "status": "incomplete"}, OUTPUT[4]]) == [False, True]
    for reason in ("max_tokens", "model_context_window_exceeded"):
        assert completeness("anthropic", {**MESSAGE, "stop_reason": reason}) == [True, False]
        longer = [*CONTENT, {"type": "text", "text": "And th"}]
        assert completeness("anthropic", {**MESSAGE, "content": longer, "stop_reason": reason}) == [True, True]


# --- arguments --------------------------------------------------------------------------------------------------------


def test_arguments_are_read() -> None:
    cases: list[tuple[object, dict[str, Any]]] = [
        ('{"a": [1, null]}', {"a": [1, None]}),
        ("{}", {}),
        ("", {}),
        (" \n", {}),
        (None, {}),
        ("null", {}),
        ({"a": 1}, {"a": 1}),
        ('{"n": 9007199254740993}', {"n": 9007199254740993}),
    ]
    for arguments, expected in cases:
        assert read_arguments(ModelCall("1", "a", arguments)) == expected


def test_invalid_arguments_are_refused() -> None:
    cases: list[tuple[object, str]] = [
        ('{"a": 1', "the arguments are not valid JSON"),
        ("a=1", "the arguments are not valid JSON"),
        ('{"a": NaN}', "the arguments are not valid JSON"),
        ("\ud800", "the arguments are not valid JSON"),
        ("[" * 100_000, "the arguments are not valid JSON"),
        ("[1]", "must be a JSON object, not an array"),
        ('"a"', "must be a JSON object, not a string"),
        ("5", "must be a JSON object, not a number"),
        ("5.5", "must be a JSON object, not a number"),
        ("true", "must be a JSON object, not a boolean"),
        (object(), "must be a JSON object, not object"),
    ]
    for arguments, message in cases:
        with pytest.raises(UsageError, match=message):
            read_arguments(ModelCall("1", "a", arguments))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(
        ["type", "role", "choices", "message", "tool_calls", "output", "content", "id", "name", "function", "x"]
    ), inner),
    max_leaves=8,
)  # fmt: skip


@given(JSON, st.sampled_from(["openai", "openai-responses", "anthropic"]))
def test_any_json_is_read_or_refused(response: Any, shape: str) -> None:
    try:
        calls = read_calls(shape, response)
    except UsageError:
        return
    assert all(isinstance(call, ModelCall) for call in calls)


def test_gemini_calls_are_read_from_a_response_or_its_content() -> None:
    call = {"name": "add", "args": {"a": 1}}
    content = {"role": "model", "parts": [{"text": "Let me see."}, {"functionCall": {**call, "id": "7"}}]}
    objects = SimpleNamespace(
        role="model",
        parts=[SimpleNamespace(function_call=SimpleNamespace(**call, id=None)), SimpleNamespace(function_call=None)],
    )
    assert read_calls("gemini", content) == [ModelCall("7", "add", {"a": 1})]
    assert read_calls("gemini", objects) == [ModelCall("", "add", {"a": 1})]
    cut = {"candidates": [{"finishReason": "MAX_TOKENS", "content": content}]}
    assert [each.is_complete for each in read_calls("gemini", cut)] == [False]
    assert read_calls("gemini", {"candidates": [{"finishReason": "SAFETY"}]}) == []
    with pytest.raises(UsageError, match="this response has 2 candidates; pass the content of one of them"):
        read_calls("gemini", {"candidates": [{}, {}]})
    for wrong in ({"role": "user", "parts": []}, {"content": "text"}, "text"):
        with pytest.raises(UsageError, match="expected a response of 'gemini'"):
            read_calls("gemini", wrong)
