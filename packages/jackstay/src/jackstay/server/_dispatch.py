"""The dispatcher: finds the handler of a request, runs it through the middleware, and encodes its result.

Non-blocking functions are called directly, async ones in a task, blocking ones in the thread pool. All exceptions of
handlers are translated here: the messages of `ToolError` and similar reach the client, others only the log
(`_failures`).
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from jackstay import types
from jackstay.errors import CapabilityError, JsonRpcError, McpError, ProtocolError, ShutdownError
from jackstay.protocol import METHODS, REVISIONS
from jackstay.protocol.server import ServerConfig, check_capabilities
from jackstay.protocol.server import events as e
from jackstay.protocol.wire import ErrorCode
from jackstay.server._catalogue import LISTS, Catalogue
from jackstay.server._driver import Caller, Driver, Outcome, Serve
from jackstay.server._entries import Entry
from jackstay.server._failures import InsufficientScopeError, ResourceNotFoundError, ToolError, report
from jackstay.server._functions import Call
from jackstay.server._output import encode_content_result, error_result
from jackstay.server._tools import ToolEntry
from jackstay.types import DECODE_ERRORS, Body

if TYPE_CHECKING:
    from jackstay.server._completions import CompletionEntry
    from jackstay.server._context import Context
    from jackstay.server._depends import Dependencies
    from jackstay.server._input_required import InputRounds, KeyRing
    from jackstay.server._problems import InvalidArguments
    from jackstay.server._server import Server
    from jackstay.server._visibility import Views

B = TypeVar("B", bound=Body)
P = TypeVar("P")

# Calls the next middleware or the handler. Returns the encoded result; empty if the request stays open
# (`subscriptions/listen`).
Next: TypeAlias = Callable[[], Awaitable[bytes]]

# Runs around every request: `async def middleware(ctx, call_next): return await call_next()`.
Middleware: TypeAlias = Callable[["Context", Next], Awaitable[bytes]]

# Called with the tool's name for invalid arguments. Returns a str for the model, or a whole result.
OnInvalidArguments: TypeAlias = Callable[[str, "InvalidArguments"], object]

_EMPTY = b"{}"
_NO_CALL: Call = ((), {})
_MAX_FINALIZED = 64
# Requests of a handler to its own client. The messages of their errors may be returned to that client.
_CLIENT_METHODS = frozenset({"elicitation/create", "sampling/createMessage", "roots/list"})


class _InputParams(msgspec.Struct, gc=False, rename="camel", kw_only=True):
    """The input responses that a client of the stateless era sends with its request."""

    request_state: str | None = None
    input_responses: dict[str, Any] | None = None


class _CallParams(_InputParams, gc=False, kw_only=True):
    name: str
    arguments: Raw = Raw(b"{}")


class _PromptParams(_InputParams, gc=False, kw_only=True):
    name: str
    arguments: dict[str, str] | None = None


class _ReadParams(_InputParams, gc=False, kw_only=True):
    uri: str


_read_call = msgspec.json.Decoder(_CallParams).decode
_read_prompt = msgspec.json.Decoder(_PromptParams).decode
_read_read = msgspec.json.Decoder(_ReadParams).decode
_read_anything = msgspec.json.Decoder().decode


class Job(msgspec.Struct, gc=False):
    """A function to run for a request, and the encoder of its result for a revision."""

    connection: Driver
    request: e.Serve
    entry: "Entry | CompletionEntry"
    arguments: Call
    encode_result: Callable[[object, str], bytes]
    context: "Context | None"
    # Together they describe the function in the log, as in "tool" and "echo".
    kind: str
    name: str
    # The URI of `resources/read`, for ResourceNotFoundError.
    uri: str = ""


class Dispatch:
    """Serves the requests of every connection of one server."""

    # The connections (by `id()`) and serials of the requests that `ctx.background()` may turn into tasks.
    deferrable: AbstractSet[tuple[int, int]] = frozenset()

    def __init__(self, server: "Server", catalogue: Catalogue) -> None:
        self.server = server
        self.catalogue = catalogue
        self.pool = server._pool
        self.key_ring: Callable[[], KeyRing] = lambda: server._key_ring
        self.round_timeout = server.options.round_timeout
        self.middleware: Sequence[Middleware] = ()
        self.views: Views | None = None
        # Cached, because a page is the same object until the catalogue changes, and Python caches its hash.
        self._finalize_page = lru_cache(_MAX_FINALIZED)(_finalize_page)
        self._on_notification: Callable[[Driver, str, Raw | None], None] | None = None
        methods: dict[str, Serve] = {
            "tools/call": self._call_tool,
            "resources/read": self._read_resource,
            "prompts/get": self._get_prompt,
            "completion/complete": self._complete,
            "resources/subscribe": self._subscribe,
            "resources/unsubscribe": self._unsubscribe,
            "logging/setLevel": self._set_level,
            "subscriptions/listen": self._listen,
            **dict.fromkeys(LISTS, self._list),
        }
        # Each method, and the capability that it needs; empty if none.
        self._methods = {name: (serve, _needed_capability(name)) for name, serve in methods.items()}

    @cached_property
    def _context_class(self) -> "type[Context]":
        from jackstay.server._context import Context  # noqa: PLC0415  # few servers need it

        return Context

    @cached_property
    def dependencies(self) -> "Dependencies":
        """The dependencies of the server's functions."""
        from jackstay.server._depends import Dependencies  # noqa: PLC0415  # few servers need it

        return Dependencies()

    def find_tool(self, name: str, caller: Caller) -> ToolEntry | None:
        """Return the tool that a call of this name by this caller would reach, or None if there is none."""
        entry = self.catalogue.find_tool(name)
        if self.views is None or entry is None or self.views.view_for(caller).find_tool(name) is entry:
            return entry
        return None

    # --- the Handlers protocol ----------------------------------------------------------------------------------------

    def serve(self, connection: Driver, request: e.Serve, caller: Caller | None = None) -> Outcome:
        """Return the result of a request, or a coroutine. Raises: McpError with a code.

        With a `caller` the middleware does not run: it has already.
        """
        if caller is None:
            # Read now: when middleware continues, the session may have received a message with another token.
            caller = connection.caller
            if self.middleware:
                context = self._make_context(connection, request, caller)
                return self._serve_through_middleware(connection, request, caller, context)
        method = request.method.name
        row = self._methods.get(method)
        if row is None or (row[1] and row[1] not in connection.capabilities):
            raise JsonRpcError(ErrorCode.METHOD_NOT_FOUND, f"method not supported by this server: {method}")
        return row[0](connection, request, caller)

    def serve_mounted(self, connection: Driver, request: e.Serve, caller: Caller) -> Outcome:
        """As `serve`, for a connection of another server, in which this one is mounted."""
        if self.middleware:
            context = self._make_context(connection, request, caller)
            return self._serve_through_middleware(connection, request, caller, context)
        return self.serve(connection, request, caller)

    def intercept(
        self,
        serve: Mapping[str, Serve],
        notified: Callable[[Driver, str, Raw | None], None],
    ) -> dict[str, Serve]:
        """Serve these methods with other functions, and return the functions that served them before."""
        before = {method: self._methods[method][0] for method in serve}
        self._methods.update((method, (function, self._methods[method][1])) for method, function in serve.items())
        self._on_notification = notified
        return before

    def notified(self, connection: Driver, method: str, params: Raw | None) -> None:
        """Pass on a notification of the client. Without mounts, none of those that arrive here needs an action."""
        if self._on_notification is not None:
            self._on_notification(connection, method, params)

    async def _serve_through_middleware(
        self, connection: Driver, request: e.Serve, caller: Caller, context: "Context"
    ) -> bytes:
        stays_open = False
        params = context._params

        async def innermost() -> bytes:
            nonlocal stays_open
            # Middleware may have replaced the params.
            current = request if context._params is params else replace(request, params=Raw(context._params))
            outcome = self.serve(connection, current, caller)
            if outcome is None:
                stays_open = True
                return b""
            return outcome if isinstance(outcome, bytes) else await outcome

        call: Next = innermost
        for middleware in reversed(self.middleware):
            call = partial(middleware, context, call)
        try:
            result: object = await call()
            # A middleware without `return` must not leave the client waiting forever.
            if isinstance(result, bytes) and (result.startswith(b"{") or stays_open):
                return result
            got = "bytes that are not a JSON object" if isinstance(result, bytes) else type(result).__name__
            raise TypeError(f"middleware must return the encoded result as bytes, not {got}")
        except (McpError, asyncio.CancelledError):
            raise
        except Exception as error:  # middleware may raise anything
            raise JsonRpcError(ErrorCode.INTERNAL_ERROR, report(request.method.name, error)) from error
        finally:
            context.end()

    # --- lists --------------------------------------------------------------------------------------------------------

    def _list(self, connection: Driver, request: e.Serve, _: Caller) -> bytes:
        cursor = None if request.params is None else _body(types.PaginatedRequestParams, request).cursor
        try:
            page = self.catalogue.page(LISTS[request.method.name], request.version, cursor)
        except ProtocolError as error:
            raise JsonRpcError(ErrorCode.INVALID_PARAMS, error.message) from error
        return page if request.meta is None else self._finalize_page(connection.server_config, page)

    # --- tools --------------------------------------------------------------------------------------------------------

    def _call_tool(self, connection: Driver, request: e.Serve, caller: Caller) -> Outcome:
        try:  # as `_params`, without a call
            params = _read_call(request.params or _EMPTY)
        except DECODE_ERRORS as error:
            raise _invalid_params(request, error) from error
        name = params.name
        entry = self.catalogue.find_tool(name)
        if entry is None:
            raise JsonRpcError(ErrorCode.INVALID_PARAMS, f"unknown tool: {name[:128]}")
        if entry.scopes and caller.scopes is not None and not entry.scopes <= caller.scopes:
            raise InsufficientScopeError(*entry.scopes)
        given = params.arguments
        context = None
        if entry.takes_context:
            context = self._make_context(connection, request, caller, params, name=name, arguments=given)
        job = Job(connection, request, entry, _NO_CALL, entry.encode_result, context, "tool", entry.key)
        bind = entry.bind  # the call of an attribute that is not a method is slow in Python 3.11
        try:
            call = bind(given, context)
            if not isinstance(call, tuple) and bytes(given) == b"null":
                call = bind(None, context)  # some clients send null for missing arguments
        except Exception as error:  # noqa: BLE001  # validators of the application may raise anything
            return _finalize(connection, request, self._failed(job, error))
        if not isinstance(call, tuple):
            return _finalize(connection, request, self._refuse_arguments(entry.key, call, request.version))
        job.arguments = call
        if entry.timeout is not None:
            return self._run_with_timeout(job, entry.timeout)
        return self._run(job) if entry.is_async or entry.is_blocking else self._call(job)

    def _refuse_arguments(self, tool: str, invalid: "InvalidArguments", version: str) -> bytes:
        shape = self.server._on_invalid_arguments
        if shape is None:
            return error_result(invalid.text)
        try:
            shaped = shape(tool, invalid)
            return error_result(shaped) if isinstance(shaped, str) else encode_content_result(shaped, version)
        except JsonRpcError:
            raise
        except Exception as error:  # noqa: BLE001  # the application's function may raise anything
            return error_result(report(f"on_invalid_arguments for {tool}", error))

    # --- resources ----------------------------------------------------------------------------------------------------

    def _read_resource(self, connection: Driver, request: e.Serve, caller: Caller) -> Outcome:
        params = _params(_read_read, request)
        uri = params.uri
        found = self.catalogue.find_resource(uri)
        if found is None:
            raise _not_found(request, uri)
        entry = found.entry
        context = None
        if entry.takes_context:
            context = self._make_context(connection, request, caller, params, name=uri)
        call = entry.bind(found.variables, context)
        if not isinstance(call, tuple):
            raise _not_found(request, uri)
        encode_result = partial(entry.encode_result, uri)
        job = Job(connection, request, entry, call, encode_result, context, "resource", entry.key, uri)
        return self._run(job) if entry.is_async or entry.is_blocking else self._call(job)

    def _subscribe(self, connection: Driver, request: e.Serve, _: Caller) -> bytes:
        uri = _body(types.ResourceRequestParams, request).uri
        # Only existing resources: otherwise a client could subscribe to any number of invented URIs.
        if not self._has_resource(uri):
            raise _not_found(request, uri)
        connection.subscriptions.subscribe(uri)
        return _EMPTY

    def _unsubscribe(self, connection: Driver, request: e.Serve, _: Caller) -> bytes:
        connection.subscriptions.unsubscribe(_body(types.ResourceRequestParams, request).uri)
        return _EMPTY

    def _listen(self, connection: Driver, request: e.Serve, _: Caller) -> None:
        wanted = _body(types.SubscriptionsListenRequestParams, request).notifications
        connection.subscriptions.listen(request, wanted, self._has_resource)

    def _has_resource(self, uri: str) -> bool:
        return self.catalogue.find_resource(uri) is not None

    # --- prompts, completion, logging ---------------------------------------------------------------------------------

    def _get_prompt(self, connection: Driver, request: e.Serve, caller: Caller) -> Outcome:
        params = _params(_read_prompt, request)
        entry = self.catalogue.prompts.get(params.name)
        if entry is None:
            raise JsonRpcError(ErrorCode.INVALID_PARAMS, f"unknown prompt: {params.name[:128]}")
        context = None
        if entry.takes_context:
            given = msgspec.json.encode(params.arguments)
            context = self._make_context(connection, request, caller, params, name=params.name, arguments=given)
        call = entry.bind(params.arguments or {}, context)
        if not isinstance(call, tuple):
            raise JsonRpcError(ErrorCode.INVALID_PARAMS, call.text)
        job = Job(connection, request, entry, call, entry.encode_result, context, "prompt", params.name)
        return self._run(job) if entry.is_async or entry.is_blocking else self._call(job)

    def _complete(self, connection: Driver, request: e.Serve, caller: Caller) -> Outcome:
        from jackstay.server._completions import completion_key  # noqa: PLC0415  # few servers need it

        params = _body(types.CompleteRequestParams, request)
        key = completion_key(params.ref, params.argument.name)
        entry = self.catalogue.completions.get(key)
        if entry is None:
            is_prompt = isinstance(params.ref, types.PromptReference)
            known: Mapping[str, object] = self.catalogue.prompts if is_prompt else self.catalogue.templates
            if key[1] not in known and key[1] not in self.catalogue.resources:
                kind = "prompt" if is_prompt else "resource template"
                raise JsonRpcError(ErrorCode.INVALID_PARAMS, f"unknown {kind}: {key[1][:128]}")
            return _finalize(connection, request, b'{"completion":{"values":[]}}')
        context = self._make_context(connection, request, caller) if entry.function.takes_context else None
        arguments = None if params.context is None else params.context.arguments
        call = entry.bind(params.argument.value, arguments, context)
        job = Job(connection, request, entry, call, entry.encode_result, context, "completion of", key[2])
        return self._run(job) if entry.is_async or entry.is_blocking else self._call(job)

    def _set_level(self, connection: Driver, request: e.Serve, _: Caller) -> bytes:
        connection.log_level = _body(types.SetLevelRequestParams, request).level
        return _EMPTY

    # --- running ------------------------------------------------------------------------------------------------------

    def _call(self, job: Job) -> bytes:
        """Call a function that does not block."""
        args, keywords = job.arguments
        try:
            result = job.encode_result(job.entry.call(*args, **keywords), job.request.version)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001  # the function may raise anything, even SystemExit
            result = self._failed(job, error)
        if job.context is not None:
            job.context.end()
        return result if job.request.meta is None else job.connection.server_config.finalize(result)

    async def _run(self, job: Job) -> bytes:
        """Await an async function, or run a blocking one in the thread pool."""
        args, keywords = job.arguments
        call = job.entry.call
        try:
            if job.entry.is_async:
                # Awaitable, because of `is_async`. An empty `**keywords` would cost a dict.
                value = await (call(*args, **keywords) if keywords else call(*args))  # type: ignore[misc]
            else:
                value = await self.pool.run(job.connection.owner, call, *args, **keywords)
                if inspect.isawaitable(value):  # an async function behind a plain decorator
                    value = await value
            result = job.encode_result(value, job.request.version)
        except (asyncio.CancelledError, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001  # the function may raise anything, even SystemExit
            result = self._failed(job, error)
        finally:
            if job.context is not None:
                job.context.end()
        return result if job.request.meta is None else job.connection.server_config.finalize(result)

    async def _run_with_timeout(self, job: Job, timeout: float) -> bytes:
        try:
            async with asyncio.timeout(timeout):
                return await self._run(job)
        except TimeoutError:  # not of the function: `_run` has turned that into a result
            if job.context is not None:
                job.context.cancel()  # a blocking function continues in its thread
            result = error_result(f"{job.name} was cancelled after its timeout of {timeout:g} s")
            return _finalize(job.connection, job.request, result)

    def _failed(self, job: Job, error: BaseException) -> bytes:
        """Return the error result for an exception. Raises: McpError with a code, if it is a protocol error."""
        rounds = None if job.context is None else job.context.rounds()
        if rounds is not None and rounds.is_ended_by(error):
            return rounds.result()
        # A JsonRpcError of the handler itself has no `method`; with one, it is the response of another peer. A
        # ShutdownError means that the client disconnected during a request to it.
        if isinstance(error, ShutdownError) or (isinstance(error, JsonRpcError) and error.method is None):
            raise error
        if isinstance(error, ResourceNotFoundError) and job.uri:
            raise _not_found(job.request, job.uri) from error
        meta = job.request.meta
        if isinstance(error, CapabilityError) and meta is not None:
            refusal = check_capabilities(meta.capabilities, (error.required,), method=job.request.method.name)
            if refusal is not None:
                raise refusal from error
        if isinstance(error, JsonRpcError) and error.method in _CLIENT_METHODS:
            message = f"the client rejected {error.method}: {error.message}"
        elif isinstance(error, CapabilityError | ToolError | ResourceNotFoundError):
            message = error.message
        else:
            message = report(f"{job.kind} {job.name}", error)
        if job.kind == "tool":
            return error_result(message)
        raise JsonRpcError(ErrorCode.INTERNAL_ERROR, message) from error

    # --- contexts -----------------------------------------------------------------------------------------------------

    def _make_context(
        self,
        connection: Driver,
        request: e.Serve,
        caller: Caller,
        params: _InputParams | None = None,
        *,
        name: str = "",
        arguments: Raw | bytes = b"null",
    ) -> "Context":
        """Create a context. With `params` it can request input in both eras; `name` and `arguments` are part of them.

        Raises: JsonRpcError for an invalid `requestState`.
        """
        can_request = params is not None and request.meta is not None
        given = bytes(arguments) if can_request else b"null"  # a copy: the frame is released before this is read

        def make_rounds() -> "InputRounds":
            from jackstay.server._input_required import InputRounds, bind  # noqa: PLC0415  # imports hmac; few need it

            assert params is not None
            bound = bind(caller.principal, request.method.name, name, _read_anything(given) or None)
            responses = params.input_responses or {}
            return InputRounds(self.key_ring(), bound, params.request_state, responses, self.round_timeout)

        encoded = bytes(request.params or _EMPTY)
        # Not the handlers of the connection: it belongs to another server if this one is mounted there.
        context = self._context_class(
            connection, request, encoded, caller, make_rounds if can_request else None, dispatch=self
        )
        connection.on_stop(request.serial, context.cancel)
        if params is not None and params.request_state is not None:
            context.rounds()
        return context


def _needed_capability(method: str) -> str:
    capability = METHODS[method].capability.partition(".")[0]
    return "" if capability == "logging" else capability  # the level may always be set


def _params(read: Callable[[bytes | Raw], P], request: e.Serve) -> P:
    try:
        return read(request.params or _EMPTY)
    except DECODE_ERRORS as error:
        raise _invalid_params(request, error) from error


def _invalid_params(request: e.Serve, error: Exception) -> JsonRpcError:
    reason = str(error).replace("`", "")
    return JsonRpcError(ErrorCode.INVALID_PARAMS, f"invalid params for {request.method.name}: {reason}")


def _body(cls: type[B], request: e.Serve) -> B:
    return read_params(cls, request.method.name, request.params)


def read_params(cls: type[B], method: str, params: bytes | Raw | None) -> B:
    """Decode the params of a request. Raises: JsonRpcError (-32602)."""
    try:
        return types.decode(cls, params or _EMPTY)  # loaded on first use
    except ProtocolError as error:
        where = f" at {error.path}" if error.path else ""
        message = f"invalid params for {method}: {error.message}{where}"
        raise JsonRpcError(ErrorCode.INVALID_PARAMS, message) from error


def _not_found(request: e.Serve, uri: str) -> JsonRpcError:
    code = REVISIONS[request.version].resource_not_found
    return JsonRpcError(code, "resource not found", {"uri": uri})


def _finalize_page(config: ServerConfig, page: bytes) -> bytes:
    return config.finalize(page)


def _finalize(connection: Driver, request: e.Serve, result: bytes) -> bytes:
    return result if request.meta is None else connection.server_config.finalize(result)
