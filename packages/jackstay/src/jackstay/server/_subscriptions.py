"""The subscriptions of one connection, and the notifications of changes.

In the handshake era every client gets `list_changed`, and subscribers of a URI get `resources/updated`. In the
stateless era a client gets only what it requested by `subscriptions/listen`, marked with the id of that request
(2026-07-28 basic/patterns/subscriptions). Changes are collected for one turn of the loop and sent once each.
"""

import asyncio
import logging
import random
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

import msgspec

from jackstay.errors import JsonRpcError
from jackstay.protocol import LIST_CHANGES, REVISIONS
from jackstay.protocol.server import events as e
from jackstay.protocol.wire import ErrorCode, splice_meta
from jackstay.server._changes import GAP
from jackstay.types import META_SUBSCRIPTION_ID, encode_json

if TYPE_CHECKING:
    from jackstay.server._driver import Driver
    from jackstay.types import SubscriptionFilter

logger = logging.getLogger("jackstay.server")

# Limits of the URIs that one client may subscribe to, which the server has to keep.
MAX_URIS = 10_000
MAX_URI_LENGTH = 16_384

# Bytes of all URIs that one client may subscribe to.
MAX_URI_BYTES = 1_048_576

# Clients that are notified of changes in one turn of the loop. Ten thousand at once would take half a second, and leave
# so many objects that the garbage collector would visit those of all clients.
FLUSHED_PER_TURN = 32

# Seconds over which clients are notified after changes may have been missed, so that not all of them list at once.
GAP_SPREAD = 5.0

_UPDATED = "notifications/resources/updated"

_read_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class Quota(msgspec.Struct):
    """Limits the bytes of subscribed URIs: of each client, and of all clients that share it (None: no limit)."""

    each: int = MAX_URI_BYTES
    total: int | None = None
    used: int = 0
    _lock: threading.Lock = msgspec.field(default_factory=threading.Lock)  # an endpoint may serve on several loops

    def reserve(self, size: int) -> bool:
        """Reserve bytes. Returns False if that would exceed the total."""
        with self._lock:
            if self.total is not None and self.used + size > self.total:
                return False
            self.used += size
            return True

    def release(self, size: int) -> None:
        """Release reserved bytes."""
        with self._lock:
            self.used -= size


class Subscription(msgspec.Struct, frozen=True):
    """An open `subscriptions/listen` request, and the part of its filter that was accepted.

    `topics` are the accepted URIs, and the methods of the accepted notifications of changed lists.
    """

    request: e.Serve
    uris: frozenset[str]
    topics: frozenset[str]
    on_close: Callable[[], None] | None = None

    @property
    def meta(self) -> bytes:
        """The `_meta` of all messages that belong to the subscription."""
        return b'{"%b":%b}' % (META_SUBSCRIPTION_ID.encode(), encode_json(self.request.id))


class _Flusher(msgspec.Struct):
    """Notifies the clients of one loop of what has changed, `FLUSHED_PER_TURN` of them in each turn."""

    loop: asyncio.AbstractEventLoop
    _waiting: "deque[Subscriptions]" = msgspec.field(default_factory=deque)

    def add(self, subscriptions: "Subscriptions") -> None:
        """Flush these in one of the next turns."""
        self._waiting.append(subscriptions)
        if len(self._waiting) == 1:
            self.loop.call_soon(self._flush)

    def _flush(self) -> None:
        waiting = self._waiting
        due = [waiting.popleft() for _ in range(min(FLUSHED_PER_TURN, len(waiting)))]
        if waiting:
            self.loop.call_soon(self._flush)
        elif _this_thread.flusher is self:
            _this_thread.flusher = None
        for subscriptions in due:
            try:
                subscriptions.flush_changes()
            except Exception:  # a defect with one client must not affect the others
                logger.exception("internal error while notifying a client")


class _ThisThread(threading.local):
    """The flusher of the loop that runs in this thread, while anything waits."""

    flusher: _Flusher | None = None


_this_thread = _ThisThread()


class Subscriptions:
    """The subscriptions of the client of one connection."""

    def __init__(self, connection: "Driver") -> None:
        # Those of `resources/subscribe`.
        self.uris: set[str] = set()
        self._connection = connection
        self._quota = connection.quota or Quota()
        self._size = 0
        self._open: dict[int, Subscription] = {}
        self._changed: dict[tuple[str, str, bytes], None] = {}

    # --- requests of the client ---------------------------------------------------------------------------------------

    def subscribe(self, uri: str) -> None:
        """Subscribe to a resource. Raises: JsonRpcError, if a limit is exceeded."""
        if len(uri) > MAX_URI_LENGTH:
            message = f"cannot subscribe: the URI is longer than {MAX_URI_LENGTH} characters"
            raise JsonRpcError(ErrorCode.INVALID_PARAMS, message)
        if uri in self.uris or not self._connection.KEEPS_SUBSCRIPTIONS:
            return
        if len(self.uris) >= MAX_URIS:
            raise JsonRpcError(-32603, f"cannot subscribe to more than {MAX_URIS} resources")
        if not self._reserve(_size(uri)):
            raise JsonRpcError(-32603, "cannot subscribe: the limit for all URIs together is reached")
        self.uris.add(uri)
        self._add_to_index((uri,))

    def unsubscribe(self, uri: str) -> None:
        """Unsubscribe from a resource. Does nothing if it is not subscribed."""
        if uri in self.uris:
            self.uris.remove(uri)
            self._remove_from_index((uri,))
            self._release(_size(uri))

    def replace(self, uris: Iterable[str]) -> None:
        """Replace the subscriptions by those of a stored session. Those that exceed a limit are dropped."""
        for uri in self.uris.difference(uris):
            self.unsubscribe(uri)
        for uri in uris:
            try:
                self.subscribe(uri)
            except JsonRpcError:
                number = self._connection.number
                logger.warning("connection %d: not all subscriptions of the session were restored", number)
                return

    @property
    def topics(self) -> Iterator[str]:
        """What the client subscribed to, for the index of subscribers."""
        return chain(self.uris, *(subscription.topics for subscription in self._open.values()))

    def close(self) -> None:
        """Remove all subscriptions and release their quota."""
        for serial in list(self._open):
            self.forget(serial)
        self._remove_from_index(self.uris)
        self.uris.clear()
        self._release(self._size)

    def _add_to_index(self, topics: Iterable[str]) -> None:
        if self._connection.subscriber_index is not None:
            self._connection.subscriber_index.add(self._connection, topics)

    def _remove_from_index(self, topics: Iterable[str]) -> None:
        if self._connection.subscriber_index is not None:
            self._connection.subscriber_index.remove(self._connection, topics)

    def _reserve(self, size: int) -> bool:
        if self._size + size > self._quota.each or not self._quota.reserve(size):
            return False
        self._size += size
        return True

    def _release(self, size: int) -> None:
        self._size -= size
        self._quota.release(size)

    def listen(
        self,
        request: e.Serve,
        wanted: "SubscriptionFilter",
        exists: Callable[[str], bool] = lambda _: True,
        *,
        task_ids: list[str] | None = None,
        on_close: Callable[[], None] | None = None,
    ) -> None:
        """Open a subscription and acknowledge the accepted part of its filter. `exists` is called for each URI.

        `task_ids` are the accepted tasks; `on_close` is called when the subscription has ended.
        """
        capabilities = self._connection.capabilities
        flags = {name for name, value in wanted.raw.items() if value is True}
        changes = [row for row in LIST_CHANGES.values() if row.list_capability in capabilities and row.flag in flags]
        accepted: dict[str, object] = {row.flag: True for row in changes}
        uris: list[str] = []
        if wanted.resource_subscriptions is not None and "resources" in capabilities:
            # URIs beyond the limits are not acknowledged, so the client can see that they were not accepted.
            remaining = MAX_URIS - sum(len(other.uris) for other in self._open.values())
            known = (uri for uri in wanted.resource_subscriptions if len(uri) <= MAX_URI_LENGTH and exists(uri))
            for uri in list(dict.fromkeys(known))[: max(0, remaining)]:
                if not self._reserve(_size(uri)):
                    break
                uris.append(uri)
            accepted["resourceSubscriptions"] = uris
        if task_ids is not None:
            accepted["taskIds"] = task_ids
        # Without params: they are a view of the frame, which would be kept in memory with the subscription.
        bare: e.Serve = msgspec.structs.replace(request, params=None, meta=None)
        topics = frozenset([*uris, *(row.name for row in changes)])
        subscription = Subscription(bare, frozenset(uris), topics, on_close)
        self._open[request.serial] = subscription
        self._add_to_index(subscription.topics)
        params = b'{"notifications":%b,"_meta":%b}' % (encode_json(accepted), subscription.meta)
        self._connection.step(e.Notified("notifications/subscriptions/acknowledged", params, request.id))

    def forget(self, serial: int) -> None:
        """Remove the subscription of a request that was cancelled, if it is one."""
        cancelled = self._open.pop(serial, None)
        if cancelled is not None:
            self._remove_from_index(cancelled.topics)
            self._release(sum(map(_size, cancelled.uris)))
            if cancelled.on_close is not None:
                cancelled.on_close()

    def end(self) -> None:
        """End every subscription with a notification and a result, because the specification has both.

        2026-07-28 basic/patterns/cancellation requires `notifications/cancelled`, basic/patterns/subscriptions a
        result.
        """
        for serial, subscription in list(self._open.items()):
            self.forget(serial)
            request = subscription.request
            cancelled = b'{"requestId":%b,"reason":"the server is shutting down"}' % encode_json(request.id)
            self._connection.step(e.Notified("notifications/cancelled", cancelled, request.id))
            result = self._connection.server_config.finalize(b'{"_meta":%b}' % subscription.meta)
            self._connection.finish(request, result)

    # --- changes ------------------------------------------------------------------------------------------------------

    def changed(self, method: str, uri: str = "", params: bytes = b"") -> None:
        """Send a notification of a change in one of the next turns of the loop, once. Only on the loop's thread.

        `params` are the encoded params; the default depends on the method.
        """
        # Not `get_running_loop()`: a program may call this while the loop is stopped.
        loop = self._connection._loop
        if method == GAP:
            if not loop.is_closed():
                loop.call_later(random.random() * GAP_SPREAD, self._announce_gap)  # noqa: S311  # no secret
            return
        is_first = not self._changed
        self._changed[method, uri, params] = None
        if is_first and not loop.is_closed():
            flusher = _this_thread.flusher
            if flusher is None or flusher.loop is not loop:
                flusher = _this_thread.flusher = _Flusher(loop)
            flusher.add(self)

    def _announce_gap(self) -> None:
        """Changes may have been missed: notify the client that everything it subscribed to has changed."""
        for method in LIST_CHANGES:
            self.changed(method)
        for uri in set(self.topics).difference(LIST_CHANGES):
            self.changed(_UPDATED, uri)

    def flush_changes(self) -> None:
        """Send what has changed."""
        changed, self._changed = self._changed, {}
        version = self._connection.core.version
        capabilities = self._connection.capabilities
        # In the stateless era, and before the handshake, nothing is sent without a subscription.
        is_stateful = version is not None and REVISIONS[version].has_server_requests
        for method, uri, given in changed:
            is_update = method == _UPDATED
            params = given or (b'{"uri":%b}' % encode_json(uri) if is_update else b"{}")
            is_wanted = uri in self.uris if is_update else LIST_CHANGES[method].list_capability in capabilities
            if is_stateful and is_wanted:
                self._connection.notify(method, params)
            for subscription in list(self._open.values()):
                if (uri if is_update else method) in subscription.topics:
                    self._connection.notify(method, _with_meta(params, subscription.meta), subscription.request.id)


def _size(uri: str) -> int:
    return len(uri.encode("utf-8", "surrogatepass"))


def _with_meta(params: bytes, added: bytes) -> bytes:
    """Add members to the `_meta` of encoded params."""
    if b'"_meta"' not in params:
        return splice_meta(params, added)
    members = _read_members(params)
    try:
        meta = _read_members(members.get("_meta", msgspec.Raw(b"{}")))
    except msgspec.DecodeError:
        meta = {}  # not an object
    return msgspec.json.encode({**members, "_meta": {**meta, **_read_members(added)}})
