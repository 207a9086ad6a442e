"""What each request means: the catalogue is read, a function is run where it belongs, and its result is encoded.

A plain function that never waits is called in place, an async one in a task, a blocking one in the pool. A list is bytes
that are already there. Everything a function can raise ends here: an author's words reach the client, an accident's do not
(`_failures`). Middleware, where there is any, is around all of it.

In the stateless era every result says what it is and who made it (`offer.complete`), and one that asks is made by the
rounds of its request.

Must never know how frames move. Above: `_connection`, which asks; `_server`, which makes it. Below: `_catalogue`,
`_context`, `_pool`.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

from jackstay.errors import CapabilityError, Json, JsonRpcError, McpError, ProtocolError, ShutdownError
from jackstay.protocol import METHODS, REVISIONS
from jackstay.protocol.server import events as e
from jackstay.protocol.server import refuse_undeclared
from jackstay.protocol.wire import ErrorCode
from jackstay.server._catalogue import LISTS, Catalogue
from jackstay.server._completions import CompletionEntry, completion_key
from jackstay.server._context import Context
from jackstay.server._driver import Caller, Driver, Outcome
from jackstay.server._entries import Entry
from jackstay.server._failures import InsufficientScopeError, ResourceNotFoundError, ToolError, report
from jackstay.server._functions import Call
from jackstay.server._output import answer_content, error_result
from jackstay.server._pool import Pool
from jackstay.server._problems import InvalidArguments
from jackstay.server._tools import ToolEntry
from jackstay.types import (
    Body,
    CompleteRequestParams,
    PromptReference,
    ResourceRequestParams,
    SetLevelRequestParams,
    SubscriptionsListenRequestParams,
    decode,
)

if TYPE_CHECKING:
    from jackstay.server._rounds import KeyRing, Rounds

B = TypeVar("B", bound=Body)
P = TypeVar("P")

# The rest of the way to a result: encoded, and empty where the request stays open (`subscriptions/listen`).
Next: TypeAlias = Callable[[], Awaitable[bytes]]

# Runs around every request that a handler serves: `async def middleware(ctx, call_next): return await call_next()`.
Middleware: TypeAlias = Callable[[Context, Next], Awaitable[bytes]]

# Shapes the result for arguments that are wrong: a text for the model, or a whole result.
OnInvalidArguments: TypeAlias = Callable[[str, InvalidArguments], object]


_EMPTY = b"{}"
_MOST_DRESSED = 64
_REFUSALS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

# What a handler may ask its own client, whose words in an error may go back to it.
_QUESTIONS = frozenset({"elicitation/create", "sampling/createMessage", "roots/list"})

# The capability that a server must have declared to serve a method; empty: none.
_NEEDS = {name: row.capability.partition(".")[0] for name, row in METHODS.items()}


class _ListParams(msgspec.Struct, gc=False):
    cursor: str | None = None


class _CallParams(msgspec.Struct, gc=False, rename="camel"):
    name: str
    arguments: Raw | UnsetType = UNSET
    request_state: str | None = None
    input_responses: dict[str, Any] | None = None


class _PromptParams(msgspec.Struct, gc=False, rename="camel"):
    name: str
    arguments: dict[str, str] | None = None
    request_state: str | None = None
    input_responses: dict[str, Any] | None = None


class _ReadParams(msgspec.Struct, gc=False, rename="camel"):
    uri: str
    request_state: str | None = None
    input_responses: dict[str, Any] | None = None


_read_list = msgspec.json.Decoder(_ListParams).decode
_read_call = msgspec.json.Decoder(_CallParams).decode
_read_prompt = msgspec.json.Decoder(_PromptParams).decode
_read_read = msgspec.json.Decoder(_ReadParams).decode
_read_anything = msgspec.json.Decoder().decode


class Job(msgspec.Struct):
    """One function to run for one request, and how its value becomes a result."""

    connection: Driver
    request: e.Serve
    entry: Entry | CompletionEntry
    arguments: Call
    answer: Callable[[object], bytes]
    what: str
    context: Context | None
    is_tool: bool = False
    # Of the resource that is read: its function may find that there is none.
    uri: str = ""


class _Answers(msgspec.Struct, frozen=True):
    """What a client of the stateless era sent back with its request."""

    state: str | None
    answers: dict[str, Any] | None


class Dispatch:
    """Serves the requests of every connection of one server."""

    def __init__(
        self,
        catalogue: Catalogue,
        pool: Pool,
        *,
        ring: "Callable[[], KeyRing]",
        round_timeout: float,
        on_invalid_arguments: OnInvalidArguments | None = None,
    ) -> None:
        self.catalogue = catalogue
        self.pool = pool
        self.middleware: tuple[Middleware, ...] = ()
        self._ring = ring
        self._round_timeout = round_timeout
        self._on_invalid_arguments = on_invalid_arguments
        self._dressed: dict[bytes, bytes] = {}
        self._methods: dict[str, Callable[[Driver, e.Serve, Caller], Outcome]] = {
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

    # --- what the driver asks -----------------------------------------------------------------------------------------

    def serve(self, connection: Driver, request: e.Serve) -> Outcome:
        """The result of a request, or what will give it. Raises: McpError with a code, to refuse."""
        # Taken now: when middleware goes on, the session may be receiving with another token.
        caller = connection.caller
        if self.middleware:
            return self._through(connection, request, caller, _make_context(connection, request, caller))
        return self._serve(connection, request, caller)

    def notified(self, connection: Driver, method: str, params: Raw | None) -> None:
        """A notification of the client's: none of those that get here changes anything for a server."""

    def draining(self, connection: Driver) -> None:
        """End the subscriptions of a connection that takes no new requests."""
        connection.listening.end()

    def _serve(self, connection: Driver, request: e.Serve, caller: Caller) -> Outcome:
        method = request.method.name
        needs = _NEEDS[method]
        serve = self._methods.get(method)
        if serve is None or (needs and needs != "logging" and needs not in connection.offered):
            raise JsonRpcError(ErrorCode.METHOD_NOT_FOUND, f"{method} is not offered by this server")
        return serve(connection, request, caller)

    async def _through(self, connection: Driver, request: e.Serve, caller: Caller, context: Context) -> bytes:
        stays_open = False

        async def innermost() -> bytes:
            nonlocal stays_open
            outcome = self._serve(connection, request, caller)
            if outcome is None:
                stays_open = True
                return b""
            return outcome if isinstance(outcome, bytes) else await outcome

        call: Next = innermost
        for middleware in reversed(self.middleware):
            call = _around(middleware, context, call)
        try:
            result: object = await call()
            # Without a look at it a middleware that forgets its `return` would leave the client waiting for ever.
            if not isinstance(result, bytes) or not (result.startswith(b"{") or stays_open):
                raise TypeError(f"middleware must return an encoded result, and gave {_kind(result)}")
            return result
        except (McpError, asyncio.CancelledError):
            raise
        except Exception as error:  # the outermost edge of somebody's middleware
            raise JsonRpcError(ErrorCode.INTERNAL_ERROR, report(request.method.name, error)) from error
        finally:
            context.end()

    # --- lists --------------------------------------------------------------------------------------------------------

    def _list(self, connection: Driver, request: e.Serve, _: Caller) -> bytes:
        cursor = None if request.params is None else _params(_read_list, request).cursor
        try:
            page = self.catalogue.page(LISTS[request.method.name], request.version, cursor)
        except ProtocolError as error:
            raise JsonRpcError(ErrorCode.INVALID_PARAMS, error.message) from error
        if request.meta is None:
            return page
        # The same bytes until the catalogue changes, so they are dressed once; their hash is kept by Python.
        dressed = self._dressed.get(page)
        if dressed is None:
            if len(self._dressed) >= _MOST_DRESSED:
                self._dressed.clear()
            dressed = self._dressed[page] = connection.offer.complete(page)
        return dressed

    # --- tools --------------------------------------------------------------------------------------------------------

    def _call_tool(self, connection: Driver, request: e.Serve, caller: Caller) -> Outcome:
        params = _params(_read_call, request)
        name = params.name
        entry = self.catalogue.find_tool(name)
        if entry is None:
            raise JsonRpcError(ErrorCode.INVALID_PARAMS, f"unknown tool: {name[:128]}")
        if entry.scopes and caller.scopes is not None and not entry.scopes <= caller.scopes:
            raise InsufficientScopeError(*entry.scopes)
        given = None if params.arguments is UNSET else params.arguments
        context = None
        if entry.takes_context:
            back = _Answers(params.request_state, params.input_responses)
            context = self._context_that_asks(connection, request, caller, name, given, back=back)
        try:
            call = entry.bind(given, context)
            if call.__class__ is InvalidArguments and given is not None and bytes(given) == b"null":
                call = entry.bind(None, context)  # some clients write what they do not have
        except Exception as error:  # noqa: BLE001  # the edge of the author's validators
            failed = self._failed(_tool_job(connection, request, entry, ((), {}), context), error)
            return _dress(connection, request, failed)
        if isinstance(call, InvalidArguments):
            return _dress(connection, request, self._refuse_arguments(entry.key, call, request.version))
        if entry.is_async or entry.is_blocking:
            return self._await_tool(connection, request, entry, call, context)
        try:
            result = entry.answer(entry.call(*call[0], **call[1]), request.version)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001  # the edge of the author's function, called by the connection itself
            result = self._failed(_tool_job(connection, request, entry, call, context), error)
        if context is not None:
            context.end()
        return result if request.meta is None else connection.offer.complete(result)

    async def _await_tool(
        self, connection: Driver, request: e.Serve, entry: ToolEntry, call: Call, context: Context | None
    ) -> bytes:
        """As `_run`, for what a server does all day: a job is made only of a failure."""
        try:
            if entry.is_async:
                value = await entry.call(*call[0], **call[1])  # type: ignore[misc]  # `is_async` says so
            else:
                value = await self.pool.run(connection.owner or connection, entry.call, *call[0], **call[1])
                if inspect.isawaitable(value):  # a plain decorator around an async function
                    value = await value
            result = entry.answer(value, request.version)
        except (asyncio.CancelledError, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001  # the edge of the author's function; `sys.exit()` ends only itself
            result = self._failed(_tool_job(connection, request, entry, call, context), error)
        finally:
            if context is not None:
                context.end()
        return result if request.meta is None else connection.offer.complete(result)

    def _refuse_arguments(self, tool: str, invalid: InvalidArguments, version: str) -> bytes:
        shape = self._on_invalid_arguments
        if shape is None:
            return error_result(invalid.text)
        try:
            shaped = shape(tool, invalid)
            return error_result(shaped) if isinstance(shaped, str) else answer_content(shaped, version)
        except JsonRpcError:
            raise
        except Exception as error:  # noqa: BLE001  # the edge of the application's function
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
            back = _Answers(params.request_state, params.input_responses)
            context = self._context_that_asks(connection, request, caller, uri, None, back=back)
        call = entry.bind(found.variables, context)
        if isinstance(call, InvalidArguments):
            raise _not_found(request, uri)

        def answer(value: object) -> bytes:
            return entry.answer(value, uri, request.version)

        what = f"resource {entry.key}"
        return self._start(Job(connection, request, entry, call, answer, what, context, uri=uri))

    def _subscribe(self, connection: Driver, request: e.Serve, _: Caller) -> bytes:
        uri = _body(ResourceRequestParams, request).uri
        # What does not exist cannot change: a client could make up URIs without end.
        if not self._has_resource(uri):
            raise _not_found(request, uri)
        connection.listening.subscribe(uri)
        return _EMPTY

    def _unsubscribe(self, connection: Driver, request: e.Serve, _: Caller) -> bytes:
        connection.listening.unsubscribe(_body(ResourceRequestParams, request).uri)
        return _EMPTY

    def _listen(self, connection: Driver, request: e.Serve, _: Caller) -> None:
        wanted = _body(SubscriptionsListenRequestParams, request).notifications
        connection.listening.listen(request, wanted, self._has_resource)

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
            back = _Answers(params.request_state, params.input_responses)
            said = msgspec.json.encode(params.arguments)
            context = self._context_that_asks(connection, request, caller, params.name, said, back=back)
        call = entry.bind(params.arguments, context)
        if isinstance(call, InvalidArguments):
            raise JsonRpcError(ErrorCode.INVALID_PARAMS, call.text)
        return self._start(
            Job(
                connection,
                request,
                entry,
                call,
                _version(entry.answer, request),
                f"prompt {params.name}",
                context,
            )
        )

    def _complete(self, connection: Driver, request: e.Serve, caller: Caller) -> Outcome:
        params = _body(CompleteRequestParams, request)
        key = completion_key(params.ref, params.argument.name)
        entry = self.catalogue.completions.get(key)
        if entry is None:
            is_prompt = isinstance(params.ref, PromptReference)
            known: Mapping[str, object] = self.catalogue.prompts if is_prompt else self.catalogue.templates
            if key[1] not in known and key[1] not in self.catalogue.resources:
                raise JsonRpcError(ErrorCode.INVALID_PARAMS, f"nothing is called {key[1][:128]}")
            return _dress(connection, request, b'{"completion":{"values":[]}}')
        context = _make_context(connection, request, caller) if entry.function.takes_context else None
        settled = None if params.context is None else params.context.arguments
        call = entry.bind(params.argument.value, settled, context)
        return self._start(
            Job(connection, request, entry, call, entry.answer, f"completion of {key[2]}", context)
        )

    def _set_level(self, connection: Driver, request: e.Serve, _: Caller) -> bytes:
        connection.log_level = _body(SetLevelRequestParams, request).level
        return _EMPTY

    # --- running ------------------------------------------------------------------------------------------------------

    def _start(self, job: Job) -> Outcome:
        if job.entry.is_async or job.entry.is_blocking:
            return self._run(job)
        args, keywords = job.arguments
        try:
            result = job.answer(job.entry.call(*args, **keywords))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001  # as above
            result = self._failed(job, error)
        if job.context is not None:
            job.context.end()
        return _dress(job.connection, job.request, result)

    async def _run(self, job: Job) -> bytes:
        args, keywords = job.arguments
        try:
            if job.entry.is_async:
                value = await job.entry.call(*args, **keywords)  # type: ignore[misc]  # `is_async` says so
            else:
                value = await self.pool.run(
                    job.connection.owner or job.connection, job.entry.call, *args, **keywords
                )
                if inspect.isawaitable(value):  # as above
                    value = await value
            result = job.answer(value)
        except (asyncio.CancelledError, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001  # the edge of the author's function; `sys.exit()` ends only itself
            result = self._failed(job, error)
        finally:
            if job.context is not None:
                job.context.end()
        return _dress(job.connection, job.request, result)

    def _failed(self, job: Job, error: BaseException) -> bytes:
        """The result that says what went wrong. Raises: McpError with a code, where it is not for a result to say."""
        rounds = None if job.context is None else job.context.rounds()
        if rounds is not None and rounds.is_asking and _is_end_of_round(error):
            return rounds.result()
        # The author's own says nothing of a request; one that does is what somebody else answered. Or the client went
        # while it was asked, and nobody waits.
        if isinstance(error, ShutdownError) or (isinstance(error, JsonRpcError) and error.method is None):
            raise error
        if isinstance(error, ResourceNotFoundError) and job.uri:
            raise _not_found(job.request, job.uri) from error
        said = None
        if isinstance(error, JsonRpcError) and error.method in _QUESTIONS:
            said = f"the client refused {error.method}: {error.message}"
        elif isinstance(error, CapabilityError):
            meta = job.request.meta
            if meta is not None:
                refusal = refuse_undeclared(
                    meta.capabilities, (error.required,), method=job.request.method.name
                )
                if refusal is not None:
                    raise refusal from error
            said = error.message
        elif isinstance(error, ToolError | ResourceNotFoundError):
            said = error.message
        if said is None:
            said = report(job.what, error)
        if job.is_tool:
            return error_result(said)
        raise JsonRpcError(ErrorCode.INTERNAL_ERROR, said) from error

    # --- contexts -----------------------------------------------------------------------------------------------------

    def _context_that_asks(
        self,
        connection: Driver,
        request: e.Serve,
        caller: Caller,
        name: str,
        arguments: Raw | bytes | None,
        *,
        back: _Answers,
    ) -> Context:
        """A context that can ask, in the stateless era too. Raises: JsonRpcError for a state that cannot be used."""
        if request.meta is None:
            return _make_context(connection, request, caller)
        said = None if arguments is None else bytes(arguments)

        def make_rounds() -> "Rounds":
            from jackstay.server._rounds import Rounds, bind  # noqa: PLC0415  # loads cryptography; most never ask

            read: Json = None if said is None else _read_anything(said)
            bound = bind(caller.principal, request.method.name, name, read or None)
            return Rounds(self._ring(), bound, back.state, back.answers or {}, self._round_timeout)

        context = _make_context(connection, request, caller, make_rounds)
        if back.state is not None:
            context.rounds()
        return context


def _tool_job(
    connection: Driver, request: e.Serve, entry: ToolEntry, call: Call, context: Context | None
) -> Job:
    answer = _version(entry.answer, request)
    return Job(connection, request, entry, call, answer, f"tool {entry.key}", context, is_tool=True)


def _is_end_of_round(error: BaseException) -> bool:
    from jackstay.server._rounds import is_end_of_round  # noqa: PLC0415  # loaded: there is a round

    return is_end_of_round(error)


def _around(middleware: Middleware, context: Context, call: Next) -> Next:
    async def around() -> bytes:
        return await middleware(context, call)

    return around


def _kind(result: object) -> str:
    return "bytes that are no JSON object" if isinstance(result, bytes) else type(result).__name__


def _version(answer: Callable[[object, str], bytes], request: e.Serve) -> Callable[[object], bytes]:
    version = request.version

    def answer_in_version(value: object) -> bytes:
        return answer(value, version)

    return answer_in_version


def _make_context(
    connection: Driver,
    request: e.Serve,
    caller: Caller,
    make_rounds: "Callable[[], Rounds] | None" = None,
) -> Context:
    params = _EMPTY if request.params is None else bytes(request.params)
    context = Context(connection, request, params, caller, make_rounds)
    connection.on_stop(request.serial, context.cancel)
    return context


def _params(read: Callable[[bytes | Raw], P], request: e.Serve) -> P:
    try:
        return read(_EMPTY if request.params is None else request.params)
    except _REFUSALS as error:
        said = str(error).replace("`", "")
        raise JsonRpcError(
            ErrorCode.INVALID_PARAMS, f"the params of {request.method.name} are wrong: {said}"
        ) from error


def _body(cls: type[B], request: e.Serve) -> B:
    try:
        return decode(cls, _EMPTY if request.params is None else request.params)
    except ProtocolError as error:
        where = f" at {error.path}" if error.path else ""
        message = f"the params of {request.method.name} are wrong: {error.message}{where}"
        raise JsonRpcError(ErrorCode.INVALID_PARAMS, message) from error


def _not_found(request: e.Serve, uri: str) -> JsonRpcError:
    code = REVISIONS[request.version].resource_not_found
    return JsonRpcError(code, "there is no such resource", {"uri": uri})


def _dress(connection: Driver, request: e.Serve, result: bytes) -> bytes:
    return result if request.meta is None else connection.offer.complete(result)
