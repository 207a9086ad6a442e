"""What a handler can know of its request and say to its client, where it asks for a `Context`.

The same words in both eras. `elicit`, `sample` and `roots` are requests to a client of the handshake era; to one of the
stateless era they are a question in the result, and the handler is run again with the answer (`_rounds`).

Everything but the awaitable methods may be called from any thread, so that blocking functions can use it.

Must never know how a result is made. Above: handlers, `_dispatch`. Below: `_connection`, `_rounds`, `_forms`.
"""

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec

from jackstay.errors import CapabilityError, Json, ProtocolError, RequestId, UsageError
from jackstay.protocol.server import events as e
from jackstay.protocol.server import progress_token, refuse_undeclared
from jackstay.types import (
    Body,
    ClientCapabilities,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitResult,
    Implementation,
    ListRootsResult,
    LoggingLevel,
    Root,
    SamplingMessage,
    TextContent,
    decode,
    encode_json,
)

if TYPE_CHECKING:
    from concurrent.futures import Future

    from jackstay.server._driver import Caller, Driver
    from jackstay.server._forms import Form, FormLike
    from jackstay.server._rounds import Rounds

R = TypeVar("R")
B = TypeVar("B", bound=Body)

# RFC 5424's words, least severe first.
LEVELS: tuple[LoggingLevel, ...] = (
    "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency",
)  # fmt: skip


class _WithMeta(msgspec.Struct):
    """Params of which `_meta` alone is read: the arguments beside it may be large."""

    meta: Any = msgspec.field(name="_meta", default=None)


_read_meta = msgspec.json.Decoder(_WithMeta).decode

# How many tokens a model may answer with, where the author does not say.
MAX_TOKENS = 1024


class Elicited(msgspec.Struct, frozen=True):
    """What a user answered. `content` is there with "accept" only; `data` is the same as the class of the form."""

    action: Literal["accept", "decline", "cancel"]
    content: Mapping[str, Any] | None = None
    data: Any = None

    @property
    def is_accepted(self) -> bool:
        """True if the user filled the form in, or went where he was sent."""
        return self.action == "accept"


class Context:
    """One request, as its handler sees it. Made by the server; good until the handler returns.

    `method`, `request_id` and `version` (the revision) are the request's; `store` is a dict that lives as long as the
    connection or session, for whatever handlers want to keep there.
    """

    def __init__(
        self,
        connection: "Driver",
        request: e.Serve,
        params: bytes,
        caller: "Caller",
        make_rounds: "Callable[[], Rounds] | None" = None,
    ) -> None:
        self.method = request.method.name
        self.request_id: RequestId = request.id
        self.version = request.version
        self.store = connection.store
        self._caller = caller
        self._connection = connection
        self._serial = request.serial
        self._params = params
        # Copied: the frame is gone when a handler asks.
        meta = request.meta
        self._capabilities = b"" if meta is None else bytes(meta.capabilities)
        has_info = meta is not None and isinstance(meta.client_info, msgspec.Raw)
        self._info = bytes(meta.client_info) if meta is not None and has_info else b""  # type: ignore[arg-type]  # asked above
        self._level = None if meta is None else meta.log_level
        self._is_stateless = meta is not None
        self._token = progress_token(msgspec.Raw(params)) if b'"progressToken"' in params else None
        # Made when it is needed: most handlers never ask, and sealing has to be loaded.
        self._make_rounds = make_rounds
        self._rounds: Rounds | None = None
        self._has_ended = False
        self._is_cancelled = False
        self._cancelled: threading.Event | None = None
        # Questions that threads wait for, by `wait()`.
        self._waiting: set[Future[Any]] = set()
        self._once: dict[str, Json] = {}

    def __repr__(self) -> str:
        return f"<Context {self.method} {self.request_id!r} {self.version}>"

    # --- what is known ------------------------------------------------------------------------------------------------

    @property
    def params(self) -> dict[str, Json]:
        """The params of the request as JSON: a new copy at every call."""
        copy: dict[str, Json] = msgspec.json.decode(self._params)
        return copy

    @property
    def meta(self) -> dict[str, Json]:
        """The request's `_meta`; empty if it has none. A new copy at every call, as `params`."""
        meta: Json = _read_meta(self._params).meta if b'"_meta"' in self._params else None
        return meta if isinstance(meta, dict) else {}

    @property
    def principal(self) -> str:
        """Whom the request comes from, where that was proved (HTTP with authorization); else empty."""
        return self._caller.principal

    @property
    def scopes(self) -> frozenset[str]:
        """What the caller's token may do (HTTP with authorization); else nothing. See `InsufficientScopeError`."""
        return self._caller.scopes or frozenset()

    @property
    def claims(self) -> Mapping[str, Json]:
        """What else the caller's token says of him, as its verifier read it; else nothing."""
        return self._caller.claims

    @property
    def client_info(self) -> Implementation | None:
        """What the client says of itself: for display only."""
        client = self._connection.core.client
        said = self._info or (b"" if client is None else client.info)
        try:
            return decode(Implementation, said) if said else None
        except ProtocolError:
            return None  # 2026-07-28 must not require it, so a wrong one is none

    @property
    def client_capabilities(self) -> ClientCapabilities:
        """What the client declared that it can do."""
        try:
            return decode(ClientCapabilities, self._declared())
        except ProtocolError:
            return ClientCapabilities()

    def _declared(self) -> bytes:
        client = self._connection.core.client
        return self._capabilities or (b"{}" if client is None else client.capabilities)

    # --- cancellation -------------------------------------------------------------------------------------------------

    @property
    def is_cancelled(self) -> bool:
        """True once the client no longer wants the answer: a blocking function should look, and return."""
        return self._is_cancelled

    @property
    def cancelled(self) -> threading.Event:
        """Set when the request is cancelled: for a blocking function that can wait for it instead of sleeping."""
        if self._cancelled is None:
            self._cancelled = threading.Event()
            if self._is_cancelled:
                self._cancelled.set()
        return self._cancelled

    def cancel(self) -> None:
        """The server's: the request was cancelled."""
        self._is_cancelled = True
        if self._cancelled is not None:
            self._cancelled.set()
        for question in list(self._waiting):
            question.cancel()  # its thread waits for an answer that nobody wants any more

    def rounds(self) -> "Rounds | None":
        """The server's: the rounds of this request; None where it has none.

        Raises: JsonRpcError (-32602), if the client sent a state that cannot be used.
        """
        if self._rounds is None and self._make_rounds is not None:
            self._rounds = self._make_rounds()
        return self._rounds

    def end(self) -> None:
        """The server's: the handler has returned, and nothing more is said for this request."""
        self._has_ended = True

    # --- saying -------------------------------------------------------------------------------------------------------

    def progress(self, progress: float, total: float | None = None, message: str = "") -> None:
        """Say how far the work has come; only ever more. Nothing is sent if the client did not ask for it.

        Raises: UsageError for what is not a number.
        """
        for name, value in (("progress", progress), ("total", 0 if total is None else total)):
            # Said here, to who wrote it: further on it is nobody's error.
            if not isinstance(value, int | float):
                raise UsageError(f"{name} must be a number, not {value!r}", path=name)
        if message and not isinstance(message, str):
            raise UsageError(f"message must be a string, not {message!r}", path="message")
        if self._token is None or self._has_ended:
            return
        event = e.Progressed(self.request_id, self._serial, self._token, progress, total, message)
        self._connection.call(self._connection.progressed, event)

    def log(self, level: LoggingLevel, data: object, logger: str | None = None) -> None:
        """Send a log message, if the client wants messages of this level.

        Raises: UsageError for a level that is none, and for data that is not JSON.
        """
        if level not in LEVELS:
            raise UsageError(f"level must be one of {', '.join(LEVELS)}, not {level!r}", path="level")
        wanted = self._level if self._is_stateless else self._connection.log_level
        if wanted is None or LEVELS.index(level) < LEVELS.index(wanted) or self._has_ended:
            return
        name = b"" if logger is None else b',"logger":%b' % encode_json(logger)
        params = b'{"level":"%b"%b,"data":%b}' % (level.encode(), name, encode_json(data))
        self._connection.call(self._connection.notify, "notifications/message", params, self.request_id)

    def close_stream(self, retry: float | None = None) -> None:
        """Let the client go and come back for the answer: for work that takes longer than a connection should be held.

        It comes back after `retry` seconds (or the endpoint's own), and is given what it missed. Only HTTP sessions of
        2025-11-25 with an event store can do that; anywhere else nothing happens.
        """
        if not self._has_ended:
            self._connection.call(self._connection.close_stream, self.request_id, retry)

    # --- asking -------------------------------------------------------------------------------------------------------

    async def elicit(self, message: str, form: "FormLike", *, key: str | None = None) -> Elicited:
        """Ask the user to fill in a form: a class with plain fields, or a ready schema.

        In the stateless era the handler is run again for the answer: see `once`. `key` names the question there.

        Raises: CapabilityError, if the client cannot; UsageError for a form that is not flat.
        """
        from jackstay.server._forms import read_form  # noqa: PLC0415  # most servers never ask

        made = read_form(form)
        self._require("elicitation.form" if self._knows_modes() else "elicitation", "elicitation/create")
        params = encode_json({"message": message, "requestedSchema": made.schema})
        return await self._elicit(params, key, made)

    async def elicit_url(
        self, message: str, url: str, *, key: str | None = None, elicitation_id: str | None = None
    ) -> Elicited:
        """Ask the user to go to a URL (since 2025-11-25). "accept" means that he agreed to, not that he is done.

        Raises: CapabilityError, if the client cannot.
        """
        self._require("elicitation.url", "elicitation/create")
        asked: dict[str, Json] = {"mode": "url", "message": message, "url": url}
        if not self._is_stateless:
            asked["elicitationId"] = elicitation_id or f"{self._connection.number}-{self._serial}"
        return await self._elicit(encode_json(asked), key, None)

    async def sample(
        self,
        messages: str | Sequence[str | SamplingMessage],
        *,
        max_tokens: int = MAX_TOKENS,
        system_prompt: str | None = None,
        temperature: float | None = None,
        stop_sequences: Sequence[str] | None = None,
        more: Mapping[str, Any] | None = None,
        key: str | None = None,
    ) -> CreateMessageResult:
        """Ask the client's model. Strings are messages of the user's; `more` are further fields of the params' class.

        Raises: CapabilityError, if the client has none.
        """
        self._require("sampling", "sampling/createMessage")
        params = CreateMessageRequestParams(
            messages=[_to_message(part) for part in ([messages] if isinstance(messages, str) else messages)],
            max_tokens=max_tokens,
            system_prompt=system_prompt,
            temperature=temperature,
            stop_sequences=stop_sequences,
            **dict(more or {}),
        )
        return decode(
            CreateMessageResult, await self._ask("sampling/createMessage", encode_json(params), key)
        )

    async def roots(self, *, key: str | None = None) -> Sequence[Root]:
        """The places that the client lets the server work in.

        Raises: CapabilityError, if the client has none to tell.
        """
        self._require("roots", "roots/list")
        return decode(ListRootsResult, await self._ask("roots/list", b"{}", key)).roots

    async def once(self, key: str, function: Callable[[], Awaitable[R] | R]) -> R:
        """The result of `function`, run in the first round of this request only.

        In the stateless era a handler that asks is run again from its first line for every answer, so work before a
        question is done once a round. What `function` returns is carried in the sealed state, as JSON: give it data, and
        no secrets, for the client can read it. In the handshake era it is run, and its result is the same JSON.

        Raises: UsageError, if the result is not JSON.
        """
        if key in self._once:
            return self._once[key]  # type: ignore[return-value]  # as JSON: the author was told
        rounds = self.rounds()
        said = None if rounds is None else rounds.recall(key)
        if said is None:
            value = function()
            if inspect.isawaitable(value):
                value = await value
            said = encode_json(value)
            if rounds is not None:
                rounds.remember(key, said)
        self._once[key] = msgspec.json.decode(said)
        return self._once[key]  # type: ignore[return-value]  # as JSON: the author was told

    def wait(self, question: Coroutine[Any, Any, R]) -> R:
        """For blocking functions: the result of `ctx.elicit(...)` and the like, waited for in this thread.

        Raises: UsageError on the loop's own thread, where `await` is the way. `concurrent.futures.CancelledError`, if the
        request is cancelled meanwhile.
        """
        if threading.get_ident() == self._connection._thread:
            question.close()
            raise UsageError("wait() is for blocking functions; use await here")
        waiting = asyncio.run_coroutine_threadsafe(question, self._connection._loop)
        self._waiting.add(waiting)
        try:
            if self._is_cancelled:  # after it can be found there: one of the two sees the other
                waiting.cancel()
            return waiting.result()
        finally:
            self._waiting.discard(waiting)

    async def _elicit(self, params: bytes, key: str | None, form: "Form | None") -> Elicited:
        answer = decode(ElicitResult, await self._ask("elicitation/create", params, key))
        content: dict[str, Any] | None = None if answer.content is None else dict(answer.content)
        if form is None or answer.action != "accept":
            return Elicited(answer.action, content)
        try:
            return Elicited(answer.action, content, form.read(content or {}))
        except UsageError as error:
            # Not asked again, in either era: a client that answers by a program would answer the same.
            raise ProtocolError(f"the client's answer cannot be used: {error.message}") from error

    async def _ask(self, method: str, params: bytes, key: str | None) -> bytes | msgspec.Raw:
        if not self._is_stateless:
            return await self._connection.ask(method, params, self.request_id)
        rounds = self.rounds()
        if rounds is None:
            raise UsageError(f"{self.method} cannot ask: only tools, prompts and resources can (2026-07-28)")
        answer = rounds.look_up(method, params, key)
        if answer is not None:
            return answer
        from jackstay.server._rounds import InputRequired  # noqa: PLC0415  # loaded: there is a round

        # A turn of the loop, so that questions asked side by side (`asyncio.gather`) end up in one round.
        await asyncio.sleep(0)
        raise InputRequired

    def _knows_modes(self) -> bool:
        return self.version >= "2025-11-25"

    def _require(self, capability: str, method: str) -> None:
        """Refuse to ask for what the client did not declare."""
        if not self._is_stateless and self._connection.core.client is None:
            return  # a request without a session: the core says so in its own words
        refusal = refuse_undeclared(self._declared(), (capability,), method=self.method)
        if refusal is not None:
            raise CapabilityError(
                capability, f"the client did not declare {capability}, which {method} needs"
            )


def _to_message(part: str | SamplingMessage) -> SamplingMessage:
    return SamplingMessage(role="user", content=TextContent(text=part)) if isinstance(part, str) else part
