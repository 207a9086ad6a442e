"""`client.tools`: list and call tools."""

import asyncio
import builtins
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack, cast

from jackstay._signatures import shows
from jackstay.client._deadline import Deadline
from jackstay.client._driver import Driver
from jackstay.client._requests import CallOptions, Requests, check_mapping
from jackstay.client._tasks import TaskHandle, Tasks
from jackstay.errors import (
    Json,
    JsonRpcError,
    McpError,
    OutcomeUnknownError,
    ProtocolError,
    TimeoutError,
    ToolCallError,
    TransportError,
    UsageError,
)
from jackstay.extras import install_command
from jackstay.protocol import Era
from jackstay.protocol.client import Settings
from jackstay.protocol.wire import ErrorCode
from jackstay.types import CallToolResult, ListToolsResult, OutputReader, Tool

if TYPE_CHECKING:
    from jackstay.client._output import Check

logger = logging.getLogger("jackstay.client")

# Seconds that a call waits for the list of tools after its result has arrived.
MAX_LIST_SECONDS = 5.0

_NOT_MAPPINGS = (str, bytes, int, float, list, tuple, set, frozenset)


class ToolOptions(CallOptions, total=False):
    """Options of a tool call.

    `check_output`: True raises for output that violates the tool's schema, False skips the check. `raise_on_error`:
    False returns the result of a tool that failed, instead of raising ToolCallError.
    """

    check_output: bool
    raise_on_error: bool


class Tools:
    """The tools of a server."""

    def __init__(self, requests: Requests, tasks: Tasks) -> None:
        self._requests = requests
        self._tasks = tasks
        tasks._describe = lambda name, result: self._described(name, result, {}, requests.connection.time())
        self._cache = requests.cache
        self._known: dict[str, Tool] = {}
        # The cache version of the list that was fetched last, and a lock so that concurrent calls fetch it once.
        self._listed_version: int | None = None
        self._listing = asyncio.Lock()
        # By name of a called tool; None if it has no output schema or the schema library is not installed.
        self._checks: dict[str, Check | None] = {}
        # The readers for `result.data`, by name of a tool with an output schema, and of which version of the list.
        self._readers: dict[str, OutputReader] = {}
        self._readers_version: int | None = None

    async def _list(self, options: CallOptions, deadline: Deadline | None) -> list[Tool]:
        """List tools as part of a call with this deadline; without one, as `list()`."""
        version = self._cache.version("tools/list")
        listed = await self._requests.fetch_list("tools/list", ListToolsResult, options, deadline)
        tools = _usable(self._requests.connection, listed)
        self._known = {tool.name: tool for tool in tools}
        self._listed_version = version
        self._checks.clear()
        self._keep_readers(tools, version)
        return tools

    @shows("jackstay.client:CallOptions")
    async def list(self, **options: Unpack[CallOptions]) -> list[Tool]:
        """Return every tool of all pages, cached for as long as the server allows."""
        return await self._list(options, None)

    @shows("jackstay.client:ToolOptions")
    async def call(
        self, name: str, arguments: Mapping[str, Json] | None = None, **options: Unpack[ToolOptions]
    ) -> CallToolResult:
        """Call a tool. `.text` is the text of the result, `.data` its structured output.

        The options are those of `CallOptions` and `ToolOptions`.

        Output that violates the listed output schema is logged; with `check_output=True` it raises ProtocolError.

        Raises: ToolCallError if the tool failed, unless `raise_on_error=False`; OutcomeUnknownError or TimeoutError if
        the call may have run, JsonRpcError if the server returned an error, others if the call did not run.
        `docs/errors.md` lists what each one guarantees.
        """
        requests = self._requests
        params = {"name": name, "arguments": arguments if type(arguments) is dict else as_object(arguments)}
        must_raise = pop_raise_on_error(options) if options else True
        tool = self._known.get(name)
        has_schema = tool is not None and tool.output_schema is not None
        call = None if options or has_schema else requests.call_plain(params)
        if call is None:
            return await self._call(name, params, options, None, must_raise=must_raise)
        try:
            result: CallToolResult = await call.future
        except asyncio.CancelledError:
            requests.connection.cancel_call(call)
            raise
        if type(result) is not CallToolResult:  # the server requires input first, or created a task
            result = await requests.request("tools/call", params, CallToolResult, options, subject=name, call=call)
        if result.structured_content is None and not result.is_error:
            return result
        return await self._finished(name, result, options, call.made_at, must_raise=must_raise)

    @shows("jackstay.client:CallOptions")
    async def start(
        self, name: str, arguments: Mapping[str, Json] | None = None, **options: Unpack[CallOptions]
    ) -> TaskHandle:
        """Call a tool, and return when the server has accepted the call: await the handle for the result.

        If the server runs the call as a task, the handle has its id, and the task continues when this process ends. If
        not, this waits for the result. The options are those of `call()`, and apply to the start only.

        Raises: as `call()`.
        """
        deadline = self._requests.deadline(options)
        await self._requests.wait_until_ready(options, deadline)
        params = {"name": name, "arguments": as_object(arguments)}
        answer = await self._tasks._call(name, params, options, deadline, is_safe=None)
        if isinstance(answer, TaskHandle):
            return answer
        answer = await self._finished(name, answer, options, deadline.began_at, must_raise=False)
        return TaskHandle(self._tasks, "", name, answer)

    async def _call(
        self, name: str, params: dict[str, Any], options: ToolOptions, deadline: Deadline | None, *, must_raise: bool
    ) -> CallToolResult:
        """Call a tool in every case; as part of a larger call with this deadline.

        The list of tools may matter: to check the output, to replay, and for header parameters.
        """
        began_at = self._requests.connection.time()
        must_check = options.pop("check_output", None)
        if must_check not in (None, True, False):
            raise UsageError(f"check_output must be a bool, got {must_check!r}", path="check_output")
        if must_check:
            deadline = deadline or self._requests.deadline(options)
            await self._prepare_check(name, options, deadline)
        try:
            result = await self._run(name, params, options, deadline)
        except JsonRpcError as error:
            # On other transports the code is application-defined, and the call may have run.
            if error.code != ErrorCode.HEADER_MISMATCH or not _has_headers(self._requests.connection):
                raise
            # The schema has changed since it was listed: refresh it and retry (2026-07-28
            # basic/transports/streamable-http). The server refuses before dispatch, so the retry is safe.
            self._cache.invalidate("notifications/tools/list_changed")
            deadline = deadline or self._requests.deadline(options, began_at)
            await self._list_before(options, deadline)
            result = await self._run(name, params, options, deadline)
        if self._known and must_check is not False:
            self._check_output(name, result, must=must_check is True)
        return await self._finished(name, result, options, began_at, must_raise=must_raise)

    async def _run(
        self, name: str, params: dict[str, Any], options: CallOptions, deadline: Deadline | None
    ) -> CallToolResult:
        """Request the call. It is replayed after a reconnect if its tool is listed as safe to repeat."""
        requests = self._requests
        is_safe: bool | None = None
        if options.get("replay", requests.default_replay) == "safe":
            if name not in self._known and self._listed_version != self._cache.version("tools/list"):
                deadline = deadline or requests.deadline(options)
                await self._ensure_listed(name, options, deadline)
            hints = self._known[name].annotations if name in self._known else None
            is_safe = hints is not None and bool(hints.read_only_hint or hints.idempotent_hint)
        try:
            if requests.has_tasks or requests.completions:  # it may become a task, or be completed by an extension
                deadline = deadline or requests.deadline(options)
                answer = await self._tasks._call(name, params, options, deadline, is_safe=is_safe)
                return answer if isinstance(answer, CallToolResult) else await self._tasks._drive(answer, deadline)
            return await requests.request(
                "tools/call", params, CallToolResult, options, is_safe=is_safe, subject=name, deadline=deadline
            )
        except OutcomeUnknownError as error:
            if is_safe is False:
                is_listed = name in self._known
                annotated = f"{name!r} is annotated neither as read-only nor as idempotent"
                reason = annotated if is_listed else f"the server did not list {name!r}"
                error.advice = f"the call was not replayed because {reason}; {error.advice}"
            raise

    async def _ensure_listed(self, name: str, options: CallOptions, deadline: Deadline) -> None:
        """Fetch the list, which decides whether the call may be replayed. Raises: TimeoutError with `sent=False`."""
        try:
            async with deadline.bound(sent=False), self._listing:
                if name not in self._known and self._listed_version != self._cache.version("tools/list"):
                    await self._list(list_options(options), deadline)
        except TimeoutError as late:
            raise deadline.error(sent=False).about("tools/call", None) from late
        except McpError as error:
            client = self._requests.connection.telemetry.client
            logger.warning(
                "%s: listing the tools failed, so %r is not replayed after a reconnect: %s", client, name, error
            )

    async def _list_before(self, options: CallOptions, deadline: Deadline) -> None:
        """Fetch the list before the call is sent. Raises: as `list()`, but `may_have_run` describes the call."""
        try:
            await self._list(list_options(options), deadline)
        except TimeoutError as late:
            raise deadline.error(sent=False).about("tools/call", None) from late
        except OutcomeUnknownError as lost:
            unsent = TransportError(lost.message, exit_code=lost.exit_code, stderr_tail=lost.stderr_tail)
            raise unsent.about("tools/call", None) from lost
        except McpError as error:
            error.may_have_run = False
            raise

    def session_mode(self) -> str:
        """Return `required` if any listed tool is stateful, else `optional`."""
        return "required" if any(tool.mode == "stateful" for tool in self._known.values()) else "optional"

    # --- output -------------------------------------------------------------------------------------------------------

    async def _finished(
        self, name: str, result: CallToolResult, options: CallOptions, began_at: float, *, must_raise: bool
    ) -> CallToolResult:
        """Return the result, with a reader for its data. Raises: ToolCallError."""
        if result.is_error and must_raise:
            raise ToolCallError.of(name, result)
        has_data = result.structured_content is not None and not result.is_error
        return await self._described(name, result, options, began_at) if has_data else result

    async def _described(
        self, name: str, result: CallToolResult, options: CallOptions, began_at: float
    ) -> CallToolResult:
        """Return the result with a reader for the output schema of its tool.

        The list of tools is fetched if it has changed since. The time for that is part of the call's, and short: the
        result has arrived.
        """
        if self._readers_version != self._cache.version("tools/list"):
            shared = list_options(options)
            deadline = self._requests.deadline(shared, began_at)
            try:
                async with asyncio.timeout(MAX_LIST_SECONDS), deadline.bound(sent=True), self._listing:
                    if self._readers_version != (version := self._cache.version("tools/list")):  # by another call
                        tools = await self._requests.fetch_list("tools/list", ListToolsResult, shared, deadline)
                        self._keep_readers(tools, version)
            except (McpError, builtins.TimeoutError) as error:
                # Not tried again before the next change: a server without a list must not delay every call.
                self._keep_readers((), self._cache.version("tools/list"))
                logger.debug("listing the tools failed, so the data of %r is plain JSON: %s", name, error)
        return result.with_reader(self._readers.get(name))

    def _keep_readers(self, tools: Sequence[Tool], version: int) -> None:
        self._readers = {
            tool.name: OutputReader(tool.output_schema) for tool in tools if tool.output_schema is not None
        }
        self._readers_version = version

    async def _prepare_check(self, name: str, options: CallOptions, deadline: Deadline) -> None:
        """Make sure that the output can be checked, before the call is sent.

        Raises: UsageError; as `_list_before()`.
        """
        if name not in self._known:
            await self._list_before(options, deadline)
        if self._schema(name) is not None and self._check(name) is None:
            message = f"check_output=True requires the extra `schema`: {install_command('schema')}"
            raise UsageError(message, path="check_output")

    def _schema(self, name: str) -> Mapping[str, Json] | None:
        tool = self._known.get(name)
        return None if tool is None else tool.output_schema

    def _check(self, name: str) -> "Check | None":
        """Return the check for this tool's output, or None if it has no schema or the schema library is missing."""
        if name not in self._checks:
            schema = self._schema(name)
            self._checks[name] = None if schema is None else _checker(schema, self._requests.connection.settings)
        return self._checks[name]

    def _check_output(self, name: str, result: CallToolResult, *, must: bool) -> None:
        check = None if result.is_error else self._check(name)
        if check is None:
            return
        has_output = result.structured_content is not None or result.has("structuredContent")
        problem = check(result.structured_content) if has_output else "no structuredContent"
        if problem is None:
            return
        if must:
            error = ProtocolError(f"the output of {name!r} violates its output schema: {problem}", sent=True)
            raise error.about("tools/call", None)
        logger.warning("the output of %r violates its output schema: %s", name, problem)


def as_object(arguments: object) -> object:
    """Return a mapping as a dict, and a msgspec Struct or dataclass unchanged. Raises: UsageError for other types."""
    if isinstance(arguments, _NOT_MAPPINGS):
        check_mapping(arguments, "arguments")
    if arguments is None:
        return {}
    return dict(arguments) if isinstance(arguments, Mapping) else arguments


def _has_headers(connection: Driver) -> bool:
    """Return whether arguments may be sent as headers: over HTTP to a stateless server."""
    server = connection.core.server
    return connection.target.is_http and server is not None and server.era is Era.STATELESS


def _usable(connection: Driver, tools: list[Tool]) -> list[Tool]:
    """Return the tools that can be called, and store the header parameters of each.

    Over stateless HTTP, a tool with invalid header parameters must be dropped (2026-07-28
    basic/transports/streamable-http, "Schema Extension").
    """
    if not _has_headers(connection):
        return tools
    from jackstay.protocol.http import read_param_headers  # noqa: PLC0415  # only over HTTP

    usable: list[Tool] = []
    connection.header_params = header_params = {}
    for tool in tools:
        found = read_param_headers(dict(tool.input_schema))
        if found.problems:
            logger.warning("tool %r is omitted: invalid header parameters: %s", tool.name, "; ".join(found.problems))
            continue
        usable.append(tool)
        header_params[tool.name] = found.rows
    return usable


def pop_raise_on_error(options: ToolOptions) -> bool:
    """Remove this option and return its value. Raises: UsageError."""
    must_raise = options.pop("raise_on_error", True)
    if must_raise not in (True, False):
        raise UsageError(f"raise_on_error must be a bool, got {must_raise!r}", path="raise_on_error")
    return must_raise


def list_options(options: CallOptions) -> CallOptions:
    """Return the options of a call that also apply to listing the tools for it."""
    excluded = ("check_output", "on_progress", "meta")
    shared = {key: value for key, value in options.items() if key not in excluded}
    return cast(CallOptions, shared)


def _checker(schema: Mapping[str, Json], settings: Settings) -> "Check | None":
    try:
        from jackstay.client._output import checker  # noqa: PLC0415  # an extra, and slow to import
    except ImportError:
        return None
    return checker(schema, settings.check_output_timeout)
