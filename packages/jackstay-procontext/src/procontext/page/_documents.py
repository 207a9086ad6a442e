"""The documents of libraries as the tools ask for them: from memory, from the cache, or from their site, in that order.

What is kept is served at once. What is older than its time is served too, and fetched again behind the caller's back; if that
fails, the old text stays and the next try waits. Only what was never seen makes anybody wait for the network.

Whatever goes wrong below arrives here as a `FetchError` and leaves as a row of the catalogue: here it is known what was asked for.

Above: the tools. Below: `procontext.fetch`, `procontext.cache`, and the rest of this room.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from procontext.cache import Cache, CacheStatus, Document
from procontext.config import Config
from procontext.errors import Code, ProContextError, failure
from procontext.fetch import (
    Access,
    Fetched,
    Fetcher,
    FetchError,
    Flights,
    Grounded,
    Network,
    Sites,
    Target,
    read_url,
    shown_host,
    shown_url,
)
from procontext.models import Hit, IndexSource, IndexText, Library, Page
from procontext.page._finding import FoundIndex, find_index
from procontext.page._folders import (
    FOLDER_HOST,
    file_in,
    folder_address,
    folder_index,
    mark_of,
    read_folder_page,
    split_address,
)
from procontext.page._indexes import links_of
from procontext.page._limits import PageTooLargeError, check_lines
from procontext.page._making import Made, left_host, make, make_page, too_large
from procontext.page._shelf import Kept, Shelf
from procontext.sources import Libraries, Progress

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

# After a refresh that failed: long enough not to trouble a host that is down with every read.
RETRY_SECONDS: Final = 60.0
# What no host has confirmed for so long beyond its time is removed. An agent's offline shelf must outlive a holiday.
KEEP_SECONDS: Final = 30 * 24 * 3600.0
CLEAN_SECONDS: Final = 6 * 3600.0
# Requests at a time while prefetching: polite to one host, and enough to hide its latency.
PREFETCHING: Final = 6
MOST_PREFETCHED: Final = 5_000
# Pages that are converted at a time, however many are fetched.
CONVERTING: Final = 2
# Files that an index may link and nobody can read.
_UNREADABLE: Final = (
    *(".png", ".jpg", ".jpeg", ".gif", ".svg", ".ico", ".webp", ".pdf", ".zip", ".gz", ".whl", ".mp4"),
    *(".woff2", ".css", ".js"),
)

_PAGE_CODES: Final[dict[str, Code]] = {
    "not_allowed": "URL_NOT_ALLOWED",
    "not_found": "PAGE_NOT_FOUND",
    "too_many_redirects": "TOO_MANY_REDIRECTS",
    "failed": "PAGE_FETCH_FAILED",
    "offline": "PAGE_FETCH_FAILED",
}
# Of a table of contents the address was ours to choose: what is wrong with it is not the agent's doing.
_INDEX_CODES: Final[dict[str, Code]] = {
    "invalid": "LLMS_TXT_FETCH_FAILED",
    "not_allowed": "LLMS_TXT_FETCH_FAILED",
    "not_found": "LLMS_TXT_NOT_FOUND",
    "too_many_redirects": "TOO_MANY_REDIRECTS",
    "failed": "LLMS_TXT_FETCH_FAILED",
    "offline": "LLMS_TXT_FETCH_FAILED",
}


class LibraryDocuments:
    """Tables of contents, pages and search over a registry's libraries. Make it with `open`."""

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
        self._shelf = Shelf()
        self._loads: Flights[str, Kept] = Flights()
        self._finds: Flights[str, Document] = Flights()
        self._waiting_until: dict[str, float] = {}  # by key: when a refresh that failed may be tried again
        self._looked_up: dict[str, float] = {}  # by key: until when what is in memory is good enough
        self._joined: set[tuple[str, str]] = set()
        self._sites: tuple[int, Sites] | None = None
        self._cleaning: asyncio.Task[None] | None = None
        # A page may take some hundred megabytes while it is converted.
        self._converting = asyncio.Semaphore(CONVERTING)

    @classmethod
    async def open(
        cls,
        config: Config,
        registry: Libraries,
        *,
        network: Network | None = None,
        clock: Callable[[], float] = time.time,
    ) -> "LibraryDocuments":
        """The documents, with their cache open. A cache that cannot be opened is no reason to fail. Next: `close()`."""
        cache = await Cache.open(_cache_directory(config), config.cache.max_bytes, clock)
        documents = cls(config, registry, cache, network, clock)
        if not config.fetcher.offline:
            documents._cleaning = asyncio.create_task(documents._clean())
        return documents

    def __repr__(self) -> str:
        return f"<LibraryDocuments {self._cache!r} {self._fetcher!r} pages={len(self._shelf)}>"

    async def close(self) -> None:
        """End what runs in the background and let go of the cache. Nothing stored is lost."""
        if self._cleaning is not None:
            self._cleaning.cancel()
            await asyncio.gather(self._cleaning, return_exceptions=True)
        await self._loads.close()
        await self._finds.close()
        await self._fetcher.close()
        await self._cache.close()

    async def status(self) -> CacheStatus:
        """What the cache holds, and where it is."""
        return await self._cache.status()

    # --- tables of contents -------------------------------------------------------------------------------------------

    async def index(self, library: Library) -> IndexText:
        """The table of contents of a library.

        Raises: ProContextError: LLMS_TXT_NOT_FOUND, LLMS_TXT_FETCH_FAILED, TOO_MANY_REDIRECTS.
        """
        address = library.path or library.llms_txt_url or library.docs_url
        if address is None:
            raise _undocumented(library)
        key = f"index {library.id} {address}"
        # A folder is read each time: it is near, and its owner is editing it.
        kept = None if library.path else await self._cache.get(key)
        if kept is None:
            try:
                found = await self._finds.join(key, lambda: self._find(key, library, None))
            except FetchError as error:
                code = _INDEX_CODES[error.reason]
                raise failure(code, library.id, error.detail, remedy=error.remedy) from error
            except Grounded:
                raise failure("LLMS_TXT_FETCH_FAILED", library.id, "the server is closing") from None
            return IndexText(text=found.text, source=_source(found), url=found.url)
        is_stale = self._is_stale(kept.checked_at)
        if is_stale:
            self._refresh(self._finds, key, lambda: self._find(key, library, kept))
        return IndexText(
            text=kept.text,
            source=_source(kept),
            url=kept.url,
            cached=True,
            cached_at=_moment(kept.fetched_at),
            stale=is_stale,
        )

    async def _find(self, key: str, library: Library, kept: Document | None) -> Document:
        async def fetch(url: str) -> Fetched:
            if kept is None or url != library.llms_txt_url:
                return await self._fetcher.fetch(url)
            fetched = await self._fetcher.fetch(url, etag=kept.etag, last_modified=kept.last_modified)
            if fetched.is_unchanged:
                raise _Unchanged
            return fetched

        try:
            if library.path:
                found = await self._find_in_folder(library, Path(library.path))
            else:
                found = await find_index(library, fetch)
        except _Unchanged:
            assert kept is not None
            await self._cache.confirm(key, self._clock())
            return kept
        try:
            check_lines(found.text)
        except PageTooLargeError as error:
            raise too_large(found.url, error) from error
        now = self._clock()
        document = Document(
            key=key,
            kind="index",
            url=found.url,
            text=found.text,
            source=found.source,
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
            raise too_large(str(root), error) from error
        if not links and not text.strip():
            raise FetchError("not_found", str(root), "the folder has no Markdown or HTML in it")
        return FoundIndex(text=text, source="folder", url=folder_address(library.id), links=links)

    # --- pages --------------------------------------------------------------------------------------------------------

    async def page(self, url: str, library: Library | None = None) -> Page:
        """A page as Markdown.

        Raises: ProContextError: URL_NOT_ALLOWED, PAGE_NOT_FOUND, PAGE_FETCH_FAILED, TOO_MANY_REDIRECTS, INVALID_INPUT.
        """
        try:
            target = read_url(url)
            if target.host == FOLDER_HOST:
                return await self._folder_page(url, target)
            access = await self._access(target, is_requested=True)
            if not access.is_allowed:
                raise FetchError("not_allowed", url, access.reason)
            kept, is_new = await self._page(target, library)
        except FetchError as error:
            raise _page_failure(url, error) from error
        except Grounded:
            raise failure("PAGE_FETCH_FAILED", shown_url(url), "the server is closing") from None
        if is_new:
            return msgspec.structs.replace(kept.page, url=url)
        return self._told(url, kept)

    def _told(self, url: str, kept: Kept) -> Page:
        return msgspec.structs.replace(
            kept.page,
            url=url,
            cached=True,
            cached_at=_moment(kept.fetched_at),
            stale=self._is_stale(kept.checked_at),
        )

    async def _page(self, target: Target, library: Library | None) -> tuple[Kept, bool]:
        """The page, and whether it was fetched just now."""
        key = target.url
        kept = await self._kept(key)
        if kept is None:
            ids = await self._owners(target, library)
            return await self._loads.join(key, lambda: self._load(target, ids, None)), True
        if self._is_stale(kept.checked_at):
            ids = await self._owners(target, library)
            self._refresh(self._loads, key, lambda: self._load(target, ids, kept))
        if library is not None and (library.id, key) not in self._joined:
            self._joined.add((library.id, key))
            await self._cache.join(library.id, key)
        return kept, False

    async def _kept(self, key: str) -> Kept | None:
        kept = self._shelf.get(key)
        now = self._clock()
        if kept is not None and (not self._is_stale(kept.checked_at) or now < self._looked_up.get(key, 0.0)):
            self._cache.touch(key)
            return kept
        # One that is stale in memory may have been refreshed by another process: looked up now and then.
        self._looked_up[key] = now + RETRY_SECONDS
        document = await self._cache.get(key)
        if document is None:
            return kept
        if kept is not None and kept.fetched_at == document.fetched_at:
            page = kept.page
        else:
            lines = await asyncio.to_thread(_split, document.text)
            final = left_host(key, document.url)
            page = Page(url=key, lines=lines, headings=document.headings, final_url=final)
        return self._keep(key, page, document)

    def _keep(self, key: str, page: Page, document: Document) -> Kept:
        kept = Kept(
            page=page,
            etag=document.etag,
            last_modified=document.last_modified,
            fetched_at=document.fetched_at,
            checked_at=document.checked_at,
        )
        self._shelf.put(key, kept)
        return kept

    async def _load(self, target: Target, ids: Iterable[str], kept: Kept | None) -> Kept:
        fetched = await self._fetcher.fetch(
            target.url, etag=kept.etag if kept else "", last_modified=kept.last_modified if kept else ""
        )
        if fetched.is_unchanged and kept is not None:
            now = self._clock()
            await self._cache.confirm(target.url, now)
            again = msgspec.structs.replace(kept, checked_at=now)
            self._shelf.put(target.url, again)
            return again
        async with self._converting:
            made = await asyncio.to_thread(make, fetched)
        return await self._store(made, ids, fetched.etag, fetched.last_modified)

    async def _store(self, made: Made, ids: Iterable[str], etag: str, last_modified: str) -> Kept:
        now = self._clock()
        key = made.page.url
        document = Document(
            key=key,
            kind="page",
            url=made.page.final_url or key,
            text="\n".join(made.page.lines),
            headings=made.page.headings,
            etag=etag,
            last_modified=last_modified,
            fetched_at=now,
            checked_at=now,
        )
        await self._cache.put(document, ids, made.sections)
        return self._keep(key, made.page, document)

    async def _folder_page(self, url: str, target: Target) -> Page:
        """A file of a local folder: read again whenever it has changed, and kept for search."""
        library_id, relative = split_address(target)
        library = self._registry.get(library_id)
        if library is None or library.path is None:
            raise FetchError("not_allowed", url, f"there is no folder of a library {library_id[:80]!r}")
        file = await asyncio.to_thread(file_in, Path(library.path), relative)
        if file is None:
            raise FetchError(
                "not_found", url, f"there is no file {relative[:200]!r} to be read in the folder"
            )
        try:
            mark = await asyncio.to_thread(mark_of, file)
            kept = await self._kept(target.url)
            if kept is not None and kept.etag == mark:
                return msgspec.structs.replace(self._told(url, kept), stale=False)
            limit = self._config.fetcher.max_bytes
            async with self._converting:
                read = await asyncio.to_thread(read_folder_page, file, target.url, limit)
                made = await asyncio.to_thread(make_page, target.url, read.text)
        except OSError as error:
            raise FetchError("failed", url, f"the file cannot be read: {error}") from error
        except PageTooLargeError as error:
            raise too_large(url, error) from error
        await self._store(made, (library_id,), read.mark, "")
        return msgspec.structs.replace(made.page, url=url)

    # --- search and prefetch ------------------------------------------------------------------------------------------

    async def search(self, library_id: str, query: str, limit: int = 10) -> list[Hit]:
        """The stored sections of a library that answer a query, best first. Never fetches."""
        return await self._cache.search(library_id, query, limit)

    async def count_pages(self, library_id: str) -> int:
        """How many pages of a library are stored, and so are searched."""
        return await self._cache.count_pages(library_id)

    async def prefetch(self, library: Library, progress: Progress | None = None) -> int:
        """Fetch and store the index and every page it names; returns how many pages are stored now.

        Raises: ProContextError, as `index` does. A page that fails, or that the disk would not have, is left out and logged.
        """
        index = await self.index(library)
        links = await asyncio.to_thread(lambda: list(links_of(index.text, index.url)))
        wanted = [url for url in links if not url.partition("?")[0].lower().endswith(_UNREADABLE)]
        wanted = wanted[:MOST_PREFETCHED]
        done = stored = 0
        if progress is not None:
            progress(0, len(wanted), "")
        turns = asyncio.Semaphore(PREFETCHING)

        async def one(url: str) -> None:
            nonlocal done, stored
            async with turns:
                try:
                    await self.page(url, library)
                    if await self._cache.holds(read_url(url).url):
                        stored += 1
                    else:
                        _log.warning("%s was fetched, but the cache could not keep it", url)
                except ProContextError as error:
                    _log.warning("%s was not prefetched: %s", url, error.message)
                done += 1
                if progress is not None:
                    progress(done, len(wanted), url)

        async with asyncio.TaskGroup() as group:
            for url in wanted:
                group.create_task(one(url))
        return stored

    # --- who may be asked ---------------------------------------------------------------------------------------------

    async def _access(self, target: Target, is_requested: bool = False) -> Access:
        """The leave to go to an address: a site of the registry, or an exact link of a library's own index.

        A host that no row names, and that only shares a domain with one, may not be sent a query that the caller wrote
        (`is_requested`): text on a page could have put something into it. A redirect may have one.
        """
        sites = await self._current_sites()
        has_query = is_requested and "?" in target.path and not sites.names(target)
        if sites.allows(target) and not has_query:
            return Access(True, sites.headers(target))
        # A link may name any host, but not make us knock at any door of it: mail and databases listen elsewhere.
        if target.has_plain_port or self._fetcher.is_private(target):
            linking = await self._cache.libraries_linking(target.url)
            # The cache is shared: what a source of another folder linked to is no reason here.
            if any(self._registry.get(library_id) is not None for library_id in linking):
                return Access(True)
        return Access(False, reason=_reason(sites, target, has_query, is_requested))

    async def _current_sites(self) -> Sites:
        generation = self._registry.generation
        if self._sites is None or self._sites[0] != generation:
            rows = tuple(self._registry)
            self._sites = (generation, await asyncio.to_thread(Sites, rows))
        return self._sites[1]

    async def _owners(self, target: Target, library: Library | None) -> tuple[str, ...]:
        """The libraries a page belongs to, for search."""
        found = set(await self._cache.libraries_linking(target.url))
        owner = (await self._current_sites()).owner(target)
        found |= {owner} if owner is not None else set()
        found |= {library.id} if library is not None else set()
        return tuple(sorted(found))

    # --- time ---------------------------------------------------------------------------------------------------------

    def _is_stale(self, checked_at: float) -> bool:
        return self._clock() - checked_at >= self._config.cache.ttl_hours * 3600

    def _refresh(
        self, flights: Flights[str, _T], key: str, work: Callable[[], Coroutine[None, None, _T]]
    ) -> None:
        """Fetch again in the background, unless that is under way or has just failed."""
        if (
            self._config.fetcher.offline
            or key in flights
            or self._clock() < self._waiting_until.get(key, 0.0)
        ):
            return
        flights.start(key, work).add_done_callback(lambda task: self._refreshed(key, task))

    def _refreshed(self, key: str, task: asyncio.Task[_T]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is None:
            self._waiting_until.pop(key, None)
            return
        self._waiting_until[key] = self._clock() + RETRY_SECONDS
        if isinstance(error, FetchError):
            _log.warning("%s could not be refreshed, and is served as it was: %s", key, error.detail)
        else:
            _log.error("refreshing %s failed", key, exc_info=error)

    async def _clean(self) -> None:
        while True:
            before = self._clock() - self._config.cache.ttl_hours * 3600 - KEEP_SECONDS
            removed = await self._cache.clean(before)
            if removed:
                _log.info("removed %d documents from the cache that were not confirmed for a month", removed)
            self._forget()
            await asyncio.sleep(CLEAN_SECONDS)

    def _forget(self) -> None:
        """What was noted by address and is over: a server that runs for months is asked for many."""
        now = self._clock()
        for noted in (self._looked_up, self._waiting_until):
            for key in [key for key, until in noted.items() if until <= now]:
                del noted[key]
        self._joined.clear()


def _cache_directory(config: Config) -> Path:
    if config.cache.dir is not None:
        return Path(config.cache.dir)
    import platformdirs  # noqa: PLC0415  # only who names no directory needs it

    return Path(platformdirs.user_cache_dir("procontext"))


def _reason(sites: Sites, target: Target, has_query: bool, is_requested: bool) -> str:
    if not target.is_encrypted and sites.allows(_encrypted(target)):
        return "this site is read over https only"
    if has_query and sites.allows(target):
        return "a query is sent only to a host that a library names itself"
    return "" if is_requested else Access(False).reason  # what was asked for has a sentence of its own


def _encrypted(target: Target) -> Target:
    port = 443 if target.has_plain_port else target.port
    return msgspec.structs.replace(target, scheme="https", port=port)


def _moment(seconds: float) -> datetime:
    # Whole seconds, as the reference writes it.
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=0)


def _source(document: Document) -> IndexSource:
    source: IndexSource = msgspec.convert(document.source, IndexSource)
    return source


def _undocumented(library: Library) -> ProContextError:
    """Of a library that is known, and whose documentation is not: there is nothing to try."""
    where = f", only its repository, {library.repo_url}" if library.repo_url else ""
    return failure(
        "LLMS_TXT_NOT_FOUND",
        library.id,
        f"no documentation site of it is known{where}",
        suggestion="Answer without this library's docs, and tell the user so.",
    )


def _page_failure(url: str, error: FetchError) -> ProContextError:
    if error.reason == "invalid":
        return failure("INVALID_INPUT", f"url: {error.detail}")
    # What was asked for is the subject; the hop on which it failed, if it was another, stands in the detail.
    detail = error.detail
    if detail and error.url.partition("#")[0] != url.partition("#")[0]:
        # The hop was chosen by a host, and its address may be signed.
        detail = f"{detail} ({shown_host(error.url)})"
    elif detail == "HTTP 404":
        detail = ""  # the row says so itself
    return failure(_PAGE_CODES[error.reason], shown_url(url), detail, remedy=error.remedy)


def _split(text: str) -> tuple[str, ...]:
    """The lines of a stored page: they are as they were counted."""
    return tuple(text.split("\n")) if text else ()


class _Unchanged(Exception):  # no failure
    """The table of contents that we have is still the one."""


__all__ = ["LibraryDocuments"]
