"""Ids of a client that come to HTTP: there a request's id must be a whole number other than 0, and clients use others.

A request with an id that HTTP cannot have gets another on the way out, and its own back on the way in: in the answer, in the
cancellation, and where a subscription is named by the id of its request. Everything else is left as it is, byte for byte.

Must never know a connection. Above: `_relay`. Below: `jackstay.protocol.wire`.
"""

from itertools import count

import msgspec

from jackstay.errors import Json, RequestId
from jackstay.protocol.wire import (
    Error,
    Message,
    Notification,
    Request,
    Result,
    encode_error,
    encode_notification,
    encode_request,
    encode_result,
)
from jackstay.types import META_SUBSCRIPTION_ID, encode_json

# Far beyond what a client counts to, and exact in every language.
FIRST = 1 << 48

_SUBSCRIPTION = META_SUBSCRIPTION_ID.encode()


class Numbering:
    """Both ways of one connection."""

    def __init__(self) -> None:
        self._numbers = count(FIRST)
        self._given: dict[RequestId, int] = {}
        self._own: dict[int, RequestId] = {}

    def own(self, id: RequestId) -> RequestId:
        """What the client calls the request that HTTP calls so."""
        return self._own.get(id, id) if isinstance(id, int) else id

    def given(self, id: RequestId) -> RequestId:
        """What HTTP calls the request that the client calls so."""
        return self._given.get(id, id)

    def forget(self, id: RequestId) -> None:
        """The request that the client calls so is answered."""
        number = self._given.pop(id, None)
        if number is not None:
            del self._own[number]

    def outwards(self, message: Message, frame: bytes) -> bytes:
        """A frame of the client's, as HTTP can carry it."""
        if isinstance(message, Request):
            if isinstance(message.id, int) and message.id != 0 and message.id not in self._own:
                return frame
            number = self._given[message.id] = next(self._numbers)
            self._own[number] = message.id
            return encode_request(number, message.method, _bytes(message.params))
        if isinstance(message, Notification) and message.method == "notifications/cancelled" and self._given:
            params = _decoded(message.params)
            id = params.get("requestId")
            if isinstance(id, int | str) and id in self._given:
                return encode_notification(
                    message.method, encode_json({**params, "requestId": self._given[id]})
                )
        return frame

    def inwards(self, message: Message, frame: bytes) -> bytes:
        """A frame of the server's, as the client expects it."""
        if not self._own:
            return frame
        if isinstance(message, Result):
            own = self.own(message.id)
            body = bytes(message.result)
            renamed = self._renamed(body)
            return frame if own == message.id and renamed is body else encode_result(own, renamed)
        if isinstance(message, Error) and message.id is not None and self.own(message.id) != message.id:
            return encode_error(self.own(message.id), message.code, message.message, message.data)
        if isinstance(message, Notification) and message.params is not None:
            body = bytes(message.params)
            renamed = self._renamed(body)
            return frame if renamed is body else encode_notification(message.method, renamed)
        return frame

    def _renamed(self, body: bytes) -> bytes:
        """The same body, with the client's own id of the subscription that it names."""
        if _SUBSCRIPTION not in body:
            return body
        members = _decoded(msgspec.Raw(body))
        meta = members.get("_meta")
        id = meta.get(META_SUBSCRIPTION_ID) if isinstance(meta, dict) else None
        if not isinstance(meta, dict) or not isinstance(id, int) or id not in self._own:
            return body
        return encode_json({**members, "_meta": {**meta, META_SUBSCRIPTION_ID: self._own[id]}})


def _bytes(raw: msgspec.Raw | None) -> bytes | None:
    return None if raw is None else bytes(raw)


def _decoded(raw: msgspec.Raw | None) -> dict[str, Json]:
    """The members; none where it is no object, or nobody could read it."""
    try:
        value: Json = None if raw is None else msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
