"""The four tools as async functions, which the server and the command line share.

Every failure is a `ProContextError`. Fetched text is returned unchanged, in a member of its own.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Final, Literal, TypeAlias
from urllib.parse import unquote

import msgspec

from procontext.errors import failure
from procontext.interfaces import Documents
from procontext.models import Coverage, Hit, IndexSource, Library, Match, Page, Window
from procontext.page import fitting_part, section, text_lines, window
from procontext.registry import Registry
from procontext.resolve import numbers

# What a search covers: all pages, those fetched so far, some pages, or none.
SearchState: TypeAlias = Literal["complete", "fetching", "partial", "nothing_stored"]

# Opens the documents on first use, on the event loop of the server.
OpenDocuments: TypeAlias = Callable[[], Awaitable[Documents]]

# With more headings, a window is computed on a thread: it takes milliseconds, and seconds on a hostile page.
MANY_HEADINGS: Final = 2_000
# The characters of a section, after which its further subsections are left to another call: about 1,500 tokens.
SECTION_CHARS: Final = 6_000
# The characters of a table of contents: addresses have about 2.5 characters a token, so that this is below 8,000.
INDEX_CHARS: Final = 18_000
# The version of a site that does not state one.
UNKNOWN_VERSION: Final = "unknown"
# The characters of a heading in a hit. Signatures can be far longer.
MAX_HEADING_CHARS: Final = 100


class Matches(msgspec.Struct, frozen=True):
    """The result of resolve_library."""

    matches: tuple[Match, ...]


class LibraryDocs(msgspec.Struct, frozen=True, kw_only=True):
    """The result of get_library_docs."""

    library_id: str
    name: str
    content: str
    cached: bool
    cached_at: datetime | None
    stale: bool
    source: IndexSource
    url: str
    version: str
    requested_version: str | None
    total_lines: int
    offset: int
    next_offset: int | None


class PageWindow(msgspec.Struct, frozen=True, kw_only=True):
    """The result of read_page."""

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
    version: str


class SearchHit(msgspec.Struct, frozen=True, omit_defaults=True):
    """A hit of search_docs. `url` has the anchor of the section."""

    url: str
    line: int
    lines: int
    heading_path: tuple[str, ...]
    snippet: str
    copies: tuple[str, ...] = ()


class Hits(msgspec.Struct, frozen=True):
    """The result of search_docs."""

    library_id: str
    hits: tuple[SearchHit, ...]
    version: str
    requested_version: str | None
    pages_searched: int
    pages_total: int | None
    state: SearchState
    next_step: str


class Tools:
    """The tools over one registry and one set of documents."""

    def __init__(self, registry: Registry, documents: OpenDocuments, max_chars: int) -> None:
        self._registry = registry
        self._documents = documents
        self._budget = max_chars

    async def resolve_library(self, query: str) -> Matches:
        """Return the libraries that match a name. Never fetches."""
        await self._registry.ready()
        return Matches(tuple(await self._registry.find(query)))

    async def get_library_docs(
        self,
        library_id: str,
        offset: int = 1,
        limit: int | None = None,
        filter: str | None = None,
        version: str | None = None,
    ) -> LibraryDocs:
        """Return the table of contents of a library from line `offset`, within the budget.

        With `filter`, only the lines that have all its words, and the headings above them. `version` selects the
        site of a version; by default, the one that the project uses.

        Raises: LIBRARY_NOT_FOUND, LLMS_TXT_NOT_FOUND, LLMS_TXT_FETCH_FAILED, TOO_MANY_REDIRECTS.
        """
        library, wanted = await self._library(library_id, version)
        documents = await self._documents()
        library = await documents.select(library, wanted)
        index = await documents.index(library)
        if library.path is None:
            await documents.cover(library, 0.0)  # the next call may be a search
        lines = list(text_lines(index.text))
        if filter is not None:
            lines = _filtered(lines, filter)
        first, budget = offset - 1, min(self._budget, INDEX_CHARS)
        last = _fitting(lines, first, len(lines) if limit is None else first + limit, budget)
        is_complete = filter is None and first == 0 and last == len(lines) and len(index.text) <= budget
        return LibraryDocs(
            library_id=library_id,
            name=library.name,
            # A complete file is returned unchanged, with its final newline.
            content=index.text if is_complete else "\n".join(lines[first:last]),
            cached=index.cached,
            cached_at=index.cached_at,
            stale=index.stale,
            source=index.source,
            url=index.url,
            version=(library.version if library.path else index.version) or UNKNOWN_VERSION,
            requested_version=wanted,
            total_lines=len(lines),
            offset=offset,
            next_offset=last + 1 if first < last < len(lines) else None,
        )

    async def read_page(self, url: str, offset: int = 1, limit: int = 2000, heading: str | None = None) -> PageWindow:
        """Return lines of a page, or of the section under a heading, within the budget.

        The fragment of the URL selects a section as `heading` does, if the page has it and `offset` is 1.

        Raises: URL_NOT_ALLOWED, PAGE_NOT_FOUND, PAGE_FETCH_FAILED, TOO_MANY_REDIRECTS, INVALID_INPUT.
        """
        await self._registry.ready()
        documents = await self._documents()
        page = await documents.page(url)
        if heading is None and offset == 1 and section(page, fragment := unquote(url.partition("#")[2])) is not None:
            heading = f"#{fragment}"
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
            version=page.version or UNKNOWN_VERSION,
        )

    async def search_docs(self, library_id: str, query: str, limit: int = 5, version: str | None = None) -> Hits:
        """Return the sections of a library that match a query. Its pages are fetched in the background if necessary.

        `version` selects the site of a version; by default, the one that the project uses.

        Raises: LIBRARY_NOT_FOUND.
        """
        library, wanted = await self._library(library_id, version)
        documents = await self._documents()
        library = await documents.select(library, wanted)
        coverage = await documents.cover(library, query=query)
        hits = _within_budget(await documents.search(library.id, query, limit), self._budget)
        state = search_state(coverage)
        return Hits(
            library_id=library_id,
            hits=hits,
            version=(library.version if library.path else coverage.version) or UNKNOWN_VERSION,
            requested_version=wanted,
            pages_searched=coverage.pages,
            pages_total=coverage.total,
            state=state,
            next_step=next_step(coverage, state, bool(hits)),
        )

    async def _library(self, library_id: str, version: str | None) -> tuple[Library, str | None]:
        """Return a library, and the version that is requested or that the project uses."""
        await self._registry.ready()
        library = await self._registry.lookup(library_id)
        if library is None:
            raise failure("LIBRARY_NOT_FOUND", library_id)
        if version is not None and not numbers(version.lstrip("<>=!~^ ")):
            raise failure("INVALID_INPUT", f"version: expected a version such as '4.2' or '>=4.2,<5', got {version!r}")
        return library, version or library.version or await self._registry.version_in_use(library.id)

    def _window(self, page: Page, heading: str | None, offset: int, limit: int) -> Window:
        if heading is None:
            return window(page, offset, limit, self._budget)
        return self._section(page, heading, offset, limit)

    def _section(self, page: Page, heading: str, offset: int, limit: int) -> Window:
        """Return lines of the section under a heading, from line `offset` of the page."""
        span = section(page, heading)
        if span is None:
            raise failure(
                "INVALID_INPUT",
                f"heading: no heading {heading!r} on this page",
                suggestion="Call read_page without heading to see the headings of the page.",
            )
        first, length = span
        end = first + length
        start = max(offset, first)
        if start >= end:
            raise failure(
                "INVALID_INPUT", f"offset: {offset} is outside the section, which has lines {first} to {end - 1}"
            )
        part = fitting_part(page, start, end - start, SECTION_CHARS)
        found = window(page, start, min(limit, part), self._budget, has_map=False)
        is_last = found.next_offset is None or found.next_offset >= end
        return msgspec.structs.replace(found, next_offset=None) if is_last else found


def search_state(coverage: Coverage) -> SearchState:
    """Return what a search covered."""
    if coverage.is_fetching:
        return "fetching"
    if not coverage.pages:
        return "nothing_stored"
    is_complete = coverage.total is not None and coverage.pages >= coverage.total
    return "complete" if is_complete else "partial"


def next_step(coverage: Coverage, state: SearchState, has_hits: bool) -> str:
    """Return what the agent can do next."""
    if state == "nothing_stored":
        problem = f" {coverage.problem}" if coverage.problem else ""
        return f"No page of this library is stored, so nothing was searched.{problem} Call get_library_docs."
    if has_hits:
        more = " If none fits, search again in a few seconds: other pages are being fetched."
        return f"Pass the url of a hit to read_page as it is.{more if state == 'fetching' else ''}"
    if state == "fetching":
        return "No match in the pages fetched so far. Search again in a few seconds: the others are being fetched."
    if state == "partial":
        return (
            "No match in the stored pages. Try other words, or find another page with get_library_docs and its filter."
        )
    return "No page has these words. Try other words, as the documentation would use them."


def _fitting(lines: Sequence[str], first: int, last: int, budget: int) -> int:
    """Return the line before which to stop: `last`, the end, or where the budget is used up."""
    end, used = first, -1  # -1: no newline before the first line
    while end < min(last, len(lines)) and used + 1 + len(lines[end]) <= budget:
        used += 1 + len(lines[end])
        end += 1
    return end


def _filtered(lines: Sequence[str], words: str) -> list[str]:
    """Return the lines that have all words, each group of them below its headings."""
    wanted = words.casefold().split()
    found: list[str] = []
    headings: list[str] = []
    for line in lines:
        if line.startswith("#"):
            level = len(line) - len(line.lstrip("#"))
            headings = [above for above in headings if len(above) - len(above.lstrip("#")) < level]
            headings.append(line)
        elif line.strip() and all(word in line.casefold() for word in wanted):
            found += headings
            headings = []
            found.append(line)
    return found


def _within_budget(hits: Sequence[Hit], budget: int) -> tuple[SearchHit, ...]:
    """Return as many hits as fit into the budget."""
    results: list[SearchHit] = []
    for hit in hits:
        path = tuple(heading[:MAX_HEADING_CHARS] for heading in hit.heading_path)
        budget -= len(hit.url) + len(hit.snippet) + sum(map(len, path)) + sum(map(len, hit.copies))
        if budget < 0:
            break
        url = f"{hit.url}#{hit.anchor}" if hit.anchor else hit.url
        results.append(SearchHit(url, hit.line, hit.lines, path, hit.snippet, hit.copies))
    return tuple(results)


__all__ = ["Hits", "LibraryDocs", "Matches", "OpenDocuments", "PageWindow", "SearchHit", "SearchState", "Tools"]
