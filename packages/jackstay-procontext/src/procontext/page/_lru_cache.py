"""An in-memory cache of the most recently read pages, so that further windows of a page need no disk access."""

from collections import OrderedDict
from typing import Final

import msgspec

from procontext.models import Page

# Most pages have fewer than 100,000 characters, and the largest allowed page has ten million.
MAX_CHARACTERS: Final = 16_000_000


class CachedPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page with the validators to revalidate it. Times are seconds since 1970."""

    page: Page
    etag: str
    last_modified: str
    fetched_at: float
    checked_at: float


class LruCache:
    """Pages by key, with eviction of the least recently used."""

    def __init__(self, max_characters: int = MAX_CHARACTERS) -> None:
        self._max_characters = max_characters
        self._used = 0
        self._pages: OrderedDict[str, tuple[CachedPage, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._pages)

    def get(self, key: str) -> CachedPage | None:
        """Return the page and mark it as the most recently used, or return None."""
        found = self._pages.get(key)
        if found is None:
            return None
        self._pages.move_to_end(key)
        return found[0]

    def put(self, key: str, cached: CachedPage) -> None:
        """Add a page. One that is larger than the whole cache is not added."""
        self.drop(key)
        # A line costs as much memory as about 50 characters even if it is empty.
        size = sum(map(len, cached.page.lines)) + 50 * len(cached.page.lines)
        if size > self._max_characters:
            return
        self._pages[key] = (cached, size)
        self._used += size
        while self._used > self._max_characters:
            _, (_, dropped) = self._pages.popitem(last=False)
            self._used -= dropped

    def drop(self, key: str) -> None:
        """Remove a page."""
        found = self._pages.pop(key, None)
        if found is not None:
            self._used -= found[1]


__all__ = ["MAX_CHARACTERS", "CachedPage", "LruCache"]
