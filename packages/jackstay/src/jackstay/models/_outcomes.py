"""How the calls of a model ended, and the messages that tell it so.

A tool that failed and a call that failed are both told to the model, in words and, where the API has one, with a mark. For a
call that failed the words say what is known: it did not run, only the server knows, or nobody knows. The words are made from
the error's own sentence; exit codes and what a server wrote to its stderr stay here, because the model is somebody else's.

What a model cannot be shown, it is told of: sound, bytes, kinds of pictures that the API does not take.

Pure. Above: `_toolbox`. Below: `_calls`, `jackstay.types`.
"""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from jackstay.errors import ClosedError, JsonRpcError, McpError, ProtocolError, UsageError
from jackstay.models._calls import ModelCall
from jackstay.models._shapes import Message, check_shape
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

# Pictures that OpenAI and Anthropic both take.
_PICTURES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")

# APIs refuse an empty text, and a model should not wonder.
_NOTHING: Final = "(no output)"


class Outcome(msgspec.Struct, frozen=True):
    """How one call ended: with a `result`, or with an `error`. Make one yourself to refuse a call:

    `Outcome(call, error=UsageError("the user said no"))`.
    """

    call: ModelCall
    result: CallToolResult | None = None
    error: McpError | None = None

    @property
    def is_error(self) -> bool:
        """True where the call failed, or the tool says that it did."""
        return self.result is None or bool(self.result.is_error)

    @property
    def text(self) -> str:
        """What the model is told, as text."""
        return "\n".join(part for part in _parts(self) if isinstance(part, str))


def messages(shape: str, outcomes: Iterable[Outcome]) -> list[Message]:
    """What to append to the conversation, behind the answer that asked for the calls; empty if there are none.

    Raises: UsageError for what are no outcomes.
    """
    check_shape(shape)
    ended = _checked(outcomes)
    if shape == "openai":
        return [_tool_message(outcome) for outcome in ended]
    if shape == "openai-responses":
        return [_call_output(outcome) for outcome in ended]
    # All results in one message, and nothing before them: that API refuses anything else.
    return [{"role": "user", "content": [_tool_result(outcome) for outcome in ended]}] if ended else []


def _checked(outcomes: object) -> list[Outcome]:
    if isinstance(outcomes, Iterable):
        ended = list(outcomes)
        if all(isinstance(outcome, Outcome) for outcome in ended):
            return ended
    raise UsageError("messages() takes a list of the outcomes that run() returned", path="outcomes")


def words_for(error: McpError) -> str:
    """What a model is told of a call that failed."""
    cause = error.reason if isinstance(error, ClosedError) else error
    message = cause.message.rstrip(".")
    if error.may_have_run:
        what = (
            "The answer to this call cannot be used"
            if isinstance(error, ProtocolError)
            else "Nobody knows whether this call ran"
        )
        return f"{what}: {message}. Do not repeat it before you have checked what it did."
    if isinstance(error, JsonRpcError):
        return f"The server answered with an error: {message} (code {error.code})."
    again = " It may be tried again." if error.retryable else ""
    return f"This call was not run: {message}.{again}"


# --- the three shapes -------------------------------------------------------------------------------------------------


def _tool_message(outcome: Outcome) -> dict[str, Any]:
    """Chat completions: text alone."""
    shown = [part if isinstance(part, str) else _described(part, "image") for part in _parts(outcome)]
    return {"role": "tool", "tool_call_id": outcome.call.id, "content": _marked(outcome, "\n".join(shown))}


def _call_output(outcome: Outcome) -> dict[str, Any]:
    """Responses: text, or a list with pictures in it."""
    parts = _parts(outcome)
    output: str | list[dict[str, Any]]
    if all(isinstance(part, str) for part in parts):
        output = _marked(outcome, outcome.text)
    else:
        output = [
            {"type": "input_text", "text": part}
            if isinstance(part, str)
            else {"type": "input_image", "image_url": f"data:{part.mime_type};base64,{part.data}"}
            for part in ([_FAILED, *parts] if outcome.is_error else parts)
        ]
    return {"type": "function_call_output", "call_id": outcome.call.id, "output": output}


def _tool_result(outcome: Outcome) -> dict[str, Any]:
    """Anthropic: text and pictures, and a mark for what failed."""
    content = [
        {"type": "text", "text": part}
        if isinstance(part, str)
        else {
            "type": "image",
            "source": {"type": "base64", "media_type": part.mime_type, "data": part.data},
        }
        for part in _parts(outcome)
    ]
    marked = {"is_error": True} if outcome.is_error else {}
    return {"type": "tool_result", "tool_use_id": outcome.call.id, "content": content, **marked}


# For the APIs that have no mark for it.
_FAILED: Final = "Error:"


def _marked(outcome: Outcome, text: str) -> str:
    return f"{_FAILED} {text}" if outcome.is_error else text


# --- what a result says -----------------------------------------------------------------------------------------------


def _parts(outcome: Outcome) -> list[str | ImageContent]:
    """Texts and pictures, none of them empty, at least one."""
    if outcome.error is not None:
        return [words_for(outcome.error)]
    result = outcome.result
    blocks = [] if result is None else result.content
    parts = [part for part in map(_part, blocks) if part != ""]
    if not parts and result is not None and result.structured_content is not None:
        # Servers should say it as text, too (2025-06-18 server/tools, "Structured Content"); not all do.
        parts = [msgspec.json.encode(result.structured_content).decode()]
    return parts or [_NOTHING]


def _part(block: ContentBlock) -> str | ImageContent:
    if isinstance(block, TextContent):
        return block.text
    if isinstance(block, ImageContent):
        return block if block.mime_type in _PICTURES else _described(block, "image")
    if isinstance(block, AudioContent):
        return _described(block, "sound")
    if isinstance(block, ResourceLink):
        return f"[resource {block.name}: {block.uri}]"
    if isinstance(block, EmbeddedResource):
        held = block.resource
        if isinstance(held, TextResourceContents):
            return f"[resource {held.uri}]\n{held.text}"
        size = f", {_size(held.blob)} bytes" if isinstance(held, BlobResourceContents) else ""
        return f"[resource {held.uri}, {held.mime_type or 'of an unknown type'}{size}, not shown]"
    return f"[content of the type {block.type!r}, not shown]"


def _described(block: ImageContent | AudioContent, what: str) -> str:
    return f"[{what}, {block.mime_type}, {_size(block.data)} bytes, not shown]"


def _size(base64: str) -> int:
    return len(base64.rstrip("=")) * 3 // 4
