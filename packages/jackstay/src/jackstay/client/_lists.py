"""Paginated lists and their cache.

A list is cached for as long as the server allows (`ttlMs`, 2026-07-28 server/utilities/caching). A list-changed
notification, a reconnect and `client.cache.clear()` invalidate it.
"""

import asyncio
import re
from typing import Any, Generic, TypeVar

import msgspec

from jackstay.client._deadline import Deadline
from jackstay.client._requests import CallOptions, Requests
from jackstay.errors import ProtocolError
from jackstay.protocol import LISTS
from jackstay.protocol.client import Settings
from jackstay.types import CreateTaskResult, InputRequiredResult, PaginatedResult, decode_result

P = TypeVar("P", bound=PaginatedResult)

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
        self._invalidations: dict[str, int] = {}
        self._clear_count = 0

    def __repr__(self) -> str:
        return f"<Cache of {', '.join(self._entries) or 'nothing'}>"

    def get(self, method: str, now: float) -> list[Any] | None:
        """Return the cached pages of this method, or None if there are none or they have expired."""
        expires_at, pages = self._entries.get(method, (0.0, None))
        return pages if pages is not None and now < expires_at else None

    def version(self, method: str) -> tuple[int, int]:
        """Return the version of this list. Pass it to `put()` with pages that were requested after this call."""
        return self._clear_count, self._invalidations.get(method, 0)

    def put(self, method: str, pages: list[Any], now: float, version: tuple[int, int]) -> None:
        """Cache the pages for the shortest `ttlMs` among them, unless the list was invalidated since `version`."""
        ttl = min((page.ttl_ms or 0 for page in pages), default=0)
        if ttl > 0 and version == self.version(method):
            self._entries[method] = now + ttl / 1000, pages

    def invalidate(self, notification: str) -> None:
        """Remove the lists that this notification reports as changed."""
        for method in INVALIDATES.get(notification, ()):
            self._entries.pop(method, None)
            self._invalidations[method] = self._invalidations.get(method, 0) + 1

    def clear(self) -> None:
        """Remove all lists."""
        self._entries.clear()
        self._clear_count += 1


class _PageReader(Generic[P]):
    """Decodes the pages of one list and enforces `max_list_bytes` and `max_list_entries`."""

    def __init__(self, method: str, result: type[P], settings: Settings) -> None:
        self._member = ENTRIES[method]
        self._result = result
        self._settings = settings
        self._bytes = 0
        self._entries = 0

    def __call__(self, raw: msgspec.Raw) -> P | InputRequiredResult | CreateTaskResult:
        """Return the decoded page. Raises: ProtocolError."""
        self._bytes += memoryview(raw).nbytes
        limit = self._settings.max_list_bytes
        if self._bytes > limit:
            raise ProtocolError(f"the list is larger than {limit} bytes (max_list_bytes)", sent=True)
        page = decode_result(self._result, raw)
        self._entries += len(getattr(page, self._member, ()))
        limit = self._settings.max_list_entries
        if self._entries > limit:
            raise ProtocolError(f"the list has more than {limit} entries (max_list_entries)", sent=True)
        return page


def repeated_cursor(method: str, cursor: str) -> ProtocolError:
    """Return the error for a list that has no end."""
    return ProtocolError(
        "the server returned the same cursor twice", path="$.nextCursor", quote=cursor[:40], sent=True
    ).about(method, None)


async def fetch_pages(
    requests: Requests,
    cache: Cache,
    method: str,
    result: type[P],
    options: CallOptions,
    *,
    deadline: Deadline | None = None,
) -> list[P]:
    """Return all pages of a list, from the cache or from the server. A call with `meta` bypasses the cache.

    All pages share one deadline: `deadline` if this is part of a larger call, else that of `options`.

    Raises: ProtocolError for a repeated cursor and for a list that exceeds the limits; as every request.
    """
    loop = asyncio.get_running_loop()
    may_cache = not options.get("meta")
    cached = cache.get(method, loop.time()) if may_cache else None
    if cached is not None:
        return cached
    version = cache.version(method)
    deadline = deadline or requests.deadline(options)
    read = _PageReader(method, result, requests.connection.settings)
    fetched: list[P] = []
    seen: set[str] = set()
    params: dict[str, Any] = {}
    while len(fetched) < MAX_PAGES:
        page = await requests.request(method, params, result, options, deadline=deadline, read=read)
        fetched.append(page)
        cursor = page.next_cursor
        if cursor is None:
            if may_cache:
                cache.put(method, fetched, loop.time(), version)
            return fetched
        if cursor in seen:
            raise repeated_cursor(method, cursor)
        seen.add(cursor)
        params = {"cursor": cursor}
    raise ProtocolError(f"the list has more than {MAX_PAGES} pages", sent=True).about(method, None)
