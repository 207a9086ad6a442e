"""Fake `Documents` of `procontext.interfaces`, without a network or a cache."""

from typing import Any

from procontext.errors import ProContextError
from procontext.interfaces import Progress
from procontext.models import CacheStatus, Coverage, FetchReport, Hit, IndexText, Library, Page, StoredLibrary
from procontext.page import markdown_page


class ScriptedDocuments:
    """Tables of contents by library, pages by address, hits by library; an error in their place is raised."""

    def __init__(self) -> None:
        self.indexes: dict[str, IndexText | ProContextError] = {}
        self.pages: dict[str, Page | ProContextError] = {}
        self.hits: dict[str, list[Hit]] = {}
        self.requested: list[Any] = []
        self.selected: list[str | None] = []
        self.is_closed = False

    def put_page(self, url: str, text: str) -> None:
        self.pages[url] = markdown_page(url, text)

    def put_index(self, library_id: str, text: str, **more: Any) -> None:
        self.indexes[library_id] = IndexText(text=text, source="llms.txt", url="https://x/llms.txt", **more)

    async def index(self, library: Library) -> IndexText:
        self.requested.append(library.id)
        return _raise_or_return(self.indexes[library.id])

    async def select(self, library: Library, wanted: str | None) -> Library:
        self.selected.append(wanted)
        return library

    async def page(self, url: str, library: Library | None = None) -> Page:
        self.requested.append(url)
        return _raise_or_return(self.pages[url.partition("#")[0]])

    async def search(self, library_id: str, query: str, limit: int = 10) -> list[Hit]:
        self.requested.append((library_id, query))
        return self.hits.get(library_id, [])[:limit]

    async def cover(self, library: Library, wait_seconds: float | None = None, query: str = "") -> Coverage:
        return Coverage(pages=len(self.pages), total=len(self.pages))

    async def prefetch(self, library: Library, progress: Progress | None = None) -> FetchReport:
        self.requested.append(library.id)
        _raise_or_return(self.indexes[library.id])
        if progress is not None:
            progress(0, 1, "")
            progress(1, 1, "https://x/page")
        return FetchReport(stored=1, total=1)

    async def status(self) -> CacheStatus:
        return CacheStatus("memory", True, len(self.pages), 0, 0)

    async def settle(self) -> None:
        self.requested.append("settle")

    async def libraries(self) -> list[StoredLibrary]:
        return []

    async def close(self) -> None:
        self.is_closed = True


def _raise_or_return(found: Any) -> Any:
    if isinstance(found, ProContextError):
        raise found
    return found
