"""Detect whether the lists of a restarted server have changed.

A restarted server may be another version, with other tools, and then clients need a `list_changed` notification. To
avoid one after every restart, a digest of every forwarded page is kept; after a restart these pages are fetched again
and compared.
"""

import hashlib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from jackstay.errors import McpError
from jackstay.protocol import LISTS
from jackstay.proxy._bodies import decode_or, encode, read_members

if TYPE_CHECKING:
    from jackstay.protocol.http import ParamHeader

# Pages of one list that are remembered. A longer list counts as changed if one of these pages has changed.
MAX_PAGES = 64

# Params with a cursor are short. Longer ones are not remembered, so that a client cannot fill the memory.
MAX_PARAMS_BYTES = 4096

# Fetches one page: takes a method and encoded params, returns the encoded result.
Fetch: TypeAlias = Callable[[str, bytes], Awaitable[bytes]]


class _Tool(msgspec.Struct, rename="camel"):
    name: str
    input_schema: dict[str, Any] = msgspec.field(default_factory=dict)


class _Tools(msgspec.Struct):
    tools: list[_Tool]


_read_tools = msgspec.json.Decoder(_Tools).decode


class Lists:
    """The pages of a server's lists that were forwarded, by method and params."""

    def __init__(self) -> None:
        self._seen: dict[str, dict[bytes, bytes]] = {method: {} for method in LISTS}
        # Tool name -> the arguments that HTTP clients also send as headers (2026-07-28 basic/transports).
        self.param_headers: dict[str, tuple[ParamHeader, ...]] = {}

    def record_page(self, method: str, params: bytes, result: bytes) -> None:
        """Remember a page that was forwarded to a client."""
        pages = self._seen[method]
        if params in pages or (len(pages) < MAX_PAGES and len(params) <= MAX_PARAMS_BYTES):
            pages[params] = _digest(method, result)
        if method == "tools/list" and (self.param_headers or b'"x-mcp-header"' in result):
            self._read_headers(result)

    def _read_headers(self, result: bytes) -> None:
        from jackstay.protocol.http import read_param_headers  # noqa: PLC0415  # few tools want any

        for tool in decode_or(_Tools([]), _read_tools, result).tools:
            rows = read_param_headers(tool.input_schema).rows
            self.param_headers.pop(tool.name, None)
            if rows:
                self.param_headers[tool.name] = rows

    async def changed(self, fetch: Fetch, is_ready: Callable[[], bool]) -> list[str]:
        """Fetch the remembered pages again, and return the notifications to send. Forgets lists that have changed.

        Stops early if `is_ready()` is False, because the server was lost meanwhile: the next reconnect compares again.
        """
        due: dict[str, None] = {}
        for method, pages in self._seen.items():
            for params, before in list(pages.items()):
                try:
                    is_same = _digest(method, await fetch(method, params)) == before
                except McpError:
                    if not is_ready():
                        return list(due)
                    is_same = False  # a cursor of the previous process, or a list that no longer exists
                if not is_same:
                    pages.clear()
                    due[LISTS[method].changed_by] = None
                    break
        return list(due)


def _digest(method: str, result: bytes) -> bytes:
    """Return a digest of the items and the cursor, without caching hints."""
    members = decode_or(None, read_members, result)
    if members is None:
        return result[:64]
    content = [members.get(LISTS[method].entries), members.get("nextCursor")]
    return hashlib.sha256(encode(content)).digest()
