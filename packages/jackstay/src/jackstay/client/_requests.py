"""Typed requests: the path from the arguments of a call to its decoded result, shared by all features.

A request is checked against the server's capabilities, encoded, sent and decoded. If the server requires input first
(2026-07-28, multi-round-trip requests), the registered handlers provide it and the request is repeated. Recovery after
a lost connection is implemented in the connection, not here.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import cache, partial
from typing import Annotated, Any, Final, Literal, TypeAlias, TypedDict, TypeVar

import msgspec

from jackstay.client._call import Call
from jackstay.client._deadline import Deadline
from jackstay.client._driver import Driver
from jackstay.client._lists import ENTRIES, MAX_PAGES, Cache, repeated_cursor
from jackstay.client._request_handlers import ClientRequestHandlers
from jackstay.client._telemetry import Span, Trace
from jackstay.errors import (
    CapabilityError,
    Json,
    McpError,
    OutcomeUnknownError,
    ProtocolError,
    StateError,
    TimeoutError,
    UsageError,
)
from jackstay.protocol import MAX_ROUNDS, METHODS, Setting, refuse_unknown, settings_of
from jackstay.protocol.client import ClientState, ServerFacts
from jackstay.types import (
    DECODE_ERRORS,
    TASKS_EXTENSION,
    CallToolResult,
    CreateTaskResult,
    InputRequiredResult,
    PaginatedResult,
    ProgressNotificationParams,
    Result,
    ServerCapabilities,
    decode,
    decode_result,
    encode_json,
    from_json,
    result_reader,
)

logger = logging.getLogger("jackstay.client")

R = TypeVar("R", bound=Result)
P = TypeVar("P", bound=PaginatedResult)

# Called for each progress notification, sync or async.
ProgressHandler: TypeAlias = Callable[[ProgressNotificationParams], object]


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


class CallOptions(TypedDict, total=False):
    """Options of one call, which override the settings.

    `timeout` and `max_timeout` are the soft and the hard deadline; `on_progress` is called for each progress
    notification, which extends the soft deadline; `meta` has additional members for `_meta` of the request.
    """

    # fmt: off
    timeout: Annotated[float | None, Setting("The soft deadline.", is_valid=_is_time, expected="a positive number")]
    max_timeout: Annotated[float | None, Setting("The hard deadline.", is_valid=_is_time, expected="a positive number")]
    wait_for_ready: Annotated[bool, Setting("Whether the call waits for the connection.")]
    busy: Annotated[Literal["retry", "wait"], Setting("What the call does when the transport is busy.")]
    replay: Annotated[Literal["never", "safe"], Setting("Whether the call is sent again after a reconnect.")]
    on_progress: Annotated[ProgressHandler | None, Setting("Called for each progress notification.",
        is_valid=callable, expected="a function")]
    meta: Annotated[Mapping[str, Json] | None, Setting("Additional members of `_meta`.",
        is_valid=lambda value: isinstance(value, Mapping), expected="a mapping")]
    # fmt: on


CALL_OPTIONS: Final = settings_of(CallOptions)

# Completes a result of an extension.
Completion: TypeAlias = Callable[[dict[str, Json]], Awaitable[Mapping[str, Json]]]

# Declared by servers that recognize a call that is sent again with the same key.
IDEMPOTENCY_EXTENSION: Final = "jackstay/idempotency"

Reader: TypeAlias = Callable[[msgspec.Raw], Any]


_reader = cache(result_reader)
_read_tool_result = _reader(CallToolResult)


class Requests:
    """The request API that the features use."""

    def __init__(self, request_handlers: ClientRequestHandlers) -> None:
        self.request_handlers = request_handlers
        self.cache = Cache()
        self.progress_handlers: list[ProgressHandler] = []
        self.trace: Trace | None = None
        # The setting `replay` of the connection.
        self.default_replay = "never"
        # Whether the server runs calls as tasks, and whether it recognizes calls that are sent again.
        self.has_tasks = False
        self.has_idempotency = False
        # Waits for the result of a task in place of a call.
        self.on_task: Callable[[str, CreateTaskResult, Deadline], Awaitable[CallToolResult]] | None = None
        # The functions of extensions that complete a result of `tools/call`, by its `resultType`.
        self.completions: dict[str, Completion] = {}
        self._connection: Driver | None = None
        self._known: ServerFacts | None = None
        self._capability_cache: dict[str, bool] = {}
        # The server whose tools can be called by `call_plain()`.
        self._plain_server: ServerFacts | None = None

    def attach(self, connection: Driver) -> None:
        """Set the connection that requests use."""
        self._connection = connection
        self.default_replay = connection.settings.replay

    def negotiated(self) -> None:
        """Read what the server declared: called when the connection is ready."""
        connection = self.connection
        server = connection.server()
        declared: Json = None
        if connection.core.negotiation.offered:
            declared = msgspec.json.decode(server.capabilities).get("extensions")
        if not isinstance(declared, dict):
            declared = {}
        self.has_tasks = TASKS_EXTENSION in declared
        self.has_idempotency = self.has_tasks and IDEMPOTENCY_EXTENSION in declared
        is_special = connection.target.is_http or self.default_replay == "safe" or self.has_tasks or self.completions
        self._plain_server = server if not is_special and self.has_capability("tools") else None

    def read_tool_result(self, raw: msgspec.Raw) -> Any:
        """Decode a result of `tools/call`: complete, `input_required`, a task, or the members for an extension."""
        try:
            return decode_result(CallToolResult, raw)
        except ProtocolError:
            members = _read_json(raw) if self.completions else {}
            if members.get("resultType") not in self.completions:
                raise
            return members

    async def complete(self, members: dict[str, Json]) -> CallToolResult:
        """Complete a result of an extension. Raises: ProtocolError, if it is not a result of a tool then."""
        completed = await self.completions[str(members["resultType"])](members)
        return from_json(CallToolResult, {**completed, "resultType": "complete"})

    @property
    def connection(self) -> Driver:
        """The connection. Raises: StateError before the client was opened."""
        if self._connection is None:
            raise StateError("new", message="the client is not open; use `async with` or `open()`")
        return self._connection

    # --- capabilities of the server -----------------------------------------------------------------------------------

    def require_capability(self, capability: str) -> None:
        """Raises: CapabilityError if the server lacks the capability."""
        if not self.has_capability(capability):
            raise CapabilityError(capability)

    def has_capability(self, capability: str) -> bool:
        """Return whether the server has the capability; True before the first ready, when nothing is known yet."""
        server = self.connection.core.server
        if server is None:
            return True
        if server is not self._known:
            self._known, self._capability_cache = server, {}
        is_supported = self._capability_cache.get(capability)
        if is_supported is None:
            value: Json = msgspec.json.decode(server.capabilities)
            for name in capability.split("."):
                value = value.get(name) if isinstance(value, dict) else None
            # `"tools": {}` declares tools; a flag inside, such as `listChanged`, must be true.
            is_supported = self._capability_cache[capability] = value is not None and value is not False
        return is_supported

    def capabilities(self) -> ServerCapabilities:
        """Return the capabilities of the server. Raises: StateError before the first ready."""
        return decode(ServerCapabilities, self.connection.server().capabilities)

    def deadline(self, options: CallOptions, began_at: float | None = None) -> Deadline:
        """Return the deadline of a call with several requests, which began now by default.

        Raises: UsageError, StateError.
        """
        _check_options(options)
        connection = self.connection
        unset = msgspec.UNSET
        limits = connection.settings.deadlines(options.get("timeout", unset), options.get("max_timeout", unset))
        return Deadline(connection.time() if began_at is None else began_at, *limits)

    async def wait_until_ready(self, options: CallOptions, deadline: Deadline) -> Driver:
        """Return the connection when it is ready; wait for it if the options allow that.

        For calls with several requests or whose method depends on the era.

        Raises: StateError, TimeoutError, or the error that closed the connection.
        """
        connection = self.connection
        if connection.core.state is ClientState.READY:
            connection.check_loop()
            return connection
        settings = connection.settings
        has_ended = connection.core.state in (ClientState.CLOSING, ClientState.CLOSED)
        if not has_ended and not options.get("wait_for_ready", settings.wait_for_ready):
            raise StateError(connection.core.state.value)
        async with deadline.bound(sent=False):
            await connection.ready(None)
        return connection

    # --- requests -----------------------------------------------------------------------------------------------------

    async def request(
        self,
        method: str,
        params: dict[str, Any],
        result: type[R],
        options: CallOptions,
        *,
        is_safe: bool | None = None,
        subject: str = "",
        deadline: Deadline | None = None,
        read: Reader | None = None,
        has_alternatives: bool = False,
        call: Call[Any] | None = None,
    ) -> R:
        """Send a request and wait for its complete result, providing the input that the server requires in between.

        `is_safe`: whether it may be replayed after a reconnect; default: by `METHODS`. `subject`: its name in
        traces. `deadline`: of the call that this request is part of. `read`: replaces the default decoder.
        `has_alternatives`: return any other result than an input request, too. `call`: the first round of this
        request, as `call_plain()` returned it.

        Raises: any error of `docs/errors.md`.
        """
        connection = self._connection or self.connection
        capability = METHODS[method].capability
        if capability and not self.has_capability(capability):
            raise CapabilityError(capability).about(method, None)
        has_fields = options or self.progress_handlers or self.default_replay == "safe"
        fields = self._call_fields(method, options, is_safe) if has_fields else {}
        read = read or _reader(result)
        for round_number in range(MAX_ROUNDS + 1):
            if deadline is not None:
                fields["began_at"], fields["moved_at"] = deadline.began_at, deadline.moved_at
            if round_number or call is None:
                call = self._begin(method, subject, encode_json(params), read, fields)
            try:
                answer = await call.future
            except asyncio.CancelledError:
                connection.cancel_call(call)
                raise
            except McpError as error:
                if round_number and error.may_have_run is False:
                    raise _outcome_unknown(error) from error
                raise
            if deadline is not None:
                deadline.note(call)
            is_input = isinstance(answer, InputRequiredResult)
            if isinstance(answer, result) or (has_alternatives and not is_input):
                return answer  # type: ignore[no-any-return]  # see the docstring
            if not is_input:
                if isinstance(answer, CreateTaskResult) and self.has_tasks and self.on_task is not None:
                    return await self.on_task(subject, answer, deadline or self.deadline(options))  # type: ignore[return-value]  # of a tool
                message = "the server returned a task, but this client did not declare the tasks capability"
                raise ProtocolError(message, path="$.resultType", sent=True).about(method, call.id)
            if round_number < MAX_ROUNDS:
                if deadline is None:
                    deadline = self.deadline(options, call.made_at)
                    deadline.note(call)
                async with deadline.bound(sent=True):
                    params = await self._next_params(params, answer)
                fields["may_replay"] = False  # the server may have acted on an earlier round
        message = f"the server required input more than {MAX_ROUNDS} times"
        raise ProtocolError(message, sent=True).about(method, None)

    def call_plain(self, params: dict[str, Any]) -> Call[Any] | None:
        """Send a `tools/call` in the common case, which needs less than `request()`; otherwise return None.

        Await its future, and call `cancel_call()` of the connection if that is cancelled. If the result is not a
        `CallToolResult`, pass the call to `request()`.
        """
        connection = self._connection
        server = self._plain_server
        if (
            connection is None
            or server is None
            or server is not connection.core.server
            or self.trace is not None
            or self.progress_handlers
        ):
            return None
        return connection.submit("tools/call", encode_json(params), _read_tool_result)

    async def fetch_list(
        self, method: str, result: type[P], options: CallOptions, deadline: Deadline | None = None
    ) -> list[Any]:
        """Return the entries of all pages, from the cache or from the server. A call with `meta` bypasses the cache.

        All pages share one deadline: `deadline` if this is part of a larger call, else that of `options`.

        Raises: ProtocolError for a repeated cursor and for a list that exceeds the limits; as every request.
        """
        connection = self.connection
        settings, member = connection.settings, ENTRIES[method]
        may_cache = not options.get("meta")
        cached = self.cache.get(method, connection.time()) if may_cache else None
        if cached is not None:
            return [entry for page in cached for entry in getattr(page, member)]
        version = self.cache.version(method)
        deadline = deadline or self.deadline(options)
        fetched: list[P] = []
        entries: list[Any] = []
        size = 0

        def read(raw: msgspec.Raw) -> P | InputRequiredResult | CreateTaskResult:
            nonlocal size
            size += memoryview(raw).nbytes
            if size > (limit := settings.max_list_bytes):
                raise ProtocolError(f"the list is larger than {limit} bytes (max_list_bytes)", sent=True)
            page = decode_result(result, raw)
            if len(entries) + len(getattr(page, member, ())) > (limit := settings.max_list_entries):
                raise ProtocolError(f"the list has more than {limit} entries (max_list_entries)", sent=True)
            return page

        seen: set[str] = set()
        params: dict[str, Any] = {}
        while len(fetched) < MAX_PAGES:
            page = await self.request(method, params, result, options, deadline=deadline, read=read)
            fetched.append(page)
            entries += getattr(page, member)
            cursor = page.next_cursor
            if cursor is None:
                if may_cache:
                    self.cache.put(method, fetched, connection.time(), version)
                return entries
            if cursor in seen:
                raise repeated_cursor(method, cursor)
            seen.add(cursor)
            params = {"cursor": cursor}
        raise ProtocolError(f"the list has more than {MAX_PAGES} pages", sent=True).about(method, None)

    async def _next_params(self, params: dict[str, Any], required: InputRequiredResult) -> dict[str, Any]:
        """Return the params of the next round: the same, with the input responses and the unchanged request state."""
        following = {key: params[key] for key in params if key not in ("inputResponses", "requestState")}
        if required.input_requests:
            following["inputResponses"] = await self.request_handlers.fulfil(required.input_requests)
        if required.request_state is not None:
            following["requestState"] = required.request_state
        return following

    def submit(self, method: str, params: Mapping[str, Json], options: CallOptions) -> Call[dict[str, Json]]:
        """Send a request and return at once; await the call for its result as plain JSON. Raises: UsageError."""
        name: object = method
        if not isinstance(name, str) or not name:
            raise UsageError(f"method must be a non-empty str, got {method!r}", path="method")
        check_mapping(params, "params")
        row = METHODS.get(method)
        connection = self.connection
        server = connection.core.server
        # The experimental tasks of 2025-11-25 needed a capability; the extension of the same methods does not.
        if row is not None and row.capability and (server is None or server.version <= row.until):
            self.require_capability(row.capability)
        fields = self._call_fields(method, options, None)
        call = self._begin(method, "", encode_json(dict(params)), _read_json, fields)
        call.future.add_done_callback(partial(_on_done, connection, call))
        return call

    def _begin(self, method: str, subject: str, params: bytes, read: "Reader", fields: dict[str, Any]) -> Call[Any]:
        """Submit a request. If it is traced, `_meta` has the context of its span, which ends with the call."""
        if self.trace is None:
            return self.connection.submit(method, params, read, **fields)
        span = self.trace(method, subject)
        # Members that the caller passed as `meta` take precedence.
        meta = {**span.meta, **msgspec.json.decode(b"{%b}" % fields.get("meta", b""))}
        call: Call[Any] = self.connection.submit(method, params, read, **{**fields, "meta": encode_json(meta)[1:-1]})
        call.future.add_done_callback(partial(_end_span, span, call))
        return call

    def _call_fields(self, method: str, options: CallOptions, is_safe: bool | None) -> dict[str, Any]:
        """Return the fields of `Called` for these options. Raises: UsageError."""
        if options:
            _check_options(options)
        fields: dict[str, Any] = {**options}
        replay = fields.pop("replay", self.default_replay)
        if meta := fields.pop("meta", None):
            fields["meta"] = encode_json(dict(meta))[1:-1]
        if self.progress_handlers or fields.get("on_progress") is not None:
            fields["wants_progress"] = True
        if replay == "safe":
            row = METHODS.get(method)
            fields["may_replay"] = is_safe if is_safe is not None else row is not None and row.is_safe
        return fields


def check_mapping(values: object, name: str) -> None:
    """Raises: UsageError if `values`, the argument `name`, is not a mapping."""
    if not isinstance(values, Mapping):
        kind = type(values).__name__
        raise UsageError(f"{name} must be a mapping such as {{'city': 'Rome'}}, not {kind}", path=name)


def _check_options(options: CallOptions) -> None:
    """Raises: UnexpectedOptionError for an unknown option, UsageError for a bad value."""
    refuse_unknown(options, CALL_OPTIONS, "the call")
    for name, value in options.items():
        CALL_OPTIONS[name].check(value)


def _on_done(connection: Driver, call: Call[Any], future: "asyncio.Future[Any]") -> None:
    """Log a failure, because the caller may never await the call; propagate a cancellation to the server."""
    if future.cancelled():
        connection.cancel_call(call)
    elif (error := call.retrieve_exception()) is not None:
        logger.debug("%s: %r failed: %s", connection.telemetry.client, call, error)


def _end_span(span: Span, call: Call[Any], future: "asyncio.Future[Any]") -> None:
    error = asyncio.CancelledError("cancelled by the caller") if future.cancelled() else future.exception()
    span.end(call.id, error)


def _outcome_unknown(error: McpError) -> McpError:
    """Return the error for a later round of a call: the server may have acted on an earlier round."""
    if isinstance(error, TimeoutError):
        unknown: McpError = TimeoutError(error.timeout, sent=True, limit=error.limit)
    else:
        unknown = OutcomeUnknownError(error.message)
    return unknown.about(error.method, error.request_id)


def _read_json(raw: msgspec.Raw) -> dict[str, Json]:
    try:
        value = msgspec.json.decode(raw)
    except DECODE_ERRORS as error:
        raise ProtocolError(f"the result is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise ProtocolError("the result must be an object", path="$")
    return value
