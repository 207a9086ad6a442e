"""Outcomes of tool calls, and the messages that report them to the model.

A failed tool and a failed call are both reported as text and, where the API has one, with an error flag. The text
states whether the call may have run. It does not contain exit codes or stderr of the server, because the model is a
third party. Content that an API does not accept, such as audio, is described instead.
"""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from jackstay.errors import ClosedError, JsonRpcError, McpError, ProtocolError, UsageError
from jackstay.models._calls import ModelCall
from jackstay.models._shapes import Message
from jackstay.types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

# Image types that both OpenAI and Anthropic accept.
_IMAGE_TYPES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")

# The APIs reject empty text.
_NOTHING: Final = "(no output)"


class Outcome(msgspec.Struct, frozen=True):
    """The outcome of one call: a `result` or an `error`.

    To refuse a call, create one yourself: `Outcome(call, error=UsageError("the user declined"))`.
    """

    call: ModelCall
    result: CallToolResult | None = None
    error: McpError | None = None

    @property
    def is_error(self) -> bool:
        """True if the call or the tool failed."""
        return self.result is None or bool(self.result.is_error)

    @property
    def text(self) -> str:
        """The text that the model receives."""
        return "\n".join(part for part in self.parts if isinstance(part, str))

    @property
    def described_text(self) -> str:
        """The text with a description of each image, for models that receive only text."""
        return "\n".join(part if isinstance(part, str) else _described(part) for part in self.parts)

    @property
    def parts(self) -> list[str | ImageContent]:
        """The content for the model: non-empty texts and images, at least one; other content is described."""
        if self.result is None:
            return [_NOTHING if self.error is None else failure_text(self.error)]
        parts = [part for part in map(_part, self.result.content) if part != ""]
        if not parts and self.result.structured_content is not None:
            # Servers should also return it as text (2025-06-18 server/tools, "Structured Content"); not all do.
            parts = [msgspec.json.encode(self.result.structured_content).decode()]
        return parts or [_NOTHING]


def messages(shape: str, outcomes: Iterable[Outcome]) -> list[Message]:
    """Return the messages to append to the conversation after the response with the calls.

    Raises: UsageError if `outcomes` is not an iterable of Outcome.
    """
    parts = [_PARTS[shape](outcome) for outcome in _checked(outcomes)]
    # Anthropic requires all results in one message, with nothing before them.
    member = {"gemini": "parts", "anthropic": "content"}.get(shape)
    return [{"role": "user", member: parts}] if member and parts else parts


def _checked(outcomes: object) -> list[Outcome]:
    if isinstance(outcomes, Iterable):
        checked = list(outcomes)
        if all(isinstance(outcome, Outcome) for outcome in checked):
            return checked
    raise UsageError("messages() expected a list of the outcomes that run() returned", path="outcomes")


def failure_text(error: McpError) -> str:
    """Return the text for the model about a call that failed."""
    cause = error.reason if isinstance(error, ClosedError) else error
    message = cause.message.rstrip(".")
    if error.may_have_run:
        is_invalid = isinstance(error, ProtocolError)
        status = "The result of this call is invalid" if is_invalid else "It is unknown whether this call ran"
        return f"{status}: {message}. Do not repeat it before you have checked what it did."
    if isinstance(error, JsonRpcError):
        return f"The server returned an error: {message} (code {error.code})."
    hint = " You may retry it." if error.retryable else ""
    return f"This call did not run: {message}.{hint}"


# --- the shapes -------------------------------------------------------------------------------------------------------


def _tool_message(outcome: Outcome) -> dict[str, Any]:
    """Chat completions: text only."""
    content = _with_error_prefix(outcome, outcome.described_text)
    return {"role": "tool", "tool_call_id": outcome.call.id, "content": content}


def _call_output(outcome: Outcome) -> dict[str, Any]:
    """Responses: text, or a list of text and images."""
    parts = outcome.parts
    output: str | list[dict[str, Any]]
    if all(isinstance(part, str) for part in parts):
        output = _with_error_prefix(outcome, outcome.text)
    else:
        output = [
            {"type": "input_text", "text": part}
            if isinstance(part, str)
            else {"type": "input_image", "image_url": f"data:{part.mime_type};base64,{part.data}"}
            for part in ([_FAILED, *parts] if outcome.is_error else parts)
        ]
    return {"type": "function_call_output", "call_id": outcome.call.id, "output": output}


def _tool_result(outcome: Outcome) -> dict[str, Any]:
    """Anthropic: text and images, and an error flag."""
    content = [
        {"type": "text", "text": part}
        if isinstance(part, str)
        else {"type": "image", "source": {"type": "base64", "media_type": part.mime_type, "data": part.data}}
        for part in outcome.parts
    ]
    error_flag = {"is_error": True} if outcome.is_error else {}
    return {"type": "tool_result", "tool_use_id": outcome.call.id, "content": content, **error_flag}


def _function_response(outcome: Outcome) -> dict[str, Any]:
    """Gemini: an object with `output` or `error`, and images beside it."""
    images = [part for part in outcome.parts if not isinstance(part, str)]
    response: dict[str, Any] = {
        "name": outcome.call.name,
        "response": {"error" if outcome.is_error else "output": outcome.text or _NOTHING},
    }
    if outcome.call.id:  # not every model of this API numbers its calls
        response["id"] = outcome.call.id
    if images:
        response["parts"] = [{"inlineData": {"mimeType": image.mime_type, "data": image.data}} for image in images]
    return {"functionResponse": response}


_PARTS: Final = {
    "openai": _tool_message,
    "openai-responses": _call_output,
    "anthropic": _tool_result,
    "gemini": _function_response,
}

# For the APIs without an error flag.
_FAILED: Final = "Error:"


def _with_error_prefix(outcome: Outcome, text: str) -> str:
    return f"{_FAILED} {text}" if outcome.is_error else text


# --- the content of a result ------------------------------------------------------------------------------------------


def _part(block: ContentBlock) -> str | ImageContent:
    if isinstance(block, TextContent):
        return block.text
    if isinstance(block, ImageContent) and block.mime_type in _IMAGE_TYPES:
        return block
    if isinstance(block, ImageContent | AudioContent):
        return _described(block)
    if isinstance(block, ResourceLink):
        return f"[resource {block.name}: {block.uri}]"
    if isinstance(block, EmbeddedResource):
        contents = block.resource
        if isinstance(contents, TextResourceContents):
            return f"[resource {contents.uri}]\n{contents.text}"
        size = f", {_size(contents.blob)} bytes" if isinstance(contents, BlobResourceContents) else ""
        return f"[resource {contents.uri}, {contents.mime_type or 'unknown type'}{size}, not shown]"
    return f"[content of type {block.type!r}, not shown]"


def _described(block: ImageContent | AudioContent) -> str:
    return f"[{block.type}, {block.mime_type}, {_size(block.data)} bytes, not shown]"


def _size(base64: str) -> int:
    return len(base64.rstrip("=")) * 3 // 4
