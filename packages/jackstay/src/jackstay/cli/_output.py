"""Results as text: what people see of content, and JSON for programs.

Into a pipe text goes as the server sent it; on a terminal, control characters are shown and not obeyed. What is no text
is named in square brackets.

Above: the commands. Below: `_screen`, `jackstay.types`.
"""

import json
from typing import Any

from jackstay.cli._screen import Screen, clean
from jackstay.types import (
    AudioContent,
    BlobResourceContents,
    Body,
    EmbeddedResource,
    ImageContent,
    ResourceContents,
    ResourceLink,
    TextContent,
    TextResourceContents,
)


def print_json(value: Any) -> None:
    """JSON for programs; ASCII, so that it is the same in every locale."""
    print(json.dumps(value, indent=2))


def print_text(screen: Screen, text: str) -> None:
    """Text of a server's."""
    screen.say(clean(text) if screen.is_terminal else text)


def text_of(block: Body) -> str:
    """What a person sees of a content block."""
    match block:
        case TextContent():
            return block.text
        case ImageContent() | AudioContent():
            return f"[{block.type} {block.mime_type}, {size_of(block.data)}]"
        case ResourceLink():
            return f"[link to {block.uri}: {block.title or block.name}]"
        case EmbeddedResource():
            return text_of_contents(block.resource)
        case _:
            return f"[{block.raw.get('type', 'something without a type')}: not known here, see --json]"


def text_of_contents(contents: ResourceContents) -> str:
    """What a person sees of a resource."""
    match contents:
        case TextResourceContents():
            return contents.text
        case BlobResourceContents():
            return f"[{contents.mime_type or 'bytes'} of {contents.uri}, {size_of(contents.blob)}]"
        case _:
            return f"[{contents.uri}: neither text nor bytes, see --json]"


def size_of(base64: str) -> str:
    """How many bytes a base64 text stands for."""
    return f"{len(base64.rstrip('=')) * 3 // 4} bytes"
