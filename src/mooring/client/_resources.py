"""`client.resources`: list them, read one, hear when one changes.

A subscription is one thing in both eras: `resources/subscribe` where there is a handshake, a `subscriptions/listen` of its
own where there is none. It lasts until `unsubscribe()` and is opened again after every reconnect.

Above: users. Below: `_requests`, `_lists`.
"""

import asyncio
import builtins
from collections.abc import Callable
from typing import Unpack

from mooring.client._lists import Cache, pages
from mooring.client._requests import CallOptions, Requests
from mooring.errors import CapabilityError, McpError
from mooring.protocol import Era
from mooring.protocol.client import events as e
from mooring.types import (
    EmptyResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    encode_json,
)


class Resources:
    """The resources of a server."""

    def __init__(self, requests: Requests, cache: Cache) -> None:
        self._requests = requests
        self._cache = cache
        self._opening: dict[str, asyncio.Future[None]] = {}
        self.handlers: dict[str, Callable[[str], object]] = {}

    async def list(self, **options: Unpack[CallOptions]) -> list[Resource]:
        """Every resource, all pages. Kept for as long as the server allows."""
        found = await pages(self._requests, self._cache, "resources/list", ListResourcesResult, options)
        return [resource for page in found for resource in page.resources]

    async def templates(self, **options: Unpack[CallOptions]) -> "builtins.list[ResourceTemplate]":
        """Every template for the addresses of resources, all pages."""
        method = "resources/templates/list"
        found = await pages(self._requests, self._cache, method, ListResourceTemplatesResult, options)
        return [template for page in found for template in page.resource_templates]

    async def read(self, uri: str, **options: Unpack[CallOptions]) -> ReadResourceResult:
        """What is in it."""
        return await self._requests.ask("resources/read", {"uri": uri}, ReadResourceResult, options)

    async def subscribe(
        self, uri: str, handler: Callable[[str], object] | None = None, **options: Unpack[CallOptions]
    ) -> None:
        """Hear of every change of it: `handler(uri)` is called, and `on_notification` hears of it too.

        Raises: CapabilityError where the server has no subscriptions, and as every request does.
        """
        connection = self._requests.connection
        if connection.server().era is Era.HANDSHAKE:
            await self._requests.ask("resources/subscribe", {"uri": uri}, EmptyResult, options)
            connection.step(self._wish(uri, is_open=True))
        else:
            self._requests.check("resources.subscribe")
            await self._listen(uri)
        if handler is not None:
            self.handlers[uri] = handler

    async def unsubscribe(self, uri: str, **options: Unpack[CallOptions]) -> None:
        """Hear no more of it."""
        connection = self._requests.connection
        self.handlers.pop(uri, None)
        connection.step(e.Unsubscribed(_key(uri)))
        if connection.server().era is Era.HANDSHAKE:
            await self._requests.ask("resources/unsubscribe", {"uri": uri}, EmptyResult, options)

    async def _listen(self, uri: str) -> None:
        connection = self._requests.connection
        opened = self._opening[_key(uri)] = asyncio.get_running_loop().create_future()
        connection.step(self._wish(uri, is_open=False))
        try:
            async with asyncio.timeout(connection.settings.request_timeout):
                await opened
        finally:
            del self._opening[_key(uri)]
            if not opened.done() or opened.cancelled() or opened.exception() is not None:
                connection.step(e.Unsubscribed(_key(uri)))

    def acknowledged(self, key: str, honoured: bool) -> None:
        """The server said which part of a wish it honours."""
        opened = self._opening.get(key)
        if opened is not None and not opened.done():
            if honoured:
                opened.set_result(None)
            else:
                opened.set_exception(CapabilityError("resources.subscribe"))

    def ended(self, key: str, error: McpError | None) -> None:
        """A subscription ended by the server's will."""
        opened = self._opening.get(key)
        if opened is not None and not opened.done():
            opened.set_exception(error or CapabilityError("resources.subscribe"))

    def _wish(self, uri: str, *, is_open: bool) -> e.Subscribed:
        filter_ = {"notifications": {"resourceSubscriptions": [uri]}}
        return e.Subscribed(
            _key(uri),
            ("resources/subscribe", encode_json({"uri": uri})),
            ("subscriptions/listen", encode_json(filter_)),
            is_open,
        )


def _key(uri: str) -> str:
    return f"resource {uri}"
