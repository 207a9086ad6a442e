"""Content blocks of tools, prompts and sampling, and contents of resources.

The class of a block is chosen by its `type`; a block of an unknown type becomes `UnknownContent` and is not an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from jackstay.types._body import Body, BodyWithMeta, Json, JsonObject, Maybe, MaybeJson, OnWire, choose_by, constant
from jackstay.types._display import Annotations, Icon


class TextContent(BodyWithMeta, frozen=True):
    """Text. `meta` is in every block since 2025-06-18."""

    text: str
    type: Literal["text"] = constant("text")
    annotations: Maybe[Annotations] = None


class ImageContent(BodyWithMeta, frozen=True):
    """An image; `data` is base64."""

    data: str
    mime_type: str
    type: Literal["image"] = constant("image")
    annotations: Maybe[Annotations] = None


class AudioContent(BodyWithMeta, frozen=True):
    """Audio (2025-03-26); `data` is base64."""

    data: str
    mime_type: str
    type: Literal["audio"] = constant("audio")
    annotations: Maybe[Annotations] = None


class ResourceContents(BodyWithMeta, frozen=True, kw_only=True):
    """The contents of a resource; of this class itself if they have neither `text` nor `blob`.

    `meta` since 2025-06-18.
    """

    uri: str
    mime_type: Maybe[str] = None


class TextResourceContents(ResourceContents, frozen=True, kw_only=True):
    """Contents of a resource that are text."""

    text: str


class BlobResourceContents(ResourceContents, frozen=True, kw_only=True):
    """Contents of a resource that are bytes; `blob` is base64."""

    blob: str


def choose_contents(members: dict[str, Json]) -> type[ResourceContents]:
    """Return the class for these members. If both `text` and `blob` are present, `blob` is an extra member."""
    if "text" in members:
        return TextResourceContents
    return BlobResourceContents if "blob" in members else ResourceContents


Contents: TypeAlias = OnWire[ResourceContents, TextResourceContents, choose_contents]


class EmbeddedResource(BodyWithMeta, frozen=True):
    """A resource embedded in a message."""

    resource: Contents
    type: Literal["resource"] = constant("resource")
    annotations: Maybe[Annotations] = None


class ResourceLink(BodyWithMeta, frozen=True):
    """A link to a resource (2025-06-18), which need not be in `resources/list`."""

    uri: str
    name: str
    type: Literal["resource_link"] = constant("resource_link")
    title: Maybe[str] = None
    description: Maybe[str] = None
    mime_type: Maybe[str] = None
    annotations: Maybe[Annotations] = None
    size: Maybe[int] = None
    # Since 2025-11-25.
    icons: Maybe[Sequence[Icon]] = None


class UnknownContent(Body, frozen=True):
    """A block of an unknown type. `raw` is the complete object."""

    type: MaybeJson = None


# Content of tool results and prompts.
ContentBlock: TypeAlias = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource | UnknownContent

Block: TypeAlias = OnWire[ContentBlock, TextContent, choose_by("type", ContentBlock, UnknownContent)]


class ToolUseContent(BodyWithMeta, frozen=True):
    """A model's request to call a tool (2025-11-25, in sampling)."""

    id: str
    name: str
    input: JsonObject
    type: Literal["tool_use"] = constant("tool_use")


class ToolResultContent(BodyWithMeta, frozen=True):
    """The result of a tool, for the model (2025-11-25, in sampling)."""

    tool_use_id: str
    content: Sequence[Block]
    type: Literal["tool_result"] = constant("tool_result")
    # An object in 2025-11-25, any JSON since 2026-07-28.
    structured_content: MaybeJson = None
    is_error: Maybe[bool] = None


# Content of sampling messages.
SamplingMessageContentBlock: TypeAlias = (
    TextContent | ImageContent | AudioContent | ToolUseContent | ToolResultContent | UnknownContent
)

SamplingBlock: TypeAlias = OnWire[
    SamplingMessageContentBlock, TextContent, choose_by("type", SamplingMessageContentBlock, UnknownContent)
]


def joined_text(blocks: Sequence[Body]) -> str:
    """Return the text of all text blocks, joined by newlines."""
    return "\n".join(block.text for block in blocks if isinstance(block, TextContent))
