"""Lists of a server: all pages of one, and how long it may be kept.

A list is kept only as long as the server allows (`ttlMs`, 2026-07-28 server/utilities/caching), and forgotten at once when
the server says that it changed, when the connection is made again, and on `client.cache.clear()`.

Above: `_tools`, `_resources`, `_prompts`. Below: `_requests`.
"""

import asyncio
from typing import Any, Generic, TypeVar

import msgspec

from jackstay.client._deadline import Deadline
from jackstay.client._requests import CallOptions, Requests
from jackstay.errors import ProtocolError
from jackstay.protocol.client import Settings
from jackstay.types import CreateTaskResult, InputRequiredResult, PaginatedResult, decode_result

P = TypeVar("P", bound=PaginatedResult)

# What a change notification makes stale.
STALE_AFTER = {
    "notifications/tools/list_changed": ("tools/list",),
    "notifications/resources/list_changed": ("resources/list", "resources/templates/list"),
    "notifications/prompts/list_changed": ("prompts/list",),
}

# The attribute of a page that has its entries.
ENTRIES = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resource_templates",
    "prompts/list": "prompts",
}

# A server that gives a new cursor for ever is broken; a hundred thousand entries in pages of a hundred are not.
MAX_PAGES = 1000


class Cache:
    """What the server allowed to keep, by method. A client has one authorization, so it needs no further key."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[float, list[Any]]] = {}
        # How often each list was forgotten: what was asked for before that must not be kept after it.
        self._changes: dict[str, int] = {}
        self._clearings = 0

    def __repr__(self) -> str:
        return f"<Cache of {', '.join(self._kept) or 'nothing'}>"

    def get(self, method: str, now: float) -> list[Any] | None:
        """The pages kept for this method, if they are still good."""
        until, pages = self._kept.get(method, (0.0, None))
        return pages if pages is not None and now < until else None

    def mark(self, method: str) -> tuple[int, int]:
        """Where this list stands: pass it to `put` with what was fetched since."""
        return self._clearings, self._changes.get(method, 0)

    def put(self, method: str, pages: list[Any], now: float, mark: tuple[int, int]) -> None:
        """Keep these pages for as long as all of them allow, unless the list changed while they were fetched."""
        ttl = min((page.ttl_ms or 0 for page in pages), default=0)
        if ttl > 0 and mark == self.mark(method):
            self._kept[method] = now + ttl / 1000, pages

    def changed(self, notification: str) -> None:
        """The server says that a list changed."""
        for method in STALE_AFTER.get(notification, ()):
            self._kept.pop(method, None)
            self._changes[method] = self._changes.get(method, 0) + 1

    def clear(self) -> None:
        """Forget everything."""
        self._kept.clear()
        self._clearings += 1


class _PageReader(Generic[P]):
    """Reads the pages of one list, and refuses one that makes the list larger than the settings allow."""

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


async def pages(
    requests: Requests,
    cache: Cache,
    method: str,
    result: type[P],
    options: CallOptions,
    *,
    deadline: Deadline | None = None,
) -> list[P]:
    """Every page of a list, kept or fetched. A call with `meta` of its own is always made, and never kept.

    All pages together have one deadline: their own, or that of the call which needs the list.

    Raises: ProtocolError for a server that gives the same cursor twice and for a list that is larger than the settings
    allow, and as every request does.
    """
    loop = asyncio.get_running_loop()
    may_keep = not options.get("meta")
    kept = cache.get(method, loop.time()) if may_keep else None
    if kept is not None:
        return kept
    mark = cache.mark(method)
    deadline = deadline or requests.deadline(options)
    read = _PageReader(method, result, requests.connection.settings)
    fetched: list[P] = []
    seen: set[str] = set()
    params: dict[str, Any] = {}
    while len(fetched) < MAX_PAGES:
        page = await requests.ask(method, params, result, options, deadline=deadline, read=read)
        fetched.append(page)
        cursor = page.next_cursor
        if cursor is None:
            if may_keep:
                cache.put(method, fetched, loop.time(), mark)
            return fetched
        if cursor in seen:
            raise ProtocolError(
                "the server gave the same cursor twice", path="$.nextCursor", quote=cursor[:40], sent=True
            ).about(method, None)
        seen.add(cursor)
        params = {"cursor": cursor}
    raise ProtocolError(f"the list has more than {MAX_PAGES} pages", sent=True).about(method, None)
