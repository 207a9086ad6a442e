"""One request of a user's, from the arguments of a call to its typed result: the path that every feature takes.

Here a call is checked against what the server offers, encoded, sent, read, and asked again where the server needs
answers first (2026-07-28, multi-round-trip requests): the same handlers that serve requests of a handshake-era server
answer those. Recovery is not here: it lives below, in the connection, the same for every method.

Above: `_tools`, `_resources`, `_prompts` and the other features. Below: `_connection`, `_asking` (the user's handlers).
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, Final, Literal, TypeAlias, TypedDict, TypeVar

import msgspec

from jackstay.client._asking import Asking
from jackstay.client._call import Call
from jackstay.client._connection import Connection
from jackstay.client._deadline import Deadline
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
from jackstay.protocol import METHODS
from jackstay.protocol.client import ClientState, ServerFacts
from jackstay.types import (
    CreateTaskResult,
    InputRequiredResult,
    ProgressNotificationParams,
    Result,
    ServerCapabilities,
    decode,
    decode_result,
    encode_json,
)

logger = logging.getLogger("jackstay.client")

R = TypeVar("R", bound=Result)

# How often a server may ask before it answers: as often as ours does. One that asks and asks is broken or hostile.
MAX_ROUNDS = 8

# Hears of progress, sync or async.
ProgressHandler: TypeAlias = Callable[[ProgressNotificationParams], object]


class CallOptions(TypedDict, total=False):
    """How one call is made, where it differs from the settings.

    `timeout` and `max_timeout` are the soft and the hard deadline; `on_progress` hears of progress, which moves the soft
    one; `meta` are members for the request's `_meta`.
    """

    timeout: float | None
    max_timeout: float | None
    wait_for_ready: bool
    busy: Literal["retry", "wait"]
    replay: Literal["never", "safe"]
    on_progress: ProgressHandler | None
    meta: Mapping[str, Json] | None


def _is_time(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool) and value > 0)


# What each may be: a mistake shows here, or where nobody can tell what it was.
_OPTIONS: Final[dict[str, tuple[Callable[[object], bool], str]]] = {
    "timeout": (_is_time, "a number above 0, or None"),
    "max_timeout": (_is_time, "a number above 0, or None"),
    "wait_for_ready": (lambda value: isinstance(value, bool), "True or False"),
    "busy": (lambda value: value in ("retry", "wait"), '"retry" or "wait"'),
    "replay": (lambda value: value in ("never", "safe"), '"never" or "safe"'),
    "on_progress": (lambda value: value is None or callable(value), "a function, or None"),
    "meta": (lambda value: value is None or isinstance(value, Mapping), "a mapping, or None"),
}
_PASSED = ("timeout", "max_timeout", "wait_for_ready", "busy")

Answer: TypeAlias = R | InputRequiredResult | CreateTaskResult
Reader: TypeAlias = Callable[[msgspec.Raw], Any]


@cache
def _reader(result: type[R]) -> Callable[[msgspec.Raw], Answer[R]]:
    """Reads results of this type. One for each type, because making one a call costs more than the call's own work."""
    return partial(decode_result, result)


class Requests:
    """The connection as the features see it."""

    def __init__(self, asking: Asking) -> None:
        self.asking = asking
        self.progress_handlers: list[ProgressHandler] = []
        self.trace: Trace | None = None
        self._connection: Connection | None = None
        self._known: ServerFacts | None = None
        self._offered: dict[str, bool] = {}

    def attach(self, connection: Connection) -> None:
        """Requests go through this connection from now on."""
        self._connection = connection

    @property
    def connection(self) -> Connection:
        """The connection. Raises: StateError before the client was opened."""
        if self._connection is None:
            raise StateError("new", message="the client is not open; use `async with` or `open()`")
        return self._connection

    # --- what the server offers ---------------------------------------------------------------------------------------

    def check(self, capability: str) -> None:
        """Refuse what the server does not offer. Raises: CapabilityError."""
        if not self.offers(capability):
            raise CapabilityError(capability)

    def offers(self, capability: str) -> bool:
        """True if the server offers it, or if nothing is known of the server yet: then the server will say."""
        server = self.connection.core.server
        if server is None:
            return True
        if server is not self._known:
            self._known, self._offered = server, {}
        offered = self._offered.get(capability)
        if offered is None:
            offered = self._offered[capability] = _offers(server.capabilities, capability)
        return offered

    def capabilities(self) -> ServerCapabilities:
        """What the server offers, typed. Raises: StateError before the first ready."""
        return decode(ServerCapabilities, self.connection.server().capabilities)

    def deadline(self, options: CallOptions) -> Deadline:
        """Start the deadline of a call that takes more than one request. Raises: UsageError, StateError."""
        _check_options(options)
        connection = self.connection
        unset = msgspec.UNSET
        limits = connection.settings.deadlines(
            options.get("timeout", unset), options.get("max_timeout", unset)
        )
        return Deadline(asyncio.get_running_loop().time(), *limits)

    async def settled(self, options: CallOptions, deadline: Deadline) -> Connection:
        """The connection when it is ready: now, or soon where the call may wait for it.

        For what is more than one request, or depends on the era. Raises: StateError, TimeoutError, or why it is closed.
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

    # --- asking -------------------------------------------------------------------------------------------------------

    async def ask(
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
    ) -> R:
        """Make a request and wait for its complete result, answering what the server asks in between.

        `is_safe` says whether it may be sent again after a loss; by default the method's row does. `subject` is what a
        trace calls it. `deadline` is that of the call which this request is a part of, where there are others; `read`
        reads a result in place of the type's own reader.

        Raises: every error in `docs/errors.md`.
        """
        connection = self.connection
        capability = METHODS[method].capability
        if capability and not self.offers(capability):
            raise CapabilityError(capability).about(method, None)
        how = self._how(method, options, is_safe)
        read = read or _reader(result)
        began_at = asyncio.get_running_loop().time()
        for asked in range(MAX_ROUNDS + 1):
            if deadline is not None:
                how["began_at"], how["moved_at"] = deadline.began_at, deadline.moved_at
            call = self._begin(method, params, read, how, subject)
            try:
                answer = await call.future
            except asyncio.CancelledError:
                connection.give_up(call)
                raise
            except McpError as error:
                if asked and error.may_have_run is False:
                    raise _in_doubt(error) from error
                raise
            if isinstance(answer, result):
                if deadline is not None:
                    deadline.note(call)
                return answer
            if not isinstance(answer, InputRequiredResult):
                refusal = ProtocolError(
                    "a task, though tasks were not declared", path="$.resultType", sent=True
                )
                raise refusal.about(method, call.id)
            if asked < MAX_ROUNDS:
                if deadline is None:
                    deadline = self.deadline(options)
                    deadline.began_at = deadline.moved_at = began_at
                deadline.note(call)
                async with deadline.bound(sent=True):
                    params = await self._answered(params, answer)
                how["may_replay"] = False  # never between rounds: the server may have acted on the first
        endless = ProtocolError(f"the server asked for input more than {MAX_ROUNDS} times", sent=True)
        raise endless.about(method, None)

    async def _answered(self, params: dict[str, Any], question: InputRequiredResult) -> dict[str, Any]:
        """The params of the next round: the same, with our answers and the state exactly as it was given."""
        again = {key: params[key] for key in params if key not in ("inputResponses", "requestState")}
        if question.input_requests:
            again["inputResponses"] = await self.asking.fulfil(question.input_requests)
        if question.request_state is not None:
            again["requestState"] = question.request_state
        return again

    def submit(self, method: str, params: Mapping[str, Json], options: CallOptions) -> Call[dict[str, Json]]:
        """Make a request and return at once: `.id` is its id; await it for its result as plain JSON."""
        if not method or not _is_text(method):
            raise UsageError(f"a method is a text that is not empty, not {method!r}", path="method")
        check_named(params, "params")
        row = METHODS.get(method)
        if row is not None and row.capability:
            self.check(row.capability)
        how = self._how(method, options, None)
        call = self._begin(method, dict(params), _read_json, how, "")
        call.future.add_done_callback(partial(_settle, self.connection, call))
        return call

    def _begin(
        self, method: str, params: dict[str, Any], read: "Reader", how: dict[str, Any], subject: str
    ) -> Call[Any]:
        encoded = encode_json(params)
        if self.trace is None:
            return self.connection.submit(method, encoded, read, **how)
        span = self.trace(method, subject)
        own = how.get("meta", b"")
        # What the caller put into `meta` himself stands.
        taken = msgspec.json.decode(b"{%b}" % own) if own else {}
        members = {key: value for key, value in span.meta.items() if key not in taken}
        meta = b",".join(part for part in (encode_json(members)[1:-1], own) if part)
        call: Call[Any] = self.connection.submit(method, encoded, read, **{**how, "meta": meta})
        call.future.add_done_callback(partial(_end_span, span, call))
        return call

    def _how(self, method: str, options: CallOptions, is_safe: bool | None) -> dict[str, Any]:
        """The fields of `Called` that this call's options make. Raises: UsageError."""
        how: dict[str, Any] = {}
        replay = self.connection.settings.replay
        if options:
            _check_options(options)
            for name in _PASSED:
                if name in options:
                    how[name] = options[name]  # type: ignore[literal-required]  # names from the TypedDict
            replay = options.get("replay", replay)
            if meta := options.get("meta"):
                how["meta"] = encode_json(dict(meta))[1:-1]
            if (on_progress := options.get("on_progress")) is not None:
                how["on_progress"] = on_progress
        if self.progress_handlers or "on_progress" in how:
            how["wants_progress"] = True
        if replay == "safe":
            row = METHODS.get(method)
            how["may_replay"] = is_safe if is_safe is not None else row is not None and row.is_safe
        return how


def check_named(values: object, what: str) -> None:
    """Refuse what has no names. Raises: UsageError."""
    if not isinstance(values, Mapping):
        kind = type(values).__name__
        raise UsageError(f"{what} must have names, as in {{'city': 'Rome'}}; {kind} has none", path=what)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _check_options(options: CallOptions) -> None:
    """Raises: UsageError. A mistyped `timeout` must not mean the default one."""
    for name, value in options.items():
        if name not in _OPTIONS:
            known = ", ".join(_OPTIONS)
            raise UsageError(f"there is no option {name!r} of a call; there are {known}", path=name)
        holds, said = _OPTIONS[name]
        if not holds(value):
            raise UsageError(f"{name} must be {said}, not {value!r}", path=name)


def _offers(capabilities: bytes, capability: str) -> bool:
    place: Json = msgspec.json.decode(capabilities)
    for name in capability.split("."):
        place = place.get(name) if isinstance(place, dict) else None
    # `"tools": {}` offers tools; a flag inside, such as `listChanged`, must be true.
    return place is not None and place is not False


def _settle(connection: Connection, call: Call[Any], future: "asyncio.Future[Any]") -> None:
    """Whoever holds the handle may await it, late, often or never. How it ended is told all the same, by telemetry and here."""
    if future.cancelled():
        connection.give_up(call)
    elif (error := call.see()) is not None:
        logger.debug("%s: %r ended with: %s", connection.telemetry.client, call, error)


def _end_span(span: Span, call: Call[Any], future: "asyncio.Future[Any]") -> None:
    error = asyncio.CancelledError("the caller gave it up") if future.cancelled() else future.exception()
    span.end(call.id, error)


def _in_doubt(error: McpError) -> McpError:
    """Return the error of a later round of a call: the server accepted an earlier one, and may have acted on it."""
    if isinstance(error, TimeoutError):
        doubt: McpError = TimeoutError(error.timeout, sent=True, limit=error.limit)
    else:
        doubt = OutcomeUnknownError(error.message)
    return doubt.about(error.method, error.request_id)


def _read_json(raw: msgspec.Raw) -> dict[str, Json]:
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"the result cannot be read: {error}") from error
    if not isinstance(value, dict):
        raise ProtocolError("the result is not an object", path="$")
    return value
