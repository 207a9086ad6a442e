"""Print results as text or as JSON.

Text is written to a pipe unchanged; on a terminal, control characters are escaped. Content that is not text is
described in square brackets.
"""

import json
from typing import Any

from jackstay.shell import Screen, escape_controls
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
    """Print a value as JSON, in ASCII, so that it does not depend on the locale."""
    Screen().print_line(json.dumps(value, indent=2))


def print_text(screen: Screen, text: str) -> None:
    """Print text from a server."""
    screen.print_line(escape_controls(text) if screen.is_terminal else text)


def text_of(block: Body) -> str:
    """Return a content block as text."""
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
            return f"[{block.raw.get('type', 'content without a type')}: unknown content type, see --json]"


def text_of_contents(contents: ResourceContents) -> str:
    """Return the contents of a resource as text."""
    match contents:
        case TextResourceContents():
            return contents.text
        case BlobResourceContents():
            return f"[{contents.mime_type or 'bytes'} of {contents.uri}, {size_of(contents.blob)}]"
        case _:
            return f"[{contents.uri}: neither text nor blob, see --json]"


def size_of(base64: str) -> str:
    """Return the decoded size of a base64 string, as in `12 bytes`."""
    return f"{len(base64.rstrip('=')) * 3 // 4} bytes"
