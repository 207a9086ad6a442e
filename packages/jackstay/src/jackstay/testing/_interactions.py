"""Turns a recording into interactions: each message of the client with the steps that the server took because of it.

Progress belongs to the request with its token. Other messages of the server belong to the open request that was sent
last, or else to the client's last message. A request that got no response ends as recorded: silently if the client
cancelled it, with the connection if the server crashed, and with an error if the recording ends before the response.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from jackstay.errors import Json, RequestId
from jackstay.protocol import LIST_CHANGES
from jackstay.protocol.wire import (
    Batch,
    Error,
    ErrorCode,
    Message,
    Notification,
    Request,
    Result,
    encode_error,
    encode_notification,
)
from jackstay.testing._recording import Entry
from jackstay.types import DECODE_ERRORS, META_PROGRESS_TOKEN, META_SUBSCRIPTION_ID, encode_json

# Sent at any time: notifications do not belong to these requests.
UNRELATED: Final = frozenset({"ping", "subscriptions/listen"})

# Change notifications are not repeated when an interaction is played again: the client would send its request again
# because of each, in an endless loop.
_CHANGES: Final = {*LIST_CHANGES, "notifications/resources/updated"}

_decode: Callable[[bytes], Json] = msgspec.json.Decoder().decode


class Step(msgspec.Struct, frozen=True):
    """What the recorded server did at this time."""

    at: float


class Send(Step, frozen=True):
    """Send a frame as recorded. `is_once`: not when the interaction is played again."""

    frame: bytes
    is_once: bool = False


class SendProgress(Step, frozen=True):
    """Send a progress notification with the current token of the request."""

    params: dict[str, Json]


class SendToSubscription(Step, frozen=True):
    """Send a notification with the current id of a subscription; `subscription` is the interaction that opened it."""

    method: str
    params: dict[str, Json]
    subscription: "Interaction"
    is_once: bool = False


class SendRequest(Step, frozen=True):
    """Send a request to the client, with another id than in the recording."""

    request: Request


class CancelRequest(Step, frozen=True):
    """Cancel a request to the client."""

    id: RequestId
    params: dict[str, Json]


class Expect(Step, frozen=True):
    """Wait until the client has responded to that request. The response is not compared."""

    id: RequestId


class Respond(Step, frozen=True):
    """Respond to the request, with its current id."""

    response: Result | Error


class Disconnect(Step, frozen=True):
    """The server ends the connection."""

    why: str
    exit_code: int | None = None


class Interaction(msgspec.Struct, eq=False):
    """The client's message in line `line`, at the time `at`, and the steps of the server.

    `id` is None for a notification. The steps after the response are unsolicited messages.
    """

    line: int
    at: float
    method: str
    params: Json = None
    id: RequestId | None = None
    is_abandoned: bool = False
    steps: list[Step] = []


def read_interactions(entries: Iterable[Entry]) -> list[Interaction]:
    """Return every interaction of a recording, in order. Those without a method are played at the start."""
    interactions: list[Interaction] = []
    readers = defaultdict[int, _Reader](lambda: _Reader(interactions))
    for entry in entries:
        readers[entry.line.connection].read(entry)
    for reader in readers.values():
        reader.stop()
    return interactions


def meta_of(params: Json) -> dict[str, Json]:
    """Return the `_meta` of params; empty if there is none."""
    meta = params.get("_meta") if isinstance(params, dict) else None
    return meta if isinstance(meta, dict) else {}


def read_params(raw: msgspec.Raw | bytes | None) -> Json:
    """Return params as plain JSON; None if there are none, or they cannot be decoded."""
    try:
        return None if raw is None else _decode(raw)
    except DECODE_ERRORS:  # for example a number that is too large
        return None


def read_members(raw: msgspec.Raw | bytes) -> dict[str, Json]:
    """Return the members of an object; empty if it is not one, or cannot be decoded."""
    members = read_params(raw)
    return members if isinstance(members, dict) else {}


def with_subscription(body: dict[str, Json], id: RequestId | None) -> bytes:
    """Return params or a result of the subscription with this id."""
    return encode_json({**body, "_meta": {**meta_of(body), META_SUBSCRIPTION_ID: id}})


def cancelled_id(params: Json) -> RequestId | None:
    """Return the id of the request that `notifications/cancelled` with these params cancels."""
    id = params.get("requestId") if isinstance(params, dict) else None
    return id if isinstance(id, int | str) else None


class _Reader:
    """One connection of the recording."""

    def __init__(self, interactions: list[Interaction]) -> None:
        self._interactions = interactions
        self._open: dict[RequestId, Interaction] = {}
        self._server_requests: dict[RequestId, Interaction] = {}
        self._by_token: dict[RequestId, Interaction] = {}
        self._last: Interaction | None = None
        self._newest: Interaction | None = None  # as `_last`, but including UNRELATED requests

    def read(self, entry: Entry) -> None:
        line, at = entry.line, entry.line.at
        content = entry.content
        if isinstance(content, bytes):
            if line.sender == "server":
                self._cause(entry).steps.append(Send(at, content))
        elif content is not None:
            for message in content.members if isinstance(content, Batch) else (content,):
                if line.sender == "client":
                    self._from_client(entry, message)
                else:
                    self._from_server(entry, message)
        elif line.lost is not msgspec.UNSET:
            why = f"the recorded request failed without a response: {line.why}"
            self._answer(at, Error(line.lost, ErrorCode.INTERNAL_ERROR, why))
        elif line.aborted is not msgspec.UNSET:
            self._abandon(line.aborted)
        elif line.ended is not msgspec.UNSET:
            if line.sender == "server":
                self._cause(entry).steps.append(Disconnect(at, str(line.ended), line.exit))
            self._open.clear()

    def stop(self) -> None:
        """The recording ends here, but the connection was open."""
        for interaction in self._waiting():
            if interaction.method not in UNRELATED:
                message = f"the recording ends before the response to {interaction.method} (line {interaction.line})"
                error = Error(interaction.id, ErrorCode.INTERNAL_ERROR, message)
                interaction.steps.append(Respond(interaction.at, error))

    # --- the client ---------------------------------------------------------------------------------------------------

    def _from_client(self, entry: Entry, message: Message) -> None:
        if isinstance(message, Request):
            params = read_params(message.params)
            interaction = self._begin(entry, message.method, params, message.id)
            self._open[message.id] = interaction
            token = meta_of(params).get(META_PROGRESS_TOKEN)
            if isinstance(token, int | str):
                self._by_token[token] = interaction
        elif isinstance(message, Notification):
            params = read_params(message.params)
            if message.method == "notifications/cancelled":
                self._abandon(cancelled_id(params))
            else:
                self._begin(entry, message.method, params, None)
        elif isinstance(message, Result | Error) and message.id in self._server_requests:
            self._last = self._server_requests.pop(message.id)
            self._last.steps.append(Expect(entry.line.at, message.id))

    def _begin(self, entry: Entry, method: str, params: Json, id: RequestId | None) -> Interaction:
        interaction = Interaction(entry.number, entry.line.at, method, params, id)
        self._interactions.append(interaction)
        self._newest = interaction
        if method not in UNRELATED:
            self._last = interaction
        return interaction

    def _abandon(self, id: RequestId | None) -> None:
        if id in self._open:
            self._open[id].is_abandoned = True

    # --- the server ---------------------------------------------------------------------------------------------------

    def _from_server(self, entry: Entry, message: Message) -> None:
        at = entry.line.at
        if isinstance(message, Error) and message.id is None:
            self._cause(entry).steps.append(Send(at, encode_error(None, message.code, message.message, message.data)))
        elif isinstance(message, Result | Error):
            self._answer(at, message)
        elif isinstance(message, Request):
            interaction = self._server_requests[message.id] = self._cause(entry)
            interaction.steps.append(SendRequest(at, message))
        elif isinstance(message, Notification):
            self._notify(entry, message)

    def _notify(self, entry: Entry, message: Notification) -> None:
        at, method, params = entry.line.at, message.method, read_params(message.params)
        if isinstance(params, dict):
            token, subscription = params.get("progressToken"), meta_of(params).get(META_SUBSCRIPTION_ID)
            if method == "notifications/progress" and isinstance(token, int | str) and token in self._by_token:
                self._by_token[token].steps.append(SendProgress(at, params))
                return
            if isinstance(subscription, int | str) and subscription in self._open:
                opened = self._open[subscription]
                # Only those before the client's next message are the subscription's own: others were caused by it.
                is_own = self._newest is opened or method == "notifications/subscriptions/acknowledged"
                cause = opened if is_own else self._cause(entry)
                cause.steps.append(SendToSubscription(at, method, params, opened, method in _CHANGES))
                return
            id = cancelled_id(params) if method == "notifications/cancelled" else None
            if id in self._server_requests:
                self._server_requests.pop(id).steps.append(CancelRequest(at, id, params))
                return
        frame = encode_notification(method, message.params)
        self._cause(entry).steps.append(Send(at, frame, method in _CHANGES))

    def _answer(self, at: float, response: Result | Error) -> None:
        """Add a response. One to a request that is not open is dropped."""
        if response.id in self._open:
            self._open.pop(response.id).steps.append(Respond(at, response))

    def _waiting(self) -> list[Interaction]:
        return [interaction for interaction in self._open.values() if not interaction.is_abandoned]

    def _cause(self, entry: Entry) -> Interaction:
        """Return the interaction to which a message of the server without a request id, or its end, belongs."""
        for interaction in reversed(self._waiting()):
            if interaction.method not in UNRELATED:
                return interaction
        if self._last is None:  # the server sent the first message
            self._last = Interaction(entry.number, 0.0, "")
            self._interactions.append(self._last)
        return self._last
