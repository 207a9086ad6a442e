"""`client.resources`: list, read and subscribe to resources."""

import builtins
from typing import Unpack

from jackstay._signatures import shows
from jackstay.client._request_handlers import check_callable
from jackstay.client._requests import CallOptions, Requests
from jackstay.client._subscriptions import EndHandler, Subscriptions, UpdateHandler
from jackstay.types import (
    ListResourcesResult,
    ListResourceTemplatesResult,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
)


class Resources:
    """The resources of a server."""

    def __init__(self, requests: Requests, subscriptions: Subscriptions) -> None:
        self._requests = requests
        self._subscriptions = subscriptions

    @shows("jackstay.client:CallOptions")
    async def list(self, **options: Unpack[CallOptions]) -> list[Resource]:
        """Return every resource of all pages, cached for as long as the server allows."""
        return await self._requests.fetch_list("resources/list", ListResourcesResult, options)

    @shows("jackstay.client:CallOptions")
    async def templates(self, **options: Unpack[CallOptions]) -> "builtins.list[ResourceTemplate]":
        """Return every resource template of all pages, cached for as long as the server allows."""
        return await self._requests.fetch_list("resources/templates/list", ListResourceTemplatesResult, options)

    @shows("jackstay.client:CallOptions")
    async def read(self, uri: str, **options: Unpack[CallOptions]) -> ReadResourceResult:
        """Return the contents of the resource at `uri`."""
        return await self._requests.request("resources/read", {"uri": uri}, ReadResourceResult, options, subject=uri)

    @shows("jackstay.client:CallOptions")
    async def subscribe(
        self,
        uri: str,
        handler: UpdateHandler | None = None,
        *,
        on_end: EndHandler | None = None,
        **options: Unpack[CallOptions],
    ) -> None:
        """Call `handler(uri)`, sync or async, for every update of the resource; `on_notification` handlers run as well.

        The subscription lasts until `unsubscribe()` and is restored after every reconnect. If the server ends it,
        `on_end(error)` is called (None if the server gave no reason); the next connection restores it. Subscribing
        again replaces the handler.

        Raises: CapabilityError if the server has no subscriptions; as every request (`docs/errors.md`).
        """
        for name, function in (("handler", handler), ("on_end", on_end)):
            if function is not None:
                check_callable(function, name)
        await self._subscriptions.open(uri, handler, on_end, options)

    @shows("jackstay.client:CallOptions")
    async def unsubscribe(self, uri: str, **options: Unpack[CallOptions]) -> None:
        """End the subscription. Without a connection it is only removed from those to restore."""
        await self._subscriptions.close(uri, options)
