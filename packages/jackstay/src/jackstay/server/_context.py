"""`Context`: a handler's access to its request and its client.

The API is the same in both eras. `elicit`, `sample` and `list_roots` send a request to a client of the handshake era.
In the stateless era they end the call with an `input_required` result, and the handler runs again with the response
(`_input_required`).
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec

from jackstay import types
from jackstay.errors import CapabilityError, Json, ProtocolError, RequestId, UsageError
from jackstay.protocol.server import check_capabilities, progress_token
from jackstay.protocol.server import events as e
from jackstay.types import LOGGING_LEVELS, Body, encode_json

if TYPE_CHECKING:
    from concurrent.futures import Future

    from jackstay.server._depends import Dependencies
    from jackstay.server._dispatch import Dispatch
    from jackstay.server._driver import Caller, Driver
    from jackstay.server._forms import Form, FormLike
    from jackstay.server._input_required import InputRounds

R = TypeVar("R")
B = TypeVar("B", bound=Body)


class _WithMeta(msgspec.Struct):
    """Decodes only `_meta` of the params: the arguments may be large."""

    meta: Any = msgspec.field(name="_meta", default=None)


_read_meta = msgspec.json.Decoder(_WithMeta).decode

# The default of `max_tokens` in `sample()`.
MAX_TOKENS = 1024


class Elicited(msgspec.Struct, frozen=True):
    """The response of a user. `content` is set only for "accept"; `data` is the content as an instance of the form."""

    action: Literal["accept", "decline", "cancel"]
    content: Mapping[str, Any] | None = None
    data: Any = None

    @property
    def is_accepted(self) -> bool:
        """True if the user submitted the form, or agreed to open the URL."""
        return self.action == "accept"


class HttpRequest(msgspec.Struct, frozen=True):
    """An HTTP request. Names of headers are in lower case; `client` is the address of the client, "" if unknown."""

    method: str
    path: str
    headers: Mapping[str, str]
    client: str


class ClientDescription(msgspec.Struct, frozen=True):
    """What a client declared about itself. It is not authenticated. `info` is None if it sent none."""

    info: types.Implementation | None
    capabilities: types.ClientCapabilities


class _Done:
    """An awaitable that has nothing to wait for."""

    def __await__(self) -> Generator[Any, Any, None]:
        return
        yield


_SENT = _Done()


class Context:
    """The context of one request, passed to its handler and valid until the handler returns.

    `method`, `request_id` and `version` (the revision) describe the request. `store` is a dict that handlers can use;
    it lives as long as the connection or session. All methods that are not async are thread-safe.
    """

    def __init__(
        self,
        connection: Driver,
        request: e.Serve,
        params: bytes,
        caller: Caller,
        make_rounds: Callable[[], InputRounds] | None,
        *,
        dispatch: Dispatch,
    ) -> None:
        self.method = request.method.name
        self.request_id: RequestId = request.id
        self.version = request.version
        self.store = connection.store
        self._caller = caller
        self._connection = connection
        self._dispatch = dispatch
        self._serial = request.serial
        self._params = params
        # Copied: the frame is released before a handler reads this.
        meta = request.meta
        self._capabilities = b"" if meta is None else bytes(meta.capabilities)
        info = None if meta is None else meta.client_info
        self._info = bytes(info) if isinstance(info, msgspec.Raw) else b""
        self._level = None if meta is None else meta.log_level
        self._is_stateless = meta is not None
        self._token = progress_token(msgspec.Raw(params)) if b'"progressToken"' in params else None
        # Created on first use: most handlers request no input.
        self._make_rounds = make_rounds
        self._rounds: InputRounds | None = None
        self._has_ended = False
        # True once the request was cancelled. Blocking functions should check this and return.
        self.is_cancelled = False
        self._cancelled: threading.Event | None = None
        # Futures that threads wait for in `wait()`.
        self._waiting: set[Future[Any]] = set()
        self._once: dict[str, Json] = {}

    def __repr__(self) -> str:
        return f"<Context {self.method} {self.request_id!r} {self.version}>"

    # --- the request --------------------------------------------------------------------------------------------------

    @property
    def params(self) -> dict[str, Json]:
        """The params of the request. A new copy at every access."""
        return msgspec.json.decode(self._params, type=dict[str, Any])

    @property
    def meta(self) -> dict[str, Json]:
        """The request's `_meta`, or an empty dict. A new copy at every access."""
        meta: Json = _read_meta(self._params).meta if b'"_meta"' in self._params else None
        return meta if isinstance(meta, dict) else {}

    @property
    def principal(self) -> str:
        """The authenticated caller (HTTP with authorization), or an empty string."""
        return self._caller.principal

    @property
    def scopes(self) -> frozenset[str]:
        """The scopes of the caller's token (HTTP with authorization). See `InsufficientScopeError`."""
        return self._caller.scopes or frozenset()

    @property
    def claims(self) -> Mapping[str, Json]:
        """The other claims of the caller's token, as its verifier returned them."""
        return self._caller.claims

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of the HTTP request, with names in lower case; empty for other transports."""
        return self._caller.headers

    @property
    def request(self) -> HttpRequest | None:
        """The HTTP request that has this message; None over other transports."""
        http = self._caller.http
        return None if http is None else HttpRequest(http[0], http[1], self._caller.headers, http[2])

    @property
    def client(self) -> ClientDescription:
        """What the client declared about itself: its name and version, and its capabilities."""
        return ClientDescription(self.client_info, self.client_capabilities)

    @property
    def client_info(self) -> types.Implementation | None:
        """The client's name and version, as it declared them. For display only."""
        client = self._connection.core.client
        info = self._info or (b"" if client is None else client.info)
        try:
            return types.decode(types.Implementation, info) if info else None
        except ProtocolError:
            return None  # optional in 2026-07-28, so an invalid one is ignored

    @property
    def client_capabilities(self) -> types.ClientCapabilities:
        """The capabilities that the client declared."""
        try:
            return types.decode(types.ClientCapabilities, self._declared())
        except ProtocolError:
            return types.ClientCapabilities()

    @property
    def shows_apps(self) -> bool:
        """True if the client shows apps. Without them, a tool should return what its app would show as text."""
        from jackstay.apps import shows_apps  # noqa: PLC0415  # few tools need it

        return shows_apps(self.client_capabilities.extensions)

    def _declared(self) -> bytes:
        client = self._connection.core.client
        return self._capabilities or (b"{}" if client is None else client.capabilities)

    # --- cancellation -------------------------------------------------------------------------------------------------

    @property
    def cancelled(self) -> threading.Event:
        """Set when the request is cancelled. A blocking function can wait for it instead of sleeping."""
        if self._cancelled is None:
            self._cancelled = threading.Event()
            if self.is_cancelled:
                self._cancelled.set()
        return self._cancelled

    def cancel(self) -> None:
        """Mark the request as cancelled. Called by the server."""
        self.is_cancelled = True
        if self._cancelled is not None:
            self._cancelled.set()
        for future in list(self._waiting):
            future.cancel()  # wakes the thread that waits for it

    def rounds(self) -> InputRounds | None:
        """Return the input rounds of this request; None if it cannot request input. Called by the server.

        Raises: JsonRpcError (-32602) for an invalid `requestState`.
        """
        if self._rounds is None and self._make_rounds is not None:
            self._rounds = self._make_rounds()
        return self._rounds

    def end(self) -> None:
        """Send no more notifications for this request: the handler has returned. Called by the server."""
        self._has_ended = True

    @property
    def state(self) -> Any:
        """What the lifespan of the server yielded; None without one."""
        lifespan = self._dispatch.server._lifespan
        return None if lifespan is None else lifespan.state

    @property
    def _dependencies(self) -> Dependencies:
        return self._dispatch.dependencies

    async def _run_in_thread(self, function: Callable[..., R], **arguments: object) -> R:
        connection = self._connection
        return await self._dispatch.pool.run(connection.owner, function, **arguments)

    # --- notifications ------------------------------------------------------------------------------------------------

    def progress(self, progress: float, total: float | None = None, message: str = "") -> Awaitable[None]:
        """Report progress, which must increase. Nothing is sent if the client did not send a progress token.

        It may be awaited, and is sent in any case. Raises: UsageError for a bad value.
        """
        for name, value in (("progress", progress), ("total", 0 if total is None else total)):
            # Checked here, where the traceback leads to the caller.
            if not isinstance(value, int | float):
                raise UsageError(f"{name} must be an int or a float, not {value!r}", path=name)
        if message and not isinstance(message, str):
            raise UsageError(f"message must be a str, not {message!r}", path="message")
        if self._token is not None and not self._has_ended:
            event = e.Progressed(self.request_id, self._serial, self._token, progress, total, message)
            self._connection.call(self._connection.progressed, event)
        return _SENT

    def log(self, level: types.LoggingLevel, data: object, logger: str | None = None) -> None:
        """Send a log message, if the client requested messages of this level.

        Raises: UsageError for an unknown level, and for data without a JSON form.
        """
        if level not in LOGGING_LEVELS:
            known = ", ".join(map(repr, LOGGING_LEVELS))
            raise UsageError(f"level must be one of {known}, not {level!r}", path="level")
        minimum = self._level if self._is_stateless else self._connection.log_level
        if minimum is None or LOGGING_LEVELS.index(level) < LOGGING_LEVELS.index(minimum) or self._has_ended:
            return
        name = b"" if logger is None else b',"logger":%b' % encode_json(logger)
        params = b'{"level":"%b"%b,"data":%b}' % (level.encode(), name, encode_json(data))
        self._connection.call(self._connection.notify, "notifications/message", params, self.request_id)

    def debug(self, data: object, logger: str | None = None) -> Awaitable[None]:
        """Send a log message of this level, as `log()`. It may be awaited, and is sent in any case."""
        self.log("debug", data, logger)
        return _SENT

    def info(self, data: object, logger: str | None = None) -> Awaitable[None]:
        """Send a log message of this level, as `log()`. It may be awaited, and is sent in any case."""
        self.log("info", data, logger)
        return _SENT

    def warning(self, data: object, logger: str | None = None) -> Awaitable[None]:
        """Send a log message of this level, as `log()`. It may be awaited, and is sent in any case."""
        self.log("warning", data, logger)
        return _SENT

    def error(self, data: object, logger: str | None = None) -> Awaitable[None]:
        """Send a log message of this level, as `log()`. It may be awaited, and is sent in any case."""
        self.log("error", data, logger)
        return _SENT

    def close_stream(self, retry: float | None = None) -> None:
        """Close the HTTP response stream; the client reconnects for the result. For long-running work.

        The client reconnects after `retry` seconds (by default the endpoint's setting) and receives what it missed.
        Only for HTTP sessions of 2025-11-25 with an event store; otherwise this does nothing.
        """
        if not self._has_ended:
            self._connection.call(self._connection.close_stream, self.request_id, retry)

    # --- requests to the client ---------------------------------------------------------------------------------------

    async def elicit(self, message: str, form: FormLike, *, key: str | None = None) -> Elicited:
        """Request input from the user through a form: a class with plain fields, a JSON Schema, or a type such as bool.

        In the stateless era the handler runs again with the response: see `once`. `key` identifies the request there.

        Raises: CapabilityError, if the client did not declare elicitation; UsageError for a form that is not flat;
            ProtocolError for a response that does not match the form.
        """
        from jackstay.server._forms import read_form  # noqa: PLC0415  # few servers need it

        made = read_form(form)
        self._require("elicitation.form" if self.version >= "2025-11-25" else "elicitation", "elicitation/create")
        params = encode_json({"message": message, "requestedSchema": made.schema})
        return await self._elicit(params, key, made)

    async def elicit_url(
        self, message: str, url: str, *, key: str | None = None, elicitation_id: str | None = None
    ) -> Elicited:
        """Request that the user opens a URL (since 2025-11-25). "accept" means consent, not that the user is done.

        Raises: CapabilityError, if the client did not declare URL elicitation.
        """
        self._require("elicitation.url", "elicitation/create")
        params: dict[str, Json] = {"mode": "url", "message": message, "url": url}
        if not self._is_stateless:
            params["elicitationId"] = elicitation_id or f"{self._connection.number}-{self._serial}"
        return await self._elicit(encode_json(params), key, None)

    async def sample(
        self,
        messages: str | Sequence[str | types.SamplingMessage],
        *,
        max_tokens: int = MAX_TOKENS,
        system_prompt: str | None = None,
        temperature: float | None = None,
        stop_sequences: Sequence[str] | None = None,
        extra: Mapping[str, Any] | None = None,
        key: str | None = None,
    ) -> types.CreateMessageResult:
        """Request a completion from the client's model. Strings are messages with the role "user".

        `extra` are further fields of `CreateMessageRequestParams`.

        Raises: CapabilityError, if the client did not declare sampling.
        """
        self._require("sampling", "sampling/createMessage")
        params = types.CreateMessageRequestParams(
            messages=[
                types.SamplingMessage(role="user", content=types.TextContent(text=part))
                if isinstance(part, str)
                else part
                for part in ([messages] if isinstance(messages, str) else messages)
            ],
            max_tokens=max_tokens,
            system_prompt=system_prompt,
            temperature=temperature,
            stop_sequences=stop_sequences,
            **(extra or {}),
        )
        result = await self._request_input("sampling/createMessage", encode_json(params), key)
        return types.decode(types.CreateMessageResult, result)

    async def list_roots(self, *, key: str | None = None) -> Sequence[types.Root]:
        """Request the roots: the directories that the client makes accessible.

        Raises: CapabilityError, if the client did not declare roots.
        """
        self._require("roots", "roots/list")
        return types.decode(types.ListRootsResult, await self._request_input("roots/list", b"{}", key)).roots

    async def once(self, key: str, function: Callable[[], Awaitable[R] | R]) -> R:
        """Call `function` in the first round of this request only, and return its result in every round.

        In the stateless era a handler that requests input runs again from the start for every response; `once` keeps it
        from repeating work. The result is stored in `requestState` as JSON, which is signed but not encrypted: do not
        return secrets. In the handshake era the function is called and its result converted to JSON in the same way.

        Raises: UsageError for a result without a JSON form.
        """
        if key in self._once:
            return self._once[key]  # type: ignore[return-value]  # documented: the JSON form of it
        rounds = self.rounds()
        encoded = None if rounds is None else rounds.once.get(key)
        if encoded is None:
            value = function()
            if inspect.isawaitable(value):
                value = await value
            encoded = encode_json(value).decode()
            if rounds is not None:
                rounds.once[key] = encoded
        self._once[key] = msgspec.json.decode(encoded)
        return self._once[key]  # type: ignore[return-value]  # documented: the JSON form of it

    async def background(self) -> None:
        """Run the rest of this call as a task, if the tool has `task="deferred"` and the client supports tasks.

        What the handler did before is done in the request, with input from the user if it needs any. The call then
        returns a task, and the handler runs again from the start in the background (see `once`); there, and for clients
        without tasks, this returns at once.
        """
        if (id(self._connection), self._serial) in self._dispatch.deferrable:
            rounds = self.rounds()
            assert rounds is not None  # of a tool and of the stateless era
            rounds.defer()

    def wait(self, request: Coroutine[Any, Any, R]) -> R:
        """Wait for `ctx.elicit(...)`, `ctx.sample(...)` and so on in a blocking function, and return the result.

        Raises: UsageError on the event loop's thread; `concurrent.futures.CancelledError`, if the request is cancelled.
        """
        if threading.get_ident() == self._connection._thread:
            request.close()
            raise UsageError("wait() would block the event loop: it is for blocking functions; use await here")
        waiting = asyncio.run_coroutine_threadsafe(request, self._connection._loop)
        self._waiting.add(waiting)
        try:
            if self.is_cancelled:  # checked after `add`, so that `cancel()` cannot miss it
                waiting.cancel()
            return waiting.result()
        finally:
            self._waiting.discard(waiting)

    async def _elicit(self, params: bytes, key: str | None, form: Form | None) -> Elicited:
        response = types.decode(types.ElicitResult, await self._request_input("elicitation/create", params, key))
        content: dict[str, Any] | None = None if response.content is None else dict(response.content)
        if form is None or response.action != "accept":
            return Elicited(response.action, content)
        try:
            return Elicited(response.action, content, form.read(content or {}))
        except UsageError as error:
            # Not requested again: a client that responds automatically would respond the same.
            raise ProtocolError(f"invalid elicitation response from the client: {error.message}") from error

    async def _request_input(self, method: str, params: bytes, key: str | None) -> bytes | msgspec.Raw:
        if not self._is_stateless:
            return await self._connection.request(method, params, self.request_id)
        rounds = self.rounds()
        if rounds is None:
            reason = "in 2026-07-28 only tools, prompts and resources can"
            raise UsageError(f"{self.method} cannot request input from the client: {reason}")
        response = rounds.look_up(method, params, key)
        if response is not None:
            return response
        from jackstay.server._input_required import InputRequired  # noqa: PLC0415  # already loaded for `rounds`

        # One turn of the loop, so that concurrent requests (`asyncio.gather`) are sent in one round.
        await asyncio.sleep(0)
        raise InputRequired

    def _require(self, capability: str, method: str) -> None:
        """Raise CapabilityError if the client did not declare what `method` needs."""
        if not self._is_stateless and self._connection.core.client is None:
            return  # an HTTP request without a session: the core raises the error
        refusal = check_capabilities(self._declared(), (capability,), method=self.method)
        if refusal is not None:
            raise CapabilityError(capability, f"{method} needs {capability!r}, which the client did not declare")
