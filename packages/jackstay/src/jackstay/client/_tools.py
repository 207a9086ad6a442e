"""`client.tools`: list them, call them.

Above: users. Below: `_requests`, `_lists`, and `_output` on first use.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Unpack, cast

from jackstay.client._connection import Connection
from jackstay.client._deadline import Deadline
from jackstay.client._lists import Cache, pages
from jackstay.client._requests import CallOptions, Requests
from jackstay.errors import (
    Json,
    JsonRpcError,
    McpError,
    OutcomeUnknownError,
    ProtocolError,
    TimeoutError,
    TransportError,
    UsageError,
)
from jackstay.extras import install_command
from jackstay.protocol import Era
from jackstay.protocol.client import Settings
from jackstay.protocol.wire import ErrorCode
from jackstay.types import CallToolResult, ListToolsResult, Tool

if TYPE_CHECKING:
    from jackstay.client._output import Check

logger = logging.getLogger("jackstay.client")

_NAMELESS = (str, bytes, int, float, list, tuple, set, frozenset)


class ToolOptions(CallOptions, total=False):
    """As every call, and `check_output`: True refuses an output that breaks the tool's schema, False does not look."""

    check_output: bool


class Tools:
    """The tools of a server."""

    def __init__(self, requests: Requests, cache: Cache) -> None:
        self._requests = requests
        self._cache = cache
        self._known: dict[str, Tool] = {}
        # What the list was when it was fetched last, and one fetch at a time for calls that need it.
        self._listed_at: tuple[int, int] | None = None
        self._listing: asyncio.Lock | None = None
        # By name, for tools with an output schema that were called; None: the schema library is not installed.
        self._checks: dict[str, Check | None] = {}

    async def _list(self, options: CallOptions, deadline: Deadline | None) -> list[Tool]:
        """List as a part of a call with this deadline; without one, as `list()`."""
        mark = self._cache.mark("tools/list")
        found = await pages(
            self._requests, self._cache, "tools/list", ListToolsResult, options, deadline=deadline
        )
        tools = _usable(self._requests.connection, [tool for page in found for tool in page.tools])
        self._known = {tool.name: tool for tool in tools}
        self._listed_at = mark
        self._checks.clear()
        return tools

    async def list(self, **options: Unpack[CallOptions]) -> list[Tool]:
        """Every tool, all pages. Kept for as long as the server allows."""
        return await self._list(options, None)

    async def call(
        self, name: str, arguments: Mapping[str, Json] | None = None, **options: Unpack[ToolOptions]
    ) -> CallToolResult:
        """Run a tool. A tool that failed has `is_error` on its result; `.text` is what it says.

        Output that breaks the tool's schema, as listed before, is logged; `check_output=True` refuses it.

        Raises: OutcomeUnknownError or TimeoutError where it may have run, others where it surely did not, JsonRpcError
        where the server refused it: `docs/errors.md` says what each allows you to assume.
        """
        return await self._call(name, arguments, options, None)

    async def _call(
        self,
        name: str,
        arguments: Mapping[str, Json] | None,
        options: ToolOptions,
        deadline: Deadline | None,
    ) -> CallToolResult:
        """Call as a part of something larger with this deadline; without one, as `call()`."""
        must_check: bool | None = None
        began_at = asyncio.get_running_loop().time()
        if options:
            must_check = options.pop("check_output", None)
            if must_check not in (None, True, False):
                raise UsageError(
                    f"check_output must be True or False, not {must_check!r}", path="check_output"
                )
            if must_check:
                deadline = deadline or self._requests.deadline(options)
                await self._prepare_check(name, options, deadline)
        params = {"name": name, "arguments": arguments if type(arguments) is dict else _named(arguments)}
        try:
            result = await self._run(name, params, options, deadline)
        except JsonRpcError as error:
            # Elsewhere the code is a server's own, and the call may have run.
            if error.code != ErrorCode.HEADER_MISMATCH or not _has_headers(self._requests.connection):
                raise
            # What we said in headers is not what the tool wants said there: by the newest list it may be (2026-07-28
            # basic/transports/streamable-http). It was refused before dispatch, so sending it again is safe.
            self._cache.changed("notifications/tools/list_changed")
            if deadline is None:
                deadline = self._requests.deadline(options)
                deadline.began_at = deadline.moved_at = began_at
            await self._list_before(options, deadline)
            result = await self._run(name, params, options, deadline)
        if self._known and must_check is not False:
            self._check_output(name, result, must=must_check is True)
        return result

    async def _run(
        self, name: str, params: dict[str, Any], options: CallOptions, deadline: Deadline | None
    ) -> CallToolResult:
        replays = options.get("replay", self._requests.connection.settings.replay) == "safe"
        if replays and name not in self._known and self._listed_at != self._cache.mark("tools/list"):
            deadline = deadline or self._requests.deadline(options)
            await self._look_up(name, options, deadline)
        is_safe = self._is_safe(name)
        try:
            return await self._requests.ask(
                "tools/call",
                params,
                CallToolResult,
                options,
                is_safe=is_safe,
                subject=name,
                deadline=deadline,
            )
        except OutcomeUnknownError as error:
            if replays and not is_safe:
                error.advice = f"it was not sent again because {self._why_not(name)}; {error.advice}"
            raise

    async def _look_up(self, name: str, options: CallOptions, deadline: Deadline) -> None:
        """Fetch the list, which decides whether a call may be sent again. Raises: TimeoutError, saying that it was not sent."""
        if self._listing is None:
            self._listing = asyncio.Lock()
        try:
            async with deadline.bound(sent=False), self._listing:
                if name not in self._known and self._listed_at != self._cache.mark("tools/list"):
                    await self._list(of_any_call(options), deadline)
        except TimeoutError as late:
            raise deadline.error(sent=False).about("tools/call", None) from late
        except McpError as error:
            client = self._requests.connection.telemetry.client
            logger.warning(
                "%s: the tools cannot be listed, so %r is not sent again after a loss: %s",
                client,
                name,
                error,
            )

    async def _list_before(self, options: CallOptions, deadline: Deadline) -> None:
        """Fetch the list that a call needs before it is sent. Raises: as a list does; `may_have_run` is that of the call."""
        try:
            await self._list(of_any_call(options), deadline)
        except TimeoutError as late:
            raise deadline.error(sent=False).about("tools/call", None) from late
        except OutcomeUnknownError as lost:
            unsent = TransportError(lost.message, exit_code=lost.exit_code, stderr_tail=lost.stderr_tail)
            raise unsent.about("tools/call", None) from lost
        except McpError as error:
            error.may_have_run = False
            raise

    def _why_not(self, name: str) -> str:
        if name in self._known:
            return f"{name!r} is hinted neither as read-only nor as idempotent"
        return f"the server did not list {name!r}"

    def session_mode(self) -> str:
        """`required` when any listed tool is stateful, else `optional`."""
        return "required" if any(tool.mode == "stateful" for tool in self._known.values()) else "optional"

    def _is_safe(self, name: str) -> bool:
        tool = self._known.get(name)
        hints = None if tool is None else tool.annotations
        return hints is not None and bool(hints.read_only_hint or hints.idempotent_hint)

    # --- output -------------------------------------------------------------------------------------------------------

    async def _prepare_check(self, name: str, options: CallOptions, deadline: Deadline) -> None:
        """Before anything runs: is there what checking needs? Raises: UsageError, and as `_list_before()`."""
        if name not in self._known:
            await self._list_before(options, deadline)
        if self._check(name) is None and self._schema(name) is not None:
            message = f"checking output needs the extra `schema`: {install_command('schema')}"
            raise UsageError(message, path="check_output")

    def _schema(self, name: str) -> Mapping[str, Json] | None:
        tool = self._known.get(name)
        return None if tool is None else tool.output_schema

    def _check(self, name: str) -> "Check | None":
        """The check of this tool's output; None: it has no schema, or there is nothing to check with."""
        if name not in self._checks:
            schema = self._schema(name)
            self._checks[name] = (
                None if schema is None else _checker(schema, self._requests.connection.settings)
            )
        return self._checks[name]

    def _check_output(self, name: str, result: CallToolResult, *, must: bool) -> None:
        check = None if result.is_error else self._check(name)
        if check is None:
            return
        if result.structured_content is None and not result.has("structuredContent"):
            flaw: str | None = "there is no structured content"
        else:
            flaw = check(result.structured_content)
        if flaw is None:
            return
        if must:
            refusal = ProtocolError(f"the output of {name} breaks its schema: {flaw}", sent=True)
            raise refusal.about("tools/call", None)
        logger.warning("the output of %s breaks its schema: %s", name, flaw)


def _named(arguments: object) -> object:
    """Any mapping as a dict; a Struct or a dataclass of the user's as it is. Raises: UsageError for what has no names."""
    if isinstance(arguments, _NAMELESS):
        kind = type(arguments).__name__
        raise UsageError(
            f"arguments must have names, as in {{'city': 'Rome'}}; {kind} has none", path="arguments"
        )
    if arguments is None:
        return {}
    return dict(arguments) if isinstance(arguments, Mapping) else arguments


def _has_headers(connection: Connection) -> bool:
    """Whether arguments may be said in headers: over HTTP, in the stateless era."""
    server = connection.core.server
    return connection.target.is_http and server is not None and server.era is Era.STATELESS


def _usable(connection: Connection, tools: list[Tool]) -> list[Tool]:
    """The tools that can be called. Over stateless HTTP, one whose marked arguments break the rules must be dropped
    (2026-07-28 "Schema Extension"); what is marked in the others is remembered for their calls.
    """
    if not _has_headers(connection):
        return tools
    from jackstay.protocol.http import read_param_headers  # noqa: PLC0415  # only over HTTP

    usable: list[Tool] = []
    connection.marked_arguments = marked = {}
    for tool in tools:
        found = read_param_headers(dict(tool.input_schema))
        if found.problems:
            logger.warning("the tool %r is left out of the list: %s", tool.name, "; ".join(found.problems))
            continue
        usable.append(tool)
        if found.rows:
            marked[tool.name] = found.rows
    return usable


def of_any_call(options: CallOptions) -> CallOptions:
    """What of a call's options holds for the list that it needs."""
    shared = {key: options[key] for key in options if key not in ("check_output", "on_progress", "meta")}  # type: ignore[literal-required]  # names from the TypedDict
    return cast(CallOptions, shared)  # a part of one


def _checker(schema: Mapping[str, Json], settings: Settings) -> "Check | None":
    try:
        from jackstay.client._output import checker  # noqa: PLC0415  # the schema library is an extra, and slow to load
    except ImportError:
        return None
    return checker(schema, settings.check_output_timeout)
