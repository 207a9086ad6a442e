"""`client.prompts`: list prompts and get one."""

from collections.abc import Mapping
from typing import Any, Unpack

from jackstay.client._lists import Cache, fetch_pages
from jackstay.client._requests import CallOptions, Requests, check_mapping
from jackstay.types import GetPromptResult, ListPromptsResult, Prompt


class Prompts:
    """The prompts of a server."""

    def __init__(self, requests: Requests, cache: Cache) -> None:
        self._requests = requests
        self._cache = cache

    async def list(self, **options: Unpack[CallOptions]) -> list[Prompt]:
        """Return every prompt of all pages, cached for as long as the server allows."""
        pages = await fetch_pages(self._requests, self._cache, "prompts/list", ListPromptsResult, options)
        return [prompt for page in pages for prompt in page.prompts]

    async def get(
        self, name: str, arguments: Mapping[str, str] | None = None, **options: Unpack[CallOptions]
    ) -> GetPromptResult:
        """Return one prompt with its arguments filled in.

        Raises: UsageError if `arguments` is not a mapping; as every request (`docs/errors.md`).
        """
        params: dict[str, Any] = {"name": name}
        if arguments is not None:
            check_mapping(arguments, "arguments")
            params["arguments"] = dict(arguments)
        return await self._requests.request("prompts/get", params, GetPromptResult, options, subject=name)
