"""Prompts and completion. The params of `prompts/get` are in `_input_required`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from jackstay.types._body import Body, BodyWithMeta, Maybe, OnWire, choose_by, constant
from jackstay.types._content import Block
from jackstay.types._display import Icon, Role
from jackstay.types._messages import PaginatedResult, RequestParams, Result


class PromptArgument(Body, frozen=True):
    """An argument of a prompt; always a string."""

    name: str
    # Since 2025-06-18.
    title: Maybe[str] = None
    description: Maybe[str] = None
    required: Maybe[bool] = None


class Prompt(BodyWithMeta, frozen=True):
    """A prompt or prompt template."""

    name: str
    # Since 2025-06-18, as is `meta`.
    title: Maybe[str] = None
    description: Maybe[str] = None
    arguments: Maybe[Sequence[PromptArgument]] = None
    # Since 2025-11-25.
    icons: Maybe[Sequence[Icon]] = None


class ListPromptsResult(PaginatedResult, frozen=True):
    """The result of `prompts/list`."""

    prompts: Sequence[Prompt]


class PromptMessage(Body, frozen=True):
    """One message of a prompt."""

    role: Role
    content: Block


class GetPromptResult(Result, frozen=True):
    """The result of `prompts/get`."""

    messages: Sequence[PromptMessage]
    description: Maybe[str] = None


class PromptReference(Body, frozen=True):
    """The prompt whose argument is completed."""

    name: str
    type: Literal["ref/prompt"] = constant("ref/prompt")
    # Since 2025-06-18.
    title: Maybe[str] = None


class ResourceTemplateReference(Body, frozen=True):
    """The resource template whose variable is completed. Until 2025-03-26: ResourceReference."""

    uri: str
    type: Literal["ref/resource"] = constant("ref/resource")


# What is completed. Closed: a server cannot complete an unknown reference.
CompletionReference: TypeAlias = PromptReference | ResourceTemplateReference

Reference: TypeAlias = OnWire[CompletionReference, PromptReference, choose_by("type", CompletionReference)]


class CompletionArgument(Body, frozen=True):
    """The argument that is completed, and its current value."""

    name: str
    value: str


class CompletionContext(Body, frozen=True):
    """Arguments that are already known (2025-06-18)."""

    arguments: Maybe[Mapping[str, str]] = None


class CompleteRequestParams(RequestParams, frozen=True):
    """Params of `completion/complete`."""

    ref: Reference
    argument: CompletionArgument
    # Since 2025-06-18.
    context: Maybe[CompletionContext] = None


class Completion(Body, frozen=True):
    """Up to 100 values; `total` may be more."""

    values: Sequence[str]
    total: Maybe[int] = None
    has_more: Maybe[bool] = None


class CompleteResult(Result, frozen=True):
    """The result of `completion/complete`."""

    completion: Completion
