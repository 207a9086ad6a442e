"""Maps request ids of a client to ids that HTTP transports accept: integers other than 0.

A request with another id gets a new one on its way to the server. Its own id is restored in the response, in the
cancellation, and where a subscription is named by the id of its request. Everything else is unchanged, byte for byte.
"""

from itertools import count

from jackstay.errors import RequestId
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
from jackstay.testing._interactions import cancelled_id, meta_of, read_members, read_params
from jackstay.types import META_SUBSCRIPTION_ID, encode_json

# Beyond the ids that clients use, and exact as a double.
FIRST = 1 << 48

_SUBSCRIPTION = META_SUBSCRIPTION_ID.encode()


class IdMap:
    """The mapping of one connection, in both directions."""

    def __init__(self) -> None:
        self._numbers = count(FIRST)
        self._given: dict[RequestId, int] = {}
        self._own: dict[int, RequestId] = {}

    def own(self, id: RequestId) -> RequestId:
        """Return the client's id for an id that is used over HTTP."""
        return self._own.get(id, id) if isinstance(id, int) else id

    def given(self, id: RequestId) -> RequestId:
        """Return the id that is used over HTTP for the client's id."""
        return self._given.get(id, id)

    def forget(self, id: RequestId) -> None:
        """Remove the client's id of a request that has ended."""
        number = self._given.pop(id, None)
        if number is not None:
            del self._own[number]

    def to_server(self, message: Message, frame: bytes) -> bytes:
        """Return the client's frame with ids that HTTP accepts."""
        if isinstance(message, Request):
            if isinstance(message.id, int) and message.id != 0 and message.id not in self._own:
                return frame
            number = self._given[message.id] = next(self._numbers)
            self._own[number] = message.id
            return encode_request(number, message.method, None if message.params is None else bytes(message.params))
        if isinstance(message, Notification) and message.method == "notifications/cancelled" and self._given:
            params = read_params(message.params)
            id = cancelled_id(params)
            if isinstance(params, dict) and id in self._given:
                return encode_notification(message.method, encode_json({**params, "requestId": self._given[id]}))
        return frame

    def to_client(self, message: Message, frame: bytes) -> bytes:
        """Return the server's frame with the client's ids."""
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
        """Return the body with the client's id of its subscription."""
        if _SUBSCRIPTION not in body:
            return body
        members = read_members(body)
        meta = meta_of(members)
        id = meta.get(META_SUBSCRIPTION_ID)
        if not isinstance(id, int) or id not in self._own:
            return body
        return encode_json({**members, "_meta": {**meta, META_SUBSCRIPTION_ID: self._own[id]}})
