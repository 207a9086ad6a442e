"""How calls ended, as each API is told: results with everything in them, and errors with what is known."""

from typing import Any

import pytest

from jackstay.errors import (
    BackpressureError,
    ClosedError,
    JsonRpcError,
    McpError,
    OutcomeUnknownError,
    ProtocolError,
    ShutdownError,
    StateError,
    TimeoutError,
    TransportError,
    UsageError,
)
from jackstay.models import ModelCall, Outcome
from jackstay.models._outcomes import messages, words_for
from jackstay.types import CallToolResult, decode

CALL = ModelCall("1", "add", "{}")


def result(*content: Any, **more: Any) -> CallToolResult:
    return decode(CallToolResult, _json({"content": list(content), **more}))


def _json(value: Any) -> bytes:
    import msgspec

    return msgspec.json.encode(value)


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


PNG = {"type": "image", "mimeType": "image/png", "data": "AAAA"}
TIFF = {"type": "image", "mimeType": "image/tiff", "data": "AAAAAA=="}


def told(shape: str, outcome: Outcome) -> Any:
    """What the one call is answered with."""
    (message,) = messages(shape, [outcome])
    if shape == "openai":
        assert message.keys() == {"role", "tool_call_id", "content"}
        assert (message["role"], message["tool_call_id"]) == ("tool", "1")
        return message["content"]
    if shape == "openai-responses":
        assert message.keys() == {"type", "call_id", "output"}
        assert (message["type"], message["call_id"]) == ("function_call_output", "1")
        return message["output"]
    assert message.keys() == {"role", "content"}
    assert message["role"] == "user"
    (block,) = message["content"]
    assert (block["type"], block["tool_use_id"]) == ("tool_result", "1")
    assert block.get("is_error", False) is outcome.is_error
    return block["content"]


# (result, as text)
TEXTS = [
    (result(text("3")), "3"),
    (result(text("a"), text("b")), "a\nb"),
    (result(), "(no output)"),
    (result(text("")), "(no output)"),
    (result(structuredContent={"sum": 3}), '{"sum":3}'),
    (result(text("three"), structuredContent={"sum": 3}), "three"),
    (result(TIFF), "[image, image/tiff, 4 bytes, not shown]"),
    (
        result({"type": "audio", "mimeType": "audio/wav", "data": "AAAA"}),
        "[sound, audio/wav, 3 bytes, not shown]",
    ),
    (result({"type": "resource_link", "uri": "file:///a", "name": "a"}), "[resource a: file:///a]"),
    (
        result({"type": "resource", "resource": {"uri": "file:///a", "text": "hello"}}),
        "[resource file:///a]\nhello",
    ),
    (
        result({"type": "resource", "resource": {"uri": "file:///a", "mimeType": "x/y", "blob": "AAA="}}),
        "[resource file:///a, x/y, 2 bytes, not shown]",
    ),
    (
        result({"type": "resource", "resource": {"uri": "file:///a"}}),
        "[resource file:///a, of an unknown type, not shown]",
    ),
    (result({"type": "hologram", "data": 1}), "[content of the type 'hologram', not shown]"),
]


@pytest.mark.parametrize(("given", "said"), TEXTS)
def test_a_result_is_told_as_text(given: CallToolResult, said: str) -> None:
    outcome = Outcome(CALL, result=given)
    assert outcome.text == said
    assert told("openai", outcome) == said
    assert told("openai-responses", outcome) == said
    assert [part["text"] for part in told("anthropic", outcome)] == (["a", "b"] if said == "a\nb" else [said])


def test_a_picture_is_shown_where_the_api_takes_one() -> None:
    outcome = Outcome(CALL, result=result(text("look"), PNG))
    assert told("openai", outcome) == "look\n[image, image/png, 3 bytes, not shown]"
    assert told("openai-responses", outcome) == [
        {"type": "input_text", "text": "look"},
        {"type": "input_image", "image_url": "data:image/png;base64,AAAA"},
    ]
    assert told("anthropic", outcome) == [
        text("look"),
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
    ]


def test_a_tool_that_failed_is_told_as_failed() -> None:
    outcome = Outcome(CALL, result=result(text("no such city"), isError=True))
    assert outcome.is_error
    assert told("openai", outcome) == "Error: no such city"
    assert told("openai-responses", outcome) == "Error: no such city"
    assert told("anthropic", outcome) == [text("no such city")]
    picture = Outcome(CALL, result=result(PNG, isError=True))
    assert told("openai-responses", picture)[0] == {"type": "input_text", "text": "Error:"}


NOT_RUN = "This call was not run: "
UNKNOWN = "Nobody knows whether this call ran: "
LOOK = ". Do not repeat it before you have checked what it did."
AGAIN = ". It may be tried again."
SECRET = "token=hunter2"  # what a server wrote to its stderr

ERRORS: list[tuple[McpError, str]] = [
    (UsageError("the user said no"), NOT_RUN + "the user said no."),
    (StateError("backoff"), NOT_RUN + "the connection is not ready (backoff)" + AGAIN),
    (BackpressureError("too many calls are open"), NOT_RUN + "too many calls are open" + AGAIN),
    (TransportError("could not connect."), NOT_RUN + "could not connect" + AGAIN),
    (TransportError("no such command", permanent=True), NOT_RUN + "no such command."),
    (TimeoutError(5, sent=False), NOT_RUN + "not sent within 5 s" + AGAIN),
    (
        TimeoutError(5, sent=True),
        UNKNOWN + "no answer within 5 s; it was cancelled, but it may have run" + LOOK,
    ),
    (
        OutcomeUnknownError("the server exited", exit_code=1, stderr_tail=SECRET),
        UNKNOWN + "the server exited" + LOOK,
    ),
    (
        ProtocolError("the output breaks the tool's schema", sent=True),
        "The answer to this call cannot be used: the output breaks the tool's schema" + LOOK,
    ),
    (ShutdownError(sent=True), UNKNOWN + "the client was stopped" + LOOK),
    (ClosedError(TransportError("no such command", stderr_tail=SECRET)), NOT_RUN + "no such command."),
    (ClosedError(ShutdownError(), sent=True), UNKNOWN + "the client was stopped" + LOOK),
    (
        JsonRpcError(-32602, "there is no such city"),
        "The server answered with an error: there is no such city (code -32602).",
    ),
]


@pytest.mark.parametrize(("error", "said"), ERRORS)
def test_a_call_that_failed_is_told_with_what_is_known(error: McpError, said: str) -> None:
    """Guarantee: every call ends with the truth; the model is one of those who hear it."""
    outcome = Outcome(CALL, error=error)
    assert outcome.is_error
    assert words_for(error) == said
    assert told("openai", outcome) == told("openai-responses", outcome) == f"Error: {said}"
    assert told("anthropic", outcome) == [text(said)]
    assert SECRET not in str(messages("openai", [outcome])), "what a server logs is not for the model's host"


def test_several_calls_are_answered_in_order() -> None:
    outcomes = [Outcome(ModelCall(str(n), "a", ""), result=result(text(str(n)))) for n in range(3)]
    assert [m["tool_call_id"] for m in messages("openai", outcomes)] == ["0", "1", "2"]
    assert [m["call_id"] for m in messages("openai-responses", outcomes)] == ["0", "1", "2"]
    (message,) = messages("anthropic", outcomes)
    assert [block["tool_use_id"] for block in message["content"]] == ["0", "1", "2"]


@pytest.mark.parametrize("shape", ["openai", "openai-responses", "anthropic"])
def test_no_calls_need_no_answer(shape: str) -> None:
    assert messages(shape, []) == []


def test_a_shape_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match="shape must be one of"):
        messages("soap", [])
