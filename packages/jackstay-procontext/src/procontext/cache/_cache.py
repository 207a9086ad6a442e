"""The asyncio API of the cache: the operations of `_store`, run in one dedicated thread.

One thread, because a SQLite connection belongs to one, and so that a slow disk delays only the callers of the cache.
"""

import asyncio
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from procontext.cache._rows import Document, Section
from procontext.cache._store import Store
from procontext.models import CacheStatus, Hit, StoredLibrary

_T = TypeVar("_T")


class Cache:
    """The cache on disk. Create it with `open`; `close` writes everything that is pending."""

    def __init__(self, store: Store, thread: ThreadPoolExecutor) -> None:
        self._store = store
        self._thread = thread
        self._evicting: asyncio.Task[None] | None = None
        self._is_closed = False

    def __repr__(self) -> str:
        return f"<Cache {':memory:' if self._store.is_in_memory else self._store.path}>"

    @classmethod
    async def open(cls, directory: Path, max_bytes: int, clock: Callable[[], float] = time.time) -> "Cache":
        """Open the cache in a directory, which is created if necessary. Never fails: the fallback is memory."""
        thread = ThreadPoolExecutor(1, thread_name_prefix="procontext-cache")
        try:
            store = await asyncio.get_running_loop().run_in_executor(thread, Store, directory, max_bytes, clock)
        except BaseException:
            thread.shutdown(wait=False)
            raise
        return cls(store, thread)

    async def _run(self, operation: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, operation)

    async def get(self, key: str) -> Document | None:
        """Return the document with this key, or None."""
        return await self._run(lambda: self._store.get(key))

    async def contains(self, key: str) -> bool:
        """Return whether the document is stored on disk, where another process can find it."""
        return await self._run(lambda: self._store.contains(key))

    async def put(
        self,
        document: Document,
        library_ids: Iterable[str] = (),
        sections: Iterable[Section] = (),
        links: Iterable[str] | None = None,
    ) -> bool:
        """Store a document with its sections in one transaction. Return False if the disk refused it.

        If the file is too large afterwards, the least recently used documents are evicted in the background.
        """
        is_stored = await self._run(lambda: self._store.put(document, library_ids, sections, links))
        await self._evict_if_full()
        return is_stored

    def touch(self, key: str) -> None:
        """Record a use of a document that was not read from the cache."""
        self._store.quota.touch(key)

    async def join(self, library_id: str, key: str) -> None:
        """Add a document to a library, so that a search of the library finds it."""
        await self._run(lambda: self._store.join(library_id, key))

    async def confirm(self, key: str, checked_at: float) -> None:
        """Record that the host confirmed a document as unchanged."""
        await self._run(lambda: self._store.confirm(key, checked_at))

    async def libraries_linking(self, url: str) -> tuple[str, ...]:
        """Return the libraries whose index contains this exact link."""
        return await self._run(lambda: self._store.libraries_linking(url))

    async def count_pages(self, library_id: str) -> int:
        """Return the number of pages of a library that can be searched."""
        return await self._run(lambda: self._store.count_pages(library_id))

    async def count_links(self, library_id: str) -> int:
        """Return the number of links in the table of contents of a library."""
        return await self._run(lambda: self._store.count_links(library_id))

    async def stored(self, keys: Iterable[str]) -> set[str]:
        """Return those of the keys that have a document."""
        return await self._run(lambda: self._store.stored(keys))

    async def search(self, library_id: str, query: str, limit: int) -> list[Hit]:
        """Return the sections of a library that match a query, best first."""
        return await self._run(lambda: self._store.search(library_id, query, limit))

    async def clean(self, before: float) -> int:
        """Remove documents that no host has confirmed since `before`. Return how many were removed."""
        removed = await self._run(lambda: self._store.clean(before))
        await self._evict_if_full()
        return removed

    async def _evict_if_full(self) -> None:
        is_full = self._evicting is None and await self._run(lambda: self._store.is_full)
        if is_full and self._evicting is None and not self._is_closed:  # another caller may have started it
            self._evicting = asyncio.create_task(self._evict())

    async def _evict(self) -> None:
        """Evict in small steps; other cache operations run between two steps."""
        try:
            while await self._run(self._store.evict_step):
                pass
        finally:
            self._evicting = None

    async def status(self) -> CacheStatus:
        """Return the size and the location of the cache."""
        return await self._run(self._store.status)

    async def libraries(self) -> list[StoredLibrary]:
        """Return the libraries that have pages."""
        return await self._run(self._store.libraries)

    async def close(self) -> None:
        """Finish pending operations and close the file. Further calls do nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._evicting is not None:
            self._evicting.cancel()  # the next process that opens the file continues it
            await asyncio.wait([self._evicting])
        await self._run(self._store.close)
        self._thread.shutdown(wait=False)


__all__ = ["Cache"]
