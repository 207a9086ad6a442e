"""The contract between the tools and the documents: what the tools ask for, and what whoever fetches and stores must give.

`procontext.page.LibraryDocuments` fulfils `Documents`; the registry fulfils `Libraries`. The tools and the command know these
two and nothing of sockets, caches or HTML; the documents know `Libraries` and nothing of matching or files.

Above: `tools`, `cli`, `app`, `page`. Below: `models`, `errors`.
"""

from collections.abc import Callable, Iterator
from typing import Protocol, TypeAlias

from procontext.models import Hit, IndexText, Library, Page

# Told while a library is fetched for later: how many pages are done, how many there are as far as is known, and the one
# that was just read (empty at the beginning).
Progress: TypeAlias = Callable[[int, int, str], None]


class Libraries(Protocol):
    """All that is known of libraries, private sources included. It may be replaced while the server runs."""

    @property
    def generation(self) -> int:
        """Grows by one whenever the rows are replaced: what was computed from older rows must be computed again."""

    def get(self, library_id: str) -> Library | None:
        """The library with this identifier."""

    def __iter__(self) -> Iterator[Library]:
        """Every library there is now."""


class Documents(Protocol):
    """Tables of contents, pages and search. Every method raises `ProContextError` with a code of the catalogue."""

    async def index(self, library: Library) -> IndexText:
        """The table of contents of a library, from the cache if it is there.

        Raises: LLMS_TXT_NOT_FOUND, LLMS_TXT_FETCH_FAILED, TOO_MANY_REDIRECTS.
        """

    async def page(self, url: str, library: Library | None = None) -> Page:
        """A page as Markdown. `library` is the one it belongs to, where that is known.

        Raises: URL_NOT_ALLOWED, PAGE_NOT_FOUND, PAGE_FETCH_FAILED, TOO_MANY_REDIRECTS, INVALID_INPUT.
        """

    async def search(self, library_id: str, query: str, limit: int = 10) -> list[Hit]:
        """The stored sections of a library that answer a query, best first. Never fetches."""

    async def count_pages(self, library_id: str) -> int:
        """How many pages of a library are stored, and so are searched."""

    async def prefetch(self, library: Library, progress: Progress | None = None) -> int:
        """Fetch and store the index and every page it names; returns how many pages are stored now.

        A page that fails is left out and logged; the index that fails raises as `index` does.
        """

    async def close(self) -> None:
        """Let go of the cache and end what runs in the background. Nothing stored is lost."""


__all__ = ["Documents", "Libraries", "Progress"]
