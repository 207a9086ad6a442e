"""Resource subscriptions: `resources/subscribe` in the handshake era, `subscriptions/listen` in the stateless era.

The core restores subscriptions after a reconnect; this module keeps their handlers and waits for acknowledgements. Over
HTTP a subscription can be lost while the connection is up; it is then reopened after a backoff.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import msgspec

from jackstay.client._requests import CallOptions, Requests
from jackstay.errors import CapabilityError, McpError, OutcomeUnknownError, StateError, TimeoutError, TransportError
from jackstay.protocol import LIST_CHANGES, Era
from jackstay.protocol.client import ClientState, backoff_delay
from jackstay.protocol.client import events as e
from jackstay.types import (
    META_SUBSCRIPTION_ID,
    EmptyResult,
    ResourceUpdatedNotificationParams,
    SubscriptionsAcknowledgedNotificationParams,
    decode,
    encode_json,
    is_part_of,
)

logger = logging.getLogger("jackstay.client")

# Called with the URI of an updated resource, sync or async.
UpdateHandler: TypeAlias = Callable[[str], object | Awaitable[object]]
# Called when the server ends a subscription, with its error or None.
EndHandler: TypeAlias = Callable[[McpError | None], None]

# The key of the subscription to list changes, which only the stateless era needs.
_LISTS = "lists"


class _Subscription(msgspec.Struct, eq=False):
    """One subscribed resource. `opened` is done when the server has acknowledged the subscription."""

    opened: "asyncio.Future[None]"
    handler: UpdateHandler | None = None
    on_end: EndHandler | None = None


class Subscriptions:
    """The resource subscriptions of a client, by URI."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self._by_uri: dict[str, _Subscription] = {}
        self._is_subscribed_to_lists = False
        # Consecutive losses of a subscription while the connection was up.
        self._losses: dict[str, int] = {}

    async def open(
        self, uri: str, handler: UpdateHandler | None, on_end: EndHandler | None, options: CallOptions
    ) -> None:
        """Subscribe to a resource and wait for the acknowledgement of the server."""
        deadline = self._requests.deadline(options)
        connection = await self._requests.wait_until_ready(options, deadline)
        self._requests.require_capability("resources.subscribe")
        subscription = self._by_uri.get(uri)
        is_first = subscription is None
        if subscription is None:
            subscription = self._by_uri[uri] = _Subscription(asyncio.get_running_loop().create_future())
        subscription.handler, subscription.on_end = handler, on_end
        try:
            if is_first and connection.server().era is Era.HANDSHAKE:
                await self._requests.request(
                    "resources/subscribe", {"uri": uri}, EmptyResult, options, deadline=deadline
                )
                if not subscription.opened.done():
                    connection.step(_subscribe_event(uri, is_open=True))
                    subscription.opened.set_result(None)
            elif is_first:
                connection.step(_subscribe_event(uri, is_open=False))
            async with deadline.bound(sent=True):
                await asyncio.shield(subscription.opened)  # raises if it was unsubscribed meanwhile
        except BaseException as error:
            if isinstance(error, TimeoutError):
                error.about("subscriptions/listen", None)
            if is_first and self._by_uri.get(uri) is subscription:
                del self._by_uri[uri]
                connection.step(e.Unsubscribed(_PREFIX + uri))
                # Other tasks may wait for the same subscription: after a cancellation they get an error and may retry.
                cancelled = StateError("unsubscribed", message=f"subscribe({uri!r}) was cancelled")
                _fail(subscription.opened, error if isinstance(error, McpError) else cancelled)
            raise

    async def close(self, uri: str, options: CallOptions) -> None:
        """Unsubscribe from a resource; the server is notified if it is connected."""
        connection = self._requests.connection
        connection.check_loop()
        subscription = self._by_uri.pop(uri, None)
        if subscription is not None:
            message = f"unsubscribe({uri!r}) was called while subscribing"
            _fail(subscription.opened, StateError("unsubscribed", message=message))
        connection.step(e.Unsubscribed(_PREFIX + uri))
        if connection.core.state is ClientState.READY and connection.server().era is Era.HANDSHAKE:
            await self._requests.request("resources/unsubscribe", {"uri": uri}, EmptyResult, options)

    def subscribe_to_lists(self) -> None:
        """Subscribe to list changes, once; a handshake-era server sends them without a subscription."""
        connection = self._requests.connection
        if self._is_subscribed_to_lists or connection.server().era is Era.HANDSHAKE:
            return
        flags = {row.flag: True for row in LIST_CHANGES.values() if self._requests.has_capability(row.capability)}
        if flags:
            self._is_subscribed_to_lists = True  # now: during a step the event is only queued
            connection.step(e.Subscribed(_LISTS, None, _listen(flags)))

    # --- messages from the server -------------------------------------------------------------------------------------

    def acknowledged(self, params: msgspec.Raw | bytes) -> None:
        """Process an acknowledgement, which lists what the server accepted. Raises: ProtocolError.

        Called as it arrives, before queued notifications: a handler that subscribes must not wait behind itself.
        """
        acknowledgement = decode(SubscriptionsAcknowledgedNotificationParams, params)
        key = self._requests.connection.subscription_key(dict(acknowledgement.meta or {}).get(META_SUBSCRIPTION_ID))
        if key is None:
            return
        self._losses.pop(key, None)
        subscription = self._by_uri.get(key.removeprefix(_PREFIX))
        if subscription is not None and not subscription.opened.done():
            if acknowledgement.notifications.resource_subscriptions:
                subscription.opened.set_result(None)
            else:
                _fail(subscription.opened, CapabilityError("resources.subscribe"))

    def closed(self, reason: McpError) -> None:
        """Fail all pending subscriptions: the connection has closed."""
        for subscription in self._by_uri.values():
            _fail(subscription.opened, reason)

    def ended(self, key: str, error: McpError | None) -> None:
        """Process the end of a subscription: the server ended it, or its response stream was lost."""
        subscription = self._by_uri.get(key.removeprefix(_PREFIX))
        was_open = key == _LISTS or (subscription is not None and subscription.opened.done())
        if was_open and _is_lost(error):
            self._schedule_reopen(key, error)
            return
        if subscription is None:
            return
        if not subscription.opened.done():
            _fail(subscription.opened, error or CapabilityError("resources.subscribe"))
            return
        logger.warning("the server ended the subscription to %s: %s", key, error or "no reason given")
        if subscription.on_end is not None:
            try:
                subscription.on_end(error)
            except Exception:  # user code
                logger.exception("an on_end handler raised an exception")

    def _schedule_reopen(self, key: str, error: McpError | None) -> None:
        losses = self._losses.get(key, 0)
        self._losses[key] = losses + 1
        delay = backoff_delay(self._requests.connection.settings, losses, random.random())  # noqa: S311  # jitter
        logger.info("the subscription to %s was lost, reopening in %.1f s: %s", key, delay, error)
        asyncio.get_running_loop().call_later(delay, self._reopen, key)

    def _reopen(self, key: str) -> None:
        """Reopen a subscription, unless it was removed, a reconnect has restored it, or the client was closed."""
        connection = self._requests.connection
        event = connection.core.subscriptions.kept.get(key)
        if event is not None and connection.core.state is ClientState.READY:
            connection.step(msgspec.structs.replace(event, is_open=False))

    def handlers_for(self, update: ResourceUpdatedNotificationParams) -> list[UpdateHandler]:
        """Return the handlers for an update of a resource or of a sub-resource (2025-06-18 server/resources)."""
        key = self._requests.connection.subscription_key(dict(update.meta or {}).get(META_SUBSCRIPTION_ID))
        by_key = None if key is None else self._by_uri.get(key.removeprefix(_PREFIX))
        exact = self._by_uri.get(update.uri) or by_key
        found = [exact] if exact else [parent for uri, parent in self._by_uri.items() if is_part_of(update.uri, uri)]
        return [match.handler for match in found if match.handler is not None]


_PREFIX = "resource "


def _is_lost(error: McpError | None) -> bool:
    """Return whether the stream broke or could not be opened for now, as opposed to ended by the server."""
    is_refused = isinstance(error, TransportError) and error.permanent
    return isinstance(error, OutcomeUnknownError | TransportError) and not is_refused


def _fail(opened: "asyncio.Future[None]", error: McpError) -> None:
    if not opened.done():
        opened.set_exception(error)
        opened.exception()  # mark as retrieved: perhaps no task awaits it


def _listen(notifications: dict[str, Any]) -> tuple[str, bytes]:
    return "subscriptions/listen", encode_json({"notifications": notifications})


def _subscribe_event(uri: str, *, is_open: bool) -> e.Subscribed:
    handshake = ("resources/subscribe", encode_json({"uri": uri}))
    return e.Subscribed(_PREFIX + uri, handshake, _listen({"resourceSubscriptions": [uri]}), is_open)
