"""The cache as the event loop sees it: the same operations, awaited, all of them in one thread of their own.

One thread because a SQLite connection likes one, and because a slow disk must make its own callers wait and nobody else.

Must never know what a page is for. Above: `procontext.page`. Below: `_store`.
"""

import asyncio
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from procontext.cache._rows import CacheStatus, Document, Section
from procontext.cache._store import Store
from procontext.models import Hit

_T = TypeVar("_T")


class Cache:
    """What is kept on disk. Make it with `open`; `close` it, and nothing is lost."""

    def __init__(self, store: Store, thread: ThreadPoolExecutor) -> None:
        self._store = store
        self._thread = thread
        self._making_room: asyncio.Task[None] | None = None
        self._is_closed = False

    def __repr__(self) -> str:
        return f"<Cache {':memory:' if self._store.is_in_memory else self._store.path}>"

    @classmethod
    async def open(cls, directory: Path, max_bytes: int, clock: Callable[[], float] = time.time) -> "Cache":
        """The cache in a directory, which is made if it is not there. Never fails: in the worst case it is in memory."""
        thread = ThreadPoolExecutor(1, thread_name_prefix="procontext-cache")
        try:
            store = await asyncio.get_running_loop().run_in_executor(
                thread, Store, directory, max_bytes, clock
            )
        except BaseException:
            thread.shutdown(wait=False)
            raise
        return cls(store, thread)

    async def _run(self, operation: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, operation)

    async def get(self, key: str) -> Document | None:
        """What is kept under this key, if anything."""
        return await self._run(lambda: self._store.get(key))

    async def holds(self, key: str) -> bool:
        """Whether it is kept on the disk, where the next process finds it."""
        return await self._run(lambda: self._store.holds(key))

    async def put(
        self,
        document: Document,
        library_ids: Iterable[str] = (),
        sections: Iterable[Section] = (),
        links: Iterable[str] | None = None,
    ) -> bool:
        """Keep a document with its sections, in one transaction; False if the disk would not have it.

        If that made the file too large, what was used longest ago goes, behind the caller's back.
        """
        is_kept = await self._run(lambda: self._store.put(document, library_ids, sections, links))
        await self._look_for_room()
        return is_kept

    def touch(self, key: str) -> None:
        """Note that a document was used, though not read from here."""
        self._store.room.touch(key)

    async def join(self, library_id: str, key: str) -> None:
        """Say that a document belongs to a library too, so that searches of it find it."""
        await self._run(lambda: self._store.join(library_id, key))

    async def confirm(self, key: str, checked_at: float) -> None:
        """Note that a document is unchanged at its host."""
        await self._run(lambda: self._store.confirm(key, checked_at))

    async def libraries_linking(self, url: str) -> tuple[str, ...]:
        """The libraries whose own index has this exact link."""
        return await self._run(lambda: self._store.libraries_linking(url))

    async def count_pages(self, library_id: str) -> int:
        """How many pages of a library can be searched."""
        return await self._run(lambda: self._store.count_pages(library_id))

    async def search(self, library_id: str, query: str, limit: int) -> list[Hit]:
        """The sections of a library that answer a query, best first."""
        return await self._run(lambda: self._store.search(library_id, query, limit))

    async def clean(self, before: float) -> int:
        """Remove what no host has confirmed since then; how many documents that were."""
        removed = await self._run(lambda: self._store.clean(before))
        await self._look_for_room()
        return removed

    async def _look_for_room(self) -> None:
        is_full = self._making_room is None and await self._run(lambda: self._store.is_full)
        if is_full and self._making_room is None and not self._is_closed:  # several may have asked at once
            self._making_room = asyncio.create_task(self._make_room())

    async def _make_room(self) -> None:
        """Piece by piece: what others ask of the cache meanwhile is done between two pieces."""
        try:
            while await self._run(self._store.make_room):
                pass
        finally:
            self._making_room = None

    async def status(self) -> CacheStatus:
        """How much is kept, and where."""
        return await self._run(self._store.status)

    async def close(self) -> None:
        """Finish what was begun and let go of the file. Once more does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._making_room is not None:
            self._making_room.cancel()  # the next one who opens the file goes on with it
            await asyncio.wait([self._making_room])
        await self._run(self._store.close)
        self._thread.shutdown(wait=False)


__all__ = ["Cache"]
