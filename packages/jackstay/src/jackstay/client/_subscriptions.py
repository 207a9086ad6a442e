"""Subscriptions: one thing in both eras, kept for as long as somebody wants it.

`resources/subscribe` where there is a handshake, a `subscriptions/listen` of its own where there is none. The core keeps what
is wanted and opens it again with every new connection; here is who wanted it, and the wait for the server's word that it
listens. That word is taken as it arrives, never from the queue of notifications: a handler that subscribes must not
wait behind itself.

A subscription that was lost alone, while the connection holds (over HTTP each has a response of its own), is opened again
after a while; one that the server ended is ended.

Above: `_resources`, `_client`. Below: `_requests`, `_connection`.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import msgspec

from jackstay.client._connection import Connection
from jackstay.client._deadline import Deadline
from jackstay.client._requests import CallOptions, Requests
from jackstay.errors import (
    CapabilityError,
    McpError,
    OutcomeUnknownError,
    StateError,
    TimeoutError,
    TransportError,
)
from jackstay.protocol import Era
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

# Hears that a resource changed, sync or async.
UpdateHandler: TypeAlias = Callable[[str], object | Awaitable[object]]
# Hears that the server ended a subscription.
EndHandler: TypeAlias = Callable[[McpError | None], None]

# What the changes of lists are called among what is wanted. Only the stateless era has to ask for them.
_LISTS = "lists"
_LIST_FLAGS = {
    "tools.listChanged": "toolsListChanged",
    "prompts.listChanged": "promptsListChanged",
    "resources.listChanged": "resourcesListChanged",
}


class _Wanted:
    """One resource that somebody wants to hear of. `opened` is done when the server listens."""

    __slots__ = ("handler", "on_end", "opened")

    def __init__(self, opened: "asyncio.Future[None]") -> None:
        self.opened = opened
        self.handler: UpdateHandler | None = None
        self.on_end: EndHandler | None = None


class Subscriptions:
    """What is wanted, by address."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self._wanted: dict[str, _Wanted] = {}
        self._lists: e.Subscribed | None = None
        # Of subscriptions that were lost alone: how often in a row, and when each is opened again.
        self._losses: dict[str, int] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}

    async def open(
        self, uri: str, handler: UpdateHandler | None, on_end: EndHandler | None, options: CallOptions
    ) -> None:
        """Want this resource, and wait until the server listens."""
        deadline = self._requests.deadline(options)
        connection = await self._requests.settled(options, deadline)
        self._requests.check("resources.subscribe")
        wanted = self._wanted.get(uri)
        is_first = wanted is None
        if wanted is None:
            wanted = self._wanted[uri] = _Wanted(asyncio.get_running_loop().create_future())
        wanted.handler, wanted.on_end = handler, on_end
        try:
            if not is_first:
                await self._opened(wanted, deadline)
            elif connection.server().era is Era.HANDSHAKE:
                await self._requests.ask(
                    "resources/subscribe", {"uri": uri}, EmptyResult, options, deadline=deadline
                )
                if not wanted.opened.done():
                    connection.step(_wish(uri, is_open=True))
                    wanted.opened.set_result(None)
                await wanted.opened  # it may have been unsubscribed meanwhile
            else:
                connection.step(_wish(uri, is_open=False))
                await self._opened(wanted, deadline)
        except BaseException as error:
            if is_first and self._wanted.get(uri) is wanted:
                self._forget(uri, wanted, connection, error)
            raise

    async def _opened(self, wanted: _Wanted, deadline: Deadline) -> None:
        try:
            async with deadline.bound(sent=True):
                await asyncio.shield(wanted.opened)
        except TimeoutError as late:
            late.about("subscriptions/listen", None)
            raise

    def _forget(self, uri: str, wanted: _Wanted, connection: Connection, error: BaseException) -> None:
        del self._wanted[uri]
        connection.step(e.Unsubscribed(_key(uri)))
        # Others may wait for the same: if he who asked was cancelled, they are told so, and may ask themselves.
        gone = StateError("unsubscribed", message=f"who subscribed to {uri} gave it up")
        _fail(wanted.opened, error if isinstance(error, McpError) else gone)

    async def close(self, uri: str, options: CallOptions) -> None:
        """Want it no more, and tell the server if there is one to tell."""
        connection = self._requests.connection
        connection.check_loop()
        wanted = self._wanted.pop(uri, None)
        if wanted is not None:
            _fail(wanted.opened, StateError("unsubscribed", message=f"{uri} was unsubscribed meanwhile"))
        connection.step(e.Unsubscribed(_key(uri)))
        if connection.core.state is ClientState.READY and connection.server().era is Era.HANDSHAKE:
            await self._requests.ask("resources/unsubscribe", {"uri": uri}, EmptyResult, options)

    def want_lists(self) -> None:
        """Hear when lists change. A handshake-era server says so unasked; a stateless one must be asked, once."""
        connection = self._requests.connection
        if self._lists is not None or connection.server().era is Era.HANDSHAKE:
            return
        flags = {flag: True for name, flag in _LIST_FLAGS.items() if self._requests.offers(name)}
        if flags:
            listen = ("subscriptions/listen", encode_json({"notifications": flags}))
            self._lists = e.Subscribed(_LISTS, None, listen)
            connection.step(self._lists)

    # --- what the server says -----------------------------------------------------------------------------------------

    def acknowledged(self, params: msgspec.Raw | bytes) -> None:
        """The server said which part of a wish it honours. Raises: ProtocolError."""
        said = decode(SubscriptionsAcknowledgedNotificationParams, params)
        id = dict(said.meta or {}).get(META_SUBSCRIPTION_ID)
        key = self._requests.connection.standing_key(id) if isinstance(id, int | str) else None
        self._losses.pop(key or "", None)
        wanted = self._by_id(id)
        if wanted is not None and not wanted.opened.done():
            if said.notifications.resource_subscriptions:
                wanted.opened.set_result(None)
            else:
                _fail(wanted.opened, CapabilityError("resources.subscribe"))

    def closed(self, reason: McpError) -> None:
        """The connection ends: nobody will listen any more."""
        for wanted in self._wanted.values():
            _fail(wanted.opened, reason)
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def ended(self, key: str, error: McpError | None) -> None:
        """A subscription ended: by the server's will, or because its response was lost."""
        wanted = self._wanted.get(key.removeprefix(_PREFIX))
        was_open = key == _LISTS or (wanted is not None and wanted.opened.done())
        if was_open and _is_lost(error):
            self._open_later(key, error)
            return
        if wanted is None:
            return
        if not wanted.opened.done():
            _fail(wanted.opened, error or CapabilityError("resources.subscribe"))
            return
        logger.warning("the server ended the subscription of %s: %s", key, error or "it gave no reason")
        if wanted.on_end is not None:
            try:
                wanted.on_end(error)
            except Exception:  # the edge of the user's handler
                logger.exception("a handler for the end of a subscription raised")

    def _open_later(self, key: str, error: McpError | None) -> None:
        losses = self._losses.get(key, 0)
        self._losses[key] = losses + 1
        delay = backoff_delay(self._requests.connection.settings, losses, random.random())  # noqa: S311  # jitter
        logger.info("the subscription of %s was lost, and is opened again in %.1f s: %s", key, delay, error)
        self._timers[key] = asyncio.get_running_loop().call_later(delay, self._open_again, key)

    def _open_again(self, key: str) -> None:
        """Unless it is not wanted any more, or the connection was made again meanwhile and has opened it itself."""
        self._timers.pop(key, None)
        connection = self._requests.connection
        uri = key.removeprefix(_PREFIX)
        wish = self._lists if key == _LISTS else _wish(uri, is_open=False) if uri in self._wanted else None
        is_ready = connection.core.state is ClientState.READY
        if wish is not None and is_ready and not connection.is_standing(key):
            connection.step(wish)

    def handlers_for(self, update: ResourceUpdatedNotificationParams) -> list[UpdateHandler]:
        """Who hears of this update: who wants that resource, or one that it is a part of (2025-06-18 server/resources)."""
        wanted = self._wanted.get(update.uri) or self._by_id(
            dict(update.meta or {}).get(META_SUBSCRIPTION_ID)
        )
        if wanted is not None:
            found = [wanted]
        else:
            found = [each for uri, each in self._wanted.items() if is_part_of(update.uri, uri)]
        return [each.handler for each in found if each.handler is not None]

    def _by_id(self, id: object) -> _Wanted | None:
        key = self._requests.connection.standing_key(id) if isinstance(id, int | str) else None
        return None if key is None else self._wanted.get(key.removeprefix(_PREFIX))


_PREFIX = "resource "


def _is_lost(error: McpError | None) -> bool:
    """True for a response that broke off or could not be had now: it says nothing about what the server wants."""
    is_refused = isinstance(error, TransportError) and error.permanent
    return isinstance(error, OutcomeUnknownError | TransportError) and not is_refused


def _fail(opened: "asyncio.Future[None]", error: McpError) -> None:
    if not opened.done():
        opened.set_exception(error)
        opened.exception()  # seen: whoever waits for it awaits it himself, and perhaps nobody does


def _key(uri: str) -> str:
    return _PREFIX + uri


def _wish(uri: str, *, is_open: bool) -> e.Subscribed:
    filter_ = {"notifications": {"resourceSubscriptions": [uri]}}
    return e.Subscribed(
        _key(uri),
        ("resources/subscribe", encode_json({"uri": uri})),
        ("subscriptions/listen", encode_json(filter_)),
        is_open,
    )
