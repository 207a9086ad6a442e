"""Paginated lists and their cache.

A list is cached for as long as the server allows (`ttlMs`, 2026-07-28 server/utilities/caching). A list-changed
notification, a reconnect and `client.cache.clear()` invalidate it.
"""

import re
from typing import Any

from jackstay.errors import ProtocolError
from jackstay.protocol import LISTS

# The lists that a notification invalidates.
INVALIDATES = {
    row.changed_by: tuple(name for name, each in LISTS.items() if each.changed_by == row.changed_by)
    for row in LISTS.values()
}

# The attribute of a page with its entries.
ENTRIES = {name: re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", row.entries) for name, row in LISTS.items()}

# Stops a server that returns new cursors forever; allows 100,000 entries in pages of 100.
MAX_PAGES = 1000


class Cache:
    """Cached lists by method. A client has one authorization, so no other key is needed."""

    def __init__(self) -> None:
        self._entries: dict[str, tuple[float, list[Any]]] = {}
        # How often each list was invalidated: a result requested before an invalidation must not be cached after it.
        self._versions = dict.fromkeys(LISTS, 0)

    def __repr__(self) -> str:
        return f"<Cache of {', '.join(self._entries) or 'nothing'}>"

    def get(self, method: str, now: float) -> list[Any] | None:
        """Return the cached pages of this method, or None if there are none or they have expired."""
        expires_at, pages = self._entries.get(method, (0.0, None))
        return pages if pages is not None and now < expires_at else None

    def version(self, method: str) -> int:
        """Return the version of this list. Pass it to `put()` with pages that were requested after this call."""
        return self._versions[method]

    def put(self, method: str, pages: list[Any], now: float, version: int) -> None:
        """Cache the pages for the shortest `ttlMs` among them, unless the list was invalidated since `version`."""
        ttl = min((page.ttl_ms or 0 for page in pages), default=0)
        if ttl > 0 and version == self.version(method):
            self._entries[method] = now + ttl / 1000, pages

    def invalidate(self, notification: str) -> None:
        """Remove the lists that this notification reports as changed."""
        for method in INVALIDATES.get(notification, ()):
            self._entries.pop(method, None)
            self._versions[method] += 1

    def clear(self) -> None:
        """Remove all lists."""
        for notification in INVALIDATES:
            self.invalidate(notification)


def repeated_cursor(method: str, cursor: str) -> ProtocolError:
    """Return the error for a list that has no end."""
    return ProtocolError(
        "the server returned the same cursor twice", path="$.nextCursor", quote=cursor[:40], sent=True
    ).about(method, None)
