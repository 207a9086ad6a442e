"""`client.tools`: list them, call them.

Above: users. Below: `_requests`, `_lists`.
"""

import logging
from collections.abc import Mapping
from typing import Unpack

from mooring.client._lists import Cache, pages
from mooring.client._requests import CallOptions, Requests
from mooring.errors import Json, ProtocolError, UsageError
from mooring.types import CallToolResult, ListToolsResult, Tool

logger = logging.getLogger("mooring.client")


class ToolOptions(CallOptions, total=False):
    """As every call, and `check_output`: True refuses an output that breaks the tool's schema, False does not look."""

    check_output: bool


class Tools:
    """The tools of a server."""

    def __init__(self, requests: Requests, cache: Cache) -> None:
        self._requests = requests
        self._cache = cache
        self._known: dict[str, Tool] = {}

    async def list(self, **options: Unpack[CallOptions]) -> list[Tool]:
        """Every tool, all pages. Kept for as long as the server allows."""
        found = await pages(self._requests, self._cache, "tools/list", ListToolsResult, options)
        tools = [tool for page in found for tool in page.tools]
        self._known = {tool.name: tool for tool in tools}
        return tools

    async def call(
        self, name: str, arguments: Mapping[str, Json] | None = None, **options: Unpack[ToolOptions]
    ) -> CallToolResult:
        """Run a tool. A tool that failed has `is_error` on its result; `.text` is what it says.

        Raises: OutcomeUnknownError or TimeoutError where it may have run, others where it surely did not, JsonRpcError
        where the server refused it: `docs/errors.md` says what each allows you to assume.
        """
        check_output = options.pop("check_output", None)
        params = {"name": name, "arguments": dict(arguments or {})}
        result = await self._requests.ask(
            "tools/call", params, CallToolResult, options, is_safe=self._is_safe(name)
        )
        if check_output is not False:
            self._check_output(name, result, must=check_output is True)
        return result

    def session_mode(self) -> str:
        """`required` when any listed tool is stateful, else `optional`."""
        return "required" if any(tool.mode == "stateful" for tool in self._known.values()) else "optional"

    def _is_safe(self, name: str) -> bool:
        tool = self._known.get(name)
        hints = None if tool is None else tool.annotations
        return hints is not None and bool(hints.read_only_hint or hints.idempotent_hint)

    def _check_output(self, name: str, result: CallToolResult, *, must: bool) -> None:
        tool = self._known.get(name)
        schema = None if tool is None else tool.output_schema
        if schema is None or result.is_error:
            return
        try:
            from mooring.client._output import flaw_in  # noqa: PLC0415  # the schema library is an extra, and slow to load
        except ImportError as missing:
            if must:
                message = "checking output needs the extra `schema`: pip install 'mooring[schema]'"
                raise UsageError(message, path="check_output") from missing
            return
        flaw = flaw_in(schema, result.structured_content)
        if flaw is None:
            return
        if must:
            raise ProtocolError(f"the output of {name} breaks its schema: {flaw}", sent=True).about(
                "tools/call", None
            )
        logger.warning("the output of %s breaks its schema: %s", name, flaw)
