"""Who wants to hear of changes on one connection, and the notifications that tell them.

Two ways to want it. In the handshake era `list_changed` goes to every client, and `resources/updated` to who subscribed to
the URI. In the stateless era nothing is said unasked: a client listens with a request that stays open, and everything that
belongs to it carries its id (2026-07-28 basic/patterns/subscriptions).

Changes come in bursts (a hundred tools added in a loop), so they are gathered for one turn of the loop and told once each.

Must never know the catalogue. Above: `_dispatch`, `_connection`. Below: `jackstay.types`.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from jackstay.errors import JsonRpcError
from jackstay.protocol import REVISIONS
from jackstay.protocol.server import events as e
from jackstay.protocol.wire import ErrorCode, splice_meta
from jackstay.types import META_SUBSCRIPTION_ID, SubscriptionFilter, encode_json

if TYPE_CHECKING:
    from jackstay.server._driver import Driver

logger = logging.getLogger("jackstay.server")

# URIs that one client may subscribe to, and how long each may be: the client decides, and the server keeps them.
MOST_URIS = 10_000
LONGEST_URI = 16_384

# Bytes of all URIs that the client of one connection is subscribed to.
MAX_URI_BYTES = 1_048_576

# Which capability and which member of a filter belongs to which change.
_FLAGS: Mapping[str, tuple[str, str]] = {
    "notifications/tools/list_changed": ("tools", "tools_list_changed"),
    "notifications/prompts/list_changed": ("prompts", "prompts_list_changed"),
    "notifications/resources/list_changed": ("resources", "resources_list_changed"),
}
_UPDATED = "notifications/resources/updated"

_read_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class Quota:
    """The bytes of URIs that clients may subscribe to: each of them, and (None: without a limit) all that share the quota."""

    __slots__ = ("_lock", "each", "total", "used")

    def __init__(self, each: int = MAX_URI_BYTES, total: int | None = None) -> None:
        self.each = each
        self.total = total
        self.used = 0
        self._lock = threading.Lock()  # an endpoint may serve on several loops

    def take(self, size: int) -> bool:
        """Reserve so many bytes. False: there is no room for them."""
        with self._lock:
            if self.total is not None and self.used + size > self.total:
                return False
            self.used += size
            return True

    def release(self, size: int) -> None:
        """Give back what `take` reserved."""
        with self._lock:
            self.used -= size


class Subscription(msgspec.Struct, frozen=True):
    """One `subscriptions/listen` that is open: the request it answers in the end, and what is honoured of its filter."""

    request: e.Serve
    honoured: SubscriptionFilter
    uris: frozenset[str]
    size: int = 0

    @property
    def mark(self) -> bytes:
        """The `_meta` that everything which belongs to it carries."""
        return b'{"%b":%b}' % (META_SUBSCRIPTION_ID.encode(), encode_json(self.request.id))


class Listening:
    """What the client of one connection wants to hear of."""

    def __init__(self, connection: "Driver") -> None:
        # Those of `resources/subscribe`.
        self.uris: set[str] = set()
        self._connection = connection
        self._quota = connection.quota
        self._size = 0
        self._open: dict[int, Subscription] = {}
        self._changed: dict[tuple[str, str, bytes], None] = {}
        self._flush: asyncio.Handle | None = None

    def __repr__(self) -> str:
        return f"<Listening to {len(self.uris)} resources, {len(self._open)} subscriptions>"

    # --- what the client asks -----------------------------------------------------------------------------------------

    def subscribe(self, uri: str) -> None:
        """Tell of changes to this resource. Raises: JsonRpcError, if there are too many, or it is too long."""
        if len(uri) > LONGEST_URI:
            raise JsonRpcError(
                ErrorCode.INVALID_PARAMS,
                f"a URI of more than {LONGEST_URI} characters cannot be subscribed to",
            )
        if uri in self.uris or not self._connection.KEEPS_SUBSCRIPTIONS:
            return
        if len(self.uris) >= MOST_URIS:
            raise JsonRpcError(-32603, f"at most {MOST_URIS} resources can be subscribed to")
        if not self._take(_size(uri)):
            raise JsonRpcError(-32603, "too many bytes of URIs are subscribed to")
        self.uris.add(uri)

    def unsubscribe(self, uri: str) -> None:
        """Tell no more of changes to this resource. One that was not subscribed to is no error."""
        if uri in self.uris:
            self.uris.remove(uri)
            self._release(_size(uri))

    def restore(self, uris: Iterable[str]) -> None:
        """The subscriptions of a session's record; those that there is no room for are dropped."""
        for uri in uris:
            try:
                self.subscribe(uri)
            except JsonRpcError:
                logger.warning(
                    "connection %d: no room for the subscriptions of its record", self._connection.number
                )
                return

    def close(self) -> None:
        """The connection is over: nothing is told any more, and what its URIs used is free."""
        self.uris.clear()
        self._open.clear()
        self._release(self._size)

    def _take(self, size: int) -> bool:
        if self._size + size > self._quota.each or not self._quota.take(size):
            return False
        self._size += size
        return True

    def _release(self, size: int) -> None:
        self._size -= size
        self._quota.release(size)

    def listen(
        self, request: e.Serve, wanted: SubscriptionFilter, has: Callable[[str], bool] = lambda _: True
    ) -> None:
        """Open a subscription: acknowledged first, with what is honoured of it. `has`: whether there is such a resource."""
        offered = self._connection.offered
        flags = {
            member: True
            for capability, member in _FLAGS.values()
            if getattr(wanted, member) and capability in offered
        }
        uris: list[str] | None = None
        if wanted.resource_subscriptions is not None and "resources" in offered:
            uris = []
            # What is not honoured is not acknowledged: the client sees that there is no room for it.
            room = MOST_URIS - sum(len(other.uris) for other in self._open.values())
            known = (uri for uri in wanted.resource_subscriptions if len(uri) <= LONGEST_URI and has(uri))
            for uri in list(dict.fromkeys(known))[: max(0, room)]:
                if not self._take(_size(uri)):
                    break
                uris.append(uri)
        honoured = SubscriptionFilter(**flags, resource_subscriptions=uris)  # type: ignore[arg-type]  # members are flags
        # Without its params: they are a view of the frame, which would live as long as the subscription.
        bare: e.Serve = msgspec.structs.replace(request, params=None, meta=None)
        size = sum(map(_size, uris or ()))
        subscription = Subscription(bare, honoured, frozenset(uris or ()), size)
        self._open[request.serial] = subscription
        params = b'{"notifications":%b,"_meta":%b}' % (encode_json(honoured), subscription.mark)
        self._connection.step(e.Notified("notifications/subscriptions/acknowledged", params, request.id))

    def forget(self, serial: int) -> None:
        """The client cancelled it, if that is one."""
        cancelled = self._open.pop(serial, None)
        if cancelled is not None:
            self._release(cancelled.size)

    def end(self) -> None:
        """End every subscription in order: the specification has two ways to say so, and both are said.

        2026-07-28 basic/patterns/cancellation wants `notifications/cancelled`, .../subscriptions a result.
        """
        for serial, subscription in list(self._open.items()):
            self.forget(serial)
            request = subscription.request
            cancelled = b'{"requestId":%b,"reason":"the server is shutting down"}' % encode_json(request.id)
            self._connection.step(e.Notified("notifications/cancelled", cancelled, request.id))
            self._connection.finish(
                request, self._connection.offer.complete(b'{"_meta":%b}' % subscription.mark)
            )

    # --- what happens -------------------------------------------------------------------------------------------------

    def changed(self, method: str, uri: str = "", params: bytes = b"") -> None:
        """Something changed; it is told in the next turn of the loop, once. Call it on the loop's thread.

        `params` are what is said of it, encoded; without, it is said in our own words.
        """
        self._changed[method, uri, params] = None
        # Its own, which need not run now: a program may stop it between two of its steps.
        loop = self._connection._loop
        if self._flush is None and not loop.is_closed():
            self._flush = loop.call_soon(self._tell)

    def _tell(self) -> None:
        self._flush = None
        changed, self._changed = self._changed, {}
        for method, uri, params in changed:
            self._tell_client(method, uri, params)
            for subscription in list(self._open.values()):
                self._tell_subscription(subscription, method, uri, params)

    def _tell_client(self, method: str, uri: str, params: bytes) -> None:
        version = self._connection.core.version
        if version is None or not REVISIONS[version].has_server_requests:
            return  # nothing is said unasked in the stateless era, nor before there is one
        if method == _UPDATED:
            if uri in self.uris:
                self._connection.notify(method, params or b'{"uri":%b}' % encode_json(uri))
        elif _FLAGS[method][0] in self._connection.offered:
            self._connection.notify(method, params or b"{}")

    def _tell_subscription(self, subscription: Subscription, method: str, uri: str, params: bytes) -> None:
        about, mark = subscription.request.id, subscription.mark
        if method == _UPDATED:
            if uri in subscription.uris:
                said = params or b'{"uri":%b}' % encode_json(uri)
                self._connection.notify(method, _marked(said, mark), about)
        elif getattr(subscription.honoured, _FLAGS[method][1]):
            self._connection.notify(method, _marked(params or b"{}", mark), about)


def _size(uri: str) -> int:
    return len(uri.encode("utf-8", "surrogatepass"))


def _marked(params: bytes, mark: bytes) -> bytes:
    """These params with the mark of a subscription in their `_meta`, beside what they have there themselves."""
    if b'"_meta"' not in params:
        return splice_meta(params, mark)
    members = _read_members(params)
    try:
        meta = _read_members(members.get("_meta", msgspec.Raw(b"{}")))
    except msgspec.DecodeError:
        meta = {}  # not an object, and of no use to anybody
    return msgspec.json.encode({**members, "_meta": {**meta, **_read_members(mark)}})
