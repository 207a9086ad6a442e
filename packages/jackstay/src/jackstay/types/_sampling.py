"""Sampling and roots, which a server requests from its client. Deprecated in 2026-07-28, but supported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from jackstay.types._body import Body, BodyWithMeta, JsonObject, Maybe, Number
from jackstay.types._content import SamplingBlock, SamplingMessageContentBlock, joined_text
from jackstay.types._display import Role
from jackstay.types._messages import Result, TaskAugmentedRequestParams
from jackstay.types._tools import Tool


class SamplingMessage(BodyWithMeta, frozen=True):
    """One message of a conversation with a model. `meta` since 2025-11-25."""

    role: Role
    # An array since 2025-11-25; before, one block.
    content: SamplingBlock | Sequence[SamplingBlock]

    @property
    def blocks(self) -> Sequence[SamplingMessageContentBlock]:
        """The content as a sequence, even if it is one block."""
        return [self.content] if isinstance(self.content, Body) else self.content


class ModelHint(Body, frozen=True):
    """The name of a preferred model, or a part of it."""

    name: Maybe[str] = None


class ModelPreferences(Body, frozen=True, kw_only=True):
    """Priorities for choosing a model, each from 0 to 1."""

    hints: Maybe[Sequence[ModelHint]] = None
    cost_priority: Maybe[Number] = None
    speed_priority: Maybe[Number] = None
    intelligence_priority: Maybe[Number] = None


class ToolChoice(Body, frozen=True):
    """Whether the model may, must or must not use tools (2025-11-25). Absent: it may."""

    mode: Maybe[Literal["auto", "required", "none"]] = None


class CreateMessageRequestParams(TaskAugmentedRequestParams, frozen=True):
    """Params of `sampling/createMessage`."""

    messages: Sequence[SamplingMessage]
    max_tokens: int
    model_preferences: Maybe[ModelPreferences] = None
    system_prompt: Maybe[str] = None
    # "none", "thisServer" or "allServers"; open: treat anything else as "none".
    include_context: Maybe[str] = None
    temperature: Maybe[Number] = None
    stop_sequences: Maybe[Sequence[str]] = None
    metadata: Maybe[JsonObject] = None
    # Both since 2025-11-25.
    tools: Maybe[Sequence[Tool]] = None
    tool_choice: Maybe[ToolChoice] = None


class CreateMessageResult(Result, frozen=True):
    """The result of `sampling/createMessage`."""

    role: Role
    # An array since 2025-11-25; before, one block.
    content: SamplingBlock | Sequence[SamplingBlock]
    model: str
    # "endTurn", "stopSequence", "maxTokens", "toolUse" or a provider's own value; open.
    stop_reason: Maybe[str] = None

    @property
    def blocks(self) -> Sequence[SamplingMessageContentBlock]:
        """The content as a sequence, even if it is one block."""
        return [self.content] if isinstance(self.content, Body) else self.content

    @property
    def text(self) -> str:
        """The text of all text blocks, joined by newlines."""
        return joined_text(self.blocks)


class Root(BodyWithMeta, frozen=True):
    """A directory that the server may work in; always a `file://` URI so far. `meta` since 2025-06-18."""

    uri: str
    name: Maybe[str] = None


class ListRootsResult(Result, frozen=True):
    """The result of `roots/list`."""

    roots: Sequence[Root]
