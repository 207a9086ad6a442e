"""Content: what tools answer, prompts say, models read and resources hold.

Which class a block becomes is chosen by its `type`, from the table of the place where it stands; a type that is not in
the table, or none at all, becomes `UnknownContent` and fails nothing. Resource contents are chosen by what they hold.

Above: tools, prompts, resources, sampling. Below: `_display`, `_messages`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

from jackstay.types._body import (
    Body,
    BodyWithMeta,
    Choose,
    Json,
    JsonObject,
    Maybe,
    MaybeJson,
    constant,
    one_of,
)
from jackstay.types._display import Annotations, Icon


class TextContent(BodyWithMeta, frozen=True):
    """Text. `meta` of every block since 2025-06-18."""

    text: str
    type: Literal["text"] = constant("text")
    annotations: Maybe[Annotations] = None


class ImageContent(BodyWithMeta, frozen=True):
    """A picture; `data` is base64."""

    data: str
    mime_type: str
    type: Literal["image"] = constant("image")
    annotations: Maybe[Annotations] = None


class AudioContent(BodyWithMeta, frozen=True):
    """Sound (2025-03-26); `data` is base64."""

    data: str
    mime_type: str
    type: Literal["audio"] = constant("audio")
    annotations: Maybe[Annotations] = None


class ResourceContents(BodyWithMeta, frozen=True, kw_only=True):
    """What a resource holds. Of this class itself only where it is neither text nor base64. `meta` since 2025-06-18."""

    uri: str
    mime_type: Maybe[str] = None


class TextResourceContents(ResourceContents, frozen=True, kw_only=True):
    """A resource, or a part of one, that is text."""

    text: str


class BlobResourceContents(ResourceContents, frozen=True, kw_only=True):
    """A resource, or a part of one, that is bytes; `blob` is base64."""

    blob: str


def choose_contents(members: dict[str, Json]) -> type[ResourceContents]:
    """Text before bytes, should both be there; the other is kept."""
    if "text" in members:
        return TextResourceContents
    return BlobResourceContents if "blob" in members else ResourceContents


if TYPE_CHECKING:
    Contents: TypeAlias = ResourceContents
else:
    Contents = one_of(choose_contents, TextResourceContents)


class EmbeddedResource(BodyWithMeta, frozen=True):
    """A resource, put into a message whole."""

    resource: Contents
    type: Literal["resource"] = constant("resource")
    annotations: Maybe[Annotations] = None


class ResourceLink(BodyWithMeta, frozen=True):
    """A resource, named in a message (2025-06-18). It need not be in `resources/list`."""

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
    """A block of a type that is not known where it stands. `raw` is all of it; `type` is what it says, if anything."""

    type: MaybeJson = None


# What a tool or a prompt may say.
ContentBlock: TypeAlias = (
    TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource | UnknownContent
)

CONTENT_BLOCKS: dict[Json, type[Body]] = {
    "text": TextContent,
    "image": ImageContent,
    "audio": AudioContent,
    "resource_link": ResourceLink,
    "resource": EmbeddedResource,
}


def choose_by_type(table: dict[Json, type[Body]], otherwise: type[Body]) -> Choose:
    """A chooser that looks a block's `type` up in a table."""

    def choose(members: dict[str, Json]) -> type[Body]:
        kind = members.get("type")
        return table.get(kind, otherwise) if isinstance(kind, str) else otherwise

    return choose


if TYPE_CHECKING:
    Block: TypeAlias = ContentBlock
else:
    Block = one_of(choose_by_type(CONTENT_BLOCKS, UnknownContent), TextContent)


class ToolUseContent(BodyWithMeta, frozen=True):
    """A model wants a tool called (2025-11-25, in sampling)."""

    id: str
    name: str
    input: JsonObject
    type: Literal["tool_use"] = constant("tool_use")


class ToolResultContent(BodyWithMeta, frozen=True):
    """What the tool answered, given back to the model (2025-11-25, in sampling)."""

    tool_use_id: str
    content: Sequence[Block]
    type: Literal["tool_result"] = constant("tool_result")
    # An object in 2025-11-25, any JSON since 2026-07-28.
    structured_content: MaybeJson = None
    is_error: Maybe[bool] = None


# What may be said in a conversation with a model.
SamplingMessageContentBlock: TypeAlias = (
    TextContent | ImageContent | AudioContent | ToolUseContent | ToolResultContent | UnknownContent
)

SAMPLING_BLOCKS: dict[Json, type[Body]] = {
    "text": TextContent,
    "image": ImageContent,
    "audio": AudioContent,
    "tool_use": ToolUseContent,
    "tool_result": ToolResultContent,
}

if TYPE_CHECKING:
    SamplingBlock: TypeAlias = SamplingMessageContentBlock
else:
    SamplingBlock = one_of(choose_by_type(SAMPLING_BLOCKS, UnknownContent), TextContent)


def joined_text(blocks: Sequence[Body]) -> str:
    """The text of all text blocks, each on a line of its own."""
    return "\n".join(block.text for block in blocks if isinstance(block, TextContent))
