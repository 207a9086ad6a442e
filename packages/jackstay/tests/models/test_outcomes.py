"""Outcomes as messages for each API: results with all kinds of content, and errors."""

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
from jackstay.models._outcomes import failure_text, messages
from jackstay.types import CallToolResult, decode

CALL = ModelCall("1", "add", "{}")


def result(*content: Any, **more: Any) -> CallToolResult:
    return decode(CallToolResult, _json({"content": list(content), **more}))


def _json(value: Any) -> bytes:
    import msgspec

    return msgspec.json.encode(value)


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


PNG = {"type": "image", "mimeType": "image/png", "data": "AAAA"}
TIFF = {"type": "image", "mimeType": "image/tiff", "data": "AAAAAA=="}


def reported(shape: str, outcome: Outcome) -> Any:
    """Return the content of the message for one outcome."""
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
        "[audio, audio/wav, 3 bytes, not shown]",
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
        "[resource file:///a, unknown type, not shown]",
    ),
    (result({"type": "hologram", "data": 1}), "[content of type 'hologram', not shown]"),
]


def test_a_result_is_converted_to_text() -> None:
    for tool_result, expected in TEXTS:
        outcome = Outcome(CALL, result=tool_result)
        assert outcome.text == expected
        assert reported("openai", outcome) == expected
        assert reported("openai-responses", outcome) == expected
        parts = ["a", "b"] if expected == "a\nb" else [expected]
        assert [part["text"] for part in reported("anthropic", outcome)] == parts


def test_an_image_is_included_if_the_api_accepts_it() -> None:
    outcome = Outcome(CALL, result=result(text("look"), PNG))
    assert reported("openai", outcome) == "look\n[image, image/png, 3 bytes, not shown]"
    assert reported("openai-responses", outcome) == [
        {"type": "input_text", "text": "look"},
        {"type": "input_image", "image_url": "data:image/png;base64,AAAA"},
    ]
    assert reported("anthropic", outcome) == [
        text("look"),
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
    ]


def test_a_failed_tool_is_reported_as_an_error() -> None:
    outcome = Outcome(CALL, result=result(text("no such city"), isError=True))
    assert outcome.is_error
    assert reported("openai", outcome) == "Error: no such city"
    assert reported("openai-responses", outcome) == "Error: no such city"
    assert reported("anthropic", outcome) == [text("no such city")]
    image = Outcome(CALL, result=result(PNG, isError=True))
    assert reported("openai-responses", image)[0] == {"type": "input_text", "text": "Error:"}


NOT_RUN = "This call did not run: "
UNKNOWN = "It is unknown whether this call ran: "
CHECK = ". Do not repeat it before you have checked what it did."
RETRY = ". You may retry it."
SECRET = "token=hunter2"  # from the stderr of a server

ERRORS: list[tuple[McpError, str]] = [
    (UsageError("the user declined"), NOT_RUN + "the user declined."),
    (StateError("backoff"), NOT_RUN + "the connection is not ready (backoff)" + RETRY),
    (BackpressureError("too many calls are open"), NOT_RUN + "too many calls are open" + RETRY),
    (TransportError("could not connect."), NOT_RUN + "could not connect" + RETRY),
    (TransportError("no such command", permanent=True), NOT_RUN + "no such command."),
    (TimeoutError(5, sent=False), NOT_RUN + "not sent within 5 s" + RETRY),
    (
        TimeoutError(5, sent=True),
        UNKNOWN + "no response within 5 s; the request was cancelled, but it may have run" + CHECK,
    ),
    (
        OutcomeUnknownError("the server exited", exit_code=1, stderr_tail=SECRET),
        UNKNOWN + "the server exited" + CHECK,
    ),
    (
        ProtocolError("the output breaks the tool's schema", sent=True),
        "The result of this call is invalid: the output breaks the tool's schema" + CHECK,
    ),
    (ShutdownError(sent=True), UNKNOWN + "the client was stopped" + CHECK),
    (ClosedError(TransportError("no such command", stderr_tail=SECRET)), NOT_RUN + "no such command."),
    (ClosedError(ShutdownError(), sent=True), UNKNOWN + "the client was stopped" + CHECK),
    (
        JsonRpcError(-32602, "there is no such city"),
        "The server returned an error: there is no such city (code -32602).",
    ),
]


def test_a_failed_call_is_reported_with_whether_it_may_have_run(subtests: pytest.Subtests) -> None:
    for error, expected in ERRORS:
        with subtests.test(error=repr(error)):
            outcome = Outcome(CALL, error=error)
            assert outcome.is_error
            assert failure_text(error) == expected
            assert reported("openai", outcome) == reported("openai-responses", outcome) == f"Error: {expected}"
            assert reported("anthropic", outcome) == [text(expected)]
            assert SECRET not in str(messages("openai", [outcome])), "stderr of a server is not sent to the model"


def test_several_calls_are_answered_in_order() -> None:
    outcomes = [Outcome(ModelCall(str(n), "a", ""), result=result(text(str(n)))) for n in range(3)]
    assert [m["tool_call_id"] for m in messages("openai", outcomes)] == ["0", "1", "2"]
    assert [m["call_id"] for m in messages("openai-responses", outcomes)] == ["0", "1", "2"]
    (message,) = messages("anthropic", outcomes)
    assert [block["tool_use_id"] for block in message["content"]] == ["0", "1", "2"]


def test_no_outcomes_make_no_messages() -> None:
    for shape in ("openai", "openai-responses", "anthropic"):
        assert messages(shape, []) == []


def test_gemini_gets_output_or_error_and_images_beside_it() -> None:
    image = {"type": "image", "mimeType": "image/png", "data": "AAAA"}
    (message,) = messages(
        "gemini",
        [
            Outcome(ModelCall("", "add", {}), result=result(text("3"), image)),
            Outcome(CALL, result=result(text("no"), isError=True)),
            Outcome(CALL, result=result(image)),
        ],
    )
    shown = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}
    assert message == {
        "role": "user",
        "parts": [
            {"functionResponse": {"name": "add", "response": {"output": "3"}, "parts": [shown]}},
            {"functionResponse": {"name": "add", "response": {"error": "no"}, "id": "1"}},
            {"functionResponse": {"name": "add", "response": {"output": "(no output)"}, "id": "1", "parts": [shown]}},
        ],
    }
    assert messages("gemini", []) == []
