"""Fetching all pages of a library: in the background for a search, or in the foreground for `procontext fetch`.

Polite: pages that robots.txt excludes are left out, `Retry-After` is respected, `llms-full.txt` replaces many requests
by one, and the fetcher limits the connections to a host. A background fetch has a limit on its pages; those whose
titles or addresses have the words of the query are fetched first.
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol
from urllib.parse import urljoin, urlsplit
from urllib.robotparser import RobotFileParser

import msgspec

from procontext.cache import Cache, heading_counter, query_terms
from procontext.errors import ProContextError
from procontext.fetch import Cancelled, Fetched, FetchError, SingleFlight, decode, is_text, parse_url
from procontext.interfaces import Progress
from procontext.models import Coverage, FetchReport, IndexText, Library
from procontext.page._html import is_html
from procontext.page._indexes import links_of, titles_of

_log = logging.getLogger(__name__)

# Pages that are fetched for one library.
MAX_PAGES: Final = 5_000
# Concurrent requests for one library; the fetcher limits those to one host.
MAX_REQUESTS: Final = 6
# Libraries that are fetched in the background at the same time.
MAX_LIBRARIES: Final = 3
# How long the first search of a library waits for its pages.
WAIT_SECONDS: Final = 8.0
# The time after which missing pages are tried again.
RETRY_SECONDS: Final = 600.0
# How long the rules of a host are used (RFC 9309, 2.4).
ROBOTS_SECONDS: Final = 86_400.0
# The longest pause that a host can request with Retry-After, and how often a page is tried.
MAX_PAUSE_SECONDS: Final = 60.0
MAX_ATTEMPTS: Final = 3
# Files that an index may link and that are not text.
_UNREADABLE: Final = (
    *(".png", ".jpg", ".jpeg", ".gif", ".svg", ".ico", ".webp", ".pdf", ".zip", ".gz", ".whl", ".mp4"),
    *(".woff2", ".css", ".js"),
)
# The beginning of a page in an llms-full.txt: a title, and the line with its URL.
_FULL_PAGE = re.compile(r"^# [^\n]+\n+(?:Source|URL): *(https?://\S+)[^\n]*\n", re.MULTILINE)
_NOT_A_WORD = re.compile(r"[\W_]+")


class Pages(Protocol):
    """What this module needs of the documents."""

    async def index(self, library: Library, *, is_fresh: bool = False) -> IndexText:
        """Return the table of contents; with `is_fresh`, a stale one is fetched again first."""

    async def fetch_page(self, url: str, library: Library) -> None:
        """Fetch a page that is not stored or stale. Raises: FetchError, Cancelled."""

    async def folder_files(self, library: Library) -> dict[str, str]:
        """Return the URL of each file of a local folder, with a string that changes when the file changes."""

    async def store_markdown(self, url: str, text: str, library: Library) -> None:
        """Store a page whose Markdown is known."""


class _State(msgspec.Struct):
    """What is known about the pages of a library: `pending` are those to fetch, the next one first."""

    total: int | None = None
    problem: str = ""
    version: str | None = None
    finished_at: float | None = None
    query: str = ""
    titles: dict[str, list[str]] = msgspec.field(default_factory=dict)
    pending: list[str] = msgspec.field(default_factory=list)


class Prefetcher:
    """Fetches the pages of libraries. `fetch` gets a document, `sleep` waits; tests replace `sleep`.

    `background_pages` is the maximum for one library in the background; with 0, nothing is fetched there.
    """

    def __init__(
        self,
        pages: Pages,
        cache: Cache,
        fetch: Callable[[str], Awaitable[Fetched]],
        clock: Callable[[], float],
        *,
        background_pages: int,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._pages = pages
        self._cache = cache
        self._fetch = fetch
        self._clock = clock
        self._background_pages = background_pages
        self._sleep = sleep
        self._running: SingleFlight[str, None] = SingleFlight()
        self._states: dict[str, _State] = {}
        self._libraries = asyncio.Semaphore(MAX_LIBRARIES)
        self._files: dict[str, str] = {}
        # By origin: the rules, or why they could not be read, and when to read them again.
        self._robots: dict[str, tuple[RobotFileParser | str, float]] = {}

    def __len__(self) -> int:
        return len(self._running)

    async def close(self) -> None:
        """Stop background fetches. Stored pages are kept."""
        await self._running.close()

    # --- for a search -------------------------------------------------------------------------------------------------

    async def cover(self, library: Library, wait_seconds: float = WAIT_SECONDS, query: str = "") -> Coverage:
        """Fetch the missing pages of a library in the background, wait a moment, and return what a search covers.

        Pages that seem to be about the query are fetched first, also if others are being fetched. A folder is indexed
        completely, because its files are at hand.
        """
        state = self._states.setdefault(library.id, _State())
        if library.path is not None:
            await asyncio.wait([self._running.start(library.id, lambda: self._index_folder(library, state))])
        elif self._background_pages and self._is_due(state):
            state.query = query or state.query
            if query and state.pending:
                order = await asyncio.to_thread(by_relevance, tuple(state.pending), state.titles, query)
                remaining = set(state.pending)
                state.pending[:] = [url for url in order if url in remaining]
            task = self._running.start(library.id, lambda: self._run(library, state, self._background_pages))
            if wait_seconds:
                await asyncio.wait([task], timeout=wait_seconds)
        pages = await self._cache.count_pages(library.id)
        total = state.total or await self._cache.count_links(library.id)
        return Coverage(
            pages=pages,
            total=max(total, pages) or None,
            is_fetching=library.id in self._running,
            problem=state.problem,
            version=state.version,
        )

    def _is_due(self, state: _State) -> bool:
        return state.finished_at is None or self._clock() - state.finished_at >= RETRY_SECONDS

    async def _run(self, library: Library, state: _State, limit: int) -> None:
        async with self._libraries:
            try:
                index = await self._pages.index(library)
                urls = await asyncio.to_thread(readable_links, index)
                state.total, state.problem, state.version = len(urls), "", index.version
                known = await self._cache.stored(urls)
                missing = [url for url in urls if url not in known]
                if missing and index.source == "llms.txt":
                    missing = await self._fetch_full(library, index, missing)
                state.titles = await asyncio.to_thread(titles_of, index.text, index.url)
                order = await asyncio.to_thread(by_relevance, missing, state.titles, state.query)
                state.pending = order[:limit]
                report = await self._fetch_all(library, state.pending, None)
                if report.problem and not report.stored:
                    state.problem = f"Its pages could not be fetched: {report.problem}."
            except ProContextError as error:
                state.problem = error.message
            finally:
                state.titles = {}
                state.finished_at = self._clock()

    async def _index_folder(self, library: Library, state: _State) -> None:
        """Store the files that have changed since the last search."""
        files = await self._pages.folder_files(library)
        state.total = len(files)
        changed = [url for url, version in files.items() if self._files.get(url) != version]
        await self._fetch_all(library, changed[:MAX_PAGES], None)
        self._files.update((url, files[url]) for url in changed)

    async def _fetch_full(self, library: Library, index: IndexText, missing: Sequence[str]) -> list[str]:
        """Store the pages of the site's llms-full.txt, and return those that are still missing."""
        url = urljoin(index.url, "llms-full.txt")
        try:
            if not await self._is_allowed(url):
                return list(missing)
            fetched = await self._fetch(url)
        except (FetchError, Cancelled):
            return list(missing)
        if not is_text(fetched.content_type, fetched.body):
            return list(missing)
        text = decode(fetched.body, fetched.content_type)
        if is_html(text):
            return list(missing)
        # Only pages that the table of contents links: a file must not replace pages of other sites.
        by_address = {_without_suffix(url): url for url in missing}
        found: set[str] = set()
        for source, content in pages_of_full_text(text):
            page = by_address.get(_without_suffix(source))
            if page is not None and page not in found:
                found.add(page)
                await self._pages.store_markdown(page, content, library)
        return [page for page in missing if page not in found]

    # --- for a command ------------------------------------------------------------------------------------------------

    async def fetch_library(self, library: Library, progress: Progress | None) -> FetchReport:
        """Fetch the table of contents and every page that is missing or stale. Return what is stored.

        Raises: ProContextError, as `index` does. A page that fails or cannot be stored is left out and logged.
        """
        index = await self._pages.index(library, is_fresh=True)
        urls = await asyncio.to_thread(readable_links, index)
        report = await self._fetch_all(library, urls[:MAX_PAGES], progress)
        return msgspec.structs.replace(report, total=len(urls), beyond_limit=max(0, len(urls) - MAX_PAGES))

    async def _fetch_all(self, library: Library, pending: list[str], progress: Progress | None) -> FetchReport:
        """Fetch pages, the first first, and remove them from the list. Its order may change meanwhile."""
        total = len(pending)
        done = stored = excluded = 0
        problem = ""
        if progress is not None:
            progress(0, total, "")

        async def fetch(url: str) -> None:
            nonlocal stored, excluded, problem
            try:
                if library.path is None and not await self._is_allowed(url):
                    excluded += 1
                    problem = "robots.txt excludes it"
                    _log.info("%s was not fetched: robots.txt excludes it", url)
                else:
                    await self._fetch_patiently(url, library)
                    if await self._cache.contains(parse_url(url).url):
                        stored += 1
                    else:
                        problem = "the cache could not store it"
                        _log.warning("%s was fetched, but could not be stored in the cache", url)
            except FetchError as error:
                problem = error.detail
                _log.warning("%s was not prefetched: %s", url, error.detail)
            except Cancelled:
                pass

        async def work() -> None:
            nonlocal done
            while pending:
                url = pending.pop(0)
                await fetch(url)
                done += 1
                if progress is not None:
                    progress(done, total, url)

        async with asyncio.TaskGroup() as group:
            for _ in range(min(MAX_REQUESTS, total)):
                group.create_task(work())
        return FetchReport(stored=stored, total=total, excluded=excluded, problem=problem)

    async def _fetch_patiently(self, url: str, library: Library) -> None:
        for attempt in range(MAX_ATTEMPTS):
            try:
                await self._pages.fetch_page(url, library)
                break
            except FetchError as error:
                is_last = attempt == MAX_ATTEMPTS - 1
                if error.retry_after is None or error.retry_after > MAX_PAUSE_SECONDS or is_last:
                    raise
                await self._sleep(error.retry_after)

    async def _is_allowed(self, url: str) -> bool:
        """Return whether robots.txt (RFC 9309) of the host allows a page.

        Raises: FetchError, if the host or the network fails: then nothing is allowed (2.3.1.4).
        """
        parts = urlsplit(url)
        origin = f"{parts.scheme}://{parts.netloc}"
        rules, until = self._robots.get(origin, ("", 0.0))
        if self._clock() >= until:
            rules = await self._read_robots(f"{origin}/robots.txt")
            until = self._clock() + (RETRY_SECONDS if isinstance(rules, str) else ROBOTS_SECONDS)
            self._robots[origin] = rules, until
        if isinstance(rules, str):
            raise FetchError("failed", url, f"the site's robots.txt could not be read: {rules}")
        return rules.can_fetch("procontext", url)

    async def _read_robots(self, url: str) -> RobotFileParser | str:
        lines: list[str] = []
        try:
            fetched = await self._fetch(url)
        except FetchError as error:
            # Without the file everything is allowed (2.3.1.3). A host that limits requests may have one.
            is_absent = error.status is not None and 400 <= error.status < 500 and error.status != 429
            if error.reason == "failed" and not is_absent:
                return error.detail
        else:
            text = decode(fetched.body, fetched.content_type)
            lines = [] if is_html(text) else text.splitlines()  # some sites respond to every URL with their front page
        rules = RobotFileParser()
        rules.parse(lines)
        return rules


def readable_links(index: IndexText) -> list[str]:
    """Return the pages that a table of contents links."""
    links = links_of(index.text, index.url)
    return [url for url in links if not url.partition("?")[0].lower().endswith(_UNREADABLE)]


def by_relevance(urls: Sequence[str], titles: Mapping[str, Iterable[str]], query: str) -> list[str]:
    """Return the pages, those first whose titles or addresses have the most words of the query."""
    terms = query_terms(query)
    if not terms:
        return list(urls)
    count = heading_counter(terms)

    def key(url: str) -> tuple[float, float]:
        path = _NOT_A_WORD.sub(" ", urlsplit(url).path)
        words, share = max(map(count, (path, *titles.get(url, ()))))
        return -words, -share

    return sorted(urls, key=key)


def pages_of_full_text(text: str) -> Iterator[tuple[str, str]]:
    """Return the URL and the Markdown of each page in an llms-full.txt that names its sources."""
    starts = list(_FULL_PAGE.finditer(text))
    ends = [*(start.start() for start in starts[1:]), len(text)]
    for start, end in zip(starts, ends, strict=False):  # without a page there is still one end
        title = start[0].partition("\n")[0]
        yield start[1], f"{title}\n\n{text[start.end() : end].strip()}\n"


def _without_suffix(url: str) -> str:
    return url.partition("#")[0].removesuffix("/").removesuffix(".md").removesuffix(".html").removesuffix("/index")


__all__ = ["MAX_PAGES", "WAIT_SECONDS", "Pages", "Prefetcher", "by_relevance", "pages_of_full_text", "readable_links"]
