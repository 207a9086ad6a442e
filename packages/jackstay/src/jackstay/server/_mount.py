"""One mount: a server whose tools, resources and prompts are part of another server, the host.

The host's catalogue has a copy of each list item, with a prefix. Names and URIs are translated here, in both
directions.
"""

from __future__ import annotations

import logging
import re
import threading
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from jackstay.errors import JsonRpcError, UsageError, did_you_mean
from jackstay.server._catalogue import CHANGES, Kind
from jackstay.server._changes import GAP
from jackstay.server._mounted_entries import (
    Members,
    Mounted,
    make_entry,
    read_key,
    read_members,
)
from jackstay.server._mounted_uris import UriPrefix, translate_app, translate_uris
from jackstay.server._transforms import Plan, Table, Transforms, transform_item

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from jackstay.protocol.server import events as e
    from jackstay.server._driver import Caller, Driver, Outcome
    from jackstay.server._entries import Entry
    from jackstay.server._server import Server

logger = logging.getLogger("jackstay.server")

# Between the prefix and the name of a tool or prompt.
SEPARATOR = "_"
_PREFIX = r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,62}[A-Za-z0-9])?"

# Positions in a list that are reserved for one mount, so that its entries keep their place when they come back.
MAX_ENTRIES = 100_000

_UPDATED = "notifications/resources/updated"
_KINDS = {method: [kind for kind in Kind if CHANGES[kind] == method] for method in CHANGES.values()}

# Every capability: that of a server that is not known yet.
ALL = (True, True, True, True)


class Mount:
    """A server that is mounted in another one, its host.

    Args:
        host: the server that lists and forwards.
        child: the mounted server.
        prefix: precedes names and URIs; empty for none.
        separator: between the prefix and a name.

    Raises: UsageError for an invalid prefix.
    """

    def __init__(self, host: Server, child: Server, prefix: str = "", separator: str = SEPARATOR) -> None:
        if prefix and re.fullmatch(_PREFIX, prefix) is None:
            message = f"prefix must be 1 to 64 letters and digits, with _ . - between them, not {prefix!r}"
            raise UsageError(message, path="prefix")
        self.host = host
        self.child = child
        self.prefix = prefix
        self.uris = UriPrefix(prefix)
        self._separator = separator
        self._lock = threading.RLock()
        # The positions of its entries in the lists of the host.
        self.blocks = {kind: host.catalogue.reserve(kind, MAX_ENTRIES) for kind in Kind}
        # Returns whether a tool, by its original name, is part of the host. None: all are.
        self.allows: Callable[[str], bool] | None = None
        self.table: Table | None = None  # see `transform()`
        # How the arguments of a tool are changed, by its name at the host.
        self.plans: dict[str, Plan] = {}
        # Name or URI at the host -> that of the mounted server. Those of a server that is down are kept.
        self.routes: dict[Kind, dict[str, str]] = {kind: {} for kind in Kind}

    def __repr__(self) -> str:
        return f"<Mount {self.prefix or '(no prefix)'} {self.child!r}>"

    # --- entries ------------------------------------------------------------------------------------------------------

    @property
    def is_down(self) -> bool:
        """True if the mounted server is lost: its entries are not listed, but calls wait for it."""
        return False

    @property
    def is_listed(self) -> bool:
        """True once the entries of the mounted server are known."""
        return True

    def registered(self) -> tuple[bool, bool, bool, bool]:
        """Return the capabilities of the mounted server, as `Catalogue.registered`."""
        mounts = self.child._mounts
        return self.child.catalogue.registered if mounts is None else mounts.registered()

    def refresh(self, kinds: Iterable[Kind] = tuple(Kind), *, is_strict: bool = False) -> None:
        """Bring the host's lists up to date: one notification for each list that changed. Thread-safe.

        Raises: UsageError for a name that the host already has, if `is_strict`. Otherwise the entry is left out.
        """
        for kind in kinds:
            with self._lock:
                entries = self._entries(kind, is_strict)
                if entries or not self.is_down:
                    self.routes[kind] = {entry.key: entry.original for entry in entries}
                self.host.catalogue.swap(kind, self.blocks[kind], entries)

    def clear(self) -> None:
        """Remove all entries from the host."""
        with self._lock:
            for kind, block in self.blocks.items():
                self.routes[kind] = {}
                self.host.catalogue.swap(kind, block, [], is_final=True)

    def _entries(self, kind: Kind, is_strict: bool) -> list[Mounted]:
        found: dict[str, Mounted] = {}
        for entry in self.child.catalogue.entries(kind):
            if kind is Kind.TOOLS and self.allows is not None and not self.allows(entry.key):
                continue
            try:
                made = self._mounted(kind, entry)
            except UsageError as error:
                if is_strict:
                    raise
                logger.warning("cannot mount %r of %r: %s", entry.key, self.child.name, error)
                continue
            if made is None:
                continue
            taken = None
            if made.key in found:
                taken = f"its {kind} {found[made.key].original!r} and {made.original!r} have the same name here"
            elif self.host.catalogue.is_taken(kind, made.key, self.blocks[kind]):
                taken = f"{self.host.name!r} already has an entry of this name in {kind}"
            if taken is None:
                found[made.key] = made
                continue
            message = f"cannot mount {made.key!r} of {self.child.name!r}: {taken}; mount it with another prefix"
            if is_strict:
                raise UsageError(message, path="prefix")
            logger.warning("%s", message)
        return list(found.values())

    def _mounted(self, kind: Kind, entry: Entry) -> Mounted | None:
        """Return the entry for the host, or None if it is hidden. Raises: UsageError for a transform that fails."""
        original, members = read_key(kind, entry.listed)
        name, plan = original, None
        if self.table is not None:
            key, row = self.table.find(kind, entry)
            if row is None:
                return None
            name = row.name or original
            plan = transform_item(kind, members, row, key)
        is_named = kind in (Kind.TOOLS, Kind.PROMPTS)
        key = self.name_of(name) if is_named else self.uris.add(original)
        if kind is Kind.TOOLS:
            translate_app(members, self.uris.add)
            self.plans.pop(key, None)
            if plan is not None:
                self.plans[key] = plan
        return make_entry(kind, members, key, mount=self, original=original, like=entry)

    def transform(self, transforms: Transforms | None) -> None:
        """Change entries by this table; None: only by the prefix. Raises: UsageError."""
        self.table = Table(transforms) if transforms else None

    def serves(self, uri: str) -> bool:
        """Return whether a URI of the mounted server can be read at the host. Not if transforms hide it."""
        return self.table is None or not self.table.hides(uri, self.child.catalogue)

    def name_of(self, name: str) -> str:
        """Return the name at the host."""
        return f"{self.prefix}{self._separator}{name}" if self.prefix else name

    # --- requests -----------------------------------------------------------------------------------------------------

    def serve(self, connection: Driver, request: e.Serve, caller: Caller, members: Members) -> Outcome:
        """Forward a request of a client of the host, with these params, to the mounted server."""
        inner: e.Serve = msgspec.structs.replace(request, params=Raw(msgspec.json.encode(members)))
        try:
            outcome = self._serve_child(connection, inner, caller)
        except JsonRpcError as error:
            raise self._translated_error(request.method.name, error) from None
        if not self.prefix or outcome is None:
            return outcome
        if isinstance(outcome, bytes):
            return translate_uris(request.method.name, outcome, self.uris.add)
        return self._translated(request.method.name, outcome)

    async def _translated(self, method: str, outcome: Any) -> bytes:
        try:
            return translate_uris(method, await outcome, self.uris.add)
        except JsonRpcError as error:
            raise self._translated_error(method, error) from None

    def _translated_error(self, method: str, error: JsonRpcError) -> JsonRpcError:
        """Return an error about a resource with its URI at the host."""
        data = error.data if method == "resources/read" and self.prefix else None
        uri = data.get("uri") if isinstance(data, dict) else None
        if not isinstance(data, dict) or not isinstance(uri, str) or error.code is None:
            return error
        return JsonRpcError(error.code, error.message, {**data, "uri": self.uris.add(uri)})

    def _serve_child(self, connection: Driver, request: e.Serve, caller: Caller) -> Outcome:
        return self.child._dispatch.serve_mounted(connection, request, caller)

    async def subscribe(self, connection: Driver, uri: str, key: tuple[int, int], *, is_stateless: bool) -> bool:
        """Subscribe to a resource of the mounted server. Returns False if it does not exist."""
        mounts = self.child._mounts
        if mounts is None:
            return self.child.catalogue.find_resource(uri) is not None
        return await mounts.subscribe(connection, uri, key, is_stateless=is_stateless)

    def unsubscribe(self, uri: str, key: tuple[int, int]) -> None:
        """End the subscription `key` to a resource of the mounted server."""
        if self.child._mounts is not None:
            self.child._mounts.unsubscribe(uri, key)

    def forget(self, connection: Driver) -> None:
        """Release what belongs to a connection that has ended."""
        if self.child._mounts is not None:
            self.child._mounts.forget(connection)

    async def set_level(self, connection: Driver) -> None:
        """The client of this connection has set its log level."""
        if self.child._mounts is not None:
            await self.child._mounts.set_level(connection)

    def notified(self, connection: Driver, method: str, params: Raw | None) -> None:
        """Forward a notification of the client."""
        self.child._handlers.notified(connection, method, params)

    # --- lifecycle ----------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start the mounted server. Raises: whatever its startup hooks raise."""
        await self.child.startup(self)
        if self.table is not None and self.is_listed:
            catalogue = self.child.catalogue
            names = [entry.key for kind in (Kind.TOOLS, Kind.PROMPTS) for entry in catalogue.entries(kind)]
            for key in self.table.unused(names):
                message = "transforms[%r] applies to nothing: %r has no such tool or prompt%s"
                logger.warning(message, key, self.child.name, did_you_mean(key, names))

    async def stop(self) -> None:
        """Stop the mounted server, unless something else uses it."""
        await self.child.shutdown(self)

    def changed(self, method: str, uri: str, params: bytes) -> None:
        """The mounted server has published a change: update the host. Thread-safe."""
        if method == _UPDATED:
            if self.serves(uri):
                self.host._notify(method, self.uris.add(uri), self._updated(params))
        else:
            self.refresh(tuple(Kind) if method == GAP else _KINDS.get(method, ()))

    def _updated(self, params: bytes) -> bytes:
        """Return the params of a notification with the URI at the host."""
        if not params or not self.prefix:
            return params
        members = read_members(params)
        uri = msgspec.json.decode(members["uri"], type=str)
        members["uri"] = Raw(msgspec.json.encode(self.uris.add(uri)))
        return msgspec.json.encode(members)
