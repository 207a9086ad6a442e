"""One request of a user's, from the arguments of a call to its typed result: the path that every feature takes.

Here a call is checked against what the server offers, encoded, sent, read, and asked again where the server needs
answers first (2026-07-28, multi-round-trip requests): the same handlers that serve requests of a handshake-era server
answer those. Recovery is not here: it lives below, in the connection, the same for every method.

Above: `_tools`, `_resources`, `_prompts` and the other features. Below: `_connection`, `_asking` (the user's handlers).
"""

from collections.abc import Callable, Mapping
from typing import Any, TypedDict, TypeVar

import msgspec

from mooring.client._asking import Asking
from mooring.client._connection import Call, Connection
from mooring.errors import CapabilityError, Json, ProtocolError, StateError, UsageError
from mooring.protocol import METHODS
from mooring.types import (
    CreateTaskResult,
    InputRequiredResult,
    ProgressNotificationParams,
    Result,
    ServerCapabilities,
    decode,
    decode_result,
    encode_json,
)

R = TypeVar("R", bound=Result)

# A server that asks and asks is broken or hostile: it may ask as often as ours does.
MAX_ROUNDS = 8


class CallOptions(TypedDict, total=False):
    """How one call is made, where it differs from the settings.

    `timeout` and `max_timeout` are the soft and the hard deadline; `on_progress` hears of progress and moves the soft one;
    `meta` are members for the request's `_meta`.
    """

    timeout: float | None
    max_timeout: float | None
    wait_for_ready: bool
    busy: str
    replay: str
    on_progress: Callable[[ProgressNotificationParams], None]
    meta: Mapping[str, Json]


class Requests:
    """The connection as the features see it."""

    def __init__(self, asking: Asking) -> None:
        self.asking = asking
        self._connection: Connection | None = None
        self._capabilities: tuple[bytes, dict[str, Json]] = (b"", {})

    def attach(self, connection: Connection) -> None:
        """Requests go through this connection from now on."""
        self._connection = connection

    @property
    def connection(self) -> Connection:
        """The connection. Raises: StateError before the client was opened."""
        if self._connection is None:
            raise StateError("new", message="the client is not open; use `async with` or `open()`")
        return self._connection

    def check(self, capability: str) -> None:
        """Refuse what the server does not offer. Raises: CapabilityError."""
        if capability and not self.offers(capability):
            raise CapabilityError(capability)

    def offers(self, capability: str) -> bool:
        """True if the server offers it, or if nothing is known of the server yet: then the server will say."""
        server = self.connection.core.server
        if server is None:
            return True
        if self._capabilities[0] is not server.capabilities:
            self._capabilities = server.capabilities, msgspec.json.decode(server.capabilities)
        place: Json = self._capabilities[1]
        for name in capability.split("."):
            place = place.get(name) if isinstance(place, dict) else None
        # `"tools": {}` offers tools; a flag inside, such as `listChanged`, must be true.
        return place is not None and place is not False

    def capabilities(self) -> ServerCapabilities:
        """What the server offers, typed. Raises: StateError before the first ready."""
        return decode(ServerCapabilities, self.connection.server().capabilities)

    async def ask(
        self,
        method: str,
        params: dict[str, Any],
        result: type[R],
        options: CallOptions,
        *,
        is_safe: bool | None = None,
    ) -> R:
        """Make a request and wait for its complete result, answering what the server asks in between.

        `is_safe` says whether it may be sent again after a loss; by default the method's row does.

        Raises: every error in `docs/errors.md`.
        """
        self.check(METHODS[method].capability)
        how = self._how(method, options, is_safe)
        for _ in range(MAX_ROUNDS):
            answer = await self._once(method, params, result, options, how)
            if not isinstance(answer, InputRequiredResult):
                if isinstance(answer, CreateTaskResult):
                    raise ProtocolError(
                        "a task, though tasks were not declared", path="$.resultType", sent=True
                    )
                return answer
            params = {
                key: value for key, value in params.items() if key not in ("inputResponses", "requestState")
            }
            if answer.input_requests:
                params["inputResponses"] = await self.asking.fulfil(answer.input_requests)
            if answer.request_state is not None:
                params["requestState"] = answer.request_state
            how["may_replay"] = False  # never between rounds: the server may have acted on the first
        raise ProtocolError(f"the server asked for input more than {MAX_ROUNDS} times", sent=True).about(
            method, None
        )

    async def _once(
        self, method: str, params: dict[str, Any], result: type[R], options: CallOptions, how: dict[str, Any]
    ) -> R | InputRequiredResult | CreateTaskResult:
        def read(raw: msgspec.Raw) -> R | InputRequiredResult | CreateTaskResult:
            return decode_result(result, raw)

        answer: R | InputRequiredResult | CreateTaskResult = await self.connection.call(
            method, encode_json(params), read, _reporter(options), **how
        )
        return answer

    def submit(self, method: str, params: Mapping[str, Json], options: CallOptions) -> Call[dict[str, Json]]:
        """Make a request and return at once: `.id` is its id, `.future` its result as plain JSON."""
        row = METHODS.get(method)
        if row is not None:
            self.check(row.capability)
        how = self._how(method, options, None)
        return self.connection.submit(
            method, encode_json(dict(params)), _read_json, _reporter(options), **how
        )

    def _how(self, method: str, options: CallOptions, is_safe: bool | None) -> dict[str, Any]:
        settings = self.connection.settings
        how: dict[str, Any] = {name: options[name] for name in _PASSED if name in options}  # type: ignore[literal-required]  # names from the TypedDict
        replay = options.get("replay", settings.replay)
        if replay not in ("never", "safe"):
            raise UsageError(f'replay must be "never" or "safe", not {replay!r}', path="replay")
        if replay == "safe":
            row = METHODS.get(method)
            how["may_replay"] = is_safe if is_safe is not None else row is not None and row.is_safe
        if meta := options.get("meta"):
            how["meta"] = encode_json(dict(meta))[1:-1]
        return how


_PASSED = ("timeout", "max_timeout", "wait_for_ready", "busy")


def _reporter(options: CallOptions) -> Callable[[msgspec.Raw], None] | None:
    handler = options.get("on_progress")
    if handler is None:
        return None
    return lambda raw: handler(decode(ProgressNotificationParams, raw))


def _read_json(raw: msgspec.Raw) -> dict[str, Json]:
    try:
        value = msgspec.json.decode(raw)
    except msgspec.DecodeError as error:
        raise ProtocolError(f"the result cannot be read: {error}") from error
    if not isinstance(value, dict):
        raise ProtocolError("the result is not an object", path="$")
    return value
