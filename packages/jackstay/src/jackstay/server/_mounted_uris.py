"""The URIs of mounted servers. With the prefix `files`, `notes://all` becomes `notes://files/all`.

URIs with `http` and `https` stay as they are, because clients may load them directly (2025-11-25 server/resources).
"""

from collections.abc import Callable
from typing import Any

import msgspec

from jackstay.types import DECODE_ERRORS

_WEB = ("http", "https")


class UriPrefix:
    """Adds a prefix to URIs and removes it. Lower case, because clients normalise the host part of a URI."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix.lower()

    def add(self, uri: str) -> str:
        """Return the URI at the host. A template may be passed, too."""
        scheme, colon, rest = uri.partition(":")
        if not self._prefix or not colon or scheme.lower() in _WEB:
            return uri
        if rest.startswith("//"):
            return f"{scheme}://{self._prefix}/{rest[2:]}"
        return f"{scheme}:{self._prefix}:{rest}"

    def remove(self, uri: str) -> str | None:
        """Return the URI at the mounted server, or None for a URI without the prefix."""
        scheme, colon, rest = uri.partition(":")
        if not self._prefix or not colon or scheme.lower() in _WEB:
            return None
        with_authority, without = f"//{self._prefix}/", f"{self._prefix}:"
        if rest.startswith(with_authority):
            return f"{scheme}://{rest[len(with_authority) :]}"
        return f"{scheme}:{rest[len(without) :]}" if rest.startswith(without) else None


def translate_uris(method: str, result: bytes, add: Callable[[str], str]) -> bytes:
    """Replace the URIs of resources in a result: contents that were read, links, and embedded resources."""
    if method not in _BLOCKS or b'"uri"' not in result:
        return result
    try:
        members = msgspec.json.decode(result, type=dict[str, msgspec.Raw])
        name = _BLOCKS[method]
        blocks: list[dict[str, Any]] = msgspec.json.decode(members[name], type=list[dict[str, Any]])
    except (*DECODE_ERRORS, KeyError):
        return result  # an error of the mounted server, which its client reports
    for block in blocks:
        _translate(block.get("content") if method == "prompts/get" else block, add)
    members[name] = msgspec.Raw(msgspec.json.encode(blocks))
    return msgspec.json.encode(members)


def translate_app(members: dict[str, msgspec.Raw], add: Callable[[str], str]) -> None:
    """Replace the URI of the app (SEP-1865) in the list item of a tool."""
    meta: Any = msgspec.json.decode(members.get("_meta", b"{}"))
    ui = meta.get("ui") if isinstance(meta, dict) else None
    if isinstance(ui, dict) and isinstance(ui.get("resourceUri"), str):
        ui["resourceUri"] = add(ui["resourceUri"])
        members["_meta"] = msgspec.Raw(msgspec.json.encode(meta))


# The member of a result that has the blocks.
_BLOCKS = {"tools/call": "content", "resources/read": "contents", "prompts/get": "messages"}


def _translate(block: object, add: Callable[[str], str]) -> None:
    if not isinstance(block, dict):
        return
    for part in (block, block.get("resource")):
        if isinstance(part, dict) and isinstance(part.get("uri"), str):
            part["uri"] = add(part["uri"])
