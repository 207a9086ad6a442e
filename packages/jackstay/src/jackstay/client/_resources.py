"""`client.resources`: list them, read one, hear when one changes.

Above: users. Below: `_requests`, `_lists`, `_subscriptions`.
"""

import builtins
from collections.abc import Awaitable, Callable
from typing import Unpack

from jackstay.client._asking import check_function
from jackstay.client._lists import Cache, pages
from jackstay.client._requests import CallOptions, Requests
from jackstay.client._subscriptions import Subscriptions
from jackstay.errors import McpError
from jackstay.types import (
    ListResourcesResult,
    ListResourceTemplatesResult,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
)


class Resources:
    """The resources of a server."""

    def __init__(self, requests: Requests, cache: Cache, subscriptions: Subscriptions) -> None:
        self._requests = requests
        self._cache = cache
        self._subscriptions = subscriptions

    async def list(self, **options: Unpack[CallOptions]) -> list[Resource]:
        """Every resource, all pages. Kept for as long as the server allows."""
        found = await pages(self._requests, self._cache, "resources/list", ListResourcesResult, options)
        return [resource for page in found for resource in page.resources]

    async def templates(self, **options: Unpack[CallOptions]) -> "builtins.list[ResourceTemplate]":
        """Every template for the addresses of resources, all pages. Kept for as long as the server allows."""
        method = "resources/templates/list"
        found = await pages(self._requests, self._cache, method, ListResourceTemplatesResult, options)
        return [template for page in found for template in page.resource_templates]

    async def read(self, uri: str, **options: Unpack[CallOptions]) -> ReadResourceResult:
        """What is in it."""
        return await self._requests.ask(
            "resources/read", {"uri": uri}, ReadResourceResult, options, subject=uri
        )

    async def subscribe(
        self,
        uri: str,
        handler: Callable[[str], object | Awaitable[object]] | None = None,
        *,
        on_end: Callable[[McpError | None], None] | None = None,
        **options: Unpack[CallOptions],
    ) -> None:
        """Hear of every change of it: `handler(uri)` is called, sync or async, and `on_notification` hears of it too.

        It lasts until `unsubscribe()` and is opened again after every reconnect. Where the server ends it, `on_end(error)`
        is called (None: it gave no reason); it is then opened again with the next connection. Subscribing twice
        changes the handler.

        Raises: CapabilityError where the server has no subscriptions, and as every request does.
        """
        for name, function in (("handler", handler), ("on_end", on_end)):
            if function is not None:
                check_function(function, name)
        await self._subscriptions.open(uri, handler, on_end, options)

    async def unsubscribe(self, uri: str, **options: Unpack[CallOptions]) -> None:
        """Hear no more of it. Between two connections there is nobody to tell, and it is just forgotten."""
        await self._subscriptions.close(uri, options)
