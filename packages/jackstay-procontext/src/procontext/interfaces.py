"""The interfaces between the tools, the documents and the registry.

`procontext.page.LibraryDocuments` implements `Documents`; `procontext.registry.Registry` implements `Libraries`.
"""

from collections.abc import Callable, Collection, Iterator
from typing import Protocol, TypeAlias

from procontext.models import CacheStatus, Coverage, FetchReport, Hit, IndexText, Library, Page, StoredLibrary

# Called while a library is prefetched, with the number of finished pages, the total number, and the URL of the last
# page (empty at the start).
Progress: TypeAlias = Callable[[int, int, str], None]


class Libraries(Protocol):
    """All known libraries, including private sources. They may be replaced while the server runs."""

    @property
    def generation(self) -> int:
        """A number that grows whenever the libraries are replaced; values computed from them must be recomputed."""

    @property
    def learned_hosts(self) -> Collection[str]:
        """The hosts of documentation that package indexes name."""

    def get(self, library_id: str) -> Library | None:
        """Return the library with this identifier."""

    def __iter__(self) -> Iterator[Library]:
        """Iterate over all libraries."""


class Documents(Protocol):
    """Tables of contents, pages and search. Failures are `ProContextError` with a code of the catalogue."""

    async def index(self, library: Library) -> IndexText:
        """Return the table of contents of a library, from the cache if possible.

        Raises: LLMS_TXT_NOT_FOUND, LLMS_TXT_FETCH_FAILED, TOO_MANY_REDIRECTS.
        """

    async def select(self, library: Library, wanted: str | None) -> Library:
        """Return the library with the site of a version, or the library itself if there is no such site."""

    async def page(self, url: str, library: Library | None = None) -> Page:
        """Return a page as Markdown. `library` is the library it belongs to, if known.

        Raises: URL_NOT_ALLOWED, PAGE_NOT_FOUND, PAGE_FETCH_FAILED, TOO_MANY_REDIRECTS, INVALID_INPUT.
        """

    async def search(self, library_id: str, query: str, limit: int = 10) -> list[Hit]:
        """Return the stored sections of a library that match a query, best first. Never fetches."""

    async def cover(self, library: Library, wait_seconds: float | None = None, query: str = "") -> Coverage:
        """Fetch the missing pages of a library in the background, wait a moment, and return what a search covers.

        Pages that seem to be about `query` are fetched first.
        """

    async def prefetch(self, library: Library, progress: Progress | None = None) -> FetchReport:
        """Fetch and store the index and every page that it links and that is missing or stale.

        A failed page is skipped and logged; a failed index raises as in `index`.
        """

    async def settle(self) -> None:
        """Wait for the refreshes of stale documents that are running now."""

    async def status(self) -> CacheStatus:
        """Return the size and the location of the cache."""

    async def libraries(self) -> list[StoredLibrary]:
        """Return the libraries that have pages in the cache."""

    async def close(self) -> None:
        """Stop background tasks and close the cache. Stored documents are kept."""


__all__ = ["Documents", "Libraries", "Progress"]
