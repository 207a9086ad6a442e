"""The four tools: arguments in, an answer out, every failure a row of the catalogue.

Each is an async function of plain values, so that the command line calls the same ones. Text that was fetched goes out as it
is, inside its own member: nothing of ours is mixed into it.

Must never know MCP. Above: `_server`, `cli`. Below: `Registry` for names, `Documents` for everything that is read.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Final, TypeAlias

import msgspec

from procontext.errors import failure
from procontext.models import Hit, IndexSource, Library, Match, Page, Window
from procontext.page import section, text_lines, window
from procontext.registry import Registry
from procontext.sources import Documents

# The documents are opened with the first request that needs them, on the loop that serves it.
Open: TypeAlias = Callable[[], Awaitable[Documents]]

# From here on they take milliseconds to look through, and on a page that is made of nothing else, seconds: on a thread.
MANY_HEADINGS: Final = 2_000


class Matches(msgspec.Struct, frozen=True):
    """Reference, 2.2."""

    matches: tuple[Match, ...]


class LibraryDocs(msgspec.Struct, frozen=True, kw_only=True):
    """Reference, 3.2, and where to go on."""

    library_id: str
    name: str
    content: str
    cached: bool
    cached_at: datetime | None
    stale: bool
    source: IndexSource
    url: str
    total_lines: int
    offset: int
    next_offset: int | None


class PageWindow(msgspec.Struct, frozen=True, kw_only=True):
    """Reference, 4.2, and where to go on."""

    url: str
    headings: str
    total_lines: int
    offset: int
    limit: int
    content: str
    cached: bool
    cached_at: datetime | None
    stale: bool
    next_offset: int | None
    headings_truncated: bool
    final_url: str | None


class Found(msgspec.Struct, frozen=True):
    """A hit as it is told."""

    url: str
    line: int
    heading_path: tuple[str, ...]
    snippet: str


class Hits(msgspec.Struct, frozen=True):
    """What a search found."""

    library_id: str
    hits: tuple[Found, ...]


class Tools:
    """The tools over one registry and one set of documents."""

    def __init__(self, registry: Registry, documents: Open, max_chars: int) -> None:
        self._registry = registry
        self._documents = documents
        self._budget = max_chars

    async def resolve_library(self, query: str) -> Matches:
        """The libraries that a name may mean. In memory; never fetches."""
        await self._registry.ready()
        return Matches(tuple(await self._registry.find(query)))

    async def get_library_docs(
        self, library_id: str, offset: int = 1, limit: int | None = None
    ) -> LibraryDocs:
        """The table of contents of a library, from a line on, inside the budget.

        Raises: LIBRARY_NOT_FOUND, LLMS_TXT_NOT_FOUND, LLMS_TXT_FETCH_FAILED, TOO_MANY_REDIRECTS.
        """
        library = await self._library(library_id)
        documents = await self._documents()
        index = await documents.index(library)
        lines = list(text_lines(index.text))
        first = offset - 1
        last = _fitting(lines, first, len(lines) if limit is None else first + limit, self._budget)
        is_whole = first == 0 and last == len(lines) and len(index.text) <= self._budget
        return LibraryDocs(
            library_id=library.id,
            name=library.name,
            # Whole, it is the file as it was read, down to its last line break.
            content=index.text if is_whole else "\n".join(lines[first:last]),
            cached=index.cached,
            cached_at=index.cached_at,
            stale=index.stale,
            source=index.source,
            url=index.url,
            total_lines=len(lines),
            offset=offset,
            next_offset=last + 1 if first < last < len(lines) else None,
        )

    async def read_page(
        self, url: str, offset: int = 1, limit: int = 2000, heading: str | None = None
    ) -> PageWindow:
        """Some lines of a page, or of the section under a heading, inside the budget.

        Raises: URL_NOT_ALLOWED, PAGE_NOT_FOUND, PAGE_FETCH_FAILED, TOO_MANY_REDIRECTS, INVALID_INPUT.
        """
        await self._registry.ready()
        documents = await self._documents()
        page = await documents.page(url)
        if len(page.headings) > MANY_HEADINGS:
            found = await asyncio.to_thread(self._window, page, heading, offset, limit)
        else:
            found = self._window(page, heading, offset, limit)
        return PageWindow(
            url=url,
            headings=found.headings,
            total_lines=found.total_lines,
            offset=found.offset,
            limit=limit,
            content=found.content,
            cached=page.cached,
            cached_at=page.cached_at,
            stale=page.stale,
            next_offset=found.next_offset,
            headings_truncated=found.headings_truncated,
            final_url=page.final_url,
        )

    async def search_docs(self, library_id: str, query: str, limit: int = 10) -> Hits:
        """The stored sections of a library that answer a query.

        Raises: LIBRARY_NOT_FOUND.
        """
        library = await self._library(library_id)
        documents = await self._documents()
        found = await documents.search(library.id, query, limit)
        return Hits(library.id, _inside(found, self._budget))

    async def _library(self, library_id: str) -> Library:
        await self._registry.ready()
        library = self._registry.get(library_id)
        if library is None:
            raise failure("LIBRARY_NOT_FOUND", library_id)
        return library

    def _window(self, page: Page, heading: str | None, offset: int, limit: int) -> Window:
        if heading is None:
            return window(page, offset, limit, self._budget)
        return self._section(page, heading, offset, limit)

    def _section(self, page: Page, heading: str, offset: int, limit: int) -> Window:
        """Lines of the section under a heading; `offset` goes on inside it, as `next_offset` said."""
        span = section(page, heading)
        if span is None:
            raise failure(
                "INVALID_INPUT",
                f"heading: there is no heading {heading!r} on this page",
                suggestion="Call read_page without heading to see the headings of the page.",
            )
        begins, length = span
        ends = begins + length
        start = max(offset, begins)
        if start >= ends:
            raise failure(
                "INVALID_INPUT", f"offset: the section has lines {begins} to {ends - 1}, not {offset}"
            )
        found = window(page, start, min(limit, ends - start), self._budget)
        is_over = found.next_offset is None or found.next_offset >= ends
        return msgspec.structs.replace(found, next_offset=None) if is_over else found


def _fitting(lines: Sequence[str], first: int, last: int, budget: int) -> int:
    """The line before which to stop: at `last`, at the end, or where the budget is used up."""
    end, used = first, -1  # the first line has no line break before it
    while end < min(last, len(lines)) and used + 1 + len(lines[end]) <= budget:
        used += 1 + len(lines[end])
        end += 1
    return end


def _inside(hits: Sequence[Hit], budget: int) -> tuple[Found, ...]:
    """As many hits as fit."""
    told: list[Found] = []
    for hit in hits:
        budget -= len(hit.url) + len(hit.snippet) + sum(map(len, hit.heading_path))
        if budget < 0:
            break
        told.append(Found(hit.url, hit.line, hit.heading_path, hit.snippet))
    return tuple(told)


__all__ = ["Found", "Hits", "LibraryDocs", "Matches", "Open", "PageWindow", "Tools"]
