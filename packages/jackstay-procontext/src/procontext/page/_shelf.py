"""The pages that were read last, ready to be cut into windows: so that the second window of a page costs no disk and no parsing.

Must never know time or the cache. Above: `_documents`. Below: nothing.
"""

from collections import OrderedDict
from typing import Final

import msgspec

from procontext.models import Page

# Characters. An agent reads a few pages by turns; most have fewer than 100,000, and the largest allowed has ten million.
ROOM: Final = 16_000_000


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """A page with what is needed to ask for it again. Times are seconds since 1970."""

    page: Page
    etag: str
    last_modified: str
    fetched_at: float
    checked_at: float


class Shelf:
    """A few pages by key; the one that was not asked for longest goes first."""

    def __init__(self, room: int = ROOM) -> None:
        self._room = room
        self._used = 0
        self._pages: OrderedDict[str, tuple[Kept, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._pages)

    def get(self, key: str) -> Kept | None:
        """The page, and it is now the one that was asked for last."""
        found = self._pages.get(key)
        if found is None:
            return None
        self._pages.move_to_end(key)
        return found[0]

    def put(self, key: str, kept: Kept) -> None:
        """Keep this page; one that is larger than all the room is not kept."""
        self.drop(key)
        # A line costs about 50 characters' worth of memory even when it is empty.
        size = sum(map(len, kept.page.lines)) + 50 * len(kept.page.lines)
        if size > self._room:
            return
        self._pages[key] = (kept, size)
        self._used += size
        while self._used > self._room:
            _, (_, dropped) = self._pages.popitem(last=False)
            self._used -= dropped

    def drop(self, key: str) -> None:
        """Forget this page."""
        found = self._pages.pop(key, None)
        if found is not None:
            self._used -= found[1]


__all__ = ["ROOM", "Kept", "Shelf"]
