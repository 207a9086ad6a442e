"""The documents of libraries: from memory, from the cache, or from their site, in that order.

A stale document is served and refreshed in the background; if that fails, the old text is kept and the next attempt
waits. Only a document that is not cached waits for the network. A `FetchError` becomes an error of the catalogue here.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Coroutine, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from procontext.cache import Cache, Document
from procontext.config import Config
from procontext.errors import ProContextError, failure
from procontext.fetch import (
    Access,
    Cancelled,
    Fetched,
    Fetcher,
    FetchError,
    Network,
    SingleFlight,
    Sites,
    Target,
    display_url,
    parse_url,
    readme_urls,
)
from procontext.interfaces import Libraries, Progress
from procontext.models import (
    CacheStatus,
    Coverage,
    FetchReport,
    Hit,
    IndexSource,
    IndexText,
    Library,
    Page,
    StoredLibrary,
)
from procontext.page._conversion import (
    ConvertedPage,
    convert_fetched,
    convert_markdown,
    cross_host_url,
    too_large_error,
)
from procontext.page._discovery import FoundIndex, find_index
from procontext.page._document_errors import index_failure, page_failure, undocumented
from procontext.page._folders import (
    FOLDER_HOST,
    find_file,
    folder_address,
    folder_index,
    folder_versions,
    read_folder_page,
    split_address,
)
from procontext.page._limits import PageTooLargeError, check_lines
from procontext.page._lru_cache import CachedPage, LruCache
from procontext.page._prefetch import WAIT_SECONDS, Prefetcher
from procontext.page._version_sites import follow_refresh, version_of_url
from procontext.resolve import allows

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

# The minimum time between attempts after a failed refresh.
RETRY_SECONDS: Final = 60.0
# Documents are removed when they are expired and unconfirmed for this long. Long enough for offline use.
KEEP_SECONDS: Final = 30 * 24 * 3600.0
CLEAN_SECONDS: Final = 6 * 3600.0
# Pages that are converted concurrently.
MAX_CONVERSIONS: Final = 2


class LibraryDocuments:
    """Tables of contents, pages and search over the libraries of a registry. Create it with `open`."""

    def __init__(
        self,
        config: Config,
        registry: Libraries,
        cache: Cache,
        network: Network | None,
        clock: Callable[[], float],
    ) -> None:
        self._config = config
        self._registry = registry
        self._cache = cache
        self._clock = clock
        self._fetcher = Fetcher(config.fetcher, self._access, network)
        self._recent_pages = LruCache()
        self._page_loads: SingleFlight[str, CachedPage] = SingleFlight()
        self._index_loads: SingleFlight[str, Document] = SingleFlight()
        # By key: the time from which a failed refresh may be retried.
        self._retry_after: dict[str, float] = {}
        # By key: the time from which a page that is stale in memory is read from the cache again.
        self._recheck_after: dict[str, float] = {}
        self._joined: set[tuple[str, str]] = set()
        # By the id of a library with a version: whether there is a site of this version.
        self._selected: dict[str, bool] = {}
        self._page_versions: dict[str, str | None] = {}
        self._sites: tuple[int, Sites] | None = None
        self._site_loads: SingleFlight[int, Sites] = SingleFlight()
        self._cleaning: asyncio.Task[None] | None = None
        pages = 0 if config.fetcher.offline else config.fetcher.background_pages
        self._prefetcher = Prefetcher(self, cache, self._fetcher.fetch, clock, background_pages=pages)
        # The conversion of a page may need some hundred megabytes.
        self._converting = asyncio.Semaphore(MAX_CONVERSIONS)

    @classmethod
    async def open(
        cls,
        config: Config,
        registry: Libraries,
        *,
        network: Network | None = None,
        clock: Callable[[], float] = time.time,
    ) -> "LibraryDocuments":
        """Open the documents and their cache. If the cache cannot be opened, memory is used. Call `close` when done."""
        cache = await Cache.open(_cache_directory(config), config.cache.max_bytes, clock)
        documents = cls(config, registry, cache, network, clock)
        if not config.fetcher.offline:
            documents._cleaning = asyncio.create_task(documents._clean())
        return documents

    def __repr__(self) -> str:
        return f"<LibraryDocuments {self._cache!r} {self._fetcher!r} pages={len(self._recent_pages)}>"

    async def close(self) -> None:
        """Stop background tasks and close the cache. Stored documents are kept."""
        if self._cleaning is not None:
            self._cleaning.cancel()
            await asyncio.gather(self._cleaning, return_exceptions=True)
        await self._prefetcher.close()
        await self._page_loads.close()
        await self._index_loads.close()
        await self._site_loads.close()
        await self._fetcher.close()
        await self._cache.close()

    async def settle(self) -> None:
        """Wait for the refreshes of stale documents that are running now."""
        await self._page_loads.wait()
        await self._index_loads.wait()

    async def status(self) -> CacheStatus:
        """Return the size and the location of the cache."""
        return await self._cache.status()

    async def libraries(self) -> list[StoredLibrary]:
        """Return the libraries that have pages in the cache."""
        return await self._cache.libraries()

    # --- tables of contents -------------------------------------------------------------------------------------------

    async def index(self, library: Library, *, is_fresh: bool = False) -> IndexText:
        """Return the table of contents of a library. With `is_fresh`, a stale one is fetched again first.

        Raises: ProContextError: LLMS_TXT_NOT_FOUND, LLMS_TXT_FETCH_FAILED, TOO_MANY_REDIRECTS.
        """
        address = library.path or library.llms_txt_url or library.docs_url or next(iter(readme_urls(library)), None)
        if address is None:
            raise undocumented(library)
        key = _index_key(library, address)
        # A folder is read each time, because its files may be edited at any time.
        cached = None if library.path else await self._cache.get(key)
        must_fetch = is_fresh and not self._config.fetcher.offline
        if cached is None or (must_fetch and self._is_stale(cached.checked_at)):
            try:
                found = await self._index_loads.join(key, lambda: self._find(key, library, cached))
            except FetchError as error:
                raise index_failure(library, error) from error
            except Cancelled:
                raise failure("LLMS_TXT_FETCH_FAILED", library.id, "the server is closing") from None
            self._page_versions.clear()
            return IndexText(text=found.text, source=_source(found), url=found.url, version=_version(found))
        is_stale = self._is_stale(cached.checked_at)
        if is_stale:
            self._refresh(self._index_loads, key, lambda: self._find(key, library, cached))
        return IndexText(
            text=cached.text,
            source=_source(cached),
            url=cached.url,
            cached=True,
            cached_at=_to_datetime(cached.fetched_at),
            stale=is_stale,
            version=_version(cached),
        )

    async def select(self, library: Library, wanted: str | None) -> Library:
        """Return the library with the site of a version, or the library itself if there is no such site.

        Failures are those of the library itself: `index` raises them.
        """
        if wanted is None or library.path is not None or library.docs_url is None:
            return library
        choice = msgspec.structs.replace(library, id=f"{library.id}@{wanted}", version=wanted, llms_txt_url=None)
        if choice.id in self._selected:
            return choice if self._selected[choice.id] else library
        with contextlib.suppress(ProContextError):
            stated = (await self.index(library)).version
            if stated is not None and allows(wanted, stated):
                self._selected[choice.id] = False
                return library
        try:
            await self.index(choice)
        except ProContextError as error:
            if error.code == "LLMS_TXT_NOT_FOUND":
                self._selected[choice.id] = False
            return library
        self._selected[choice.id] = True
        return choice

    async def _find(self, key: str, library: Library, cached: Document | None) -> Document:
        async def fetch(url: str) -> Fetched:
            if cached is None or url != library.llms_txt_url:
                return await self._fetcher.fetch(url)
            fetched = await self._fetcher.fetch(url, etag=cached.etag, last_modified=cached.last_modified)
            if fetched.is_unchanged:
                raise _Unchanged
            return fetched

        try:
            if library.path:
                found = await self._find_in_folder(library, Path(library.path))
            else:
                found = await find_index(library, fetch)
        except _Unchanged:
            assert cached is not None
            await self._cache.confirm(key, self._clock())
            return cached
        try:
            check_lines(found.text)
        except PageTooLargeError as error:
            raise too_large_error(found.url, error) from error
        now = self._clock()
        document = Document(
            key=key,
            kind="index",
            url=found.url,
            text=found.text,
            source=f"{found.source} {found.version or ''}".strip(),
            etag=found.etag,
            last_modified=found.last_modified,
            fetched_at=now,
            checked_at=now,
        )
        await self._cache.put(document, (library.id,), (), found.links)
        return document

    async def _find_in_folder(self, library: Library, root: Path) -> FoundIndex:
        limit = self._config.fetcher.max_bytes
        try:
            text, links = await asyncio.to_thread(folder_index, root, library.id, library.name, limit)
        except OSError as error:
            raise FetchError("failed", str(root), str(error)) from error
        except PageTooLargeError as error:
            raise too_large_error(str(root), error) from error
        if not links and not text.strip():
            raise FetchError("not_found", str(root), "the folder contains no Markdown or HTML")
        return FoundIndex(text=text, source="folder", url=folder_address(library.id), links=links)

    # --- pages --------------------------------------------------------------------------------------------------------

    async def page(self, url: str, library: Library | None = None) -> Page:
        """Return a page as Markdown.

        Raises: ProContextError: URL_NOT_ALLOWED, PAGE_NOT_FOUND, PAGE_FETCH_FAILED, TOO_MANY_REDIRECTS, INVALID_INPUT.
        """
        try:
            target = parse_url(url)
            if target.host == FOLDER_HOST:
                return await self._folder_page(url, target)
            access = await self._access(target, is_requested=True)
            if not access.is_allowed:
                raise FetchError("not_allowed", url, access.reason)
            cached, is_new = await self._page(target, library)
        except FetchError as error:
            raise page_failure(url, error) from error
        except Cancelled:
            raise failure("PAGE_FETCH_FAILED", display_url(url), "the server is closing") from None
        page = msgspec.structs.replace(cached.page, url=url) if is_new else self._from_cache(url, cached)
        return msgspec.structs.replace(page, version=await self._page_version(target))

    async def _page_version(self, target: Target) -> str | None:
        """Return the version that a page is about: from its URL, or that of the library whose page it is."""
        key = target.url
        if key not in self._page_versions:
            found = version_of_url(key)
            for library_id in () if found is not None else await self._cache.libraries_linking(key):
                library = self._registry.get(library_id)
                address = None if library is None else library.llms_txt_url or library.docs_url
                index = None if address is None else await self._cache.get(f"index {library_id} {address}")
                found = found or (None if index is None else _version(index))
            self._page_versions[key] = found
        return self._page_versions[key]

    def _from_cache(self, url: str, cached: CachedPage) -> Page:
        return msgspec.structs.replace(
            cached.page,
            url=url,
            cached=True,
            cached_at=_to_datetime(cached.fetched_at),
            stale=self._is_stale(cached.checked_at),
        )

    async def _page(self, target: Target, library: Library | None) -> tuple[CachedPage, bool]:
        """Return the page and whether it was fetched just now."""
        key = target.url
        cached = await self._get_cached(key)
        if cached is None:
            ids = await self._owners(target, library)
            return await self._page_loads.join(key, lambda: self._load(target, ids, None)), True
        if self._is_stale(cached.checked_at):
            ids = await self._owners(target, library)
            self._refresh(self._page_loads, key, lambda: self._load(target, ids, cached))
        if library is not None and (library.id, key) not in self._joined:
            self._joined.add((library.id, key))
            await self._cache.join(library.id, key)
        return cached, False

    async def _get_cached(self, key: str) -> CachedPage | None:
        cached = self._recent_pages.get(key)
        now = self._clock()
        if cached is not None and (not self._is_stale(cached.checked_at) or now < self._recheck_after.get(key, 0.0)):
            self._cache.touch(key)
            return cached
        # Another process may have refreshed a page that is stale in memory, so the cache is read from time to time.
        self._recheck_after[key] = now + RETRY_SECONDS
        document = await self._cache.get(key)
        if document is None:
            return cached
        if cached is not None and cached.fetched_at == document.fetched_at:
            page = cached.page
        else:
            lines = await asyncio.to_thread(_split, document.text)
            final = cross_host_url(key, document.url)
            page = Page(url=key, lines=lines, headings=document.headings, final_url=final)
        return self._remember(key, page, document)

    def _remember(self, key: str, page: Page, document: Document) -> CachedPage:
        cached = CachedPage(
            page=page,
            etag=document.etag,
            last_modified=document.last_modified,
            fetched_at=document.fetched_at,
            checked_at=document.checked_at,
        )
        self._recent_pages.put(key, cached)
        return cached

    async def _load(self, target: Target, ids: Iterable[str], cached: CachedPage | None) -> CachedPage:
        fetched = await self._fetcher.fetch(
            target.url, etag=cached.etag if cached else "", last_modified=cached.last_modified if cached else ""
        )
        if fetched.is_unchanged and cached is not None:
            now = self._clock()
            await self._cache.confirm(target.url, now)
            confirmed = msgspec.structs.replace(cached, checked_at=now)
            self._recent_pages.put(target.url, confirmed)
            return confirmed
        with contextlib.suppress(FetchError):  # then the page itself is read
            referred = await follow_refresh(self._fetcher.fetch, fetched)
            if referred is not fetched:
                # Without validators: they belong to the other address.
                fetched = msgspec.structs.replace(referred, url=fetched.url, etag="", last_modified="")
        async with self._converting:
            converted = await asyncio.to_thread(convert_fetched, fetched)
        return await self._store(converted, ids, fetched.etag, fetched.last_modified)

    async def _store(self, converted: ConvertedPage, ids: Iterable[str], etag: str, last_modified: str) -> CachedPage:
        now = self._clock()
        key = converted.page.url
        document = Document(
            key=key,
            kind="page",
            url=converted.page.final_url or key,
            text="\n".join(converted.page.lines),
            headings=converted.page.headings,
            etag=etag,
            last_modified=last_modified,
            fetched_at=now,
            checked_at=now,
        )
        await self._cache.put(document, ids, converted.sections)
        return self._remember(key, converted.page, document)

    async def _folder_page(self, url: str, target: Target) -> Page:
        """Return a file of a local folder. It is read again when it has changed, and stored for search."""
        library_id, relative = split_address(target)
        library = self._registry.get(library_id)
        if library is None or library.path is None:
            raise FetchError("not_allowed", url, f"no library {library_id[:80]!r} with a folder")
        try:
            file, version = await asyncio.to_thread(find_file, Path(library.path), relative)
            if file is None:
                raise FetchError("not_found", url, f"no readable file {relative[:200]!r} in the folder")
            cached = await self._get_cached(target.url)
            if cached is not None and cached.etag == version:
                return msgspec.structs.replace(self._from_cache(url, cached), stale=False)
            limit = self._config.fetcher.max_bytes
            async with self._converting:
                content = await asyncio.to_thread(read_folder_page, file, target.url, limit)
                converted = await asyncio.to_thread(convert_markdown, target.url, content.text)
        except OSError as error:
            raise FetchError("failed", url, f"the file cannot be read: {error}") from error
        except PageTooLargeError as error:
            raise too_large_error(url, error) from error
        await self._store(converted, (library_id,), content.version, "")
        return msgspec.structs.replace(converted.page, url=url)

    # --- search and prefetch ------------------------------------------------------------------------------------------

    async def search(self, library_id: str, query: str, limit: int = 10) -> list[Hit]:
        """Return the stored sections of a library that match a query, best first. Never fetches."""
        return await self._cache.search(library_id, query, limit)

    async def cover(self, library: Library, wait_seconds: float | None = None, query: str = "") -> Coverage:
        """Fetch the missing pages of a library in the background, wait a moment, and return what a search covers.

        Pages that seem to be about `query` are fetched first.
        """
        return await self._prefetcher.cover(library, WAIT_SECONDS if wait_seconds is None else wait_seconds, query)

    async def prefetch(self, library: Library, progress: Progress | None = None) -> FetchReport:
        """Fetch and store the index and every page that it links and that is missing or stale.

        Raises: ProContextError, as `index` does. A page that fails or cannot be stored is skipped and logged.
        """
        return await self._prefetcher.fetch_library(library, progress)

    async def fetch_page(self, url: str, library: Library) -> None:
        """Fetch a page that is not stored or stale.

        Raises: FetchError, Cancelled.
        """
        target = parse_url(url)
        if target.host == FOLDER_HOST:
            await self._folder_page(url, target)
            return
        access = await self._access(target, is_requested=True)
        if not access.is_allowed:
            raise FetchError("not_allowed", url, access.reason)
        cached, _ = await self._page(target, library)
        if self._is_stale(cached.checked_at) and not self._config.fetcher.offline:
            ids = await self._owners(target, library)
            await self._page_loads.join(target.url, lambda: self._load(target, ids, cached))

    async def folder_files(self, library: Library) -> dict[str, str]:
        """Return the URL of each file of a local folder, with a string that changes when the file changes."""
        return await asyncio.to_thread(folder_versions, Path(library.path or ""), library.id)

    async def store_markdown(self, url: str, text: str, library: Library) -> None:
        """Store a page whose Markdown is known. A page that exceeds the limits is not stored."""
        target = parse_url(url)
        with contextlib.suppress(PageTooLargeError):
            async with self._converting:
                converted = await asyncio.to_thread(convert_markdown, target.url, text)
            await self._store(converted, await self._owners(target, library), "", "")

    # --- access -------------------------------------------------------------------------------------------------------

    async def _access(self, target: Target, is_requested: bool = False) -> Access:
        """Allow a URL on a site of the registry, or one that is an exact link of a library's index.

        A host that only shares a domain with a library's host gets no query string from the caller (`is_requested`):
        text on a page could have made the agent put data into it. A redirect may have a query string.
        """
        sites = await self._current_sites()
        has_query = is_requested and "?" in target.path and not sites.has_exact_host(target)
        if sites.allows(target) and not has_query:
            return Access(True, sites.headers(target))
        # What a package index names gives access to that host alone, and to no query string.
        is_plain = target.has_default_port and target.is_encrypted and not (is_requested and "?" in target.path)
        if target.host in self._registry.learned_hosts and (is_plain or self._fetcher.is_private(target)):
            return Access(True)
        # A link may name any host, but only the default ports: mail and databases listen on others.
        if target.has_default_port or self._fetcher.is_private(target):
            linking = await self._cache.libraries_linking(target.url)
            # The cache is shared: a link of a source that is not configured here does not count.
            if any(self._registry.get(library_id) is not None for library_id in linking):
                return Access(True)
        return Access(False, reason=_reason(sites, target, has_query, is_requested))

    async def _current_sites(self) -> Sites:
        generation = self._registry.generation
        if self._sites is None or self._sites[0] != generation:
            # Once for all calls that wait for it: that of 100,000 libraries takes tens of megabytes.
            sites = await self._site_loads.join(generation, lambda: asyncio.to_thread(Sites, tuple(self._registry)))
            self._sites = (generation, sites)
        return self._sites[1]

    async def _owners(self, target: Target, library: Library | None) -> tuple[str, ...]:
        """Return the libraries that a page belongs to, for search."""
        found = set(await self._cache.libraries_linking(target.url))
        if not found:  # else the pages of another version would be those of the newest, too
            owner = (await self._current_sites()).owner(target)
            found = {owner} if owner is not None else set()
        found |= {library.id} if library is not None else set()
        return tuple(sorted(found))

    # --- time ---------------------------------------------------------------------------------------------------------

    def _is_stale(self, checked_at: float) -> bool:
        return self._clock() - checked_at >= self._config.cache.ttl_hours * 3600

    def _refresh(
        self, in_flight: SingleFlight[str, _T], key: str, work: Callable[[], Coroutine[None, None, _T]]
    ) -> None:
        """Fetch again in the background, unless a fetch is running or has just failed."""
        if self._config.fetcher.offline or key in in_flight or self._clock() < self._retry_after.get(key, 0.0):
            return
        in_flight.start(key, work).add_done_callback(lambda task: self._refreshed(key, task))

    def _refreshed(self, key: str, task: asyncio.Task[_T]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is None:
            self._retry_after.pop(key, None)
            return
        self._retry_after[key] = self._clock() + RETRY_SECONDS
        if isinstance(error, FetchError):
            _log.warning("cannot refresh %s: %s; the stale document is still served", key, error.detail)
        else:
            _log.error("refreshing %s failed", key, exc_info=error)

    async def _clean(self) -> None:
        while True:
            before = self._clock() - self._config.cache.ttl_hours * 3600 - KEEP_SECONDS
            removed = await self._cache.clean(before)
            if removed:
                _log.info("removed %d expired documents from the cache", removed)
            self._prune()
            await asyncio.sleep(CLEAN_SECONDS)

    def _prune(self) -> None:
        """Remove expired entries, so that the dictionaries of a long-running server do not grow."""
        now = self._clock()
        for times in (self._recheck_after, self._retry_after):
            for key in [key for key, until in times.items() if until <= now]:
                del times[key]
        self._joined.clear()
        self._page_versions.clear()
        self._selected.clear()


def _cache_directory(config: Config) -> Path:
    if config.cache.dir is not None:
        return Path(config.cache.dir)
    import platformdirs  # noqa: PLC0415  # not needed where a directory is configured

    return Path(platformdirs.user_cache_dir("procontext"))


def _reason(sites: Sites, target: Target, has_query: bool, is_requested: bool) -> str:
    port = 443 if target.has_default_port else target.port
    if not target.is_encrypted and sites.allows(msgspec.structs.replace(target, scheme="https", port=port)):
        return "this site is allowed over https only"
    if has_query and sites.allows(target):
        return "a query string is allowed only for hosts that a library names"
    return "" if is_requested else Access(False).reason  # for a requested URL, the message of the catalogue is enough


def _to_datetime(seconds: float) -> datetime:
    # Whole seconds, as the tool results document it.
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=0)


def _index_key(library: Library, address: str) -> str:
    return f"index {library.id} {address}"


def _source(document: Document) -> IndexSource:
    source: IndexSource = msgspec.convert(document.source.partition(" ")[0], IndexSource)
    return source


def _version(document: Document) -> str | None:
    """Return the version that the site states; it is stored behind the source of the table of contents."""
    return document.source.partition(" ")[2] or None


def _split(text: str) -> tuple[str, ...]:
    """Return the lines of a stored page, which were already split at the maximum length."""
    return tuple(text.split("\n")) if text else ()


class _Unchanged(Exception):  # control flow, not a failure
    """The cached table of contents is current."""


__all__ = ["LibraryDocuments"]
