"""The lists of an upstream server, kept in the catalogue of its proxy so that another server can mount them.

They are fetched when the server is ready and when it announces a change, and are empty while it is down. A server that
hangs, floods or sends invalid lists affects only its own entries, and a list that fails does not affect the others.
"""

import asyncio
import builtins
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from jackstay.errors import JsonRpcError, McpError, ProtocolError, TimeoutError
from jackstay.protocol import LISTS
from jackstay.protocol.wire import ErrorCode
from jackstay.proxy._eras import Eras
from jackstay.proxy._upstream import Upstream
from jackstay.server import CHANGES, Catalogue, Kind, make_entry, read_key
from jackstay.types import DECODE_ERRORS

logger = logging.getLogger("jackstay.proxy")

# How long the start of a program waits for its mounted servers. Those that are late appear when they are ready. Clients
# wait 10 s or more for the program itself.
START_TIMEOUT = 5.0

# The shortest time between two fetches of the lists: a server may announce changes without end.
REFRESH_INTERVAL = 0.1

# The delay before a list that the server refused, or did not send in time, is fetched again. It doubles each time.
RETRY_MIN = 1.0
RETRY_MAX = 60.0

# Entries of one list, pages of one list, and bytes of one list item that are accepted.
MAX_LISTED = 10_000
MAX_LIST_PAGES = 1_000
MAX_ITEM_BYTES = 1_048_576

# The lists that a notification announces changes of. They are fetched together, so that clients are notified once.
_GROUPS = {method: [kind for kind in Kind if CHANGES[kind] == method] for method in CHANGES.values()}
_METHODS = {Kind(row.entries): method for method, row in LISTS.items() if row.entries in set(Kind)}
_read_page = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_read_items = msgspec.json.Decoder(list[msgspec.Raw]).decode
_read_cursor = msgspec.json.Decoder(str | None).decode


class Mirror:
    """Copies the lists of the server behind `eras` to `catalogue`.

    Args:
        name: of the server, for logs.
        notify: called with a notification that concerns the servers in which the proxy is mounted.
    """

    def __init__(self, name: str, catalogue: Catalogue, eras: Eras, notify: Callable[[str, str, bytes], None]) -> None:
        self._name = name
        self._catalogue = catalogue
        self._eras = eras
        self._notify = notify
        self._blocks = {kind: catalogue.reserve(kind, MAX_LISTED) for kind in Kind}
        # By the notification that announces a change: what is to be fetched, what fetches it, the timers and the number
        # of attempts after a failure, and why lists are not complete.
        self._due: set[str] = set()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._failures: dict[str, int] = {}
        self._causes: dict[str, str] = {}
        # What was not fetched yet since the server became ready.
        self._missing: set[str] = set()
        # Set when the server was listed for the first time, or its first start has failed.
        self._settled: asyncio.Event | None = None
        # True once the server was listed.
        self.is_listed = False
        # What was last logged as left out of each list.
        self._left_out: dict[Kind, str] = {}

    def __repr__(self) -> str:
        return f"<Mirror {self._catalogue!r}>"

    @property
    def cause(self) -> str:
        """Why the lists are not complete; empty if they are."""
        return next(iter(self._causes.values()), "")

    async def wait_for_start(self) -> None:
        """Wait until the lists are known, or the first start has failed, or `START_TIMEOUT` has passed."""
        self._settled = self._settled or asyncio.Event()
        try:
            async with asyncio.timeout(START_TIMEOUT):
                await self._settled.wait()
        except builtins.TimeoutError:
            pass
        first = self._eras.first
        if first is not None and not first.is_ready():
            logger.warning("%s: mounted without its entries until it is ready: %s", self._name, first.cause)

    def stop(self) -> None:
        """Stop fetching, and forget the lists."""
        for task in self._tasks.values():
            task.cancel()
        self._cancel_retries()
        self._settled = None
        self._clear()

    def state_changed(self, upstream: Upstream) -> None:
        """The server became ready, or was lost."""
        if upstream is not self._eras.first:
            return
        self._cancel_retries()
        if upstream.is_ready():
            self._causes.clear()
            self._missing = set(_GROUPS)
            for method in _GROUPS:
                self._fetch_soon(upstream, method)
            return
        self._causes = {"": upstream.cause}
        self._clear()
        self._settle()

    def changed(self, upstream: Upstream, method: str, uri: str, params: bytes) -> None:
        """The server has announced a change of a list or of a resource."""
        if method not in _GROUPS:
            self._notify(method, uri, params)
        elif upstream is self._eras.first:
            self._fetch_soon(upstream, method)

    # --- fetching -----------------------------------------------------------------------------------------------------

    def _fetch_soon(self, upstream: Upstream, method: str) -> None:
        self._due.add(method)
        if method not in self._tasks:
            self._tasks[method] = asyncio.get_running_loop().create_task(self._fetch_due(upstream, method))
            self._tasks[method].add_done_callback(partial(self._fetched, method))

    def _fetched(self, method: str, task: "asyncio.Task[None]") -> None:
        del self._tasks[method]
        if not task.cancelled() and task.exception() is not None:
            logger.error("internal error while listing an upstream server", exc_info=task.exception())

    async def _fetch_due(self, upstream: Upstream, method: str) -> None:
        while method in self._due and upstream.is_ready():
            self._due.discard(method)
            lists: dict[Kind, list[Any]] = {}
            failure: McpError | None = None
            for kind in _GROUPS[method]:
                try:
                    lists[kind] = await self._fetch(upstream, kind)
                except McpError as error:
                    failure = error
            if upstream.is_ready():
                for kind, entries in lists.items():
                    self._catalogue.swap(kind, self._blocks[kind], entries)
                self._report(upstream, method, failure)
                self._missing.discard(method)
                if not self._missing:
                    self.is_listed = self.is_listed or not self._causes
                    self._settle()
            await asyncio.sleep(REFRESH_INTERVAL)

    def _report(self, upstream: Upstream, method: str, failure: McpError | None) -> None:
        """Keep and log why a list is not complete, and fetch it again later if that may help."""
        before = self._causes.pop(method, "")
        if failure is None:
            self._failures.pop(method, None)
            if method in self._timers:
                self._timers.pop(method).cancel()
            return
        self._causes[method] = f"cannot list the entries: {failure.message}"
        if self._causes[method] != before:  # not again for each attempt
            logger.warning("%s: cannot list the entries: %s", self._name, failure)
        if isinstance(failure, JsonRpcError | TimeoutError) and method not in self._timers:
            failures = self._failures[method] = self._failures.get(method, 0) + 1
            delay = min(RETRY_MIN * 2 ** min(failures - 1, 10), RETRY_MAX)
            self._timers[method] = asyncio.get_running_loop().call_later(delay, self._retry, upstream, method)

    def _retry(self, upstream: Upstream, method: str) -> None:
        del self._timers[method]
        self._fetch_soon(upstream, method)

    def _cancel_retries(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._failures.clear()

    async def _fetch(self, upstream: Upstream, kind: Kind) -> list[Any]:
        """Return the entries of one list. Invalid and duplicate items are left out. Raises: McpError."""
        method = _METHODS[kind]
        if LISTS[method].capability not in _read_page(upstream.facts.capabilities):
            return []
        found: dict[str, Any] = {}
        left_out: list[str] = []
        cursor: str | None = None
        seen: set[str] = set()
        for _ in range(MAX_LIST_PAGES):
            params = b"{}" if cursor is None else msgspec.json.encode({"cursor": cursor})
            try:
                page = _read_page(await self._fetch_page(upstream, method, params))
                items = _read_items(page[LISTS[method].entries])
                cursor = _read_cursor(page.get("nextCursor", msgspec.Raw(b"null")))
            except (*DECODE_ERRORS, KeyError) as error:
                raise ProtocolError(f"invalid result of {method}: {error}") from error
            for item in items:
                _add(found, left_out, kind, item)
            if len(found) > MAX_LISTED:
                raise ProtocolError(f"{method} returned more than {MAX_LISTED} entries")
            if not cursor:
                self._log_left_out(kind, left_out)
                return list(found.values())
            if cursor in seen:
                raise ProtocolError(f"{method} returned the same cursor twice: {cursor[:40]!r}")
            seen.add(cursor)
        raise ProtocolError(f"{method} returned more than {MAX_LIST_PAGES} pages")

    async def _fetch_page(self, upstream: Upstream, method: str, params: bytes) -> bytes:
        """Return a page. A list that the server does not know is empty: many have resources, but no templates."""
        try:
            return await upstream.fetch(method, params)
        except JsonRpcError as error:
            if error.code != ErrorCode.METHOD_NOT_FOUND:
                raise
            return msgspec.json.encode({LISTS[method].entries: []})

    def _log_left_out(self, kind: Kind, reasons: list[str]) -> None:
        """Log what was left out of a list, unless the same was logged before: a list may be fetched very often."""
        text = "" if not reasons else reasons[0] if len(reasons) == 1 else f"{reasons[0]} (and {len(reasons) - 1} more)"
        if text and text != self._left_out.get(kind):
            logger.warning("%s: left out: %s", self._name, text)
        self._left_out[kind] = text

    def _clear(self) -> None:
        for kind, block in self._blocks.items():
            self._catalogue.swap(kind, block, [])

    def _settle(self) -> None:
        self._settled = self._settled or asyncio.Event()
        self._settled.set()


def _add(found: dict[str, Any], left_out: list[str], kind: Kind, item: msgspec.Raw) -> None:
    """Add an item to the entries that were found, or the reason why it is left out."""
    try:
        if len(bytes(item)) > MAX_ITEM_BYTES:
            raise ProtocolError(f"an item in the list of {kind} has more than {MAX_ITEM_BYTES} bytes")
        key, members = read_key(kind, item)
        found.setdefault(key, make_entry(kind, members, key))
    except ProtocolError as error:
        left_out.append(str(error))
