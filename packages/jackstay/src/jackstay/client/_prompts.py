"""`client.prompts`: list them, get one.

Above: users. Below: `_requests`, `_lists`.
"""

from collections.abc import Mapping
from typing import Any, Unpack

from jackstay.client._lists import Cache, pages
from jackstay.client._requests import CallOptions, Requests, check_named
from jackstay.types import GetPromptResult, ListPromptsResult, Prompt


class Prompts:
    """The prompts of a server."""

    def __init__(self, requests: Requests, cache: Cache) -> None:
        self._requests = requests
        self._cache = cache

    async def list(self, **options: Unpack[CallOptions]) -> list[Prompt]:
        """Every prompt, all pages. Kept for as long as the server allows."""
        found = await pages(self._requests, self._cache, "prompts/list", ListPromptsResult, options)
        return [prompt for page in found for prompt in page.prompts]

    async def get(
        self, name: str, arguments: Mapping[str, str] | None = None, **options: Unpack[CallOptions]
    ) -> GetPromptResult:
        """One prompt, filled in. Raises: UsageError for arguments without names, and as every request does."""
        params: dict[str, Any] = {"name": name}
        if arguments is not None:
            check_named(arguments, "arguments")
            params["arguments"] = dict(arguments)
        return await self._requests.ask("prompts/get", params, GetPromptResult, options, subject=name)
