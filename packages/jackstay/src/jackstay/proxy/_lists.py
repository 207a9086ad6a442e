"""Whether the lists of a server that came back are the same as before, by the pages that clients have seen.

A server that was started again may be another version, with other tools. A client that was shown the old list must hear that it
changed; one that is told so after every restart would fetch all lists again for nothing. So of every page that passes
a digest is kept, and when the server is back those pages are fetched once more and compared.

Must never know a connection. Above: `_relay`, `_news`. Below: `_bodies`.
"""

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from jackstay.errors import McpError
from jackstay.proxy._bodies import encode, read_members

if TYPE_CHECKING:
    from jackstay.protocol.http import ParamHeader

# Which notification says that a list changed, and the member of the result that holds it.
LISTS: Mapping[str, tuple[str, str]] = {
    "tools/list": ("notifications/tools/list_changed", "tools"),
    "prompts/list": ("notifications/prompts/list_changed", "prompts"),
    "resources/list": ("notifications/resources/list_changed", "resources"),
    "resources/templates/list": ("notifications/resources/list_changed", "resourceTemplates"),
}

# Pages of one list that are remembered. A list with more is long, and taken for changed if any of these is.
MOST_PAGES = 64

# A cursor is short. Params that are longer are somebody's attempt to have us keep them, and are not remembered.
MOST_PARAMS_BYTES = 4096

# Fetches one page: method and encoded params in, encoded result out.
Fetch: TypeAlias = Callable[[str, bytes], Awaitable[bytes]]


class _Tool(msgspec.Struct, rename="camel"):
    name: str
    input_schema: dict[str, Any] = msgspec.field(default_factory=dict)


class _Tools(msgspec.Struct):
    tools: list[_Tool]


_read_tools = msgspec.json.Decoder(_Tools).decode

_REFUSALS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Lists:
    """The pages of a server's lists that have passed, by method and params."""

    def __init__(self) -> None:
        self._seen: dict[str, dict[bytes, bytes]] = {method: {} for method in LISTS}
        # Which arguments of which tools HTTP clients say in headers, too (2026-07-28 streamable HTTP).
        self.param_headers: dict[str, tuple[ParamHeader, ...]] = {}

    def __repr__(self) -> str:
        return f"<Lists {', '.join(f'{name}: {len(pages)}' for name, pages in self._seen.items())}>"

    def saw(self, method: str, params: bytes, result: bytes) -> None:
        """This page passed."""
        pages = self._seen[method]
        if params in pages or (len(pages) < MOST_PAGES and len(params) <= MOST_PARAMS_BYTES):
            pages[params] = _digest(method, result)
        if method == "tools/list" and (self.param_headers or b'"x-mcp-header"' in result):
            self._read_headers(result)

    def _read_headers(self, result: bytes) -> None:
        from jackstay.protocol.http import read_param_headers  # noqa: PLC0415  # few tools want any

        try:
            tools = _read_tools(result).tools
        except _REFUSALS:
            return  # the client will say what is wrong with it
        for tool in tools:
            rows = read_param_headers(tool.input_schema).rows
            self.param_headers.pop(tool.name, None)
            if rows:
                self.param_headers[tool.name] = rows

    async def changed(self, fetch: Fetch, is_there: Callable[[], bool]) -> list[str]:
        """The notifications that are due, by fetching again what has passed. Forgets what has changed.

        `is_there()` is False when the server was lost again meanwhile: what it did not answer, the next one is asked.
        """
        due: dict[str, None] = {}
        for method, pages in self._seen.items():
            for params, before in list(pages.items()):
                try:
                    is_same = _digest(method, await fetch(method, params)) == before
                except McpError:
                    if not is_there():
                        return list(due)
                    is_same = False  # a cursor of the last server's, or a list that is no more
                if not is_same:
                    pages.clear()
                    due[LISTS[method][0]] = None
                    break
        return list(due)


def _digest(method: str, result: bytes) -> bytes:
    """Of what is in the list and whether there is more: not of hints about how long it may be kept."""
    try:
        members = read_members(result)
    except _REFUSALS:
        return result[:64]
    told = [members.get(LISTS[method][1]), members.get("nextCursor")]
    return hashlib.sha256(encode(told)).digest()
